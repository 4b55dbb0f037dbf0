"""The eventsourcing library's Application over our store: reads, time travel, notification log.

Its factories, aggregates and topics are not used: the store is handed in, `fold` is the only
projector, and topics are looked up in a closed registry, so no stored text can cause an import.
"""

from __future__ import annotations

from typing import Any, cast

from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import (
    InfrastructureFactory,
    JSONTranscoder,
    Mapper,
    ProcessRecorder,
    StoredEvent,
    TrackingRecorder,
)
from eventsourcing.utils import Environment, EnvType

from ..domain.chain import GENESIS
from ..domain.events import Event, run_stream
from ..domain.ports import StoredEvent as StreamEvent
from ..domain.record import RunRecord
from ..domain.run import fold
from .codec import OrjsonCodec


class RegistryMapper(Mapper[str]):
    """Both directions through our codec: the library's own builds unvalidated objects."""

    def __init__(self, codec: OrjsonCodec) -> None:
        super().__init__(JSONTranscoder())
        self._codec = codec

    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> StoredEvent:
        event = cast("Event", domain_event)
        sealed = self._codec.seal(event, event.prev_hash or GENESIS)
        return StoredEvent(sealed.stream, sealed.version, sealed.topic, sealed.data)

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[str]:
        event = self._codec.open(
            StreamEvent(
                str(stored_event.originator_id),
                stored_event.originator_version,
                stored_event.topic,
                stored_event.state,
            )
        )
        return cast("DomainEventProtocol[str]", event)


class StoreFactory(InfrastructureFactory[TrackingRecorder]):
    """Hands out the one store that the journal opened, which also closes it."""

    def __init__(self, env: Environment, store: ProcessRecorder) -> None:
        super().__init__(env)
        self._store = store

    def aggregate_recorder(self, purpose: str = "events") -> ProcessRecorder:
        return self._store

    def application_recorder(self) -> ProcessRecorder:
        return self._store

    def tracking_recorder(
        self, tracking_recorder_class: type[TrackingRecorder] | None = None
    ) -> ProcessRecorder:
        return self._store

    def process_recorder(self) -> ProcessRecorder:
        return self._store


class JournalApplication(Application[str]):
    """The journal as an eventsourcing application, for hosts that use that library."""

    name = "runjournal"

    def __init__(self, store: ProcessRecorder, codec: OrjsonCodec) -> None:
        self._store = store
        self._codec = codec
        super().__init__()

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        # The library lets os.environ beat everything: a MAPPER_TOPIC or CIPHER_KEY that the host
        # set for its own application must not leak into the journal.
        return Environment(name, {"ORIGINATOR_ID_TYPE": "text"})

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        return StoreFactory(env, self._store)

    def construct_mapper(self) -> Mapper[str]:
        return RegistryMapper(self._codec)

    def as_class(self) -> type[JournalApplication]:
        """This application as a class: what the library's runners of projections construct.

        It works on the open journal; closing it leaves the journal open.
        """
        store, codec = self._store, self._codec

        class OpenJournal(JournalApplication):
            def __init__(self, env: EnvType | None = None) -> None:
                super().__init__(store, codec)

        return OpenJournal

    def record_at(self, run_id: str, version: int) -> RunRecord:
        """The run's record as it was at a version that exists."""
        record = self.repository.get(
            run_stream(run_id), version=version, projector_func=cast("Any", fold)
        )
        return cast("RunRecord", record)
