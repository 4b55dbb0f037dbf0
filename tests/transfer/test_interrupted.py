"""An import that is killed leaves whole runs, and is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal

from .conftest import UNITS, content

SCRIPT = Path(__file__).parent / "killed_import.py"


@pytest.mark.parametrize("point", [1, 7, 20, 33, 51])
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_case_68_killed_and_repeated(
    request: pytest.FixtureRequest,
    start_script: Any,
    source: Journal,
    export_file: Path,
    backend: str,
    point: int,
) -> None:
    """The steps are events within transactions and commits; none leaves half a run."""
    url = str(request.getfixturevalue(f"{backend}_url"))
    process = start_script(SCRIPT, url, export_file, point)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (-9, "", "")
    with open_journal(url) as journal:
        assert journal.verify().findings == []
        there = {r.run_id for r in journal.runs()}
        for run_id in there:
            assert journal.export_run(run_id) == source.export_run(run_id)
        # An id that has not come yet has no old state; one that has is the run it was.
        assert (point > 7) == bool(journal.position())
        done = journal.import_from(export_file)
        assert done.conflicts == []
        assert done.new + done.unchanged == UNITS
        assert content(journal) == export_file.read_bytes()
        assert journal.verify().findings == []
