"""Finding the function that a text names, as --handler and a gateway's `call` do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ..domain.checks import refuse


def load_function(name: str, what: str) -> Callable[[Any], Any]:
    """The function that MODULE:FUNCTION names, found in the working directory too.

    what  what the name was given as, for the message

    Raises RUN_VALIDATION_ERROR / argument when there is none.
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise refuse("argument", f"{what} {name!r} must be MODULE:FUNCTION")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise refuse(
            "argument", f"{what} {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise refuse("argument", f"{what} {name!r} is not callable")
    function: Callable[[Any], Any] = found
    return function
