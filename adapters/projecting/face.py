"""What a Journal offers for reading all of its events, and for projections of the users' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...domain.checks import check_identifiers, check_integer, check_seconds, refuse
from ...projections.ports import ProjectionState
from ...projections.projector import Projector
from ..codec import OrjsonCodec
from ..event_log import JournalSubscription
from .runner import ProjectionRunner


class JournalProjections:
    """The part of Journal that goes through the whole journal in order."""

    _store: Any
    _codec: OrjsonCodec

    def position(self) -> int:
        """The gap-free head: nothing at or below this position can appear later. 0 if empty.

        Subscribe after it to see what comes from now on. On Postgres your own last write may be
        above it, while a transaction that began earlier is open.
        """
        return self._store.max_notification_id() or 0

    def subscribe(
        self,
        after: int = 0,
        topics: Sequence[str] | None = None,
        *,
        follow: bool = True,
        poll: float = 0.1,
        timeout: float | None = None,
    ) -> JournalSubscription:
        """All events of the journal after a position, as (position, event), in order.

        topics   only these; None for all
        follow   wait for more at the head; False ends at the head as it is now
        poll     seconds between two looks while waiting
        timeout  seconds without an event after which it ends; None waits for ever

        Gap-free: no event appears later before one that was handed out. An event that cannot be
        read raises RUN_INTEGRITY_ERROR with its position.
        """
        return JournalSubscription(
            self._store,
            self._codec,
            check_integer(after, "after", least=0),
            check_identifiers(topics or (), "topic"),
            follow=follow,
            poll=check_seconds(poll, "poll"),
            timeout=None if timeout is None else check_seconds(timeout, "timeout"),
        )

    def projection(self, projector: Projector) -> ProjectionRunner:
        """A projection of your own: runs the projector, and reads its rows.

        Raises RUN_VALIDATION_ERROR / argument where the store has no place for its rows.
        """
        return ProjectionRunner(projecting_store(self._store), self._codec, projector)

    def projection_states(self) -> list[ProjectionState]:
        """Every projection of the users' own that ever ran here, by name."""
        states: list[ProjectionState] = projecting_store(self._store).projection_states()
        return states


def projecting_store(store: Any) -> Any:
    """The store, if it keeps the rows of projections; a KeyValueStore need not."""
    if not hasattr(store, "create_projection"):
        raise refuse("argument", "the store of this journal keeps no projections of your own")
    return store
