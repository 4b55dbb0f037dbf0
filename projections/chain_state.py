"""Whether a stored stream is whole: its versions, its hash chain, and the head on record."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..domain.chain import GENESIS, chain_hash
from ..domain.ports import StoredEvent

#: Of a stream with many breaks, so many are told one by one.
TOLD = 20


@dataclass
class ChainState:
    """Recomputes a stream's chain over the stored bytes, event by event.

    Call `see` with every stored event in order, and `compare` with the record at the end; then
    `problems` says in sentences what is wrong, and is empty when the stream is whole.
    """

    name: str
    version: int = 0
    head: str = GENESIS
    events: int = 0
    problems: list[str] = field(default_factory=list)
    untold: int = 0

    def see(self, stored: StoredEvent, prev_hash: str | None, error: str | None = None) -> str:
        """Take in the next event; its hash.

        prev_hash  what the event says of the one before it; None where it cannot be read
        error      why it cannot be read
        """
        stream, version, topic, data = stored
        if error is not None:
            self.wrong(f"{self.name}, version {version} cannot be read: {error}")
        if version != self.version + 1:
            self.wrong(f"{self.name}: after version {self.version} comes {version}.")
        elif prev_hash is not None and prev_hash != self.head:
            before = f"version {self.version}" if self.version else "nothing"
            self.wrong(
                f"{self.name}: version {version} does not follow from {before} as stored; "
                "one of the two was changed."
            )
        self.version, self.events = version, self.events + 1
        # From what the event itself names, so that one break is not told again at every event.
        before_it = self.head if prev_hash is None else prev_hash
        self.head = chain_hash(before_it, stream, version, topic, data)
        return self.head

    def compare(self, version: int, head: str) -> None:
        """Hold the stream's end against what the record says of it."""
        if version != self.version:
            self.wrong(
                f"{self.name}: the record is at version {version}, the events end with "
                f"{self.version}."
            )
        elif head != self.head:
            self.wrong(f"{self.name}: the record's head is not the hash of the last event.")

    def wrong(self, sentence: str) -> None:
        """Note something that is not as it should be."""
        if len(self.problems) < TOLD:
            self.problems.append(sentence)
        else:
            self.untold += 1
