"""The specification of a prune, as docs/prune.md says it: what goes, what stays, what is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .model import ENDED, Run

#: How far a projection has come with each run: the versions of its stream and its delivery's.
Passed = dict[str, tuple[int, int]]


@dataclass
class Expected:
    """What one prune must answer."""

    run_ids: list[str] = field(default_factory=list)
    events: int = 0
    held: dict[str, int] = field(default_factory=dict)
    done: bool = True


def choose(
    runs: dict[str, Run], before: datetime, limit: int | None, passed: Passed | None
) -> Expected:
    """The longest ended first, at most `limit`; a run that somebody still needs is passed over.

    passed  of the projection that counts; None where there is none, or it is to be ignored
    """
    expected = Expected()
    ended = sorted(
        (run["stamp"], name)
        for name, run in runs.items()
        if run and not run["pruned"] and run["status"] in ENDED and run["stamp"] < before
    )
    for _, name in ended:
        if len(expected.run_ids) == limit:
            expected.done = False
            break
        reason = _held_back(runs, name, passed)
        if reason is None:
            expected.run_ids.append(name)
            expected.events += sum(versions(runs[name]))
        else:
            expected.held[reason] = expected.held.get(reason, 0) + 1
    return expected


def _held_back(runs: dict[str, Run], name: str, passed: Passed | None) -> str | None:
    run = runs[name]
    if run["delivery"] is not None and run["delivery"]["status"] != "delivered":
        return "undelivered"
    if any(r and r["parent"] == name and r["status"] not in ENDED for r in runs.values()):
        return "live_child"
    if passed is not None and passed.get(name) != versions(run):
        return "projection"
    return None


def bury(run: Run) -> list[Any]:
    """Leave of the run what answers a repeated command; the versions of what went."""
    gone = [v for v in versions(run) if v]
    run.update(pruned=True, approvals={}, failures=0, checkpoint=None, delivery=None)
    return gone


def versions(run: Run) -> tuple[int, int]:
    """How long the run's stream is, and its delivery's."""
    if not run:
        return 0, 0
    return len(run["history"]), len(run["delivery"]["history"]) if run["delivery"] else 0
