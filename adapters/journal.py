"""Journal: one open store with everything that reads and writes it."""

from __future__ import annotations

import os
import threading
import weakref
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from ..domain.checks import (
    check_seconds,
    refuse,
)
from ..domain.delivery_ledger import DeliveryLedger
from ..domain.engine import Engine
from ..domain.errors import RUN_STORE_ATOMIC_REQUIRED, RunStoreError
from ..domain.ledger import RunLedger
from ..domain.limits import DeploymentLimits
from ..domain.ports import Authorizer, Clock, RunStore
from ..domain.run_operator import RunOperator
from .application import JournalApplication
from .authorizing import FailingClosed
from .beat import ThreadBeat
from .clocks import RandomIds, default_owner, ticks
from .codec import OrjsonCodec
from .journal_pruning import JournalPruning
from .journal_readings import JournalReadings
from .journal_transfer import JournalTransfer
from .journal_upkeep import JournalUpkeep
from .telemetry.observer import SILENT, Observer

_open_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


class Journal(JournalReadings, JournalUpkeep, JournalTransfer, JournalPruning):
    """An open run journal. As a context manager it is closed at the end.

    Thread-safe. After a fork the child works with connections of its own, and the leases of its
    parent are lost to it.
    """

    def __init__(
        self,
        store: Any,
        codec: OrjsonCodec,
        limits: DeploymentLimits,
        authorizer: Authorizer | None = None,
        observer: Observer = SILENT,
    ) -> None:
        self._observer = observer
        self._store: RunStore = observer.measured(store)
        self._codec = codec
        self.limits = limits
        self._authorizer = None if authorizer is None else FailingClosed(authorizer)
        self.application = JournalApplication(store, codec)
        # Weak, so that a host may make a ledger for each request: a held lease keeps its own alive.
        self._ledgers: weakref.WeakSet[RunLedger] = weakref.WeakSet()
        self._beats: weakref.WeakSet[ThreadBeat] = weakref.WeakSet()
        self._closing = threading.Event()
        _open_journals.add(self)
        observer.watch(self)

    @property
    def store(self) -> RunStore:
        """The RunStore behind it."""
        return self._store

    @property
    def observer(self) -> Observer:
        """What its work is told to: a Telemetry, or one that does nothing."""
        return self._observer

    @property
    def atomicity(self) -> str:
        """How far leases exclude others: "process" or "cross-process"."""
        return self._store.atomicity

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing.is_set()

    def ledger(
        self,
        owner: str | None = None,
        lease_ttl: float | timedelta = 60.0,
        heartbeat_every: float | timedelta | None = None,
        clock: Clock | None = None,
        require: str | None = None,
    ) -> RunLedger:
        """A ledger that acts as `owner`.

        owner            who holds the leases; default: process id and a random suffix
        lease_ttl        seconds (or a timedelta) a lease lasts without renewal
        heartbeat_every  seconds between background renewals; default a third of the ttl, at most
                         half of it
        clock            a callable giving an aware datetime that replaces the store's clock: tests
        require          "cross-process" refuses a store whose leases bind this process only

        Raises RUN_STORE_ATOMIC_REQUIRED, RUN_VALIDATION_ERROR, RUN_LIMIT_EXCEEDED / lease_ttl.
        """
        if require not in (None, "process", "cross-process"):
            raise refuse("argument", f"require must be process or cross-process, not {require!r}")
        if require == "cross-process" and self._store.atomicity != "cross-process":
            raise RunStoreError(
                RUN_STORE_ATOMIC_REQUIRED,
                "atomicity",
                "this journal's leases bind one process only, and cross-process was required",
            )
        beat = ThreadBeat()
        ledger = RunLedger(
            self._store,
            self._codec,
            RandomIds(),
            owner=default_owner() if owner is None else owner,
            ticks=ticks,
            beat=beat,
            make_lock=threading.RLock,
            lease_ttl=lease_ttl,
            heartbeat_every=heartbeat_every,
            clock=clock,
            limits=self.limits,
            authorizer=self._authorizer,
            on_loss=self._observer.on_loss,
        )
        beat.attach(ledger)
        self._ledgers.add(ledger)
        self._beats.add(beat)
        return ledger

    def in_transaction(self, conn: Any) -> RunOperator:
        """What can be asked from outside a lease, inside a transaction of the host's (Postgres).

        conn  a psycopg connection, within a transaction or not in autocommit mode

        What is started, cancelled or decided through it commits or rolls back with the host's
        own work. Under REPEATABLE READ or SERIALIZABLE a lost race raises RUN_CONFLICT /
        contended: roll back and run the whole transaction again. Raises RUN_VALIDATION_ERROR /
        argument for a connection in autocommit mode, or a journal that is not on Postgres.
        """
        if not hasattr(self._store, "within"):
            raise refuse("argument", "only a journal on Postgres can join a host's transaction")
        engine = Engine(
            self._observer.measured(self._store.within(conn)),
            self._codec,
            RandomIds(),
            ticks,
            threading.RLock,
            None,
            self.limits,
            self._authorizer,
        )
        return RunOperator(engine)

    def delivery_ledger(
        self,
        owner: str | None = None,
        attempt_ttl: float = 60.0,
        clock: Clock | None = None,
    ) -> DeliveryLedger:
        """Claims the attempts of deliveries as `owner`; a DeliveryService sends them."""
        return DeliveryLedger(
            self._store,
            self._codec,
            RandomIds(),
            owner=default_owner() if owner is None else owner,
            ttl=attempt_ttl,
            clock=clock,
        )

    def wait_for_work(self, timeout: float) -> bool:
        """Wait until a run may have become claimable, at most `timeout` seconds.

        Returns early, with True, when Postgres told so (`open_journal(..., notify=True)` on the
        side that starts runs). Everywhere else it only waits: that a run is due, or that a lease
        has expired, is found out by asking, so ask after every return.
        """
        check_seconds(timeout, "timeout")
        wait = getattr(self._store, "wait_for_work", None)
        if wait is None:
            self._closing.wait(timeout)
            return False
        return bool(wait(timeout))

    def close(self) -> None:
        """Release the leases still held and let go of the store. Idempotent."""
        self._closing.set()
        for ledger in list(self._ledgers):
            ledger.release_all("journal closed")
        for beat in list(self._beats):
            beat.stop()
        self._ledgers.clear()
        self._store.close()
        _open_journals.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        self.close()

    def _after_fork(self) -> None:
        for beat in list(self._beats):
            beat.forget_thread()
        for ledger in list(self._ledgers):
            ledger.forked(default_owner())


def _after_fork_in_child() -> None:
    for journal in list(_open_journals):
        journal._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
