"""The rules of retention: a prune removes what it may, says so, and can be read elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from runjournal import open_journal

from .model_of_pruning import bury, choose
from .processes import Processes, invocation
from .steps import step


class Pruning(Processes):
    @step()
    def prune(self) -> None:
        """All that has ended and nobody needs."""
        self._prune(age=0, later=1, limit=10, dry_run=False, archived=False, ignoring=False)

    @step(
        age=st.sampled_from([0, 0, 10, 40]),
        later=st.sampled_from([0, 1]),
        limit=st.sampled_from([1, 2, None]),
        dry_run=st.sampled_from([False, False, False, True]),
        archived=st.booleans(),
        ignoring=st.booleans(),
    )
    def prune_some(self, **asked: Any) -> None:
        """`later`: microseconds; `limit` None: in batches of one, until nothing is left."""
        self._prune(**asked)

    def _prune(
        self,
        *,
        age: int,
        later: int,
        limit: int | None,
        dry_run: bool,
        archived: bool,
        ignoring: bool,
    ) -> None:
        before = self.now + timedelta(microseconds=later) - timedelta(seconds=age)
        ignoring = ignoring and self.state.passed is not None
        passed = None if ignoring else self.state.passed
        expected = choose(self.runs, before, limit, passed)
        histories = {name: self.journal.export_run(name) for name in expected.run_ids}
        given: Any = {
            "dry_run": dry_run,
            "archive": self.archive if archived else None,
            "ignore_projections": ["seen"] if ignoring else [],
            "actor": "ada",
        }
        if limit is None:
            done = self.journal.prune_all(before, 1, **given)
        else:
            done = self.journal.prune(before, limit, **given)
        told = done.run_ids, done.runs, done.events, done.held, done.done
        assert told == (
            expected.run_ids,
            len(expected.run_ids),
            expected.events,
            expected.held,
            expected.done,
        )
        if dry_run or not expected.run_ids:
            return
        self._bury(expected.run_ids)
        self.state.audit += ["runs_pruned"] * (len(expected.run_ids) if limit is None else 1)
        if archived:
            with open_journal("memory:") as elsewhere:
                read = elsewhere.import_from(self.archive)
                assert (read.conflicts, read.torn) == ([], ())
                assert {n: elsewhere.export_run(n) for n in histories} == histories

    def _bury(self, run_ids: list[str]) -> None:
        for name in run_ids:
            streams = [f"run/{name}", f"delivery/{invocation(name)}"]
            lengths = bury(self.runs[name])
            self.state.graves += zip(streams, lengths, strict=False)
            for stream in (name, invocation(name)):
                self.state.streams.pop(stream, None)
