"""Appends of 8 writers on Postgres against the eventsourcing library's own recorder.

Each call appends one event of 1 KiB to a stream of the writer's own, its version checked. Both
sides get the same events, the same number of processes and threads, and a database of their own.

Ours: `insert_events` of the recorder under runjournal (no record of a run is written).

The divisor: `PostgresApplicationRecorder.insert_events` of eventsourcing as an application holds
it: one recorder a process with a pool of as many connections as threads, every other setting at its
default. That mode takes LOCK TABLE ... IN EXCLUSIVE MODE and sends NOTIFY in every transaction.

    python -m benchmarks.postgres_append
"""

from __future__ import annotations

import json
import logging
import uuid
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from eventsourcing.persistence import StoredEvent
from psycopg.conninfo import conninfo_to_dict
from runjournal.adapters.postgres.database import Database
from runjournal.adapters.postgres.recorder import PostgresApplicationRecorder

from .figure import Figure, Settings, rates, run
from .interleaved import PAYLOADS
from .postgres_server import DSN, server
from .workers import Step, in_turns

SETTINGS: Settings = DSN | {
    "rounds": (15, 3),
    "seconds": (1.0, 0.3),
    "processes": (2, 2),
    "threads": (4, 4),
}


def appending(recorder: Any, stream: Any) -> Step:
    def step(i: int) -> None:
        state = json.dumps(PAYLOADS[i % 64], separators=(",", ":")).encode()
        recorder.insert_events([StoredEvent(stream, i + 1, "bench.appended", state)])

    return step


@contextmanager
def ours(url: str, threads: int) -> Iterator[Sequence[Step]]:
    recorder = PostgresApplicationRecorder(Database(url))
    yield [appending(recorder, f"bench/{uuid.uuid4()}") for _ in range(threads)]
    recorder.close()


def library_recorder(url: str, threads: int) -> Any:
    loggers = [logging.getLogger(name) for name in ("psycopg", "psycopg.pool")]
    levels = [logger.level for logger in loggers]
    from eventsourcing import postgres  # importing it silences the driver's loggers

    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    where = conninfo_to_dict(url)
    return postgres.PostgresApplicationRecorder(
        postgres.PostgresDatastore(
            dbname=str(where["dbname"]),
            host=str(where.get("host", "localhost")),
            port=str(where.get("port", "5432")),
            user=str(where.get("user", "postgres")),
            password=str(where.get("password", "")),
            pool_size=threads,
            max_overflow=2,
        )
    )


@contextmanager
def library(url: str, threads: int) -> Iterator[Sequence[Step]]:
    recorder = library_recorder(url, threads)
    recorder.datastore.register_type_adapters()
    yield [appending(recorder, uuid.uuid4()) for _ in range(threads)]
    recorder.datastore.close()


def figures(options: Namespace) -> Iterator[Figure]:
    shape = (options.processes, options.threads)
    with server(options.dsn) as postgres:
        urls = {"eventsourcing": postgres.database(), "ours": postgres.database()}
        Database(urls["ours"]).close()
        made = library_recorder(urls["eventsourcing"], 1)
        made.create_table()
        made.datastore.close()
        took = in_turns(
            {
                "eventsourcing": (library, urls["eventsourcing"], *shape),
                "ours": (ours, urls["ours"], *shape),
            },
            options.seconds,
            options.rounds,
        )
        yield Figure(
            f"appends of 1 KiB, Postgres, {shape[0] * shape[1]} writers ({shape[0]} x {shape[1]})",
            "the eventsourcing library's recorder",
            rates(took, "ours", "eventsourcing"),
            "more",
        )


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
