"""Decisions that come at once: all are kept, contradictions are told, the run is woken once.

Each race is run on connections of their own to the same journal, as several hosts have them; the
memory store has one, which threads share.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunLeaseHandle, RunRecord, RunStoreError, open_journal

from .decision_races import Contest, assert_woken_once, since, suspend

DECIDER = Path(__file__).with_name("deciding_process.py")
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
TRIES = 200 if PROVE else 60
#: Races of each kind that have a winner: by turns the one, the other, and whoever is faster.
RACES = 60 if PROVE else 15
PROCESS_TRIES = 1000 if PROVE else 60

Verify = Callable[[Journal, str], None]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def journals(journal_url: str) -> Iterator[list[Journal]]:
    """The same journal three times over."""
    faster = "?synchronous=normal" if journal_url.startswith("sqlite") else ""
    with ExitStack() as opened:
        doors = [opened.enter_context(open_journal(journal_url + faster))]
        while len(doors) < 3:
            another = journal_url != "memory:"
            doors.append(
                opened.enter_context(open_journal(journal_url + faster)) if another else doors[0]
            )
        yield doors


@pytest.fixture
def contest(journals: list[Journal], monkeypatch: pytest.MonkeyPatch) -> Contest:
    return Contest(journals, monkeypatch)


def decide(journal: Journal, run_id: str, approval_id: str, decision: str) -> RunRecord:
    return journal.ledger(owner="approver").record_decision(
        run_id, approval_id, decision, actor=f"{approval_id}'s {decision}"
    )


def cause(answer: Any) -> tuple[str, str]:
    assert isinstance(answer, RunStoreError), answer
    return answer.code, answer.reason


def test_two_decisions_at_once_are_both_kept(
    journals: list[Journal], contest: Contest, verify_run: Verify
) -> None:
    for number in range(TRIES):
        run_id = f"run-{number}"
        suspended = suspend(journals[2], run_id, ["a", "b"])
        answers = contest.run(
            [
                partial(decide, journals[0], run_id, "a", "yes"),
                partial(decide, journals[1], run_id, "b", "no"),
            ]
        )
        # Whoever was first left the run suspended; whoever was last queued it.
        assert sorted(a.status for a in answers) == ["queued", "suspended"]
        assert_woken_once(journals, suspended, {"a": "yes", "b": "no"})
        verify_run(journals[0], run_id)


def test_of_two_that_contradict_each_other_one_is_told(
    journals: list[Journal], contest: Contest, verify_run: Verify
) -> None:
    for number in range(RACES):
        run_id = f"run-{number}"
        suspended = suspend(journals[0], run_id, ["a", "b"])
        calls = [("a", "yes"), ("a", "no"), ("b", "yes")]
        answers = contest.run(
            [
                partial(decide, journal, run_id, *call)
                for journal, call in zip(journals, calls, strict=True)
            ],
            first=(0, 1, 2, None)[number % 4],
        )
        (loser,) = (n for n, a in enumerate(answers) if isinstance(a, RunStoreError))
        kept, dropped = ("no", "yes") if loser == 0 else ("yes", "no")
        assert loser != number % 4
        assert cause(answers[loser]) == ("RUN_CONFLICT", "different_decision")
        assert f"'a' was decided as {kept!r}, not {dropped!r}" in str(answers[loser])
        assert_woken_once(journals, suspended, {"a": kept, "b": "yes"})
        verify_run(journals[0], run_id)


def test_two_that_say_the_same_are_one_decision(
    journals: list[Journal], contest: Contest, verify_run: Verify
) -> None:
    for number in range(RACES):
        run_id = f"run-{number}"
        suspended = suspend(journals[2], run_id, ["a"])
        answers = contest.run([partial(decide, j, run_id, "a", "yes") for j in journals[:2]])
        assert [a.approvals for a in answers] == [{"a": "yes"}] * 2
        assert_woken_once(journals, suspended, {"a": "yes"})
        verify_run(journals[0], run_id)


#: By name: what races with the decision, and the refusal of a decision that comes after it.
RIVALS: dict[str, tuple[Callable[[Journal, str], Any], tuple[str, str]]] = {
    "cancel": (
        lambda journal, run_id: journal.ledger().cancel(run_id),
        ("RUN_ALREADY_TERMINAL", "cancelled"),
    ),
    "restore": (
        lambda journal, run_id: journal.ledger().restore(run_id, heartbeat=False),
        ("RUN_INVALID_TRANSITION", "not_suspended"),
    ),
    "request_resume": (
        lambda journal, run_id: journal.ledger().request_resume(run_id),
        ("RUN_INVALID_TRANSITION", "not_suspended"),
    ),
}


@pytest.mark.parametrize("resume_when_decided", [True, False], ids=["resumes", "waits"])
@pytest.mark.parametrize("rival", RIVALS)
def test_decision_against(
    journals: list[Journal],
    contest: Contest,
    verify_run: Verify,
    rival: str,
    resume_when_decided: bool,
) -> None:
    """The decision is in the history, or whoever gave it was told that it came too late."""
    act, too_late = RIVALS[rival]
    ends: Counter[str] = Counter()
    for number in range(RACES):
        run_id = f"run-{number}"
        suspended = suspend(journals[2], run_id, ["a"], resume_when_decided=resume_when_decided)
        first = (0, 1, None)[number % 3]
        decision, other = contest.run(
            [
                partial(decide, journals[0], run_id, "a", "yes"),
                partial(act, journals[1], run_id),
            ],
            first,
        )
        was_first = not isinstance(decision, RunStoreError)
        assert first is None or was_first == (first == 0)
        assert was_first or cause(decision) == too_late
        ends["decided" if was_first else "too late"] += 1
        told = ["a=yes"] if was_first else []
        if rival == "cancel":
            told += ["resume_requested"] if was_first and resume_when_decided else []
            told += ["cancelled"]
        else:
            told += ["resume_requested"]
        told += ["lease_granted"] if rival == "restore" else []
        assert since(journals[2], suspended) == told
        assert_state(journals[2], rival, other, {"a": "yes" if was_first else None})
        verify_run(journals[2], run_id)
    assert min(ends["decided"], ends["too late"]) >= RACES // 3


def assert_state(journal: Journal, rival: str, other: Any, approvals: dict[str, Any]) -> None:
    """Where the run is after a decision and its rival, and who can have it."""
    if rival == "restore":
        assert isinstance(other, RunLeaseHandle)
        assert (other.held, other.record.approvals) == (True, approvals)
        assert other.record == journal.get(other.run_id)
        assert journal.ledger().claim() is None
        other.complete()
    elif rival == "cancel":
        record = journal.get(other.run_id)
        assert other == record
        assert (other.status, other.approvals, other.suspension) == ("cancelled", approvals, None)
        assert journal.ledger().claim() is None
    else:
        assert (other.status, other.approvals, other.suspension) == ("queued", approvals, None)
        lease = journal.ledger().claim(heartbeat=False)
        assert lease is not None
        assert (lease.run_id, lease.record.approvals) == (other.run_id, approvals)
        assert journal.ledger().claim() is None
        lease.complete()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_decisions_of_two_processes(
    request: pytest.FixtureRequest, backend: str, start_script: Start, verify_run: Verify
) -> None:
    url = str(request.getfixturevalue(f"{backend}_url"))
    deciders = [start_script(DECIDER, url, approval) for approval in ("a", "b")]
    last: Counter[str] = Counter()
    with open_journal(url) as journal, open_journal(url) as another:
        for number in range(PROCESS_TRIES):
            run_id = f"run-{number}"
            suspended = suspend(journal, run_id, ["a", "b"])
            at = time.monotonic() + 0.002
            for decider in deciders:
                assert decider.stdin is not None
                decider.stdin.write(f"{run_id} {at}\n")
                decider.stdin.flush()
            for decider in deciders:
                assert decider.stdout is not None
                assert decider.stdout.readline() == f"{run_id} decided\n"
            last[since(journal, suspended)[-2]] += 1
            assert_woken_once([journal, another], suspended, {"a": "yes", "b": "yes"})
            verify_run(journal, run_id)
    print(f"{PROCESS_TRIES} pairs of decisions; last was {dict(last)}")
