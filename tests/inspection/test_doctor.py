"""Each check of the doctor, passing and failing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.adapters.doctor import checks
from runjournal.adapters.doctor.checks import Deployment, run_checks
from runjournal.adapters.doctor.expectations import Expectations, expectations
from runjournal.adapters.durations import age_of, seconds_of
from runjournal.adapters.sqlite import inspection
from runjournal.projections.inspection import Check

from ..projecting.projectors import Seen

SQLITE = pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
POSTGRES = pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
DAY = 86_400.0


def look(journal: Journal, name: str, **expected: Any) -> Check:
    """What the check of this name finds."""
    found = run_checks(Deployment(journal, Expectations(**expected)))
    (check,) = [check for check in found if check.name == name]
    assert bool(check.fix) == (check.verdict != "pass")
    return check


def aged(journal: Journal, seconds: float) -> Any:
    """A ledger whose clock is behind, so that what it writes is old."""
    clock = SteppedClock()
    clock.now = journal.store.now() - timedelta(seconds=seconds)
    return journal.ledger("host", lease_ttl=60, clock=clock)


def test_a_fresh_journal_has_nothing_that_fails(journal: Journal, tmp_path: Path) -> None:
    found = list(run_checks(Deployment(journal, Expectations())))
    # The tests' own server flushes nothing, and the doctor says so.
    assert {check.name for check in found if check.verdict == "fail"} <= {"fsync"}
    assert len({check.name for check in found}) == len(found) >= 10
    for check in found:
        assert "\n" not in check.message + check.fix


# What every backend has.


def test_the_clocks(journal: Journal) -> None:
    assert look(journal, "clock").verdict == "pass"
    for ahead, verdict in ((10, "warn"), (-10, "warn"), (150, "fail")):
        clock = lambda ahead=ahead: journal.store.get("-").now + timedelta(seconds=ahead)  # noqa: E731
        check = checks.clock(Deployment(journal, Expectations(), clock))
        assert check.verdict == verdict
    assert "2 m apart" in check.message


def test_atomicity(journal: Journal, journal_url: str) -> None:
    assert look(journal, "atomicity").verdict == "pass"
    check = look(journal, "atomicity", require="cross-process")
    assert check.verdict == ("fail" if journal_url == "memory:" else "pass")


@SQLITE
def test_backups(journal: Journal, tmp_path: Path) -> None:
    assert look(journal, "backup").verdict == "warn"
    folder = tmp_path / "backups"
    folder.mkdir()
    assert look(journal, "backup", backup=str(folder)).verdict == "fail"
    file = folder / "monday.db"
    assert look(journal, "backup", backup=str(file)).verdict == "fail"
    file.touch()
    for told in (file, folder):
        assert look(journal, "backup", backup=str(told)).verdict == "pass"
        assert look(journal, "backup", backup=str(told), backup_max_age=0).verdict == "fail"
    old = journal.store.now().timestamp() - 2 * DAY
    os.utime(file, (old, old))
    check = look(journal, "backup", backup=str(folder))
    assert check.verdict == "fail"
    assert "2 d old" in check.message
    assert look(journal, "backup", backup=str(folder), backup_max_age="3d").verdict == "pass"
    stamp = (journal.store.now() - timedelta(hours=3)).isoformat()
    assert look(journal, "backup", backup=stamp).verdict == "pass"
    assert look(journal, "backup", backup=stamp, backup_max_age="2h").verdict == "fail"


def test_retention(journal: Journal) -> None:
    aged(journal, 3 * DAY).start("still here")
    aged(journal, 2 * DAY).acquire("old", heartbeat=False).complete()
    aged(journal, DAY / 2).acquire("young", heartbeat=False).complete()
    assert look(journal, "retention").verdict == "warn"
    check = look(journal, "retention", retention="1d")
    assert check.verdict == "warn"
    assert "2 d ago" in check.message
    assert look(journal, "retention", retention="2.5d").verdict == "pass"


def test_undelivered(journal: Journal) -> None:
    assert look(journal, "undelivered").verdict == "pass"
    ledger = aged(journal, 7200)
    ledger.start("run", delivery_ref="inbox")
    ledger.acquire("run", heartbeat=False).complete()
    check = look(journal, "undelivered")
    assert check.verdict == "warn"
    assert "2 h old" in check.message
    assert look(journal, "undelivered", undelivered="3h").verdict == "pass"
    ledger = aged(journal, 2 * DAY)
    ledger.start("older", delivery_ref="inbox")
    ledger.acquire("older", heartbeat=False).complete()
    assert look(journal, "undelivered").verdict == "fail"


def test_a_delivery_that_waits_for_a_decision_is_a_warning(journal: Journal) -> None:
    from runjournal import CallableGateway, DeliveryRefused, DeliveryService

    def refuse(_request: object) -> None:
        raise DeliveryRefused("no")

    journal.ledger().start("run", delivery_ref="inbox")
    journal.ledger().acquire("run").complete()
    assert look(journal, "undelivered").verdict == "pass"
    DeliveryService(journal, {"*": CallableGateway(refuse)}).deliver_due()
    check = look(journal, "undelivered")
    assert check.verdict == "warn"
    assert "1 wait for a decision" in check.message


def test_abandoned(journal: Journal) -> None:
    journal.ledger().acquire("held")
    assert look(journal, "abandoned").verdict == "pass"
    aged(journal, 120).acquire("just now", heartbeat=False)
    assert look(journal, "abandoned").verdict == "pass"
    assert look(journal, "abandoned", abandoned="10s").verdict == "warn"
    aged(journal, 900).acquire("a while ago", heartbeat=False)
    check = look(journal, "abandoned")
    assert check.verdict == "warn"
    assert check.message.startswith("2 leases have expired, the first 14 m ago")
    aged(journal, 2 * 3600).acquire("long ago", heartbeat=False)
    assert look(journal, "abandoned").verdict == "fail"


def test_set_aside(journal: Journal) -> None:
    for n in range(5):
        journal.ledger().start(f"run-{n}")
    assert look(journal, "set_aside").verdict == "pass"
    for n in range(5):
        journal.store.set_aside(f"run-{n}", "cannot be read")
    check = look(journal, "set_aside")
    assert check.verdict == "fail"
    assert check.message == "5 set aside: run-0, run-1, run-2 and 2 more"
    assert check.fix.startswith("cannot be read")


def test_projections(journal: Journal) -> None:
    assert look(journal, "projections").verdict == "pass"
    for n in range(3):
        journal.ledger().start(f"run-{n}")
    journal.projection(Seen()).catch_up(limit=1)
    assert look(journal, "projections").verdict == "pass"
    check = look(journal, "projections", lag=1)
    assert check.verdict == "warn"
    assert "seen (2)" in check.message

    def fail(_event: object) -> None:
        raise ValueError

    with pytest.raises(RunStoreError):
        journal.projection(Seen("odd", before=fail)).catch_up()
    check = look(journal, "projections")
    assert (check.verdict, check.message) == ("fail", "parked at an event: odd")


def test_growth_counts_the_events_of_the_last_day(journal: Journal) -> None:
    for n in range(7):
        aged(journal, (10 - n) * DAY).start(f"old-{n}")
    assert look(journal, "growth").message.startswith("about 0 events and ")
    for n in range(5):
        aged(journal, DAY / 2 - n).start(f"young-{n}")
    check = look(journal, "growth")
    assert check.verdict == "pass"
    assert check.message.startswith("about 5 events and ")


@SQLITE
@pytest.mark.parametrize(("days", "verdict"), [(100, "pass"), (20, "warn"), (1, "fail")])
def test_growth_needs_room(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, days: int, verdict: str
) -> None:
    journal.ledger().start("run")  # all of it in the last day
    size = journal.stats().size_bytes
    monkeypatch.setattr(checks, "_room", lambda _store: size * days)
    check = look(journal, "growth")
    assert check.verdict == verdict
    assert f"room for {days} days more" in check.message


@SQLITE
def test_room_is_that_of_the_disk(journal: Journal) -> None:
    room = checks._room(journal.store)
    assert room is not None
    assert room > 1 << 20


def test_gateways(journal: Journal, tmp_path: Path) -> None:
    file = tmp_path / "gateways.toml"
    file.write_text('[gateways.inbox]\ntype = "jsonl"\npath = "out.jsonl"\n')
    assert look(journal, "gateways").verdict == "pass"
    assert look(journal, "gateways", gateways=str(file)).verdict == "pass"
    for ref in ("inbox", "elsewhere"):
        journal.ledger().start(ref, delivery_ref=ref)
        journal.ledger().acquire(ref).complete()
    assert look(journal, "gateways").verdict == "warn"
    check = look(journal, "gateways", gateways=str(file))
    assert check.verdict == "fail"
    assert "no gateway for elsewhere," in check.message
    file.write_text('[gateways."*"]\ntype = "jsonl"\npath = "out.jsonl"\n')
    assert look(journal, "gateways", gateways=str(file)).verdict == "pass"
    file.write_text("not TOML")
    assert look(journal, "gateways", gateways=str(file)).verdict == "fail"


def test_a_check_that_stumbles_hides_no_other(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: object) -> None:
        raise RunStoreError("RUN_STORE_UNAVAILABLE", "failed", "postgresql://me:secret@db is gone")

    monkeypatch.setattr(journal.store, "undelivered_refs", away)
    found = list(run_checks(Deployment(journal, Expectations())))
    assert found[-1].verdict == "fail"
    assert "RUN_STORE_UNAVAILABLE/failed" in found[-1].message
    assert "secret" not in found[-1].message
    assert {"clock", "growth"} <= {check.name for check in found}


# SQLite.


@SQLITE
def test_the_journal_mode(journal: Journal, journal_url: str) -> None:
    assert look(journal, "journal_mode").verdict == "pass"
    copy = journal_url.removeprefix("sqlite:///") + ".copy"
    database: Any = journal.store.database  # type: ignore[attr-defined]
    with database.reading() as conn:
        conn.execute("VACUUM INTO ?", (copy,))
    # A file in use cannot be switched, and opening one switches it: so this looks at another.
    with closing(sqlite3.connect(copy)) as conn:
        used = list(database._readers)
        database._readers.clear()
        database._readers.append(conn)
        assert look(journal, "journal_mode").verdict == "fail"
        database._readers.clear()
    database._readers.extend(used)


@SQLITE
def test_synchronous(journal: Journal, journal_url: str) -> None:
    assert look(journal, "synchronous").verdict == "pass"
    with open_journal(f"{journal_url}?synchronous=normal") as fast:
        check = look(fast, "synchronous")
    assert (check.verdict, check.message[:21]) == ("warn", "synchronous is NORMAL")


@SQLITE
def test_a_network_file_system(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(inspection, "MOUNTS", mounts)
    point = str(tmp_path.resolve()).replace(" ", "\\040")
    local = "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda rw\n"
    for kind, verdict in (("xfs", "pass"), ("nfs4", "fail"), ("cifs", "fail")):
        mounts.write_text(f"{local}2 1 0:50 / {point} rw - {kind} server:/export rw\n{local}")
        check = look(journal, "file_system")
        assert (check.verdict, check.message.split(":")[0]) == (verdict, f"the file is on {kind}")
    mounts.write_text(f"{local}2 1 0:50 / {point}/elsewhere rw - nfs4 server:/export rw\n")
    assert look(journal, "file_system").verdict == "pass"
    mounts.unlink()  # another system than Linux
    names = [check.name for check in run_checks(Deployment(journal, Expectations()))]
    assert "file_system" not in names
    assert "indexes" in names


@pytest.mark.parametrize("journal_url", ["sqlite", "postgres"], indirect=True)
def test_a_missing_index(journal: Journal, journal_url: str) -> None:
    assert look(journal, "indexes").verdict == "pass"
    execute(journal_url, "DROP INDEX runs_ready")
    execute(journal_url, "DROP INDEX delivery_outbox_attention")
    check = look(journal, "indexes")
    assert check.verdict == "fail"
    assert "runs_ready, delivery_outbox_attention" in check.message
    assert journal.ledger().claim() is None  # it works, but by looking at every run
    for statement in check.fix.split(";"):
        if statement.strip():
            execute(journal_url, statement)
    assert look(journal, "indexes").verdict == "pass"


def execute(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn, conn:
            conn.execute(statement)
    else:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(statement.encode())


# Memory.


@pytest.mark.parametrize("journal_url", ["memory"], indirect=True)
def test_memory_does_not_last(journal: Journal) -> None:
    assert look(journal, "durability").verdict == "warn"


# Postgres.


@POSTGRES
def test_the_settings_of_a_server(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = journal.store
    row = list(store.database.read(inspection_of("SERVER"))[0])
    read = store.database.read
    names = ("fsync", "full_page_writes", "synchronous_commit", "primary")
    good, bad = ("on", "on", "on", False), ("off", "off", "off", True)
    assert len(row) == len(good)
    for place, name in enumerate(names):
        for value, verdict in ((good[place], "pass"), (bad[place], "fail")):
            told = [*good[:place], value, *good[place + 1 :]]

            def answer(statement: Any, *values: Any, told: Any = told) -> Any:
                server = statement is inspection_of("SERVER")
                return [tuple(told)] if server else read(statement, *values)

            monkeypatch.setattr(store.database, "read", answer)
            assert look(journal, name).verdict == verdict
            monkeypatch.undo()


def inspection_of(name: str) -> Any:
    from runjournal.adapters.postgres import inspection_statements

    return getattr(inspection_statements, name)


@POSTGRES
def test_synchronous_commit_is_that_of_the_connection(journal: Journal, journal_url: str) -> None:
    assert look(journal, "synchronous_commit").verdict == "pass"
    separator = "&" if "?" in journal_url else "?"
    off = f"{journal_url}{separator}options=-c%20synchronous_commit%3Doff"
    with open_journal(off) as careless:
        assert look(careless, "synchronous_commit").verdict == "fail"


@POSTGRES
def test_a_pooler_that_is_not_there(journal: Journal, journal_url: str) -> None:
    assert look(journal, "pooler").verdict == "pass"
    with open_journal(journal_url, pooler=True) as told:
        assert look(told, "pooler").verdict == "warn"


# What is expected.


def test_durations() -> None:
    for text, seconds in (("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), ("30d", 30 * DAY)):
        assert seconds_of(text) == seconds
    assert seconds_of(" 1w ") == 7 * DAY
    for text in ("", "d", "-1d", "1 day", "1y", "1e3"):
        with pytest.raises(ValueError, match="is no duration"):
            seconds_of(text)
    assert [age_of(s) for s in (0, 90, 150, 7200, 3 * DAY)] == ["0 s", "90 s", "2 m", "2 h", "3 d"]


def test_options_come_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "doctor.toml"
    file.write_text(
        'require = "cross-process"\nretention = "30d"\nlag = 5\n'
        'gateways = "gateways.toml"\nbackup = "2026-01-01T00:00:00Z"\n'
    )
    found = expectations(str(file), {"retention": "7d", "lag": None})
    assert (found.require, found.retention, found.lag) == ("cross-process", 7 * DAY, 5)
    assert found.gateways == str(tmp_path / "gateways.toml")
    assert found.backup == "2026-01-01T00:00:00Z"
    assert expectations(None, {}) == Expectations()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("retention = 'long'", "is no duration"),
        ("retain = 1", "retain"),
        ("require = 'much'", "require"),
        ("lag = 'x'", "lag"),
        ("not TOML", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "doctor.toml"
    file.write_text(text)
    with pytest.raises(RunStoreError, match=said) as caught:
        expectations(str(file), {})
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")
