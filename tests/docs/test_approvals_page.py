"""docs/approvals.md: its handler is right when things go wrong, and its warnings are true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import runjournal
from runjournal import Journal, RunLeaseHandle, Worker, open_journal

PAGE = (Path(runjournal.__file__).parent / "docs" / "approvals.md").read_text(encoding="utf-8")


@pytest.fixture
def journal() -> Iterator[Journal]:
    with open_journal("memory:") as journal:
        yield journal


@pytest.fixture
def payout() -> Any:
    """The page's handler."""
    (code,) = re.findall(r"^```python\n(# file: payout.py\n.*?)^```$", PAGE, re.DOTALL | re.M)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["payout"]


@pytest.mark.parametrize("step", ["save_checkpoint", "suspend", "complete"])
def test_its_handler_survives_an_end_at_any_step(
    journal: Journal, payout: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its process ends just before one of its writes; the next one does it all the same."""
    write = getattr(RunLeaseHandle, step)
    pending = ["once"]

    def end_once(*args: Any, **options: Any) -> Any:
        if pending:
            pending.pop()
            raise SystemExit
        return write(*args, **options)

    monkeypatch.setattr(RunLeaseHandle, step, end_once)
    ledger = journal.ledger()
    ledger.start("r", input={"amount": 120})
    worker = Worker(journal, payout)

    def work(status: str) -> None:
        before = len(pending)
        try:
            record = worker.run_once()
        except SystemExit:  # in the worker's own thread: its process is gone, and its lease
            worker.ledger.release_all()
            record = None
        if before != len(pending):
            record = worker.run_once()
        assert record is not None
        assert record.status == status

    work("suspended")
    ledger.record_decision("r", "manager", "yes")
    ledger.record_decision("r", "finance", "yes")
    work("completed")
    assert pending == []
    assert list(journal.events("r"))[-1].result == {"paid": 120}  # type: ignore[attr-defined]


def test_its_handler_asks_again_for_what_is_undecided(journal: Journal, payout: Any) -> None:
    ledger = journal.ledger()
    ledger.start("r", input={"amount": 120})
    worker = Worker(journal, payout)
    worker.run_once()
    ledger.record_decision("r", "manager", "yes")
    ledger.request_resume("r")  # too early
    record = worker.run_once()
    assert record is not None
    assert (record.status, record.approvals) == ("suspended", {"finance": None})
    ledger.record_decision("r", "finance", "no")
    worker.run_once()
    assert list(journal.events("r"))[-1].result == {"paid": 0}  # type: ignore[attr-defined]


def test_a_resume_that_had_nothing_to_do_is_not_remembered(journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.start("r")
    assert ledger.request_resume("r", command_id="old").status == "queued"
    ledger.acquire("r").suspend(["a"])
    assert ledger.request_resume("r", command_id="old").status == "queued"
