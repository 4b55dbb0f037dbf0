"""The checks that go through the ports, each a small function; a backend's own are `settings`.

A check gives what it found, and raises what the store raises.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ...domain.errors import RunStoreError
from ...domain.gateway import ANY_REF
from ...projections.inspection import Check, Verdict
from ...projections.stats import JournalStats
from ..clocks import ticks
from ..durations import age_of
from ..gateways.config import load_gateways
from ..journal import Journal
from ..masking import mask
from .expectations import DAY, Expectations, moment_of
from .growth import events_since

HOUR: Final = 3600.0
#: Seconds between the host's clock and the store's that are worth a word, and that are too much.
SKEWS: Final = (1.0, 60.0)
#: Days for which there is room at the present growth: below the first a word, the second a failure.
DAYS_LEFT: Final = (30.0, 2.0)
#: Days that are not worth a number.
PLENTY: Final = 1000.0
#: How many refs, runs or projections a message names.
NAMED: Final = 3
#: Delivery refs that are looked at; there may be one for each customer.
REFS: Final = 10_000


@dataclass(frozen=True)
class Deployment:
    """An open journal, what is expected of it, and this host's clock."""

    journal: Journal
    expected: Expectations
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @cached_property
    def stats(self) -> JournalStats:
        return self.journal.stats()

    @property
    def store(self) -> Any:
        """The store with all its ports."""
        return self.journal.store


def run_checks(deployment: Deployment) -> Iterator[Check]:
    """All checks in their order."""
    for check in CHECKS:
        try:
            found = check(deployment)
        except RunStoreError as e:  # what one check stumbles over must not hide the others
            name = check.__name__
            found = Check(name, "fail", f"{e.code}/{e.reason}: {mask(e.message)}", e.hint)
        yield from [found] if isinstance(found, Check) else found


def settings(at: Deployment) -> list[Check]:
    found: list[Check] = at.store.settings()
    return found


def clock(at: Deployment) -> Check:
    before, began = at.clock(), ticks()
    there = at.store.get("-").now
    took = ticks() - began
    # The store looked at its clock at some moment of the trip.
    skew = abs((there - before).total_seconds() - took / 2) - took / 2
    if skew <= SKEWS[0]:
        return Check("clock", "pass", "this host's clock and the store's agree within 1 s")
    verdict: Verdict = "warn" if skew <= SKEWS[1] else "fail"
    message = f"this host's clock and the store's are {age_of(skew)} apart"
    return Check("clock", verdict, message, "keep both in step, with NTP")


def atomicity(at: Deployment) -> Check:
    reach, wanted = at.journal.atomicity, at.expected.require
    if wanted == "cross-process" and reach != wanted:
        message = "leases exclude others in this process only"
        return Check("atomicity", "fail", message, "use SQLite or Postgres")
    return Check("atomicity", "pass", f"the store's atomicity is {reach}")


def backup(at: Deployment) -> Check:
    told, most = at.expected.backup, at.expected.backup_max_age
    if told is None:
        return Check("backup", "warn", "nothing is known of a backup", "give --backup FILE|TIME")
    made = moment_of(told) or _newest(Path(told))
    if made is None:
        return Check("backup", "fail", f"there is no backup at {told}", "make one")
    age = (at.clock() - made).total_seconds()
    if age <= most:
        return Check("backup", "pass", f"the newest backup is {age_of(max(0.0, age))} old")
    message = f"the newest backup is {age_of(age)} old, and {age_of(most)} are allowed"
    return Check("backup", "fail", message, "see why the last one was not made")


def _newest(path: Path) -> datetime | None:
    """When the file was written, or the newest file of the folder."""
    try:
        files = [entry for entry in path.iterdir() if entry.is_file()] if path.is_dir() else [path]
        return datetime.fromtimestamp(max(f.stat().st_mtime for f in files), UTC)
    except (OSError, ValueError):
        return None


def retention(at: Deployment) -> Check:
    keep = at.expected.retention
    if keep is None:
        return Check("retention", "warn", "no retention is told", "give --retention, such as 30d")
    oldest = at.stats.oldest_ended_age or 0.0
    if oldest <= keep:
        return Check("retention", "pass", f"no run ended more than {age_of(keep)} ago")
    message = f"the oldest run ended {age_of(oldest)} ago, and {age_of(keep)} are to be kept"
    return Check("retention", "warn", message, "remove what is older: make it a scheduled job")


def undelivered(at: Deployment) -> Check:
    stats, oldest = at.stats, at.stats.oldest_undelivered_age
    verdict = _by_age(oldest, at.expected.undelivered, DAY)
    if stats.deliveries_waiting and verdict == "pass":
        verdict = "warn"
    if oldest is None:
        return Check("undelivered", "pass", "every result is delivered")
    message = (
        f"the oldest result that is not delivered is {age_of(oldest)} old; "
        f"{stats.deliveries_waiting} wait for a decision"
    )
    if verdict == "pass":
        return Check("undelivered", verdict, message)
    return Check("undelivered", verdict, message, "runjournal deliveries list --attention")


def abandoned(at: Deployment) -> Check:
    oldest = at.stats.oldest_abandoned_age
    if oldest is None:
        return Check("abandoned", "pass", "no lease has expired")
    verdict = _by_age(oldest, at.expected.abandoned, HOUR)
    message = f"{at.stats.abandoned} leases have expired, the first {age_of(oldest)} ago"
    fix = "" if verdict == "pass" else "start a worker for their kinds"
    return Check("abandoned", verdict, message, fix)


def _by_age(age: float | None, warn: float, fail: float) -> Verdict:
    """A bound that was set higher than the failure's moves that one too."""
    if age is None or age <= warn:
        return "pass"
    return "warn" if age <= max(warn, fail) else "fail"


def set_aside(at: Deployment) -> Check:
    if not at.stats.set_aside + at.stats.deliveries_set_aside:
        return Check("set_aside", "pass", "every run and delivery can be read")
    found = at.journal.attention()
    message = f"{len(found)} set aside: {_some([a.run_id for a in found])}"
    return Check("set_aside", "fail", message, f"{found[0].reason}; see runjournal verify")


def projections(at: Deployment) -> Check:
    known = at.stats.projections
    parked = [p.name for p in known if p.parked]
    if parked:
        message = f"parked at an event: {_some(parked)}"
        fix = "correct the projector, then resume; see runjournal projections status"
        return Check("projections", "fail", message, fix)
    late = [f"{p.name} ({p.lag:,})" for p in known if p.lag > at.expected.lag]
    if late:
        message = f"more than {at.expected.lag:,} events behind: {_some(late)}"
        return Check("projections", "warn", message, "see whether their runners run")
    message = f"{len(known)} keep up" if known else "there are none of your own"
    return Check("projections", "pass", message)


def growth(at: Deployment) -> Check:
    stats = at.stats
    events = events_since(at.store, at.journal.application.mapper, stats.at - timedelta(days=1))
    events = min(events, stats.events)  # a restore passes positions over
    size = int(stats.size_bytes * events / stats.events) if stats.events else 0
    message = f"about {events:,} events and {size / 1e6:,.1f} MB in the last day"
    room = _room(at.store)
    if room is None or not size:
        return Check("growth", "pass", message)
    days = room / size
    message += f"; room for {days:,.0f} days more" if days < PLENTY else "; plenty of room"
    if days >= DAYS_LEFT[0]:
        return Check("growth", "pass", message)
    verdict: Verdict = "warn" if days >= DAYS_LEFT[1] else "fail"
    return Check("growth", verdict, message, "make room, or keep runs for less long")


def _room(store: Any) -> int | None:
    """Bytes that are free where the journal's file is; None where it has none here."""
    path = getattr(getattr(store, "database", None), "path", None)
    return None if path is None else shutil.disk_usage(os.path.dirname(path) or ".").free


def gateways(at: Deployment) -> Check:
    refs, file = at.store.undelivered_refs(REFS), at.expected.gateways
    if file is None:
        if not refs:
            return Check("gateways", "pass", "nothing waits to be delivered")
        message = f"results wait for {_some(refs)}, and no gateways are told"
        return Check("gateways", "warn", message, "give --gateways FILE")
    there = load_gateways(file)
    lacking = [] if ANY_REF in there else [ref for ref in refs if ref not in there]
    if lacking:
        message = f"no gateway for {_some(lacking)}, where results wait"
        return Check("gateways", "fail", message, f"name it in {file}")
    return Check("gateways", "pass", "there is a gateway for every result that waits")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


CHECKS: Final[tuple[Callable[[Deployment], Check | list[Check]], ...]] = (
    settings,
    clock,
    atomicity,
    backup,
    retention,
    undelivered,
    abandoned,
    set_aside,
    projections,
    growth,
    gateways,
)
