"""The contract can fail: each store that breaks one rule is caught by the test of that rule.

A contract that every store passes would prove nothing. The broken stores are wrappers around a
sound one, so that what fails is the rule they break.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BROKEN_STORES = Path(__file__).with_name("broken_stores.py")
BROKEN_PRUNERS = Path(__file__).with_name("broken_pruners.py")
BROKEN_HISTORIES = Path(__file__).with_name("broken_histories.py")

#: Which tests must notice which broken store.
CAUGHT_BY = {
    "IgnoresVersion": [
        "test_stale_version_is_refused_without_trace",
        "test_run_is_created_only_once",
        "test_concurrent_swaps_at_one_version_have_one_winner",
    ],
    "IgnoresTheHead": [
        "test_another_history_of_the_same_length_is_refused",
        "test_delivery_with_another_history_of_the_same_length_is_refused",
    ],
    "IgnoresTheEpoch": ["test_grant_of_an_earlier_epoch_leaves_no_trace"],
    "KeepsTheEpoch": [
        "test_every_grant_is_of_the_present_epoch",
        "test_every_claim_is_of_the_present_epoch",
        "test_outsiders_end_of_a_run_is_of_the_present_epoch",
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
    "ClaimsDropTheDelivery": ["test_run_that_is_ended_instead_is_passed_over"],
    "Starves": ["test_run_that_cannot_be_granted_is_set_aside"],
    "ForgetsWhatItSetAside": ["test_run_set_aside_by_hand_is_not_claimed"],
    "StoresText": ["test_event_bytes_come_back_exactly"],
    "ComparesLoosely": ["test_lookalike_ids_are_different_runs"],
    "LosesMicroseconds": ["test_stamps_keep_their_microseconds_and_zone"],
    "PagesOverlap": ["test_pages_of_runs_neither_skip_nor_repeat"],
    "ReadsOnlyOnePage": ["test_events_are_read_in_pages"],
    "IgnoresTheDeliverysVersion": [
        "test_lost_version_leaves_no_trace",
        "test_of_many_who_try_one_sends",
    ],
    "DeliversEarly": [
        "test_delivery_is_due_from_its_instant_on",
        "test_attempt_is_not_due_before_it_has_run_out",
    ],
    "DeliversLatestFirst": ["test_longest_due_come_first_up_to_the_limit"],
    "IgnoresRefs": ["test_only_those_with_a_ref_that_is_asked_for"],
    "IgnoresExcludedRefs": ["test_none_with_a_ref_that_is_excluded"],
    "ForgetsDeliveriesSetAside": [
        "test_delivery_that_was_set_aside_is_listed_and_comes_back",
        "test_setting_aside_changes_nothing_else",
    ],
    "KeepsDeliveriesSetAside": ["test_delivery_that_was_set_aside_is_listed_and_comes_back"],
    "ChangesWhatItSetsAside": ["test_setting_aside_changes_nothing_else"],
    "AdvancesWithoutAnEvent": [
        "test_every_field_comes_back_after_an_attempt",
        "test_of_many_who_try_one_sends",
        "test_attempt_and_report_whose_reply_is_lost_are_written_once",
    ],
    "AdvancesWithoutTheRow": [
        "test_every_field_comes_back_after_an_attempt",
        "test_nobody_else_sends_while_one_does",
        "test_unreported_attempt_is_unknown_before_it_is_repeated",
    ],
    "DropsAField": [
        "test_every_field_comes_back_after_an_attempt",
        "test_trying_since_begins_anew_when_somebody_asked",
    ],
    "ListsDeliveriesTwice": ["test_pages_of_deliveries"],
    "ListsOthersForAttention": ["test_pages_of_deliveries"],
    "ClaimsToReachFurther": ["test_cross_process_claim_is_enrolled_as_such"],
    "ForgetsEverything": [
        "test_everything_survives_reopening",
        "test_two_open_stores_see_each_other",
        "test_swaps_through_two_stores_have_one_winner",
        "test_delivery_survives_reopening",
        "test_attempts_through_two_stores_have_one_winner",
    ],
}
#: The same for what breaks a rule of histories or of exclusion.
HISTORIES_CAUGHT_BY = {
    "WalksByLength": ["test_everything_is_walked_in_the_order_of_bytes"],
    "WalksOnWithTheNextStream": ["test_walk_goes_on_from_any_place"],
    "DividesNothing": ["test_streams_divide_a_journal"],
    "ImagesTellDeadlines": ["test_image_leaves_out_what_no_event_tells"],
    "ImagesOverlookTheRest": ["test_image_differs_where_the_record_does"],
    "ImagesGoTooFar": ["test_images_come_in_pages"],
    "RepairsWhatMovedOn": ["test_row_that_moved_on_is_left_alone"],
    "RepairsNothing": [
        "test_wrong_row_is_put_right",
        "test_missing_row_is_made_and_due",
        "test_delivery_is_put_right",
    ],
    "RepairsOverDeadlines": ["test_repair_leaves_a_deadline_and_a_due_time"],
    "RepairsAreNotDue": ["test_missing_row_is_made_and_due"],
    "RecreatesWhatIsThere": ["test_what_is_there_is_not_made_anew"],
    "SaysItPublished": ["test_publication_at_another_version_leaves_no_trace"],
    "PublishesByHalves": [
        "test_publication_at_another_version_leaves_no_trace",
        "test_what_reading_raises_is_passed_on",
    ],
    "PublishesNoRows": [
        "test_published_run_is_here_as_it_was_there",
        "test_published_stream_is_gone_on_with",
    ],
    "PublishesNothingDue": ["test_published_run_is_due_as_its_events_say"],
    "PublishesWhatItCouldRead": ["test_what_reading_raises_is_passed_on"],
    "SendsWhatIsHeld": ["test_published_delivery_waits_or_is_due"],
    "PublishesRunsOnly": ["test_stream_without_a_row_is_published"],
    "HoldsNothing": ["test_second_holder_is_refused_at_once"],
    "HoldsForEver": ["test_name_is_free_after_the_block"],
    "HoldsOneForAll": ["test_names_do_not_exclude_one_another"],
    "HoldsAnyName": ["test_odd_names_are_refused"],
    "HoldsOnceClosed": ["test_closed_store_holds_nothing"],
}

#: The same for stores that prune wrongly.
PRUNING_CAUGHT_BY = {
    "JudgesByAge": ["test_it_counts_when_a_run_ended_not_when_it_began"],
    "OverlooksChildren": ["test_what_holds_a_run_is_told"],
    "TellsThePlaceOfTheRunAlone": ["test_what_holds_a_run_is_told"],
    "LeavesDeliveries": ["test_run_goes_whole"],
    "LeavesEvents": ["test_run_goes_whole", "test_id_is_taken_for_good"],
    "ForgetsThePruned": [
        "test_tombstone_answers_for_the_run",
        "test_id_is_taken_for_good",
        "test_start_and_prune_at_once",
    ],
    "OverlooksTheAuditVersion": ["test_lost_audit_version_leaves_no_trace"],
    "HandsOutPositionsAgain": ["test_positions_are_never_handed_out_again"],
    "ListsTombstonesByStream": ["test_tombstones_are_listed_in_their_order"],
    "TellsTheFirstTombstone": ["test_tombstones_from_elsewhere"],
    "LetsAnyRunBack": ["test_only_the_very_run_comes_back"],
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


def run_contract(name: str, tests: list[str], file: Path = BROKEN_STORES) -> Results:
    """Run these tests of the contract against one broken store, inside this very process."""
    results = Results()
    chosen = [f"{file}::Test{name}::{test}" for test in tests]
    options = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *chosen], plugins=[results])
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return results


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_contract_catches(name: str) -> None:
    tests = CAUGHT_BY[name]
    assert run_contract(name, tests).failed == set(tests)


@pytest.mark.parametrize("name", PRUNING_CAUGHT_BY)
def test_contract_catches_who_prunes_wrongly(name: str) -> None:
    tests = PRUNING_CAUGHT_BY[name]
    assert run_contract(name, tests, BROKEN_PRUNERS).failed == set(tests)


@pytest.mark.parametrize("name", HISTORIES_CAUGHT_BY)
def test_contract_of_histories_catches(name: str) -> None:
    tests = HISTORIES_CAUGHT_BY[name]
    assert run_contract(name, tests, BROKEN_HISTORIES).failed == set(tests)


def test_sound_history_passes_the_same_tests() -> None:
    every = sorted({test for tests in HISTORIES_CAUGHT_BY.values() for test in tests})
    results = run_contract("SoundHistory", every, BROKEN_HISTORIES)
    assert results.failed == set()
    assert results.passed == set(every)


def test_sound_store_passes_the_same_tests() -> None:
    # A second store is asked only of those that keep their data, and SQLite answers for them.
    second = set(CAUGHT_BY["ForgetsEverything"])
    every = sorted({test for tests in CAUGHT_BY.values() for test in tests} - second)
    results = run_contract("Sound", every)
    assert results.failed == set()
    assert results.passed == set(every)


def test_every_broken_store_is_tried() -> None:
    source = BROKEN_STORES.read_text()
    defined = set(re.findall(r"^class (\w+)\((?!RunStore|Broken)", source, re.MULTILINE))
    defined -= {"Raisable", "Sound", "Asking"}
    assert defined | {"ForgetsEverything"} == set(CAUGHT_BY)
    pruners = re.findall(r"^class (\w+)\(MemoryStore", BROKEN_PRUNERS.read_text(), re.MULTILINE)
    assert set(pruners) == set(PRUNING_CAUGHT_BY)
    source = BROKEN_HISTORIES.read_text()
    defined = set(re.findall(r"^class (\w+)\(SoundHistory\)", source, re.MULTILINE))
    assert defined == set(HISTORIES_CAUGHT_BY)
