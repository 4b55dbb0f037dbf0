"""An export read back: every line is checked, and what is wrong is named with its line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import orjson

from ...domain.chain import chain_hash
from ...domain.checks import refuse
from ...domain.delivery import DELIVERY_STREAM, DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.events import RUN_STREAM
from ...domain.ports import PayloadCodec, StoredEvent
from ...domain.record import RunRecord
from ...domain.tombstone import Tombstone
from ...projections.whole import delivery_problem, expected_delivery, take_sound
from ..codec import Validating
from .lines import (
    HEADER,
    HEADER_BYTES,
    SCHEMA,
    Exported,
    read_event,
    read_tombstone,
    read_trailer,
)
from .units import Gathering, Strand, Unit

Progress = Callable[[int], object]


class ExportFile:
    """A file that `runjournal export` wrote. Trust none of its units before all were read.

    It may hold several documents that stand one after another, as an archive of pruned runs does.
    Where the last of several is cut short, all of it is left out, and `torn` names its streams: the
    prune that wrote it had not removed their runs.

    Every method raises RUN_VALIDATION_ERROR / export_file with the line that is wrong. A line of an
    event that this code cannot read raises what reading that event raises.
    """

    def __init__(self, path: Path, codec: PayloadCodec) -> None:
        self._path = path
        self._codec = Validating(codec)
        self._end: int | None = None
        #: Known once the units were read to their end.
        self.torn: tuple[str, ...] = ()

    def check(self, progress: Progress) -> None:
        """Read the whole file, and remember where its whole documents end."""
        for _ in self.units(progress):
            pass

    def units(self, progress: Progress) -> Iterator[Unit]:
        """The units in their order; the digest is checked at the end of each document."""
        try:
            with self._path.open("rb") as file:
                if not file.seekable():
                    raise refuse("export_file", f"{self._path} is a pipe; it is read twice")
                reading = _Reading(file, self._path, self._codec, progress)
                yield from reading.documents(self._end)
                if self._end is None:
                    self._end, self.torn = reading.end, reading.torn
        except OSError as e:
            raise refuse("export_file", f"{self._path} cannot be read: {e}") from e

    def tombstones(self) -> Iterator[Tombstone]:
        """What is left of pruned streams, of a file that was checked; in their order."""
        with self._path.open("rb") as file:
            for line in file:
                if line.startswith(b'{"tombstone"'):
                    found = read_tombstone(orjson.loads(line))
                    assert found is not None  # it was checked
                    yield found

    @staticmethod
    def told_events(path: Path) -> int | None:
        """How many events the trailer says there are: for a bar, and for nothing else."""
        try:
            with path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 1000))
                trailer = read_trailer(orjson.loads(file.read().splitlines()[-1]))
        except (OSError, ValueError, IndexError):
            return None
        return None if trailer is None else trailer.events


class _TornError(Exception):
    """The file ends within a document."""


class _Reading:
    """One pass through the file.

    end   where the last whole document ends
    torn  the streams of the document behind it
    """

    def __init__(self, file: BinaryIO, path: Path, codec: PayloadCodec, progress: Progress) -> None:
        self._file = file
        self._path = path
        self._codec = codec
        self._progress = progress
        self._number = 0
        self.end = 0
        self.torn: tuple[str, ...] = ()
        self._begin()

    def _begin(self) -> None:
        """What is known of a document before its first line."""
        self._digest = sha256()
        self._streams = self._events = self._tombstones = 0
        self._names = dict[str, None]()
        self._grave = (0, b"")
        #: The run that was read last, while its delivery may still follow; and the last name.
        self._run: Strand | None = None
        self._last = ""

    def documents(self, upto: int | None) -> Iterator[Unit]:
        """The units of every document, or of those up to a place in the file."""
        while upto is None or self.end < upto:
            try:
                yield from self._units()
            except _TornError:
                self.torn = tuple(self._names)
                return
            self.end = self._file.tell()
            begin = self._file.read(len(HEADER))
            if not begin:
                return
            if not HEADER.startswith(begin):
                self._number += 1
                self._refuse("comes after the trailer")
            self._file.seek(self.end)
            self._begin()

    def _units(self) -> Iterator[Unit]:
        self._header()
        current: Gathering | None = None
        while True:
            begin = self._file.tell()
            line = self._next_line()
            document = self._document(line)
            trailer = read_trailer(document)
            found = None if trailer else read_event(document)
            tombstone = None if trailer or found else read_tombstone(document)
            if found is None and trailer is None and tombstone is None:
                self._refuse("is no event")
            name = None if found is None else found[0].stream
            if current is not None and current.stream.name != name:
                yield from self._ended(current.strand(), name)
                current = None
            if trailer is not None:
                self._check_trailer(trailer)
                return
            self._digest.update(line)
            if tombstone is not None:
                self._bury(tombstone)
                continue
            assert found is not None
            if self._tombstones:
                self._refuse("is an event behind a tombstone")
            if current is None:
                current = self._begun(found[0].stream, begin)
            self._take(current, *found)

    def _next_line(self) -> bytes:
        line = self._file.readline(HEADER_BYTES if self._number == 0 else -1)
        self._number += 1
        if self.end and not line.endswith(b"\n"):
            raise _TornError
        if not line:
            self._refuse("is missing: the file is cut short")
        if line.endswith(b"\r\n"):
            self._refuse("ends with a carriage return: the file was changed on its way")
        if not line.endswith(b"\n"):
            self._refuse("does not end: the file is cut short, or is no export")
        return line

    def _document(self, line: bytes) -> dict[str, Any]:
        try:
            document = orjson.loads(line)
        except ValueError:
            self._refuse("is not JSON")
        if not isinstance(document, dict):
            self._refuse("is no object")
        return document

    def _header(self) -> None:
        line = self._next_line()
        if line.startswith(b"\xef\xbb\xbf"):
            self._refuse("begins with a byte order mark: the file was changed on its way")
        if self._document(line).get("schema") != SCHEMA:
            self._refuse(f"is not that of a {SCHEMA}")
        self._digest.update(line)

    def _bury(self, tombstone: Tombstone) -> None:
        stream, audit_version, _, _, body = tombstone
        place = audit_version, stream.encode()
        is_run = stream.startswith(RUN_STREAM)
        if place <= self._grave or is_run != (body is not None):
            self._refuse(f"has a tombstone of {stream} where there can be none")
        try:
            record = tombstone.record
        except RunStoreError:
            self._refuse(f"has a tombstone of {stream} that cannot be read")
        if record is not None and (record.version, record.head) != tombstone[2:4]:
            self._refuse(f"has a tombstone of {stream} that contradicts itself")
        self._grave = place
        self._tombstones += 1

    def _begun(self, name: str, begin: int) -> Gathering:
        """The next stream: in order, but that a delivery follows its run."""
        run = self._run
        self._run = None
        self._names[name] = None
        if run is not None and name == _delivery_of(run):
            self._run = run
        elif name.startswith(DELIVERY_STREAM):
            self._refuse(f"has {name}, which does not follow the end of its run")
        elif name.encode() <= self._last.encode():
            self._refuse(f"has {name}, which is out of order")
        else:
            self._last = name
        return Gathering(name, partial(self._again, begin))

    def _take(self, current: Gathering, stored: StoredEvent, head: str) -> None:
        stream = current.stream
        if stored.version != stream.version + 1:
            self._refuse(
                f"has version {stored.version} of {stream.name}, where {stream.version + 1} "
                "must come"
            )
        if chain_hash(stream.head, *stored) != head:
            self._refuse(f"is not event {stored.version} of {stream.name} as it was exported")
        problem = take_sound(stream, stored, self._codec)
        if problem is not None:
            self._refuse_event(stored, problem)
        if stream.version == 1 and isinstance(stream.record, DeliveryRecord):
            self._check_delivery(stream.record)
        current.keep(stored)
        self._events += 1
        self._progress(1)

    def _ended(self, strand: Strand, following: str | None) -> Iterator[Unit]:
        """The unit that is complete with this stream, if one is; `following` is the next name."""
        self._streams += 1
        if self._run is not None:
            yield (self._run, strand)
            self._run = None
            return
        wanted = _delivery_of(strand)
        if wanted is None:
            yield (strand,)
        elif wanted != following:
            self._refuse(f"should have {wanted}, the delivery of {strand.stream.name}")
        else:
            self._run = strand

    def _check_delivery(self, record: DeliveryRecord) -> None:
        run = None if self._run is None else self._run.stream.record
        assert isinstance(run, RunRecord)  # `_begun` lets a delivery come after its run only
        problem = delivery_problem(run, record)
        if problem is not None:
            self._refuse(f"is wrong: {problem}")

    def _check_trailer(self, trailer: Exported) -> None:
        counted = self._streams, self._events, self._digest.hexdigest(), self._tombstones
        if trailer != counted:
            self._refuse("has another digest: lines are missing, or were changed")

    def _again(self, begin: int) -> Iterator[StoredEvent]:
        """The events from a place in the file on; who asks knows where to stop."""
        with self._path.open("rb") as file:
            file.seek(begin)
            for line in file:
                found = read_event(orjson.loads(line))
                if found is None:
                    return
                yield found[0]

    def _refuse_event(self, stored: StoredEvent, problem: str) -> NoReturn:
        """An event of newer code is not the file's fault, and neither is a missing key."""
        try:
            self._codec.open(stored)
        except RunStoreError as e:
            raise RunStoreError(e.code, e.reason, f"{self._where}: {e.message}") from e
        self._refuse(f"does not go on from what is before it: {problem}")

    @property
    def _where(self) -> str:
        return f"{self._path}: line {self._number}"

    def _refuse(self, problem: str) -> NoReturn:
        raise refuse("export_file", f"{self._where} {problem}")


def _delivery_of(strand: Strand) -> str | None:
    """The name of the delivery that has to follow this stream, if one has to."""
    record = strand.stream.record
    return expected_delivery(record) if isinstance(record, RunRecord) else None
