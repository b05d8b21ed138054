//! The kit finds what it is there to find: each broken store fails the cases that say what it broke.

mod broken;

use broken::{BrokenHarness, Fault, Tally};
use tidings_store::testkit::{Report, case, cases, check_abilities, run_all};

const RANDOM: &str = "any_sequence_of_commits_does_what_the_model_does";

fn report(fault: Fault) -> Report {
    run_all(|| BrokenHarness(fault, Tally::default()))
}

/// Each fault, and cases that must name it.
const FAULTS: &[(Fault, &[&str])] = &[
    (
        Fault::IgnoresFences,
        &[
            "a_new_claim_fences_the_old_one",
            "numbers_must_follow_on_the_head",
            "an_event_and_what_it_fires_are_one",
            RANDOM,
        ],
    ),
    (
        Fault::ForgetsToRollBack,
        &[
            "a_refused_last_operation_takes_back_what_streams_saw",
            "a_refused_last_operation_takes_back_what_calls_saw",
            "a_refused_last_operation_takes_back_what_deliveries_saw",
            "a_refused_last_operation_takes_back_what_workers_did",
            "a_refused_last_operation_takes_back_what_retention_did",
            "a_losing_outcome_fires_nothing",
            RANDOM,
        ],
    ),
    (Fault::RefusesTheGroup, &["commits_of_a_group_see_those_before_them", RANDOM]),
    (Fault::StopsAtARefusedCommit, &["a_refused_commit_leaves_the_others_of_its_group", RANDOM]),
    (Fault::LastOutcomeWins, &["the_first_outcome_wins", "a_losing_outcome_fires_nothing", RANDOM]),
    (
        Fault::ReusesTokens,
        &[
            "tokens_rise_with_every_lease",
            "a_lease_that_ran_out_is_taken_over",
            "a_settle_needs_the_token_of_the_lease",
            RANDOM,
        ],
    ),
    (Fault::LeasesEarly, &["only_what_is_due_is_leased_oldest_due_first", "a_retry_waits_until_it_is_due", RANDOM]),
    (Fault::IgnoresTheLimit, &["only_what_is_due_is_leased_oldest_due_first", RANDOM]),
    (Fault::CountsEverything, &["an_attempt_that_only_waited_does_not_count", RANDOM]),
    (Fault::JoinsKeys, &["keys_are_whole_whatever_they_hold", "one_name_in_two_scopes_is_two_streams", RANDOM]),
    (
        Fault::NormalisesPayloads,
        &["owned_events_come_back_byte_for_byte", "shared_events_come_back_byte_for_byte", RANDOM],
    ),
    (Fault::ForgetsTheEarliest, &["retention_by_count_is_exact", "the_head_outlives_all_events", RANDOM]),
    (Fault::ReadsPublishesTwice, &["publishes_are_numbered_and_read_after_a_place"]),
    (Fault::IgnoresPages, &["a_read_stops_after_so_many_events", "a_read_stops_after_so_many_bytes", RANDOM]),
    (
        Fault::FollowsTheWallClock,
        &[
            "one_boot_has_one_offset",
            "another_boot_never_runs_backward",
            "another_boot_begins_after_what_commits_named",
        ],
    ),
    (
        Fault::LosesNobody,
        &["calls_are_lost_when_their_workers_lease_ran_out", "calls_of_a_worker_that_left_are_lost_at_once", RANDOM],
    ),
    (Fault::KeepsTimers, &["an_outcome_clears_its_timers", RANDOM]),
    (Fault::ForgetsClaims, &["the_first_number_of_each_claim_is_kept", RANDOM]),
    (Fault::ForgetsKeys, &["an_append_with_a_key_is_made_once", "a_closed_stream_knows_its_keys", RANDOM]),
    (Fault::IgnoresClose, &["a_closed_store_says_so"]),
    (Fault::ClaimsToBeShared, &["handles_see_each_others_commits", "leases_hold_between_handles"]),
    (Fault::ClaimsToBeDurable, &["everything_is_there_after_a_close", "numbers_go_on_where_they_were"]),
];

#[test]
fn each_fault_is_found_by_the_case_that_names_it() {
    for (fault, expected) in FAULTS {
        let report = report(*fault);
        let failed: Vec<_> = report.failed.iter().map(|(name, _)| *name).collect();
        for name in *expected {
            assert!(failed.contains(name), "{fault:?} must fail {name}, fails {failed:?}");
        }
        let text = report.to_string();
        assert!(report.failed.iter().all(|(name, why)| !why.is_empty() && text.contains(name)), "{text}");
    }
}

#[test]
fn no_fault_fails_nothing_and_says_what_did_not_apply() {
    let report = report(Fault::None);
    assert!(report.failed.is_empty(), "{report}");
    assert_eq!(report.passed.len() + report.not_applicable.len(), cases().len());
    let reason = |name| report.not_applicable.iter().find(|(case, _)| *case == name).map(|(_, reason)| *reason);
    assert_eq!(reason("handles_see_each_others_commits"), Some("the store is of one process"));
    assert_eq!(reason("everything_is_there_after_a_close"), Some("the store forgets when it is closed"));
    assert!(!report.passed.contains(&"handles_see_each_others_commits"));
}

#[test]
fn names_of_cases_are_different() {
    let mut names: Vec<_> = cases().iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases().len());
}

#[test]
#[should_panic(expected = "not applicable: the store is of one process")]
fn a_case_that_does_not_apply_never_passes() {
    case("handles_see_each_others_commits").run(&|| Box::new(BrokenHarness(Fault::None, Tally::default())));
}

#[test]
#[should_panic(expected = "`shared` is declared exactly if")]
fn a_shared_store_must_be_declared() {
    check_abilities(&|| Box::new(BrokenHarness(Fault::ClaimsToBeShared, Tally::default())), false, false);
}

#[test]
#[should_panic(expected = "`durable` is declared exactly if")]
fn a_store_that_forgets_must_not_be_declared_durable() {
    check_abilities(&|| Box::new(BrokenHarness(Fault::None, Tally::default())), false, true);
}

/// Random scripts are worth something only if they reach everything: every operation done, every refusal.
#[test]
fn random_scripts_reach_every_operation_and_every_refusal() {
    let tally = Tally::default();
    let shared = tally.clone();
    case(RANDOM).run(&move || Box::new(BrokenHarness(Fault::None, shared.clone())));
    let tally = tally.lock().expect("whole");
    for name in [
        "Create",
        "Claim",
        "Append",
        "AppendShared",
        "BeginCall",
        "EndCall",
        "BecomeTask",
        "Enqueue",
        "Lease",
        "LeaseOutlet",
        "Settle",
        "SetTimer",
        "Heartbeat",
        "Leave",
        "Trim",
        "refused Exists",
        "refused Unknown",
        "refused Fenced",
        "refused Closed",
        "refused Ended",
        "refused LostLease",
    ] {
        assert!(tally.get(name).is_some_and(|times| *times >= 5), "{name} is reached: {tally:?}");
    }
}
