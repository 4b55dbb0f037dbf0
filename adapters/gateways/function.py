"""CallableGateway: hands a delivery to a function of the host's."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from ...domain.checks import refuse, shown
from ...domain.gateway import DeliveryRequest


class CallableGateway:
    """Calls a function with each DeliveryRequest.

    function  called from several threads at once. What it returns is not used; it raises
              DeliveryFailed, DeliveryRefused or DeliveryAmbiguous when it has not delivered

    Raises RUN_VALIDATION_ERROR / argument for what is not callable, and for an async function:
    calling one delivers nothing.
    """

    def __init__(self, function: Callable[[DeliveryRequest], Any]) -> None:
        if not callable(function):
            raise refuse("argument", f"function must be callable, not {shown(function)}")
        if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
            raise refuse("argument", "function must not be async")
        self._function = function

    def deliver(self, request: DeliveryRequest) -> None:
        """Call the function; whatever it raises comes through."""
        self._function(request)
