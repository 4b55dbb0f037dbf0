"""The limits that docs/guarantees.md owns up to, and those of docs/limits.md, are as told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import runjournal
from runjournal import CAUSES, DeploymentLimits, Journal, RunStoreError
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.domain.limiting import OUTCOMES
from runjournal.domain.run import COMMANDS_KEPT


def test_only_the_last_32_commands_are_recognised(journal: Journal) -> None:
    assert COMMANDS_KEPT == 32
    ledger = journal.ledger()

    def suspend() -> None:
        ledger.acquire("run", heartbeat=False).suspend()

    suspend()
    ledger.request_resume("run", command_id="old")
    for number in range(31):
        suspend()
        ledger.request_resume("run", command_id=f"resume-{number}")
    suspend()
    # 31 operator commands came after it: it is recognised, and does not resume the new suspension.
    assert ledger.request_resume("run", command_id="old").status == "suspended"
    ledger.request_resume("run", command_id="one more")
    suspend()
    # Now it is not, and acts again; resolve still knows of the first time.
    assert ledger.resolve("old", "run").version == 4
    assert ledger.request_resume("run", command_id="old").status == "queued"


def test_memory_binds_one_process_and_says_so(journal: Journal) -> None:
    if journal.atomicity == "cross-process":
        assert journal.ledger(require="cross-process")
        return
    with pytest.raises(RunStoreError) as caught:
        journal.ledger(require="cross-process")
    assert caught.value.code == "RUN_STORE_ATOMIC_REQUIRED"


def test_a_repeated_command_id_stands_for_one_command(journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.start("run")
    ledger.cancel("run", "superseded", command_id="ticket-17")
    with pytest.raises(RunStoreError) as caught:
        ledger.cancel("run", "not wanted", command_id="ticket-17")
    assert (caught.value.code, caught.value.reason) == ("RUN_CONFLICT", "command_reused")


def test_invocation_ids_are_the_same_in_every_attempt(
    journal: Journal, clock: SteppedClock
) -> None:
    def key(owner: str) -> tuple[int, str]:
        lease = journal.ledger(owner=owner, clock=clock).acquire("run", heartbeat=False)
        return lease.attempt, lease.invocation_id("pay")

    first = key("a")
    clock.advance(61)
    again = key("b")
    assert (first[0], again[0]) == (1, 2)
    assert first[1] == again[1]
    other = journal.ledger(clock=clock).acquire("other", heartbeat=False)
    assert len({first[1], other.invocation_id("pay"), other.invocation_id("send")}) == 3


def test_the_table_of_limits_is_the_model() -> None:
    text = (Path(runjournal.__file__).parent / "docs" / "limits.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|.*\| (.*) \|$", text, re.MULTILINE)
    fields = DeploymentLimits.model_fields
    assert [(name, default) for name, default, _ in told] == [
        (name, f"{field.default:,}") for name, field in fields.items()
    ]
    exceeded = {name: what for name, _, what in told}
    assert {name: code in exceeded[name] for name, code in OUTCOMES.items()} == dict.fromkeys(
        OUTCOMES, True
    )
    reasons = {reason for code, reason in CAUSES if code == "RUN_LIMIT_EXCEEDED"}
    assert reasons == {*fields} - {"min_ttl", "max_ttl"} | {"lease_ttl"}
