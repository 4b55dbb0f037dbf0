"""runjournal: a journal for long-running jobs.

    journal = open_journal("sqlite:///runs.db")
    with journal.ledger().acquire("nightly-report") as lease:
        lease.save_checkpoint({"offset": 4096})
        lease.complete({"rows": 12})

The names below are the public face. They are loaded on first use, so that the domain alone needs
pydantic only and the command line starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters.aio.handle import AsyncRunLeaseHandle
    from .adapters.aio.journal import AsyncJournal, open_async_journal
    from .adapters.aio.ledger import AsyncRunLedger
    from .adapters.aio.projections import AsyncProjectionRunner
    from .adapters.ciphering import Cipher
    from .adapters.delivery_policy import DeliveryPolicy
    from .adapters.delivery_service import DeliveryService
    from .adapters.gateways.config import load_gateways
    from .adapters.gateways.function import CallableGateway
    from .adapters.gateways.json_lines import JsonLinesGateway
    from .adapters.gateways.signature import verify_signature
    from .adapters.gateways.webhook import WebhookGateway
    from .adapters.handling import RunInterrupted, StopSignal, WorkerContext
    from .adapters.journal import Journal
    from .adapters.key_ring import KeyRing
    from .adapters.key_value.space import Space
    from .adapters.key_value.store import KeyValueStore
    from .adapters.opening import open_journal
    from .adapters.part_processes import PartProcesses
    from .adapters.projecting.runner import ProjectionRunner
    from .adapters.pruning.result import Pruned
    from .adapters.restoring import restore_backup
    from .adapters.retrying import RetryPolicy
    from .adapters.slots import WorkerResult
    from .adapters.telemetry.telemetry import Telemetry
    from .adapters.worker import ResultDelivery, Worker
    from .domain.delivery import DeliveryRecord, DeliveryStatus
    from .domain.delivery_ledger import DeliveryLedger
    from .domain.errors import CAUSES, RunStoreError
    from .domain.events import Event
    from .domain.gateway import (
        DeliveryAmbiguous,
        DeliveryFailed,
        DeliveryGateway,
        DeliveryRefused,
        DeliveryRequest,
    )
    from .domain.lease import RunLeaseHandle
    from .domain.ledger import RunLedger
    from .domain.limits import DeploymentLimits
    from .domain.ports import AuthorityResolver, Authorizer
    from .domain.record import CheckpointRef, Lease, RunRecord, Suspension
    from .domain.registry import EventRegistry
    from .domain.run_operator import CommandOutcome
    from .domain.status import RunLifecycleStatus, can_transition_run, is_terminal_run_status
    from .projections.ports import ProjectionState
    from .projections.projector import Projector
    from .projections.replay import replay
    from .projections.stats import JournalStats
    from .projections.timeline_parts import Timeline

__version__ = "0.1.0"

_HOME = {
    "AsyncJournal": "adapters.aio.journal",
    "AsyncProjectionRunner": "adapters.aio.projections",
    "AsyncRunLeaseHandle": "adapters.aio.handle",
    "AsyncRunLedger": "adapters.aio.ledger",
    "AuthorityResolver": "domain.ports",
    "Authorizer": "domain.ports",
    "CAUSES": "domain.errors",
    "CallableGateway": "adapters.gateways.function",
    "CheckpointRef": "domain.record",
    "Cipher": "adapters.ciphering",
    "CommandOutcome": "domain.run_operator",
    "DeliveryAmbiguous": "domain.gateway",
    "DeliveryFailed": "domain.gateway",
    "DeliveryGateway": "domain.gateway",
    "DeliveryLedger": "domain.delivery_ledger",
    "DeliveryPolicy": "adapters.delivery_policy",
    "DeliveryRecord": "domain.delivery",
    "DeliveryRefused": "domain.gateway",
    "DeliveryRequest": "domain.gateway",
    "DeliveryService": "adapters.delivery_service",
    "DeliveryStatus": "domain.delivery",
    "DeploymentLimits": "domain.limits",
    "Event": "domain.events",
    "EventRegistry": "domain.registry",
    "Journal": "adapters.journal",
    "JournalStats": "projections.stats",
    "JsonLinesGateway": "adapters.gateways.json_lines",
    "KeyRing": "adapters.key_ring",
    "KeyValueStore": "adapters.key_value.store",
    "Lease": "domain.record",
    "PartProcesses": "adapters.part_processes",
    "ProjectionRunner": "adapters.projecting.runner",
    "ProjectionState": "projections.ports",
    "Projector": "projections.projector",
    "Pruned": "adapters.pruning.result",
    "ResultDelivery": "adapters.worker",
    "RetryPolicy": "adapters.retrying",
    "RunInterrupted": "adapters.handling",
    "RunLeaseHandle": "domain.lease",
    "RunLedger": "domain.ledger",
    "RunLifecycleStatus": "domain.status",
    "RunRecord": "domain.record",
    "RunStoreError": "domain.errors",
    "Space": "adapters.key_value.space",
    "StopSignal": "adapters.handling",
    "Suspension": "domain.record",
    "Telemetry": "adapters.telemetry.telemetry",
    "Timeline": "projections.timeline_parts",
    "WebhookGateway": "adapters.gateways.webhook",
    "Worker": "adapters.worker",
    "WorkerContext": "adapters.handling",
    "WorkerResult": "adapters.slots",
    "can_transition_run": "domain.status",
    "is_terminal_run_status": "domain.status",
    "load_gateways": "adapters.gateways.config",
    "open_async_journal": "adapters.aio.journal",
    "open_journal": "adapters.opening",
    "replay": "projections.replay",
    "restore_backup": "adapters.restoring",
    "verify_signature": "adapters.gateways.signature",
}

__all__ = [
    "CAUSES",
    "AsyncJournal",
    "AsyncProjectionRunner",
    "AsyncRunLeaseHandle",
    "AsyncRunLedger",
    "AuthorityResolver",
    "Authorizer",
    "CallableGateway",
    "CheckpointRef",
    "Cipher",
    "CommandOutcome",
    "DeliveryAmbiguous",
    "DeliveryFailed",
    "DeliveryGateway",
    "DeliveryLedger",
    "DeliveryPolicy",
    "DeliveryRecord",
    "DeliveryRefused",
    "DeliveryRequest",
    "DeliveryService",
    "DeliveryStatus",
    "DeploymentLimits",
    "Event",
    "EventRegistry",
    "Journal",
    "JournalStats",
    "JsonLinesGateway",
    "KeyRing",
    "KeyValueStore",
    "Lease",
    "PartProcesses",
    "ProjectionRunner",
    "ProjectionState",
    "Projector",
    "Pruned",
    "ResultDelivery",
    "RetryPolicy",
    "RunInterrupted",
    "RunLeaseHandle",
    "RunLedger",
    "RunLifecycleStatus",
    "RunRecord",
    "RunStoreError",
    "Space",
    "StopSignal",
    "Suspension",
    "Telemetry",
    "Timeline",
    "WebhookGateway",
    "Worker",
    "WorkerContext",
    "WorkerResult",
    "can_transition_run",
    "is_terminal_run_status",
    "load_gateways",
    "open_async_journal",
    "open_journal",
    "replay",
    "restore_backup",
    "verify_signature",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
