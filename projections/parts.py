"""A part of a journal's streams, for those who read a large one in parts."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """The streams behind one name, up to and with another; None: to the end.

    Streams are in the order of their UTF-8 bytes, which is Python's order of texts as well.
    """

    after: str = ""
    upto: str | None = None

    def keys(self, prefix: str) -> tuple[str, str | None] | None:
        """The same of the keys of the streams that begin so; None if there can be none."""
        if self.upto is not None and self.upto <= prefix:
            return None
        if self.after > prefix and not self.after.startswith(prefix):
            return None
        after = self.after.removeprefix(prefix) if self.after > prefix else ""
        if self.upto is None or not self.upto.startswith(prefix):
            return after, None
        return after, self.upto.removeprefix(prefix)


WHOLE = Part()
