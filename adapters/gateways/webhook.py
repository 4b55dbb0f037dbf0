"""WebhookGateway: posts each delivery to a URL, signed.

    2xx                                      delivered
    408, 425, 429, 5xx                       DeliveryFailed, with the receiver's Retry-After
    3xx, other 4xx                           DeliveryRefused
    no public address, unless allowed        DeliveryRefused
    no connection (name, TCP, TLS, time)     DeliveryFailed
    no proper answer on a connection         DeliveryAmbiguous

No error names more of the URL than its host: the path of a webhook may be a credential. For the
same reason httpx's Client is not used, which logs each URL; and it would have to be told to
follow no redirects, keep no cookies, and read no proxies or passwords from the environment.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from ssl import SSLContext
from typing import Any, Final

from ...domain.checks import check_seconds, refuse, shown
from ...domain.gateway import (
    DeliveryAmbiguous,
    DeliveryFailed,
    DeliveryRefused,
    DeliveryRequest,
)
from .addresses import AddressRefused, is_private
from .encoding import encoded
from .signature import SIGNATURE_HEADER, TIMESTAMP_HEADER, Secret, check_secrets, signature

try:
    import httpx
except ImportError as missing:
    raise refuse(
        "argument", "a webhook needs httpx: install the extra, runjournal[webhook]"
    ) from missing

from .transport import Transport

#: The longest total time-out: a delivery has to end within the lease of its attempt.
LONGEST: Final = 300.0
#: The longest that a receiver is left alone at its word, in seconds: a day.
LONGEST_RETRY_AFTER: Final = 86_400.0
#: How much of an answer's body is read, so that the receiver need not take it for cut off. None
#: of it is used.
_BODY_BYTES: Final = 16_384

_LATER: Final = frozenset({408, 425, 429})
_OWN_HEADERS: Final = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "transfer-encoding",
        TIMESTAMP_HEADER.lower(),
        SIGNATURE_HEADER.lower(),
    }
)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[!-~]([ -~]*[!-~])?")


class WebhookGateway:
    """Posts each delivery as JSON to a URL. Needs the extra `runjournal[webhook]`.

    url              http or https, without user information
    secret           signs each request (see `verify_signature`); several while one is changed
    timeout          seconds for a whole delivery, name look-up and answer included; at most 300
    connect_timeout  seconds of it until the connection stands, TLS included
    headers          further headers, such as the receiver's own authorization
    allow_private    deliver also to addresses that are not public: loopback, private networks,
                     link-local and so on
    ssl_context      for a receiver whose certificate is of a private authority, or that wants one
                     of ours; certifi's authorities if it is not given, as httpx has it
    transport        an httpx transport to send through instead, such as one with a proxy. The
                     deadline over the whole exchange and the check of addresses are then its own

    The same delivery has the same body and the same `Idempotency-Key` in every attempt. One
    attempt is one request on a new connection; nothing is tried again here.

    Raises RUN_VALIDATION_ERROR / argument for any of these that is not so.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: Secret | list[Secret] | tuple[Secret, ...],
        timeout: float = 10.0,
        connect_timeout: float = 5.0,
        headers: Mapping[str, str] | None = None,
        allow_private: bool = False,
        ssl_context: SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if type(allow_private) is not bool:
            raise refuse("argument", f"allow_private must be a bool, not {shown(allow_private)}")
        self._url = _check_url(url, allow_private)
        self._secrets = check_secrets(secret)
        self._headers = _check_headers(headers)
        total = _check_timeout(timeout, "timeout")
        connecting = _check_timeout(connect_timeout, "connect_timeout")
        # What httpx's own transports go by; ours has its deadline.
        steps = {"connect": connecting, "read": total, "write": total, "pool": connecting}
        self._extensions = {"timeout": steps}
        self._transport = transport or Transport(
            total,
            connecting,
            allow_private,
            ssl_context or httpx.create_ssl_context(trust_env=False),
        )

    def __repr__(self) -> str:
        return f"<WebhookGateway to {self._url.host}>"

    def deliver(self, request: DeliveryRequest) -> None:
        """Post the delivery once; DeliveryError as the module says."""
        host = self._url.host
        try:
            answer = self._transport.handle_request(self._message(request))
        except AddressRefused as error:
            raise DeliveryRefused(f"{error}; set allow_private if that is meant") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            # Only our own transport's texts are known to hold no credentials, as of a proxy.
            why = str(error) if isinstance(self._transport, Transport) else type(error).__name__
            raise DeliveryFailed(f"{host}: no connection: {why}") from None
        except (httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
            raise DeliveryFailed(f"{host}: nothing was sent: {type(error).__name__}") from None
        except httpx.TransportError as error:
            raise DeliveryAmbiguous(
                f"{host}: the request was sent, and no answer came: {type(error).__name__}"
            ) from None
        try:
            _judge(host, answer)
        finally:
            _finish(answer)

    def _message(self, request: DeliveryRequest) -> httpx.Request:
        body, now = encoded(request), str(int(time.time()))
        headers = httpx.Headers({"User-Agent": "runjournal"})
        headers.update(self._headers)
        headers.update(
            {
                "Content-Type": "application/json",
                "Connection": "close",
                "Idempotency-Key": request.invocation_id,
                TIMESTAMP_HEADER: now,
                SIGNATURE_HEADER: signature(self._secrets, now, body),
            }
        )
        return httpx.Request(
            "POST", self._url, headers=headers, content=body, extensions=self._extensions
        )


def _judge(host: str, answer: httpx.Response) -> None:
    status = answer.status_code
    if 200 <= status < 300:
        return
    said = f"{host} answered {status}"
    if 300 <= status < 400:
        raise DeliveryRefused(f"{said}; redirects are not followed, so name the final URL")
    if status in _LATER or 500 <= status < 600:
        raise DeliveryFailed(said, retry_after=retry_after(answer.headers.get("Retry-After")))
    if 400 <= status < 500:
        raise DeliveryRefused(said)
    raise DeliveryAmbiguous(f"{said}, which says neither yes nor no")


def retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, at most a day; None if it is missing or makes no sense."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]+", value):
        # Not all of the digits: int() refuses thousands of them.
        return min(float(value[:400]), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        seconds = moment.timestamp() - time.time()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def _finish(answer: httpx.Response) -> None:
    """Let the receiver say what else it has to say, within bounds; the delivery is decided."""
    read = 0
    assert isinstance(answer.stream, httpx.SyncByteStream)
    with suppress(httpx.TransportError):
        for chunk in answer.stream:
            read += len(chunk)
            if read >= _BODY_BYTES:
                break
    with suppress(httpx.TransportError):
        answer.close()


def _check_url(given: Any, allow_private: bool) -> httpx.URL:
    """No message shows more than the host."""
    if not isinstance(given, str):
        raise refuse("argument", f"url must be a str, not a {type(given).__name__}")
    try:
        url = httpx.URL(given)
        host = url.host
    except (httpx.InvalidURL, ValueError):
        raise refuse("argument", "url cannot be understood") from None
    if url.scheme not in ("http", "https"):
        raise refuse("argument", "url must begin with http:// or https://")
    if not host:
        raise refuse("argument", "url names no host")
    if url.userinfo:
        raise refuse("argument", f"url of {host} has user information; use headers instead")
    if url.port is not None and not 0 < url.port < 65536:
        raise refuse("argument", f"url of {host} has no valid port")
    if not allow_private and _is_private_literal(host):
        raise refuse("argument", f"url: {host} is no public address; set allow_private if meant")
    return url.copy_with(fragment=None)


def _is_private_literal(host: str) -> bool:
    try:
        return is_private(host)
    except ValueError:  # a name: it is looked at when it has been looked up
        return False


def _check_headers(given: Any) -> dict[str, str]:
    """The headers; a message shows names only, for a value may be a credential."""
    if given is not None and not isinstance(given, Mapping):
        raise refuse("argument", f"headers must be a dict, not a {type(given).__name__}")
    checked = dict(given or {})
    for name, value in checked.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise refuse("argument", f"headers: {shown(name)} is no name of a header")
        if name.lower() in _OWN_HEADERS:
            raise refuse("argument", f"headers: {name} is set by the gateway")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise refuse("argument", f"headers: the value of {name} must be printable ASCII")
    return checked


def _check_timeout(given: Any, what: str) -> float:
    seconds = check_seconds(given, what)
    if seconds > LONGEST:
        raise refuse("argument", f"{what} must be at most {LONGEST:g} seconds, not {shown(given)}")
    return seconds
