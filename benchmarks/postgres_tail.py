"""A reader that follows the whole journal beside 16 writers misses nothing.

Half of the writers are the journal's own. The other half are host transactions: each writes to a
table of the host's first, dawdles, and only then starts its runs within that transaction, so that
it draws its positions late and commits later still; one in ten rolls back and leaves holes.

Counted are events, so the ratio is missed to written. The divisor is what the table holds once all
writers have ended. Beside runjournal's reader run two that follow tempting rules, as a proof that
the load does lead a reader astray: one reads on from the last position it saw; the other stops at
a hole, notes pg_snapshot_xmax, and gives the hole up once no transaction below that is open.

    python -m benchmarks.postgres_tail
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import psycopg
from runjournal import open_journal
from runjournal.adapters.postgres.database import Database
from runjournal.adapters.postgres.recorder import PostgresApplicationRecorder

from .figure import Figure, Settings, run
from .postgres_server import DSN, server

SETTINGS: Settings = DSN | {"events": (100_000, 10_000), "processes": (4, 4)}

PAGE = 500
#: Runs started in each host transaction, and how long it dawdles at most, twice.
RUNS = 4
DAWDLE = 0.002


def write(url: str, number: int, late: int, own: int, events: int) -> None:
    """A process: `late` host transactions at a time and `own` writers of the journal's."""
    with open_journal(url) as journal:
        work = [threading.Thread(target=write_own, args=(journal, events)) for _ in range(own)]
        work += [
            threading.Thread(target=write_late, args=(journal, url, number * late + n, events))
            for n in range(late)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()


def write_own(journal: Any, events: int) -> None:
    ledger = journal.ledger()
    for _ in range(events):
        ledger.start(f"own-{uuid.uuid4().hex}")


def write_late(journal: Any, url: str, seed: int, events: int) -> None:
    chance = random.Random(seed)
    with psycopg.connect(url) as conn:
        written = 0
        while written < events:
            conn.execute("INSERT INTO host VALUES (%s)", (written,))  # it has an id from here on
            time.sleep(chance.uniform(0, DAWDLE))
            operator = journal.in_transaction(conn)
            runs = min(RUNS, events - written)
            for _ in range(runs):
                operator.start(f"late-{uuid.uuid4().hex}")
            time.sleep(chance.uniform(0, DAWDLE))
            if chance.random() < 0.1:
                conn.rollback()
            else:
                conn.commit()
                written += runs


class Reader(threading.Thread):
    """Follows the journal until it is told that no more will come, and once more then."""

    def __init__(self, page: Callable[[int], list[int]]) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.ended = threading.Event()
        self._page = page

    def run(self) -> None:
        while True:
            last = self.ended.is_set()
            got = self._page(self.seen[-1] if self.seen else 0)
            self.seen += got
            if not got:
                if last:
                    return
                time.sleep(0.002)


def by_runjournal(url: str) -> Reader:
    recorder = PostgresApplicationRecorder(Database(url))

    def page(after: int) -> list[int]:
        found = recorder.select_notifications(after, PAGE, inclusive_of_start=False)
        return [notification.id for notification in found]

    return Reader(page)


def by_last_seen(url: str) -> Reader:
    conn = psycopg.connect(url, autocommit=True)
    query = b"SELECT position FROM events WHERE position > %s ORDER BY position LIMIT %s"

    def page(after: int) -> list[int]:
        return [position for (position,) in conn.execute(query, (after, PAGE))]

    return Reader(page)


def by_snapshot(url: str) -> Reader:
    """The snapshot's xmax is one above the last transaction that has *completed*: one that is open
    may have a higher id, and the hole that it still fills is given up."""
    conn = psycopg.connect(url, autocommit=True)
    query = (
        b"SELECT position, pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint"
        b" FROM pg_current_snapshot() s, events WHERE position > %s ORDER BY position LIMIT %s"
    )
    settled = 0
    note: tuple[int, int] | None = None

    def page(after: int) -> list[int]:
        nonlocal settled, note
        rows = conn.execute(query, (after, PAGE)).fetchall()
        if note is not None and rows and rows[0][1] >= note[1]:
            settled, note = note[0], None
        safe: list[int] = []
        for position, _xmin, xmax in rows:
            if position > max([settled, after, *safe[-1:]]) + 1:
                note = note or (rows[-1][0], xmax)
                break
            safe.append(position)
        return safe

    return Reader(page)


def figures(options: Namespace) -> Iterator[Figure]:
    events = options.events
    threads = 16 // options.processes
    with server(options.dsn) as postgres:
        url = postgres.database()
        open_journal(url).close()
        with psycopg.connect(url) as conn:
            conn.execute("CREATE TABLE host (x bigint)")
        readers = {
            "runjournal": by_runjournal(url),
            "the last position seen": by_last_seen(url),
            "pg_snapshot_xmax": by_snapshot(url),
        }
        for reader in readers.values():
            reader.start()
        context = get_context("spawn")
        late = threads // 2
        writers = [
            context.Process(target=write, args=(url, n, late, threads - late, -(-events // 16)))
            for n in range(options.processes)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        for reader in readers.values():
            reader.ended.set()
            reader.join()
        with psycopg.connect(url) as conn:
            rows = conn.execute("SELECT position FROM events ORDER BY position").fetchall()
    positions = [position for (position,) in rows]
    if any(writer.exitcode for writer in writers) or len(positions) < events:
        raise SystemExit(f"the writers wrote {len(positions):,} of {events:,} events")
    holes = positions[-1] - len(positions)
    for name, reader in readers.items():
        missed = len(set(positions) - set(reader.seen))
        strange = len(reader.seen) - (len(positions) - missed)
        order = "in order" if reader.seen == sorted(reader.seen) else "OUT OF ORDER"
        yield Figure(
            f"events missed beside 16 writers, Postgres, {name}",
            "all that were written",
            [missed / len(positions)],
            "less",
            note=f"{missed:,} of {len(positions):,}, {strange} too many, {order}, {holes:,} holes",
        )
    if readers["runjournal"].seen != positions:
        raise SystemExit("runjournal's reader did not see exactly what was written")


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
