"""A journal that tells an OpenTelemetry SDK in memory what it does, and what that one heard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from runjournal import Journal, Telemetry, open_journal


class Heard:
    """Everything that came out at the other end of the SDK."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracer = tracers.get_tracer("the host's")
        self.telemetry = Telemetry(tracers, meters)

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """The spans that have ended, in that order."""
        return [s for s in self._exporter.get_finished_spans() if name in (None, s.name)]

    def points(self) -> dict[str, list[Any]]:
        """The data points of each metric so far, cumulated."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[Any]] = {}
        for resource in [] if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found.setdefault(metric.name, []).extend(metric.data.data_points)
        return found

    def counts(self, name: str) -> dict[tuple[str, ...], int]:
        """How often a metric was recorded, or what it counted, by its attributes' values."""
        return {
            tuple(map(str, point.attributes.values())): getattr(point, "count", None) or point.value
            for point in self.points().get(f"runjournal.{name}", [])
        }

    def sums(self, name: str) -> dict[tuple[str, ...], float]:
        """The sum of a histogram, by its attributes' values."""
        return {
            tuple(map(str, point.attributes.values())): point.sum
            for point in self.points()[f"runjournal.{name}"]
        }


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def journal(journal_url: str, heard: Heard) -> Iterator[Journal]:
    with open_journal(journal_url, telemetry=heard.telemetry) as opened:
        yield opened
