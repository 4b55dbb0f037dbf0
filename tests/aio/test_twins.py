"""Every public call of the synchronous objects has its async twin, with the same parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from runjournal import (
    AsyncJournal,
    AsyncProjectionRunner,
    AsyncRunLeaseHandle,
    AsyncRunLedger,
    Journal,
    ProjectionRunner,
    RunLeaseHandle,
    RunLedger,
    open_async_journal,
    open_journal,
)

#: What has no twin, and why.
WITHOUT = {
    Journal: {
        "store": "the port behind it: `sync.store`",
        "observer": "for workers and senders: `sync.observer`",
        "in_transaction": "on a synchronous connection of the host's: `sync.in_transaction`",
        "copy_to": "between two journals: `sync.copy_to(other.sync)`",
        "delivery_ledger": "for a DeliveryService, which is a loop in threads",
    },
    RunLedger: {
        "handles": "for the beat and the journal",
        "beat_once": "for the beat",
        "forked": "for the journal",
        "prepare_start": "half of `start`",
    },
    RunLeaseHandle: {
        "lease_ref": "for the beat",
        "renewed": "for the beat",
        "examine": "for the beat",
        "lose": "for the ledger",
        "overtaken": "for the ledger",
        "prepare_checkpoint": "half of `save_checkpoint`",
        "prepare_completion": "half of `complete`",
    },
    ProjectionRunner: {},
}
TWINS = {
    Journal: AsyncJournal,
    RunLedger: AsyncRunLedger,
    RunLeaseHandle: AsyncRunLeaseHandle,
    ProjectionRunner: AsyncProjectionRunner,
}
#: Asks the store: a property of the synchronous handle, a method of the async one.
ASKED = {"checkpoint", "input"}


def public(cls: type) -> dict[str, Any]:
    return {
        name: value
        for name, value in inspect.getmembers(cls)
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }


def parameters(function: Any) -> list[tuple[str, Any, Any, Any]]:
    """Name, kind, default and annotation of each; Journal's private defaults by their name."""
    return [
        (p.name, p.kind, getattr(p.default, "__name__", p.default), p.annotation)
        for p in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize("cls", TWINS, ids=lambda c: c.__name__)
def test_no_call_was_forgotten(cls: type) -> None:
    theirs, ours = public(cls), public(TWINS[cls])
    assert set(theirs) - set(ours) == set(WITHOUT[cls])
    assert set(ours) - set(theirs) <= {"sync", "owner", "lease_ttl", "heartbeat_every"} | {
        "limits",
        "name",
    }


@pytest.mark.parametrize("cls", TWINS, ids=lambda c: c.__name__)
def test_twins_have_the_same_parameters_and_say_the_same(cls: type) -> None:
    ours = public(TWINS[cls])
    for name, value in public(cls).items():
        if name not in ours:
            continue
        assert (ours[name].__doc__ or "").startswith(value.__doc__ or ""), name
        if name in ASKED:
            assert inspect.iscoroutinefunction(ours[name]), name
        elif isinstance(value, property):
            assert isinstance(ours[name], property), name
        elif (cls, name) == (ProjectionRunner, "run"):
            # A cancelled await is its interrupt, so it need not be given another.
            assert [p[0] for p in parameters(value)] == [p[0] for p in parameters(ours[name])]
        else:
            assert parameters(value) == parameters(ours[name]), name


def test_opening_has_the_same_parameters_and_one_more() -> None:
    ours = parameters(open_async_journal)
    assert ours[:-1] == parameters(open_journal)
    assert ours[-1][0] == "threads"
    assert open_async_journal.__doc__.startswith(open_journal.__doc__)  # type: ignore[union-attr]
