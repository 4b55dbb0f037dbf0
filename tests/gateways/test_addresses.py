"""Which addresses a webhook connects to, and that it is the ones that were looked at."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import trustme
from runjournal import DeliveryFailed, DeliveryRefused, RunStoreError, WebhookGateway
from runjournal.adapters.gateways import addresses
from runjournal.adapters.gateways.addresses import is_private

PRIVATE = """127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1
    0.0.0.0 0.1.2.3 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 192.0.2.1 198.18.0.1
    :: ::1 fe80::1 fe80::1%eth0 fc00::1 fd12::1 fec0::1 ff02::1 ff0e::1 2001:db8::1 ::127.0.0.1
    ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a00:1
    2002:7f00:1:: 2002:a00:1:: 2001:0:7f00:1:: 64:ff9b:1::1"""
PUBLIC = """93.184.216.34 8.8.8.8 172.32.0.1 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_private_addresses_are_known(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses_are_known(address: str) -> None:
    assert not is_private(address)


def answers(*addresses: str) -> Callable[..., list[Any]]:
    """A name server: every name is at these addresses."""

    def look_up(_host: Any, port: int, **_: Any) -> list[Any]:
        families = [socket.AF_INET6 if ":" in a else socket.AF_INET for a in addresses]
        return [
            (family, socket.SOCK_STREAM, 6, "", (address, port))
            for family, address in zip(families, addresses, strict=True)
        ]

    return look_up


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is connected to; each connection is refused."""
    made: list[Any] = []

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            made.append(address[0])
            raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "socket", Socket)
    return made


def test_private_literals_are_refused_at_once() -> None:
    for host in ("127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:10.0.0.1]"):
        with pytest.raises(RunStoreError, match="no public address") as caught:
            WebhookGateway(f"http://{host}/hush", secret="s")
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f.1", "127.1"])
def test_private_addresses_behind_names_are_refused(host: str, delivery: Any) -> None:
    """Nothing is sent, whatever spelling the system resolves to such an address."""
    with pytest.raises(DeliveryRefused, match="no public address; set allow_private"):
        WebhookGateway(f"http://{host}:9/", secret="s").deliver(delivery())


def test_only_public_addresses_of_a_name_are_connected_to(
    connections: list[Any], delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = answers("10.0.0.1", "93.184.216.34", "::1", "2606:4700::1111")
    monkeypatch.setattr(socket, "getaddrinfo", mixed)
    with pytest.raises(DeliveryFailed, match="Connection refused"):
        WebhookGateway("http://receiver.test/", secret="s").deliver(delivery())
    assert connections == ["93.184.216.34", "2606:4700::1111"]


def test_a_name_server_that_changes_its_mind_changes_nothing(
    connections: list[Any], delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: a public address to be looked at, then a private one to be connected to."""
    replies = [answers("93.184.216.34"), answers("127.0.0.1"), answers("127.0.0.1")]
    asked: list[Any] = []

    def look_up(host: Any, *args: Any, **options: Any) -> list[Any]:
        asked.append(host)
        return replies[len(asked) - 1](host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    gateway = WebhookGateway("http://receiver.test/", secret="s")
    with pytest.raises(DeliveryFailed):
        gateway.deliver(delivery())
    assert (asked, connections) == (["receiver.test"], ["93.184.216.34"])
    # The next attempt looks it up anew, and looks at what it gets.
    with pytest.raises(DeliveryRefused):
        gateway.deliver(delivery())
    assert connections == ["93.184.216.34"]


def test_a_dead_address_leaves_time_for_the_next_one(
    receiver: Any, delivery: Any, monkeypatch: pytest.MonkeyPatch, webhook: Any
) -> None:
    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            if address[0] == "10.0.0.1":
                time.sleep(self.gettimeout() or 60)  # as one that nobody answers
                raise TimeoutError
            super().connect(address)

    monkeypatch.setattr(socket, "socket", Socket)
    monkeypatch.setattr(socket, "getaddrinfo", answers("10.0.0.1", "127.0.0.1"))
    url = receiver.url.replace("127.0.0.1", "receiver.test")
    webhook(url, connect_timeout=1.0).deliver(delivery())
    assert len(receiver.received) == 1


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name is this machine, and that is no private address."""
    monkeypatch.setattr(socket, "getaddrinfo", answers("127.0.0.1"))
    monkeypatch.setattr(addresses, "is_private", lambda _: False)


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.usefixtures("here")
def test_tls_and_host_keep_the_name(
    tls_receiver: Any, trusting: ssl.SSLContext, delivery: Any
) -> None:
    gateway = WebhookGateway(tls_receiver.url, secret="s", ssl_context=trusting)
    gateway.deliver(delivery())
    (received,) = tls_receiver.received
    assert received.headers["Host"] == tls_receiver.url.split("/")[2]
    assert received.headers["Host"].startswith("receiver.test:")


@pytest.mark.usefixtures("here")
def test_certificates_are_checked_and_nothing_is_sent_without(
    tls_receiver: Any, trusting: ssl.SSLContext, delivery: Any
) -> None:
    other = tls_receiver.url.replace("receiver.test", "other.test")
    for url, context in ((tls_receiver.url, None), (other, trusting)):
        with pytest.raises(DeliveryFailed, match="certificate is not accepted"):
            WebhookGateway(url, secret="s", ssl_context=context).deliver(delivery())
    assert tls_receiver.received == []


@pytest.mark.usefixtures("here")
def test_the_deadline_holds_under_tls(
    authority: trustme.CA, trusting: ssl.SSLContext, answering: Any, delivery: Any
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("receiver.test").configure_cert(context)
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(65536)
            tls.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not over.wait(0.02):
                tls.sendall(b"y")

    url = answering(drip).replace("http://127.0.0.1", "https://receiver.test")
    begin = time.monotonic()
    with pytest.raises(Exception, match="Timeout") as caught:
        WebhookGateway(url, secret="s", timeout=0.4, ssl_context=trusting).deliver(delivery())
    assert type(caught.value).__name__ == "DeliveryAmbiguous"
    assert time.monotonic() - begin < 2
    over.set()
