"""Which observer a journal gets. Loads OpenTelemetry only where that is wanted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...domain.checks import refuse
from .observer import SILENT, Observer

if TYPE_CHECKING:
    from .telemetry import Telemetry


def observer_of(telemetry: Telemetry | bool | None) -> Observer:
    """The observer that the argument of `open_journal` stands for.

    Where nobody listens it is the silent one, so that nothing stands between the journal and its
    store. None stands for the process's own SDK, if it has set one up: nobody can have done that
    without loading OpenTelemetry, so nothing is loaded to find out.
    """
    if telemetry is False or (telemetry is None and "opentelemetry" not in sys.modules):
        return SILENT
    from .telemetry import Telemetry  # loads OpenTelemetry, which need not be installed

    if telemetry is None or telemetry is True:
        telemetry = Telemetry()
    if not isinstance(telemetry, Telemetry):
        raise refuse("argument", f"telemetry must be a Telemetry or a bool, not {telemetry!r}")
    return telemetry if telemetry.listens else SILENT
