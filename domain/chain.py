"""The hash chain of a stream, and fingerprints of arguments.

One chain per stream, so that writers of different runs never meet. Each event's hash covers the
hash before it and the exact stored bytes; the record keeps the last one (its head). The hash is
over bytes, never over values: what was hashed and what is stored cannot differ (test_case_76).
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

# json.dumps would build this encoder anew for every fingerprint.
_canonical = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), sort_keys=True).encode

#: The hash before the first event of a stream.
GENESIS = "0" * 64


def chain_hash(previous: str, stream: str, version: int, topic: str, data: bytes) -> str:
    """The hash of one stored event: SHA-256 in hex over everything that identifies it.

    Stream and topic hold no control characters and `data` comes last, so the separators make
    the input unambiguous.
    """
    head = f"{previous}\0{stream}\0{version}\0{topic}\0"
    return sha256(head.encode() + data).hexdigest()


def fingerprint(*parts: Any) -> str:
    """SHA-256 in hex of the canonical JSON of `parts`: equal exactly when the parts are."""
    return sha256(_canonical(parts).encode()).hexdigest()


def invocation_id(run_id: str, name: str) -> str:
    """A stable idempotency key for one named side effect of a run: the same in every attempt."""
    return fingerprint(run_id, name)
