"""The rules of a run, pure: usable alone, with nothing but pydantic installed."""

from .chain import GENESIS, chain_hash, fingerprint, invocation_id
from .commands import (
    Acquire,
    Cancel,
    Command,
    Complete,
    Fail,
    GiveUp,
    HolderCommand,
    OperatorCommand,
    RecordDecision,
    Release,
    RequestResume,
    SaveCheckpoint,
    Start,
    Suspend,
)
from .decide import decide
from .delivering import decide_delivery
from .delivery import (
    DELIVERY_EVENTS,
    DeliveryAttempted,
    DeliveryRecord,
    DeliveryRequested,
    DeliveryStatus,
    DeliverySucceeded,
    DeliveryUnknown,
    evolve_delivery,
)
from .delivery_ledger import DeliveryLedger
from .errors import CAUSES, RunStoreError
from .events import (
    RUN_EVENTS,
    ApprovalDecided,
    CheckpointSaved,
    Event,
    LeaseGranted,
    LeaseReleased,
    Outcome,
    Payload,
    ResumeRequested,
    RunCancelled,
    RunCompleted,
    RunEvent,
    RunFailed,
    RunQueued,
    RunSuspended,
    TookOver,
)
from .gateway import (
    DeliveryAmbiguous,
    DeliveryError,
    DeliveryFailed,
    DeliveryRefused,
    DeliveryRequest,
)
from .holding import require_holder
from .lease import RunLeaseHandle
from .ledger import RunLedger
from .limits import DeploymentLimits
from .record import AppliedCommand, CheckpointRef, Lease, RunRecord, Suspension
from .registry import EventRegistry
from .run import evolve, fold
from .run_operator import CommandOutcome, RunOperator
from .status import RunLifecycleStatus, can_transition_run, is_terminal_run_status

__all__ = [
    "CAUSES",
    "DELIVERY_EVENTS",
    "GENESIS",
    "RUN_EVENTS",
    "Acquire",
    "AppliedCommand",
    "ApprovalDecided",
    "Cancel",
    "CheckpointRef",
    "CheckpointSaved",
    "Command",
    "CommandOutcome",
    "Complete",
    "DeliveryAmbiguous",
    "DeliveryAttempted",
    "DeliveryError",
    "DeliveryFailed",
    "DeliveryLedger",
    "DeliveryRecord",
    "DeliveryRefused",
    "DeliveryRequest",
    "DeliveryRequested",
    "DeliveryStatus",
    "DeliverySucceeded",
    "DeliveryUnknown",
    "DeploymentLimits",
    "Event",
    "EventRegistry",
    "Fail",
    "GiveUp",
    "HolderCommand",
    "Lease",
    "LeaseGranted",
    "LeaseReleased",
    "OperatorCommand",
    "Outcome",
    "Payload",
    "RecordDecision",
    "Release",
    "RequestResume",
    "ResumeRequested",
    "RunCancelled",
    "RunCompleted",
    "RunEvent",
    "RunFailed",
    "RunLeaseHandle",
    "RunLedger",
    "RunLifecycleStatus",
    "RunOperator",
    "RunQueued",
    "RunRecord",
    "RunStoreError",
    "RunSuspended",
    "SaveCheckpoint",
    "Start",
    "Suspend",
    "Suspension",
    "TookOver",
    "can_transition_run",
    "chain_hash",
    "decide",
    "decide_delivery",
    "evolve",
    "evolve_delivery",
    "fingerprint",
    "fold",
    "invocation_id",
    "is_terminal_run_status",
    "require_holder",
]
