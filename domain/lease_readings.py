"""LeaseReadings: what a holder knows of its lease, and what it can read of its run."""

from __future__ import annotations

from typing import Any

from .chain import invocation_id
from .checks import check_identifier
from .engine import Engine
from .errors import RunStoreError
from .record import RunRecord
from .writer import HolderWriter


class LeaseReadings:
    """The part of a RunLeaseHandle that changes nothing."""

    _engine: Engine
    _run_id: str
    _writer: HolderWriter

    # What the holder knows without asking the store.

    @property
    def run_id(self) -> str:
        return self._run_id

    @property
    def owner(self) -> str:
        """Who holds it: the owner the lease was granted to."""
        return self._writer.owner

    @property
    def fencing_token(self) -> int:
        """The token to hand to every system that can compare it."""
        return self._writer.token

    @property
    def attempt(self) -> int:
        """1, plus how often an abandoned lease of this run was taken over."""
        return self._writer.record.attempt

    @property
    def ttl(self) -> float:
        """Seconds a renewal lasts."""
        return self._writer.ttl

    @property
    def record(self) -> RunRecord:
        """The run's record after this handle's last write, with the lease's known deadline."""
        return self._writer.record

    @property
    def held(self) -> bool:
        """Whether the lease can be trusted now: not lost, not given back, not nearly expired."""
        return self._writer.trusted_for() > 0

    @property
    def trusted_for(self) -> float:
        """Seconds for which the lease can be trusted without asking the store; 0 once it is not."""
        return self._writer.trusted_for()

    @property
    def lost(self) -> RunStoreError | None:
        """The latched loss, or None."""
        return self._writer.lost

    @property
    def checkpoint(self) -> Any:
        """The run's last saved state, read from its event; None when there is none.

        Every reading is a fresh copy. Raises RUN_INTEGRITY_ERROR when the event cannot be read.
        """
        return self._engine.read_checkpoint(self._writer.record)

    @property
    def input(self) -> Any:
        """The run's input, read from its first event."""
        return self._engine.read_input(self._run_id)

    def invocation_id(self, name: str) -> str:
        """A stable idempotency key for the side effect `name` of this run.

        SHA-256 of the canonical [run id, name]: the same in every attempt and for every holder,
        so that the far end can recognise a repetition (seed 003, "唯一残留的窗口").
        """
        return invocation_id(self._run_id, check_identifier(name, "name"))
