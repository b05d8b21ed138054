//! The list of all cases, and what makes tests of them.

use super::fixtures::Fresh;
use super::{Case, Needs};

/// Hands the list of cases to another macro. `store` cases get a store of their own in which two workers live, `make`
/// cases make what they need.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_cases {
    ($with:ident $arguments:tt) => {
        $crate::$with! { $arguments
            store {
                streams::a_created_stream_is_found_by_key_and_by_id
                streams::what_is_not_there_is_none
                streams::a_stream_is_created_once
                streams::claims_rise_and_go_on_at_the_head
                streams::a_new_claim_fences_the_old_one
                streams::numbers_must_follow_on_the_head
                streams::numbers_beyond_all_bounds_are_refused
                streams::chunks_of_one_append_must_follow_on_each_other
                streams::an_append_may_close_with_and_without_events
                streams::nothing_follows_a_close
                streams::a_fenced_writer_of_a_closed_stream_hears_closed
                streams::an_append_to_no_stream_is_refused
                streams::an_append_of_nothing_is_done
                streams::the_first_number_of_each_claim_is_kept
                streams::an_owner_that_left_is_gone
                streams::keys_are_whole_whatever_they_hold
                streams::one_name_in_two_scopes_is_two_streams
                streams::a_read_is_of_one_stream
                shared::shared_appends_are_numbered_in_the_commit
                shared::a_shared_append_fences_the_writer_and_goes_on_at_the_head
                shared::a_shared_append_may_close
                shared::a_shared_append_of_nothing_creates_the_stream
                keys::an_append_with_a_key_is_made_once
                keys::a_key_is_of_one_stream
                keys::a_repeated_key_fences_and_creates_nothing
                keys::a_closed_stream_knows_its_keys
                keys::keys_of_one_group_are_seen_by_each_other
                keys::a_refused_commit_leaves_no_key
                keys::a_key_goes_with_its_event
                commits::nothing_to_do_is_done
                commits::commits_of_a_group_see_those_before_them
                commits::operations_of_a_commit_see_those_before_them
                commits::a_refused_commit_leaves_the_others_of_its_group
                commits::a_refused_last_operation_takes_back_what_streams_saw
                commits::a_refused_last_operation_takes_back_what_calls_saw
                commits::a_refused_last_operation_takes_back_what_deliveries_saw
                commits::a_refused_last_operation_takes_back_what_workers_did
                commits::a_refused_last_operation_takes_back_what_retention_did
                commits::an_event_and_what_it_fires_are_one
                commits::both_durabilities_are_taken
                calls::a_call_comes_back_as_it_was_given
                calls::a_call_begins_once
                calls::the_first_outcome_wins
                calls::a_task_keeps_how_it_ended
                calls::only_a_running_call_becomes_a_task
                calls::a_losing_outcome_fires_nothing
                calls::what_is_no_call_cannot_end_or_be_timed
                calls::timers_come_oldest_first_when_due
                calls::the_last_timer_set_counts
                calls::an_outcome_clears_its_timers
                calls::next_due_is_the_earliest_of_timers_and_deliveries
                calls::calls_of_a_worker_that_left_are_lost_at_once
                calls::a_timer_fires_once_for_each_time_it_is_due
                calls::timers_of_each_kind_stand_beside_each_other
                groups::an_aggregate_is_met_by_the_last_call
                groups::an_aggregate_that_cannot_be_met_says_so
                groups::a_deadline_ends_what_was_not_met
                groups::an_aggregate_ends_once
                groups::the_same_aggregate_is_watched_once
                groups::a_group_takes_so_many_calls
                groups::groups_are_of_one_principal
                groups::a_group_that_is_over_begins_anew
                groups::calls_that_ended_before_are_counted
                groups::a_refused_commit_takes_back_what_groups_saw
                groups::a_call_is_kept_while_its_aggregate_is_watched
                deliveries::an_enqueued_delivery_waits_and_can_be_seen
                deliveries::a_lease_carries_what_was_enqueued
                deliveries::only_what_is_due_is_leased_oldest_due_first
                deliveries::a_leased_delivery_is_not_leased_again
                deliveries::tokens_rise_with_every_lease
                deliveries::a_settle_needs_the_token_of_the_lease
                deliveries::a_lease_that_ran_out_is_taken_over
                deliveries::a_late_settle_holds_if_nobody_took_over
                deliveries::a_worker_that_leaves_ends_its_leases_at_once
                deliveries::a_retry_waits_until_it_is_due
                deliveries::an_attempt_that_only_waited_does_not_count
                deliveries::final_states_stay
                deliveries::giving_up_a_route_and_trying_the_next_is_one
                deliveries::deliveries_are_listed_by_subject_and_state
                deliveries::deliveries_are_listed_by_principal
                deliveries::attempts_are_recorded_in_order
                deliveries::a_finished_delivery_keeps_what_was_enqueued
                deliveries::a_purge_takes_what_is_finished_and_asked_for
                outlets::only_who_offers_the_outlet_leases
                outlets::once_its_time_is_over_any_worker_leases
                outlets::a_retry_waits_for_the_outlet_again
                endpoints::an_endpoint_comes_to_be_when_it_is_named
                endpoints::everything_that_is_known_of_an_endpoint_is_kept
                endpoints::deliveries_wait_until_their_endpoint_is_verified
                endpoints::a_proof_that_ran_out_is_asked_for_again
                endpoints::a_disabled_endpoint_gives_up_what_waits
                endpoints::an_open_breaker_lets_a_probe_through_when_its_time_is_over
                endpoints::an_endpoint_has_its_slots_and_no_more
                endpoints::endpoints_for_which_nothing_speaks_share_their_slots
                endpoints::slots_that_are_scarce_are_spread
                endpoints::an_endpoint_whose_attempt_is_slow_gets_no_slot_that_is_scarce
                endpoints::a_line_that_was_served_goes_behind_the_others
                endpoints::a_rate_is_kept_and_waiting_for_it_is_no_attempt
                endpoints::a_host_goes_round_its_principals
                endpoints::a_wait_that_ended_is_told_whatever_the_endpoint
                endpoints::deliveries_of_a_key_go_out_one_after_the_other
                endpoints::unfinished_deliveries_of_a_principal_are_counted
                endpoints::endpoints_that_nobody_names_are_forgotten
                proofs::what_an_origin_publishes_is_kept_for_each_principal
                proofs::what_does_not_count_any_more_is_forgotten
                proofs::a_refused_commit_keeps_what_was_published_before
                batches::a_batch_is_due_with_its_first_and_stays_together
                batches::a_full_batch_goes_at_once
                batches::a_batch_has_its_bytes_and_no_more
                batches::other_settings_and_endpoints_are_other_batches
                batches::a_batch_is_one_attempt
                batches::what_is_left_of_a_batch_goes_on
                batches::a_batch_of_a_dead_worker_is_the_same_again
                batches::batches_of_a_key_go_out_one_after_the_other
                batches::what_waited_too_long_leaves_its_batch
                batches::a_batch_is_joined_with_its_commit_or_not_at_all
                batches::a_cursor_never_passes_what_is_undelivered
                reading::a_read_stops_after_so_many_events
                reading::a_read_stops_after_so_many_bytes
                reading::a_read_begins_in_the_chunk_that_holds_its_first_event
                reading::a_read_from_the_head_or_beyond_is_empty
                reading::a_read_from_before_the_earliest_begins_there
                reading::chunks_and_info_are_of_one_moment
                reading::a_tombstone_stands_over_its_range
                bytes::owned_events_come_back_byte_for_byte
                bytes::shared_events_come_back_byte_for_byte
                publishes::publishes_are_numbered_and_read_after_a_place
                publishes::the_publishes_log_is_bounded
                publishes::a_refused_commit_publishes_nothing
                retention::unlimited_keeps_everything
                retention::retention_by_count_is_exact
                retention::retention_by_bytes_takes_whole_chunks
                retention::retention_by_age_takes_whole_chunks
                retention::the_head_outlives_all_events
                retention::tombstones_go_as_events_do
                retention::a_closed_stream_goes_after_its_time
                retention::retention_reaches_every_stream
                total::all_streams_together_keep_so_many_events
                total::all_streams_together_keep_so_many_bytes
                total::closed_streams_go_first_but_for_their_last_event
                total::what_is_kept_is_counted_whatever_took_the_rest
                total::many_streams_are_taken_from
                retention::ended_calls_are_forgotten_and_running_ones_are_not
                retention::finished_deliveries_are_forgotten_and_waiting_ones_are_not
                retention::calls_of_a_forgotten_worker_stay_lost
            }
            make {
                calls::calls_are_lost_when_their_workers_lease_ran_out
                calls::a_heartbeat_renews_the_lease
                deliveries::deliveries_of_a_dead_worker_are_taken_over
                outlets::what_a_dead_worker_held_waits_for_the_outlet_again
                endpoints::slots_of_a_dead_worker_are_free
                outlets::an_offer_lives_as_long_as_its_worker
                reading::a_closed_store_says_so
                timeline::the_first_boot_stands_near_the_wall_clock
                timeline::one_boot_has_one_offset
                timeline::another_boot_never_runs_backward
                timeline::another_boot_begins_after_what_commits_named
                property::any_sequence_of_commits_does_what_the_model_does
            }
            shared {
                handles::handles_see_each_others_commits
                handles::changes_tell_of_other_handles_commits
                handles::fences_hold_between_handles
                handles::one_outcome_wins_between_handles
                handles::leases_hold_between_handles
                handles::handles_of_one_boot_share_the_timeline
                handles::closing_one_handle_leaves_the_other
                handles::shared_appends_of_two_handles_interleave
                handles::a_key_holds_between_handles
                publishes::handles_see_each_others_publishes
                total::what_all_handles_append_is_counted
            }
            durable {
                durable::everything_is_there_after_a_close
                endpoints::standings_are_there_after_a_close
                proofs::what_was_published_is_there_after_a_close
                durable::everything_is_there_without_a_close
                durable::numbers_go_on_where_they_were
                durable::keys_are_there_after_a_close
                durable::evicted_events_stay_gone_and_the_head_stays
                durable::the_timeline_goes_on
                durable::both_durabilities_are_there_after_a_close
                publishes::publishes_go_on_after_a_close
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __store_case_list {
    (() store { $($a:ident::$store:ident)* } make { $($b:ident::$make:ident)* }
        shared { $($c:ident::$shared:ident)* } durable { $($d:ident::$durable:ident)* }) => {
        vec![
            $(Case {
                name: stringify!($store),
                needs: Needs::Nothing,
                run: |make| super::$a::$store(&*Fresh::with_workers(make)),
            },)*
            $(Case { name: stringify!($make), needs: Needs::Nothing, run: super::$b::$make },)*
            $(Case { name: stringify!($shared), needs: Needs::Shared, run: super::$c::$shared },)*
            $(Case { name: stringify!($durable), needs: Needs::Durable, run: super::$d::$durable },)*
        ]
    };
}

/// Every case.
pub fn cases() -> Vec<Case> {
    crate::__store_cases!(__store_case_list())
}

/// The case of that name. Panics if there is none.
pub fn case(name: &str) -> Case {
    match cases().into_iter().find(|case| case.name == name) {
        Some(case) => case,
        None => panic!("the kit has no case {name:?}"),
    }
}

/// Makes one `#[test]` of each case of the [test kit](crate::testkit), in the module where it stands.
///
/// The first argument is an expression that makes a [`Harness`](crate::testkit::Harness) over an empty place; it is
/// evaluated for each test. Then come the abilities of the store, in this order: `shared`, `durable`. Tests of an ability
/// that is not named are ignored and say why; a test of its own fails unless exactly the abilities the store has are named.
#[macro_export]
macro_rules! store_tests {
    ($make:expr $(,)?) => { $crate::__store_cases!(__store_tests (($make) false false)); };
    ($make:expr, shared $(,)?) => { $crate::__store_cases!(__store_tests (($make) true false)); };
    ($make:expr, durable $(,)?) => { $crate::__store_cases!(__store_tests (($make) false true)); };
    ($make:expr, shared, durable $(,)?) => { $crate::__store_cases!(__store_tests (($make) true true)); };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __store_tests {
    (($make:tt $is_shared:tt $is_durable:tt)
        store { $($a:ident::$store:ident)* } make { $($b:ident::$own:ident)* }
        shared { $($c:ident::$shared:ident)* } durable { $($d:ident::$durable:ident)* }) => {
        $crate::__store_tests! { @group true $make "" $($store)* $($own)* }
        $crate::__store_tests! { @group $is_shared $make "not applicable: the store is of one process" $($shared)* }
        $crate::__store_tests! { @group $is_durable $make "not applicable: the store forgets when closed" $($durable)* }

        #[test]
        fn abilities_are_as_declared() {
            $crate::testkit::check_abilities(&|| Box::new($make), $is_shared, $is_durable);
        }
    };
    (@group true $make:tt $reason:literal $($name:ident)*) => {
        $(#[test]
        fn $name() {
            $crate::testkit::case(stringify!($name)).run(&|| Box::new($make));
        })*
    };
    (@group false $make:tt $reason:literal $($name:ident)*) => {
        $(#[test]
        #[ignore = $reason]
        fn $name() {
            $crate::testkit::case(stringify!($name)).run(&|| Box::new($make));
        })*
    };
}
