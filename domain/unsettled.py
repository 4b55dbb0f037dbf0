"""Writes whose fate is open: the reply was lost, or others were first again and again."""

from __future__ import annotations

from . import commands as c
from .errors import RUN_CONFLICT, RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE, RunStoreError
from .record import RunRecord

#: How often a command is decided anew when other writers were first.
DECIDE_TRIES = 32
#: How often a write whose reply was lost is asked for, or tried again.
SETTLE_TRIES = 3


class Unsettled:
    """The write of a command whose reply was lost: it may still land, at one version only.

    As a context manager it turns "nothing was written" into "not known": once a write is open, a
    store that cannot be reached any more says nothing about it.
    """

    def __init__(self, command: c.Command) -> None:
        self._command = command
        self._lost_replies = 0
        self.version: int  # where the write was to land: from the first lost reply on

    def again(self, record: RunRecord | None) -> bool:
        """Note a lost reply; whether to go on finding out."""
        if self._lost_replies == 0:
            self.version = record.version if record else 0
        self._lost_replies += 1
        return self._lost_replies <= SETTLE_TRIES

    def moved(self, record: RunRecord) -> bool:
        """Whether a write is open and the run has moved past where it was to land."""
        return self._lost_replies > 0 and record.version > self.version

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _tb: object) -> None:
        if not isinstance(error, RunStoreError) or not self._lost_replies:
            return
        if error.code in (RUN_STORE_UNAVAILABLE, RUN_OUTCOME_UNKNOWN):
            raise unknown_outcome(self._command.run_id, self._command.command_id) from error


def contended(run_id: str, record: RunRecord | None) -> RunStoreError:
    """That others were first each time within the bound; nothing was written."""
    return RunStoreError(
        RUN_CONFLICT,
        "contended",
        f"run {run_id!r}: other writers were first {DECIDE_TRIES} times",
        record=record,
    )


def unknown_outcome(run_id: str, command_id: str) -> RunStoreError:
    """That a command's reply was lost and its fate could not be learnt within the bound."""
    return RunStoreError(
        RUN_OUTCOME_UNKNOWN,
        "reply_lost",
        f"run {run_id!r}: whether command {command_id!r} was written is not known",
    )
