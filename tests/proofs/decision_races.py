"""What the proofs of decisions race with: an order of writing, and what must hold afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from runjournal import Journal, RunRecord, RunStoreError
from runjournal.adapters.contract.tools import race

PATIENCE = 60.0

Act = Callable[[], Any]


class Contest:
    """Races in which all contenders decide on the same version before any of them writes.

    So each race is a real one: all but one lose the guard and must decide again.
    """

    def __init__(self, journals: Sequence[Journal], monkeypatch: pytest.MonkeyPatch) -> None:
        self._me = threading.local()
        self._first: int | None = None
        self._decided = threading.Barrier(1)
        self._written = threading.Event()
        for store in {id(j.store): j.store for j in journals}.values():
            monkeypatch.setattr(store, "append", partial(self._append, store.append))

    def run(self, acts: Sequence[Act], first: int | None = None) -> list[Any | RunStoreError]:
        """What each act returned or was refused with. `first` writes first; None: whoever does."""
        self._first = first
        self._decided = threading.Barrier(len(acts))
        self._written = threading.Event()

        def act(number: int) -> Any:
            self._me.number = number
            return acts[number]()

        return race(len(acts), act)

    def _append(self, append: Callable[..., Any], *args: Any) -> Any:
        number = self._me.__dict__.pop("number", None)  # only a contender's first write meets
        if number is None:
            return append(*args)
        self._decided.wait(PATIENCE)
        if number == self._first:
            try:
                return append(*args)
            finally:
                self._written.set()
        if self._first is not None:
            assert self._written.wait(PATIENCE)
        return append(*args)


def suspend(
    journal: Journal, run_id: str, pending: Sequence[str], *, resume_when_decided: bool = True
) -> RunRecord:
    """A run with a checkpoint that waits for these approvals."""
    lease = journal.ledger(owner="asker").acquire(run_id, heartbeat=False)
    lease.save_checkpoint({"asked in": run_id})
    return lease.suspend(pending, resume_when_decided)


def since(journal: Journal, suspended: RunRecord) -> list[str]:
    """What happened since the suspension: topics, and of decisions what was decided."""
    told = []
    for event in journal.events(suspended.run_id, after_version=suspended.version):
        fields: Any = event
        name = event.topic.removeprefix("run.")
        told.append(
            f"{fields.approval_id}={fields.decision}" if name == "approval_decided" else name
        )
    return told


def assert_woken_once(
    journals: Sequence[Journal], suspended: RunRecord, decisions: dict[str, str]
) -> None:
    """All decisions are there, the run was queued once, and one worker gets it with all of them."""
    told = since(journals[0], suspended)
    assert sorted(told[:-1]) == sorted(f"{a}={d}" for a, d in decisions.items())
    assert told[-1] == "resume_requested"
    record = journals[-1].get(suspended.run_id)
    assert record is not None
    assert (record.status, record.approvals, record.suspension) == ("queued", decisions, None)
    claims = race(2, lambda n: journals[n].ledger(owner=f"worker-{n}").claim(heartbeat=False))
    (lease,) = (c for c in claims if c is not None)
    assert not isinstance(lease, RunStoreError)
    assert lease.run_id == suspended.run_id
    assert lease.record.approvals == decisions
    assert lease.record.checkpoint_ref == suspended.checkpoint_ref
    assert lease.checkpoint == {"asked in": suspended.run_id}
    assert journals[0].ledger(owner="late").claim() is None
    lease.complete()
