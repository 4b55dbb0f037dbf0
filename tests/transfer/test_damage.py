"""A damaged export is refused with its line, and nothing of it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runjournal import EventRegistry, Journal, RunStoreError, open_journal
from runjournal.adapters.codec import OrjsonCodec
from runjournal.adapters.transfer import publishing
from runjournal.domain.chain import GENESIS, chain_hash

from .conftest import fill_all


@pytest.fixture(scope="module")
def good() -> list[bytes]:
    """The lines of an export."""
    with open_journal("memory:") as journal:
        fill_all(journal)
        return list(journal.export())


@pytest.fixture
def target() -> Iterator[Journal]:
    with open_journal("memory:") as journal:
        yield journal


@pytest.fixture(autouse=True)
def _one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written would be written before the end of the file is seen."""
    monkeypatch.setattr(publishing, "BATCH", 1)


def with_trailer(lines: list[bytes]) -> list[bytes]:
    """The same lines with a trailer that is right, as a forger would write it."""
    events = [orjson.loads(line) for line in lines[1:-1]]
    trailer = {
        "streams": len({e["stream"] for e in events}),
        "events": len(events),
        "digest": sha256(b"".join(lines[:-1])).hexdigest(),
    }
    return [*lines[:-1], orjson.dumps(trailer) + b"\n"]


def place(lines: list[bytes], stream: str, version: int = 1) -> int:
    """The index of an event's line."""
    for index, line in enumerate(lines):
        document = orjson.loads(line)
        if (document.get("stream"), document.get("version")) == (stream, version):
            return index
    raise AssertionError(stream)


def refused(target: Journal, path: Path, lines: list[bytes]) -> RunStoreError:
    path.write_bytes(b"".join(lines))
    with pytest.raises(RunStoreError) as caught:
        target.import_from(path)
    assert target.position() == 0
    assert target.runs() == target.deliveries() == []
    return caught.value


def line_of(error: RunStoreError, path: Path) -> int:
    assert (error.code, error.reason) == ("RUN_VALIDATION_ERROR", "export_file"), error
    assert error.message.startswith(f"{path}: line "), error
    return int(error.message.removeprefix(f"{path}: line ").split()[0])


def test_every_line_with_a_byte_changed_is_named(
    good: list[bytes], target: Journal, tmp_path: Path
) -> None:
    for index in range(1, len(good) - 1):
        for part in (b'"data":"', b'"hash":"', b'"topic":"', b'"stream":"', b'"version":'):
            at = good[index].index(part) + len(part)
            at += len(good[index][at:]) // 2 if part == b'"data":"' else 0
            changed = bytearray(good[index])
            changed[at] = ord("7") if changed[at] != ord("7") else ord("8")
            lines = [*good[:index], bytes(changed), *good[index + 1 :]]
            assert line_of(refused(target, tmp_path / "x", lines), tmp_path / "x") == index + 1


def test_every_line_that_is_missing_or_twice(
    good: list[bytes], target: Journal, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    for index in range(len(good)):
        less = line_of(refused(target, path, good[:index] + good[index + 1 :]), path)
        assert less >= index + 1
        more = line_of(refused(target, path, good[: index + 1] + good[index:]), path)
        assert more == index + 2


def test_lines_in_another_order(good: list[bytes], target: Journal, tmp_path: Path) -> None:
    path = tmp_path / "x"
    for index in range(1, len(good) - 2):
        lines = [*good[:index], good[index + 1], good[index], *good[index + 2 :]]
        assert index + 1 <= line_of(refused(target, path, lines), path) <= len(good)


def replaced(lines: list[bytes], old: bytes, new: bytes) -> list[bytes]:
    return [line.replace(old, new) for line in lines]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda ls: [], 1),
        (lambda ls: ls[:1], 2),
        (lambda ls: [b"\xef\xbb\xbf", *ls], 1),
        (lambda ls: replaced(ls, b"\n", b"\r\n"), 1),
        (lambda ls: [*ls[:4], ls[4].replace(b"\n", b"\r\n"), *ls[5:]], 5),
        (lambda ls: [*ls, b"\n"], -1),
        (lambda ls: [*ls, b"x"], -1),
        (lambda ls: ls[:-1], -1),
        (lambda ls: [*ls[:-1], ls[-1][:-1]], -2),
        (lambda ls: [ls[0].replace(b"v1", b"v9"), *ls[1:]], 1),
        (lambda ls: [b"SQLite format 3\0" + b"x" * 100_000], 1),
        (lambda ls: [ls[0], b"[1]\n", *ls[1:]], 2),
        (lambda ls: [ls[0], b"{}\n", *ls[1:]], 2),
        (lambda ls: [ls[0], b"[" * 100_000 + b"\n", *ls[1:]], 2),
    ],
)
def test_kinds_of_damage(
    good: list[bytes],
    target: Journal,
    tmp_path: Path,
    change: Callable[[list[bytes]], list[bytes]],
    line: int,
) -> None:
    """-1 is the line behind the last one, -2 the last one."""
    lines = change(list(good))
    ends = {-1: len(b"".join(lines).rstrip(b"x\n").splitlines()) + 1, -2: len(lines)}
    error = refused(target, tmp_path / "x", lines)
    assert line_of(error, tmp_path / "x") == ends.get(line, line)


@pytest.mark.parametrize(
    ("stream", "version", "at", "problem"),
    [
        ("run/done-0", 1, "the next", "must come"),
        ("run/done-0", 5, "the next", "does not follow the end of its run"),
        ("run/held-0", 1, "all", "has another digest"),
    ],
)
def test_forged_with_a_right_trailer(
    good: list[bytes], target: Journal, tmp_path: Path, stream: str, version: int, at: str,
    problem: str,
) -> None:  # fmt: skip
    index = place(good, stream, version)
    if at == "all":  # a whole run is gone, and the trailer is the old one
        lines = [x for x in good if orjson.loads(x).get("stream") != stream]
        assert problem in refused(target, tmp_path / "x", lines).message
        return
    error = refused(target, tmp_path / "x", with_trailer(good[:index] + good[index + 1 :]))
    assert line_of(error, tmp_path / "x") == index + 1
    assert problem in error.message


def test_an_ended_run_without_its_delivery(
    good: list[bytes], target: Journal, tmp_path: Path
) -> None:
    begin = place(good, "run/done-0", 5) + 1
    end = place(good, "run/failed-0", 1)
    error = refused(target, tmp_path / "x", with_trailer(good[:begin] + good[end:]))
    assert line_of(error, tmp_path / "x") == begin + 1
    assert "the delivery of run/done-0" in error.message


def test_two_runs_that_changed_places(good: list[bytes], target: Journal, tmp_path: Path) -> None:
    begin, middle = place(good, "run/back-0", 1), place(good, "run/cancelled-0", 1)
    end = middle + 1
    while str(orjson.loads(good[end])["stream"]) != "run/done-0":
        end += 1
    lines = [*good[:begin], *good[middle:end], *good[begin:middle], *good[end:]]
    error = refused(target, tmp_path / "x", with_trailer(lines))
    assert line_of(error, tmp_path / "x") == begin + (end - middle) + 1
    assert "out of order" in error.message


@pytest.mark.parametrize(
    "wrong",
    [{"terminal_hash": "0"}, {"terminal_version": 4}, {"run_id": "x"}, {"delivery_ref": "x"}],
)
def test_the_delivery_of_another_end(
    good: list[bytes], target: Journal, tmp_path: Path, wrong: dict[str, object]
) -> None:
    index = place(good, "run/pending-0", 3) + 1
    name = str(orjson.loads(good[index])["stream"])
    line = forged(fields_of(good[index]) | wrong, "delivery.requested", name, 1, GENESIS)
    error = refused(target, tmp_path / "x", with_trailer([*good[:index], line, *good[index + 1 :]]))
    assert line_of(error, tmp_path / "x") == index + 1
    assert "was not requested for this end" in error.message


def forged(
    fields: dict[str, object], topic: str, stream: str, version: int, previous: str
) -> bytes:
    data = orjson.dumps(fields | {"prev_hash": previous, "schema_version": 1})
    document = {
        "stream": stream,
        "version": version,
        "topic": topic,
        "hash": chain_hash(previous, stream, version, topic, data),
        "data": data.decode(),
    }
    return orjson.dumps(document) + b"\n"


def fields_of(line: bytes) -> dict[str, object]:
    return dict(orjson.loads(orjson.loads(line)["data"]))


def hash_of(line: bytes) -> str:
    return str(orjson.loads(line)["hash"])


def test_runs_that_could_not_have_happened(
    good: list[bytes], target: Journal, tmp_path: Path
) -> None:
    """The chain, the order and the digest are right, and still it is refused."""
    head = good[0]
    queued = good[place(good, "run/plain-0", 1)]
    grant = good[place(good, "run/plain-0", 2)]
    plain = [good[place(good, "run/plain-0", v)] for v in range(1, 6)]
    name = "run/plain-0"

    def problem(*lines: bytes) -> str:
        error = refused(target, tmp_path / "x", with_trailer([head, *lines, b""]))
        assert line_of(error, tmp_path / "x") == len(lines) + 1
        return error.message

    after_end = forged(fields_of(grant) | {"fencing_token": 9}, "run.lease_granted", name, 6,
                       hash_of(plain[-1]))  # fmt: skip
    assert "comes after its end" in problem(*plain, after_end)
    lower = forged(fields_of(grant) | {"fencing_token": 1}, "run.lease_granted", name, 3,
                   hash_of(grant))  # fmt: skip
    assert "does not rise" in problem(queued, grant, lower)
    assert "no meaning" in problem(
        forged(fields_of(grant), "run.lease_granted", "run/x", 1, GENESIS)
    )
    for bad in ("run/", "run/ x", "run/a\0b", "run/" + "x" * 256):
        assert "stream" in problem(forged(fields_of(queued), "run.queued", bad, 1, GENESIS))
    assert "kind" in problem(
        forged(fields_of(queued) | {"kind": "a\0"}, "run.queued", "run/x", 1, GENESIS)
    )
    assert "does not begin" in problem(
        forged(fields_of(queued), "run.queued", "order/1", 1, GENESIS)
    )


def test_nothing_in_a_file_is_taken_on_trust(
    good: list[bytes], target: Journal, tmp_path: Path
) -> None:
    """A forged event that is linked well is validated all the same."""
    queued = good[place(good, "run/plain-0", 1)]
    grant = fields_of(good[place(good, "run/plain-0", 2)]) | {"owner": 5}
    forged_grant = forged(grant, "run.lease_granted", "run/plain-0", 2, hash_of(queued))
    lines = with_trailer([good[0], queued, forged_grant, b""])
    error = refused(target, tmp_path / "x", lines)
    assert (error.code, error.reason) == ("RUN_INTEGRITY_ERROR", "unreadable_event")
    assert "line 3: " in error.message


def test_events_of_newer_code_are_named_as_such(
    good: list[bytes], tmp_path: Path, target: Journal
) -> None:
    known = [e for e in target._codec.registry._events.values() if e.topic != "run.cancelled"]
    with open_journal("memory:") as older:
        older._codec.registry = EventRegistry(known)
        error = refused(older, tmp_path / "x", good)
        assert (error.code, error.reason) == ("RUN_INTEGRITY_ERROR", "unknown_topic")
        assert f"line {place(good, 'run/cancelled-0', 2) + 1}: " in error.message
        assert isinstance(older._codec, OrjsonCodec)


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_what_is_no_file(target: Journal, tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    with pytest.raises(RunStoreError) as caught:
        target.import_from(path)
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "export_file")


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_random_damage_is_refused_or_harmless(
    good: list[bytes], tmp_path: Path, data: st.DataObject
) -> None:
    whole = b"".join(good)
    begin = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.sampled_from([0, 1, 2, 50, 5000, len(whole)]))
    instead = data.draw(st.binary(max_size=8))
    spoilt = whole[:begin] + instead + whole[begin + length :]
    path = tmp_path / "spoilt"
    path.write_bytes(spoilt)
    with open_journal("memory:") as journal:
        try:
            journal.import_from(path)
        except RunStoreError as e:
            assert spoilt != whole
            line_of(e, path)
            assert journal.position() == 0
            assert journal.runs() == []
        else:
            assert b"".join(journal.export()) == whole
