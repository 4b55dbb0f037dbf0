"""Which version of a run was the current one at a time."""

from __future__ import annotations

from datetime import datetime

from ..domain.errors import RUN_NOT_FOUND, RunStoreError
from ..domain.events import run_stream
from ..domain.ports import PayloadCodec, RunStore
from ..domain.record import RunRecord


def version_at(store: RunStore, codec: PayloadCodec, run_id: str, moment: datetime) -> int:
    """The last version stamped at or before `moment`: stamps rise within a stream.

    Raises RUN_NOT_FOUND / version when the run did not exist yet.
    """
    current = store.get(run_id).record
    low, high = 0, current.version if current else 0
    while low < high:
        middle = (low + high + 1) // 2
        (stored,) = store.read(run_stream(run_id), middle - 1, 1)
        if codec.open(stored).timestamp <= moment:
            low = middle
        else:
            high = middle - 1
    if low == 0 and current is not None:
        raise no_version(run_id, moment.isoformat(), current)
    return max(low, 1)


def no_version(run_id: str, what: str, current: RunRecord) -> RunStoreError:
    """That the run was not there at that version or time."""
    return RunStoreError(
        RUN_NOT_FOUND,
        "version",
        f"run {run_id!r} was not there at {what}; it has versions 1 to {current.version} since "
        f"{current.created_at.isoformat()}",
        record=current,
    )


def no_run(run_id: str) -> RunStoreError:
    """That there is no such run."""
    return RunStoreError(RUN_NOT_FOUND, "run", f"there is no run {run_id!r}")
