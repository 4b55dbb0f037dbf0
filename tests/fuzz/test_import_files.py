"""Whatever an import file holds, it is imported whole, or refused and nothing of it is written."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import Journal, RunStoreError, open_journal
from runjournal.domain.chain import GENESIS, chain_hash

from ..transfer.conftest import fill_all
from .generating import altered, as_json, bounded, damaged, json_values
from .readings import read_everything


@pytest.fixture(scope="module")
def export() -> bytes:
    with open_journal("memory:") as journal:
        fill_all(journal)
        return b"".join(journal.export())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "export.jsonl"


def import_or_refuse(path: Path, content: bytes) -> bool:
    """Whether it was imported; what stands in the journal then is sound, else there is nothing."""
    path.write_bytes(content)
    with open_journal("memory:") as journal:
        try:
            journal.import_from(path)
        except RunStoreError as error:
            assert error.code in ("RUN_VALIDATION_ERROR", "RUN_INTEGRITY_ERROR"), error
            assert journal.position() == 0
            assert journal.runs() == journal.deliveries() == []
            return False
        assert journal.verify().findings == []
        assert read_everything(journal, [r.run_id for r in journal.runs()]) == []
        return True


@bounded(40)
@given(content=st.binary(max_size=300) | json_values.map(as_json))
def test_any_bytes(path: Path, content: bytes) -> None:
    assert not import_or_refuse(path, content)


@bounded(60)
@given(data=st.data())
def test_damaged_export(path: Path, export: bytes, data: st.DataObject) -> None:
    content = data.draw(damaged(export))
    assert import_or_refuse(path, content) == (content == export)


def forged(lines: list[bytes], number: int, event: dict[str, Any]) -> bytes:
    """The export with this event instead, and all hashes and the digest as they must then be."""
    documents = [json.loads(line) for line in lines[1:-1]]
    documents[number] = event
    heads: dict[str, str] = {}
    written = [lines[0]]
    for document in documents:
        stream, data = document.get("stream"), document.get("data")
        if isinstance(stream, str) and isinstance(data, str):
            previous = heads.get(stream, GENESIS)
            try:
                body = _linked(data, previous)
                head = chain_hash(
                    previous, stream, document["version"], document["topic"], body.encode()
                )
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                head, body = previous, data
            heads[stream] = head
            document |= {"data": body, "hash": head}
        written.append(as_json(document) + b"\n")
    names = {d["stream"] for d in documents if isinstance(d.get("stream"), str)}
    digest = sha256(b"".join(written)).hexdigest()
    trailer = {"streams": len(names), "events": len(documents), "digest": digest}
    return b"".join([*written, as_json(trailer) + b"\n"])


def _linked(data: str, previous: str) -> str:
    """The event's data with the hash of the event before it."""
    fields = json.loads(data)
    if isinstance(fields, dict) and fields.get("prev_hash") not in (None, previous):
        fields["prev_hash"] = previous
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return data


@bounded(30)
@given(data=st.data())
def test_forged_event(path: Path, export: bytes, data: st.DataObject) -> None:
    """One who can count hashes as well as we can: what is imported is still whole and readable."""
    lines = export.splitlines(keepends=True)
    number = data.draw(st.integers(0, len(lines) - 3))
    event = json.loads(lines[number + 1])
    if data.draw(st.booleans()):
        inner = data.draw(altered(json.loads(event["data"])))
        event["data"] = as_json(inner).decode("utf-8", "replace")
    else:
        event = data.draw(altered(event))
    if isinstance(event, dict):
        import_or_refuse(path, forged(lines, number, event))


def test_import_is_possible_at_all(path: Path, export: bytes) -> None:
    """The forger's hashes are right: the export that nobody changed passes as forged."""
    lines = export.splitlines(keepends=True)
    assert import_or_refuse(path, export)
    assert import_or_refuse(path, forged(lines, 0, json.loads(lines[1])))


def test_every_refusal_leaves_a_journal_alone(path: Path, export: bytes) -> None:
    """Also one that has runs already: what was there is there, to the byte."""
    with open_journal("memory:") as journal:
        fill_all(journal)
        before = b"".join(journal.export())
        path.write_bytes(export[:-2])
        with pytest.raises(RunStoreError):
            journal.import_from(path)
        assert _content(journal) == before


def _content(journal: Journal) -> bytes:
    return b"".join(journal.export())
