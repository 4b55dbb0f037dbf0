"""The contract of a RunStore, as pytest classes: what a store must do to keep runs safe.

Enrolling a backend takes one class:

    from runjournal.adapters.contract import RunStoreContract

    class TestMyStore(RunStoreContract):
        def make_store(self, tmp_path):
            return MyStore(tmp_path / "runs")

and, for a store whose data outlive it (a must where it claims cross-process atomicity):

    class TestMyStore(RunStoreContract, PersistenceContract):
        ...
        def reopen(self, store):
            return MyStore(store.path)

        def spoil(self, store, run_id):
            ...  # damage the stored record of this run

        def spoil_delivery(self, store, invocation_id):
            ...  # damage this delivery's row in the outbox

A store that can let a name have one holder at a time (`exclusive`) is also enrolled in
`ExclusionContract`, or, where a second store can be opened on its data, in `FarExclusionContract`;
one whose tokens outlive a restore (`raise_epoch`) in `EpochContract`, or `FarEpochContract`.
One that is a `JournalStore` is also enrolled in `PruningContract`.

Every test gets a new store from `make_store` and closes it.

The tests work at the port (appends, guards, deadlines, renewals, claims, reading, the outbox,
whole histories) and through RunLedger and DeliveryLedger on top of it, on a clock that moves only
when told to, so that boundaries are exact and nothing sleeps. A store must honour the `now` that is
handed in: that is part of the port.

What this suite cannot prove, since it runs in one process:

- that the guards hold between processes. `atomicity = "cross-process"` stays a claim; here it is
  only checked that a second store on the same data obeys the same guards. It takes a test of its
  own, with real processes against the real backend, to show it.
- that what was acknowledged survives a killed process, a crashed host or a power loss.
- that a lost reply is reported as RUN_OUTCOME_UNKNOWN by the backend itself. The suite loses
  replies around the store, and proves what the rules make of it.
- fairness and speed: that no writer waits for ever under load, and how long it waits.
- that the store's own clock is right, or agrees with that of other hosts.
"""

from __future__ import annotations

import pytest

# The topics' modules are not test files: without this their asserts would not explain themselves.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{topic}"
        for topic in (
            "adopting",
            "appends",
            "between",
            "claims",
            "deliveries",
            "epochs",
            "exclusion",
            "histories",
            "holders",
            "leases",
            "lifecycle",
            "lost_replies",
            "persistence",
            "pruning",
            "publications",
            "reading",
            "scribe",
            "sending",
            "tools",
        )
    )
)

from .adopting import AdoptContract  # noqa: E402
from .appends import AppendContract  # noqa: E402
from .between import Between, LosesReplies  # noqa: E402
from .claims import ClaimContract  # noqa: E402
from .deliveries import DeliveryContract  # noqa: E402
from .epochs import EpochContract, FarEpochContract  # noqa: E402
from .exclusion import ExclusionContract, FarExclusionContract  # noqa: E402
from .histories import HistoryContract  # noqa: E402
from .holders import HolderContract  # noqa: E402
from .leases import LeaseContract  # noqa: E402
from .lifecycle import LifecycleContract  # noqa: E402
from .lost_replies import LostReplyContract  # noqa: E402
from .persistence import PersistenceContract  # noqa: E402
from .pruning import PruningContract  # noqa: E402
from .publications import PublicationContract  # noqa: E402
from .reading import ReadingContract  # noqa: E402
from .scribe import Scribe  # noqa: E402
from .sending import SendingContract  # noqa: E402
from .tools import SteppedClock, StoreHooks, ledger_on  # noqa: E402

__all__ = [
    "AdoptContract",
    "AppendContract",
    "Between",
    "ClaimContract",
    "DeliveryContract",
    "EpochContract",
    "ExclusionContract",
    "FarEpochContract",
    "FarExclusionContract",
    "HistoryContract",
    "HolderContract",
    "LeaseContract",
    "LifecycleContract",
    "LosesReplies",
    "LostReplyContract",
    "PersistenceContract",
    "PruningContract",
    "PublicationContract",
    "ReadingContract",
    "RunStoreContract",
    "Scribe",
    "SendingContract",
    "SteppedClock",
    "StoreHooks",
    "ledger_on",
]


class RunStoreContract(
    AppendContract,
    LeaseContract,
    ClaimContract,
    ReadingContract,
    HolderContract,
    LifecycleContract,
    LostReplyContract,
    DeliveryContract,
    SendingContract,
    AdoptContract,
    HistoryContract,
    PublicationContract,
):
    """Everything a RunStore must do. Subclass it as `Test...` and hand in `make_store`."""
