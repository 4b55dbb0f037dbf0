"""Whatever a receiver answers, a delivery is done, or ends in one of the three errors, in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import (
    DeliveryAmbiguous,
    DeliveryFailed,
    DeliveryRefused,
    DeliveryRequest,
    WebhookGateway,
)
from runjournal.adapters.gateways.webhook import LONGEST_RETRY_AFTER

from .generating import bounded, damaged, texts

#: Seconds for a whole delivery. What comes later than that is no answer.
TIMEOUT = 0.5
DELIVERY = DeliveryRequest(
    invocation_id="delivery-0123456789abcdef",
    run_id="import-42",
    delivery_ref="billing",
    kind="import",
    status="completed",
    code="ok",
    message=None,
    result={"rows": 3},
    ended_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)
GOOD = [
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfine!",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfine!\r\n0\r\n\r\n",
    b"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 429 Later\r\nRetry-After: Wed, 21 Oct 2037 07:28:00 GMT\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
]


class Receiver:
    """Answers each connection with the bytes it is told, in so many pieces, and hangs up."""

    def __init__(self) -> None:
        self.answer, self.pieces = b"", 1
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(5)
                connection.recv(65536)
                size = max(1, -(-len(self.answer) // self.pieces))
                for begin in range(0, len(self.answer), size):
                    connection.sendall(self.answer[begin : begin + size])
                connection.shutdown(socket.SHUT_WR)
                connection.recv(65536)

    def close(self) -> None:
        # Closing alone does not wake the one that waits.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def deliver(receiver: Receiver, answer: bytes, pieces: int) -> str:
    """What came of it."""
    receiver.answer, receiver.pieces = answer, pieces
    gateway = WebhookGateway(
        f"http://127.0.0.1:{receiver.port}/door", secret="x" * 32, timeout=TIMEOUT,
        allow_private=True,
    )  # fmt: skip
    begun = time.monotonic()
    try:
        gateway.deliver(DELIVERY)
        return "delivered"
    except DeliveryFailed as error:
        assert error.retry_after is None or 0 <= error.retry_after <= LONGEST_RETRY_AFTER
        return "failed"
    except (DeliveryRefused, DeliveryAmbiguous) as error:
        assert "door" not in str(error)
        return type(error).__name__
    finally:
        assert time.monotonic() - begun < 20 * TIMEOUT


@bounded(60)
@given(answer=st.sampled_from(GOOD).flatmap(damaged), pieces=st.sampled_from([1, 2, 7, 200]))
def test_damaged_answer(receiver: Receiver, answer: bytes, pieces: int) -> None:
    deliver(receiver, answer, pieces)


@bounded(40)
@given(answer=st.binary(max_size=300), pieces=st.sampled_from([1, 3]))
def test_any_bytes(receiver: Receiver, answer: bytes, pieces: int) -> None:
    if not answer.startswith(b"HTTP/"):
        assert deliver(receiver, answer, pieces) == "DeliveryAmbiguous"


@bounded(40)
@given(status=st.integers(0, 1100), name=texts, value=texts)
def test_any_status_and_header(receiver: Receiver, status: int, name: str, value: str) -> None:
    field = f"{name}: {value}".encode("utf-8", "surrogatepass")
    deliver(receiver, b"HTTP/1.1 %d x\r\n%s\r\nContent-Length: 0\r\n\r\n" % (status, field), 1)


@bounded(40)
@given(value=texts | st.integers().map(str) | st.from_regex(r"[A-Z][a-z]{2}, [ -~]{1,30}"))
def test_any_retry_after(receiver: Receiver, value: str) -> None:
    field = value.encode("utf-8", "surrogatepass").replace(b"\n", b"").replace(b"\r", b"")
    answer = b"HTTP/1.1 503 x\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n" % field
    assert deliver(receiver, answer, 1) in ("failed", "DeliveryAmbiguous")


def test_what_was_not_damaged_is_understood(receiver: Receiver) -> None:
    found = [deliver(receiver, answer, pieces) for answer in GOOD for pieces in (1, 7)]
    expected = ["delivered"] * 3 + ["failed"] * 2 + ["DeliveryRefused", "delivered"]
    assert found == [e for e in expected for _ in range(2)]
