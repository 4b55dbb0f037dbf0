"""A subscription to the whole journal that never trusts a notification alone.

The library's own listens in a thread and waits without a time-out, so a lost wake-up would stall
it for ever. This one asks again after `poll` seconds whatever happens, and needs no thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from eventsourcing.persistence import ApplicationRecorder, Notification, Subscription

#: Notifications read at once.
PAGE = 500


class PollingSubscription(Subscription[ApplicationRecorder]):
    """Iterates notifications after `gt`, waiting for new ones until `stop` is called."""

    def __init__(
        self,
        recorder: ApplicationRecorder,
        gt: int | None = None,
        topics: Sequence[str] = (),
        poll: float = 0.05,
    ) -> None:
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        self._after = gt or 0
        self._poll = poll
        self._page: deque[Notification] = deque()
        self._stopped = threading.Event()

    def stop(self) -> None:
        super().stop()
        self._stopped.set()

    def __next__(self) -> Notification:
        while not self._stopped.is_set():
            if self._page:
                return self._page.popleft()
            self._fill()
            if not self._page:
                self._stopped.wait(self._poll)
        raise StopIteration

    def _fill(self) -> None:
        # The head is read first: events of other topics below it need not be looked at again.
        head = self._recorder.max_notification_id() or 0
        page = self._recorder.select_notifications(
            self._after, PAGE, stop=head, topics=self._topics, inclusive_of_start=False
        )
        self._page.extend(page)
        self._after = page[-1].id if len(page) == PAGE else max(self._after, head)
