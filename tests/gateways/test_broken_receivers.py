"""WebhookGateway against receivers that break, hang, or are not there."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from runjournal import DeliveryAmbiguous, DeliveryFailed, DeliveryRefused, WebhookGateway

Gateways = Callable[..., WebhookGateway]


def read_request(connection: socket.socket) -> bytes:
    """All of a request, headers and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    (length,) = (
        int(x[15:]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 2",
        b"HTTP/1.1 200 OK\r\nX: y\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
        b"\x16\x03\x01\x02\x00" * 9,
    ],
)
def test_no_proper_answer_is_ambiguous(
    answering: Any, webhook: Gateways, delivery: Any, answer: bytes
) -> None:
    def half_answer(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(answer)

    with pytest.raises(DeliveryAmbiguous):
        webhook(answering(half_answer)).deliver(delivery())


def test_a_connection_that_is_reset_is_ambiguous(
    answering: Any, webhook: Gateways, delivery: Any
) -> None:
    def reset(connection: socket.socket) -> None:
        read_request(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with pytest.raises(DeliveryAmbiguous, match=r"^127\.0\.0\.1: the request was sent"):
        webhook(answering(reset)).deliver(delivery())


def test_an_answer_before_the_end_of_the_request_counts(
    answering: Any, webhook: Gateways, delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver may refuse a body for its size and close, without reading all of it."""

    class Socket(socket.socket):
        def send(self, data: Any, *_: Any) -> int:  # the receivers use sendall
            super().send(data[:100])
            raise BrokenPipeError

    def refuse(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")

    url = answering(refuse)
    monkeypatch.setattr(socket, "socket", Socket)
    with pytest.raises(DeliveryRefused, match="413"):
        webhook(url).deliver(delivery())


@pytest.mark.parametrize("kind", ["silent", "dripping", "100-continue", "not reading"])
def test_the_deadline_is_for_the_whole_exchange(
    answering: Any, webhook: Gateways, delivery: Any, kind: str
) -> None:
    """However a receiver keeps the connection busy, it holds a thread no longer than `timeout`."""
    over = threading.Event()
    drops = {"dripping": b"y", "100-continue": b"HTTP/1.1 100 Continue\r\n\r\n"}

    def hold(connection: socket.socket) -> None:
        if kind == "not reading":
            over.wait(10)
        read_request(connection)
        if kind == "dripping":
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not over.wait(0.02):
            connection.sendall(drops.get(kind, b""))

    begin = time.monotonic()
    # More than the system's buffers hold.
    result = "x" * (30_000_000 if kind == "not reading" else 10)
    with pytest.raises(DeliveryAmbiguous, match="Timeout"):
        webhook(answering(hold), timeout=0.3).deliver(delivery(result=result))
    assert 0.3 <= time.monotonic() - begin < 2
    over.set()


def test_the_answers_body_decides_nothing(answering: Any, webhook: Gateways, delivery: Any) -> None:
    """An endless one is not read to its end, and one that breaks off changes nothing."""

    def endless(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    def broken(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")

    for answer in (endless, broken):
        begin = time.monotonic()
        webhook(answering(answer)).deliver(delivery())
        assert time.monotonic() - begin < 5


def test_no_connection_is_failed(webhook: Gateways, delivery: Any, monkeypatch: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(DeliveryFailed, match=r"^127\.0\.0\.1: no connection: Connection refused$"):
        webhook(f"http://127.0.0.1:{port}/").deliver(delivery())

    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DeliveryFailed, match=r"nowhere\.test: no connection: Name or service"):
        webhook("http://nowhere.test/").deliver(delivery())


def test_connecting_has_a_time_out_of_its_own(
    answering: Any, webhook: Gateways, delivery: Any, monkeypatch: Any
) -> None:
    """For a look-up that hangs, and for a server that takes connections and never speaks TLS."""
    over = threading.Event()
    url = answering(lambda _: over.wait(10)).replace("http:", "https:")
    begin = time.monotonic()
    with pytest.raises(DeliveryFailed, match="did not answer in time"):
        webhook(url, timeout=60, connect_timeout=0.2).deliver(delivery())
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(10))
    with pytest.raises(DeliveryFailed, match="did not answer in time"):
        webhook(url, timeout=60, connect_timeout=0.2).deliver(delivery())
    assert time.monotonic() - begin < 5
    over.set()
