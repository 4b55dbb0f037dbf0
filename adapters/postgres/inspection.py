"""Looking at a whole journal on Postgres: the InspectionStore port."""

from __future__ import annotations

from typing import Any

from ...projections.inspection import Check, DeliveryGroup, RunGroup, Survey
from ..indexes import missing_indexes
from . import inspection_statements as sql
from .faults import told
from .log_statements import HIGHEST
from .recorder import PostgresProcessRecorder
from .schema import MIGRATIONS
from .session import Session

#: With each of these off, what it costs.
_MUST_BE_ON = {
    "fsync": "a crash of the server's host may damage the database",
    "full_page_writes": "a crash of the server's host may leave torn pages",
}


class PostgresInspection(PostgresProcessRecorder):
    """What PostgresStore does for a look at the whole."""

    def survey(self) -> Survey:
        read = self.database.read
        ((now,),) = read(sql.NOW)
        runs = [RunGroup(*_told(row)) for row in read(sql.RUN_GROUPS, now)]
        deliveries = [DeliveryGroup(*_told(row)) for row in read(sql.DELIVERY_GROUPS)]
        ((position, _standby),) = read(HIGHEST)
        ((size,),) = read(sql.SIZE, self.database.schema)
        return Survey(now, runs, deliveries, position or 0, size)

    def undelivered_refs(self, limit: int) -> list[str]:
        return [ref for (ref,) in self.database.read(sql.UNDELIVERED_REFS, limit)]

    def settings(self) -> list[Check]:
        pooler = self._judged_pooler()
        if pooler.verdict == "fail":
            return [pooler]  # what is prepared may be gone with the next statement
        fsync, full_pages, commit, standby = self.database.read(sql.SERVER)[0]
        there = {name for (name,) in self.database.read(sql.INDEXES, self.database.schema)}
        return [
            *(
                _judged_switch(name, value)
                for name, value in (("fsync", fsync), ("full_page_writes", full_pages))
            ),
            _judged_commit(commit),
            _judged_role(standby),
            missing_indexes(MIGRATIONS, there),
            pooler,
        ]

    def _judged_pooler(self) -> Check:
        """A pooler gives its clients process ids of its own making."""

        def work(session: Session) -> bool:
            row = session.connection.execute(sql.PROCESS, prepare=False).fetchone()
            return row != (session.connection.info.backend_pid,)

        between, told = self.database.transaction(work), self.database.pooler
        if between and not told:
            return Check(
                "pooler",
                "fail",
                "a pooler stands in between, and statements are prepared for one connection",
                "give --pooler (in Python pooler=True), or have the pooler keep sessions whole",
            )
        if told and not between:
            return Check(
                "pooler",
                "warn",
                "no pooler stands in between, and nothing is prepared",
                "leave --pooler out",
            )
        return Check("pooler", "pass", "a pooler, as told" if told else "no pooler in between")


def _told(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A group whose times can be told; otherwise its names are told."""
    return told(row, " and ".join(repr(value) for value in row if isinstance(value, str)))


def _judged_switch(name: str, value: str) -> Check:
    if value == "on":
        return Check(name, "pass", f"{name} is on")
    return Check(
        name, "fail", f"{name} is {value}: {_MUST_BE_ON[name]}", f"ALTER SYSTEM SET {name} = on"
    )


def _judged_commit(value: str) -> Check:
    if value != "off":
        return Check("synchronous_commit", "pass", f"synchronous_commit is {value}")
    return Check(
        "synchronous_commit",
        "fail",
        "synchronous_commit is off: a crash takes back commits that were acknowledged",
        "ALTER ROLE … SET synchronous_commit = on",
    )


def _judged_role(standby: bool) -> Check:
    if not standby:
        return Check("primary", "pass", "the server takes writes")
    return Check("primary", "fail", "the server is a standby", "name the primary in the address")
