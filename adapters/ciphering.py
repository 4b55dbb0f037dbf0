"""What stored bytes go through on their way in and out: nothing, or a cipher of the host's.

A journal may be mixed: what was written before a cipher was there stays as it is. So each stored
value says of itself what it is. JSON never begins with the mark that a cipher's output gets.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from ..domain.errors import RUN_VALIDATION_ERROR, RunStoreError

#: What the stored form of an encrypted value begins with.
MARK = b"\x01"
#: What the id of a key in a ring is made of.
KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,32}")


class Place(NamedTuple):
    """Where a value is stored: it must not be readable anywhere else.

    stream  the stream of the run or delivery
    part    which of its values: an event with its version and topic, or a part of its row
    """

    stream: str
    part: str

    def __str__(self) -> str:
        return f"{self.part} of {self.stream!r}"


def event_place(stream: str, version: int, topic: str) -> Place:
    """The place of a stored event."""
    return Place(stream, f"event {version} ({topic})")


class Cipher(Protocol):
    """Encrypts what a journal stores. Called from several threads at once.

    A KeyRing is one. A host whose keys are elsewhere brings its own, which must authenticate the
    place together with the data.
    """

    def encrypt(self, data: bytes, place: Place) -> bytes:
        """The data encrypted, with all that decrypting needs but the key."""
        ...

    def decrypt(self, data: bytes, place: Place) -> bytes:
        """The data back.

        Raises ValueError where data or place were changed, and RUN_VALIDATION_ERROR / missing_key,
        naming key and place, for a key that is not at hand (`missing_key` makes it).
        """
        ...


def enciphered(cipher: Cipher, data: bytes, place: Place) -> bytes:
    """The bytes to store for these."""
    return MARK + cipher.encrypt(data, place)


def deciphered(cipher: Cipher | None, stored: bytes, place: Place) -> bytes:
    """The bytes that were stored so, with their mark; raises as `Cipher.decrypt`."""
    data = stored[len(MARK) :]
    if cipher is None:
        raise missing_key(place, key_id_of(data))
    return cipher.decrypt(data, place)


def missing_key(place: Place, key_id: str | None, why: str = "is not here") -> RunStoreError:
    """The error for a value whose key is not at hand. `key_id` is None where it is not told.

    It is no RUN_INTEGRITY_ERROR: workers set such runs aside, and one worker that was started
    without a key would do that to all of them.
    """
    by = "a cipher that" if key_id is None else f"the key {key_id!r}, which"
    return RunStoreError(
        RUN_VALIDATION_ERROR, "missing_key", f"{place} was encrypted with {by} {why}"
    )


def key_id_of(data: bytes) -> str | None:
    """The id of the key that a ring encrypted this with; None where it names none."""
    name = data[1 : 1 + data[0]] if data else b""
    text = name.decode("ascii", "replace")
    return text if KEY_ID.fullmatch(text) and len(text) == data[0] else None
