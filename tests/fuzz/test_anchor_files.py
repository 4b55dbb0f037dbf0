"""Whatever an anchor holds, the journal is held against it, or it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import Journal, RunStoreError, open_journal

from ..transfer.conftest import fill_all
from .generating import altered, as_json, bounded, damaged, json_values


@pytest.fixture(scope="module")
def journal() -> Iterator[Journal]:
    with open_journal("memory:") as opened:
        fill_all(opened)
        yield opened


@pytest.fixture(scope="module")
def anchor(journal: Journal) -> bytes:
    return "".join(journal.anchor()).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "anchor"


def judged(journal: Journal, path: Path, content: bytes) -> bool:
    """Whether the journal is what the anchor says; None where the anchor is refused."""
    path.write_bytes(content)
    try:
        return journal.verify(path).findings == []
    except RunStoreError as error:
        assert (error.code, error.reason) == ("RUN_VALIDATION_ERROR", "anchor"), error
        return False


@bounded(50)
@given(content=st.binary(max_size=200) | st.lists(json_values.map(as_json)).map(b"\n".join))
def test_any_bytes(journal: Journal, path: Path, content: bytes) -> None:
    assert not judged(journal, path, content)


@bounded(60)
@given(data=st.data())
def test_damaged_anchor(journal: Journal, anchor: bytes, path: Path, data: st.DataObject) -> None:
    content = data.draw(damaged(anchor))
    # A text file may end its lines as another system does.
    same = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == anchor
    assert judged(journal, path, content) == same


@bounded(80)
@given(data=st.data())
def test_forged_line(journal: Journal, anchor: bytes, path: Path, data: st.DataObject) -> None:
    """With the digest as it must then be: the journal is not what such an anchor says."""
    lines = [json.loads(line) for line in anchor.splitlines()]
    number = data.draw(st.integers(1, len(lines) - 2))
    was = lines[number]
    lines[number] = data.draw(altered(was))
    written = [as_json(line) + b"\n" for line in lines[:-1]]
    digest = sha256(b"".join(written)).hexdigest()
    trailer = as_json({"streams": len(lines) - 2, "digest": digest}) + b"\n"
    kept = lines[number]
    fields = ("stream", "version", "head")
    same = isinstance(kept, dict) and [kept.get(f) for f in fields] == [was[f] for f in fields]
    found = judged(journal, path, b"".join([*written, trailer]))
    assert found <= same


def test_an_unchanged_anchor_passes(journal: Journal, anchor: bytes, path: Path) -> None:
    assert judged(journal, path, anchor)
