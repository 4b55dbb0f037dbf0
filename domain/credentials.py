"""What a credential looks like, so that a name that is none can be told from one that is.

A name goes into an event, and an event is for ever. This is a net for mistakes, not a proof: what
looks like a plain word passes, and may be a password all the same.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

#: A text that is longer is no name anyway, and looking through it would take its time.
_LOOKED_THROUGH: Final = 2048

_URLS: Final = (
    # User information, also with an unescaped slash in its password; a port is none.
    r"://[^/?#\s]*@",
    r"://[^/?#\s@]*:(?!\d+(?:[/?#]|$))\S*@",
    # A parameter that is named after a secret: whole words, or the end of one in camel case.
    r"[?&;#](?:[^=&;#?]*[-_.])?(?:key|sig|auth|pass|pwd|jwt|bearer)(?:[-_.][^=&;#?]*)?=",
    r"[?&;#][^=&;#?]*(?:token|secret|password|passwd|passphrase)[^=&;#?]*=",
    r"[?&;#][^=&;#?]*(?:apikey|accesskey|credential|signature|authorization)[^=&;#?]*=",
    # Webhooks whose very path is the secret.
    r"\bhooks\.slack(?:-gov)?\.com/",
    r"\bdiscord(?:app)?\.com/api/(?:v\d+/)?webhooks/",
    r"\bapi\.telegram\.org/(?:file/)?bot",
    r"\bchat\.googleapis\.com/v\d+/spaces/",
    r"\boutlook\.office(?:365)?\.com/webhook",
    r"\.webhook\.office\.com/",
    r"\bhooks\.zapier\.com/hooks/",
    r"\bmaker\.ifttt\.com/",
    r"\bopen\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/",
)

_TOKENS: Final = (
    r"(?i:^\s*(?:authorization\s*:\s*)?(?:bearer|basic)[\s:]+\S)",
    r"-----BEGIN ",
    r"\bgh[pousr]_\w{4,}",
    r"\bgithub_pat_\w{4,}",
    r"\bglpat-[\w-]{4,}",
    r"\bxox[abeoprs]-[\w-]{4,}",
    r"\bsk-(?:[A-Za-z0-9]+-)*[A-Za-z0-9_]{16,}",
    r"\b[rs]k_(?:live|test)_\w{4,}",
    r"\bwhsec_[\w+/=-]{4,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}",
    r"\bAIza[\w-]{20,}",
    r"\beyJ[\w-]{5,}\.[\w-]+",
)

_CREDENTIAL: Final = re.compile(
    "|".join([*(f"(?i:{pattern})" for pattern in _URLS), *_TOKENS]), re.ASCII
)


def looks_like_credentials(text: str) -> bool:
    """Whether it holds, or is, what opens a door: a URL with a secret in it, or a token."""
    head = text[:_LOOKED_THROUGH]
    return any(_CREDENTIAL.search(form) for form in (head, unquote(head)))
