"""Which ended runs may go, what is left of one, and the fingerprints, by known answers."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from runjournal.adapters.contract.scribe import Scribe, after, record_of
from runjournal.domain import commands as c
from runjournal.domain.chain import chain_hash, fingerprint, invocation_id
from runjournal.domain.delivery import DeliveryRecord, DeliveryStatus, delivery_invocation_id
from runjournal.domain.events import Outcome, Payload, RunCompleted
from runjournal.domain.pruning import REASONS, Ended, held_back
from runjournal.domain.record import AppliedCommand, RunRecord
from runjournal.domain.tombstone import Tombstone, digest_of, run_tombstone

scribe = Scribe()
FIELDS = {"labels": {"team": "x"}, "kind": "etl", "authority_ref": "auth", "parent_run_id": "up"}


def ended_run(**fields: Any) -> tuple[RunRecord, DeliveryRecord | None]:
    """The record of a completed run, and its delivery's if somebody waits for its result."""
    started = record_of(scribe.start("run", **FIELDS, **fields))
    changes = scribe.complete(record_of(scribe.grant(started)))
    delivery = changes[1].record if len(changes) > 1 else None
    assert delivery is None or isinstance(delivery, DeliveryRecord)
    return record_of(changes[0]), delivery


PLAIN = ended_run()[0]
AWAITED, PENDING = ended_run(delivery_ref="inbox")
assert PENDING is not None
DELIVERED = PENDING.model_copy(update={"status": DeliveryStatus.DELIVERED})
UNKNOWN = PENDING.model_copy(update={"status": DeliveryStatus.UNKNOWN})


@pytest.mark.parametrize(
    ("record", "delivery", "child", "position", "passed", "reason"),
    [
        (PLAIN, None, None, 7, {}, None),
        (PLAIN, None, None, 7, {"p": 7, "q": 8}, None),
        (PLAIN, None, None, 7, {"p": 7, "q": 6}, "projection"),
        (PLAIN, None, None, None, {}, "damaged"),
        (PLAIN, None, "child", 7, {}, "live_child"),
        (None, None, None, 7, {}, "damaged"),
        (AWAITED, None, None, 7, {}, "damaged"),
        (AWAITED, PENDING, None, 7, {}, "undelivered"),
        (AWAITED, UNKNOWN, None, 7, {}, "undelivered"),
        (AWAITED, DELIVERED, None, 7, {"p": 7}, None),
        (AWAITED, DELIVERED, "child", 7, {}, "live_child"),
        (AWAITED, DELIVERED, None, None, {}, "damaged"),
        (AWAITED, DELIVERED, None, 7, {"p": 6}, "projection"),
    ],
)
def test_who_may_go(
    record: RunRecord | None,
    delivery: DeliveryRecord | None,
    child: str | None,
    position: int | None,
    passed: dict[str, int],
    reason: str | None,
) -> None:
    held = held_back(Ended("run", after(9), record, delivery, child, position), passed)
    if reason is None:
        assert held is None
        return
    assert held is not None
    assert (held.run_id, held.reason) == ("run", reason)
    assert reason in REASONS
    assert held.detail
    for what in [child, *(["'q'"] if passed.get("q") == 6 else [])]:
        assert what is None or what in held.detail


def last_event(record: RunRecord, **fields: Any) -> RunCompleted:
    return RunCompleted(
        originator_id="run/run",
        originator_version=record.version,
        timestamp=record.updated_at,
        outcome=Outcome(code="ok"),
        **fields,
    )


def test_what_is_left_of_a_run() -> None:
    record = AWAITED.changed({"outcome": Outcome(code="ok", message="private")})
    grave = run_tombstone(record, last_event(record, command_id="c"), 4, after(99))
    assert grave[:4] == ("run/run", 4, record.version, record.head)
    left = grave.record
    assert left is not None
    expected = dict(record) | {
        "pruned_at": after(99),
        "outcome": Outcome(code="ok"),
        "commands": (
            *record.commands,
            AppliedCommand(command_id="c", version=record.version, digest=""),
        ),
        # What a repeated command does not need.
        "lease": None,
        "checkpoint_ref": None,
        "suspension": None,
        "available_at": None,
        "failures": 0,
        "last_error": None,
        "approvals": {},
    }
    assert dict(left) == expected
    assert grave.body is not None
    assert "failures" not in json.loads(grave.body), "what is as by default is not stored"
    assert (left.kind, left.labels, left.delivery_ref) == ("etl", {"team": "x"}, "inbox")
    assert (left.authority_ref, left.parent_run_id) == ("auth", "up")


def test_the_last_command_is_kept_once() -> None:
    none = run_tombstone(PLAIN, last_event(PLAIN), 1, after(9)).record
    assert none is not None
    assert none.commands == PLAIN.commands
    known = PLAIN.commands[-1]
    same = run_tombstone(PLAIN, last_event(PLAIN, command_id=known.command_id), 1, after(9)).record
    assert same is not None
    assert same.commands == PLAIN.commands
    event = last_event(PLAIN, command_id="o", command_digest="d")
    by_operator = run_tombstone(PLAIN, event, 1, after(9)).record
    assert by_operator is not None
    assert by_operator.commands[-1] == AppliedCommand(
        command_id="o", version=PLAIN.version, digest="d"
    )


def test_a_run_without_an_outcome_leaves_a_tombstone() -> None:
    """Damaged, but it can be pruned."""
    record = PLAIN.changed({"outcome": None})
    left = run_tombstone(record, last_event(record), 1, after(9)).record
    assert left is not None
    assert left.outcome is None


def test_digest_of_tombstones_is_over_one_line_each() -> None:
    graves = [Tombstone("run/é", 1, 3, "h", b"body"), Tombstone("delivery/d", 1, 2, "g", None)]
    lines = f"run/é 3 h {sha256(b'body').hexdigest()}\ndelivery/d 2 g -\n"
    assert digest_of(graves) == sha256(lines.encode()).hexdigest()
    assert graves[1].record is None


def test_known_answers() -> None:
    """These are kept outside the journal too: by receivers, by anchors, in other systems."""
    assert invocation_id("run", "mail") == sha256(b'["run","mail"]').hexdigest()
    assert fingerprint("é", None, {"b": 1, "a": [2]}) == (
        sha256(b'["\\u00e9",null,{"a":[2],"b":1}]').hexdigest()
    )
    expected = sha256(b'["run","inbox","terminal"]').hexdigest()
    assert delivery_invocation_id("run", "inbox") == f"delivery-{expected}"
    assert chain_hash("p", "run/é", 12, "run.queued", b"data") == (
        sha256("p\0run/é\0".encode() + b"12\0run.queued\0data").hexdigest()
    )


def test_fingerprints_of_commands() -> None:
    """They are stored in events, and a command that is repeated after an upgrade is the same."""
    of = {"run_id": "run", "command_id": "c", "actor": "who"}
    full = c.Start(
        **of,
        input=Payload(b"1", "digest"),
        kind="k",
        delivery_ref="d",
        authority_ref="a",
        labels={"b": "1", "a": "2"},
        parent_run_id="p",
        available_at=after(0),
    )
    least = c.Start(**of, input=Payload(b"1", "digest"))
    at = "2026-01-01T12:30:15.123456+00:00"
    known: list[tuple[c.OperatorCommand, list[Any]]] = [
        (full, ["start", "k", "digest", "d", "a", {"a": "2", "b": "1"}, "p", at]),
        (least, ["start", "default", "digest", None, None, {}, None, None]),
        (c.Cancel(**of, message="m", fencing_token=1), ["cancel", "m"]),
        (c.GiveUp(**of, code="c", message="m"), ["fail", "c", "m"]),
        (c.RequestResume(**of), ["resume"]),
        (c.RecordDecision(**of, approval_id="a", decision="b"), ["decide", "a", "b"]),
    ]
    for command, parts in known:
        text = json.dumps(parts, separators=(",", ":"))
        assert command.digest() == sha256(text.encode()).hexdigest()
