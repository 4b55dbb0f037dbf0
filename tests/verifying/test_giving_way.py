"""Processes that read parts give way to whoever writes, by all that the system offers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from runjournal import Journal
from runjournal.adapters import giving_way
from runjournal.adapters.checking import found_in
from runjournal.adapters.giving_way import YieldingCodec
from runjournal.adapters.part_processes import PartProcesses


@pytest.mark.usefixtures("stored")
def test_processes_that_read_parts_give_way(database_url: str) -> None:
    child = PartProcesses(database_url, 1)._start(["verify"])
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write('["", null]\n')  # the whole journal
        child.stdin.flush()
        assert '"events"' in child.stdout.readline()
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
        assert os.getsid(child.pid) == child.pid
        group = Path(f"/proc/{child.pid}/autogroup")
        if group.exists() and group.read_text().strip():
            assert group.read_text().split("nice")[1].strip() == "19"
    finally:
        child.kill()
        child.communicate()


def test_only_in_a_session_of_its_own_and_what_the_system_lacks_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Path] = []
    lowered: list[int] = []

    def missing(path: Path, _text: str) -> int:
        asked.append(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "write_text", missing)
    monkeypatch.setattr(os, "nice", lowered.append)
    giving_way.give_way()
    assert (asked, lowered) == ([], []), "this session is not its own"
    monkeypatch.setattr(os, "getsid", lambda _pid: os.getpid())
    giving_way.give_way()
    assert (asked, lowered) == ([Path("/proc/self/autogroup")], [19])
    monkeypatch.delattr(os, "getsid")
    giving_way.give_way()
    assert lowered == [19]


def test_the_core_is_offered_before_each_event(
    stored: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers: list[None] = []
    monkeypatch.setattr(os, "sched_yield", lambda: offers.append(None))
    assert list(found_in(stored.store, YieldingCodec(stored._codec), None, lambda _n: None)) == []
    assert len(offers) == stored.verify().events > 0
    monkeypatch.delattr(os, "sched_yield")
    assert list(found_in(stored.store, YieldingCodec(stored._codec), None, lambda _n: None)) == []
