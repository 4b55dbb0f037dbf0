"""The closed vocabulary of a run's life and the moves it allows (seed 003, "运行记录")."""

from __future__ import annotations

from enum import StrEnum


class RunLifecycleStatus(StrEnum):
    """What an operator or another worker sees of a run. Terminal: completed, failed, cancelled."""

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S = RunLifecycleStatus

#: From each status, the statuses a run may move to. Terminal ones have no way out.
RUN_TRANSITIONS: dict[RunLifecycleStatus, frozenset[RunLifecycleStatus]] = {
    _S.QUEUED: frozenset({_S.RUNNING, _S.CANCELLED, _S.FAILED}),
    _S.RUNNING: frozenset({_S.SUSPENDED, _S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.QUEUED}),
    _S.SUSPENDED: frozenset({_S.QUEUED, _S.RUNNING, _S.CANCELLED, _S.FAILED}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}

TERMINAL_STATUSES = frozenset(s for s, after in RUN_TRANSITIONS.items() if not after)


def can_transition_run(before: RunLifecycleStatus | str, after: RunLifecycleStatus | str) -> bool:
    """Whether a run may move from `before` to `after` (the table of seed 003).

    Takes statuses or their names, so that a dashboard or a foreign store can apply the same
    rule. A name that is no status raises ValueError.
    """
    return RunLifecycleStatus(after) in RUN_TRANSITIONS[RunLifecycleStatus(before)]


def is_terminal_run_status(status: RunLifecycleStatus | str) -> bool:
    """Whether a run in this status has ended for good. A name that is no status: ValueError."""
    return RunLifecycleStatus(status) in TERMINAL_STATUSES
