"""A journal whose server or tables were put back grants nothing before it was checked."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import Journal, RunStoreError, Worker, open_journal
from runjournal.adapters.contract.epochs import restored as restored_event
from runjournal.domain import commands as c
from runjournal.domain.audit import AUDIT_STREAM
from runjournal.domain.decide import decide
from runjournal.domain.tokens import EPOCH_SIZE, POSITIONS_PASSED_OVER

from .servers import OwnServer, Standby, Until

FIRST = EPOCH_SIZE + 1


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the servers' own user may write to as well."""
    folder = Path(tempfile.mkdtemp(prefix="put-back-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def loss(act: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(RunStoreError) as caught:
        act()
    return caught.value.code, caught.value.reason


MOVED = ("RUN_STORE_UNAVAILABLE", "moved")


def live(journal: Journal) -> Any:
    """Run "held" is held by "w1", run "queued" is queued."""
    lease = journal.ledger(owner="w1", lease_ttl=3600).acquire("held", heartbeat=False)
    lease.save_checkpoint("early")
    journal.ledger().start("queued")
    return lease


def grants_nothing_before_the_check(journal: Journal, seen: int) -> None:
    """`seen` is the highest position that the journal had before it was put back."""
    ledger = journal.ledger(owner="w2")
    for grant in (
        lambda: ledger.acquire("queued"),
        lambda: ledger.acquire("new"),
        lambda: ledger.restore("queued"),
        ledger.claim,
    ):
        assert loss(grant) == MOVED
    # Everything else goes on: the version fences whoever knows more than what came back.
    assert journal.get("queued") is not None
    ledger.start("started")
    assert ledger.cancel("started").status == "cancelled"
    assert ledger.adopt("held", 1).save_checkpoint("still").version == 4
    assert journal.verify().findings == []

    done = journal.restore_check("operator", "failover")
    assert (done.old_epoch, done.epoch) == (0, 1)
    (event,) = journal._events(AUDIT_STREAM, 0)
    assert (event.actor, event.place) == ("operator", "here")  # type: ignore[attr-defined]
    assert {position for position, _ in journal.subscribe(done.last_position, follow=False)} == {
        journal.position()
    }
    assert journal.position() > seen + POSITIONS_PASSED_OVER
    lease = ledger.claim(heartbeat=False)
    assert lease is not None
    assert (lease.run_id, lease.fencing_token) == ("queued", FIRST)
    assert ledger.acquire("new", heartbeat=False).fencing_token == FIRST
    assert journal.verify().findings == []


@pytest.mark.parametrize("target", ["other cluster", "same cluster", "behind a pooler"])
def test_restored_dump(
    restartable: OwnServer, new_postgres: Callable[[], str], folder: Path, target: str
) -> None:
    source = restartable.new_database()
    dump = folder / f"{target}.sql"
    with open_journal(source) as journal:
        live(journal)
        restartable.tool("pg_dump", "-d", source, "-f", str(dump))
        journal.ledger(owner="w3").acquire("queued")
        seen = journal.position()
    if target == "same cluster":
        url = restartable.new_database()
    else:
        url = new_postgres()
        with psycopg.connect(url) as conn:
            conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    restartable.tool("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", str(dump))
    with open_journal(url, pooler=target == "behind a pooler") as journal:
        grants_nothing_before_the_check(journal, seen)


def test_promoted_replica(restartable: OwnServer, folder: Path, wait_until: Until) -> None:
    """It lacks the last facts; those that were open before learn of the check by themselves."""
    source = restartable.new_database()
    with ExitStack() as stack:
        journal = stack.enter_context(closing(open_journal(source)))
        live(journal)
        standby = stack.enter_context(closing(Standby(restartable, folder / "standby")))
        url = standby.address_of(source)
        wait_until(lambda: standby.has(url, "SELECT FROM runs WHERE run_id = 'queued'"))
        standby.cut_off()
        lost = journal.ledger(owner="w3").acquire("queued", heartbeat=False)
        lost.save_checkpoint("never replicated")
        seen = journal.position()
        standby.promote()
        with open_journal(url) as promoted:
            # Whoever held the run there is fenced: this store is behind what he wrote.
            engine: Any = lost._engine
            engine.store = promoted.store
            assert loss(lambda: lost.save_checkpoint("late")) == ("RUN_LEASE_LOST", "rewound")
            grants_nothing_before_the_check(promoted, seen)


def test_worker_waits_for_the_check(
    restartable: OwnServer, folder: Path, wait_until: Until
) -> None:
    source, url = restartable.new_database(), restartable.new_database()
    dump = folder / "worker.sql"
    open_journal(source).close()
    restartable.tool("pg_dump", "-d", source, "-f", str(dump))
    restartable.tool("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", str(dump))
    stop = threading.Event()
    with open_journal(url) as journal:
        journal.ledger().start("run")
        worker = Worker(journal, lambda _: "done")
        thread = threading.Thread(target=worker.run, kwargs={"interrupt": stop, "poll": 0.01})
        thread.start()
        try:
            # Not by a claim: that passes over what the worker has locked while it finds out itself.
            wait_until(lambda: loss(lambda: journal.ledger().acquire("run")) == MOVED)
            assert thread.is_alive()
            journal.restore_check("operator", "a dump")
            wait_until(lambda: (run := journal.get("run")) is not None and run.is_terminal)
        finally:
            stop.set()
            thread.join()


def test_epoch_that_is_raised_during_a_claim(postgres_url: str) -> None:
    """The grant was decided in the old epoch and is decided once more."""
    with open_journal(postgres_url) as journal, open_journal(postgres_url) as operator:
        journal.ledger().start("run")
        assert journal.store.epoch == 0
        codec: Any = journal._codec
        engine = journal.ledger()._engine
        decided: list[int] = []

        def grant(record: Any, now: Any) -> Any:
            command = c.Acquire(run_id="run", command_id="claim", owner="w", ttl=60.0)
            events = decide(record, command, now, epoch=journal.store.epoch)
            decided.append(events[0].fencing_token)  # type: ignore[union-attr]
            if len(decided) == 1:
                store: Any = operator.store
                assert store.raise_epoch(1, restored_event(1), 0)
            return engine.changes(record, events)[0]

        (granted,) = journal.store.claim(None, 5, grant)
        assert decided == [1, FIRST]
        assert granted.record.fencing_token == FIRST
        assert codec is not None


def test_grant_of_an_old_epoch_is_asked_for_once(postgres_url: str) -> None:
    """A grant that keeps to its old token ends the claim, and not the patience of all."""
    with open_journal(postgres_url) as journal:
        journal.ledger().start("run")
        store: Any = journal.store
        assert store.raise_epoch(1, restored_event(1), 0)
        engine = journal.ledger()._engine

        def grant(record: Any, now: Any) -> Any:
            command = c.Acquire(run_id="run", command_id="claim", owner="w", ttl=60.0)
            return engine.changes(record, decide(record, command, now))[0]

        assert store.claim(None, 5, grant) == []
        assert journal.get("run").status == "queued"  # type: ignore[union-attr]
