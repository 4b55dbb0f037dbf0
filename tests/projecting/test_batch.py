"""Plan and project: a page of events becomes the rows to write, up to the first that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from runjournal import Event, RunStoreError, open_journal
from runjournal.adapters.contract.tools import SteppedClock, refused
from runjournal.projections.batch import ERROR_LENGTH, plan, project
from runjournal.projections.daily_outcomes import DailyOutcomes, totals
from runjournal.projections.ports import RowWrite
from runjournal.projections.projector import check_projector
from runjournal.projections.takeovers import KEPT, Takeovers

from .projectors import Seen

Page = list[tuple[int, Callable[[], Event]]]


@pytest.fixture
def page() -> Page:
    """The events 1 to 4 of the run "a"."""
    with open_journal("memory:") as journal, journal.ledger().acquire("a") as lease:
        lease.save_checkpoint(1)
        lease.complete()
        return [(n, lambda e=e: e) for n, e in enumerate(journal.events("a"), 1)]  # type: ignore[misc]


def run(projector: Any, page: Page, rows: dict[str, bytes] | None = None) -> Any:
    planned = plan(projector, page)
    return project(projector, planned, rows or {}, orjson.dumps, orjson.loads)


def test_one_write_for_each_row(page: Page) -> None:
    batch = run(Seen(), page, {"a": b'{"versions":[0]}'})
    assert batch == ([RowWrite("a", b'{"versions":[0,1,2,3,4]}', 4)], None)


def test_what_failed_leaves_no_trace_in_its_row(page: Page) -> None:
    def fail(event: Event) -> None:
        if event.originator_version == 3:
            raise KeyError("x" * 5000)

    batch = run(Seen(before=fail), page)
    assert batch.writes == [RowWrite("a", b'{"versions":[1,2]}', 2)]
    assert batch.poison.position == 3
    assert batch.poison.error.startswith("KeyError: 'xxx")
    assert len(batch.poison.error) == ERROR_LENGTH


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([1], "TypeError: project() gave a list"),
        ({"x": float}, "TypeError"),
        (ValueError("\ud800"), "ValueError: \\ud800"),
    ],
    ids=str,
)
def test_row_that_cannot_be(page: Page, given: Any, told: str) -> None:
    class Odd(Seen):
        def project(self, row: Any, event: Event) -> Any:
            if isinstance(given, Exception):
                raise given
            return given

    batch = run(Odd(), page)
    assert batch.writes == []
    assert batch.poison.position == 1
    assert batch.poison.error.startswith(told)


@pytest.mark.parametrize("key", ["", 1, "a\0b", "x" * 256])
def test_key_that_cannot_be(page: Page, key: Any) -> None:
    projector = Seen()
    projector.key_of = lambda event: key if event.originator_version == 2 else "row"  # type: ignore[method-assign]
    batch = run(projector, page)
    assert batch.writes == [RowWrite("row", b'{"versions":[1]}', 1)]
    assert batch.poison.position == 2
    assert "RUN_VALIDATION_ERROR/identifier" in batch.poison.error


def test_event_that_cannot_be_opened(page: Page) -> None:
    def broken() -> Event:
        raise RunStoreError("RUN_INTEGRITY_ERROR", "unreadable_event", "it is damaged")

    batch = run(Seen(), [*page[:2], (3, broken), *page[3:]])
    assert [w.position for w in batch.writes] == [2]
    assert batch.poison == (3, "RUN_INTEGRITY_ERROR/unreadable_event: it is damaged")


def test_interrupt_is_no_poison(page: Page) -> None:
    def interrupt(_event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Seen(before=interrupt), page)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "Upper"}, "identifier"),
        ({"name": "a-b"}, "identifier"),
        ({"name": "x" * 42}, "identifier"),
        ({"name": "run_records"}, "identifier"),
        ({"version": 0}, "argument"),
        ({"version": "1"}, "argument"),
        ({"topics": ("run.compleated",)}, "argument"),
        ({"topics": "run.completed"}, "argument"),
    ],
    ids=str,
)
def test_projectors_that_are_refused(change: dict[str, Any], reason: str) -> None:
    with refused("RUN_VALIDATION_ERROR", reason):
        check_projector(Seen(**change), ["run.completed"])
    check_projector(Seen(name="x" * 41, topics=("run.completed",)), ["run.completed"])


# The projectors of the product.


def test_takeovers() -> None:
    clock = SteppedClock()
    with open_journal("memory:") as journal:
        for number in range(KEPT + 2):
            ledger = journal.ledger(owner=f"w{number}", clock=clock, lease_ttl=10)
            ledger.acquire("a", heartbeat=False)
            clock.advance(11)
        runner = journal.projection(Takeovers())
        runner.catch_up()
        row = runner.get("a")
        assert row is not None
        assert (row["granted"], row["taken_over"]) == (KEPT + 2, KEPT + 1)
        assert len(row["grants"]) == KEPT
        last = row["grants"][-1]
        assert last.pop("at") == (clock.now - timedelta(seconds=11)).isoformat()
        assert last == {
            "owner": f"w{KEPT + 1}",
            "fencing_token": KEPT + 2,
            "attempt": KEPT + 2,
            "took_over": {"owner": f"w{KEPT}", "fencing_token": KEPT + 1},
        }


def test_daily_outcomes() -> None:
    clock = SteppedClock()
    with open_journal("memory:") as journal:
        ledger = journal.ledger(clock=clock)
        for day in range(2):
            for kind, ends in {"import": "ccf", "scan": "cx"}.items():
                for n, end in enumerate(ends):
                    run_id = f"{kind}-{day}-{n}"
                    ledger.start(run_id, kind=kind)
                    if end == "x":
                        ledger.cancel(run_id)
                    else:
                        lease = ledger.acquire(run_id, heartbeat=False)
                        lease.complete() if end == "c" else lease.fail("broken")
            clock.advance(86400)
        ledger.start("open", kind="scan")
        runner = journal.projection(DailyOutcomes())
        runner.catch_up()
        rows = [row for _, row in runner.rows()]
        counts = {
            "import": {"completed": 2, "failed": 1},
            "scan": {"completed": 1, "cancelled": 1},
        }
        assert totals(rows) == {"2026-01-01": counts, "2026-01-02": counts}
        assert [kind for row in rows for kind in row["open"].values()] == ["scan"]
