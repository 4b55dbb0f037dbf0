"""When to try again: the retry policy of handlers, and pauses that grow."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from ..domain.checks import check_integer, check_seconds, refuse


@dataclass(frozen=True)
class RetryPolicy:
    """How often a run whose handler raises is tried, and after which pauses.

    max_attempts  the run fails for good when so many attempts have raised
    backoff       seconds (or a timedelta): the longest pause after the first failure; it doubles
                  with each further one
    max_backoff   seconds that no pause exceeds
    give_up_on    exception types that fail the run at once

    The pause is drawn evenly from zero to that longest one ("full jitter"), so that many runs
    that failed together do not come back together. Raises RUN_VALIDATION_ERROR / argument.
    """

    max_attempts: int
    backoff: float | timedelta = 1.0
    max_backoff: float | timedelta = 300.0
    give_up_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        check_integer(self.max_attempts, "max_attempts", least=1)
        check_seconds(self.backoff, "backoff")
        check_seconds(self.max_backoff, "max_backoff")
        kinds = self.give_up_on
        if not isinstance(kinds, tuple) or not all(
            isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds
        ):
            raise refuse("argument", f"give_up_on must be a tuple of exception types, not {kinds}")

    def longest_pause(self, failures: int) -> float:
        """The longest pause after so many failures, in seconds."""
        first, most = (check_seconds(s, "backoff") for s in (self.backoff, self.max_backoff))
        return growing(first, most, failures)

    def pause(self, failures: int) -> timedelta:
        """How long the run waits after so many failures."""
        return timedelta(seconds=random.uniform(0, self.longest_pause(failures)))


class Pauses:
    """Pauses of a loop: `first` seconds, doubled up to `most`, each shortened by up to a half.

    A half stays, so that they bound a loop; what varies keeps many workers from asking in step.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first = first
        self._most = most
        self._count = 0

    def next(self) -> float:
        """The next pause, in seconds."""
        self._count += 1
        return growing(self._first, self._most, self._count) * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin again with the first."""
        self._count = 0


def growing(first: float, most: float, count: int) -> float:
    """`first` for a count of 1, doubled for each further one, up to `most`."""
    return float(min(most, first * 2.0 ** min(count - 1, 64)))
