"""KeyRing: AES-256-GCM under keys of the host's, one of which writes.

An encrypted value is: the length of the key's id in a byte, the id, four bytes that tell this key
from another one of the same id, a random nonce of 12 bytes, and the ciphertext with its tag of 16.

Each stream has a key of its own, derived from the ring's. A random nonce must not come twice under
one key, and only one run's values are under this one: however much a journal writes, the number
of values that a key may encrypt (2**32) is not reached.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from ..domain.checks import refuse, shown
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from .ciphering import KEY_ID, Place, key_id_of, missing_key

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as missing:
    raise refuse(
        "argument", "a key ring needs cryptography: install the extra, runjournal[crypto]"
    ) from missing

KEY_BYTES: Final = 32
_CHECK_BYTES: Final = 4
_NONCE_BYTES: Final = 12
#: Streams whose derived keys are kept at hand, for each ring.
_STREAMS_KEPT: Final = 1024
#: What a key file has in place of a key that is gone.
LOST: Final = "lost"


class KeyRing:
    """Named keys, for `open_journal(..., cipher=)`. All of them read, and one of them writes.

    keys     32 random bytes each, by id: 1 to 32 of letters, digits, ".", "_" and "-"
    writing  the id of the key that writes; default: the first
    lost     ids of keys that are gone for good. What they have encrypted cannot be read any more
             and counts as damaged: RUN_INTEGRITY_ERROR / lost_key, and workers set it aside. The
             key of any other id that is not here is only missing: RUN_VALIDATION_ERROR /
             missing_key, and nothing is set aside

    It shows no key, and is not pickled. Raises RUN_VALIDATION_ERROR / argument.
    """

    def __init__(
        self, keys: Mapping[str, bytes], writing: str | None = None, lost: Iterable[str] = ()
    ) -> None:
        self._keys = {check_key_id(i): _Key(i, _check_key(i, key)) for i, key in keys.items()}
        self._lost = frozenset(check_key_id(i) for i in lost)
        if not self._keys:
            raise refuse("argument", "a key ring needs a key")
        if both := sorted(self._lost & set(self._keys)):
            raise refuse("argument", f"the key {both[0]!r} is lost, and here")
        self.writing = next(iter(self._keys)) if writing is None else writing
        if self.writing not in self._keys:
            raise refuse("argument", f"there is no key {shown(writing)} to write with")
        self._writer = self._keys[self.writing]

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """The ring of a key file: lines `ID:KEY`, the first of which writes.

        A key is the base64 of 32 bytes, or the word `lost`. Empty lines and lines that begin with
        # say nothing. Raises RUN_VALIDATION_ERROR / argument, with the line and never with what is
        in it; also for a file that others than its owner can read, but for its group.
        """
        name = str(path)
        if _decoded(name.rpartition(":")[2]) is not None:
            raise refuse("argument", "a key was given in place of a key file; it is not shown here")
        try:
            with Path(path).open(encoding="utf-8") as file:
                if (mode := os.fstat(file.fileno()).st_mode) & 0o027:
                    raise refuse(
                        "argument", f"{name} has mode {mode & 0o777:04o}; a key file needs 0600"
                    )
                lines = file.read().splitlines()
        except OSError as error:
            raise refuse("argument", f"{name} cannot be read: {error.strerror}") from None
        except ValueError:  # no UTF-8; a NUL in the name
            raise refuse("argument", f"{shown(name)} is no key file") from None
        return cls._of_lines(lines, name)

    @classmethod
    def _of_lines(cls, lines: Iterable[str], name: str) -> Self:
        keys: dict[str, bytes] = {}
        lost: list[str] = []
        for number, line in enumerate(lines, start=1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            key_id, _, key = text.partition(":")
            found = _decoded(key)
            if not KEY_ID.fullmatch(key_id) or (found is None and key != LOST):
                raise refuse("argument", f"{name}: line {number} is no ID:KEY") from None
            if key_id in keys or key_id in lost:
                raise refuse("argument", f"{name}: line {number} has an id that was there before")
            if found is None:
                lost.append(key_id)
            else:
                keys[key_id] = found
        if not keys:
            raise refuse("argument", f"{name} has no key")
        return cls(keys, lost=lost)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys that are here."""
        return tuple(self._keys)

    def encrypt(self, data: bytes, place: Place) -> bytes:
        """The data under the key that writes, bound to the place."""
        key = self._writer
        nonce = os.urandom(_NONCE_BYTES)
        return key.header + nonce + key.of_stream(place.stream).encrypt(nonce, data, _bound(place))

    def decrypt(self, data: bytes, place: Place) -> bytes:
        """The data back. Raises as `Cipher.decrypt`, and RUN_INTEGRITY_ERROR / lost_key."""
        key_id = key_id_of(data)
        if key_id is None:
            raise ValueError("it was encrypted, and its beginning was changed")
        key = self._keys.get(key_id)
        if key is None:
            if key_id in self._lost:
                raise _lost_key(place, key_id)
            raise missing_key(place, key_id)
        if not data.startswith(key.header):
            raise missing_key(place, key_id, "is not the one of this name here")
        begin = len(key.header) + _NONCE_BYTES
        nonce = data[len(key.header) : begin]
        try:
            return key.of_stream(place.stream).decrypt(nonce, data[begin:], _bound(place))
        except (InvalidTag, ValueError):
            raise ValueError("the encrypted bytes were changed, or belong elsewhere") from None

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._keys)}; {self.writing} writes)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KeyRing is not pickled: its keys would go where it goes")


class _Key:
    """One key; `header` is what everything it encrypts begins with."""

    def __init__(self, key_id: str, key: bytes) -> None:
        name = key_id.encode()
        check = hmac.digest(key, b"runjournal key check", "sha256")[:_CHECK_BYTES]
        self.header = bytes([len(name)]) + name + check

        def derive(stream: str) -> AESGCM:
            return AESGCM(hmac.digest(key, b"runjournal stream\0" + stream.encode(), "sha256"))

        self.of_stream = lru_cache(_STREAMS_KEPT)(derive)


def new_key_line(key_id: str) -> str:
    """A line for a key file: a new random key. Raises RUN_VALIDATION_ERROR / argument."""
    key = base64.b64encode(os.urandom(KEY_BYTES)).decode()
    return f"{check_key_id(key_id)}:{key}"


def check_key_id(value: Any) -> str:
    """The id of a key, or RUN_VALIDATION_ERROR / argument."""
    if not isinstance(value, str) or not KEY_ID.fullmatch(value):
        raise refuse("argument", "a key's id must be 1 to 32 of letters, digits, '.', '_' and '-'")
    return value


def _check_key(key_id: str, key: Any) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise refuse("argument", f"the key {key_id!r} must be {KEY_BYTES} bytes")
    return key


def _decoded(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None


def _bound(place: Place) -> bytes:
    # Neither part holds a NUL, so that no two places give the same bytes.
    return f"{place.stream}\0{place.part}".encode()


def _lost_key(place: Place, key_id: str) -> RunStoreError:
    return RunStoreError(
        RUN_INTEGRITY_ERROR,
        "lost_key",
        f"{place} was encrypted with the key {key_id!r}, which is lost",
    )
