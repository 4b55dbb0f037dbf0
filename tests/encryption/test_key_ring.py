"""Key rings: their files, what they refuse, and that they never show a key."""

from __future__ import annotations

import base64
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import KeyRing, RunStoreError
from runjournal.adapters.ciphering import Place, key_id_of
from runjournal.adapters.key_ring import new_key_line

from .conftest import NEW, OLD, ring

PLACE = Place("run/x", "event 1 (run.queued)")
KEY = base64.b64encode(OLD).decode()

WriteFile = Callable[..., Path]


@pytest.fixture
def key_file(tmp_path: Path) -> WriteFile:
    def write(text: str | bytes, mode: int = 0o600) -> Path:
        path = tmp_path / "keys"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(mode)
        return path

    return write


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(RunStoreError) as caught:
        call()
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")
    return caught.value.message


def test_the_first_line_of_a_file_writes_and_all_of_them_read(key_file: WriteFile) -> None:
    lines = [new_key_line("2027-05"), "", "# before the move", f"old:{KEY}", "older:lost"]
    found = KeyRing.from_file(key_file("\n".join(lines)))
    assert (found.writing, found.key_ids) == ("2027-05", ("2027-05", "old"))
    data = found.encrypt(b"data", PLACE)
    assert key_id_of(data) == "2027-05"
    assert found.decrypt(data, PLACE) == b"data"
    assert found.decrypt(KeyRing({"old": OLD}).encrypt(b"before", PLACE), PLACE) == b"before"
    with pytest.raises(RunStoreError) as caught:
        found.decrypt(KeyRing({"older": NEW}).encrypt(b"gone", PLACE), PLACE)
    assert caught.value.reason == "lost_key"


@pytest.mark.parametrize(
    "text",
    [
        "", "# nothing\n", "older:lost\n", f"{KEY}\n", f"a b:{KEY}\n", f"old:{KEY[:-5]}\n",
        "old:\n", f"old:{KEY}\nold:{KEY}\n", f"old:{KEY}\nold:lost\n", f"old: {KEY}\n", b"\xff\xfe",
        f"{'x' * 33}:{KEY}\n", f"old:{KEY}{KEY}\n",
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_refused_and_not_shown(
    key_file: WriteFile, text: str | bytes
) -> None:
    message = refusal(lambda: KeyRing.from_file(key_file(text)))
    assert KEY[:8] not in message


@pytest.mark.parametrize(("mode", "fine"), [
    (0o600, True), (0o400, True), (0o640, True), (0o440, True),
    (0o644, False), (0o660, False), (0o604, False), (0o602, False),
])  # fmt: skip
def test_a_file_that_others_can_read_is_refused(key_file: WriteFile, mode: int, fine: bool) -> None:
    path = key_file(f"old:{KEY}", mode)
    if fine:
        assert KeyRing.from_file(path).writing == "old"
    else:
        assert f"has mode {mode:04o}" in refusal(lambda: KeyRing.from_file(path))


def test_a_key_in_place_of_its_file_is_not_repeated(tmp_path: Path) -> None:
    for given in (f"old:{KEY}", KEY):
        assert KEY not in refusal(lambda given=given: KeyRing.from_file(given))
    assert "No such file" in refusal(lambda: KeyRing.from_file(tmp_path / "none"))
    assert "no key file" in refusal(lambda: KeyRing.from_file("a\0b"))


def test_what_a_ring_refuses() -> None:
    for make in (
        lambda: KeyRing({}),
        lambda: KeyRing({"old": OLD[:16]}),
        lambda: KeyRing({"old": OLD.decode()}),  # type: ignore[dict-item]
        lambda: KeyRing({"": OLD}),
        lambda: KeyRing({"ö": OLD}),
        lambda: KeyRing({"old": OLD}, writing="new"),
        lambda: KeyRing({"old": OLD}, lost=["old"]),
        lambda: new_key_line("a:b"),
    ):
        message = refusal(make)
        assert OLD.decode()[:16] not in message


def test_a_ring_shows_no_key() -> None:
    both = ring("new", "old")
    assert repr(both) == str(both) == "KeyRing(new, old; new writes)"
    for leave in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="not pickled"):
            leave(both)


def test_the_same_value_is_never_encrypted_alike() -> None:
    one = ring("old")
    assert len({one.encrypt(b"same", PLACE) for _ in range(100)}) == 100


def test_no_changed_byte_goes_unnoticed() -> None:
    one = ring("old")
    data = one.encrypt(b"the data", PLACE)
    changed = [
        data[:i] + bytes([data[i] ^ bit]) + data[i + 1 :]
        for i in range(len(data))
        for bit in (1, 128)
    ]
    for wrong in [*changed, *(data[:i] for i in range(len(data))), data + b"x"]:
        with pytest.raises((ValueError, RunStoreError)) as caught:
            one.decrypt(wrong, PLACE)
        if isinstance(caught.value, RunStoreError):  # it names another key now
            assert caught.value.reason == "missing_key"


@pytest.mark.parametrize("place", [
    Place("run/y", PLACE.part), Place(PLACE.stream, "event 2 (run.queued)"), Place("run", "x")
])  # fmt: skip
def test_a_value_that_was_moved_is_not_decrypted(place: Place) -> None:
    one = ring("old")
    data = one.encrypt(b"the data", PLACE)
    with pytest.raises(ValueError, match="belong elsewhere"):
        one.decrypt(data, place)


def test_the_place_is_authenticated_also_within_a_stream() -> None:
    """Each stream has a key of its own; the place within it is bound besides."""
    key = ring("old")._writer
    nonce, data = bytes(12), ring("old").encrypt(b"x", PLACE)
    assert key.of_stream("run/x") is key.of_stream("run/x")
    assert key.of_stream("run/x").encrypt(nonce, b"x", b"") != key.of_stream("run/y").encrypt(
        nonce, b"x", b""
    )
    assert data[len(key.header) :][:12] != nonce
