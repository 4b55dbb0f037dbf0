"""The rules of a bad day: backups, an earlier state put back, and a journal that is looked at."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition
from runjournal.adapters.backup import Restored

from . import model_of_holders as holders
from .agreement import State
from .holding import Holding
from .lines import FINE
from .model import EPOCH
from .model_of_pruning import versions
from .processes import Lease
from .steps import backups, leases, runs, step, workers


@dataclass(eq=False)
class Backup:
    """A file, what the model was when it was taken, and at which step."""

    file: Path
    state: State
    moment: int


class PuttingBack(Holding):
    @precondition(lambda self: self.home.backed_up)
    @step(target=backups)
    def back_up(self) -> Any:
        return self._back_up()

    def _back_up(self) -> Backup:
        file = next(self.files)
        done = self.journal.backup(file)
        assert (done.events, done.epoch) == (self._events(), self.state.epoch)
        return Backup(file, deepcopy(self.state), self.moment)

    @step(backup=backups, how=st.sampled_from(["restore", "restore", "check", "silently"]))
    def put_back(self, backup: Backup, how: str) -> None:
        self._put_back(backup, how)

    @precondition(lambda self: self.home.backed_up)
    @step(lease=leases, who=workers, then=st.sampled_from(["save_checkpoint", "release"]))
    def history_repeats(self, lease: Lease, who: str, then: str) -> None:
        """Two processes of one holder write at one version, on two sides of a silent rollback."""
        other = self._adopt(lease, who)
        backup = self._back_up()
        self._save(lease, 1)
        self._put_back(backup, "silently")
        self.check()
        if other is not None:
            self._save(other, 2)
            if then == "release":
                self._hold(
                    lease, FINE, holders.release, partial(lease.handle.release, "over"), None, None
                )
            else:
                self._save(lease, 3)

    @precondition(lambda self: self.home.backed_up)
    @step(run=runs, first=workers, second=workers)
    def token_comes_twice(self, run: str, first: str, second: str) -> None:
        """Whoever nobody told of a rollback is granted again what another was granted."""
        backup = self._back_up()
        lost = self._take(FINE, run, first, "acquire")
        self._put_back(backup, "silently")
        self.check()
        self.clock.advance(1)
        found = self._take(FINE, run, second, "acquire")
        if lost is not None and found is not None:
            self._save(found, 1)
            self._save(lost, 2)

    def _save(self, lease: Lease, state: int) -> None:
        save = lease.handle.save_checkpoint
        self._hold(lease, FINE, holders.save_checkpoint, save, state)

    def _put_back(self, backup: Backup, how: str) -> None:
        """What was written since is gone, and whoever knows of it finds out at its next write."""
        self.state = deepcopy(backup.state)
        journal, restored = self.home.put_back(self.journal, backup.file, how)
        self._live_in(journal)
        self.held.clear()
        for sent in self.sent:
            if sent.landed is not None and sent.landed >= backup.moment:
                sent.landed = None
        self.archive = next(self.files)  # runs may come to another end, and be archived again
        if restored is not None:
            self._restored(restored)
        self.epoch_unknown = False

    @step(elsewhere=st.booleans())
    def restore_check(self, elsewhere: bool) -> None:
        """Once too often does no harm: holders go on, and whoever is granted next is above all."""
        if elsewhere:
            with self.home.another(self.journal) as other:
                self._restored(other.restore_check("ada", "a failover"))
            self.epoch_unknown = True
        else:
            self._restored(self.journal.restore_check("ada", "a failover"))

    def _restored(self, restored: Restored) -> None:
        state = self.state
        assert restored.events == self._events()
        assert (restored.old_epoch, restored.epoch) == (state.epoch, state.epoch + 1)
        state.epoch += 1
        state.audit.append("journal_restored")
        if self.home.passes_over:
            assert self.journal.position() >= restored.last_position + EPOCH

    def _events(self) -> int:
        there = [run for run in self.runs.values() if run and not run["pruned"]]
        return sum(sum(versions(run)) for run in there) + len(self.state.audit)
