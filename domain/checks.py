"""What is refused at the door, alike on every backend: identifiers, texts and times."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from .credentials import looks_like_credentials
from .errors import RUN_VALIDATION_ERROR, RunStoreError

Choice = TypeVar("Choice", bound=StrEnum)

#: One limit in bytes of UTF-8, far below every backend's own index limits.
IDENTIFIER_BYTES = 255
#: Characters of a name that one holder at a time may have.
EXCLUSIVE_NAME = 60


def refuse(reason: str, message: str) -> RunStoreError:
    """The RUN_VALIDATION_ERROR to raise for bad input."""
    return RunStoreError(RUN_VALIDATION_ERROR, reason, message)


def check_identifier(value: Any, what: str) -> str:
    """`value` as it is, if it may name something; else RUN_VALIDATION_ERROR / identifier.

    An identifier has 1 to 255 bytes of UTF-8, no control characters and no leading or trailing
    space. It is compared as given: nothing is trimmed, folded or normalised.
    """
    if type(value) is not str:
        raise refuse("identifier", f"{what} must be a str, not {type(value).__name__}")
    if not value.strip():
        raise refuse("identifier", f"{what} is empty")
    if value != value.strip():
        raise refuse("identifier", f"{what} {value[:80]!r} begins or ends with a space")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise refuse("identifier", f"{what} {value[:80]!r} has a lone surrogate") from None
    if size > IDENTIFIER_BYTES:
        raise refuse(
            "identifier",
            f"{what} {value[:40]!r}… has {size} bytes; the limit is {IDENTIFIER_BYTES}",
        )
    if not value.isprintable() and any(unicodedata.category(c) == "Cc" for c in value):
        raise refuse("identifier", f"{what} {value[:80]!r} has a control character")
    return value


def check_plain_name(value: Any, what: str, most: int) -> str:
    """A name that may be part of a file's or a table's name: a-z, 0-9 and _, from a letter on."""
    if type(value) is not str or not re.fullmatch(rf"[a-z][a-z0-9_]{{0,{most - 1}}}", value):
        raise refuse(
            "identifier",
            f"{what} must be 1 to {most} of a-z, 0-9 and _, from a letter on, not {shown(value)}",
        )
    return value


def check_optional(value: Any, what: str) -> str | None:
    """None, or an identifier."""
    return None if value is None else check_identifier(value, what)


def check_delivery_ref(value: Any) -> str:
    """An identifier under which the host knows where a result is to go.

    What looks like credentials (a token, a URL with a secret in it) is RUN_VALIDATION_ERROR /
    credentials, and the message does not repeat it: the name is kept in the journal for good.
    """
    # First of all: the refusals of an identifier show what they refuse.
    if isinstance(value, str) and looks_like_credentials(value):
        raise refuse("credentials", "delivery_ref looks like credentials; it is not shown here")
    return check_identifier(value, "delivery_ref")


def check_identifiers(values: Any, what: str) -> tuple[str, ...]:
    """A tuple of distinct identifiers in the given order."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise refuse("argument", f"{what}s must be a list of str, not {type(values).__name__}")
    names = tuple(check_identifier(v, what) for v in values)
    if len(set(names)) != len(names):
        raise refuse("argument", f"{what}s must differ from one another")
    return names


def check_labels(labels: Any) -> dict[str, str]:
    """A copy of the labels: a mapping from identifier to identifier."""
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise refuse("argument", f"labels must be a dict, not {type(labels).__name__}")
    return {
        check_identifier(k, "label"): check_identifier(v, f"label {k!r}")
        for k, v in sorted(labels.items(), key=lambda item: str(item[0]))
    }


def readable(text: Any, limit: int = 2000) -> str:
    """Free text made storable: lone surrogates escaped, long ones cut.

    Never refuses: a message must not be able to stop a run from being failed or cancelled.
    """
    escaped = str(text).encode(errors="backslashreplace").decode()
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


def check_text(text: Any, what: str) -> str | None:
    """None, or free text made storable by `readable`."""
    if text is not None and not isinstance(text, str):
        raise refuse("argument", f"{what} must be a str, not {type(text).__name__}")
    return None if text is None else readable(text)


def check_time(value: Any, what: str) -> datetime:
    """An aware datetime in UTC; a naive one, a date or a text is RUN_VALIDATION_ERROR / time."""
    if not isinstance(value, datetime):
        raise refuse("time", f"{what} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise refuse("time", f"{what} {value.isoformat()} has no time zone")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise refuse("time", f"{what} {value.isoformat()} is out of range") from None


def shown(value: Any) -> str:
    """A value for a message: short, and never an error of its own, however odd the value is."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an int of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign repr may raise anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:79] + "…"


def check_seconds(value: Any, what: str) -> float:
    """A positive, finite number of seconds, from a number or a timedelta."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise refuse("argument", f"{what} must be seconds or a timedelta, not {shown(value)}")
    if not 0 < seconds < 10**9:
        raise refuse("argument", f"{what} must be positive and finite, not {shown(value)}")
    return float(seconds)


def check_integer(value: Any, what: str, *, least: int, most: int = 2**63 - 1) -> int:
    """An int (no bool) within the bounds."""
    if type(value) is not int or not least <= value <= most:
        raise refuse(
            "argument", f"{what} must be an int from {least} to {most}, not {shown(value)}"
        )
    return value


def check_choice(value: Any, choices: type[Choice], what: str) -> Choice:
    """The member of an enum that the value names."""
    try:
        return choices(value)
    except ValueError:
        names = ", ".join(map(str, choices))
        raise refuse("argument", f"{value!r} is no {what}; there are {names}") from None
