//! Calls: one outcome, timers, and whose worker is gone.

use bytes::Bytes;

use super::Make;
use super::fixtures::{
    ALL, FAR, Fresh, NOW, W1, W2, begin, call_id, done, end, enqueue, group, heartbeat, outcome, payloads, record,
    refused, shared, shared_and_close, stream_id, summaries, timer,
};
use crate::commit::{Done, Op, Refused};
use crate::record::{CallId, CallRecord, Sealed, TaskRecord, TaskTerms, TimerKind};
use crate::store::{DueTimer, Store};

pub(super) fn a_call_comes_back_as_it_was_given(store: &dyn Store) {
    let plain = record(call_id(1), W1);
    let odd = CallRecord {
        principal: String::new(),
        session: None,
        request_id: "-1".to_owned(),
        tool: "tab\tnul\0 😀".to_owned(),
        config: Sealed::default(),
        began_time: -1,
        ..record(call_id(2), W2)
    };
    for record in [&plain, &odd] {
        assert_eq!(done(store, [Op::BeginCall(Box::new(record.clone()))]), [Done::Nothing]);
    }
    assert_eq!(store.call(call_id(1)).expect("reads"), Some(plain));
    assert_eq!(store.call(call_id(2)).expect("reads"), Some(odd));
    assert_eq!(store.call(call_id(3)).expect("reads"), None);
}

pub(super) fn a_call_begins_once(store: &dyn Store) {
    done(store, [begin(call_id(1), W1)]);
    assert_eq!(refused(store, [begin(call_id(1), W2)]), Refused::Exists);
    done(store, [end(call_id(1), "completed")]);
    assert_eq!(refused(store, [begin(call_id(1), W1)]), Refused::Exists, "also after its end");
}

pub(super) fn the_first_outcome_wins(store: &dyn Store) {
    done(store, [begin(call_id(1), W1), begin(call_id(2), W1)]);
    let winner = outcome("failed", Some("server_lost"));
    done(store, [Op::EndCall { id: call_id(1), outcome: winner.clone(), at: NOW + 7, payload: None }]);
    for status in ["completed", "failed", "cancelled", "timeout"] {
        assert_eq!(refused(store, [end(call_id(1), status)]), Refused::Ended(winner.clone()));
    }
    let ended = store.call(call_id(1)).expect("reads").expect("there");
    assert_eq!(ended, CallRecord { outcome: Some(winner), ended_at: Some(NOW + 7), ..record(call_id(1), W1) });
    assert_eq!(store.call(call_id(2)).expect("reads").expect("there").outcome, None);
}

const TERMS: TaskTerms = TaskTerms { ttl_ms: 60_000, bound: true };

/// A task's end is kept with its row, byte for byte, whatever becomes of its events; a plain call's is not.
pub(super) fn a_task_keeps_how_it_ended(store: &dyn Store) {
    let begun = CallRecord { task: Some(TERMS.into()), ..record(call_id(1), W1) };
    done(store, [Op::BeginCall(Box::new(begun.clone())), begin(call_id(2), W1), begin(call_id(3), W1)]);
    assert_eq!(store.call(call_id(1)).expect("reads"), Some(begun));
    let open = TaskTerms { ttl_ms: 0, bound: false };
    assert_eq!(done(store, [Op::BecomeTask { call: call_id(2), terms: open }]), [Done::Nothing]);
    let payload = Bytes::from_static(b"{\"result\": 1.0}");
    for n in 1..=3 {
        let outcome = outcome("completed", None);
        done(store, [Op::EndCall { id: call_id(n), outcome, at: NOW, payload: Some(payload.clone()) }]);
    }
    let task = |n| store.call(call_id(n)).expect("reads").expect("there").task;
    assert_eq!(task(1), Some(TaskRecord { terms: TERMS, end: Some(payload.clone()) }));
    assert_eq!(task(2), Some(TaskRecord { terms: open, end: Some(payload) }));
    assert_eq!(task(3), None, "it never was a task");
}

pub(super) fn only_a_running_call_becomes_a_task(store: &dyn Store) {
    let become_task = |n, terms| Op::BecomeTask { call: call_id(n), terms };
    assert_eq!(refused(store, [become_task(1, TERMS)]), Refused::Unknown);
    done(store, [begin(call_id(1), W1), become_task(1, TERMS)]);
    let other = TaskTerms { ttl_ms: 5, bound: false };
    done(store, [become_task(1, other)]);
    assert_eq!(store.call(call_id(1)).expect("reads").expect("there").task, Some(other.into()), "the last terms count");
    done(store, [begin(call_id(2), W1), end(call_id(2), "cancelled")]);
    assert_eq!(refused(store, [become_task(2, TERMS)]), Refused::Ended(outcome("cancelled", None)));
    assert_eq!(store.call(call_id(2)).expect("reads").expect("there").task, None);
}

/// DESIGN section 4: a fired trigger exists if and only if its event does.
pub(super) fn a_losing_outcome_fires_nothing(store: &dyn Store) {
    done(store, [begin(call_id(1), W1), shared(stream_id(1), &super::fixtures::key("call"), &["progress"])]);
    let end_and_fire = |status: &str, n| {
        let event = shared_and_close(stream_id(9), &super::fixtures::key("call"), &[status], NOW);
        vec![event, enqueue(n, NOW), end(call_id(1), status)]
    };
    // In one order the stream is closed as well, in the other the outcome alone decides.
    let lost = [end(call_id(1), "failed"), enqueue(2, NOW)].to_vec();
    let answers = group(store, vec![end_and_fire("completed", 1), lost]);
    assert!(answers[0].is_ok());
    assert_eq!(answers[1], Err(Refused::Ended(outcome("completed", None))));
    assert_eq!(
        refused(store, [enqueue(2, NOW), end(call_id(1), "failed")]),
        Refused::Ended(outcome("completed", None))
    );
    assert_eq!(payloads(store, stream_id(1)), ["progress", "completed"]);
    assert_eq!(summaries(store).iter().map(|delivery| delivery.event_id.as_str()).collect::<Vec<_>>(), ["msg_1"]);
}

pub(super) fn what_is_no_call_cannot_end_or_be_timed(store: &dyn Store) {
    assert_eq!(refused(store, [end(call_id(1), "completed")]), Refused::Unknown);
    assert_eq!(refused(store, [timer(call_id(1), NOW)]), Refused::Unknown);
    done(store, [begin(call_id(2), W1), end(call_id(2), "cancelled")]);
    assert_eq!(refused(store, [timer(call_id(2), NOW)]), Refused::Ended(outcome("cancelled", None)));
}

fn due(call: CallId, due: i64) -> DueTimer {
    DueTimer { call, kind: TimerKind::Timeout, due }
}

pub(super) fn timers_come_oldest_first_when_due(store: &dyn Store) {
    for n in 1..=4 {
        done(store, [begin(call_id(n), W1)]);
    }
    done(store, [timer(call_id(1), NOW + 30), timer(call_id(2), NOW + 10), timer(call_id(3), NOW + 20)]);
    let timers = |now, limit| store.due_timers(now, limit).expect("reads");
    assert_eq!(timers(NOW + 9, ALL), []);
    assert_eq!(timers(NOW + 10, ALL), [due(call_id(2), NOW + 10)], "due at its moment");
    assert_eq!(timers(NOW + 29, ALL), [due(call_id(2), NOW + 10), due(call_id(3), NOW + 20)]);
    assert_eq!(timers(FAR, 2), [due(call_id(2), NOW + 10), due(call_id(3), NOW + 20)]);
    assert_eq!(timers(FAR, ALL).len(), 3);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 10));
    assert_eq!(timers(NOW + 10, ALL).len(), 1, "a timer stays until its call ends");
}

pub(super) fn the_last_timer_set_counts(store: &dyn Store) {
    done(store, [begin(call_id(1), W1), timer(call_id(1), NOW + 10)]);
    done(store, [timer(call_id(1), NOW + 50)]);
    assert_eq!(store.due_timers(FAR, ALL).expect("reads"), [due(call_id(1), NOW + 50)]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 50));
    done(store, [timer(call_id(1), NOW + 5)]);
    assert_eq!(store.due_timers(FAR, ALL).expect("reads"), [due(call_id(1), NOW + 5)]);
}

pub(super) fn an_outcome_clears_its_timers(store: &dyn Store) {
    done(store, [begin(call_id(1), W1), begin(call_id(2), W1)]);
    done(store, [timer(call_id(1), NOW + 10), timer(call_id(2), NOW + 20)]);
    done(store, [end(call_id(1), "completed")]);
    assert_eq!(store.due_timers(FAR, ALL).expect("reads"), [due(call_id(2), NOW + 20)]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 20));
    done(store, [end(call_id(2), "completed")]);
    assert_eq!(store.next_due().expect("reads"), None);
}

pub(super) fn next_due_is_the_earliest_of_timers_and_deliveries(store: &dyn Store) {
    assert_eq!(store.next_due().expect("reads"), None);
    done(store, [begin(call_id(1), W1), enqueue(1, NOW + 20)]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 20));
    done(store, [timer(call_id(1), NOW + 10)]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 10));
    done(store, [enqueue(2, NOW - 5)]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW - 5));
}

pub(super) fn a_timer_fires_once_for_each_time_it_is_due(store: &dyn Store) {
    let kind = TimerKind::Every(10);
    let fire = |due, next| Op::FireTimer { call: call_id(1), kind, due, next };
    assert_eq!(refused(store, [fire(NOW + 10, None)]), Refused::Unknown, "no such call");
    done(store, [begin(call_id(1), W1)]);
    assert_eq!(refused(store, [fire(NOW + 10, None)]), Refused::Unknown, "no such timer");
    done(store, [Op::SetTimer { call: call_id(1), kind, due: NOW + 10 }]);
    done(store, [fire(NOW + 10, Some(NOW + 20))]);
    assert_eq!(refused(store, [fire(NOW + 10, Some(NOW + 30))]), Refused::Unknown, "somebody else was faster");
    assert_eq!(store.due_timers(FAR, ALL).expect("reads"), [DueTimer { call: call_id(1), kind, due: NOW + 20 }]);
    done(store, [fire(NOW + 20, None)]);
    assert_eq!(store.due_timers(FAR, ALL).expect("reads"), []);
    assert_eq!(store.next_due().expect("reads"), None);
    done(store, [Op::SetTimer { call: call_id(1), kind, due: NOW + 10 }, end(call_id(1), "failed")]);
    assert_eq!(refused(store, [fire(NOW + 10, None)]), Refused::Ended(outcome("failed", None)));
}

pub(super) fn timers_of_each_kind_stand_beside_each_other(store: &dyn Store) {
    done(store, [begin(call_id(1), W1)]);
    let kinds = [TimerKind::Timeout, TimerKind::Elapsed(5), TimerKind::Elapsed(u64::MAX), TimerKind::Every(5)];
    let times = || kinds.into_iter().zip(NOW..);
    done(store, times().map(|(kind, due)| Op::SetTimer { call: call_id(1), kind, due }));
    let all: Vec<_> = times().map(|(kind, due)| DueTimer { call: call_id(1), kind, due }).collect();
    assert_eq!(store.due_timers(FAR, ALL).expect("reads"), all);
    done(store, [end(call_id(1), "completed")]);
    assert_eq!(store.due_timers(FAR, ALL).expect("reads"), []);
}

fn lost(store: &dyn Store, now: i64, limit: u32) -> Vec<CallId> {
    let mut ids: Vec<_> = store.lost_calls(now, limit).expect("reads").iter().map(|call| call.id).collect();
    ids.sort_unstable();
    ids
}

pub(super) fn calls_are_lost_when_their_workers_lease_ran_out(make: Make<'_>) {
    let fresh = Fresh::open(make);
    let store = &*fresh;
    done(store, [heartbeat(W1, NOW + 1_000), heartbeat(W2, NOW + 9_000)]);
    done(store, [begin(call_id(1), W1), begin(call_id(2), W1), begin(call_id(3), W2), begin(call_id(4), W1)]);
    done(store, [end(call_id(4), "completed")]);
    assert_eq!(lost(store, NOW + 500, ALL), []);
    assert_eq!(lost(store, NOW + 1_500, ALL), [call_id(1), call_id(2)], "those that have not ended, of that worker");
    assert_eq!(lost(store, NOW + 1_500, 1).len(), 1);
    let records = store.lost_calls(NOW + 1_500, ALL).expect("reads");
    assert!(records.contains(&record(call_id(1), W1)), "whole, with its config");
    let lost_it = outcome("failed", Some("server_lost"));
    done(store, [Op::EndCall { id: call_id(1), outcome: lost_it, at: NOW + 1_500, payload: None }]);
    assert_eq!(lost(store, NOW + 1_500, ALL), [call_id(2)]);
}

pub(super) fn a_heartbeat_renews_the_lease(make: Make<'_>) {
    let fresh = Fresh::open(make);
    let store = &*fresh;
    done(store, [heartbeat(W1, NOW + 1_000), begin(call_id(1), W1)]);
    assert_eq!(lost(store, NOW + 1_500, ALL), [call_id(1)]);
    done(store, [heartbeat(W1, NOW + 3_000)]);
    assert_eq!(lost(store, NOW + 1_500, ALL), []);
    assert_eq!(lost(store, NOW + 3_500, ALL), [call_id(1)]);
}

pub(super) fn calls_of_a_worker_that_left_are_lost_at_once(store: &dyn Store) {
    done(store, [begin(call_id(1), W1), begin(call_id(2), W2)]);
    assert_eq!(done(store, [Op::Leave { worker: W1 }]), [Done::Nothing]);
    assert_eq!(lost(store, NOW, ALL), [call_id(1)]);
    done(store, [Op::Leave { worker: W1 }]);
    assert_eq!(lost(store, NOW, ALL), [call_id(1)], "to leave twice is to leave");
}
