"""What goes over the wire: statements, and the binary formats of the few types we send and read.

Binary both ways: nothing is quoted, parsed or printed, and a timestamp keeps its microseconds.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
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


class Beyond(int):
    """A timestamptz that no datetime is: infinity, or a year beyond 9999. No code of ours wrote it.

    Where such a row is read it cannot be read, and the rows beside it can.
    """


def _read_moment(data: bytes) -> datetime | Beyond:
    (microseconds,) = _INT8.unpack(data)
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return Beyond(microseconds)


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


class Statement(NamedTuple):
    """A prepared statement: its name, its text, and the types of what goes in and comes out.

    Tables are written @name: `within` puts the journal's schema in their place, so that nothing
    depends on the search path of a connection, which may be the host's or a pooler's.
    """

    name: bytes
    text: bytes
    takes: tuple[Type, ...]
    gives: tuple[Type, ...]
    encoders: tuple[Callable[[Any], bytes], ...]
    decoders: tuple[Callable[[bytes], Any], ...]

    @property
    def oids(self) -> list[int]:
        return [t.oid for t in self.takes]

    def within(self, schema: str) -> bytes:
        """The text for the journal in this schema."""
        prefix = quoted(schema)
        literal = prefix.replace("'", "''")
        return re.sub(rb"('?)@", lambda m: m[1] + (literal if m[1] else prefix).encode(), self.text)


def quoted(schema: str) -> str:
    """The schema as it stands before a table's name."""
    return '"' + schema.replace('"', '""') + '".'


def statement(name: str, text: str, takes: tuple[Type, ...], gives: tuple[Type, ...]) -> Statement:
    return Statement(
        b"runjournal_" + name.encode(),
        text.encode(),
        takes,
        gives,
        tuple(t.encode for t in takes),
        tuple(t.decode for t in gives),
    )


def named(name: str, text: str, takes: Mapping[str, Type], gives: tuple[Type, ...]) -> Statement:
    """A statement whose text calls its parameters by name, `:so`; its values come in their order.

    Statements that share a part of their text can then share it as it is.
    """
    numbers = {key: f"${n}" for n, key in enumerate(takes, 1)}
    text = re.sub(r"(?<!:):([a-z_]+)", lambda m: numbers[m[1]], text)
    return statement(name, text, tuple(takes.values()), gives)
