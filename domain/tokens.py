"""Fencing tokens: `epoch * 2**32 + n`.

The epoch is the journal's: 0 until somebody restores an earlier state, and one more each time. So a
token that is granted after a restore is above every token that was granted before it, also above
those that the restored state knows nothing of.
"""

from __future__ import annotations

from typing import Final

from . import events as e
from .record import RunRecord

#: So many tokens of a run fit into one epoch; 2**31 epochs fit into 64 bits.
EPOCH_SIZE: Final = 2**32
#: So many positions are left out by a restore: whoever has followed the journal further than the
#: restored state reaches must not take a new event for one that was seen.
POSITIONS_PASSED_OVER: Final = 2**32


def in_epoch(
    record: RunRecord | None, events: tuple[e.RunEvent, ...], epoch: int
) -> tuple[e.RunEvent, ...]:
    """The decided events, a token that is new among them being of the present epoch.

    A token that the run has already stays what it is.
    """
    if not epoch:
        return events
    last = 0 if record is None else record.fencing_token
    return tuple(_in_epoch(event, last, epoch * EPOCH_SIZE + 1) for event in events)


def _in_epoch(event: e.RunEvent, last: int, least: int) -> e.RunEvent:
    if not isinstance(event, e.LeaseGranted | e.RunFailed | e.RunCancelled):
        return event
    if not last < event.fencing_token < least:
        return event
    return event.model_copy(update={"fencing_token": least})


def is_next(token: int, last: int) -> bool:
    """Whether `token` is the first one after `last`, if need be of a later epoch."""
    return token == last + 1 or (token > last and token % EPOCH_SIZE == 1)


def is_of(token: int, epoch: int) -> bool:
    """Whether the token may be handed out anew in this epoch."""
    return token > epoch * EPOCH_SIZE
