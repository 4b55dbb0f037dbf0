"""What telemetry costs a checkpoint of 1 KiB: without an SDK, with metrics, and with spans as well.

The divisor is the same checkpoint on a journal with `telemetry=False`. "no SDK" is `telemetry=True`
where OpenTelemetry's API is installed and nobody listens. Metrics are aggregated by the SDK; spans
go through its batch processor into the void. Compared is the CPU time of the thread that saves:
what the disk takes is the same for all, and hides the difference. Of SQLite, the file is in memory
where there is such a folder.

    python -m benchmarks.telemetry
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracerProvider
from runjournal import Telemetry, open_journal

from .figure import Figure, Settings, run, times
from .interleaved import PAYLOADS, Turn, in_rounds

SETTINGS: Settings = {"rounds": (60, 3), "count": (200, 20)}


class _Void(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def saving(url: str, telemetry: Telemetry | bool, count: int) -> Turn:
    lease = open_journal(url, telemetry=telemetry).ledger().acquire("run")

    def turn() -> float:
        begun = time.thread_time()
        for i in range(count):
            lease.save_checkpoint(PAYLOADS[i % 64])
        return (time.thread_time() - begun) / count

    return turn


def figures(options: Namespace) -> Iterator[Figure]:
    spans = TracerProvider(shutdown_on_exit=False)
    spans.add_span_processor(BatchSpanProcessor(_Void()))
    silent = NoOpTracerProvider()

    def metrics() -> MeterProvider:
        return MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)

    kinds: dict[str, Telemetry | bool] = {
        "off": False,
        "no SDK": True,
        "metrics": Telemetry(silent, metrics()),
        "metrics and spans": Telemetry(spans, metrics()),
    }
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if Path(memory).is_dir() else None) as folder:
        for backend, url in (("memory", "memory:"), ("sqlite", f"sqlite:///{folder}/{{}}.db")):
            turns = {
                name: saving(url.format(name.replace(" ", "-")), telemetry, options.count)
                for name, telemetry in kinds.items()
            }
            took = in_rounds(turns, options.rounds)
            for name in list(kinds)[1:]:
                yield Figure(
                    f"CPU time of a checkpoint of 1 KiB, {backend}, {name}",
                    "without telemetry",
                    times(took, name, "off"),
                    "less",
                )


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
