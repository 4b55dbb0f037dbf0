"""`journal.stats()` equals a count by hand, on every backend."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError
from runjournal import Journal, JournalStats, RunRecord, RunStoreError, open_journal
from runjournal.adapters.memory.inspection import MemoryInspection
from runjournal.adapters.prometheus import families, prometheus_text
from runjournal.domain.delivery import delivery_invocation_id
from runjournal.projections.stats import ProjectionStats, RunCount

from ..projecting.projectors import Seen
from .conftest import Fill


def by_hand(journal: Journal) -> dict[str, Any]:
    """The same numbers from the records, one by one."""
    now, runs = journal.store.now(), journal.runs(limit=1000)
    aside = {a.run_id for a in journal.attention()}
    sent = journal.deliveries(limit=1000)

    def due(record: RunRecord) -> bool:
        if record.run_id in aside:
            return False
        return (record.available_at or now) <= now

    ready = [r for r in runs if r.status == "queued" and due(r)]
    running = [r for r in runs if r.lease is not None]
    abandoned = [r for r in running if r.lease is not None and r.lease.expires_at <= now]
    waiting = [d for d in sent if d.status != "delivered"]
    return {
        "runs": Counter((r.kind, r.status.value) for r in runs),
        "ready": len(ready),
        "held": len(running) - len(abandoned),
        "abandoned": len(abandoned),
        "set_aside": len(aside),
        "deliveries": Counter(d.status.value for d in sent),
        "deliveries_waiting": sum(d.needs_attention for d in sent),
        "oldest_ready": min((r.available_at or r.updated_at for r in ready), default=None),
        "oldest_abandoned": min((r.lease.expires_at for r in abandoned if r.lease), default=None),
        "oldest_undelivered": min((d.created_at for d in waiting), default=None),
        "oldest_ended": min((r.updated_at for r in runs if r.is_terminal), default=None),
        "events": sum(len(list(journal.events(r.run_id))) for r in runs)
        + sum(len(list(journal.delivery_events(d.invocation_id))) for d in sent),
    }


def test_stats_equal_a_count_by_hand(journal: Journal, fill: Fill) -> None:
    fill(journal)
    stats, hand = journal.stats(), by_hand(journal)
    assert {(r.kind, r.status.value): r.count for r in stats.runs} == hand["runs"]
    assert {d.status.value: d.count for d in stats.deliveries} == hand["deliveries"]
    for name in ("ready", "held", "abandoned", "set_aside", "deliveries_waiting"):
        assert getattr(stats, name) == hand[name] > 0, name
    assert stats.deliveries_set_aside == 0
    for name in ("oldest_ready", "oldest_abandoned", "oldest_undelivered", "oldest_ended"):
        age = getattr(stats, f"{name}_age")
        assert age == pytest.approx((stats.at - hand[name]).total_seconds()), name
    # Postgres burns positions of writes that lost, and there were none.
    assert stats.events == hand["events"]
    assert stats.size_bytes > 1000
    assert abs((journal.store.now() - stats.at).total_seconds()) < 30


def test_ages_grow_with_the_store_s_clock(journal: Journal, fill: Fill) -> None:
    fill(journal)
    first, second = journal.stats(), journal.stats()
    passed = (second.at - first.at).total_seconds()
    assert passed > 0
    for name in ("ready", "abandoned", "undelivered", "ended"):
        before, after = (getattr(s, f"oldest_{name}_age") for s in (first, second))
        assert after - before == pytest.approx(passed), name


def test_an_empty_journal_is_all_zero(journal: Journal) -> None:
    stats = journal.stats()
    assert (stats.runs, stats.deliveries, stats.projections) == ((), (), ())
    assert (stats.ready, stats.held, stats.abandoned, stats.set_aside, stats.events) == (0,) * 5
    assert stats.oldest_ready_age is stats.oldest_undelivered_age is None


def test_deliveries_that_were_set_aside_are_counted_apart(journal: Journal, fill: Fill) -> None:
    fill(journal)
    before = journal.stats()
    invocation_id = delivery_invocation_id("sent-never", "never")
    journal.store.set_aside_delivery(invocation_id, "cannot be read")
    stats = journal.stats()
    assert stats.deliveries_set_aside == 1
    assert stats.deliveries_waiting == before.deliveries_waiting - 1
    assert stats.set_aside == before.set_aside


def test_projections_are_listed_with_their_lag(journal: Journal) -> None:
    journal.ledger().start("one")
    journal.projection(Seen()).catch_up()
    journal.ledger().start("two")

    def fail(_event: object) -> None:
        raise ValueError

    with pytest.raises(RunStoreError):
        journal.projection(Seen("odd", before=fail)).catch_up()
    assert journal.stats().projections == (
        ProjectionStats(name="odd", position=0, lag=2, parked=True),
        ProjectionStats(name="seen", position=1, lag=1, parked=False),
    )


def test_stats_cannot_be_changed_and_have_a_json_form(journal: Journal) -> None:
    journal.ledger().start("one")
    stats = journal.stats()
    with pytest.raises(ValidationError):
        stats.ready = 2  # type: ignore[misc]
    assert JournalStats.model_validate_json(stats.model_dump_json(by_alias=True)) == stats


def test_a_store_of_a_third_party_need_not_be_countable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryInspection, "survey")
    with open_journal("memory:") as journal, pytest.raises(RunStoreError) as caught:
        journal.stats()
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")


# Prometheus's text format.


@pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
def test_prometheus_reads_what_is_written(journal: Journal, fill: Fill) -> None:
    fill(journal)
    journal.projection(Seen()).catch_up(limit=1)
    stats = journal.stats()
    text = prometheus_text(stats)
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert list(found) == [family.name for family in families(stats)]
    for family in found.values():
        assert family.name.startswith("runjournal_")
        assert family.type == "gauge"
        assert family.documentation.endswith(".")
        assert family.samples, family.name
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in found.values()
        for sample in family.samples
    }
    for run in stats.runs:
        assert values["runjournal_runs", run.kind, run.status.value] == run.count
    assert values["runjournal_deliveries", "pending"] == 1
    assert values["runjournal_projection_lag", "seen"] == stats.events - 1
    assert values["runjournal_oldest_ready_age_seconds",] == stats.oldest_ready_age
    assert values["runjournal_size_bytes",] == stats.size_bytes
    assert text.endswith("\n")


@pytest.mark.parametrize("kind", ['say "hi"', "back\\slash", "a\nb", "日本", 'all \\n"\n'])
def test_labels_are_escaped(kind: str) -> None:
    with open_journal("memory:") as journal:
        stats = journal.stats()
    odd = stats.model_copy(
        update={
            "runs": (RunCount(kind=kind, status="queued", count=12_345_678),),  # type: ignore[arg-type]
        }
    )
    (family, *_) = text_string_to_metric_families(prometheus_text(odd))
    (sample,) = family.samples
    assert sample.labels == {"kind": kind, "status": "queued"}
    assert sample.value == 12_345_678
