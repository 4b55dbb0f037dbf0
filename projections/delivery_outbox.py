"""The delivery outbox as rows: one per delivery, beside the columns that are searched for."""

from __future__ import annotations

from typing import Any

from ..domain.delivery import DeliveryRecord


def body(record: DeliveryRecord) -> dict[str, Any]:
    """What of an outbox row never changes and is not searched for."""
    return {"terminal_version": record.terminal_version, "created_at": record.created_at}
