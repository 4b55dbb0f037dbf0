"""docs/examples/checksum.py: killed in the middle, started again, and it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runjournal import open_journal


def test_it_survives_kill_9(folder: Path, launch: Callable, shell: Callable[[str], str]) -> None:
    for number in range(300):
        path = folder / "data" / str(number % 7) / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {number}")

    first = launch("python", "checksum.py", "killed", "data")
    lines = [first.stdout.readline() for _ in range(20)]
    first.kill()
    lines += first.stdout.readlines()
    assert first.wait() == -9
    assert lines[0] == "going on after nothing\n"

    again = shell("python checksum.py killed data").splitlines()
    reached = again[0].removeprefix("going on after ")
    # The last line of the killed one may be missing, or be of a checkpoint whose line is not out.
    assert reached >= lines[-2].strip() > "0"
    assert len(again) - 2 < 300 - 18

    once = shell("python checksum.py undisturbed data").splitlines()
    assert len(once) == 302
    assert once[-1] == again[-1]
    assert "'files': 300" in once[-1]

    # Now that it has ended, starting it again only tells the result.
    assert shell("python checksum.py killed data") == f"{again[-1]}\n"
    with open_journal("sqlite:///runjournal.db") as journal:
        record = journal.get("killed")
        assert record is not None
        assert (record.status, record.attempt, record.fencing_token) == ("completed", 2, 2)
        saved = [e for e in journal.events("killed") if e.topic == "run.checkpoint_saved"]
        assert len(saved) == 300
