"""Cases of retention: times without a zone, live data, and prunes that were cut off."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.contract.tools import SteppedClock, refused

from ..pruning.conftest import end, later

SCRIPT = Path(__file__).parent.parent / "pruning" / "killed_prune.py"
NEPAL = timezone(timedelta(hours=5, minutes=45))
INSTANT = timedelta(microseconds=1)


@pytest.mark.parametrize(
    "naive",
    [
        datetime(2026, 1, 1),  # noqa: DTZ001 - that is the case, and what utcnow() gives
        date(2026, 1, 1),
        "2026-01-01T00:00:00Z",
        1_767_225_600,
        None,
    ],
    ids=repr,
)
def test_case_22_naive(journal: Journal, naive: Any) -> None:
    """Refused before anything runs, and not taken for some zone or other."""
    end(journal, "run")
    before = list(journal.export())
    for prune in (journal.prune, journal.prune_all):
        with refused("RUN_VALIDATION_ERROR", "time"):
            prune(naive)
    assert list(journal.export()) == before


def test_case_22_aware(journal: Journal, clock: SteppedClock) -> None:
    """Any zone means the same instant, to the microsecond."""
    end(journal, "first", clock=clock)
    ended = clock()
    clock.advance(1)
    end(journal, "second", clock=clock)
    assert journal.prune(ended.astimezone(NEPAL)).runs == 0
    done = journal.prune((ended + INSTANT).astimezone(NEPAL))
    assert (done.runs, done.run_ids, done.done) == (1, ["first"], True)
    (event,) = [e for _, e in journal.subscribe(follow=False) if e.topic == "audit.runs_pruned"]
    assert event.ended_before == ended + INSTANT  # type: ignore[attr-defined]
    with pytest.raises(RunStoreError) as caught:
        journal.get("first")
    assert caught.value.record is not None
    assert caught.value.record.ended_at == ended


def test_case_22_in_the_future(journal: Journal) -> None:
    """A year that was mistyped would remove everything that has ended."""
    end(journal, "run")
    with refused("RUN_VALIDATION_ERROR", "argument"):
        journal.prune(datetime.now(UTC) + timedelta(days=1))
    assert journal.get("run") is not None


def test_case_66_live_data(journal: Journal, clock: SteppedClock) -> None:
    """It is not age that counts: what goes on, or has just ended, stays, however old it is."""
    ledger = journal.ledger(owner="worker", clock=clock, lease_ttl=60)
    for name in ("just-ended", "running", "suspended", "queued"):
        ledger.start(name)
    end(journal, "long-ago", "long-ago-too", clock=clock)
    clock.advance(30 * 86_400)
    ledger.acquire("suspended", heartbeat=False).suspend(["boss"])
    clock.advance(60 * 86_400)
    ledger.acquire("running", heartbeat=False)
    ledger.acquire("just-ended", heartbeat=False).complete()
    clock.advance(3600)
    before = [journal.get(name) for name in ("just-ended", "running", "suspended", "queued")]
    cut = clock() - timedelta(days=30)
    told = journal.prune(cut, dry_run=True)
    assert told.run_ids == ["long-ago", "long-ago-too"]
    assert [r.run_id for r in journal.runs(status="completed")][-2:] == told.run_ids
    done = journal.prune(cut)
    assert (done.run_ids, done.events, done.held) == (told.run_ids, told.events, told.held)
    assert [
        journal.get(name) for name in ("just-ended", "running", "suspended", "queued")
    ] == before
    assert journal.verify().findings == []


@pytest.mark.parametrize("point", ["line:1", "line:15", "bury:1", "commit:2", "done:2"])
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_case_68_killed(
    request: pytest.FixtureRequest,
    start_script: Any,
    tmp_path: Path,
    wait_until: Callable[[Callable[[], Any]], None],
    backend: str,
    point: str,
) -> None:
    """No orphan, no run lost, the archive whole, and no id used twice; the next one finishes."""
    url = str(request.getfixturevalue(f"{backend}_url"))
    archive = tmp_path / "archive.jsonl"
    names = [f"run-{n}" for n in range(7)]
    with open_journal(url) as journal:
        end(journal, *names, input="first")
        histories = {name: journal.export_run(name) for name in names}
    process = start_script(SCRIPT, url, archive, point)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (-9, "", "")

    with open_journal(url) as journal:
        assert journal.verify().findings == []
        there = {r.run_id for r in journal.runs()}
        # Batches of two: how many were committed is told by where it was killed.
        whole = {"line:1": 0, "line:15": 2, "bury:1": 0, "commit:2": 2, "done:2": 4}[point]
        assert len(there) == 7 - whole
        for name in there:
            assert journal.export_run(name) == histories[name]
        for name in set(names) - there:
            with refused("RUN_CONFLICT", "pruned"):
                journal.ledger().start(name, input="second")
            assert not list(journal.events(name))

        def finished() -> bool:
            # The server may not have noticed at once that its client is gone.
            journal.prune_all(later(), limit=2, archive=archive)
            return journal.runs() == []

        wait_until(finished)
        assert journal.verify().findings == []
    with open_journal("memory:") as elsewhere:
        done = elsewhere.import_from(archive)
        assert (done.torn, done.conflicts) == ((), [])
        assert {name: elsewhere.export_run(name) for name in names} == histories
        assert elsewhere.verify().findings == []
