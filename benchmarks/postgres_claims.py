"""Claims beside a million finished runs, and a thousand leases renewed at once.

Claims: the time of `ledger.claim` on a journal of 1,000,000 finished runs. The divisor: the same
claims on a journal of 1,000 finished runs, in turns, one worker each. Finished runs are copies,
made by SQL, of one that went through the library (with all its events), and the tables are
analysed. A turn queues the runs before, and completes them after, the time that is taken.

Renewals: one ledger holds 1,000 leases and renews them all by one beat. Round trips are counted as
calls that send and wait. The divisor: the renewal of a single lease by itself.

    python -m benchmarks.postgres_claims
"""

from __future__ import annotations

import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
from runjournal import Journal, RunLedger, open_journal
from runjournal.adapters.postgres.session import Session

from .figure import Figure, Settings, run, times
from .interleaved import PAYLOADS, Turn, in_rounds, per_operation
from .postgres_server import DSN, columns, server

SETTINGS: Settings = DSN | {
    "rounds": (15, 3),
    "count": (200, 50),
    "finished": (1_000_000, 20_000),
}

TTL = 3600.0
KIND = "bench"
LEASES = 1000


def preload(url: str, finished: int) -> None:
    """Fill the journal with finished runs like one that the library made."""
    with open_journal(url) as journal:
        ledger = journal.ledger(lease_ttl=TTL)
        ledger.start("model", kind=KIND, input=PAYLOADS[0])
        lease = ledger.claim(kinds=[KIND], heartbeat=False)
        assert lease is not None  # it is the only one
        lease.complete(result=PAYLOADS[1])
    with psycopg.connect(url, autocommit=True) as conn:
        for table, key, prefix in (("runs", "run_id", "old-"), ("events", "stream", "run/old-")):
            rest = ", ".join(columns(conn, table, but=[key]))
            conn.execute(
                f"INSERT INTO {table} ({key}, {rest}) SELECT %s || i, {rest}"
                f" FROM {table} t, generate_series(2, %s) i ORDER BY i".encode(),
                (prefix, finished),
            )
        conn.execute("VACUUM ANALYZE")
        conn.execute("CHECKPOINT")


def claiming(journal: Journal, kinds: list[str] | None, limit: int | None, count: int) -> Turn:
    ledger = journal.ledger(lease_ttl=TTL)

    def turn() -> float:
        for _ in range(count):
            ledger.start(f"new-{uuid.uuid4().hex}", kind=KIND, input=PAYLOADS[2])
        claimed: list[Any] = []
        begun = time.perf_counter()
        while len(claimed) < count:
            got = ledger.claim(kinds=kinds, limit=limit or 1, heartbeat=False)
            assert got, "a queued run was not found"
            claimed += got
        took = time.perf_counter() - begun
        for lease in claimed:
            lease.complete()
        return took / count

    return turn


def claims(urls: dict[str, str], count: int, rounds: int) -> Iterator[Figure]:
    cases: list[tuple[str, list[str] | None, int | None]] = [
        ("one at a time", [KIND], None),
        ("one at a time, of any kind", None, None),
        ("8 at a time", [KIND], 8),
    ]
    with ExitStack() as stack:
        journals = {name: stack.enter_context(open_journal(url)) for name, url in urls.items()}
        (few, many) = journals
        for what, kinds, limit in cases:
            turns = {name: claiming(j, kinds, limit, count) for name, j in journals.items()}
            yield Figure(
                f"a claim, Postgres, {what}, beside {many} finished runs",
                f"beside {few}",
                times(in_rounds(turns, rounds), many, few),
                "less",
                aside=what != "one at a time",
            )


def renewals(url: str, rounds: int) -> Iterator[Figure]:
    with open_journal(url) as journal:
        ledger: RunLedger = journal.ledger(lease_ttl=TTL)
        for number in range(LEASES):
            ledger.start(f"held-{number}", kind="held")
        handles = ledger.claim(kinds=["held"], limit=LEASES, heartbeat=False)
        assert len(handles) == LEASES
        ledger.beat_once(handles)  # prepares the statement
        with counted_trips() as trips:
            ledger.beat_once(handles)
        sent = len(trips)

        def single(count: int) -> None:
            for i in range(count):
                handles[i % LEASES].renew()

        def batch(count: int) -> None:
            for _ in range(max(1, count // LEASES)):
                ledger.beat_once(handles)

        took = per_operation({"single": single, "batch": batch}, LEASES, rounds)
        yield Figure(
            f"a lease's share of a beat that renews {LEASES:,}, Postgres",
            "a renewal by itself",
            times(took, "batch", "single"),
            "less",
            note=f"{sent} round trip{'s' * (sent != 1)}",
        )


@contextmanager
def counted_trips() -> Iterator[list[str]]:
    """The round trips made meanwhile, by the calls of a session that send and wait."""
    trips: list[str] = []
    originals = {name: getattr(Session, name) for name in ("run", "run_batch")}

    def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            trips.append(name)
            return original(*args, **kwargs)

        return call

    try:
        for name, original in originals.items():
            setattr(Session, name, counting(name, original))
        yield trips
    finally:
        for name, original in originals.items():
            setattr(Session, name, original)


def figures(options: Namespace) -> Iterator[Figure]:
    with server(options.dsn) as postgres:
        urls = {f"{number:,}": postgres.database() for number in (1_000, options.finished)}
        for name, url in urls.items():
            preload(url, int(name.replace(",", "")))
        yield from claims(urls, options.count, options.rounds)
        yield from renewals(postgres.database(), options.rounds)


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
