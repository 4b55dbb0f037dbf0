"""`stats` and `doctor` on the command line: what they print, and what they exit with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from runjournal import Journal


def test_stats_for_people_programs_and_prometheus(cli: Any, journal: Journal) -> None:
    journal.ledger().start("run", kind="report")
    lines = cli("stats").splitlines()
    assert lines[0].split() == ["WHAT", "COUNT", "OLDEST"]
    assert lines[1].split() == ["report:", "queued", "1"]
    document = cli.json("stats")
    assert document["runs"] == [{"kind": "report", "status": "queued", "count": 1}]
    assert document["ready"] == 1
    assert document["oldestReadyAge"] >= 0
    (runs, *_) = text_string_to_metric_families(cli("stats", "--prometheus"))
    assert runs.samples[0].labels == {"kind": "report", "status": "queued"}


def test_a_fresh_deployment_passes(cli: Any, journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "backup.db").touch()
    args = ("doctor", "--backup", "backup.db", "--retention", "30d", "--require", "cross-process")
    lines = cli(*args, "--strict").splitlines()
    assert all(line.startswith("pass  ") for line in lines)
    assert len(lines) > 12
    assert cli.json(*args)["verdict"] == "pass"


def test_what_is_not_told_is_a_warning_and_strict_counts_it(cli: Any, journal: Journal) -> None:
    warned = [line for line in cli("doctor").splitlines() if not line.startswith("pass")]
    assert warned == [
        "warn  backup: nothing is known of a backup -> give --backup FILE|TIME",
        "warn  retention: no retention is told -> give --retention, such as 30d",
    ]
    assert cli.json("doctor")["verdict"] == "warn"


def test_a_failure_decides_the_exit_code(cli: Any, journal: Journal, run_cli: Any) -> None:
    journal.ledger().start("run")
    journal.store.set_aside("run", "cannot be read")
    code, out = run_cli("doctor")
    assert code == 9
    assert "fail  set_aside: 1 set aside: run -> cannot be read; see runjournal verify" in out
    code, out = run_cli("doctor", "--backup", "nowhere.db")
    assert code == 9
    assert "fail  backup: there is no backup at nowhere.db" in out


def test_strict(run_cli: Any, journal: Journal) -> None:
    assert run_cli("doctor")[0] == 0
    assert run_cli("doctor", "--strict")[0] == 9


def test_nothing_is_created_or_migrated(run_cli: Any, tmp_path: Path) -> None:
    code, out = run_cli("doctor")
    assert code == 9
    assert out == "fail  schema: runjournal.db: there is no journal -> runjournal migrate\n"
    assert list(tmp_path.iterdir()) == []


def test_an_older_schema_is_told_and_left(run_cli: Any, journal: Journal) -> None:
    journal.close()
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect("runjournal.db")) as conn:
        conn.execute("PRAGMA user_version = 2")
    code, out = run_cli("doctor")
    assert code == 9
    assert out == "fail  schema: runjournal.db: version 2 is too old -> runjournal migrate\n"
    with closing(sqlite3.connect("runjournal.db")) as conn:
        assert conn.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_file_says_what_is_expected(run_cli: Any, journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "doctor.toml").write_text('backup = "none.db"\nretention = "1d"\n')
    code, out = run_cli("doctor", "--config", "doctor.toml")
    assert code == 9
    assert "pass  retention" in out
    assert "there is no backup at none.db" in out


def test_bad_input_is_refused(cli: Any, journal: Journal) -> None:
    assert "is no duration" in cli("doctor", "--retention", "long", code=2)
    assert "cannot be read" in cli("doctor", "--config", "nowhere.toml", code=2)
    assert "no journal address" in cli("--db", "mysql://me:secret@db", "doctor", code=2)
