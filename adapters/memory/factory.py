"""The eventsourcing library's infrastructure factory for memory."""

from __future__ import annotations

from eventsourcing.persistence import InfrastructureFactory
from eventsourcing.utils import Environment, EnvType, resolve_topic

from .recorder import (
    MemoryAggregateRecorder,
    MemoryApplicationRecorder,
    MemoryProcessRecorder,
    MemoryTrackingRecorder,
    Tables,
)


class MemoryFactory(InfrastructureFactory[MemoryTrackingRecorder]):
    """Recorders that share their tables, those for snapshots apart."""

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        self.tables = Tables()
        self.snapshots = Tables()

    def aggregate_recorder(self, purpose: str = "events") -> MemoryAggregateRecorder:
        return MemoryAggregateRecorder(self.tables if purpose == "events" else self.snapshots)

    def application_recorder(self) -> MemoryApplicationRecorder:
        return MemoryApplicationRecorder(self.tables)

    def tracking_recorder(
        self, tracking_recorder_class: type[MemoryTrackingRecorder] | None = None
    ) -> MemoryTrackingRecorder:
        topic = self.env.get(self.TRACKING_RECORDER_TOPIC)
        named = resolve_topic(topic) if topic else MemoryTrackingRecorder
        recorder: MemoryTrackingRecorder = (tracking_recorder_class or named)(self.tables)
        return recorder

    def process_recorder(self) -> MemoryProcessRecorder:
        return MemoryProcessRecorder(self.tables)


Factory = MemoryFactory
