"""What must not be printed, logged or stored: the credentials in a text that somebody else wrote.

A last line of defence: our own messages name no credentials in the first place.
"""

from __future__ import annotations

import re
from typing import Final

_CREDENTIALS: Final = (
    # Up to the last @ of the word: people do not always escape what is in a password. A file's
    # path has no credentials and may well have an @.
    (re.compile(r"\b(?!sqlite)([a-z][a-z0-9+.-]*://)\S*@", re.IGNORECASE), r"\1***@"),
    (re.compile(r"\b(password|passwd|pwd)=('[^']*'|[^\s&'\"]+)", re.IGNORECASE), r"\1=***"),
    # What follows the host of a web address: its path or its query may be the secret.
    (re.compile(r"\b(https?://[^\s/?#'\"]+)[/?#][^\s'\"]+", re.IGNORECASE), r"\1/***"),
    (
        re.compile(
            r"\b((?:access_?|api_?|auth_?)?(?:token|key|secret|signature)|authorization)"
            r"(\s*[=:]\s*)(?:(?:bearer|basic)\s+)?('[^']*'|[^\s&'\",]+)",
            re.IGNORECASE,
        ),
        r"\1\2***",
    ),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), r"\1 ***"),
)


def mask(text: str) -> str:
    """The text without the credentials of any address, token or password in it."""
    for pattern, replacement in _CREDENTIALS:
        text = pattern.sub(replacement, text)
    return text
