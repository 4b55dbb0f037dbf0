"""JournalTransfer: exporting a Journal, importing into it, and copying it to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..domain.checks import check_identifier, check_identifiers
from ..projections.verify import quiet

if TYPE_CHECKING:
    from .codec import OrjsonCodec
    from .journal import Journal
    from .transfer.lines import Exported
    from .transfer.publishing import Imported


class JournalTransfer:
    """export, import and copy: streams as they are, with their versions and hashes.

    progress is called with how many events were read since the last call.
    """

    _store: Any
    _codec: OrjsonCodec

    def export_run(self, run_id: str) -> dict[str, Any]:
        """A run as one JSON document: its record, its events as stored, and its deliveries.

        An event's `data` is the text that is stored; bytes that are no text come as `base64`. A
        lease shows its folded expiry. Raises RUN_NOT_FOUND / run, and RUN_INTEGRITY_ERROR where
        the run is damaged.
        """
        from .transfer.document import run_document  # who exports pays for it, not every worker
        from .transfer.source import Source

        ids = [check_identifier(run_id, "run id")]
        (unit,) = Source(self._store, self._codec, quiet).units(ids)
        return run_document(unit)

    def export(
        self, run_ids: Iterable[str] | None = None, progress: Callable[[int], object] = quiet
    ) -> Iterator[bytes]:
        """The lines of an export of these runs with their deliveries, or of the whole journal.

        The same streams give the same lines, on any backend. Each run is as it was at one moment,
        while others are written to. Goes in bounded memory. Raises RUN_NOT_FOUND / run, and
        RUN_INTEGRITY_ERROR at what is damaged.
        """
        from .transfer.lines import lines_of
        from .transfer.source import Source

        ids = None if run_ids is None else check_identifiers(run_ids, "run id")
        source = Source(self._store, self._codec, progress)
        tombstones = source.tombstones() if ids is None else ()
        return lines_of(self._codec.registry, source.units(ids), tombstones)

    def export_to(
        self,
        path: str | Path,
        run_ids: Iterable[str] | None = None,
        progress: Callable[[int], object] = quiet,
    ) -> Exported:
        """Write `export` to a new file, which appears when it is complete.

        Raises also RUN_VALIDATION_ERROR / argument for a file that exists, and OSError.
        """
        import orjson

        from .transfer.lines import Exported
        from .transfer.writing import write_new

        trailer = write_new(Path(path), self.export(run_ids, progress))
        return Exported(**orjson.loads(trailer))

    def import_from(
        self,
        path: str | Path,
        send_deliveries: bool = False,
        progress: Callable[[int], object] = quiet,
    ) -> Imported:
        """Write what an export holds into this journal, as it is; what is there already stays.

        send_deliveries  whether undelivered deliveries are due here; without, each is set aside
                         until somebody retries it, or imports the file again with this

        The whole file is checked before anything is written. Each run is written whole or not at
        all, so an import that was interrupted is simply repeated. A run that is something else
        here is named in `conflicts`, and one that was pruned here stays so. Raises
        RUN_VALIDATION_ERROR / export_file, naming the line, and RUN_INTEGRITY_ERROR for an event
        that this code cannot read.
        """
        from .transfer.publishing import Publisher
        from .transfer.reading import ExportFile

        file = ExportFile(Path(path), self._codec)
        file.check(progress)
        publisher = Publisher(self._store, self._codec, send=bool(send_deliveries))
        done = publisher.publish(file.units(progress))
        publisher.bury(file.tombstones())
        done.torn = file.torn
        return done

    def copy_to(
        self,
        target: Journal,
        send_deliveries: bool = False,
        progress: Callable[[int], object] = quiet,
    ) -> Imported:
        """Write everything that is in this journal into another one, as by export and import.

        Repeating it brings over what was written since. Raises RUN_INTEGRITY_ERROR at what is
        damaged here; what came before that is in the target.
        """
        from .transfer.publishing import Publisher
        from .transfer.source import Source

        source = Source(self._store, self._codec, progress)
        publisher = Publisher(target._store, target._codec, send=bool(send_deliveries))  # type: ignore[arg-type]
        done = publisher.publish(source.units(None))
        publisher.bury(source.tombstones())
        return done
