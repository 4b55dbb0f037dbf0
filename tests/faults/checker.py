"""Proves a journal from its stored events alone: no rule of the product is asked.

Its own reading of the tables, its own hashes, and its own idea of who held what. What it finds
wrong it says in words; a journal on which everything holds gives no finding.

    versions    contiguous in each stream; positions rise with them; every event is chained
    grants      tokens rise with each one, and one that takes over comes after the lease was over
    tenure      what a holder writes, it writes between its grant and the grant's end
    endings     one terminal event, and nothing after it
    outbox      one delivery for each end that somebody waits for, and for nothing else
    rows        records and outbox say what the events say
    acks        what some process was told is written, is there
    receivers   what counts as delivered was received, and nothing was sent without an attempt
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import psycopg

#: How much a lease's end may be off by, for times are kept in microseconds and ttls in seconds.
ROUNDING = timedelta(milliseconds=1)
ENDS = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}
_QUERIES = (
    "SELECT position, stream, version, topic, state FROM events ORDER BY stream, version",
    "SELECT run_id, status, version, fencing_token FROM runs",
    "SELECT invocation_id, run_id, status, version FROM delivery_outbox",
)


class Ack(NamedTuple):
    """What a process was told is written.

    topic    of the event at that version
    version  0: some event has this command's id
    says     what the event's fields must hold
    """

    run_id: str
    topic: str
    version: int = 0
    command_id: str | None = None
    says: dict[str, Any] | None = None


class Raw(NamedTuple):
    """The three tables as they are stored."""

    events: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    outbox: list[tuple[Any, ...]]


def read_raw(url: str) -> Raw:
    """Read the tables with the database's own driver."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            return Raw(*(file.execute(query).fetchall() for query in _QUERIES))
    with psycopg.connect(url) as conn:
        return Raw(*(conn.execute(query.encode()).fetchall() for query in _QUERIES))


@dataclass
class _Event:
    position: int
    version: int
    topic: str
    data: dict[str, Any]
    hash: str

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.data["timestamp"])


@dataclass
class _Tenure:
    """A grant and what was written under it; before `over_at` its lease surely was not over."""

    owner: str
    token: int
    ttl: float
    over_at: datetime
    nonce: str | None = None
    writes: int = 0


@dataclass
class _Run:
    """What the events of one run say, read one after the other."""

    run_id: str
    say: Any
    status: str = ""
    token: int = 0
    attempt: int = 1
    holder: _Tenure | None = None
    nonces: set[str] = field(default_factory=set)
    delivery_ref: str | None = None

    def read(self, event: _Event) -> None:
        if self.status in ENDS.values():
            self.say(f"{event.topic} comes after the end")
        name = event.topic.removeprefix("run.")
        if (name == "queued") != (event.version == 1):
            self.say(f"{event.topic} is at version {event.version}")
        if name in ("checkpoint_saved", "suspended", "lease_released", "completed"):
            self._written(event)
        getattr(self, f"_{name}")(event)

    def _written(self, event: _Event) -> None:
        """An event that only the holder writes: this holder's and nobody else's."""
        holder = self.holder
        if holder is None:
            self.say(f"{event.topic} at version {event.version}, and nobody holds the run")
            return
        nonce, _, number = str(event.data["command_id"]).rpartition("-")
        if holder.nonce is None and nonce in self.nonces:
            self.say(f"{event.topic} at version {event.version} is an earlier holder's")
        elif holder.nonce not in (None, nonce):
            self.say(f"{event.topic} at version {event.version} is another holder's")
        self.nonces.add(nonce)
        holder.nonce = nonce
        if int(number) <= holder.writes:
            self.say(f"write {number} of {holder.owner} comes after its write {holder.writes}")
        holder.writes = int(number)
        said = event.data.get("state") or event.data.get("result")
        if isinstance(said, dict) and (said["owner"], said["token"]) != (
            holder.owner,
            holder.token,
        ):
            self.say(f"{event.topic} by {said} in the tenure of {holder.owner} {holder.token}")

    def _queued(self, event: _Event) -> None:
        self.status = "queued"
        self.delivery_ref = event.data.get("delivery_ref")

    def _lease_granted(self, event: _Event) -> None:
        data, before = event.data, self.holder
        if data["fencing_token"] <= self.token:
            self.say(f"token {data['fencing_token']} is granted after {self.token}")
        if self.status == "suspended":
            self.say(f"granted at version {event.version} while suspended")
        took_over = data.get("took_over")
        wanted = before and {"owner": before.owner, "fencing_token": before.token}
        if took_over != wanted:
            self.say(f"the grant at version {event.version} took over {took_over}, not {wanted}")
        if before is not None and event.at < before.over_at - ROUNDING:
            self.say(f"{before.owner} was taken over before its lease was over")
        self.attempt += before is not None
        if data["attempt"] != self.attempt:
            self.say(f"attempt {data['attempt']} is the {self.attempt}th")
        self.status, self.token = "running", data["fencing_token"]
        over = event.at + timedelta(seconds=data["ttl"])
        self.holder = _Tenure(data["owner"], self.token, data["ttl"], over)

    def _checkpoint_saved(self, event: _Event) -> None:
        # It moves the deadline when less than half of the ttl is left.
        if self.holder is not None:
            least = event.at + timedelta(seconds=self.holder.ttl / 2)
            self.holder.over_at = max(self.holder.over_at, least)

    def _suspended(self, _event: _Event) -> None:
        self.status, self.holder = "suspended", None

    def _approval_decided(self, event: _Event) -> None:
        if self.status != "suspended":
            self.say(f"decided at version {event.version} while {self.status}")

    def _resume_requested(self, event: _Event) -> None:
        self._approval_decided(event)
        self.status = "queued"

    def _lease_released(self, _event: _Event) -> None:
        self.status, self.holder = "queued", None

    def _completed(self, _event: _Event) -> None:
        self.status, self.holder = "completed", None

    def _failed(self, event: _Event) -> None:
        self.status, self.holder, self.token = "failed", None, event.data["fencing_token"]

    def _cancelled(self, event: _Event) -> None:
        if event.data["fencing_token"] != self.token + 1:
            self.say(f"the cancel leaves token {event.data['fencing_token']} after {self.token}")
        self.status, self.holder, self.token = "cancelled", None, event.data["fencing_token"]


def check(raw: Raw, acks: Sequence[Ack] = (), received: Iterable[str] | None = None) -> list[str]:
    """Everything that does not hold, in words; acks that the journal lacks among it.

    received  the invocation ids that receivers noted, each as often as it came; None: not known
    """
    found: list[str] = []
    streams = _streams(raw, found)
    runs = {s.removeprefix("run/"): e for s, e in streams.items() if s.startswith("run/")}
    sent = {s.removeprefix("delivery/"): e for s, e in streams.items() if s.startswith("delivery/")}
    states = {run_id: _state(run_id, events, found) for run_id, events in runs.items()}
    stored = {run_id: tuple(row) for run_id, *row in raw.runs}
    said = {run: (s.status, runs[run][-1].version, s.token) for run, s in states.items()}
    found += [f"run {r}: its row says {stored.get(r)}, its events {said[r]}" for r in said
              if stored.get(r) != said[r]]  # fmt: skip
    found += [f"run {r}: a row without events" for r in stored.keys() - said.keys()]
    found += _outbox(raw, runs, states, sent)
    found += [f"acknowledged and not there: {ack}" for ack in acks if not _is_there(ack, runs)]
    if received is not None:
        found += _received(sent, Counter(received))
    return found


def _streams(raw: Raw, found: list[str]) -> dict[str, list[_Event]]:
    """The events by stream, their versions, positions, hashes and times compared."""
    streams: dict[str, list[_Event]] = defaultdict(list)
    heads: dict[str, str] = defaultdict(lambda: "0" * 64)
    for position, stream, version, topic, state in raw.events:
        data = json.loads(bytes(state))
        if data["prev_hash"] != heads[stream]:
            found.append(f"{stream}: version {version} is not chained to the one before it")
        head = f"{heads[stream]}\0{stream}\0{version}\0{topic}\0".encode() + bytes(state)
        heads[stream] = sha256(head).hexdigest()
        event = _Event(position, version, topic, data, heads[stream])
        before = streams[stream][-1:]
        if version != len(streams[stream]) + 1:
            found.append(f"{stream}: version {version} comes {len(streams[stream]) + 1}th")
        if any(b.position >= position or b.at > event.at for b in before):
            found.append(f"{stream}: version {version} has an earlier place or time")
        streams[stream].append(event)
    if len({row[0] for row in raw.events}) != len(raw.events):
        found.append("a position was handed out twice")
    return streams


def _state(run_id: str, events: list[_Event], found: list[str]) -> _Run:
    state = _Run(run_id, lambda text: found.append(f"run {run_id}: {text}"))
    for event in events:
        state.read(event)
    return state


def _outbox(
    raw: Raw,
    runs: dict[str, list[_Event]],
    states: dict[str, _Run],
    sent: dict[str, list[_Event]],
) -> list[str]:
    found: list[str] = []
    rows = {invocation_id: tuple(row) for invocation_id, *row in raw.outbox}
    requested: Counter[str] = Counter()
    for invocation_id, events in sent.items():
        first = events[0].data
        run_id = first.get("run_id", "")
        requested[run_id] += 1
        end = runs[run_id][-1] if run_id in runs else None
        asked = (first.get("terminal_version"), first.get("terminal_hash"))
        if end is None or end.topic not in ENDS or asked != (end.version, end.hash):
            found.append(f"delivery {invocation_id} names no end of run {run_id}")
        status = _attempts(invocation_id, events, found)
        if rows.get(invocation_id) != (run_id, status, events[-1].version):
            found.append(f"delivery {invocation_id} is {status}, its row {rows.get(invocation_id)}")
    for run_id, state in states.items():
        wanted = int(state.delivery_ref is not None and state.status in ENDS.values())
        if requested[run_id] != wanted:
            found.append(f"run {run_id}: {requested[run_id]} deliveries, not {wanted}")
    return found + [f"delivery {i} has a row and no event" for i in rows.keys() - sent.keys()]


def _attempts(invocation_id: str, events: list[_Event], found: list[str]) -> str:
    """Requested, then attempts that each end before the next; the status after them.

    That it arrived may also be said of an attempt that was given up meanwhile: it is true.
    """
    status, trying, attempts = "pending", False, 0
    for event in events[1:]:
        name = event.topic.removeprefix("delivery.")
        number = event.data["attempt"]
        attempts += name == "attempted"
        in_turn = {
            "attempted": not trying and number == attempts,
            "unknown": trying and number == attempts,
            "succeeded": 1 <= number <= attempts,
        }
        if status == "delivered" or not in_turn.get(name, False):
            found.append(
                f"delivery {invocation_id}: {name} of attempt {number} at version {event.version},"
                f" after {attempts} attempts, while {status}"
            )
        trying = name == "attempted"
        status = {"succeeded": "delivered", "unknown": "unknown"}.get(name, status)
    return status


def _is_there(ack: Ack, runs: dict[str, list[_Event]]) -> bool:
    events = runs.get(ack.run_id, [])
    if ack.version:
        events = events[ack.version - 1 : ack.version]
    return any(
        event.topic == ack.topic
        and (ack.command_id is None or event.data.get("command_id") == ack.command_id)
        and all(event.data.get(key) == value for key, value in (ack.says or {}).items())
        for event in events
    )


def _received(sent: dict[str, list[_Event]], received: Counter[str]) -> list[str]:
    found: list[str] = []
    for invocation_id, events in sent.items():
        topics = Counter(event.topic for event in events)
        if topics["delivery.succeeded"] and not received[invocation_id]:
            found.append(f"delivery {invocation_id} succeeded, and nobody received it")
        if received[invocation_id] > topics["delivery.attempted"]:
            found.append(f"delivery {invocation_id} was received more often than attempted")
    return found + [f"{i} was received, and is no delivery" for i in received.keys() - sent.keys()]
