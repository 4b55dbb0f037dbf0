"""verify_signature: what a receiver can rely on."""

from __future__ import annotations

import hmac
from email.message import Message
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import RunStoreError, verify_signature

BODY = b'{"runId":"a"}'
NOW = 1_700_000_000


def signed(secret: str = "s", at: int = NOW, body: bytes = BODY) -> dict[str, str]:
    digest = hmac.new(secret.encode(), b"%d.%s" % (at, body), "sha256").hexdigest()
    return {"Runjournal-Timestamp": str(at), "Runjournal-Signature": f"v1={digest}"}


def verify(headers: Any, secrets: Any = "s", body: bytes = BODY, **more: Any) -> bool:
    return verify_signature(body, headers, secrets, **{"now": NOW, **more})


def test_the_scheme_is_hmac_sha256_of_timestamp_and_body() -> None:
    assert verify(signed())
    assert not verify(signed(), "other")
    assert not verify(signed(), body=BODY + b"\n")
    assert not verify(signed() | {"Runjournal-Timestamp": str(NOW + 1)})


def test_names_of_headers_in_any_case_and_form() -> None:
    lower = {name.lower(): value for name, value in signed().items()}
    assert verify(lower)
    assert verify({name.encode(): value.encode() for name, value in lower.items()})
    message = Message()
    for name, value in signed().items():
        message[name.upper()] = value
    assert verify(message)
    # Twice is none: which of the two was meant?
    message["Runjournal-Timestamp"] = str(NOW)
    assert not verify(message)


def test_old_and_new_secret_while_it_is_changed() -> None:
    both = signed("new")["Runjournal-Signature"] + ", " + signed("old")["Runjournal-Signature"]
    headers = signed() | {"Runjournal-Signature": "v2=abc, " + both}
    assert verify(headers, "old")
    assert verify(headers, b"new")
    assert verify(signed("old"), ["new", "old"])
    assert not verify(headers, ["x", "y"])


def test_only_within_the_tolerance() -> None:
    for away, good in ((300, True), (301, False), (-300, True), (-301, False)):
        assert verify(signed(at=NOW + away)) is good
    assert verify(signed(at=NOW - 301), tolerance=302)
    assert not verify_signature(BODY, signed(), "s"), "the clock of this host is the default"


@pytest.mark.parametrize(
    "timestamp", ["", "x", "-1700000000", " 1700000000", "1_700_000_000", "9" * 99]
)
def test_a_timestamp_is_plain_digits(timestamp: str) -> None:
    assert not verify(signed() | {"Runjournal-Timestamp": timestamp})


@pytest.mark.parametrize("secrets", ["", b"", [], ["s", ""], None, 5, "\ud800"])
def test_a_secret_that_is_none_is_refused(secrets: Any) -> None:
    """An empty one would take what anybody can sign."""
    with pytest.raises(RunStoreError, match="secret"):
        verify(signed(), secrets)


def test_a_body_that_was_decoded_is_refused() -> None:
    with pytest.raises(RunStoreError, match="body must be bytes"):
        verify(signed(), body=BODY.decode())  # type: ignore[arg-type]


@given(st.binary(), st.dictionaries(st.text() | st.binary(), st.text() | st.binary()), st.text())
def test_what_strangers_send_is_false_and_never_an_error(
    body: bytes, headers: dict[Any, Any], value: str
) -> None:
    assert not verify_signature(body, headers, "s")
    forged = {"Runjournal-Timestamp": str(NOW), "Runjournal-Signature": f"v1={value}"}
    assert not verify(headers | forged, body=body)
