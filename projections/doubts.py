"""What is looked at again: a stream that was folded on trust, and does not come out right."""

from __future__ import annotations

from ..domain.delivery import DeliveryRecord
from ..domain.errors import RunStoreError
from ..domain.history_store import Image
from ..domain.ports import JournalStore, PayloadCodec
from ..domain.record import RunRecord
from .streams import PAGE, Stream


def read_again(stream: Stream, store: JournalStore, codec: PayloadCodec) -> None:
    """Take note of the first event of a doubtful stream that is not valid.

    `Stream.take` folds an event that links up unvalidated: that it was changed shows by what comes
    after it. Until then the record may hold anything.
    """
    after = 0
    while after < stream.version and (page := store.read(stream.name, after, PAGE)):
        for stored in page:
            try:
                codec.open(stored)
            except RunStoreError as e:
                if not stream.unreadable:
                    stream.found("unreadable", stored.version, e.message, stream.head)
                    stream.record, stream.unreadable = None, True
                return
        after = page[-1].version


def image_of(stream: Stream, store: JournalStore) -> Image | None:
    """What the stream's row must be; None where it has no record, or one that fits no row."""
    try:
        return None if stream.record is None else store.image(stream.record)
    except Exception:  # noqa: BLE001 - of values that no event was validated for
        return None


def is_valid(record: RunRecord | DeliveryRecord) -> bool:
    """Whether a record that was folded from events on trust is one."""
    try:
        return type(record).model_validate(record.model_dump(warnings=False)) == record
    except Exception:  # noqa: BLE001 - likewise
        return False
