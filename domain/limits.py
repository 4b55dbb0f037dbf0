"""What the deployment allows a run. The host sets it; nothing that a run is given can raise it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .errors import RUN_LIMIT_EXCEEDED, RunStoreError
from .record import RunRecord

#: Seconds that stand for "as long as it takes": 31 years.
_ENDLESS = 10**9


class DeploymentLimits(BaseModel):
    """Ceilings in bytes, counts and seconds; seed 000 asks the host to tighten them.

    Checked before anything reaches the store, and again when a run is taken: exceeding one is
    RUN_LIMIT_EXCEEDED with both numbers, and the run stays usable. Only `attempts` and
    `run_seconds` end a run, as failed, when the next worker takes it.

    checkpoint_bytes, input_bytes, result_bytes   of one payload's encoded JSON
    labels, label_bytes   how many, and all their keys and values together in bytes of UTF-8
    approvals             that one suspension may wait for
    events_per_run        ends, cancels and releases always pass
    attempts              how many workers may be lost one after another, the first included
    run_seconds           a run's age since its creation, whatever it has been waiting for
    min_ttl, max_ttl      the range of a lease's seconds without renewal
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    checkpoint_bytes: int = Field(default=1 << 20, gt=0)
    input_bytes: int = Field(default=1 << 20, gt=0)
    result_bytes: int = Field(default=1 << 20, gt=0)
    labels: int = Field(default=32, ge=0)
    label_bytes: int = Field(default=1 << 16, ge=0)
    approvals: int = Field(default=256, ge=0)
    events_per_run: int = Field(default=10_000_000, ge=2)
    attempts: int = Field(default=1000, gt=0)
    run_seconds: float = Field(default=_ENDLESS, gt=0, le=_ENDLESS)
    min_ttl: float = Field(default=0, ge=0, le=_ENDLESS)
    max_ttl: float = Field(default=_ENDLESS, gt=0, le=_ENDLESS)

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.min_ttl > self.max_ttl:
            raise ValueError("min_ttl is above max_ttl")
        return self

    def check(
        self, limit: str, actual: float, run_id: str, record: RunRecord | None = None
    ) -> None:
        """Raise RUN_LIMIT_EXCEEDED, with reason `limit`, if `actual` is above that limit."""
        if actual > getattr(self, limit):
            raise self.exceeded(limit, actual, run_id, record)

    def exceeded(
        self, limit: str, actual: float, run_id: str, record: RunRecord | None = None
    ) -> RunStoreError:
        """The RUN_LIMIT_EXCEEDED to raise, with reason `limit` and both numbers."""
        return RunStoreError(
            RUN_LIMIT_EXCEEDED,
            limit,
            f"run {run_id!r}: {limit.replace('_', ' ')} would be {_shown(actual)}; "
            f"the limit is {_shown(getattr(self, limit))}",
            record=record,
        )

    def check_ttl(self, ttl: float) -> None:
        """Raise RUN_LIMIT_EXCEEDED / lease_ttl if leases may not last so many seconds."""
        if not self.min_ttl <= ttl <= self.max_ttl:
            raise RunStoreError(
                RUN_LIMIT_EXCEEDED,
                "lease_ttl",
                f"the lease ttl would be {_shown(ttl)} s; the limits are {_shown(self.min_ttl)} "
                f"to {_shown(self.max_ttl)} s",
            )


def label_bytes(labels: Mapping[str, str]) -> int:
    """What the labels' keys and values take together, in bytes of UTF-8."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in labels.items())


def _shown(number: float) -> str:
    return f"{number:,.6f}".rstrip("0").rstrip(".")
