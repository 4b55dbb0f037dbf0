"""Telemetry: spans and metrics of a journal's work, through the OpenTelemetry API.

Loaded only when it is asked for, or when the process has loaded OpenTelemetry itself. What is told
are names, numbers and codes: no input, no state, no result, and not the text of any error.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ...domain.checks import refuse
from ...domain.delivery import DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.lease import RunLeaseHandle
from ...domain.record import RunRecord
from ...domain.status import RunLifecycleStatus
from . import names as n
from .measured import MeasuredStore, error_type
from .observer import Observer

try:
    from opentelemetry import metrics, trace
except ImportError as missing:
    raise refuse(
        "argument", "telemetry needs OpenTelemetry: install the extra, runjournal[telemetry]"
    ) from missing

if TYPE_CHECKING:
    from ..journal import Journal

SCOPE = "runjournal"
#: The open journals whose projections a meter provider asks about: a second gauge of the same
#: name would be the first one, with the first one's callback.
_watched: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Journal]] = weakref.WeakKeyDictionary()


class Telemetry(Observer):
    """Tells an OpenTelemetry SDK what a journal does: `open_journal(url, telemetry=Telemetry())`.

    tracer_provider  where spans go; the process's own if it is not given
    meter_provider   where metrics go; likewise

    They count as they are when it is made: an SDK that is set up later is not heard of. Where both
    are OpenTelemetry's own, which do nothing, nothing is measured either. Needs the extra
    `runjournal[telemetry]`: RUN_VALIDATION_ERROR / argument without.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        tracers = tracer_provider or trace.get_tracer_provider()
        meters = meter_provider or metrics.get_meter_provider()
        #: Whether anybody listens to spans: making one up for nobody costs more than asking.
        self.tracing = not _is_silent(tracers)
        #: Whether anybody listens at all.
        self.listens = self.tracing or not _is_silent(meters)
        self._tracer = tracers.get_tracer(SCOPE)
        meter = meters.get_meter(SCOPE)
        self.append_duration = _histogram(meter, n.APPEND_DURATION)
        self.append_conflicts = _counter(meter, n.APPEND_CONFLICTS)
        self.claim_duration = _histogram(meter, n.CLAIM_DURATION)
        self.claim_latency = _histogram(meter, n.CLAIM_LATENCY)
        self.takeovers = _counter(meter, n.TAKEOVERS)
        self.lease_losses = _counter(meter, n.LEASE_LOSSES)
        self.checkpoint_size = _histogram(meter, n.CHECKPOINT_SIZE)
        self.handling_duration = _histogram(meter, n.HANDLING_DURATION)
        self.delivery_attempts = _counter(meter, n.DELIVERY_ATTEMPTS)
        self.delivery_age = _histogram(meter, n.DELIVERY_AGE)
        self._journals = _watched.setdefault(meters, weakref.WeakSet())
        lag = n.PROJECTION_LAG
        meter.create_observable_gauge(lag.name, [_lags(self._journals)], lag.unit, lag.meaning)
        self.on_loss = self._lost

    def measured(self, store: Any) -> Any:
        return MeasuredStore(store, self)

    def watch(self, journal: Journal) -> None:
        self._journals.add(journal)

    def _lost(self, error: RunStoreError) -> None:
        self.lease_losses.add(1, {n.REASON: error.reason})

    def span(
        self, name: str, began: int, attributes: dict[str, Any], error: str | None = None
    ) -> None:
        """A span of what has just ended, begun at `began` nanoseconds since 1970."""
        span = self._tracer.start_span(name, start_time=began, attributes=attributes)
        if error is not None:
            _failed(span, error)
        span.end()

    @contextmanager
    def handling(
        self, journal: Journal, lease: RunLeaseHandle
    ) -> Iterator[Callable[[RunRecord | None], None]]:
        record, ticks = lease.record, perf_counter()
        attributes: dict[str, Any] = {
            n.RUN_ID: record.run_id,
            n.KIND: record.kind,
            n.OWNER: lease.owner,
            n.FENCING_TOKEN: lease.fencing_token,
            n.ATTEMPT: lease.attempt,
        }
        if self.tracing and (correlation_id := _correlation_id(journal, record.run_id)):
            attributes[n.CORRELATION_ID] = correlation_id

        with self._current(n.HANDLE, attributes) as span:

            def told(after: RunRecord | None) -> None:
                outcome, error = _what_became(record, after, lease.lost)
                span.set_attribute(n.OUTCOME, outcome)
                if after is not None:
                    span.set_attribute(n.VERSION, after.version)
                if error is not None:
                    _failed(span, error)
                measured = {n.KIND: record.kind, n.OUTCOME: outcome}
                self.handling_duration.record(perf_counter() - ticks, measured)

            yield told

    @contextmanager
    def sending(self, record: DeliveryRecord) -> Iterator[None]:
        attributes = {
            n.INVOCATION_ID: record.invocation_id,
            n.RUN_ID: record.run_id,
            n.KIND: record.kind,
            n.DELIVERY_REF: record.delivery_ref,
            n.ATTEMPT: record.attempts,
        }
        with self._current(n.DELIVER, attributes, trace.SpanKind.PRODUCER):
            yield

    @contextmanager
    def _current(
        self,
        name: str,
        attributes: dict[str, Any],
        kind: trace.SpanKind = trace.SpanKind.INTERNAL,
    ) -> Iterator[trace.Span]:
        """A span that others made meanwhile in this context belong to."""
        with self._tracer.start_as_current_span(
            name,
            kind=kind,
            attributes=attributes,
            # Both would put the error's text into the span.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as e:
                _failed(span, error_type(e))
                raise


def _is_silent(provider: object) -> bool:
    """Whether it is one of the API's own, which do nothing (or wait for one that does)."""
    return type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _counter(meter: metrics.Meter, metric: n.Metric) -> metrics.Counter:
    return meter.create_counter(metric.name, metric.unit, metric.meaning)


def _histogram(meter: metrics.Meter, metric: n.Metric) -> metrics.Histogram:
    return meter.create_histogram(
        metric.name,
        metric.unit,
        metric.meaning,
        explicit_bucket_boundaries_advisory=metric.buckets,
    )


def _lags(
    journals: weakref.WeakSet[Journal],
) -> Callable[[metrics.CallbackOptions], Iterable[metrics.Observation]]:
    def observe(_options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        for journal in list(journals):
            try:
                states, head = journal.projection_states(), journal.position()
            except RunStoreError:
                continue  # closed, or away: no measurement
            for state in states:
                behind = max(0, head - state.position)
                yield metrics.Observation(behind, {n.PROJECTION: state.name})

    return observe


def _failed(span: trace.Span, error: str) -> None:
    span.set_attribute(n.ERROR_TYPE, error)
    span.set_status(trace.Status(trace.StatusCode.ERROR))


def _what_became(
    before: RunRecord, after: RunRecord | None, loss: RunStoreError | None
) -> tuple[str, str | None]:
    """The outcome of a handling, and what failed; a run that was cancelled has not failed."""
    if after is None or (loss is not None and loss.reason != "cancelled"):
        return "lost", None if loss is None else error_type(loss)
    if after.status is RunLifecycleStatus.FAILED:
        return "failed", after.outcome.code if after.outcome else None
    if after.failures > before.failures:
        return "retried", "handler_error"
    queued = after.status is RunLifecycleStatus.QUEUED
    return "released" if queued else after.status.value, None


def _correlation_id(journal: Journal, run_id: str) -> str | None:
    try:
        return next(iter(journal.events(run_id))).correlation_id
    except (RunStoreError, StopIteration):
        return None  # what cannot be read is reported where it is worked on
