"""What is wrong with a journal, by kinds; and what it was when it was anchored."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..domain.chain import fingerprint

#: What is wrong, by name.
#:
#:   unreadable        an event cannot be decoded, or has no meaning where it stands
#:   no_key            an event was encrypted with a key that is not here; once for each stream
#:   gap               versions are missing
#:   chain             an event does not follow from the one before it: one of the two was changed
#:   cut_tail          the record is of a later version than the last event
#:   head              the record's head is not the last event's hash
#:   record            the stored record is not what the events say
#:   missing_record    there are events and no record
#:   orphan_record     there is a record and no events
#:   missing_delivery  a run has ended with a delivery ref, and its delivery is not there
#:   orphan_delivery   there is a delivery, and no run that ended so
#:   anchor_missing    a stream of the anchor is not there any more
#:   anchor_cut        a stream is shorter than in the anchor
#:   anchor_changed    an event is not the one that was anchored
#:   tombstones        what is left of pruned streams is not what the audit log recorded
#:   reused            a stream is there again, and is not the one that was pruned
KINDS = (
    "unreadable", "no_key", "gap", "chain", "cut_tail", "head", "record", "missing_record",
    "orphan_record", "missing_delivery", "orphan_delivery",
    "anchor_missing", "anchor_cut", "anchor_changed", "tombstones", "reused",
)  # fmt: skip
#: The reasons of an error that say that the bytes are as they were, and cannot be decrypted.
NO_KEY = frozenset({"missing_key", "lost_key"})


class Finding(NamedTuple):
    """One thing that is not as it was written.

    kind      one of KINDS
    stream    where
    version   at which version, where that can be said
    message   what is wrong, for people
    evidence  stands for what exactly was found: a further change at the same place has another
    """

    kind: str
    stream: str
    version: int | None
    message: str
    evidence: str

    @property
    def fingerprint(self) -> str:
        """What an acknowledgement names."""
        return fingerprint(self.kind, self.stream, self.version, self.evidence)


class Anchored(NamedTuple):
    """What a stream was when it was anchored."""

    stream: str
    version: int
    head: str


class Anchor(Protocol):
    """What a journal is held against; asked with each stream, in their order."""

    def expected(self, name: str) -> tuple[list[Anchored], Anchored | None]:
        """What was anchored before this stream and has not come; and what of this one."""
        ...

    def rest(self) -> list[Anchored]:
        """What was anchored and has not come, after the last stream."""
        ...
