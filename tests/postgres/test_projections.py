"""Projections on Postgres: writers that draw late, roles, locks, and lost connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal
from runjournal import Event, Journal, ProjectionRunner, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.adapters.projecting import rebuilding
from runjournal.domain.events import RunEvent

from .servers import Until, Watcher


class Seen:
    """Which versions of each run were projected, in their order."""

    name = "seen"
    topics: tuple[str, ...] = ()

    def __init__(self, version: int = 1, before: Callable[[Event], object] | None = None) -> None:
        self.projection_version = version
        self.before = before

    def key_of(self, event: Event) -> str | None:
        return event.run_id if isinstance(event, RunEvent) else None

    def project(self, row: dict[str, Any] | None, event: Event) -> dict[str, Any] | None:
        if self.before is not None:
            self.before(event)
        row = row or {"versions": []}
        row["versions"].append(event.originator_version)
        return row


@pytest.fixture
def journal(postgres_url: str) -> Iterator[Journal]:
    with open_journal(postgres_url) as opened:
        yield opened


def rows_of(runner: ProjectionRunner) -> dict[str, Any]:
    return dict(runner.rows(limit=10_000))


def whole(journal: Journal) -> dict[str, Any]:
    runs = journal.runs(limit=10_000)
    return {r.run_id: {"versions": list(range(1, r.version + 1))} for r in runs}


class Thread(threading.Thread):
    """A thread that keeps what it failed with."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self._work = work
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as e:
            self.failure = e

    def end(self) -> None:
        self.join(60)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


def test_nothing_is_missed_and_nothing_comes_twice_beside_many_writers(
    journal: Journal, postgres_url: str, wait_until: Until
) -> None:
    """Half of them are host transactions that work first, draw late, and sometimes roll back."""
    runs, writers = 25, 8
    stop = threading.Event()
    runner = journal.projection(Seen())
    subscribed: list[int] = []

    def write(number: int) -> None:
        ledger = journal.ledger(owner=f"w{number}")
        with psycopg.connect(postgres_url) as conn:
            for n in range(runs):
                if number % 2:
                    with ledger.acquire(f"{number}-{n}", heartbeat=False) as lease:
                        lease.save_checkpoint(n)
                    continue
                conn.execute("SELECT pg_current_xact_id()")
                conn.execute("SELECT count(*) FROM events")
                operator = journal.in_transaction(conn)
                operator.start(f"{number}-{n}")
                if n % 5 == 3:
                    conn.rollback()
                    operator.start(f"{number}-{n}")
                operator.cancel(f"{number}-{n}")
                conn.commit()

    def subscribe() -> None:
        subscribed.extend(position for position, _ in subscription)

    with journal.subscribe(poll=0.01) as subscription:
        threads = [Thread(lambda n=n: write(n)) for n in range(writers)]  # type: ignore[misc]
        follower = Thread(subscribe)
        projecting = Thread(lambda: runner.run(stop, poll=0.01))
        for thread in threads:
            thread.end()
        assert runner.wait_for(timeout=60)
        there = positions(journal)
        wait_until(lambda: subscribed[-1:] == there[-1:])
        stop.set()
        projecting.end()
    follower.end()
    assert subscribed == there
    assert len(whole(journal)) == runs * writers
    assert rows_of(runner) == whole(journal)
    journal.rebuild(Seen(2))
    assert rows_of(journal.projection(Seen(2))) == whole(journal)


def positions(journal: Journal) -> list[int]:
    return [position for position, _ in journal.subscribe(follow=False)]


def test_wait_covers_what_was_written_above_an_open_transaction(
    journal: Journal, postgres_url: str
) -> None:
    """The gap-free head is below one's own write then; waiting for it would not see the write."""
    runner = journal.projection(Seen())
    with psycopg.connect(postgres_url) as host:
        journal.in_transaction(host).start("theirs")
        journal.ledger().start("mine")
        runner.catch_up()
        assert journal.position() == 0
        assert runner.wait_for(journal.position(), timeout=0.01)
        assert not runner.wait_for(timeout=0.05)
        host.commit()
    runner.catch_up()
    assert runner.wait_for(timeout=0.01)
    assert rows_of(runner) == whole(journal)


def test_rebuild_never_goes_back_behind_the_old_rows(
    journal: Journal, postgres_url: str, wait_until: Until
) -> None:
    """Another process does not know that an old hole is dead while somebody writes."""
    with psycopg.connect(postgres_url) as host:
        journal.in_transaction(host).start("never")
        journal.ledger().start("mine")
        host.rollback()
        runner = journal.projection(Seen())
        runner.catch_up()
        before = rows_of(runner)
        assert list(before) == ["mine"]
        journal.in_transaction(host).start("theirs")
        with open_journal(postgres_url) as another:
            assert another.position() == 0
            progress: list[Any] = []
            rebuild = Thread(lambda: another.rebuild(Seen(), progress.append))
            wait_until(lambda: len(progress) > 2)
            assert rows_of(runner) == before
            host.commit()
            rebuild.end()
    assert rows_of(runner) == whole(journal)


# Lost connections.


def end_of_the_hold(watcher: Watcher) -> None:
    watcher.one(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
        " AND objsubid = 1"
    )


def test_runner_that_lost_its_hold_writes_nothing(journal: Journal, watcher: Watcher) -> None:
    """It is in the middle of a page when another one takes its place."""
    inside, go_on = threading.Event(), threading.Event()

    def wait(_event: Event) -> None:
        inside.set()
        assert go_on.wait(60)

    for n in range(5):
        journal.ledger().start(f"run-{n}")
    slow = Thread(lambda: journal.projection(Seen(before=wait)).catch_up())
    assert inside.wait(60)
    end_of_the_hold(watcher)
    quick = journal.projection(Seen())
    assert quick.catch_up() == 5
    state = quick.state()
    go_on.set()
    with refused("RUN_STORE_UNAVAILABLE", "failed"):
        slow.end()
    assert quick.state() == state
    assert rows_of(quick) == whole(journal)


def test_runner_begins_again_after_a_lost_connection(
    journal: Journal, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runjournal.adapters.projecting import runner as runner_module

    monkeypatch.setattr(runner_module, "BEGIN_AGAIN", 0.01)
    stop = threading.Event()
    runner = journal.projection(Seen())
    thread = Thread(lambda: runner.run(stop, poll=0.01))
    for n in range(3):
        journal.ledger().start(f"run-{n}")
        assert runner.wait_for(timeout=60)
        watcher.terminate()
    journal.ledger().start("last")
    assert runner.wait_for(timeout=60)
    stop.set()
    thread.end()
    assert rows_of(runner) == whole(journal)


def test_rebuild_that_lost_its_hold_promotes_nothing(
    journal: Journal, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "PAGE", 2)
    for n in range(6):
        journal.ledger().start(f"run-{n}")
    runner = journal.projection(Seen())
    runner.catch_up()

    def lose(progress: Any) -> None:
        if progress.position == 2:
            end_of_the_hold(watcher)

    with refused("RUN_STORE_UNAVAILABLE", "failed"):
        journal.rebuild(Seen(), lose)
    state = runner.state()
    assert state is not None
    assert state.table == "projection_seen_1"
    assert journal.rebuild(Seen()).finished
    assert rows_of(runner) == whole(journal)


# Locks.


def test_swap_waits_shortly_and_tries_again(journal: Journal, postgres_url: str) -> None:
    """Whoever holds the row delays it; nobody waits behind it for long."""
    journal.ledger().start("run")
    runner = journal.projection(Seen())
    runner.catch_up()
    with psycopg.connect(postgres_url) as host:

        def lock(_progress: Any) -> None:
            host.execute("SELECT 1 FROM projections FOR UPDATE")
            threading.Timer(0.5, host.rollback).start()

        assert journal.rebuild(Seen(), lock).finished
    state = runner.state()
    assert state is not None
    assert state.table == "projection_seen_2"


def test_old_table_that_is_read_is_dropped_the_next_time(
    journal: Journal, postgres_url: str, watcher: Watcher
) -> None:
    journal.ledger().start("run")
    journal.projection(Seen()).catch_up()
    with psycopg.connect(postgres_url) as reader:
        reader.execute("SELECT 1 FROM projection_seen_1")
        assert journal.rebuild(Seen()).finished
        assert reader.execute("SELECT count(*) FROM projection_seen_1").fetchone() == (1,)
    assert journal.rebuild(Seen()).finished
    assert tables(watcher) == "projection_seen_3"


def test_readers_are_not_disturbed_by_rebuilds(journal: Journal) -> None:
    """Tables come and go under their hands."""
    for n in range(5):
        journal.ledger().start(f"run-{n}")
    runner = journal.projection(Seen())
    runner.catch_up()
    expected = whole(journal)
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            assert rows_of(runner) == expected
            assert runner.get("run-1") == expected["run-1"]

    readers = [Thread(read) for _ in range(3)]
    try:
        for _ in range(15):
            assert journal.rebuild(Seen()).finished
    finally:
        done.set()
    for reader in readers:
        reader.end()


def test_reader_looks_again_where_the_table_was_dropped_under_its_hands(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.ledger().start("run")
    store: Any = journal.store
    runner = journal.projection(Seen())
    runner.catch_up()
    stale, look = runner.state(), store.projection_state
    assert journal.rebuild(Seen()).finished
    for read in (lambda: runner.get("run"), runner.rows):
        answers = [stale]
        monkeypatch.setattr(
            store, "projection_state", lambda name, a=answers: a.pop() if a else look(name)
        )
        assert read()
        assert not answers


def tables(watcher: Watcher) -> str:
    return str(
        watcher.one(
            "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class"
            " WHERE relkind = 'r' AND relname LIKE 'projection\\_%%'"
        )
    )


# Roles and poolers.


def test_role_that_may_not_create_is_told_what_to_run(
    journal: Journal, watcher: Watcher, postgres_url: str
) -> None:
    """Its owner runs the statement, and it goes on; for a rebuild once more."""
    journal.ledger().start("run")
    name = f"projecting_{watcher.one('SELECT pg_backend_pid()')}"
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        owner.execute(
            SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(name), Literal(name))
        )
        owner.execute(
            SQL(
                "GRANT USAGE ON SCHEMA public TO {0};"
                "GRANT SELECT ON runjournal_schema, events, runs TO {0};"
                "GRANT SELECT, INSERT, UPDATE ON projections TO {0}"
            ).format(Identifier(name))
        )
        url = f"{postgres_url}&user={name}&password={name}"
        with open_journal(url, create=False) as theirs:
            runner = theirs.projection(Seen())

            def told(attempt: Callable[[], object]) -> str:
                with refused("RUN_VALIDATION_ERROR", "read_only") as caught:
                    attempt()
                statement = caught.value.message.partition("must run: ")[2]
                return statement.replace("this role", name)

            for _ in range(2):
                statement = told(runner.catch_up)
            owner.execute(statement.encode())
            assert runner.catch_up() == 1
            for _ in range(2):
                statement = told(lambda: theirs.rebuild(Seen()))
            assert "projection_seen_2" in statement
            assert rows_of(runner) == whole(journal)
            owner.execute(statement.encode())
            # The old table is not its own to drop: it stays, and that is no failure.
            assert theirs.rebuild(Seen()).finished
            assert rows_of(runner) == whole(journal)
        assert tables(watcher) == "projection_seen_1 projection_seen_2"
        owner.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(name)))


def test_behind_a_pooler_rows_are_read_and_not_written(journal: Journal, postgres_url: str) -> None:
    journal.ledger().start("run")
    journal.projection(Seen()).catch_up()
    with open_journal(postgres_url, pooler=True) as pooled:
        runner = pooled.projection(Seen())
        assert rows_of(runner) == whole(journal)
        assert runner.lag().events == 0
        with pytest.raises(RunStoreError, match="direct connection"):
            runner.catch_up()
