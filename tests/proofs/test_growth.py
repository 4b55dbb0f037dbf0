"""A long history costs no more than a short one."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from statistics import median

from runjournal import Journal, RunLeaseHandle, RunLedger, open_journal
from runjournal.adapters.contract.scribe import contract_codec
from runjournal.domain.events import CheckpointSaved, run_stream
from runjournal.domain.ports import Change, Guard
from runjournal.domain.run import evolve

LONG, SHORT = 50_000 if os.environ.get("RUNJOURNAL_PROVE") else 15_000, 10
#: The most that the long run's median may cost, as a multiple of the short run's.
ALLOWED = 1.3
STATE = {"pad": "x" * 200}
#: Events in one append while the long run is made.
PAGE = 1000


def grow(journal: Journal, ledger: RunLedger, run_id: str, events: int) -> RunLeaseHandle:
    """A held run of so many events, nearly all of them checkpoints, written in few appends."""
    record = ledger.acquire(run_id, heartbeat=False).record
    codec = contract_codec()
    state = codec.encode(STATE, "state")
    while record.version < events - 1:  # the last event is the grant below
        before, sealed = record, []
        for version in range(before.version + 1, min(before.version + PAGE, events - 1) + 1):
            event = CheckpointSaved(
                originator_id=run_stream(run_id),
                originator_version=version,
                timestamp=before.updated_at,
                command_id=f"{run_id}-{version}",
                key="latest",
                snapshot_version=1,
                state=state,
                digest=state.digest,
                size=state.size,
            )
            sealed.append(codec.seal(event, record.head))
            record = evolve(record, event, sealed[-1].hash)
        change = Change(run_stream(run_id), before.version, tuple(sealed), record)
        assert journal.store.append([change], Guard(record.fencing_token, "live"))
    return ledger.acquire(run_id, heartbeat=False)


@contextmanager
def unhindered() -> Iterator[None]:
    """No collection of garbage in the middle of a measurement."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


Operation = Callable[[RunLeaseHandle], object]


def operations(ledger: RunLedger) -> dict[str, Operation]:
    return {
        "get": lambda lease: ledger.get(lease.run_id),
        "checkpoint": lambda lease: lease.checkpoint,
        "save_checkpoint": lambda lease: lease.save_checkpoint(STATE),
        "acquire": lambda lease: ledger.acquire(lease.run_id, heartbeat=False),
    }


def ratio(act: Operation, long: RunLeaseHandle, short: list[RunLeaseHandle], times: int) -> float:
    """Median cost on the long run by the median cost on short ones, measured in turns."""
    spent: dict[str, list[float]] = {"long": [], "short": []}
    shorts = cycle(short)
    with unhindered():
        for number in range(times + 20):
            turns = [("long", long), ("short", next(shorts))]
            for name, lease in turns if number % 2 else reversed(turns):
                begin = time.perf_counter()
                act(lease)
                if number >= 20:  # the first ones warm up
                    spent[name].append(time.perf_counter() - begin)
    return median(spent["long"]) / median(spent["short"])


def test_a_long_history_costs_what_a_short_one_costs(
    journal_url: str, verify_run: Callable[[Journal, str], None]
) -> None:
    """Reading, acquiring and checkpointing: at most 1.3 times, each by itself."""
    # Flushes to disk cost the same for both and would hide the difference.
    faster = "?synchronous=normal" if journal_url.startswith("sqlite") else ""
    with open_journal(journal_url + faster) as journal:
        ledger = journal.ledger(lease_ttl=3600)
        long = grow(journal, ledger, "long", LONG)
        # Many short ones, so that measuring them hardly makes them longer.
        short = [grow(journal, ledger, f"short-{n}", SHORT) for n in range(40)]
        measured = {}
        for name, act in operations(ledger).items():
            # What else the machine does may spoil a measurement, but not each of four, nor by much.
            found = [ratio(act, long, short, 400)]
            while ALLOWED < found[-1] < 2 * ALLOWED and len(found) < 4:
                found.append(ratio(act, long, short, 400))
            measured[name] = min(found)
        print({name: round(value, 3) for name, value in measured.items()})
        assert version(journal, "long") >= LONG
        verify_run(journal, "long")
        assert all(version(journal, lease.run_id) < 5 * SHORT for lease in short)
    assert all(value <= ALLOWED for value in measured.values()), measured


def version(journal: Journal, run_id: str) -> int:
    record = journal.get(run_id)
    assert record is not None
    return record.version
