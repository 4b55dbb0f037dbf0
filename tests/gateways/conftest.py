"""What the tests of the gateways share: a delivery, and receivers on this machine."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme
from runjournal import DeliveryRequest, WebhookGateway

SECRET = "the-secret-of-the-tests"
#: A path that is a credential, as that of many webhooks is.
PATH = "/T0/B0/path-that-opens-the-door?token=query-that-opens-it"

DELIVERY = DeliveryRequest(
    invocation_id="delivery-0123456789abcdef",
    run_id="import-42",
    delivery_ref="billing",
    kind="import",
    status="completed",
    code="ok",
    message=None,
    result={"rows": 3, "name": "Zoë"},
    ended_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)


@pytest.fixture
def delivery() -> Callable[..., DeliveryRequest]:
    """A delivery, with some fields otherwise."""
    return lambda **fields: replace(DELIVERY, **fields)


@dataclass
class Received:
    path: str
    headers: Message
    body: bytes


@dataclass
class Receiver:
    """An HTTP server that keeps what it gets, and answers as it is told."""

    url: str
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)


def serve(receiver: Receiver, context: ssl.SSLContext | None = None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.received.append(Received(self.path, self.headers, body))
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign] - refused handshakes
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that takes everything."""
    made = Receiver("")
    with serve(made) as server:
        made.url = f"http://127.0.0.1:{server.server_port}{PATH}"
        yield made
        server.shutdown()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority of our own."""
    return trustme.CA()


@pytest.fixture
def tls_receiver(authority: trustme.CA) -> Iterator[Receiver]:
    """A receiver with a certificate for receiver.test; the URL says so too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("receiver.test").configure_cert(context)
    made = Receiver("")
    with serve(made, context) as server:
        made.url = f"https://receiver.test:{server.server_port}{PATH}"
        yield made
        server.shutdown()


Answering = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Start a receiver on a bare socket: its function gets each connection. Gives the URL."""
    listeners: list[socket.socket] = []

    def start(answer: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def take() -> None:
            with suppress(OSError):  # the listener was closed, or the sender went away
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        answer(connection)

        threading.Thread(target=take, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}"

    yield start
    for listener in listeners:
        listener.close()


@pytest.fixture
def webhook() -> Callable[..., WebhookGateway]:
    """A gateway to a receiver on this machine."""
    return lambda url, **more: WebhookGateway(
        url, **{"secret": SECRET, "allow_private": True, **more}
    )
