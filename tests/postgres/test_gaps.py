"""The journal is read in order, gap-free, without a lock, and without waiting for nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from runjournal import RunStoreError
from runjournal.adapters.postgres.database import Database
from runjournal.adapters.postgres.recorder import PostgresApplicationRecorder

INSERT = "INSERT INTO events (stream, version, topic, state) VALUES (%s, %s, 't', 'x')"


@pytest.fixture
def recorder(postgres_url: str) -> Iterator[PostgresApplicationRecorder]:
    recorder = PostgresApplicationRecorder(Database(postgres_url))
    yield recorder
    recorder.close()


@pytest.fixture
def open_writer(postgres_url: str) -> Iterator[Any]:
    """Connections whose transactions the test opens and ends."""
    opened: list[psycopg.Connection[Any]] = []

    def connect() -> psycopg.Connection[Any]:
        conn = psycopg.connect(postgres_url)
        opened.append(conn)
        return conn

    yield connect
    for conn in opened:
        conn.close()


def seen(recorder: PostgresApplicationRecorder, start: int = 1) -> list[int]:
    return [n.id for n in recorder.select_notifications(start, 1000)]


def test_writer_held_open_is_waited_for(recorder: Any, open_writer: Any) -> None:
    first, second = open_writer(), open_writer()
    first.execute(INSERT, ("a", 1))
    second.execute(INSERT, ("b", 1))
    second.commit()
    assert seen(recorder) == []
    assert recorder.max_notification_id() is None
    assert recorder.gaps.writers()[0][1] == first.info.backend_pid
    first.commit()
    assert seen(recorder) == [1, 2]


def test_rolled_back_writer_leaves_a_dead_hole(recorder: Any, open_writer: Any) -> None:
    first, second = open_writer(), open_writer()
    first.execute(INSERT, ("a", 1))
    second.execute(INSERT, ("b", 1))
    second.commit()
    assert seen(recorder) == []
    first.rollback()
    assert seen(recorder) == [2]


def test_host_transaction_that_draws_late_is_waited_for(recorder: Any, open_writer: Any) -> None:
    """Its transaction id is older than its position: a rule by ids would pass it by."""
    host, other = open_writer(), open_writer()
    host.execute("CREATE TABLE host (x int)")  # the transaction has an id, and no position yet
    other.execute(INSERT, ("b", 1))
    host.execute(INSERT, ("a", 1))
    third = open_writer()
    third.execute(INSERT, ("c", 1))
    third.commit()
    other.commit()
    assert seen(recorder) == [1]
    host.commit()
    assert seen(recorder) == [1, 2, 3]


def test_late_drawer_that_began_after_the_note(recorder: Any, open_writer: Any) -> None:
    """A hole above the noted height is judged on its own, by a note of its own."""
    first, second, third = open_writer(), open_writer(), open_writer()
    first.execute(INSERT, ("a", 1))
    second.execute(INSERT, ("b", 1))
    second.commit()
    assert seen(recorder) == []
    third.execute(INSERT, ("c", 1))  # position 3, open; was not there when the note was taken
    fourth = open_writer()
    fourth.execute(INSERT, ("d", 1))
    fourth.commit()
    first.rollback()
    assert seen(recorder) == [2]
    third.commit()
    assert seen(recorder) == [2, 3, 4]


def test_savepoints_are_part_of_their_transaction(recorder: Any, open_writer: Any) -> None:
    host, other = open_writer(), open_writer()
    host.execute("SAVEPOINT one")
    host.execute(INSERT, ("a", 1))
    host.execute("ROLLBACK TO one")
    other.execute(INSERT, ("b", 1))
    other.commit()
    # The lock is gone with the savepoint, or kept by the transaction: either way nothing is missed.
    host.execute(INSERT, ("c", 1))
    host.commit()
    assert seen(recorder) == [2, 3]


def test_unrelated_transactions_stall_nothing(recorder: Any, open_writer: Any) -> None:
    idle, reader, rolled, writer = (open_writer() for _ in range(4))
    idle.execute("CREATE TABLE host (x int)")
    reader.execute("LOCK TABLE events IN ACCESS SHARE MODE")  # as pg_dump does
    rolled.execute(INSERT, ("a", 1))
    rolled.rollback()
    writer.execute(INSERT, ("b", 1))
    writer.commit()
    assert seen(recorder) == [2]


def test_pruned_runs_cost_no_extra_polls(recorder: Any, open_writer: Any) -> None:
    conn = open_writer()
    conn.execute(
        "INSERT INTO events (stream, version, topic, state)"
        " SELECT 'run/' || i, 1, 't', 'x' FROM generate_series(1, 100000) i"
    )
    conn.execute("DELETE FROM events WHERE position < 100000")
    conn.commit()
    assert seen(recorder) == [100000]
    reads: list[bytes] = []
    read = recorder.database.read
    recorder.database.read = lambda statement, *values: (
        reads.append(statement.name),
        read(statement, *values),
    )[1]
    assert seen(recorder) == [100000]
    assert reads == [b"runjournal_highest", b"runjournal_notifications"]


def test_tempting_rules_miss_what_ours_does_not(open_writer: Any, postgres_url: str) -> None:
    """ "The last position seen" and "until xmin has passed xmax" both pass a late drawer by."""
    host, other, reader = open_writer(), open_writer(), open_writer()
    reader.autocommit = True

    def ask(query: str, *values: Any) -> Any:
        return [row[0] for row in reader.execute(query, values)]

    other.execute("SELECT pg_current_xact_id()")  # the lower transaction id
    host.execute(INSERT, ("a", 1))  # position 1, under the higher one, and open
    other.execute(INSERT, ("b", 1))  # position 2
    other.commit()
    by_last_seen = ask("SELECT position FROM events ORDER BY position")
    # xmax is the last *completed* id + 1: the host's id is not below it, open as it is.
    (noted,) = ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    (hole_is_dead,) = ask(
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= %s", noted
    )
    recorder = PostgresApplicationRecorder(Database(postgres_url))
    ours = seen(recorder)
    host.commit()
    by_last_seen += ask(
        "SELECT position FROM events WHERE position > %s ORDER BY position", by_last_seen[-1]
    )
    ours += seen(recorder)
    recorder.close()
    assert by_last_seen == [2]
    assert hole_is_dead
    assert ours == [1, 2]


def test_tailing_reader_misses_nothing_beside_many_writers(
    recorder: Any, open_writer: Any, postgres_url: str
) -> None:
    """16 writers, half of them host transactions that work first and draw their position late."""
    each, writers = 60, 16
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            with psycopg.connect(postgres_url) as conn:
                for n in range(1, each + 1):
                    if number % 2:
                        conn.execute("SELECT count(*) FROM events")
                        conn.execute("SELECT pg_current_xact_id()")
                    conn.execute(INSERT, (f"w{number}", n))
                    if n % 10 == 3:
                        conn.rollback()
                        conn.execute(INSERT, (f"w{number}", n))
                    conn.commit()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    found: list[tuple[str, int]] = []
    after = 0
    while len(found) < each * writers:
        alive = any(t.is_alive() for t in threads)
        page = recorder.select_notifications(after + 1, 100)
        found += [(str(n.originator_id), n.originator_version) for n in page]
        after = page[-1].id if page else after
        if not alive and not page:
            break
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(found) == sorted((f"w{w}", n) for w in range(writers) for n in range(1, each + 1))


def test_a_standby_is_refused(recorder: Any) -> None:
    """It cannot see the primary's locks, so it would pass every gap without a word."""
    read = recorder.database.read
    recorder.database.read = lambda statement, *values: (
        [(1, True)] if statement.name.endswith(b"highest") else read(statement, *values)
    )
    with pytest.raises(RunStoreError, match="on the primary"):
        seen(recorder)
