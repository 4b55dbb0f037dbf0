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

    None stands for the process's own SDK, if it has set one: nobody can have done that without
    loading OpenTelemetry, so nothing is loaded to find out.
    """
    if telemetry is False or (telemetry is None and "opentelemetry" not in sys.modules):
        return SILENT
    if isinstance(telemetry, Observer):
        return telemetry
    if telemetry is not None and telemetry is not True:
        raise refuse("argument", f"telemetry must be a Telemetry or a bool, not {telemetry!r}")
    from .telemetry import Telemetry, is_wanted  # loads OpenTelemetry, which need not be installed

    return Telemetry() if telemetry or is_wanted() else SILENT
