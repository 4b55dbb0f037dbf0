"""The demo's job, without any journal: index the files of a directory tree, batch by batch.

The batch is the unit of work and of the checkpoint. `summarize` is a pure function of a batch's
files, so that a run which was killed and taken over can be compared, batch by batch, with one that
never was.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

#: So many checkpoints a run has, however large the tree is.
BATCHES = 24
#: Of a batch, so many suffixes are counted by name; the rest is one sum, so that no tree, however
#: odd its names, makes a checkpoint too large.
SUFFIXES = 32
OTHERS = "(others)"
NO_SUFFIX = "(none)"
_CHUNK = 1 << 20
#: Python writes these while it runs, so that they may come and go during the demo.
_EXCLUDED_FOLDER = "__pycache__"
_EXCLUDED_SUFFIX = ".pyc"


class Entry(NamedTuple):
    """A file of the list: its path below the root, and its state when the list was drawn up."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Listing:
    """The job: the files in their order. Drawn up once, so that every worker has the same one."""

    root: str
    entries: tuple[Entry, ...]

    @property
    def batches(self) -> list[tuple[Entry, ...]]:
        """The entries in BATCHES parts of about the same number of files."""
        size = max(1, -(-len(self.entries) // BATCHES))
        return [self.entries[i : i + size] for i in range(0, len(self.entries), size)]

    def save(self, path: Path) -> str:
        """Write the list to a file; return its digest."""
        data = json.dumps([self.root, self.entries]).encode()
        path.write_bytes(data)
        return sha256(data).hexdigest()

    @classmethod
    def load(cls, path: Path, digest: str) -> Listing:
        """The list from its file; ValueError if it is not the one that was saved."""
        data = path.read_bytes()
        if sha256(data).hexdigest() != digest:
            raise ValueError(f"{path} is not the list that the run was started with")
        root, entries = json.loads(data)
        return cls(root, tuple(Entry(*e) for e in entries))

    def changed(self, entry: Entry) -> bool:
        """Whether the file is no longer as it was when the list was drawn up."""
        try:
            now = os.stat(os.path.join(self.root, entry.path))
        except (OSError, ValueError):
            return True
        return (now.st_size, now.st_mtime_ns) != (entry.size, entry.mtime_ns)


@dataclass(frozen=True)
class Summary:
    """What a batch, or a whole tree, comes to. `skipped` files could not be read."""

    sha256: str
    files: int = 0
    bytes: int = 0
    skipped: int = 0
    lines: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def list_files(root: Path, limit: int | None = None) -> Listing:
    """The regular files below the root in the order of their paths, without compiled Python."""
    entries = sorted(_walk(str(root), ""))
    return Listing(str(root), tuple(entries[:limit]))


def _walk(root: str, below: str) -> Iterator[Entry]:
    try:
        with os.scandir(os.path.join(root, below)) as found:
            entries = list(found)
    except OSError:
        return  # unreadable, or gone meanwhile
    for entry in entries:
        path = os.path.join(below, entry.name)
        try:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != _EXCLUDED_FOLDER:
                    yield from _walk(root, path)
            elif entry.is_file(follow_symlinks=False) and not path.endswith(_EXCLUDED_SUFFIX):
                stat = entry.stat(follow_symlinks=False)
                yield Entry(path, stat.st_size, stat.st_mtime_ns)
        except OSError:
            continue


def summarize(root: str, batch: Sequence[Entry]) -> Summary:
    """Read and hash the files of a batch, and count their lines by suffix."""
    total, files, size, skipped = sha256(), 0, 0, 0
    lines: Counter[str] = Counter()
    for entry in batch:
        try:
            digest, read, counted = _read(os.path.join(root, entry.path))
        except (OSError, ValueError):
            skipped += 1
            continue
        files += 1
        size += read
        lines[_suffix(entry.path)] += counted
        name = entry.path.encode("utf-8", "surrogateescape")
        total.update(b"%d:%b" % (len(name), name) + digest)
    return Summary(total.hexdigest(), files, size, skipped, _most_frequent(lines))


def _read(path: str) -> tuple[bytes, int, int]:
    """A file's digest, size and number of lines; one with a NUL near its start has none."""
    digest, size, lines, last = sha256(), 0, 0, b"\n"
    with open(path, "rb", buffering=0) as file:
        chunk = file.read(_CHUNK)
        text = b"\0" not in chunk[:8192]
        while chunk:
            digest.update(chunk)
            size += len(chunk)
            if text:
                lines += chunk.count(b"\n")
            last = chunk[-1:]
            chunk = file.read(_CHUNK)
    return digest.digest(), size, lines + (text and last != b"\n")


def _suffix(path: str) -> str:
    suffix = os.path.splitext(path)[1].encode("utf-8", "backslashreplace").decode()
    return (suffix if len(suffix) <= 16 else OTHERS) or NO_SUFFIX


def _most_frequent(lines: Counter[str]) -> dict[str, int]:
    ranked = sorted(lines.items(), key=lambda item: (-item[1], item[0]))
    kept = Counter(dict(ranked[:SUFFIXES]))
    for _, rest in ranked[SUFFIXES:]:
        kept[OTHERS] += rest
    return {suffix: kept[suffix] for suffix in sorted(kept)}


def combine(batches: Iterable[Summary]) -> Summary:
    """The sum of the batches; its digest covers theirs, in their order."""
    digest, files, size, skipped = sha256(), 0, 0, 0
    lines: Counter[str] = Counter()
    for batch in batches:
        digest.update(bytes.fromhex(batch.sha256))
        files += batch.files
        size += batch.bytes
        skipped += batch.skipped
        lines.update(batch.lines)
    return Summary(digest.hexdigest(), files, size, skipped, dict(sorted(lines.items())))


@dataclass(frozen=True)
class Comparison:
    """What comparing two indexes of one listing showed.

    equal      batches that agree
    differing  numbers of the batches that do not, although their files are as they were
    changed    files that somebody changed meanwhile, in batches that do not agree: about those
               batches nothing can be said
    """

    equal: int
    differing: tuple[int, ...]
    changed: tuple[str, ...]

    @property
    def proved(self) -> bool:
        return self.equal > 0 and not self.differing


def compare(
    listing: Listing, journalled: Sequence[Summary], uninterrupted: Sequence[Summary]
) -> Comparison:
    """Compare what the run came to with what an uninterrupted run comes to, batch by batch."""
    equal = 0
    differing: list[int] = []
    changed: list[str] = []
    if not len(listing.batches) == len(journalled) == len(uninterrupted):
        return Comparison(0, (min(len(journalled), len(uninterrupted)),), ())
    for number, batch in enumerate(listing.batches):
        if journalled[number] == uninterrupted[number]:
            equal += 1
            continue
        touched = [e.path for e in batch if listing.changed(e)]
        changed += touched
        if not touched:
            differing.append(number)
    return Comparison(equal, tuple(differing), tuple(changed))
