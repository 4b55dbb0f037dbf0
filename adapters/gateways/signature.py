"""What a webhook's receiver checks: that the body came from who knows the secret, and recently.

Signed is "timestamp.body", with HMAC-SHA256; the header carries one `v1=` value per secret.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Protocol

from ...domain.checks import check_seconds, refuse

TIMESTAMP_HEADER = "Runjournal-Timestamp"
SIGNATURE_HEADER = "Runjournal-Signature"

Secret = str | bytes


class Headers(Protocol):
    """Headers as frameworks have them: anything with `items()`, names in any case."""

    def items(self) -> Iterable[tuple[Any, Any]]: ...


def check_secrets(given: Any) -> tuple[bytes, ...]:
    """One secret or several, as bytes; RUN_VALIDATION_ERROR / argument for anything else.

    The message never shows one.
    """
    several = given if isinstance(given, list | tuple) else (given,)
    if not several:
        raise refuse("argument", "secret: there is none")
    if not all(isinstance(secret, str | bytes) and secret for secret in several):
        raise refuse("argument", "secret must be a str or bytes that is not empty, or several")
    try:
        return tuple(s.encode() if isinstance(s, str) else s for s in several)
    except UnicodeEncodeError:
        raise refuse("argument", "secret has a lone surrogate") from None


def signature(secrets: Iterable[bytes], timestamp: str, body: bytes) -> str:
    """The value of the signature's header."""
    return ",".join(f"v1={_digest(secret, timestamp, body)}" for secret in secrets)


def _digest(secret: bytes, timestamp: str, body: bytes) -> str:
    return hmac.new(secret, timestamp.encode() + b"." + body, sha256).hexdigest()


def verify_signature(
    body: bytes | bytearray | memoryview,
    headers: Headers,
    secrets: Secret | list[Secret] | tuple[Secret, ...],
    tolerance: float = 300.0,
    now: float | None = None,
) -> bool:
    """Whether a webhook's request was signed with one of the secrets, and lately.

    body       the request's body as it was received, before any parsing
    headers    the request's headers
    secrets    the secret, or the old and the new one while it is changed
    tolerance  seconds that the sender's clock may be behind or ahead; an older request is taken
               for one that somebody recorded and sends again
    now        unix seconds; this host's clock if it is not given

    False whatever is wrong with the request. A request that is received twice within the
    tolerance passes twice: tell repetitions by their `Idempotency-Key`.

    Raises RUN_VALIDATION_ERROR / argument for a secret that is empty or no text, a body that is
    not bytes (one that was parsed and written anew is another), or a tolerance not above 0.
    """
    if not isinstance(body, bytes | bytearray | memoryview):
        raise refuse("argument", f"body must be bytes, not a {type(body).__name__}")
    known = check_secrets(secrets)
    limit = check_seconds(tolerance, "tolerance")
    timestamp = _only(headers, TIMESTAMP_HEADER)
    # Nine to twelve digits: int() would also take signs, spaces and digits of other scripts.
    if timestamp is None or re.fullmatch(r"[0-9]{9,12}", timestamp) is None:
        return False
    if abs((time.time() if now is None else now) - int(timestamp)) > limit:
        return False
    given = _only(headers, SIGNATURE_HEADER) or ""
    values = [
        value.strip().removeprefix("v1=").encode("utf-8", "backslashreplace")
        for value in given.split(",")
        if value.strip().startswith("v1=")
    ]
    good = False
    for secret in known:
        right = _digest(secret, timestamp, bytes(body)).encode()
        for value in values:
            # Not `any`: how long it takes shall not tell which secret it was.
            good |= hmac.compare_digest(right, value)
    return good


def _only(headers: Headers, name: str) -> str | None:
    """The one header of that name; None if it is missing, or there twice."""
    found = [
        value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for key, value in headers.items()
        if (key.decode("latin-1") if isinstance(key, bytes) else str(key)).lower() == name.lower()
    ]
    return found[0] if len(found) == 1 else None
