//! Groups of calls, and what watches them.

use tidings_proto::group::{Aggregate, Rule, Verdict};
use tidings_proto::stream::Retention;
use tidings_proto::time::StoreMillis;
use tidings_proto::trigger::Outcome;

use super::fixtures::{ALL, FAR, NOW, W1, begin, call_id, done, end, refused};
use crate::commit::{JoinGroup, Op, Refused, Watch};
use crate::record::{AggregateId, CallId, DueAggregate, GroupKey, NewAggregate};
use crate::store::Store;

const COMPLETED: Option<Outcome> = Some(Outcome::Completed);
const FAILED: Option<Outcome> = Some(Outcome::Failed);

fn key(principal: &str) -> GroupKey {
    GroupKey { principal: principal.to_owned(), name: "batch".to_owned() }
}

pub(super) fn join(n: u8) -> Op {
    join_at(n, "ann", 64, NOW)
}

fn join_at(n: u8, principal: &str, max_calls: u64, now: StoreMillis) -> Op {
    Op::JoinGroup(Box::new(JoinGroup { group: key(principal), call: call_id(n), max_calls, until: now + 1_000, now }))
}

fn aggregate(on: Option<Outcome>, rule: Rule) -> Aggregate {
    Aggregate { group: "batch".to_owned(), on, rule, deadline_ms: Some(500) }
}

/// Aggregate `n`, asked for by call 1, with a deadline half a second after `NOW`.
fn watch(n: u8, on: Option<Outcome>, rule: Rule) -> Op {
    watch_of(n, "ann", on, rule)
}

fn watch_of(n: u8, principal: &str, on: Option<Outcome>, rule: Rule) -> Op {
    Op::Watch(Box::new(Watch { new: new(n, principal, on, rule), now: NOW }))
}

fn new(n: u8, principal: &str, on: Option<Outcome>, rule: Rule) -> NewAggregate {
    NewAggregate {
        id: AggregateId([n; 16]),
        group: key(principal),
        call: call_id(1),
        aggregate: aggregate(on, rule),
        deadline: NOW + 500,
    }
}

pub(super) fn watch_all(n: u8, wanted: u64) -> Op {
    watch(n, COMPLETED, Rule::All(wanted))
}

fn tell(n: u8, verdict: Verdict) -> Op {
    Op::EndAggregate { id: AggregateId([n; 16]), verdict }
}

fn due(store: &dyn Store, now: StoreMillis) -> Vec<DueAggregate> {
    store.due_aggregates(now, ALL).expect("reads")
}

/// Which aggregates are due, and how they ended.
fn verdicts(store: &dyn Store, now: StoreMillis) -> Vec<(u8, Verdict)> {
    due(store, now).iter().map(|due| (due.new.id.0[0], due.verdict)).collect()
}

fn begin_all(store: &dyn Store, calls: impl IntoIterator<Item = u8>) {
    for n in calls {
        done(store, [begin(call_id(n), W1), join(n)]);
    }
}

pub(super) fn an_aggregate_is_met_by_the_last_call(store: &dyn Store) {
    begin_all(store, 1..=3);
    done(store, [watch_all(1, 2), watch(2, None, Rule::Any), watch(3, FAILED, Rule::Count(1))]);
    assert_eq!(due(store, NOW), []);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 500), "their deadline");
    done(store, [end(call_id(1), "completed")]);
    assert_eq!(verdicts(store, NOW), [(2, Verdict::Met)]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW), "at once");
    done(store, [end(call_id(2), "completed")]);
    assert_eq!(verdicts(store, NOW), [(1, Verdict::Met), (2, Verdict::Met)]);
    let calls: Vec<(CallId, _)> = vec![(call_id(1), COMPLETED), (call_id(2), COMPLETED), (call_id(3), None)];
    let met = DueAggregate { new: new(1, "ann", COMPLETED, Rule::All(2)), verdict: Verdict::Met, calls };
    assert_eq!(due(store, NOW)[0], met);
    assert_eq!(store.due_aggregates(NOW, 1).expect("reads").len(), 1);
    done(store, [end(call_id(3), "failed")]);
    assert_eq!(verdicts(store, NOW), [(1, Verdict::Met), (2, Verdict::Met), (3, Verdict::Met)]);
}

pub(super) fn an_aggregate_that_cannot_be_met_says_so(store: &dyn Store) {
    begin_all(store, 1..=2);
    done(store, [watch_all(1, 2), end(call_id(1), "cancelled")]);
    assert_eq!(verdicts(store, NOW), [(1, Verdict::Impossible)]);
    done(store, [end(call_id(2), "completed")]);
    assert_eq!(verdicts(store, NOW), [(1, Verdict::Impossible)], "what came of it stays");
}

pub(super) fn a_deadline_ends_what_was_not_met(store: &dyn Store) {
    begin_all(store, 1..=1);
    done(store, [watch_all(1, 2)]);
    assert_eq!(due(store, NOW + 499), []);
    assert_eq!(verdicts(store, NOW + 500), [(1, Verdict::Deadline)], "at its moment");
    // A call that ends before anybody looked makes it another end.
    done(store, [end(call_id(1), "failed")]);
    assert_eq!(refused(store, [tell(1, Verdict::Deadline)]), Refused::Unknown);
    done(store, [tell(1, Verdict::Impossible)]);
    assert_eq!(due(store, FAR), []);
}

pub(super) fn an_aggregate_ends_once(store: &dyn Store) {
    begin_all(store, 1..=2);
    done(store, [watch(1, None, Rule::Any)]);
    assert_eq!(refused(store, [tell(1, Verdict::Met)]), Refused::Unknown, "it is not met");
    assert_eq!(refused(store, [tell(9, Verdict::Met)]), Refused::Unknown, "there is none");
    done(store, [end(call_id(1), "completed")]);
    assert_eq!(refused(store, [tell(1, Verdict::Deadline)]), Refused::Unknown);
    done(store, [tell(1, Verdict::Met)]);
    assert_eq!(refused(store, [tell(1, Verdict::Met)]), Refused::Unknown);
    assert_eq!(due(store, FAR), []);
    assert_eq!(store.next_due().expect("reads"), None);
}

/// Every call of a batch brings the same config.
pub(super) fn the_same_aggregate_is_watched_once(store: &dyn Store) {
    begin_all(store, 1..=3);
    done(store, [watch_all(1, 2), watch_all(2, 2), watch_all(3, 3)]);
    done(store, [end(call_id(1), "completed"), end(call_id(2), "completed")]);
    assert_eq!(verdicts(store, NOW), [(1, Verdict::Met)]);
    done(store, [tell(1, Verdict::Met), watch_all(4, 2)]);
    assert_eq!(due(store, NOW), [], "also after its end");
    done(store, [end(call_id(3), "completed")]);
    assert_eq!(verdicts(store, NOW), [(3, Verdict::Met)]);
}

pub(super) fn a_group_takes_so_many_calls(store: &dyn Store) {
    done(store, [begin(call_id(1), W1), begin(call_id(2), W1), begin(call_id(3), W1)]);
    done(store, [join_at(1, "ann", 2, NOW), join_at(2, "ann", 2, NOW)]);
    assert_eq!(refused(store, [join_at(3, "ann", 2, NOW)]), Refused::Full);
    done(store, [join_at(3, "bob", 2, NOW)]);
    assert_eq!(refused(store, [join(4)]), Refused::Unknown, "no such call");
    done(store, [end(call_id(1), "completed")]);
    assert!(matches!(refused(store, [join(1)]), Refused::Ended(_)));
    let nobody = Watch { new: NewAggregate { call: call_id(4), ..new(1, "ann", None, Rule::Any) }, now: NOW };
    assert_eq!(refused(store, [Op::Watch(Box::new(nobody))]), Refused::Unknown);
}

pub(super) fn groups_are_of_one_principal(store: &dyn Store) {
    begin_all(store, 1..=1);
    done(store, [begin(call_id(2), W1), join_at(2, "bob", 64, NOW)]);
    done(store, [watch_of(1, "ann", None, Rule::Count(1)), watch_of(2, "bob", None, Rule::Count(1))]);
    done(store, [end(call_id(2), "completed")]);
    assert_eq!(verdicts(store, NOW), [(2, Verdict::Met)]);
    assert_eq!(due(store, NOW)[0].calls, [(call_id(2), COMPLETED)]);
}

pub(super) fn a_group_that_is_over_begins_anew(store: &dyn Store) {
    begin_all(store, 1..=1);
    done(store, [watch(1, None, Rule::Any), end(call_id(1), "completed"), tell(1, Verdict::Met)]);
    begin_all(store, 2..=2);
    done(store, [watch(2, None, Rule::Any)]);
    assert_eq!(due(store, NOW), [], "the call of the group before does not count");
    done(store, [end(call_id(2), "completed")]);
    assert_eq!(due(store, NOW)[0].calls, [(call_id(2), COMPLETED)]);
    // One that nobody watched is over when its time is.
    done(store, [tell(2, Verdict::Met), begin(call_id(3), W1), join(3), end(call_id(3), "completed")]);
    done(store, [begin(call_id(4), W1), join_at(4, "ann", 1, NOW + 1_000)]);
}

pub(super) fn calls_that_ended_before_are_counted(store: &dyn Store) {
    begin_all(store, 1..=2);
    done(store, [end(call_id(1), "completed")]);
    done(store, [watch_all(1, 2)]);
    assert_eq!(due(store, NOW), []);
    done(store, [watch(2, COMPLETED, Rule::Any)]);
    assert_eq!(verdicts(store, NOW), [(2, Verdict::Met)], "at once");
}

pub(super) fn a_refused_commit_takes_back_what_groups_saw(store: &dyn Store) {
    begin_all(store, 1..=2);
    done(store, [watch_all(1, 2)]);
    let wrong = || end(call_id(9), "completed");
    assert_eq!(refused(store, [end(call_id(1), "failed"), wrong()]), Refused::Unknown);
    assert_eq!(refused(store, [watch(2, None, Rule::Any), wrong()]), Refused::Unknown);
    done(store, [end(call_id(1), "completed"), end(call_id(2), "completed")]);
    assert_eq!(refused(store, [tell(1, Verdict::Met), wrong()]), Refused::Unknown);
    done(store, [tell(1, Verdict::Met)]);
    begin_all(store, 3..=3);
    assert_eq!(refused(store, [watch(3, None, Rule::Any), end(call_id(3), "failed"), wrong()]), Refused::Unknown);
    done(store, [watch(3, None, Rule::Any)]);
    assert_eq!(due(store, NOW), [], "and the group is a new one");
}

/// Over the routes of the call that asked for it an aggregate is told.
pub(super) fn a_call_is_kept_while_its_aggregate_is_watched(store: &dyn Store) {
    begin_all(store, 1..=2);
    done(store, [watch_all(1, 2), end(call_id(1), "completed")]);
    let retention = Retention::UNLIMITED;
    let trim = |now| Op::Trim { now, wall: now, retention, keep_finished_ms: 0 };
    done(store, [trim(NOW + 400)]);
    assert!(store.call(call_id(1)).expect("reads").is_some());
    done(store, [end(call_id(2), "completed"), trim(NOW + 400)]);
    assert!(store.call(call_id(2)).expect("reads").is_none(), "it is in the report all the same");
    assert_eq!(due(store, NOW)[0].calls, [(call_id(1), COMPLETED), (call_id(2), COMPLETED)]);
    done(store, [tell(1, Verdict::Met), trim(NOW + 400)]);
    assert!(store.call(call_id(1)).expect("reads").is_none());
}
