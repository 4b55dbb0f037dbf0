"""How the machine asks as a holder: one whose write is open, who is behind, or who has lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from . import model_of_holders as holders
from .asking import Asking
from .lines import DOWN, FINE
from .model import Refused, Rule, Run
from .processes import OK, UNAVAILABLE, UNKNOWN, Answer, Lease, Sent, answer_of

EXPIRED = ("RUN_LEASE_LOST", "expired")


class Holding(Asking):
    """Ask as a holder."""

    def _hold(
        self, lease: Lease, trouble: str, wanted: Any, call: Callable[..., Any], *args: Any
    ) -> None:
        asked: Rule = lambda run, now: wanted(run, now, lease.token, *args)  # noqa: E731
        called = partial(call, *args)
        if lease.open is not None:
            trouble = FINE
            refusal = self._settle(lease)
            if refusal is not None:
                assert answer_of(called)[0] == refusal
                return
        elif lease.lost is not None or lease.left is not None:
            trouble = DOWN  # it must not matter
        if lease.lost is not None or lease.left is not None:
            expected = lease.lost or self._foretell(lease.left or {}, asked)[1]
            with lease.line.in_trouble(trouble):
                assert answer_of(called)[0] == expected
            return
        if self._is_behind(lease):
            asked = self._following(lease, asked, renews=wanted is holders.renew)
            if trouble.endswith("then down"):
                trouble = FINE  # what is sent first cannot land, and is decided again
        if trouble != DOWN and self._foretell(self.runs[lease.run_id], asked)[1] == EXPIRED:
            trouble = FINE  # a holder that believed in its lease for longer could not tell why
        self.prolonged = lease.run_id
        answer, record, sent = self._ask(lease.line, lease.run_id, trouble, asked, called, by=lease)
        if answer == OK:
            self._held(lease, record)
        elif answer == UNKNOWN:
            lease.open = sent
        elif answer != UNAVAILABLE:
            lease.lost = answer

    def _adopt(self, lease: Lease, who: str) -> Lease | None:
        """Another process is handed the token, as by a parent process."""
        ledger = self.ledgers[who]
        line: Any = ledger._engine.store
        wanted = partial(holders.adopt, token=lease.token)
        call = partial(ledger.adopt, lease.run_id, lease.token)
        answer, handle, _ = self._ask(line, lease.run_id, FINE, wanted, call)
        return self._taken(handle, line) if answer == OK else None

    def _held(self, lease: Lease, record: Any) -> None:
        """It was done: what the holder knows now. A renewal tells it nothing new."""
        run = self.runs[lease.run_id]
        lease.wrote(run)
        if record is not None or lease.known is None:
            known = record or lease.handle.record
            assert (known.version, known.status) == (len(run["history"]), run["status"])
            lease.known = known.version, known.head

    def _is_behind(self, lease: Lease) -> bool:
        """Whether what it knows is not the run's last event."""
        if lease.known is None:
            return False
        run, (version, head) = self.runs[lease.run_id], lease.known
        return not run or (len(run["history"]), self._heads(lease.run_id)[0]) != (version, head)

    def _following(self, lease: Lease, asked: Rule, renews: bool = False) -> Rule:
        """The same, from a holder that first finds out what others wrote."""

        def follow(run: Run, now: datetime) -> None:
            assert lease.known is not None
            version = lease.known[0]
            if not renews:
                holders.follow(run, now, lease.token, lease.grant, version)
                asked(run, now)
                return
            # The token alone renews; only where it does not, the holder looks closer.
            try:
                if run:
                    asked(run, now)
                    return
            except Refused:
                if len(run["history"]) >= version:
                    raise
            raise Refused("RUN_LEASE_LOST", "rewound")

        return follow

    def _settle(self, lease: Lease) -> Answer | None:
        """What a holder's next command first makes of an open write; what it then is refused."""
        sent = lease.open
        assert sent is not None
        lease.open = None
        if sent.landed is None and self._lands(sent):
            if not self._live(lease.run_id):
                lease.open = sent
                return UNKNOWN  # it may have been written in time, and arrive
            self.prolonged = lease.run_id
            self._land(sent)
            lease.known = None
        elif sent.landed is not None and self._tells_of(sent):
            lease.known = self._place_of(sent)
        else:
            return self._refusal(lease)
        assert sent.after is not None
        lease.wrote(sent.after)
        return None

    def _refusal(self, lease: Lease) -> Answer | None:
        """What a holder is refused whose write has not landed, and never can."""
        refusal = self._foretell(
            self.runs[lease.run_id], self._following(lease, lambda run, now: None)
        )[1]
        if refusal == OK:
            return None  # others wrote under the same grant: it is theirs to go on from
        lease.lost = refusal
        return refusal

    def _tells_of(self, sent: Sent) -> bool:
        """Whether it shows that it landed: of a pruned run the last event's command stays."""
        run = self.runs[sent.run_id]
        assert sent.after is not None
        return not run["pruned"] or len(run["history"]) == len(sent.after["history"])

    def _place_of(self, sent: Sent) -> tuple[int, str]:
        """The version at which it landed, and its hash."""
        assert sent.after is not None
        version = len(sent.after["history"])
        if self.runs[sent.run_id]["pruned"]:
            return version, self._stored(sent.run_id).head
        return version, self.state.streams[sent.run_id][version - 1][1]
