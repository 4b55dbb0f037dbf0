"""The races: what is there before, which commands meet, and how it may end.

`ends` is written by hand: every history that the run may have got since it was prepared. Each of
them has to come, and no other one may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import meetings as m
from . import more_meetings as mm
from .scheduler import Act
from .world import World

Ends = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Race:
    """Commands that meet at one run.

    prepare   makes the run, and gives the commands by name
    ends      the histories that may come of it; of the delivery's stream as well
    refusals  what the commands may be refused with, as code/reason
    faulty    the commands whose commit may be lost, or the reply to it
    locked    whether it is played once more with somebody who only locks the run's row
    also      further histories that may come of it when a commit is lost, or the row is locked
    apart     whether it needs a journal of its own: it looks at all that has ended
    open      the commands that may never learn whether a lost commit was made
    holder    the command that is refused once the time has passed
    taken_back  whether what one of them was told is rolled back by its host
    """

    prepare: Callable[[World, str], Mapping[str, Act]]
    ends: Ends
    refusals: frozenset[str] = frozenset()
    faulty: tuple[str, ...] = ()
    locked: bool = False
    also: Ends = frozenset()
    apart: bool = False
    backends: tuple[str, ...] = ("sqlite", "postgres")
    taken_back: bool = False
    open: frozenset[str] = frozenset()
    holder: str | None = None


def _ends(*histories: str) -> Ends:
    """Histories, each written with commas."""
    return frozenset(tuple(filter(None, h.split(", "))) for h in histories)


def _set(*names: str) -> frozenset[str]:
    return frozenset(names)


_A, _B = "checkpoint_saved a", "lease_granted b 2"
_LOST = _set("RUN_LEASE_LOST/expired", "RUN_LEASE_LOST/taken_over", "RUN_LEASE_HELD/held")

RACES: dict[str, Race] = {
    "append, takeover": Race(
        m.append_and_takeover,
        _ends("", _A, _B, f"{_A}, {_B}"),
        _LOST,
        faulty=("append", "takeover"),
        locked=True,
        open=_set("append"),
        holder="append",
    ),
    "renew, claim": Race(
        m.renew_and_claim,
        _ends("", _B),
        _LOST,
        faulty=("renew", "claim"),
        locked=True,
        open=_set("renew", "claim"),
        holder="renew",
    ),
    "renew, takeover": Race(
        m.renew_and_takeover,
        _ends("", _B),
        _LOST,
        faulty=("renew", "takeover"),
        locked=True,
        open=_set("renew"),
        holder="renew",
    ),
    "claim, claim": Race(
        m.claim_and_claim,
        _ends("lease_granted a 1", "lease_granted b 1"),
        faulty=("a",),
        also=_ends(""),
        locked=True,
        open=_set("a"),
    ),
    "claim, cancel": Race(
        m.claim_and_cancel,
        _ends("cancelled cancelled", "lease_granted a 1, cancelled cancelled"),
        faulty=("claim", "cancel"),
        open=_set("claim"),
    ),
    "adopted, holder": Race(
        m.adopted_and_holder, _ends(f"{_A}, {_A}"), faulty=("holder",), locked=True
    ),
    "adopted, takeover": Race(
        m.adopted_and_takeover,
        _ends("", _A, _B, f"{_A}, {_B}"),
        _LOST,
        faulty=("adopted",),
        open=_set("adopted"),
        holder="adopted",
    ),
    "complete, cancel": Race(
        m.complete_and_cancel,
        _ends("completed a, requested", "cancelled cancelled, requested"),
        _set("RUN_LEASE_LOST/cancelled", "RUN_ALREADY_TERMINAL/completed"),
        faulty=("complete", "cancel"),
        locked=True,
    ),
    "release, cancel": Race(
        m.release_and_cancel,
        _ends("cancelled cancelled", "lease_released, cancelled cancelled"),
        _set("RUN_LEASE_LOST/cancelled"),
        faulty=("release",),
    ),
    "suspend, complete": Race(
        m.suspend_and_complete,
        _ends("completed a", "suspended"),
        _set("RUN_LEASE_LOST/released", "RUN_ALREADY_TERMINAL/completed"),
    ),
    "contrary decisions": Race(
        m.contrary_decisions,
        _ends("approval_decided x=yes", "approval_decided x=no"),
        _set("RUN_CONFLICT/different_decision"),
        faulty=("yes",),
        locked=True,
    ),
    "last decisions": Race(
        m.last_decisions,
        _ends(
            "approval_decided x=yes, approval_decided y=yes, resume_requested",
            "approval_decided y=yes, approval_decided x=yes, resume_requested",
        ),
        faulty=("x",),
    ),
    "decision, restore": Race(
        m.decision_and_restore,
        _ends(
            "approval_decided x=yes, resume_requested, lease_granted b 2",
            "resume_requested, lease_granted b 2",
        ),
        _set("RUN_INVALID_TRANSITION/not_suspended"),
        faulty=("decide", "restore"),
    ),
    "restore, restore": Race(
        m.restore_and_restore,
        _ends("resume_requested, lease_granted a 2", "resume_requested, lease_granted b 2"),
        _set("RUN_LEASE_HELD/held"),
    ),
    "resume, cancel": Race(
        m.resume_and_cancel,
        _ends("cancelled cancelled", "resume_requested, cancelled cancelled"),
        _set("RUN_ALREADY_TERMINAL/cancelled"),
    ),
    "same starts": Race(m.same_starts, _ends("queued"), faulty=("a",)),
    "different starts": Race(
        m.different_starts,
        _ends("queued"),
        _set("RUN_CONFLICT/different_arguments"),
        faulty=("a", "b"),
    ),
    "creating acquires": Race(
        m.creating_acquires,
        _ends("queued, lease_granted a 1", "queued, lease_granted b 1"),
        _set("RUN_LEASE_HELD/held"),
        faulty=("a",),
    ),
    "cancel within, complete": Race(
        m.cancel_within_and_complete,
        _ends("completed a, requested", "cancelled cancelled, requested"),
        _set("RUN_LEASE_LOST/cancelled", "RUN_ALREADY_TERMINAL/completed"),
        backends=("postgres",),
    ),
    "cancel taken back, complete": Race(
        m.cancel_taken_back_and_complete,
        _ends("completed a, requested"),
        _set("RUN_ALREADY_TERMINAL/completed"),
        backends=("postgres",),
        taken_back=True,
    ),
    "start within, start": Race(
        m.start_within_and_start,
        _ends("queued"),
        _set("RUN_CONFLICT/different_arguments"),
        backends=("postgres",),
    ),
    "start taken back, start": Race(
        m.start_taken_back_and_start, _ends("queued"), backends=("postgres",), taken_back=True
    ),
    "two decisions within": Race(
        m.two_within,
        _ends(
            "approval_decided x=yes, approval_decided y=yes, resume_requested",
            "approval_decided y=yes, approval_decided x=yes, resume_requested",
        ),
        backends=("postgres",),
    ),
    "attempts": Race(
        mm.attempts, _ends("attempted sender-0", "attempted sender-1"), faulty=("a", "b")
    ),
    "report, expiry": Race(
        mm.report_and_expiry,
        _ends("succeeded", "unknown, succeeded"),
        faulty=("succeeded", "expire"),
    ),
    "repair, append": Race(mm.repair_and_append, _ends(_A), faulty=("append",), locked=True),
    "repair, complete": Race(mm.repair_and_complete, _ends("completed a")),
    "repair of nothing, append": Race(mm.repair_of_nothing_and_append, _ends(_A)),
    "repair, attempt": Race(
        mm.repair_and_attempt, _ends("attempted sender-0"), faulty=("attempt",)
    ),
    "prune, delivery": Race(
        mm.prune_and_delivery,
        _ends("succeeded", "pruned"),
        faulty=("prune",),
        apart=True,
        open=_set("prune"),
    ),
    "prune, same start": Race(
        mm.prune_and_same_start,
        _ends("pruned"),
        faulty=("prune",),
        also=_ends(""),
        apart=True,
        open=_set("prune"),
    ),
    "prune, different start": Race(
        mm.prune_and_different_start,
        _ends("pruned"),
        _set("RUN_CONFLICT/pruned", "RUN_CONFLICT/different_arguments"),
        faulty=("prune",),
        also=_ends(""),
        apart=True,
        open=_set("prune"),
    ),
    "prune, acquire": Race(
        mm.prune_and_acquire, _ends("pruned"), _set("RUN_ALREADY_TERMINAL/completed"), apart=True
    ),
    "prune, prune": Race(
        mm.prune_and_prune,
        _ends("pruned"),
        faulty=("a",),
        also=_ends(""),
        apart=True,
        open=_set("a"),
    ),
}
