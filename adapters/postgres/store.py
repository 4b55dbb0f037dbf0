"""PostgresStore: the RunStore port on one Postgres schema."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from ...domain.ports import (
    Atomicity,
)
from ..ciphering import Cipher
from .claims import PostgresClaims
from .database import Database
from .deliveries import PostgresDeliveries
from .history import PostgresHistory
from .horizon import Horizon
from .host import HostTransaction
from .inspection import PostgresInspection
from .listener import Listener
from .projections import PostgresProjections
from .pruning import PostgresPruning

_NO_LIMIT = 2**62


class PostgresStore(
    PostgresClaims,
    PostgresDeliveries,
    PostgresHistory,
    PostgresProjections,
    PostgresInspection,
    PostgresPruning,
):
    """Streams, records and the outbox in one schema, for any number of hosts.

    Leases are judged on the server's clock, inside the statement that writes. The stamps inside
    events are the server's instant of the last reply plus the time since then.
    """

    def __init__(
        self, database: Database, *, notify: bool = False, cipher: Cipher | None = None
    ) -> None:
        super().__init__(database)
        self.cipher = cipher
        self._ahead: timedelta | None = None
        self._notify = notify
        self._within_host = False
        self.listener = Listener(database)
        self.horizon = Horizon()

    def wait_for_work(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds to be told that a run became claimable."""
        return self.listener.wait(timeout)

    def close(self) -> None:
        self.listener.close()
        super().close()

    def within(self, conn: psycopg.Connection[Any]) -> PostgresStore:
        """The same journal through a connection of the host's, inside its transaction."""
        host = HostTransaction(conn, self.database.schema)
        store = PostgresStore(host, notify=self._notify, cipher=self.cipher)
        store._ahead, store._epoch = self._ahead, self._epoch
        store._within_host = True
        return store

    @property
    def atomicity(self) -> Atomicity:
        return "cross-process"
