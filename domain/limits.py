"""What the deployment allows a run to store. The host sets it; a run can only ask for less."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from .errors import RUN_LIMIT_EXCEEDED, RunStoreError


class DeploymentLimits(BaseModel):
    """Ceilings in bytes of encoded JSON and in counts; seed 000 asks the host to tighten them.

    Checked before anything reaches the store: exceeding one is RUN_LIMIT_EXCEEDED with both
    numbers, and the run stays usable.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint_bytes: int = Field(default=1 << 20, gt=0)
    input_bytes: int = Field(default=1 << 20, gt=0)
    result_bytes: int = Field(default=1 << 20, gt=0)
    labels: int = Field(default=32, ge=0)
    approvals: int = Field(default=256, ge=0)

    def check(self, limit: str, actual: int, run_id: str) -> None:
        """Raise RUN_LIMIT_EXCEEDED, with reason `limit`, if `actual` is above that limit."""
        allowed: int = getattr(self, limit)
        if actual > allowed:
            raise RunStoreError(
                RUN_LIMIT_EXCEEDED,
                limit,
                f"run {run_id!r}: {limit.replace('_', ' ')} would be {actual:,}; "
                f"the limit is {allowed:,}",
            )
