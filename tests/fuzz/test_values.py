"""Whatever a program hands in, it comes back equal or is refused, alike on every backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import Journal, RunLedger, RunStoreError, open_journal

from ..conftest import make_conninfo_url
from .generating import bounded, json_values, scalars, texts


class Text(str):
    __slots__ = ()


#: What is no JSON, or only looks like it.
OTHERS: list[Any] = [
    (1, 2),
    {1},
    b"x",
    1 + 2j,
    Decimal(1),
    date(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=UTC),
    Text("x"),
    object(),
    {1: 2},
    {None: 1},
    {"a": (1,)},
    {"\ud800": 1},
    range(3),
    Ellipsis,
]
values = st.one_of(
    json_values,
    st.sampled_from(OTHERS),
    st.lists(st.sampled_from(OTHERS) | scalars, max_size=3),
    st.integers(1, 400).map(lambda depth: _nested(depth)),
)


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.fixture(scope="module")
def journals(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: str, postgres_template: str
) -> Iterator[list[Journal]]:
    """One journal on each backend."""
    path = tmp_path_factory.mktemp("journals") / "journal.db"
    name = f"runjournal_fuzz_{os.getpid()}"
    with psycopg.connect(postgres_server, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {postgres_template}".encode())
        opened = [
            open_journal("memory:"),
            open_journal(f"sqlite:///{path}?synchronous=normal"),
            open_journal(make_conninfo_url(postgres_server, name)),
        ]
        yield opened
        for journal in opened:
            journal.close()
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


_numbers = count()


def everywhere(journals: list[Journal], act: Callable[[RunLedger, Journal, str], Any]) -> Any:
    """What comes of it on every backend, which must be the same on all."""
    name = f"run-{next(_numbers)}"
    outcomes = []
    for journal in journals:
        ledger = journal.ledger(owner="worker")
        try:
            outcomes.append(("done", act(ledger, journal, name)))
        except RunStoreError as error:
            outcomes.append((error.code, error.reason, error.message))
    assert all(repr(o) == repr(outcomes[0]) for o in outcomes), outcomes
    return outcomes[0]


@bounded(150)
@given(value=values)
def test_payload(journals: list[Journal], value: Any) -> None:
    def act(ledger: RunLedger, journal: Journal, name: str) -> Any:
        ledger.start(name, input=value)
        lease = ledger.acquire(name, heartbeat=False)
        found = [lease.input]
        lease.save_checkpoint(value)
        found.append(lease.checkpoint)
        lease.complete(value)
        return found

    outcome = everywhere(journals, act)
    if outcome[0] == "done":
        assert repr(outcome[1]) == repr([value, value])
    else:
        assert outcome[:2] == ("RUN_VALIDATION_ERROR", "payload")
        # Refused at the door: there is no run.
        assert journals[0].get(f"run-{next(_numbers) - 1}") is None


def _hashable(value: Any) -> Any:
    return None if isinstance(value, list | dict | set) else value


#: Arguments that name or say something, of the commands that take them.
NAMED: dict[str, Callable[[RunLedger, str, Any], Any]] = {
    "run_id": lambda ledger, name, x: ledger.start(x),
    "kind": lambda ledger, name, x: ledger.start(name, kind=x),
    "delivery_ref": lambda ledger, name, x: ledger.start(name, delivery_ref=x),
    "authority_ref": lambda ledger, name, x: ledger.start(name, authority_ref=x),
    "parent": lambda ledger, name, x: ledger.start(name, parent_run_id=x),
    "actor": lambda ledger, name, x: ledger.start(name, actor=x),
    "command_id": lambda ledger, name, x: ledger.start(name, command_id=x),
    "labels": lambda ledger, name, x: ledger.start(name, labels=x),
    "label": lambda ledger, name, x: ledger.start(name, labels={"a": x}),
    "label_name": lambda ledger, name, x: ledger.start(name, labels={_hashable(x): "a"}),
    "available_at": lambda ledger, name, x: ledger.start(name, available_at=x),
    "cancel": lambda ledger, name, x: (ledger.start(name), ledger.cancel(name, message=x)),
    "checkpoint": lambda ledger, name, x: ledger.acquire(name, heartbeat=False).save_checkpoint(
        1, key=x
    ),
    "snapshot": lambda ledger, name, x: ledger.acquire(name, heartbeat=False).save_checkpoint(
        1, snapshot_version=x
    ),
    "suspend": lambda ledger, name, x: ledger.acquire(name, heartbeat=False).suspend(x),
    "approval": lambda ledger, name, x: ledger.acquire(name, heartbeat=False).suspend([x]),
    "release": lambda ledger, name, x: ledger.acquire(name, heartbeat=False).release(error=x),
    "fail": lambda ledger, name, x: ledger.acquire(name, heartbeat=False).fail(x),
    "fail_message": lambda ledger, name, x: ledger.acquire(name, heartbeat=False).fail("x", x),
    "complete_message": lambda ledger, name, x: ledger.acquire(name, heartbeat=False).complete(
        1, message=x
    ),
    "adopt": lambda ledger, name, x: ledger.adopt(name, x),
    "claim": lambda ledger, name, x: ledger.claim(x) and None,
    "claim_limit": lambda ledger, name, x: ledger.claim(["none"], limit=x),
}
#: What a record says besides what differs from run to run and from store to store.
_SHOWN = [
    "kind", "status", "version", "attempt", "fencing_token",
    "delivery_ref", "authority_ref", "parent_run_id", "labels",
]  # fmt: skip


@bounded(250)
@given(
    command=st.sampled_from(sorted(NAMED)),
    value=texts | scalars | st.sampled_from(OTHERS) | st.lists(texts, max_size=3),
)
def test_name_or_text(journals: list[Journal], command: str, value: Any) -> None:
    def act(ledger: RunLedger, journal: Journal, name: str) -> Any:
        NAMED[command](ledger, name, value)
        record = journal.get(value if command == "run_id" else name)
        return record and [(field, getattr(record, field)) for field in _SHOWN]

    outcome = everywhere(journals, act)
    assert outcome[0] == "done" or outcome[0].startswith("RUN_"), outcome


@bounded(60)
@given(value=texts | scalars | st.sampled_from(OTHERS))
def test_owner_and_readings(journals: list[Journal], value: Any) -> None:
    def act(ledger: RunLedger, journal: Journal, name: str) -> Any:
        answers = []
        for ask in (
            lambda: journal.ledger(owner=value) and None,
            lambda: journal.ledger(lease_ttl=value) and None,
            lambda: journal.get(value),
            lambda: journal.get("none", version=value),
            lambda: journal.get("none", as_of=value),
            lambda: list(journal.events(value)),
            lambda: list(journal.events("none", value)),
            lambda: journal.runs(status=value, kind="none"),
            lambda: journal.runs(kind=value, limit=value),
            lambda: journal.runs(after=value, kind="none"),
            lambda: journal.deliveries(status=value, limit=1, after="zzz"),
            lambda: journal.delivery(value),
            lambda: journal.timeline(value),
            lambda: journal.report(value),
            lambda: journal.export_run(value),
            lambda: list(journal.export(value)) and None,
        ):
            try:
                # A run of that name has other times on each of them.
                answers.append(type(ask()).__name__)
            except RunStoreError as error:
                answers.append(f"{error.code}/{error.reason}")
        return answers

    everywhere(journals, act)


def test_every_backend_is_asked(journals: list[Journal]) -> None:
    assert len({type(j.store).__name__ for j in journals}) == 3
    assert everywhere(journals, lambda ledger, _, name: ledger.start(name).version) == ("done", 1)
