"""The rules of upkeep: reopening, rebuilding, projecting, moving to another journal."""

from __future__ import annotations

from hypothesis import strategies as st

from ..projecting.projectors import Seen
from .model_of_pruning import versions
from .processes import Processes
from .steps import step


class Keeping(Processes):
    @step()
    def reopen(self) -> None:
        self._live_in(self.home.reopen(self.journal))

    @step(lost=st.booleans())
    def rebuild(self, lost: bool) -> None:
        """From the events; what no event holds is lost with the rows."""
        if lost:
            self.home.forget_rows(self.journal)
        for table, made in (
            ("run_records", sum(bool(run and not run["pruned"]) for run in self.runs.values())),
            ("delivery_outbox", sum(bool(run and run["delivery"]) for run in self.runs.values())),
        ):
            done = self.journal.rebuild(table)
            assert (done.repaired, done.findings) == (made if lost else 0, ())
        if lost:
            self._forget_renewals()

    @step(anew=st.sampled_from([False, False, True]))
    def project(self, anew: bool) -> None:
        """A projection of the user's own: it sees each event once, and a prune waits for it."""
        if anew:
            self.journal.rebuild(Seen())
            self.state.rows = {}
        else:
            self.journal.projection(Seen()).catch_up()
        there = {name: run for name, run in self.runs.items() if run and not run["pruned"]}
        self.state.passed = {name: versions(run) for name, run in there.items()}
        self.state.rows |= {name: versions(run)[0] for name, run in there.items()}

    @step(moves=st.booleans())
    def export(self, moves: bool) -> None:
        """Into the same journal: nothing happens. Into a new one: everything is there."""
        file = next(self.files)
        self.journal.export_to(file)
        if not moves:
            done = self.journal.import_from(file)
            assert (done.events, done.buried, done.conflicts) == (0, 0, [])
        else:
            exported = list(self.journal.export())
            self.home.leave(self.journal)
            self._live_in(self.home.new())
            self.state.epoch = self._store.read_epoch()  # tokens travel, and it does not
            done = self.journal.import_from(file, send_deliveries=True)
            assert (done.buried, done.conflicts) == (len(self.state.graves), [])
            assert list(self.journal.export()) == exported
            self.state.passed, self.state.rows = None, {}
            self._forget_renewals()
        file.unlink()
