"""The contract can fail: each store that breaks one rule is caught by the test of that rule.

A contract that every store passes would prove nothing. The broken stores are wrappers around a
sound one, so that what fails is the rule they break.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BROKEN_STORES = Path(__file__).with_name("broken_stores.py")

#: Which tests must notice which broken store.
CAUGHT_BY = {
    "IgnoresVersion": [
        "test_stale_version_is_refused_without_trace",
        "test_run_is_created_only_once",
        "test_concurrent_swaps_at_one_version_have_one_winner",
    ],
    "IgnoresGuards": [
        "test_live_guard_fails_at_the_deadline",
        "test_takeover_does_not_overrule_a_renewal",
        "test_takeover_loses_against_a_renewal",
    ],
    "IgnoresTokenOfWrites": [
        "test_live_guard_fails_for_another_token",
        "test_expired_guard_fails_for_another_token",
    ],
    "IgnoresTokenOfRenewals": [
        "test_renewal_under_another_token_is_unknown",
        "test_many_leases_are_renewed_at_once",
        "test_stale_writer_is_refused_after_takeover",
    ],
    "LeaseLastsOneInstantLonger": [
        "test_live_guard_fails_at_the_deadline",
        "test_expired_guard_holds_from_the_deadline_on",
    ],
    "RenewsAtTheDeadline": [
        "test_renewal_at_the_deadline_comes_too_late",
        "test_expired_lease_is_dead_for_its_holder",
    ],
    "RenewalsMoveBackwards": ["test_renewal_never_moves_a_deadline_backwards"],
    "EveryWriteMovesTheDeadline": ["test_write_leaves_the_deadline_while_half_the_ttl_is_left"],
    "RenewalIsAnEvent": [
        "test_renewal_moves_the_deadline_and_nothing_else",
        "test_renewal_keeps_the_run",
    ],
    "ForgetsRenewals": [
        "test_renewal_moves_the_deadline_and_nothing_else",
        "test_renewed_run_is_not_claimed",
    ],
    "HalfAppends": ["test_lost_delivery_guard_leaves_the_run_alone"],
    "DropsTheDelivery": [
        "test_run_and_delivery_land_together",
        "test_every_end_puts_the_result_into_the_outbox",
    ],
    "ClaimsTwice": ["test_one_run_and_many_claims"],
    "ClaimsNewestFirst": ["test_longest_due_comes_first_and_limit_is_kept"],
    "ClaimsAnyKind": ["test_only_the_wanted_kinds_are_claimed"],
    "ClaimsEarly": [
        "test_nothing_due_grants_nothing",
        "test_held_run_is_due_at_its_deadline",
    ],
    "Starves": ["test_run_that_cannot_be_granted_is_set_aside"],
    "ForgetsWhatItSetAside": ["test_run_set_aside_by_hand_is_not_claimed"],
    "StoresText": ["test_event_bytes_come_back_exactly"],
    "ComparesLoosely": ["test_lookalike_ids_are_different_runs"],
    "LosesMicroseconds": ["test_stamps_keep_their_microseconds_and_zone"],
    "PagesOverlap": ["test_pages_of_runs_neither_skip_nor_repeat"],
    "ReadsOnlyOnePage": ["test_events_are_read_in_pages"],
    "ClaimsToReachFurther": ["test_cross_process_claim_is_enrolled_as_such"],
    "ForgetsEverything": [
        "test_everything_survives_reopening",
        "test_two_open_stores_see_each_other",
        "test_swaps_through_two_stores_have_one_winner",
    ],
}


class Results:
    """A pytest plugin: the tests of the inner run by how they went."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = re.split(r"::|\[", report.nodeid)[2]
        if report.when == "call" or report.failed:
            (self.failed if report.failed else self.passed).add(name)


def run_contract(name: str, tests: list[str]) -> Results:
    """Run these tests of the contract against one broken store, inside this very process."""
    results = Results()
    chosen = [f"{BROKEN_STORES}::Test{name}::{test}" for test in tests]
    options = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *chosen], plugins=[results])
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return results


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_contract_catches(name: str) -> None:
    tests = CAUGHT_BY[name]
    assert run_contract(name, tests).failed == set(tests)


def test_sound_store_passes_the_same_tests() -> None:
    # A second store is asked only of those that keep their data, and SQLite answers for them.
    second = set(CAUGHT_BY["ForgetsEverything"])
    every = sorted({test for tests in CAUGHT_BY.values() for test in tests} - second)
    results = run_contract("Sound", every)
    assert results.failed == set()
    assert results.passed == set(every)


def test_every_broken_store_is_tried() -> None:
    source = BROKEN_STORES.read_text()
    defined = set(re.findall(r"^class (\w+)\(Between\)", source, re.MULTILINE)) - {"Sound"}
    assert defined | {"ForgetsEverything"} == set(CAUGHT_BY)
