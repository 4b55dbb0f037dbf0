"""Claims beside a million finished runs, and a thousand leases renewed at once.

Claims: the time of `ledger.claim` on a journal of 1,000,000 finished runs. The divisor: the same
claims on a journal of 1,000 finished runs, in turns, one worker each. Finished runs are copies,
made by SQL, of one that went through the library (with all its events), and the tables are
analysed. A turn queues the runs before, and completes them after, the time that is taken.

Renewals: one ledger holds 1,000 leases and renews them all by one beat. Round trips are counted as
calls that send and wait. The divisor: the renewal of a single lease by itself.

    python -m benchmarks.postgres_claims [--dsn URL] [--quick]
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
from runjournal import Journal, RunLedger, open_journal
from runjournal.adapters.postgres.session import Session

from .interleaved import PAYLOADS, per_operation, ratios, spread
from .postgres_server import arguments, columns, server

TTL = 3600.0
KIND = "bench"
LEASES = 1000

#: Does its operation so many times and returns the seconds of each.
Timed = Callable[[int], float]


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


def claiming(journal: Journal, kinds: list[str] | None, limit: int | None) -> Timed:
    ledger = journal.ledger(lease_ttl=TTL)

    def run(count: int) -> float:
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

    return run


def claims(urls: dict[str, str], count: int, rounds: int) -> None:
    cases: list[tuple[str, list[str] | None, int | None]] = [
        ("one at a time, of a kind", [KIND], None),
        ("one at a time, of any kind", None, None),
        ("8 at a time, of a kind", [KIND], 8),
    ]
    with ExitStack() as stack:
        journals = {name: stack.enter_context(open_journal(url)) for name, url in urls.items()}
        (few, many) = journals
        for what, kinds, limit in cases:
            timed = {name: claiming(j, kinds, limit) for name, j in journals.items()}
            took: dict[str, list[float]] = {name: [] for name in timed}
            for number in range(-1, rounds):
                order = list(timed.items())
                for name, run in order if number % 2 == 0 else reversed(order):
                    seconds = run(count)
                    if number >= 0:
                        took[name].append(seconds)
            ratio = 1 / ratios(took, few)[many]
            low, high = spread(took, few, many)
            print(
                f"claim, postgres, {what}, with {many} finished runs: {ratio:.2f} x the time with "
                f"{few} (rounds {1 / high:.2f} to {1 / low:.2f})",
                flush=True,
            )


def renewals(url: str, rounds: int) -> None:
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
        ratio = 1 / ratios(took, "single")["batch"]
        low, high = spread(took, "single", "batch")
        best = min(took["batch"]) * 1e6
        print(
            f"renew, postgres, {LEASES:,} leases: {sent} round trip{'s' * (sent != 1)}; each lease "
            f"{ratio:.3f} of a renewal by itself (rounds {1 / high:.3f} to {1 / low:.3f}, at best "
            f"{best:.0f} us)"
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


def main() -> None:
    parser = arguments(__doc__, rounds=15, count=200, finished=1_000_000)
    options = parser.parse_args()
    rounds, finished = (5, 50_000) if options.quick else (options.rounds, options.finished)
    with server(options.dsn) as postgres:
        urls = {f"{number:,}": postgres.database() for number in (1_000, finished)}
        for name, url in urls.items():
            preload(url, int(name.replace(",", "")))
        claims(urls, options.count, rounds)
        renewals(postgres.database(), rounds)


if __name__ == "__main__":
    main()
