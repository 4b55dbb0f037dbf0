"""Cases of values that JSON cannot hold."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from runjournal import Journal, RunLeaseHandle
from runjournal.adapters.contract.tools import refused

Verify = Callable[[Journal, str], None]
NAN, INFINITY = float("nan"), float("inf")


@contextmanager
def refuses(path: str, what: str = "") -> Iterator[None]:
    """The block must refuse a payload, and name where in it the offending value is."""
    with refused("RUN_VALIDATION_ERROR", "payload") as caught:
        yield
    assert caught.value.message.startswith(path + " "), caught.value.message
    assert what in caught.value.message


@pytest.fixture
def lease(journal: Journal) -> RunLeaseHandle:
    return journal.ledger().acquire("r", heartbeat=False)


def same(a: Any, b: Any) -> bool:
    """Equal in value and in type all the way down, with the same order and the same zeros."""
    if type(a) is not type(b):
        return False
    if type(a) is dict:
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if type(a) is list:
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is float:
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"score": NAN}, ".score"),
        ({"x": INFINITY}, ".x"),
        ({"x": -INFINITY}, ".x"),
        ([1.0, {"deep": [0, [NAN]]}], "[1].deep[1][0]"),
        (NAN, ""),
        (json.loads('{"x": 1e400}'), ".x"),
        ({"price": Decimal("1.10")}, ".price"),
        ({"price": Decimal("NaN")}, ".price"),
    ],
    ids=repr,
)
def test_case_45_no_number_becomes_null(
    journal: Journal, lease: RunLeaseHandle, verify_run: Verify, value: Any, path: str
) -> None:
    """Refused with the path of the number, at every door for payloads; the run stays usable."""
    before = journal.get("r")
    with refuses("state" + path):
        lease.save_checkpoint(value)
    with refuses("result" + path):
        lease.complete(value)
    with refuses("input" + path):
        journal.ledger().start("new", input=value)
    assert journal.get("r") == before
    assert journal.get("new") is None
    lease.save_checkpoint({"price": "1.10"})
    assert lease.checkpoint == {"price": "1.10"}
    lease.complete()
    verify_run(journal, "r")


class Colour(Enum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    A = "a"


@dataclass
class Point:
    x: int = 1


class MyDict(dict[str, Any]):
    pass


class MyList(list[Any]):
    pass


Pair = namedtuple("Pair", "a b")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


#: Values, and where in them and by what name the refusal must find the culprit.
NOT_JSON: dict[str, tuple[Any, str, str]] = {
    "set": ({1, 2}, "", "set"),
    "set of tuples": ({"seen": {(1, 2)}}, ".seen", "set"),
    "frozenset": ([frozenset()], "[0]", "frozenset"),
    "bytes": ({"raw": b"\xff"}, ".raw", "bytes"),
    "bytearray": (bytearray(b"a"), "", "byte"),
    "tuple": ((1, (2,)), "", "tuple"),
    "tuple in a list": ([[1, ()]], "[0][1]", "tuple"),
    "named tuple": ({"pair": Pair(1, 2)}, ".pair", "Pair"),
    "UUID": ({"id": UUID(int=1)}, ".id", "UUID"),
    "datetime": ([datetime(2026, 1, 1, tzinfo=UTC)], "[0]", "datetime"),
    "Enum": ({"colour": Colour.RED}, ".colour", "Colour"),
    "IntEnum": ({"one": Number.ONE}, ".one", "Number"),
    "StrEnum": ({"a": Word.A}, ".a", "Word"),
    "dataclass": ([Point()], "[0]", "Point"),
    "dict subclass": ({"d": MyDict(a=1)}, ".d", "MyDict"),
    "OrderedDict": (OrderedDict(a=1), "", "OrderedDict"),
    "list subclass": (MyList([1]), "", "MyList"),
    "complex": ([1j], "[0]", "complex"),
    "object": ({"o": object()}, ".o", "object"),
    "lone surrogate": ({"text": "a\ud800b"}, ".text", "surrogate"),
    "lone surrogate in a key": ({"outer": {"\udfff": 1}}, ".outer", "surrogate"),
    "int key": ({"m": {1: "a"}}, ".m", "key 1"),
    "bool key": ({True: 1}, "", "key True"),
    "None key": ({None: 1}, "", "key None"),
    "StrEnum key": ({Word.A: 1}, "", "Word"),
    "int above 64 bits": ({"n": 2**63}, ".n", "64 bits"),
    "int below 64 bits": ([-(2**63) - 1], "[0]", "64 bits"),
    "huge int": ([10**5000], "[0]", "64 bits"),
    "huge int key": ({10**5000: 1}, "", "key"),
    "300 deep": (nested(300), "", "deep"),
    "1,200 deep": (nested(1200), "", "deep"),
    "endless": (endless(), "", "deep"),
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_case_47_what_would_not_come_back_is_refused(
    journal: Journal, lease: RunLeaseHandle, verify_run: Verify, name: str
) -> None:
    value, path, what = NOT_JSON[name]
    before = journal.get("r")
    # Nested too deeply, the path itself is cut.
    path = "state" + ("[0]" * 65)[:195] + "…" if what == "deep" else "state" + path
    with refuses(path, what):
        lease.save_checkpoint(value)
    with refused("RUN_VALIDATION_ERROR", "payload"):
        lease.complete(value)
    with refused("RUN_VALIDATION_ERROR", "payload"):
        journal.ledger().start("new", input=value)
    assert journal.get("r") == before
    assert journal.get("new") is None
    lease.complete("fine")
    verify_run(journal, "r")


EXACT: dict[str, Any] = {
    "scalars": [None, True, False, 0, 1, -1, "", "text"],
    "numbers of one value": [1, 1.0, True, 0, 0.0, False, -0.0],
    "minus zero": {"x": -0.0},
    "floats": [0.1, 1e308, 5e-324, 2.0**53 + 2, math.pi, 1e22, 123456789.123456789],
    "ints": [2**53 + 1, 2**63 - 1, -(2**63)],
    "texts": ["\0", "a\0b", "\x7f", "é", "e\u0301", "\U0001f600", "\u2028", '"\\/'],
    "keys": {"b": 1, "a": 2, "": 3, "\0": 4, "é": 5, "e\u0301": 6, "1": 7},
    "254 deep": nested(254),
    "empty": [[], {}, [{}], {"a": []}],
}


@pytest.mark.parametrize("name", EXACT)
def test_case_47_what_is_accepted_comes_back_exactly(
    journal: Journal, lease: RunLeaseHandle, name: str
) -> None:
    """Of the same value, type, order and sign, through checkpoint, result and input."""
    value = EXACT[name]
    lease.save_checkpoint(value)
    assert same(lease.checkpoint, value)
    lease.complete(value)
    assert same(list(journal.events("r"))[-1].result, value)  # type: ignore[attr-defined]
    ledger = journal.ledger()
    ledger.start("new", input=value)
    assert same(ledger.acquire("new", heartbeat=False).input, value)


@pytest.mark.parametrize("text", ["a\0b", "lone \ud800 one", "x" * 100_000])
def test_case_47_no_text_keeps_a_run_from_ending(
    journal: Journal, lease: RunLeaseHandle, verify_run: Verify, text: str
) -> None:
    """A message is made storable, never refused: it must not stop a failure from landing."""
    record = lease.fail("broken", text)
    assert record.outcome is not None
    assert record.outcome.message is not None
    assert record == journal.get("r")
    ledger = journal.ledger()
    ledger.acquire("q", heartbeat=False).release(reason=text, error=text)
    assert ledger.cancel("q", text).status == "cancelled"
    for run_id in ("r", "q"):
        verify_run(journal, run_id)
