"""Listener: hears that a run became claimable, for as long as its connection lives.

Only ever a hint. Whoever waits asks the database again after a time-out of its own, because a
connection can die half-open, a pooler gives no LISTEN, and a NOTIFY is not even sent unless the
journal was opened with `notify=True`.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import Any

import psycopg

from ..logs import fields, told
from .database import Database

log = logging.getLogger("runjournal.postgres")

#: Seconds the listening thread waits at a time, so that it notices when it shall end.
SLICE = 1.0
#: Seconds between two tries to listen again, at first and at most.
PAUSES = (0.1, 10.0)


class Listener:
    """A thread with a connection of its own that counts what it hears.

    connects  how often it had to connect: more than once means that connections died
    """

    def __init__(self, database: Database) -> None:
        self.connects = 0
        self._database = database
        self._heard = 0
        self._seen = threading.local()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def wait(self, timeout: float) -> bool:
        """Wait until something is heard, at most `timeout` seconds; whether it was."""
        if self._database.pooler:
            # A LISTEN would stay on a server connection that others use, and hear nothing here.
            self._stop.wait(timeout)
            return False
        with self._changed:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="runjournal-listener", daemon=True
                )
                self._thread.start()
            # Since this thread's last wait, not since now: what was told between its look for work
            # and this call would else be slept through.
            before = getattr(self._seen, "count", self._heard)
            heard = self._changed.wait_for(lambda: self._heard != before, timeout)
            self._seen.count = self._heard
            return heard

    def close(self) -> None:
        """End the thread and its connection."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(SLICE * 5)

    def _run(self) -> None:
        pause = PAUSES[0]
        while not self._stop.is_set():
            try:
                with self._database.connect() as conn:
                    self.connects += 1
                    conn.execute(f'LISTEN "{self._database.channel}"'.encode())
                    pause = PAUSES[0]
                    self._tell()  # what came while nobody listened
                    self._listen(conn)
            except psycopg.Error as e:
                log.warning(
                    "listening for claimable runs failed, polling goes on: %s",
                    told(e),
                    extra=fields(error=e),
                )
                self._stop.wait(pause * random.uniform(0.5, 1.5))  # spreads the workers
                pause = min(pause * 2, PAUSES[1])

    def _listen(self, conn: psycopg.Connection[Any]) -> None:
        while not self._stop.is_set():
            for _ in conn.notifies(timeout=SLICE, stop_after=1):
                self._tell()

    def _tell(self) -> None:
        with self._changed:
            self._heard += 1
            self._changed.notify_all()
