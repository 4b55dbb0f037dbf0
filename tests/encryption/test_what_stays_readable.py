"""What of an encrypted journal can be read without its keys: the columns that the page lists."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
import runjournal
from runjournal import Journal, open_journal
from runjournal.domain.chain import fingerprint
from runjournal.domain.delivery import delivery_invocation_id

from ..docs.test_tables import rows
from .conftest import Cells, cells, files_of, fill_with_canaries, ring

PAGE = Path(runjournal.__file__).parent / "docs" / "encryption.md"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


def forms(text: str) -> Iterator[bytes]:
    """A text in every encoding in which it might have been stored, but for compression."""
    plain = text.encode()
    yield from (plain, text.encode("utf-16-le"), text.encode("utf-16-be"))
    yield from (plain.hex().encode(), plain.hex().upper().encode())
    for shift in range(3):  # base64 of it inside of something longer
        encoded = base64.b64encode(bytes(shift) + plain)[4 * (shift > 0) :]
        yield encoded[: len(encoded) - 4]


def as_bytes(values: Cells) -> list[bytes]:
    plain = [v if isinstance(v, bytes) else str(v).encode() for vs in values.values() for v in vs]
    return plain + [unpacked for value in plain for unpacked in _decompressed(value)]


def _decompressed(value: bytes) -> Iterator[bytes]:
    for begin in range(min(len(value), 64)):
        for wbits in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):
            try:
                yield zlib.decompressobj(wbits).decompress(value[begin:])
            except zlib.error:
                continue


def digests(journal: Journal) -> set[str]:
    """Whatever the events know a SHA-256 of: who can read it can confirm a guess."""
    found: set[str] = set()
    for record in journal.runs():
        found |= {record.start_digest, *(c.digest for c in record.commands)}
        for event in journal.events(record.run_id):
            for name in ("digest", "command_digest", "start_digest"):
                found |= {getattr(event, name, None) or record.start_digest}
            for name in ("input", "state", "result"):
                value = json.dumps(getattr(event, name, None), separators=(",", ":"))
                found.add(sha256(value.encode()).hexdigest())
    found.add(fingerprint("decide", "canary-approval", "canary-decision"))
    return found


def leaks(haystacks: list[bytes], needles: set[str]) -> set[str]:
    return {n for n in needles if any(form in h for form in forms(n) for h in haystacks)}


def encrypted(values: list[Any]) -> bool:
    return all(isinstance(v, bytes) and v.startswith(b"\x01\x03old") for v in values)


def test_nothing_but_the_listed_columns_can_be_read(database_url: str) -> None:
    with open_journal(database_url, cipher=ring("old")) as journal:
        said = fill_with_canaries(journal)
        known = digests(journal)
    stored = cells(database_url)
    haystacks = [*as_bytes(stored), files_of(database_url)]
    assert leaks(haystacks, said | known) == set()

    listed = {
        (table.strip("`"), column.strip("` "))
        for table, columns in rows(PAGE.read_text("utf-8"), "| Table | Readable columns |")
        for column in columns.split(",")
    }
    readable = {place for place, values in stored.items() if not encrypted(values)}
    # Nothing is set aside here; and two tables are about the journal, and no run.
    unused = {(table, "attention") for table, _ in listed}
    if database_url.startswith("sqlite"):
        unused.add(("runs", "ended_at"))
    of_runs = {p for p in readable if p[0] not in ("runjournal_schema", "token_epoch")}
    assert of_runs == listed - unused
    invocation_id = delivery_invocation_id("full", "inbox")
    assert leaks(haystacks, {"full", "report", "inbox", "run.completed", invocation_id}) == {
        "full", "report", "inbox", "run.completed", invocation_id,
    }  # fmt: skip


def test_the_same_in_plain_is_found(sqlite_url: str) -> None:
    """The search of this file can fail."""
    with open_journal(sqlite_url) as journal:
        said = fill_with_canaries(journal)
        known = digests(journal)
    assert leaks(as_bytes(cells(sqlite_url)), said) == said
    assert leaks([files_of(sqlite_url)], said) == said
    assert leaks(as_bytes(cells(sqlite_url)), known) != set()
    packed = {("t", "c"): [b"1234" + zlib.compress(b"x" * 50 + b"canary-input")]}
    assert leaks(as_bytes(packed), {"canary-input"}) == {"canary-input"}
    assert leaks([base64.b64encode(b"..canary-input..")], {"canary-input"}) == {"canary-input"}


def test_the_events_of_a_journal_in_memory_are_encrypted() -> None:
    with open_journal("memory:", cipher=ring("old")) as journal:
        said = fill_with_canaries(journal)
        stored: Any = journal.store
        states = [event.state for event in stored.tables.log if event]
        assert encrypted(states)
        assert leaks(states, said | digests(journal)) == set()


def test_what_is_written_in_a_transaction_of_the_hosts_is_encrypted(postgres_url: str) -> None:
    with (
        open_journal(postgres_url, cipher=ring("old")) as journal,
        psycopg.connect(postgres_url) as conn,
    ):
        operator = journal.in_transaction(conn)
        operator.start("run", input="canary-input", labels={"label": "canary-label"})
        operator.cancel("run", message="canary-message")
        conn.commit()
        stored = cells(postgres_url)
        assert encrypted(stored["events", "state"] + stored["runs", "body"])
        assert journal.verify().findings == []
