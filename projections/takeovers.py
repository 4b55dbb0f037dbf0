"""A projection: who held each run, under which token, and whose abandoned lease was taken over."""

from __future__ import annotations

from ..domain.events import Event, LeaseGranted
from .projector import Row

#: Grants of one run that are kept; the row says how many there were.
KEPT = 100


class Takeovers:
    """One row for each run that was ever held, under its id.

    {"granted": 3, "taken_over": 1, "grants": [{"at", "owner", "fencing_token", "attempt",
    "took_over": {"owner", "fencing_token"} or None}, ...]}, the last 100 grants, oldest first.
    """

    name = "takeovers"
    projection_version = 1
    topics = (LeaseGranted.topic,)

    def key_of(self, event: Event) -> str | None:
        return event.run_id if isinstance(event, LeaseGranted) else None

    def project(self, row: Row | None, event: Event) -> Row | None:
        assert isinstance(event, LeaseGranted)  # no other topic is asked for
        row = row or {"granted": 0, "taken_over": 0, "grants": []}
        took_over = event.took_over
        row["granted"] += 1
        row["taken_over"] += took_over is not None
        row["grants"].append(
            {
                "at": event.timestamp.isoformat(),
                "owner": event.owner,
                "fencing_token": event.fencing_token,
                "attempt": event.attempt,
                "took_over": None if took_over is None else took_over.model_dump(),
            }
        )
        del row["grants"][:-KEPT]
        return row
