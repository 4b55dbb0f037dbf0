"""A damaged run has an audit page too, and the page says what is wrong."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from html import unescape

import pytest
from runjournal import RunStoreError, open_journal

from .conftest import OpenPage
from .lives import eventful

Damage = Callable[[str], str]


@pytest.fixture
def page_after(sqlite_url: str) -> Damage:
    """The page of an eventful run, after an SQL statement has been at the journal's file."""

    def made(sql: str) -> str:
        with open_journal(sqlite_url) as journal:
            eventful(journal)
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as file:
            changed = file.execute(sql).rowcount
            file.commit()
        assert changed == 1
        with open_journal(sqlite_url) as journal:
            return journal.report(["nightly"])

    return made


def problems(page: str) -> list[str]:
    listed = re.search(r'<ul class="problems">(.*?)</ul>', page)
    return [unescape(p) for p in re.findall("<li>(.*?)</li>", listed[1])] if listed else []


EVENT = "UPDATE events SET {} WHERE stream = 'run/nightly' AND version = {}"
OTHER_BYTE = "state = CAST(replace(CAST(state AS TEXT), {}) AS BLOB)"


def breaks(version: int) -> str:
    return f"event {version} of run/nightly does not follow from what is before it"


#: What was done to the file, and what the page then says: how each sentence begins.
DAMAGES: dict[str, tuple[str, list[str]]] = {
    "not changed": ("UPDATE runs SET run_id = run_id", []),
    "a payload": (
        EVENT.format(OTHER_BYTE.format("'\"offset\":1', '\"offset\":7'"), 4),
        [breaks(5)],
    ),
    "what it names before it": (
        EVENT.format(OTHER_BYTE.format('\'"prev_hash":"\', \'"prev_hash":"0\''), 2),
        [breaks(2), breaks(3)],
    ),
    "the last event": (
        EVENT.format(OTHER_BYTE.format("'all of them', 'none of them'"), 13),
        ["run/nightly does not end with the event its record knows"],
    ),
    "an event is gone": (
        "DELETE FROM events WHERE stream = 'run/nightly' AND version = 7",
        ["version 7 of run/nightly is missing", breaks(8), "run/nightly has a record that its"],
    ),
    "no JSON": (
        EVENT.format("state = x'00ff'", 7),
        ["event 7 of stream 'run/nightly' (run.checkpoint_saved) cannot be decoded", breaks(8)],
    ),
    "the first event": (
        EVENT.format("state = x'00ff'", 1),
        ["event 1 of stream 'run/nightly' (run.queued) cannot be decoded", breaks(2)],
    ),
    "an unknown topic": (
        EVENT.format("topic = 'run.imported'", 3),
        ["event 3 of stream 'run/nightly' has the unknown topic 'run.imported'", breaks(4)],
    ),
    "an absurd value": (
        EVENT.format(OTHER_BYTE.format("'\"ttl\":20.0', '\"ttl\":2e300'"), 2),
        [
            "the events do not fit together: OverflowError",
            "event 2 of run/nightly has no meaning",
            breaks(3),
        ],
    ),
    "the record": (
        "UPDATE runs SET body = x'00' WHERE run_id = 'nightly'",
        ["run/nightly has a record that its events do not lead to: the stored record of run"],
    ),
    "a field of the record": (
        "UPDATE runs SET kind = 'other' WHERE run_id = 'nightly'",
        ["run/nightly has a record that its events do not lead to: kind is 'other' and should"],
    ),
    "no record": (
        "DELETE FROM runs WHERE run_id = 'nightly'",
        ["run/nightly has events and no record", "delivery/delivery-"],
    ),
    "the delivery's request": (
        "UPDATE events SET state = x'00' WHERE stream LIKE 'delivery/%' AND version = 1",
        ["event 1 of stream 'delivery/delivery-", "event 2 of delivery/delivery-"],
    ),
    "the delivery's record": (
        "UPDATE delivery_outbox SET version = 4",
        ["delivery/delivery-"],
    ),
    "no delivery": (
        "DELETE FROM delivery_outbox",
        ["delivery/delivery-", "run/nightly has ended, and its delivery"],
    ),
}


@pytest.mark.parametrize(("sql", "told"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_told(page_after: Damage, sql: str, told: list[str]) -> None:
    page = page_after(sql)
    found = problems(page)
    assert len(found) == len(told), found
    assert all(p.startswith(begin) for p, begin in zip(found, told, strict=True)), found
    assert (">not verified</a>" in page) == bool(told)
    assert (">verified</a>" in page) == (not told)
    # Whatever is wrong, the table has all events that are there.
    assert page.count('"v":') == 18 - ("DELETE FROM events" in sql)


def test_what_cannot_be_read_is_shown_as_that(page_after: Damage, open_page: OpenPage) -> None:
    page = open_page(page_after(DAMAGES["no JSON"][0]))
    row = page.locator(".log tr.unreadable")
    assert row.count() == 1
    row.get_by_role("button").click()
    assert "cannot be decoded" in page.locator(".opened .error").inner_text()
    assert "not verified" in page.locator("article > header").inner_text()


def test_what_verify_finds_is_what_the_page_says(page_after: Damage, sqlite_url: str) -> None:
    page = page_after(DAMAGES["a payload"][0])
    with open_journal(sqlite_url) as journal:
        findings = journal.verify().findings
        assert [f.message for f in findings] == problems(page)
        journal.acknowledge(findings, "alice", "disk fault of May")
        known = problems(journal.report(["nightly"]))
    assert known == [f"{breaks(5)} (known to alice: disk fault of May)"]


def test_no_such_run(sqlite_url: str) -> None:
    with open_journal(sqlite_url) as journal:
        eventful(journal)
        with pytest.raises(RunStoreError) as caught:
            journal.report(["nightly", "nobody"])
        assert (caught.value.code, caught.value.reason) == ("RUN_NOT_FOUND", "run")
        for refused in ([""], "nightly", ["nightly", "nightly"]):
            with pytest.raises(RunStoreError) as caught:
                journal.report(refused)
            assert caught.value.code == "RUN_VALIDATION_ERROR"
