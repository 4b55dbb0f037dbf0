"""One HTTP request on a connection of its own, with one deadline over all of it.

An httpx transport on h11. httpx's own gives each read its time-out anew, so that a receiver that
sends a byte now and then holds its caller for ever. It looks a host up where nobody can look at
the address. And it logs the headers of answers, where a redirect repeats the whole URL.

A connection is not kept: one that the receiver closes just when it is used again would make an
ambiguous delivery out of a plain one.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import h11
import httpx

from .addresses import AddressRefused, Deadline, connect

#: The most that the head of an answer may have.
_HEADER_BYTES = 65_536


class Transport(httpx.BaseTransport):
    """Sends requests; may be used by several threads.

    timeout          seconds for all of an exchange, from the look-up of the name to the answer
    connect_timeout  seconds of it for the look-up, the connection and TLS together
    allow_private    whether addresses that are not public may be connected to
    ssl_context      for https

    Raises AddressRefused, or httpx's ConnectError or ConnectTimeout, before a byte of the request
    was sent; ReadTimeout, ReadError or RemoteProtocolError after that. Their texts name no path.
    """

    def __init__(
        self,
        timeout: float,
        connect_timeout: float,
        allow_private: bool,
        ssl_context: ssl.SSLContext,
    ) -> None:
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._allow_private = allow_private
        self._ssl_context = ssl_context

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send it; the answer's body is read by whoever wants it, within the same deadline."""
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        deadline = Deadline(self._timeout)
        exchange = _Exchange(self._connect(url, port), deadline)
        try:
            exchange.send(request)
            answer = exchange.receive()
        except BaseException:
            exchange.close()
            raise
        return httpx.Response(
            answer.status_code, headers=list(answer.headers), stream=_Body(exchange)
        )

    def _connect(self, url: httpx.URL, port: int) -> socket.socket:
        host = url.raw_host.decode()
        deadline = Deadline(min(self._timeout, self._connect_timeout))
        connection = None
        try:
            connection = connect(host, port, deadline, self._allow_private)
            if url.scheme == "https":
                connection.settimeout(deadline.left())
                # The certificate is checked against the name, whatever address was connected to.
                connection = self._ssl_context.wrap_socket(connection, server_hostname=host)
            return connection
        except (AddressRefused, OSError, ValueError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, AddressRefused):
                raise
            if isinstance(error, TimeoutError):
                raise httpx.ConnectTimeout("it did not answer in time") from error
            raise httpx.ConnectError(_reason(error)) from error


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


class _Exchange:
    """One request and its answer on a connected socket, all of whose waits end at the deadline."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEADER_BYTES)

    def send(self, request: httpx.Request) -> None:
        with _translated():
            data = b"".join(
                self._http.send(event) or b""
                for event in (
                    h11.Request(
                        method=request.method,
                        target=request.url.raw_path,
                        headers=request.headers.raw,
                    ),
                    h11.Data(data=request.content),
                    h11.EndOfMessage(),
                )
            )
            try:
                self._send_all(memoryview(data))
            except TimeoutError:
                raise
            except OSError:
                # A receiver may refuse a request, and close, before it has read all of it: what
                # it has answered is still to be read.
                pass

    def _send_all(self, left: memoryview) -> None:
        while left:
            self._connection.settimeout(self._deadline.left())
            left = left[self._connection.send(left) :]

    def receive(self) -> h11.Response:
        """The head of the answer; what comes before it (100, 103) tells nothing."""
        with _translated():
            while True:
                event = self._next_event()
                if isinstance(event, h11.Response):
                    return event

    def body(self) -> Iterator[bytes]:
        with _translated():
            while isinstance(event := self._next_event(), h11.Data):
                yield bytes(event.data)

    def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._connection.settimeout(self._deadline.left())
            self._http.receive_data(self._connection.recv(65536))
        if event is h11.PAUSED:  # it goes on in another protocol, uninvited
            raise h11.RemoteProtocolError("no HTTP any more")
        return event

    def close(self) -> None:
        self._connection.close()


class _Body(httpx.SyncByteStream):
    """An answer's body, as it comes; closing it closes the connection."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        return self._exchange.body()

    def close(self) -> None:
        self._exchange.close()


@contextmanager
def _translated() -> Iterator[None]:
    """What breaks once a request is on its way, in httpx's words."""
    try:
        yield
    except TimeoutError as error:
        raise httpx.ReadTimeout("no answer in time") from error
    except OSError as error:
        raise httpx.ReadError("the connection broke") from error
    except h11.RemoteProtocolError as error:
        raise httpx.RemoteProtocolError("no HTTP answer") from error
