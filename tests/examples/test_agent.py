"""docs/examples/agent.py: it asks before it pays, and pays once although its process dies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from runjournal import Worker, open_journal
from runjournal.adapters.loading import load_function

START = """runjournal start support-1 --kind agent --input '{"question": "My money?"}'"""
WORK = "runjournal worker --handler agent:answer --kind agent --once --ttl 2"

#: A handler whose process is killed after it has paid, and before that is in a checkpoint.
KILLED = """
import os, signal
import agent

def answer(ctx):
    pay = agent.TOOLS["refund"]
    def refund(*args, **arguments):
        pay(*args, **arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    agent.TOOLS["refund"] = refund
    return agent.answer(ctx)
"""


def test_it_pays_once_and_only_after_a_yes(
    folder: Path, launch: Callable, shell: Callable[[str], str]
) -> None:
    shell(START)
    assert shell(WORK) == "support-1: suspended (version 6)\n"
    assert not (folder / "bank").exists()
    assert "refund-2" in shell("runjournal list --status suspended")
    asked = json.loads(shell("runjournal --json show support-1 --payloads"))
    assert asked["state"]["call"]["arguments"] == {"order": "ada-17", "amount": 40}
    shell("runjournal decide support-1 refund-2 yes --actor bob")

    (folder / "killed.py").write_text(KILLED)
    killed = launch(*WORK.replace("agent:answer", "killed:answer").split())
    assert killed.wait() == -9
    assert len(list((folder / "bank").iterdir())) == 1

    working = launch(*WORK.removesuffix(" --once --ttl 2").split())
    assert working.stdout.readline() == "support-1: completed (version 12)\n"
    working.terminate()
    assert working.wait() == 0
    with open_journal("sqlite:///runjournal.db") as journal:
        assert journal.result("support-1") == {"answer": "Refund: 40 for ada-17"}
        assert journal.timeline("support-1").record.attempt == 2
    assert len(list((folder / "bank").iterdir())) == 1


@pytest.mark.parametrize("decision", ["no", "later"])
def test_anything_but_a_yes_is_a_no(
    folder: Path, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    monkeypatch.syspath_prepend(folder)
    answer = load_function("agent:answer", "the example")
    with open_journal("memory:") as journal:
        ledger, worker = journal.ledger(), Worker(journal, answer)
        ledger.start("support-1", input={"question": "My money?"})
        worker.run_once()
        ledger.record_decision("support-1", "refund-2", decision)
        worker.run_once()
        assert journal.result("support-1") == {"answer": f"Refund: refused: {decision}"}
    assert not (folder / "bank").exists()
