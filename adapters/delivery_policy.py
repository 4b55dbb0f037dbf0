"""DeliveryPolicy: when a delivery that has not arrived is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..domain.checks import refuse
from ..domain.delivery import DeliveryRecord


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """When to try again what has definitely failed, and for how long.

    first_pause      seconds before the second attempt, at most; each further pause is `factor`
                     times as long
    longest_pause    seconds: no pause is longer, unless the receiver asked for it
    keep_trying      seconds since the first attempt after which a delivery waits for somebody's
                     decision: a time, not a count, so that an outage shorter than it needs nobody
    retry_ambiguous  also try again what may have arrived; right where the receiver deduplicates by
                     the invocation id

    Each pause is drawn between half of it and all of it, so that what failed together does not
    come back together. Raises RUN_VALIDATION_ERROR / argument.
    """

    first_pause: float = 1.0
    factor: float = 2.0
    longest_pause: float = 300.0
    keep_trying: float = 3 * 86_400.0
    retry_ambiguous: bool = False

    def __post_init__(self) -> None:
        numbers = (self.first_pause, self.factor, self.longest_pause, self.keep_trying)
        if not all(isinstance(n, int | float) and 0 < n < 1e10 for n in numbers):
            raise refuse("argument", f"a delivery policy takes positive numbers, not {numbers}")
        if not 1 <= self.factor <= 1000 or self.longest_pause < self.first_pause:
            raise refuse(
                "argument",
                f"factor {self.factor} must be from 1 to 1000, and longest_pause "
                f"{self.longest_pause} at least first_pause {self.first_pause}",
            )

    def next_attempt_at(
        self, record: DeliveryRecord, now: datetime, *, definite: bool, retry_after: float = 0.0
    ) -> datetime | None:
        """When to try again after the attempt under way has ended so; None: when somebody asks.

        retry_after  seconds the receiver asked to be left alone
        """
        if not (definite or self.retry_ambiguous):
            return None
        end = (record.trying_since or now) + timedelta(seconds=self.keep_trying)
        if now >= end:
            return None
        # The exponent is bounded before the power is: a float overflows near 1e308.
        pause = self.first_pause * self.factor ** min(record.attempts - 1, 64)
        pause = min(pause, self.longest_pause) * random.uniform(0.5, 1.0)
        return min(now + timedelta(seconds=max(pause, retry_after)), end)
