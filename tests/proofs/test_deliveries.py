"""Deliveries arrive: through a receiver that fails in every way, and senders that are killed."""

from __future__ import annotations

import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import DeliveryPolicy, DeliveryService, Journal
from runjournal.adapters.gateways.webhook import WebhookGateway
from runjournal.domain.events import run_stream

from ..receivers import end_run, happened, row
from .sink import Mood, Sink

PROCESS = Path(__file__).with_name("delivering_process.py")
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
RUNS = 204 if PROVE else 60
KILLS = 50 if PROVE else 4
#: Seconds that a killed sender's attempt lasts.
TTL = 0.5
SECRET = "s3cret-of-the-webhook-4711"

Start = Callable[..., "subprocess.Popen[str]"]
Until = Callable[[Callable[[], Any]], None]
Verify = Callable[[Journal, str], None]


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink()
    yield sink
    sink.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def journal_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


def ends(journal: Journal) -> dict[str, tuple[Any, list[Any]]]:
    """Each run's record and events."""
    return {
        run.run_id: (run, list(journal.store.read(run_stream(run.run_id))))
        for run in journal.runs(limit=1000)
    }


@pytest.mark.slow
def test_every_result_arrives_whatever_the_receiver_does(
    journal: Journal, sink: Sink, wait_until: Until, verify_run: Verify
) -> None:
    """Runs end all the while; the receiver goes through its moods, and is fine in the end."""
    gateway = WebhookGateway(
        f"http://127.0.0.1:{sink.port}/in", secret="whsec", timeout=0.3, allow_private=True
    )
    policy = DeliveryPolicy(first_pause=0.05, longest_pause=0.3, retry_ambiguous=True)
    service = DeliveryService(journal, {"*": gateway}, policy, attempt_ttl=5, concurrency=8)
    interrupt = threading.Event()
    loop = threading.Thread(target=service.run, args=(interrupt,), kwargs={"poll": 0.05})
    loop.start()
    moods: list[Mood] = ["down", "slow", "failing", "cut", "late", "fine"]
    ids: list[str] = []
    before: dict[str, tuple[Any, list[Any]]] = {}
    try:
        for mood in moods:
            sink.mood = mood
            if mood == "slow":
                sink.start()
            mine = [
                end_run(journal, f"{mood}-{n}", result={"mood": mood, "n": n})
                for n in range(RUNS // len(moods))
            ]
            ids += mine
            # Some of them meet the receiver in this mood.
            wait_until(lambda mine=mine: sum(row(journal, i).attempts > 0 for i in mine) >= 4)
        before = ends(journal)
        wait_until(lambda: len(journal.deliveries(status="delivered", limit=1000)) == len(ids))
    finally:
        interrupt.set()
        loop.join(30)
    assert set(sink.got) == set(ids), "every invocation id is in the receiver's log, and no other"
    assert sink.changed == [], "what is sent again is the same, byte for byte"
    assert ends(journal) == before, "sending never touches a run"
    for run_id in before:
        verify_run(journal, run_id)
    # What came twice was unknown in between; what was cut off or late did come twice.
    twice = [i for i, times in sink.asked.items() if times > 1]
    assert twice
    for invocation_id in ids:
        assert_each_attempt_ended(journal, invocation_id)
    attempts = {i: row(journal, i).attempts for i in ids}
    assert all(sink.asked[i] <= attempts[i] for i in ids)
    print(f"{len(ids)} delivered in {sum(attempts.values())} attempts, {len(twice)} came twice")


def assert_each_attempt_ended(journal: Journal, invocation_id: str) -> None:
    """Requested; then each attempt with its end, and only the last one succeeded."""
    topics = happened(journal, invocation_id)
    tried = (len(topics) - 1) // 2
    expected = ["attempted", "unknown"] * (tried - 1) + ["attempted", "succeeded"]
    assert topics == ["requested", *expected]


def stored_bytes(url: str) -> bytes:
    """All that the journal's database holds."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        return b"".join(f.read_bytes() for f in path.parent.glob(f"{path.name}*"))
    with psycopg.connect(url) as conn:
        tables = ("events", "runs", "delivery_outbox", "tracking", "snapshots")
        rows = [conn.execute(f"SELECT t::text, t.* FROM {t} t".encode()).fetchall() for t in tables]
    return repr(rows).encode()


@pytest.mark.slow
def test_senders_killed_between_claim_and_report(
    journal: Journal, journal_url: str, sink: Sink, start_script: Start, wait_until: Until
) -> None:
    """Nothing is lost; what was sent twice has one id, and was unknown between the two."""
    sink.start()
    ids = [end_run(journal, f"run-{n}") for n in range(KILLS)]
    sent: Counter[str] = Counter()
    logs = ""

    def start(spot: str, number: int) -> subprocess.Popen[str]:
        return start_script(PROCESS, journal_url, sink.port, SECRET, f"sender-{number}", TTL, spot)

    for number in range(KILLS):
        spot = "claimed" if number % 2 else "sent"
        process = start(spot, number)
        assert process.stdout is not None
        invocation_id = process.stdout.readline().strip()
        process.kill()
        logs += process.communicate()[1]
        assert happened(journal, invocation_id)[-1] == "attempted", logs
        sent[invocation_id] += spot == "sent"
    assert sink.got.total() == sent.total() == KILLS // 2
    # The last one is not killed, and has something to complain of.
    sink.mood = "failing"
    last = start("none", KILLS)
    wait_until(lambda: any("answered 500" in (row(journal, i).error or "") for i in ids))
    sink.mood = "fine"
    wait_until(lambda: len(journal.deliveries(status="delivered", limit=1000)) == len(ids))
    logs += last.communicate("")[1]
    for invocation_id in ids:
        # Once for each time that its sender was killed after it had been sent, and once more.
        assert sink.got[invocation_id] == sent[invocation_id] + 1
        assert_each_attempt_ended(journal, invocation_id)
    assert set(sink.got) == set(ids)
    assert sink.changed == []
    # The secret is the webhook's alone: it is in no byte of the database, and in no line of a log.
    assert "127.0.0.1 answered 500" in logs
    assert SECRET not in logs
    held = stored_bytes(journal_url)
    assert b"127.0.0.1 answered 500" in held
    assert SECRET.encode() not in held


def test_two_processes_send_nothing_twice(
    journal: Journal, journal_url: str, sink: Sink, start_script: Start, wait_until: Until
) -> None:
    """Both are there before there is anything to send, and both want all of it."""
    sink.start()
    senders = [
        start_script(PROCESS, journal_url, sink.port, SECRET, f"sender-{n}", 60, "none")
        for n in range(2)
    ]
    for sender in senders:
        assert sender.stdout is not None
        assert sender.stdout.readline() == "ready\n"
    ids = [end_run(journal, f"run-{n}") for n in range(60)]
    wait_until(lambda: len(journal.deliveries(status="delivered", limit=1000)) == len(ids))
    for sender in senders:
        assert "Traceback" not in sender.communicate("")[1]
        assert sender.returncode == 0
    assert sink.asked == dict.fromkeys(ids, 1)
    attempts: list[Any] = [list(journal.delivery_events(i))[1] for i in ids]
    assert {a.owner for a in attempts} == {"sender-0", "sender-1"}
    for invocation_id in ids:
        assert happened(journal, invocation_id) == ["requested", "attempted", "succeeded"]
