"""One run's whole life, that whoever comes along can carry on: asked, worked on, delivered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from runjournal import CallableGateway, DeliveryPolicy, DeliveryService, Journal, RunLedger
from runjournal.domain.delivery import delivery_invocation_id

from .checker import Ack

#: The checkpoint after which the run asks, and the last one.
ASKS_AFTER, LAST = 2, 3
#: More rounds than a life has: it is started, taken twice and resumed once.
ROUNDS = 6


def later() -> datetime:
    """An instant at which every lease and every attempt of now is over."""
    return datetime.now(UTC) + timedelta(hours=1)


class Life:
    """Carries the run on from wherever it stands, and notes what it was told is written.

    clock  an heir's: the lease of whoever is gone has expired by it
    note   called with each acknowledgement
    step   what it is at, for the names of failpoints
    """

    def __init__(
        self,
        journal: Journal,
        run_id: str,
        owner: str,
        note: Callable[[Ack], object],
        receive: Callable[[str], object],
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.run_id = run_id
        self.step = ""
        self._journal = journal
        self._note = note
        self._ledger: RunLedger = journal.ledger(owner=owner, clock=clock)
        self._deliveries = DeliveryService(
            journal,
            {"*": CallableGateway(lambda request: receive(request.invocation_id))},
            DeliveryPolicy(first_pause=1e-6, longest_pause=1e-6, retry_ambiguous=True),
            owner=owner,
            # Whoever sends asks patiently for half of it after a failure.
            attempt_ttl=0.2,
            clock=clock,
        )

    def go_on(self) -> bool:
        """Whether the run has ended and its result has arrived; False: others are at work on it."""
        self.step = "start"
        self._ledger.start(self.run_id, self.run_id, delivery_ref="inbox", command_id="start")
        self._note(Ack(self.run_id, "run.queued", command_id="start"))
        for _ in range(ROUNDS):
            record = self._ledger.get(self.run_id)
            assert record is not None
            if record.is_terminal:
                return self._deliver()
            if record.status == "suspended":
                self._decide()
            elif not self._work():
                return False
        raise AssertionError(f"run {self.run_id} goes round in circles")

    def _decide(self) -> None:
        self.step = "decide"
        self._ledger.record_decision(self.run_id, "a", "yes", command_id="decide")
        self._note(Ack(self.run_id, "run.approval_decided", command_id="decide"))
        self.step = "resume"
        self._ledger.request_resume(self.run_id, command_id="resume")

    def _work(self) -> bool:
        self.step = "claim"
        lease = self._ledger.claim([self.run_id], heartbeat=False)
        if lease is None:
            return False
        self._granted(lease)
        asked = bool(lease.record.approvals)
        done = lease.checkpoint["n"] if lease.checkpoint else 0
        for number in range(done + 1, (LAST if asked else ASKS_AFTER) + 1):
            self.step = f"checkpoint {number}"
            state = self._said(lease, number)
            record = lease.save_checkpoint(state)
            self._note(
                Ack(self.run_id, "run.checkpoint_saved", record.version, says={"state": state})
            )
        self.step = "renew"
        lease.renew()
        if asked:
            self.step = "complete"
            result = self._said(lease, LAST)
            record = lease.complete(result)
            self._note(Ack(self.run_id, "run.completed", record.version, says={"result": result}))
        else:
            self.step = "suspend"
            record = lease.suspend(["a"])
            self._note(Ack(self.run_id, "run.suspended", record.version))
        return True

    def _granted(self, lease: Any) -> None:
        says = {"owner": lease.owner, "fencing_token": lease.fencing_token}
        self._note(Ack(self.run_id, "run.lease_granted", lease.record.version, says=says))

    def _said(self, lease: Any, number: int) -> dict[str, Any]:
        return {"n": number, "owner": lease.owner, "token": lease.fencing_token}

    def _deliver(self) -> bool:
        self.step = "deliver"
        invocation_id = delivery_invocation_id(self.run_id, "inbox")
        for _ in range(ROUNDS):
            if self._deliveries.retry(invocation_id).status == "delivered":
                return True
        return False
