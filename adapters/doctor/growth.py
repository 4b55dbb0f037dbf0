"""How much a journal grew: events since an instant, found by halving, not by counting."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...domain.errors import RunStoreError


def events_since(store: Any, mapper: Any, since: datetime) -> int:
    """About how many events were written since then: positions after the last one before it.

    About, because positions follow the order of writing, and stamps nearly do. An event that cannot
    be read counts as older.
    """
    low, head = 0, store.max_notification_id() or 0
    high = head
    while low < high:
        middle = (low + high) // 2
        found = store.select_notifications(middle + 1, 1, stop=high)
        if not found:
            high = middle  # only empty positions up to there
        elif _is_older(found[0], mapper, since):
            low = found[0].id
        else:
            high = middle
    return int(head - low)


def _is_older(notification: Any, mapper: Any, since: datetime) -> bool:
    try:
        return bool(mapper.to_domain_event(notification).timestamp < since)
    except RunStoreError:
        return True
