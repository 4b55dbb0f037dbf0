"""From a host's name to an address that may be connected to, within a deadline.

A name is looked up once. Connected to is the very address that was looked at, so that a name
server that answers otherwise a moment later (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple

_NAT64 = IPv6Network("64:ff9b::/96")


class Deadline:
    """A moment after which nothing is waited for any more."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then; TimeoutError when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is over")
        return left


class AddressRefused(Exception):  # noqa: N818 - named after what is then known
    """The host is at addresses that must not be connected to."""


class Target(NamedTuple):
    """An address of a host, as sockets take it."""

    family: int
    address: Any


def is_private(text: str) -> bool:
    """Whether an address is any but a public one of a single host.

    That is loopback, link-local (where clouds keep their metadata), private and unique local
    networks, shared and reserved ones, multicast, and unspecified; also as an IPv4 address within
    an IPv6 one.
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        inner = _embedded(address)
        if inner is not None:
            return is_private(str(inner))
        if address.is_site_local:
            return True
    return not address.is_global or address.is_multicast or address.is_reserved


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets for this one would be sent on to."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]


def connect(host: str, port: int, deadline: Deadline, allow_private: bool) -> socket.socket:
    """A connected socket.

    Raises AddressRefused; TimeoutError; or OSError or ValueError, as of the last address tried.
    """
    targets = _look_up(host, port, deadline)
    allowed = [t for t in targets if allow_private or not is_private(t.address[0])]
    if not allowed:
        raise AddressRefused(f"{host} is at {targets[0].address[0]}, which is no public address")
    failure: OSError = OSError("no address")
    for number, target in enumerate(allowed):
        try:
            # Each gets its share of the time: a dead address shall not use up all of it.
            return _connect(target, deadline.left() / (len(allowed) - number))
        except OSError as error:  # also of a family that this host does not have
            failure = error
    raise failure


def _connect(target: Target, seconds: float) -> socket.socket:
    connection = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(target.address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return connection


def _look_up(host: str, port: int, deadline: Deadline) -> list[Target]:
    """All addresses of the host, in the order in which the system would try them.

    The system's look-up has no time-out of its own, so it runs in a thread that is left behind
    when it takes too long.
    """
    answers: queue.SimpleQueue[list[Target] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([Target(family, address) for family, _, _, _, address in found])
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            answers.put(error)

    threading.Thread(target=look_up, name="runjournal-look-up", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.left())
    except queue.Empty:
        raise TimeoutError("the host's name was not looked up in time") from None
    if isinstance(answer, Exception):
        raise answer
    return answer
