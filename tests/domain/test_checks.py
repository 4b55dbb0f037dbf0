"""What is refused at the door: each kind of value at its boundaries, and what the refusal says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest
from runjournal import RunStoreError
from runjournal.domain.checks import (
    check_choice,
    check_delivery_ref,
    check_identifier,
    check_identifiers,
    check_integer,
    check_labels,
    check_optional,
    check_plain_name,
    check_seconds,
    check_text,
    check_time,
    readable,
    shown,
)

BIG = 2**63 - 1
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


def refusal(check: Callable[[], object]) -> tuple[str, str]:
    """The reason and the message."""
    with pytest.raises(RunStoreError) as caught:
        check()
    assert caught.value.code == "RUN_VALIDATION_ERROR"
    return caught.value.reason, str(caught.value)


def identifier(value: Any) -> Any:
    return check_identifier(value, "thing")


@pytest.mark.parametrize("value", ["x", "é" * 127 + "x", "x" * 255, "a b", "\u200b", "a\xa0b", "…"])
def test_identifiers(value: str) -> None:
    assert identifier(value) is value
    assert check_optional(value, "thing") is value
    assert check_optional(None, "thing") is None
    assert check_delivery_ref(value) is value


LONG = "y" * 200
NO_IDENTIFIERS: list[tuple[Any, str]] = [
    (1, "thing must be a str, not int"),
    (None, "thing must be a str, not NoneType"),
    (type("Text", (str,), {})("x"), "thing must be a str, not Text"),
    ("", "thing is empty"),
    (" \t", "thing is empty"),
    (" x", "thing ' x' begins or ends with a space"),
    ("x\n", "thing 'x\\n' begins or ends with a space"),
    (" " + LONG, f"thing ' {'y' * 79}' begins or ends"),
    ("\ud800", "thing '\\ud800' has a lone surrogate"),
    ("\ud800" + LONG, f"thing '\\ud800{'y' * 79}' has a lone surrogate"),
    ("é" * 128, f"thing '{'é' * 40}'… has 256 bytes; the limit is 255"),
    ("a\0b", "thing 'a\\x00b' has a control character"),
    ("a\x9fb", "thing 'a\\x9fb' has a control character"),
    ("\0" + LONG, f"thing '\\x00{'y' * 79}' has a control character"),
]


@pytest.mark.parametrize(("value", "message"), NO_IDENTIFIERS)
def test_no_identifiers(value: Any, message: str) -> None:
    reason, text = refusal(lambda: identifier(value))
    assert reason == "identifier"
    assert message in text
    if value is not None:
        assert message in refusal(lambda: check_optional(value, "thing"))[1]
    assert refusal(lambda: check_labels({value: "x"}))[0] == "identifier"
    assert refusal(lambda: check_labels({"x": value}))[0] == "identifier"
    assert refusal(lambda: check_identifiers([value], "thing"))[0] == "identifier"
    assert refusal(lambda: check_delivery_ref(value))[0] == "identifier"


def test_delivery_ref_that_looks_like_credentials() -> None:
    secret = "https://user:hunter2@host/"
    reason, text = refusal(lambda: check_delivery_ref(secret))
    assert reason == "credentials"
    assert "hunter2" not in text
    assert "delivery_ref looks like credentials" in text
    assert "delivery_ref must be a str" in refusal(lambda: check_delivery_ref(3))[1]


def test_plain_names() -> None:
    for value in ("a", "a_0", "abcde"):
        assert check_plain_name(value, "name", 5) is value
    for value in ("", "A", "0a", "_a", "abcdef", "a-b", "a\n", 1, None, "é"):
        reason, text = refusal(lambda v=value: check_plain_name(v, "name", 5))  # type: ignore[misc]
        assert reason == "identifier"
        assert f"name must be 1 to 5 of a-z, 0-9 and _, from a letter on, not {value!r}" in text


def test_lists_of_identifiers() -> None:
    assert check_identifiers(iter(["b", "a"]), "thing") == ("b", "a")
    assert check_identifiers((), "thing") == ()
    for value in ("ab", 1, None):
        reason, text = refusal(lambda v=value: check_identifiers(v, "thing"))  # type: ignore[misc]
        assert reason == "argument"
        assert f"things must be a list of str, not {type(value).__name__}" in text
    reason, text = refusal(lambda: check_identifiers(["a", "b", "a"], "thing"))
    assert reason == "argument"
    assert "things must differ from one another" in text
    assert "thing must be a str" in refusal(lambda: check_identifiers([1], "thing"))[1]


def test_labels() -> None:
    given = {"b": "1", "a": "2"}
    assert list(check_labels(given).items()) == [("a", "2"), ("b", "1")]
    assert check_labels(given) is not given
    assert check_labels(None) == {}
    reason, text = refusal(lambda: check_labels([("a", "b")]))
    assert (reason, "labels must be a dict, not list" in text) == ("argument", True)
    assert "label must be a str, not int" in refusal(lambda: check_labels({1: "x", "a": "b"}))[1]
    assert "label 'a' must be a str, not int" in refusal(lambda: check_labels({"a": 1}))[1]


def test_texts() -> None:
    assert readable("a\ud800é") == "a\\ud800é"
    assert readable(3) == "3"
    assert readable("x" * 2000) == "x" * 2000
    assert readable("x" * 2001) == "x" * 1999 + "…"
    assert readable("abcd", 3) == "ab…"
    assert check_text(None, "message") is None
    assert check_text("a\ud800", "message") == "a\\ud800"
    reason, text = refusal(lambda: check_text(1, "message"))
    assert (reason, "message must be a str, not int" in text) == ("argument", True)


def test_times() -> None:
    assert check_time(NOON, "at") == NOON
    assert check_time(NOON, "at").tzinfo is UTC, "whatever zone the host lives in"
    east = NOON.astimezone(timezone(timedelta(hours=5)))
    assert check_time(east, "at").isoformat() == NOON.isoformat()
    edge = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))
    for value, message in [
        (NOON.replace(tzinfo=None), "at 2026-01-01T12:00:00 has no time zone"),
        (NOON.date(), "at must be a datetime, not date"),
        ("2026", "at must be a datetime, not str"),
        (edge, f"at {edge.isoformat()} is out of range"),
    ]:
        reason, text = refusal(lambda v=value: check_time(v, "at"))  # type: ignore[misc]
        assert reason == "time"
        assert message in text


def test_seconds() -> None:
    for value, seconds in [(1, 1.0), (1e-9, 1e-9), (999_999_999.9, 999_999_999.9)]:
        assert check_seconds(value, "ttl") == seconds
    assert type(check_seconds(1, "ttl")) is float
    assert check_seconds(timedelta(milliseconds=1500), "ttl") == 1.5
    for value in (True, "1", None, [1]):
        reason, text = refusal(lambda v=value: check_seconds(v, "ttl"))  # type: ignore[misc]
        assert reason == "argument"
        assert f"ttl must be seconds or a timedelta, not {value!r}" in text
    for value in (0, -1, 10**9, float("inf"), float("nan"), timedelta(0)):
        reason, text = refusal(lambda v=value: check_seconds(v, "ttl"))  # type: ignore[misc]
        assert reason == "argument"
        assert f"ttl must be positive and finite, not {value!r}" in text


def test_integers() -> None:
    for value in (2, 5):
        assert check_integer(value, "n", least=2, most=5) == value
    assert check_integer(BIG, "n", least=0) == BIG
    for value in (1, 6, True, 3.0, "3", None):
        reason, text = refusal(lambda v=value: check_integer(v, "n", least=2, most=5))  # type: ignore[misc]
        assert reason == "argument"
        assert f"n must be an int from 2 to 5, not {value!r}" in text
    assert f"from 0 to {BIG}" in refusal(lambda: check_integer(BIG + 1, "n", least=0))[1]


def test_choices() -> None:
    assert check_choice("red", Colour, "colour") is Colour.RED
    reason, text = refusal(lambda: check_choice("green", Colour, "colour"))
    assert reason == "argument"
    assert "'green' is no colour; there are red, blue" in text


def test_values_in_messages() -> None:
    assert shown("x" * 78) == repr("x" * 78)
    assert shown("x" * 79) == "'" + "x" * 78 + "…"
    assert shown(2**64 - 1) == str(2**64 - 1)
    assert shown(2**64) == "an int of 65 bits"
    assert shown(Unshowable()) == "a Unshowable"
