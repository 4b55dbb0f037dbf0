"""The demo: its job, its proof, and the whole of it with two real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from runjournal import open_journal
from runjournal.adapters.cli.main import app
from runjournal.adapters.demo import index, takeover
from runjournal.adapters.demo.index import (
    BATCHES,
    OTHERS,
    SUFFIXES,
    Listing,
    Summary,
    combine,
    compare,
    list_files,
    summarize,
)
from typer.testing import CliRunner

Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for i in range(50):
        folder = root / f"folder {i % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file-{i}.{'py' if i % 2 else 'txt'}").write_bytes(b"line\n" * i + b"last")
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "x.txt").write_text("compiled")
    (root / "x.pyc").write_text("compiled")
    (root / "binary").write_bytes(b"\0\n\n\n")
    (root / "empty").write_bytes(b"")
    (root / "link").symlink_to(root)
    os.mkfifo(root / "pipe")
    return root


def index_all(listing: Listing) -> list[Summary]:
    return [summarize(listing.root, batch) for batch in listing.batches]


def test_the_list_has_the_regular_files_in_order(tree: Path) -> None:
    paths = [e.path for e in list_files(tree).entries]
    assert len(paths) == 52
    assert paths == sorted(paths)
    assert not any("pycache" in p or p.endswith("pyc") or p in ("link", "pipe") for p in paths)
    assert [e.path for e in list_files(tree, 3).entries] == paths[:3]


def test_the_index_counts_lines_by_suffix(tree: Path) -> None:
    total = combine(index_all(list_files(tree)))
    expected = {
        ".py": sum(i + 1 for i in range(50) if i % 2),
        ".txt": sum(i + 1 for i in range(50) if not i % 2),
        "(none)": 0,
    }
    assert total.lines == expected
    assert (total.files, total.skipped) == (52, 0)
    assert total.bytes == sum(5 * i + 4 for i in range(50)) + 4


@pytest.mark.parametrize("files", [1, 2, BATCHES - 1, BATCHES, BATCHES + 1, 1000])
def test_batches_hold_every_file_once(files: int) -> None:
    listing = Listing("/", tuple(index.Entry(str(i), 0, 0) for i in range(files)))
    assert [e for batch in listing.batches for e in batch] == list(listing.entries)
    assert 0 < len(listing.batches) <= BATCHES


def test_the_digest_covers_names_and_contents(tree: Path) -> None:
    listing = list_files(tree)
    before = combine(index_all(listing)).sha256
    assert combine(index_all(listing)).sha256 == before
    file = tree / listing.entries[0].path
    content = file.read_bytes()
    file.write_bytes(b"other")
    assert combine(index_all(listing)).sha256 != before
    file.write_bytes(content)
    assert combine(index_all(listing)).sha256 == before
    file.rename(file.with_name("renamed"))
    assert combine(index_all(list_files(tree))).sha256 != before


def test_odd_names_and_many_suffixes_stay_small(tmp_path: Path) -> None:
    for i in range(SUFFIXES + 10):
        (tmp_path / f"x.s{i}").write_text("line\n" * (i + 1))
    (tmp_path / os.fsdecode(b"name.\xff\xfe")).write_text("line\n" * 10_000)
    (tmp_path / ("x." + "y" * 100)).write_text("line\n")
    listing = list_files(tmp_path)
    digest = listing.save(tmp_path / "listing.json")
    assert Listing.load(tmp_path / "listing.json", digest) == listing
    summary = summarize(str(tmp_path), listing.entries)
    assert summary.lines[r".\udcff\udcfe"] == 10_000
    assert len(summary.lines) == SUFFIXES + 1
    assert sum(summary.lines.values()) == sum(range(SUFFIXES + 11)) + 10_001
    assert summary.lines[OTHERS] > 0
    json.dumps(summary.to_json()).encode()


def test_a_list_that_was_exchanged_is_refused(tree: Path, tmp_path: Path) -> None:
    digest = list_files(tree).save(tmp_path / "listing.json")
    list_files(tree, 5).save(tmp_path / "listing.json")
    with pytest.raises(ValueError, match="not the list"):
        Listing.load(tmp_path / "listing.json", digest)


def test_files_that_vanish_are_skipped(tree: Path) -> None:
    listing = list_files(tree)
    (tree / listing.entries[0].path).unlink()
    assert combine(index_all(listing)).skipped == 1


def tampered(summaries: Sequence[Summary]) -> Iterator[list[Summary]]:
    """The summaries with one thing wrong, one after the other."""
    for change in (
        {"sha256": "0" * 64},
        {"files": 99},
        {"bytes": 1},
        {"skipped": 1},
        {"lines": {".py": 1}},
    ):
        yield [*summaries[:3], replace(summaries[3], **change), *summaries[4:]]


def test_the_proof_can_fail(tree: Path) -> None:
    listing = list_files(tree)
    good = index_all(listing)
    assert compare(listing, good, index_all(listing)).proved
    for bad in tampered(good):
        for pair in ((bad, good), (good, bad)):
            comparison = compare(listing, *pair)
            assert not comparison.proved
            assert comparison.differing == (3,)
    for bad in (good[:-1], [*good, good[0]], []):
        assert not compare(listing, bad, good).proved
        assert not compare(listing, good, bad).proved


def test_a_file_changed_meanwhile_excuses_its_batch_alone(tree: Path) -> None:
    listing = list_files(tree)
    before = index_all(listing)
    changed = listing.batches[2][0].path
    (tree / changed).write_text("somebody else's work")
    comparison = compare(listing, before, index_all(listing))
    assert comparison.proved
    assert comparison.changed == (changed,)
    assert comparison.equal == len(before) - 1
    # It is no excuse for another batch, nor for a tree of which nothing is left to compare.
    assert not compare(listing, next(tampered(before)), index_all(listing)).proved
    for entry in listing.entries:
        (tree / entry.path).unlink()
    assert not compare(listing, before, index_all(listing)).proved


def test_the_whole_demo(spawn: Spawn, tree: Path, cli: Any) -> None:
    output, errors = spawn("--json", "demo", str(tree), "--keep", "kept.db").communicate()
    assert errors == ""
    result = json.loads(output)
    total = combine(index_all(list_files(tree)))
    batches = len(list_files(tree).batches)
    assert result["proof"] == {
        "proved": True,
        "equalBatches": batches,
        "differingBatches": [],
        "changedFiles": [],
    }
    assert (result["files"], result["sha256"]) == (52, total.sha256)
    assert result["linesBySuffix"] == total.lines
    first, second = result["holders"]
    assert (first["owner"], first["fencingToken"], first["attempt"]) == ("worker-1", 1, 1)
    assert (second["owner"], second["fencingToken"], second["attempt"]) == ("worker-2", 2, 2)
    assert (first["ended"], second["ended"]) == ("taken over", "completed")
    # The second went on from the last checkpoint: no batch was done twice, none was left out.
    assert first["checkpoints"] == batches // 2
    assert first["checkpoints"] + second["checkpoints"] == batches
    assert first["to"] == second["from"]
    assert (result["delivery"]["lines"], result["delivery"]["attempts"]) == (1, 1)
    assert Path(result["page"]).name == f"{result['runId']}.html"
    assert "verified</a>" in Path(result["page"]).read_text(encoding="utf-8")
    events = cli.lines("--db", "sqlite:///kept.db", "log", result["runId"])
    assert events[-1]["topic"] == "run.completed"
    takeovers = [e["took_over"] for e in events if e["topic"] == "run.lease_granted"]
    assert takeovers == [None, {"owner": "worker-1", "fencing_token": 1}]


def test_one_of_many_that_wait_gets_the_run(
    spawn: Spawn, tree: Path, cli: Any, postgres_url: str
) -> None:
    at = ("--db", postgres_url, "--schema", "demo's")
    output, errors = spawn("--json", *at, "demo", str(tree), "--workers", "4").communicate()
    assert errors == ""
    result = json.loads(output)
    assert result["proof"]["proved"]
    assert result["workers"] == ["worker-1", "worker-2", "worker-3", "worker-4"]
    first, second = result["holders"]
    assert (first["owner"], first["ended"]) == ("worker-1", "taken over")
    assert second["owner"] in result["workers"][1:]
    assert (second["fencingToken"], second["ended"]) == (2, "completed")
    assert [r["status"] for r in cli.json(*at, "list")] == ["completed"]


def test_demo_on_a_server_of_its_own(tree: Path, tmp_path: Path) -> None:
    command = ["-m", "runjournal.adapters.demo.embedded_postgres", "--workers", "4", str(tree)]
    ended = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "alone got the run." in ended.stdout
    assert "Proved: the result equals an uninterrupted run's." in ended.stdout
    # The server is gone, and its folder with it.
    assert list(tmp_path.glob("runjournal-*")) == []


def test_many_are_named(cli: Any, tree: Path) -> None:
    text = cli("demo", str(tree), "--files", "2", "--workers", "3")
    assert "worker-2 and worker-3 wait for its lease of 2 s" in text
    assert re.search(r"^Of 2 that waited, worker-[23] alone got the run\.$", text, re.MULTILINE)


def test_a_demo_for_people_leaves_no_database_behind(
    cli: Any, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the environment names one: that is somebody's real journal."""
    monkeypatch.setenv("RUNJOURNAL_DB", "sqlite:///real.db")
    text = cli("demo", str(tree), "--files", "1")
    assert "Proved: the result equals an uninterrupted run's." in text
    # What it does leave is the page to look at.
    page = Path(text.splitlines()[-1].removeprefix("To look at it: file://"))
    assert page.parent == tmp_path
    assert "1 takeover" in page.read_text(encoding="utf-8")
    assert "taken over from worker-1 (token 1)" in text
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".db"] == []


def test_a_demo_whose_proof_fails_exits_with_1(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(root: str, batch: Sequence[index.Entry]) -> Summary:
        return replace(summarize(root, batch), bytes=-1)

    # The workers are processes of their own and count rightly; the uninterrupted run does not.
    monkeypatch.setattr(takeover, "summarize", wrong)
    result = CliRunner().invoke(app, ["demo", str(tree), "--files", "3"])
    assert result.exit_code == 1
    assert "NOT proved: batches [0, 1, 2] differ." in result.stdout


def test_a_worker_process_that_ends_early_ends_the_demo(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover.sys, "executable", "/bin/false")
    with pytest.raises(takeover.DemoError, match="ended early, with code 1"):
        takeover.demonstrate(list_files(tree), takeover.Setting(), lambda _: None, lambda _: None)


def test_ctrl_c_takes_the_workers_along(
    spawn: Spawn, tree: Path, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    process = spawn("demo", str(tree), "--keep", "kept.db")
    assert process.stdout is not None
    line = ""
    while "worker-1 holds the run" not in line:
        line = process.stdout.readline()
        assert line
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (130, "")
    with open_journal("sqlite:///kept.db") as journal:
        (run,) = journal.runs()
        # Nobody renews the lease any more: another holder gets the run once it has expired.
        wait_until(lambda: journal.ledger().claim(kinds=[run.kind]))


def test_a_killed_demo_leaves_no_worker_behind(
    spawn: Spawn, tree: Path, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    process = spawn("demo", str(tree), "--keep", "kept.db")
    assert process.stdout is not None
    line = ""
    while "worker-1 holds the run" not in line:
        line = process.stdout.readline()
        assert line
    process.kill()
    process.communicate()
    with open_journal("sqlite:///kept.db") as journal:

        def nobody_works() -> bool:
            # Released by a worker that saw the demo die; or, when the demo had killed it already,
            # left to expire. A worker that lived on would renew its lease well before that.
            (run,) = journal.runs()
            return run.lease is None or run.lease.expires_at <= datetime.now(UTC)

        wait_until(nobody_works)
