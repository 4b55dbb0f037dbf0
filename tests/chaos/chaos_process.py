"""One process in the chaos, until its stdin is closed: ROLE URL OWNER LOG STEP.

    worker    claims runs, saves checkpoints, suspends some for an approval, fails now and then
    operator  starts runs, decides what suspended ones wait for, cancels a few
    sender    delivers results; its receiver is in the process, and moody

What it is told is written, and what its receiver got, it appends to LOG, on disk before it goes on.
Its wall clock steps by STEP seconds and back, every other second.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.postgres.skewed_clock import install

STEP = float(sys.argv[5])
if STEP:
    install(lambda: STEP * (int(time.monotonic()) % 2))

import json  # noqa: E402
import random  # noqa: E402
import threading  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any, TypeVar  # noqa: E402

from runjournal import (  # noqa: E402
    CallableGateway,
    DeliveryFailed,
    DeliveryPolicy,
    DeliveryService,
    Journal,
    RetryPolicy,
    RunStoreError,
    Worker,
    open_journal,
)

T = TypeVar("T")
CHECKPOINTS, ASKS_AT = 4, 3
#: Seconds that leases and attempts last.
TTL = 2.0
#: What an operator's command may meet because somebody else was first.
OVERTAKEN = {"RUN_ALREADY_TERMINAL", "RUN_INVALID_TRANSITION"}


class Log:
    """What is in it when the process is killed, it had said."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def ack(
        self,
        run_id: str,
        topic: str,
        version: int = 0,
        command_id: str | None = None,
        says: dict[str, Any] | None = None,
    ) -> None:
        """A checker.Ack."""
        self._write({"ack": [run_id, topic, version, command_id, says]})

    def received(self, invocation_id: str) -> None:
        self._write({"received": invocation_id})

    def _write(self, what: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(what).encode() + b"\n")
        os.fsync(self._file)


def insist(act: Callable[[], T]) -> T | None:
    """Ask until there is an answer; None when somebody else was first."""
    while True:
        try:
            return act()
        except RunStoreError as error:
            if error.code in OVERTAKEN:
                return None
            if not error.retryable:
                raise
        time.sleep(0.05)


def work(journal: Journal, owner: str, log: Log, interrupt: threading.Event) -> None:
    def handler(ctx: Any) -> Any:
        said = {"owner": owner, "token": ctx.lease.fencing_token}
        done = ctx.checkpoint["n"] if ctx.checkpoint else 0
        for number in range(done + 1, CHECKPOINTS + 1):
            ctx.ensure_held()
            if number == ASKS_AT and ctx.input["asks"] and not ctx.record.approvals:
                record = ctx.lease.suspend(["a"], resume_when_decided=True)
                log.ack(ctx.run_id, "run.suspended", record.version)
                return None
            state = {**said, "n": number}
            record = ctx.save_checkpoint(state)
            log.ack(ctx.run_id, "run.checkpoint_saved", record.version, says={"state": state})
            time.sleep(random.uniform(0, 0.03))
        if random.random() < 0.05:
            raise RuntimeError("bad luck")
        return {**said, "n": CHECKPOINTS}

    def ended(record: Any) -> None:
        if record.is_terminal:
            log.ack(record.run_id, f"run.{record.status}", record.version)

    retry = RetryPolicy(10**6, backoff=0.01, max_backoff=0.1)
    worker = Worker(journal, handler, owner=owner, lease_ttl=TTL, grace=1, retry=retry)
    worker.run(concurrency=2, interrupt=interrupt, poll=0.1, on_record=ended)


def operate(journal: Journal, owner: str, log: Log, interrupt: threading.Event) -> None:
    ledger = journal.ledger(owner=owner)
    number = 0
    while not interrupt.wait(random.uniform(0.01, 0.05)):
        number += 1
        name = f"{owner}-{number}"
        given = {"asks": random.random() < 0.3}
        ref = random.choice(["inbox", None])
        command = f"start-{name}"
        insist(lambda: ledger.start(name, "chaos", given, ref, command_id=command))  # noqa: B023
        log.ack(name, "run.queued", command_id=command)
        if random.random() < 0.1:
            other = f"{owner}-{random.randint(1, number)}"
            command = f"cancel-{name}"
            record = insist(lambda: ledger.cancel(other, command_id=command))  # noqa: B023
            if record is not None:
                log.ack(other, "run.cancelled", record.version)
        decide(journal, log)


def decide(journal: Journal, log: Log) -> None:
    """Decide what runs wait for; whoever else does so gives the same answer."""
    ledger = journal.ledger()
    for run in insist(lambda: journal.runs(status="suspended", limit=20)) or []:
        command = f"decide-{run.run_id}"
        record = insist(
            lambda: ledger.record_decision(run.run_id, "a", "yes", command_id=command)  # noqa: B023
        )
        if record is not None:
            log.ack(run.run_id, "run.approval_decided", command_id=command)


def send(journal: Journal, owner: str, log: Log, interrupt: threading.Event) -> None:
    def receive(request: Any) -> None:
        mood = random.random()
        if mood < 0.1:
            raise DeliveryFailed("not now")
        log.received(request.invocation_id)
        if mood < 0.15:
            raise TimeoutError("no answer")

    policy = DeliveryPolicy(first_pause=0.01, longest_pause=0.2, retry_ambiguous=True)
    gateways = {"*": CallableGateway(receive)}
    DeliveryService(journal, gateways, policy, owner=owner, attempt_ttl=TTL, concurrency=2).run(
        interrupt, poll=0.1
    )


ROLES = {"worker": work, "operator": operate, "sender": send}


def main(role: str, url: str, owner: str, log: str) -> None:
    interrupt = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        interrupt.set()

    threading.Thread(target=until_told, daemon=True).start()
    journal = insist(lambda: open_journal(url))
    assert journal is not None
    with journal:
        ROLES[role](journal, owner, Log(log), interrupt)


if __name__ == "__main__":
    main(*sys.argv[1:5])
