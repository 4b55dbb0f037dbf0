"""One HTTP request on a connection of its own, with one deadline over all of it.

An httpx transport. httpx's own gives each read its time-out anew, so that a receiver that sends a
byte now and then holds its caller for ever; and it looks a host up where nobody can look at the
address. A connection is not kept: one that the receiver closes just when it is used again would
make an ambiguous delivery out of a plain one.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpcore
import httpx

from .addresses import AddressRefused, Deadline, connect

_HTTPCORE_ERRORS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError)


class Transport(httpx.BaseTransport):
    """Sends requests; may be used by several threads.

    timeout          seconds for all of an exchange, from the look-up of the name to the answer
    connect_timeout  seconds of it for the look-up, the connection and TLS together
    allow_private    whether addresses that are not public may be connected to
    ssl_context      for https

    Raises AddressRefused; httpx.ConnectError or httpx.ConnectTimeout before a byte of the request
    was sent; httpx.ReadTimeout or httpx.ReadError after that. Their texts name no path.
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
        connection = self._connect(url, port)
        exchange = httpcore.HTTP11Connection(
            origin=httpcore.Origin(url.raw_scheme, url.raw_host, port),
            stream=_Stream(connection, deadline),
        )
        with _translated():
            answer = exchange.handle_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(
                        scheme=url.raw_scheme, host=url.raw_host, port=port, target=url.raw_path
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                )
            )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer, exchange))

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


class _Stream(httpcore.NetworkStream):
    """A connected socket, all of whose waits end at the deadline."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            self._connection.settimeout(self._deadline.left())
            return self._connection.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        except OSError as error:
            raise httpcore.ReadError(type(error).__name__) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = memoryview(buffer)
        try:
            while left:
                self._connection.settimeout(self._deadline.left())
                left = left[self._connection.send(left) :]
        except TimeoutError as error:
            raise httpcore.WriteTimeout from error
        except OSError as error:
            raise httpcore.WriteError(type(error).__name__) from error

    def close(self) -> None:
        self._connection.close()


class _Body(httpx.SyncByteStream):
    """An answer's body, as it comes; closing it closes the connection."""

    def __init__(self, answer: httpcore.Response, exchange: httpcore.HTTP11Connection) -> None:
        self._answer = answer
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        with _translated():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        with suppress(*_HTTPCORE_ERRORS):
            self._answer.close()
        self._exchange.close()


@contextmanager
def _translated() -> Iterator[None]:
    """What breaks once a request is on its way, in httpx's words."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise httpx.ReadTimeout("no answer in time") from error
    except httpcore.ProtocolError as error:
        raise httpx.RemoteProtocolError("no HTTP answer") from error
    except httpcore.NetworkError as error:
        raise httpx.ReadError("the connection broke") from error
