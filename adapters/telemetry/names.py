"""The names of all metrics, spans and log fields. docs/telemetry.md lists the same."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

#: Bounds of the histograms' buckets: the default ones are meant for milliseconds.
MOMENTS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
AGES: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0, 604800.0)
SIZES: Final = (64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0)

KIND: Final = "runjournal.kind"
OUTCOME: Final = "runjournal.outcome"
TOPIC: Final = "runjournal.topic"
REASON: Final = "runjournal.reason"
PROJECTION: Final = "runjournal.projection"
#: OpenTelemetry's own name: there where something failed, and only there.
ERROR_TYPE: Final = "error.type"

RUN_ID: Final = "runjournal.run_id"
OWNER: Final = "runjournal.owner"
FENCING_TOKEN: Final = "runjournal.fencing_token"
VERSION: Final = "runjournal.version"
ATTEMPT: Final = "runjournal.attempt"
CORRELATION_ID: Final = "runjournal.correlation_id"
INVOCATION_ID: Final = "runjournal.invocation_id"
DELIVERY_REF: Final = "runjournal.delivery_ref"
GRANTED: Final = "runjournal.granted"


class Metric(NamedTuple):
    """A metric: what it counts, in which unit, and its attributes; never one with a run's id.

    buckets  of a histogram
    """

    name: str
    form: Literal["counter", "histogram", "gauge"]
    unit: str
    attributes: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()


APPEND_DURATION: Final = Metric(
    "runjournal.append.duration",
    "histogram",
    "s",
    (TOPIC, OUTCOME, ERROR_TYPE),
    "How long an append to a run's stream took.",
    MOMENTS,
)
APPEND_CONFLICTS: Final = Metric(
    "runjournal.append.conflicts",
    "counter",
    "{conflict}",
    (TOPIC,),
    "Appends that wrote nothing because somebody else was first.",
)
CLAIM_DURATION: Final = Metric(
    "runjournal.claim.duration",
    "histogram",
    "s",
    (OUTCOME, ERROR_TYPE),
    "How long a look for due runs took.",
    MOMENTS,
)
CLAIM_LATENCY: Final = Metric(
    "runjournal.claim.latency",
    "histogram",
    "s",
    (KIND,),
    "How long a claimed run had been due.",
    AGES,
)
TAKEOVERS: Final = Metric(
    "runjournal.takeovers",
    "counter",
    "{takeover}",
    (KIND,),
    "Runs whose lease had expired and that another holder was granted.",
)
LEASE_LOSSES: Final = Metric(
    "runjournal.lease.losses",
    "counter",
    "{loss}",
    (REASON,),
    "Leases that their holder noticed to be lost.",
)
CHECKPOINT_SIZE: Final = Metric(
    "runjournal.checkpoint.size",
    "histogram",
    "By",
    (KIND,),
    "Bytes of a saved state, as JSON.",
    SIZES,
)
HANDLING_DURATION: Final = Metric(
    "runjournal.handling.duration",
    "histogram",
    "s",
    (KIND, OUTCOME),
    "How long a worker worked on a run, until its end was on record.",
    AGES,
)
DELIVERY_ATTEMPTS: Final = Metric(
    "runjournal.delivery.attempts",
    "counter",
    "{attempt}",
    (OUTCOME,),
    "Attempts to deliver a result that were reported on.",
)
DELIVERY_AGE: Final = Metric(
    "runjournal.delivery.age",
    "histogram",
    "s",
    (OUTCOME,),
    "How long ago the run had ended when an attempt was reported on.",
    AGES,
)
PROJECTION_LAG: Final = Metric(
    "runjournal.projection.lag",
    "gauge",
    "{event}",
    (PROJECTION,),
    "Events that a projection has not come to yet, at most.",
)
METRICS: Final = (
    APPEND_DURATION,
    APPEND_CONFLICTS,
    CLAIM_DURATION,
    CLAIM_LATENCY,
    TAKEOVERS,
    LEASE_LOSSES,
    CHECKPOINT_SIZE,
    HANDLING_DURATION,
    DELIVERY_ATTEMPTS,
    DELIVERY_AGE,
    PROJECTION_LAG,
)

APPEND: Final = "runjournal.append"
CLAIM: Final = "runjournal.claim"
HANDLE: Final = "runjournal.handle"
DELIVER: Final = "runjournal.deliver"
#: The attributes of each span; a failed one has an ERROR_TYPE beside them.
SPANS: Final = {
    APPEND: (RUN_ID, KIND, TOPIC, VERSION, FENCING_TOKEN, OUTCOME),
    CLAIM: (GRANTED,),
    HANDLE: (RUN_ID, KIND, OWNER, FENCING_TOKEN, ATTEMPT, CORRELATION_ID, OUTCOME, VERSION),
    DELIVER: (INVOCATION_ID, RUN_ID, KIND, DELIVERY_REF, ATTEMPT),
}
