"""Fixtures for the tests of programs that embed runjournal: pytest finds them by itself.

run_journal      a new journal, whose ledgers live by run_clock; on SQLite unless `run_journal_url`
                 is overridden
run_journal_url  its address
run_clock        a clock that moves only when told to
kill_lease       lets somebody else take a held run over, as after the holder's death
lost_reply       lets the journal commit an append and lose the reply
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..domain.lease import RunLeaseHandle
    from .contract.tools import SteppedClock
    from .journal import Journal

#: What of the store is away while a lost reply's connection stays down.
_OTHERS = ("get", "read", "now", "claim", "get_delivery", "due_deliveries")
_APPENDS = ("append", "advance_delivery")


@pytest.fixture
def run_journal_url(tmp_path: Path) -> str:
    """Override it to run the tests on another database: it must be a new one for each test."""
    return f"sqlite:///{tmp_path / 'runjournal.db'}"


@pytest.fixture
def run_clock() -> SteppedClock:
    """Stands at the moment the test began; `run_clock.advance(seconds)` moves it."""
    from .contract.tools import SteppedClock

    return SteppedClock(datetime.now(UTC))


@pytest.fixture
def run_journal(run_journal_url: str, run_clock: SteppedClock) -> Iterator[Journal]:
    """A new journal. Its ledgers, also a worker's, live by `run_clock` if not told otherwise."""
    from .opening import open_journal

    with open_journal(run_journal_url) as journal:
        held: Any = journal
        held.ledger = partial(journal.ledger, clock=run_clock)
        held.delivery_ledger = partial(journal.delivery_ledger, clock=run_clock)
        yield journal


@pytest.fixture
def kill_lease(
    run_journal: Journal, run_clock: SteppedClock
) -> Callable[[RunLeaseHandle | str], RunLeaseHandle]:
    """`kill_lease(lease)`, or of a run id: the lease runs out, and another owner takes over.

    Returns the other's lease: go on with it, or `release()` it to whoever comes next. What the
    first holder does from then on is refused with RUN_LEASE_LOST. `run_clock` moves on to the
    lease's end, so leases that end no later run out as well. Raises RUN_VALIDATION_ERROR / argument
    when nobody holds the run.
    """

    def kill(held: RunLeaseHandle | str) -> RunLeaseHandle:
        from ..domain.checks import refuse
        from ..domain.errors import RUN_LEASE_HELD, RunStoreError

        run_id = held if isinstance(held, str) else held.run_id
        other = run_journal.ledger("taker")
        while True:
            record = run_journal.get(run_id)
            if record is None or record.lease is None:
                raise refuse("argument", f"nobody holds run {run_id!r}: there is no lease to kill")
            run_clock.now = max(run_clock.now, record.lease.expires_at)
            try:
                return other.acquire(run_id, heartbeat=False)
            except RunStoreError as e:
                if e.code != RUN_LEASE_HELD:  # a heartbeat came first
                    raise

    return kill


@pytest.fixture
def lost_reply(
    run_journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AbstractContextManager[None]]:
    """`with lost_reply():` the first append in the block is committed, and its reply is lost.

    The ledger then reads back what became of it, and the caller notices nothing.

    times       so many appends lose their reply
    stays_down  the journal cannot be reached again before the end of the block: the caller gets
                RUN_OUTCOME_UNKNOWN, and `ledger.resolve(command_id, run_id)` tells it afterwards
    """
    store: Any = run_journal.store

    @contextmanager
    def lose(times: int = 1, stays_down: bool = False) -> Iterator[None]:
        from ..domain.errors import RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE, RunStoreError

        lost = 0

        def reach(method: Callable[..., Any], appends: bool, *args: Any, **kwargs: Any) -> Any:
            nonlocal lost
            if stays_down and lost:
                raise RunStoreError(RUN_STORE_UNAVAILABLE, "failed", "the journal is cut off")
            answer = method(*args, **kwargs)
            if appends and lost < times:
                lost += 1
                raise RunStoreError(RUN_OUTCOME_UNKNOWN, "reply_lost", "the reply was lost")
            return answer

        with monkeypatch.context() as patch:
            for name in _OTHERS + _APPENDS:
                wrapped = partial(reach, getattr(store, name), name in _APPENDS)
                patch.setattr(store, name, wrapped)
            yield

    return lose
