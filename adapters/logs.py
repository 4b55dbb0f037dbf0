"""The fields of log lines, beside their text: one list, documented in docs/telemetry.md.

They are attributes of the LogRecord, for a formatter that writes them out. Neither they nor the
text ever hold an input, a state or a result.
"""

from __future__ import annotations

from typing import Any, Final

from ..domain.delivery import DeliveryRecord
from ..domain.errors import RunStoreError
from ..domain.lease import RunLeaseHandle
from .masking import mask

#: What each field says.
FIELDS: Final[dict[str, str]] = {
    "run_id": "The run.",
    "kind": "Its kind.",
    "owner": "Who holds it, or who sends.",
    "fencing_token": "The token of the lease that it is about.",
    "version": "The version of the run or the delivery, as far as it is known.",
    "code": "The code of a RunStoreError.",
    "reason": "Its reason.",
    "error_type": "The name of the type of any other exception.",
    "invocation_id": "The delivery.",
    "delivery_ref": "Where it goes.",
    "projection": "The projection.",
    "position": "A position in the journal.",
    "pause": "Seconds until it is tried again.",
}


def fields(
    about: RunLeaseHandle | DeliveryRecord | None = None,
    error: BaseException | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The `extra` of a log line: what it is about, what went wrong, and fields by their names."""
    found: dict[str, Any] = {}
    if isinstance(about, RunLeaseHandle):
        found = {
            "run_id": about.run_id,
            "kind": about.record.kind,
            "owner": about.owner,
            "fencing_token": about.fencing_token,
            "version": about.record.version,
        }
    elif about is not None:
        found = {
            "run_id": about.run_id,
            "kind": about.kind,
            "version": about.version,
            "invocation_id": about.invocation_id,
            "delivery_ref": about.delivery_ref,
        }
    if isinstance(error, RunStoreError):
        found |= {"code": error.code, "reason": error.reason}
    elif error is not None:
        found["error_type"] = type(error).__qualname__
    found |= more
    assert found.keys() <= FIELDS.keys(), found.keys() - FIELDS.keys()
    return found


def told(text: object) -> str:
    """A foreign text for a log line: one that names an address does so without its password."""
    return mask(str(text))
