"""Which tests of the contract must notice which broken store, by the file that has it."""

from __future__ import annotations

#: By the name of a broken store.
Caught = dict[str, list[str]]

STORES: Caught = {
    "IgnoresVersion": [
        "test_stale_version_is_refused_without_trace",
        "test_run_is_created_only_once",
        "test_concurrent_swaps_at_one_version_have_one_winner",
        "test_live_guard_does_not_excuse_a_stale_version",
        "test_lost_run_guard_leaves_the_delivery_alone",
        "test_next_version_of_an_unknown_run_is_refused",
        "test_version_that_is_not_there_yet_is_refused",
    ],
    "IgnoresTheHead": [
        "test_another_history_of_the_same_length_is_refused",
        "test_delivery_with_another_history_of_the_same_length_is_refused",
        "test_same_token_of_another_grant_is_a_conflict",
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
        "test_lost_lease_guard_leaves_both_alone",
        "test_no_guard_holds_where_nobody_holds_the_run",
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
        "test_attempts_tokens_and_grants_agree",
        "test_checkpoint_that_landed_counts_though_the_run_was_taken_over",
        "test_checkpoint_that_never_arrived_is_lost_with_the_lease",
        "test_expired_lease_is_taken_over",
        "test_first_loss_latches",
        "test_only_a_live_lease_is_adopted",
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
        "test_gate_asks_the_store_only_when_trust_has_run_out",
        "test_helper_lives_by_the_holders_renewals",
        "test_renewals_and_writes_do_not_disturb_one_another",
    ],
    "HalfAppends": ["test_lost_delivery_guard_leaves_the_run_alone"],
    "DropsTheDelivery": [
        "test_run_and_delivery_land_together",
        "test_every_end_puts_the_result_into_the_outbox",
        "test_error_that_tells_who_is_sending",
        "test_requested_delivery_is_read_back_equal",
        "test_sending_never_touches_the_run",
        "test_unknown_delivery_cannot_be_advanced",
        "test_what_is_sent_is_the_end_of_the_run",
    ],
    "ClaimsTwice": [
        "test_one_run_and_many_claims",
        "test_next_append_puts_a_run_back",
        "test_run_beyond_a_limit_is_set_aside",
    ],
    "ClaimsNewestFirst": [
        "test_longest_due_comes_first_and_limit_is_kept",
        "test_abandoned_runs_queue_up_with_the_others",
        "test_ledger_claims_one_or_many",
    ],
    "ClaimsAnyKind": ["test_only_the_wanted_kinds_are_claimed"],
    "ClaimsEarly": [
        "test_nothing_due_grants_nothing",
        "test_held_run_is_due_at_its_deadline",
        "test_claimed_run_is_granted_as_by_append",
        "test_released_run_is_due_again",
    ],
    "ClaimsDropTheDelivery": ["test_run_that_is_ended_instead_is_passed_over"],
    "Starves": ["test_run_that_cannot_be_granted_is_set_aside"],
    "ForgetsWhatItSetAside": ["test_run_set_aside_by_hand_is_not_claimed"],
    "StoresText": ["test_event_bytes_come_back_exactly"],
    "ComparesLoosely": ["test_lookalike_ids_are_different_runs"],
    "LosesMicroseconds": ["test_stamps_keep_their_microseconds_and_zone"],
    "PagesOverlap": [
        "test_pages_of_runs_neither_skip_nor_repeat",
        "test_runs_are_filtered_by_status_and_kind",
    ],
    "ReadsOnlyOnePage": [
        "test_events_are_read_in_pages",
        "test_retrying_writers_leave_contiguous_versions",
    ],
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
        "test_stream_that_is_past_its_row_is_refused",
    ],
    "AdvancesWithoutTheRow": [
        "test_every_field_comes_back_after_an_attempt",
        "test_nobody_else_sends_while_one_does",
        "test_unreported_attempt_is_unknown_before_it_is_repeated",
        "test_claim_that_was_given_up_while_its_reply_was_lost_is_not_ours",
        "test_claim_whose_reply_was_lost_is_ours_when_asked_again",
        "test_late_failure_of_an_old_attempt_changes_nothing",
        "test_late_success_is_a_success",
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

ANSWERS: Caught = {
    "ReadsFromAReplica": [
        "test_append_at_the_version_is_accepted",
        "test_created_run_is_read_back_equal",
        "test_grant_whose_reply_was_lost_ends_in_one_holder",
        "test_late_repeat_of_a_resume_does_not_resume_again",
        "test_runs_are_listed_in_the_order_of_creation",
    ],
    "ForgetsWhoHolds": [
        "test_live_foreign_lease_is_refused",
        "test_outside_failure_spares_a_live_holder",
    ],
    "TellsDeadlinesLate": [
        "test_grant_lasts_ttl_from_the_instant_of_the_append",
        "test_lease_lasts_a_minute_by_default",
        "test_takeover_race_through_ledgers",
        "test_write_moves_the_deadline_when_less_than_half_is_left",
    ],
    "TakesUnknownForDamaged": [
        "test_unknown_delivery_reads_as_nothing",
        "test_unknown_invocation_id_is_refused",
        "test_unknown_run_is_not_found",
        "test_unknown_run_reads_as_nothing",
    ],
    "IgnoresTheStream": ["test_without_a_delivery_ref_nothing_is_delivered"],
    "BuriesTheLiving": ["test_run_that_is_not_there_was_not_pruned"],
    "TellsAnotherTime": ["test_without_a_given_instant_the_store_judges_by_its_own_clock"],
    "ClaimsLate": [
        "test_ledger_claims_an_abandoned_run_with_its_checkpoint",
        "test_run_is_due_from_its_available_at_on",
    ],
    "RenewsWhatNobodyHolds": [
        "test_deadline_ends_with_the_lease",
        "test_emptied_store_is_a_loss",
        "test_renewal_of_a_run_nobody_holds_is_unknown",
    ],
    "ReachesEverywhere": ["test_declared_atomicity_is_one_of_the_two"],
    "ClosesOnce": ["test_closing_twice_is_closing_once"],
}

WRITES: Caught = {
    "WritesTwice": [
        "test_checkpoint_is_written_exactly_once",
        "test_completion_is_written_exactly_once",
        "test_helpers_at_once_all_land",
        "test_holder_ends_what_its_helper_has_moved",
        "test_live_guard_holds_until_the_deadline",
        "test_no_two_claims_get_the_same_run",
        "test_of_two_restores_one_goes_on",
        "test_old_commands_are_still_resolved",
        "test_open_write_is_settled_before_the_next_one",
        "test_operator_command_that_keeps_getting_lost_can_be_repeated",
        "test_operator_command_that_never_arrived_is_sent_again",
        "test_resumed_run_can_be_acquired",
        "test_suspending_otherwise_is_refused",
        "test_what_stays_open_is_reported_as_unknown",
    ],
    "WritesWhateverComes": [
        "test_acquiring_again_fences_the_older_handle",
        "test_cancel_and_complete_race_to_one_end",
        "test_cancel_fences_the_helper",
        "test_cancel_fences_the_holder",
        "test_rewound_store_is_a_loss",
        "test_start_converges",
        "test_start_race_makes_one_run",
        "test_takeover_fences_holder_and_helper",
        "test_takeover_race_has_one_winner",
        "test_trying_again_is_bounded",
    ],
    "WritesTheLastEventOnly": [
        "test_adopted_lease_writes_as_the_holder",
        "test_create_race_through_ledgers",
        "test_last_decision_queues_the_run_once",
        "test_letting_go_of_an_adopted_lease_keeps_the_run",
        "test_lost_reply_beside_a_helper_is_written_once",
        "test_request_lost_while_a_helper_writes_is_sent_again",
        "test_restore_resumes_and_grants_in_one_append",
        "test_several_events_land_together",
    ],
    "JudgesTheNewRow": [
        "test_block_left_unfinished_releases",
        "test_claim_whose_reply_was_lost_comes_back_by_expiry",
        "test_completion_converges",
        "test_decisions_converge",
        "test_ended_run_is_no_loss_of_the_lease",
        "test_lease_that_may_have_been_given_back_is_not_trusted",
        "test_operator_command_that_landed_is_found",
        "test_release_is_picked_up_without_a_new_attempt",
        "test_released_handle_writes_no_more",
    ],
    "KeepsDeadlines": [
        "test_no_event_after_a_terminal_one",
        "test_suspended_and_ended_runs_are_never_due",
        "test_suspended_run_needs_no_holder",
    ],
    "RefusesNewTokens": ["test_holder_that_knows_of_no_new_epoch_ends_its_run"],
    "RefusesEarlierTokens": ["test_holder_goes_on_under_its_token"],
    "RaisesToTheNextEpoch": ["test_epoch_rises_by_one_and_with_its_event"],
}

HISTORIES: Caught = {
    "WalksByLength": ["test_everything_is_walked_in_the_order_of_bytes"],
    "WalksOnWithTheNextStream": ["test_walk_goes_on_from_any_place"],
    "DividesNothing": ["test_streams_divide_a_journal"],
    "ImagesTellDeadlines": ["test_image_leaves_out_what_no_event_tells"],
    "ImagesOverlookTheRest": ["test_image_differs_where_the_record_does"],
    "ImagesGoTooFar": ["test_images_come_in_pages"],
    "RepairsWhatMovedOn": ["test_row_that_moved_on_is_left_alone"],
    "RepairsNothing": [
        "test_delivery_is_put_right",
        "test_missing_row_is_made_and_due",
        "test_wrong_row_is_put_right",
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
    "TellsNoHeads": ["test_image_of_a_sound_row_is_that_of_its_record"],
    "LooksBeforeItHolds": ["test_of_many_one_holds_the_name"],
}

PRUNERS: Caught = {
    "JudgesByAge": ["test_it_counts_when_a_run_ended_not_when_it_began"],
    "OverlooksChildren": ["test_what_holds_a_run_is_told"],
    "TellsThePlaceOfTheRunAlone": ["test_what_holds_a_run_is_told"],
    "LeavesDeliveries": ["test_run_goes_whole"],
    "LeavesEvents": ["test_id_is_taken_for_good", "test_run_goes_whole"],
    "ForgetsThePruned": [
        "test_id_is_taken_for_good",
        "test_start_and_prune_at_once",
        "test_tombstone_answers_for_the_run",
    ],
    "OverlooksTheAuditVersion": ["test_lost_audit_version_leaves_no_trace"],
    "HandsOutPositionsAgain": ["test_positions_are_never_handed_out_again"],
    "ListsTombstonesByStream": ["test_tombstones_are_listed_in_their_order"],
    "TellsTheFirstTombstone": ["test_tombstones_from_elsewhere"],
    "LetsAnyRunBack": [
        "test_only_the_very_run_comes_back",
        "test_run_does_not_come_back_where_another_one_was",
    ],
    "EndsAtTheCut": ["test_only_what_has_ended_before_the_cut_is_found"],
    "PagesByTimeAlone": ["test_pages_of_ended_runs_neither_skip_nor_repeat"],
    "RemovesWhatStays": ["test_nothing_is_written_where_nothing_may_go"],
    "LeavesNoTombstone": ["test_prunes_at_once_remove_each_run_once"],
}

STRANGERS: Caught = {
    "KeepsWhatWasUndone": [
        "test_publication_at_another_version_leaves_no_trace",
        "test_what_reading_raises_is_passed_on",
    ],
    "SeesTheSamePast": ["test_create_race_has_one_winner"],
    "KeepsItsOwnFile": [
        "test_everything_survives_reopening",
        "test_two_open_stores_see_each_other",
    ],
    "ReadsByLength": [
        "test_everything_is_walked_in_the_order_of_bytes",
        "test_images_come_in_pages",
    ],
    "ScansFromTheKeyOn": ["test_images_come_in_pages", "test_pages_of_deliveries"],
    "TakesDamagedForMissing": [
        "test_damaged_delivery_is_named_and_set_aside",
        "test_damaged_record_is_named_and_set_aside",
    ],
    "RemembersTheEpoch": [
        "test_every_grant_is_of_the_present_epoch",
        "test_store_that_was_open_before_grants_in_the_new_epoch",
    ],
    "HoldsHereOnly": ["test_second_store_is_refused"],
    "HoldsOnceClosed": ["test_closed_store_holds_nothing"],
}

#: By the file, from the folder of the tests.
CAUGHT_BY: dict[str, Caught] = {
    "contract/broken_stores.py": STORES,
    "contract/broken_answers.py": ANSWERS,
    "contract/broken_writes.py": WRITES,
    "contract/broken_histories.py": HISTORIES,
    "contract/broken_pruners.py": PRUNERS,
    "strangers/broken_blobs.py": STRANGERS,
}
