"""The domain is useful alone: with pydantic, and nothing else of ours or anybody's, installed.

This file is the test and also the program that the test runs in a bare interpreter: `-I -S`
leaves the standard library only, and one folder adds pydantic (with what it needs) and us.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.append(sys.argv[1])

import pydantic
from runjournal.domain import (
    DELIVERY_EVENTS,
    GENESIS,
    RUN_EVENTS,
    Acquire,
    Command,
    Complete,
    Event,
    EventRegistry,
    Payload,
    RecordDecision,
    RunLeaseHandle,
    RunLedger,
    RunRecord,
    RunStoreError,
    SaveCheckpoint,
    Start,
    Suspend,
    chain_hash,
    decide,
    evolve,
    fold,
)
from runjournal.domain.ports import (
    Atomicity,
    Attention,
    Change,
    Granted,
    Granting,
    Guard,
    LeaseRef,
    Reading,
    Reply,
    SealedEvent,
    StoredEvent,
)

#: What pydantic itself needs; nothing else may be found, and nothing else may be loaded.
INSTALLED = (
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
)
START = datetime(2026, 1, 1, tzinfo=UTC)


def test_domain_needs_pydantic_only(tmp_path: Path) -> None:
    site = Path(pydantic.__file__).parents[1]
    for name in INSTALLED:
        found = site / name if (site / name).exists() else site / f"{name}.py"
        (tmp_path / found.name).symlink_to(found)
    root = Path(__file__).parents[2]
    (tmp_path / "runjournal").symlink_to(root)
    command = [sys.executable, "-I", "-S", "-W", "error", __file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["life", "ledger", "alone"]


# From here on: what runs in the bare interpreter.


class JsonCodec:
    """The PayloadCodec port with the standard library's json."""

    registry = EventRegistry([*RUN_EVENTS, *DELIVERY_EVENTS])

    def encode(self, value: Any, what: str) -> Payload:
        data = json.dumps(value).encode()
        return Payload(data, sha256(data).hexdigest())

    def seal(self, event: Event, previous: str) -> SealedEvent:
        fields: dict[str, Any] = {"schema_version": event.schema_version}
        for name, value in event.__dict__.items():
            if name not in ("originator_id", "originator_version", "hash") and value is not None:
                fields[name] = json.loads(value.data) if isinstance(value, Payload) else value
        data = json.dumps(fields | {"prev_hash": previous}, default=_plain).encode()
        where = event.originator_id, event.originator_version, event.topic, data
        return SealedEvent(*where, chain_hash(previous, *where))

    def open(self, stored: StoredEvent) -> Event:
        fields = json.loads(stored.data)
        fields["hash"] = chain_hash(fields["prev_hash"], *stored)
        return self.registry.build(stored.stream, stored.version, stored.topic, fields)


def _plain(value: Any) -> Any:
    return value.__dict__ if isinstance(value, pydantic.BaseModel) else value.isoformat()


class ToyStore:
    """The RunStore port in two dictionaries: all that the rules ask of a store."""

    atomicity: Atomicity = "process"
    epoch = 0

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.streams: dict[str, list[StoredEvent]] = {}
        self.records: dict[str, RunRecord] = {}
        self.deadlines: dict[str, datetime] = {}

    def now(self) -> datetime:
        return datetime.now(UTC)

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        record = self.records.get(run_id)
        if record and record.lease:
            lease = record.lease.model_copy(update={"expires_at": self.deadlines[run_id]})
            record = record.model_copy(update={"lease": lease})
        return Reading(record, now or self.now())

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        with self.lock:
            now = now or self.now()
            record = changes[0].record
            assert isinstance(record, RunRecord)
            if not all(self._is_at(c.stream, c.expected_version) for c in changes):
                return None
            if guard and not self._holds(record.run_id, guard, now):
                return None
            for change in changes:
                stream = self.streams.setdefault(change.stream, [])
                stream += [StoredEvent(*event[:4]) for event in change.events]
            self.records[record.run_id] = record
            return self._deadline(record, guard, now)

    def _is_at(self, stream: str, version: int) -> bool:
        return len(self.streams.get(stream, ())) == version

    def _holds(self, run_id: str, guard: Guard, now: datetime) -> bool:
        record, deadline = self.records[run_id], self.deadlines.get(run_id)
        if record.fencing_token != guard.fencing_token or deadline is None:
            return False
        alive: bool = now < deadline
        return alive if guard.lease == "live" else not alive

    def _deadline(self, record: RunRecord, guard: Guard | None, now: datetime) -> Reply:
        old = self.deadlines.pop(record.run_id, None)
        if record.lease is None:
            return Reply(now, None, False)
        ttl = timedelta(seconds=record.lease.ttl)
        keep = guard and guard.lease == "live" and old and old - now >= ttl / 2
        new = old if keep and old else now + ttl
        self.deadlines[record.run_id] = new
        return Reply(now, new, new != old)

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        answer = {}
        now = now or self.now()
        for run_id, token, ttl in leases:
            with self.lock:
                if run_id in self.records and self._holds(run_id, Guard(token, "live"), now):
                    old = self.deadlines[run_id]
                    new = self.deadlines[run_id] = max(old, now + timedelta(seconds=ttl))
                    answer[run_id] = Reply(now, new, new != old)
        return answer

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        return self.streams.get(stream, [])[after_version:][:limit]

    def claim(
        self, kinds: Sequence[str] | None, limit: int, grant: Granting, now: datetime | None = None
    ) -> list[Granted]:
        return []  # this host hands out its runs by name

    def runs(self, **_filters: Any) -> list[RunRecord]:
        return list(self.records.values())

    def set_aside(self, run_id: str, reason: str) -> None:
        pass

    def attention(self) -> list[Attention]:
        return []

    def close(self) -> None:
        pass


class NoBeat:
    """The Beat port without a beat."""

    def watch(self, handle: RunLeaseHandle) -> None:
        pass

    def unwatch(self, handle: RunLeaseHandle) -> None:
        pass


class CountedIds:
    """The Ids port."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self) -> str:
        return f"id-{next(self._numbers)}"


def refusal(act: Callable[[Any], object], argument: Any) -> tuple[str, str] | None:
    """The cause with which this was refused, or None."""
    try:
        act(argument)
    except RunStoreError as error:
        return error.code, error.reason
    return None


def live_by_decide_and_evolve() -> None:
    """A whole life by decide, evolve and fold: no store, no ledger."""
    codec = JsonCodec()
    stored: list[StoredEvent] = []
    record: RunRecord | None = None
    now = START

    def carry_out(command: Command) -> int:
        nonlocal record
        events = decide(record, command, now)
        for event in events:
            sealed = codec.seal(event, record.head if record else GENESIS)
            record = evolve(record, event, sealed.hash)
            stored.append(StoredEvent(*sealed[:4]))
        return len(events)

    def at(run: type[Command], token: int, **fields: Any) -> Command:
        return run(run_id="run", command_id=f"c{len(stored)}", fencing_token=token, **fields)

    def checkpoint(token: int, offset: int) -> Command:
        state = codec.encode({"offset": offset}, "state")
        return at(SaveCheckpoint, token, key="latest", snapshot_version=1, state=state)

    def acquire(owner: str) -> Command:
        return Acquire(run_id="run", command_id=f"a{len(stored)}", owner=owner, ttl=60.0)

    start = Start(run_id="run", command_id="start", input=codec.encode({"day": 1}, "input"))
    decided = RecordDecision(run_id="run", command_id="d", approval_id="budget", decision="yes")
    assert [carry_out(start), carry_out(start)] == [1, 0]
    assert [carry_out(acquire("one")), carry_out(checkpoint(1, 10))] == [1, 1]
    suspend = at(Suspend, 1, pending_approval_ids=("budget",), resume_when_decided=True)
    # The last decision queues the run in the same step; repeating it changes nothing.
    assert [carry_out(suspend), carry_out(decided), carry_out(decided)] == [1, 2, 0]
    assert [carry_out(acquire("one")), carry_out(checkpoint(2, 20))] == [1, 1]
    now += timedelta(seconds=60)
    assert carry_out(acquire("two")) == 1
    assert refusal(carry_out, checkpoint(2, 30)) == ("RUN_LEASE_LOST", "taken_over")
    done = at(Complete, 3, code="ok", result=codec.encode({"rows": 20}, "result"))
    assert [carry_out(checkpoint(3, 40)), carry_out(done), carry_out(done)] == [1, 1, 0]

    assert record is not None
    assert (record.status, record.fencing_token, record.attempt) == ("completed", 3, 2)
    # The state is what its events say, read back from their bytes.
    assert fold(None, map(codec.open, stored)) == record
    print("life")


def live_through_a_ledger() -> None:
    """The same life through RunLedger on a host's own small store."""
    store, now = ToyStore(), START

    def ledger(owner: str) -> RunLedger:
        return RunLedger(
            store,
            JsonCodec(),
            CountedIds(),
            owner=owner,
            ticks=lambda: 0.0,
            beat=NoBeat(),
            make_lock=threading.RLock,
            clock=lambda: now,
        )

    one, two = ledger("one"), ledger("two")
    one.start("run", input={"day": 1}, delivery_ref="inbox")
    first = one.acquire("run")
    first.save_checkpoint({"offset": 10})
    first.suspend(["budget"], resume_when_decided=True)
    assert two.record_decision("run", "budget", "yes", command_id="d").status == "queued"
    stale = one.acquire("run")
    stale.save_checkpoint({"offset": 20})
    now += timedelta(seconds=60)
    holder = two.restore("run")
    assert (holder.fencing_token, holder.attempt, holder.input) == (3, 2, {"day": 1})
    assert holder.checkpoint == {"offset": 20}
    assert refusal(stale.save_checkpoint, {"offset": 30}) == ("RUN_LEASE_LOST", "taken_over")
    now += timedelta(seconds=59)
    holder.renew()
    holder.save_checkpoint({"offset": 40})
    record = holder.complete({"rows": 40})

    assert store.get("run").record == one.get("run") == record
    assert fold(None, map(JsonCodec().open, store.read("run/run"))) == record
    assert [len(events) for events in store.streams.values()] == [11, 1]
    print("ledger")


def check_alone() -> None:
    """Whatever was loaded came from the standard library, from pydantic, or is the domain."""
    ours = {name for name in sys.modules if name.startswith("runjournal.")}
    assert all(name.startswith("runjournal.domain") for name in ours), ours
    allowed = {*sys.stdlib_module_names, *INSTALLED, "runjournal", "__main__"}
    # _sysconfigdata is the standard library's, under a name that differs between platforms.
    loaded = {name.partition(".")[0] for name in sys.modules}
    foreign = {n for n in loaded - allowed if not n.startswith("_sysconfigdata")}
    assert not foreign, foreign
    print("alone")


if __name__ == "__main__":
    live_by_decide_and_evolve()
    live_through_a_ledger()
    check_alone()
