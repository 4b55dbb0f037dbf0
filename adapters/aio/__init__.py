"""The async face: the synchronous journal, ledger and handle, in worker threads (extra `async`)."""

from __future__ import annotations

from ...domain.checks import refuse

try:
    import anyio as _anyio  # noqa: F401 - so that what is missing is said before anything else
except ImportError as missing:
    raise refuse(
        "argument", "the async face needs anyio: install the extra, runjournal[async]"
    ) from missing
