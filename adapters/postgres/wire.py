"""PostgreSQL's binary wire formats of the few types we send and read.

Binary both ways: nothing is quoted, parsed or printed, and a timestamp keeps its microseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

_INT8 = struct.Struct("!q")
_FLOAT8 = struct.Struct("!d")
_ARRAY = struct.Struct("!iiIii")
_LENGTH = struct.Struct("!i")
#: timestamptz counts microseconds from here, whatever the session's time zone.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Type(NamedTuple):
    """A type on the wire: its oid, and how its values are written and read."""

    oid: int
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _moment(value: datetime) -> bytes:
    since = value - _EPOCH
    return _INT8.pack((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def _read_moment(data: bytes) -> datetime:
    return _EPOCH + timedelta(microseconds=_INT8.unpack(data)[0])


def _array(item: Type) -> Callable[[Any], bytes]:
    def encode(values: Sequence[Any]) -> bytes:
        parts = [_ARRAY.pack(1, 0, item.oid, len(values), 1)]
        for value in values:
            data = item.encode(value)
            parts += (_LENGTH.pack(len(data)), data)
        return b"".join(parts)

    return encode


def _not_read(_data: bytes) -> Any:
    raise AssertionError("arrays are sent, never read")


TEXT = Type(25, str.encode, lambda data: bytes(data).decode())
INT8 = Type(20, _INT8.pack, lambda data: _INT8.unpack(data)[0])
FLOAT8 = Type(701, _FLOAT8.pack, lambda data: _FLOAT8.unpack(data)[0])
BOOL = Type(16, lambda value: b"\1" if value else b"\0", lambda data: bytes(data) == b"\1")
BYTES = Type(17, bytes, bytes)
MOMENT = Type(1184, _moment, _read_moment)
TEXTS = Type(1009, _array(TEXT), _not_read)
INT8S = Type(1016, _array(INT8), _not_read)
FLOAT8S = Type(1022, _array(FLOAT8), _not_read)
BYTESES = Type(1001, _array(BYTES), _not_read)
