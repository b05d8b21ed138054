//! A commit is whole or not at all, and alone in that among its group.

use tidings_proto::stream::Retention;

use super::fixtures::{
    FAR, NOW, W1, W2, World, append, append_and_close, begin, call_id, chunk, claim, create, done, end, enqueue, group,
    heartbeat, info, key, lease_one, lease_op, outcome, payloads, refused, settle, settle_op, shared, shared_and_close,
    stream_id, summaries, timer,
};
use crate::commit::{Commit, Done, Durability, Op, Refused};
use crate::record::DeliveryState;
use crate::store::Store;

/// Refused whatever came before it.
fn never() -> Op {
    append(stream_id(0xee), 1, vec![])
}

pub(super) fn nothing_to_do_is_done(store: &dyn Store) {
    assert!(store.commit(&[]).is_empty());
    assert_eq!(group(store, vec![vec![], vec![]]), [Ok(vec![]), Ok(vec![])]);
}

pub(super) fn commits_of_a_group_see_those_before_them(store: &dyn Store) {
    let a = stream_id(1);
    let answers = group(
        store,
        vec![
            vec![create(a, &key("a"), W1)],
            vec![append(a, 1, vec![chunk(0, &["0", "1"])])],
            vec![create(stream_id(2), &key("a"), W1)],
            vec![shared(stream_id(2), &key("a"), &["2"])],
            vec![append(a, 1, vec![chunk(2, &["fenced"])])],
            vec![begin(call_id(1), W1)],
            vec![end(call_id(1), "completed")],
            vec![end(call_id(1), "failed")],
        ],
    );
    let epoch = info(store, &key("a")).epoch;
    assert_eq!(
        answers,
        [
            Ok(vec![Done::Nothing]),
            Ok(vec![Done::Nothing]),
            Err(Refused::Exists),
            Ok(vec![Done::Appended { stream: a, epoch, claim: 2, first_seq: 2 }]),
            Err(Refused::Fenced { claim: 2, next_seq: 3 }),
            Ok(vec![Done::Nothing]),
            Ok(vec![Done::Nothing]),
            Err(Refused::Ended(outcome("completed", None))),
        ]
    );
    assert_eq!(payloads(store, a), ["0", "1", "2"]);
}

pub(super) fn operations_of_a_commit_see_those_before_them(store: &dyn Store) {
    let a = stream_id(1);
    let answers = done(
        store,
        [
            create(a, &key("a"), W1),
            append(a, 1, vec![chunk(0, &["0"])]),
            append(a, 1, vec![chunk(1, &["1"])]),
            shared(stream_id(2), &key("a"), &["2"]),
            claim(stream_id(2), &key("a"), W2),
            append_and_close(a, 3, vec![chunk(3, &["3"])], NOW),
            begin(call_id(1), W1),
            timer(call_id(1), NOW),
            enqueue(1, NOW),
            lease_op(W1, NOW, NOW + 10, 5),
            end(call_id(1), "completed"),
        ],
    );
    assert!(matches!(answers[3], Done::Appended { claim: 2, first_seq: 2, .. }), "{:?}", answers[3]);
    assert!(matches!(answers[4], Done::Claimed(claimed) if claimed.claim == 3 && claimed.next_seq == 3));
    assert!(matches!(&answers[9], Done::Leased(leased) if leased.len() == 1), "{:?}", answers[9]);
    assert_eq!(payloads(store, a), ["0", "1", "2", "3"]);
    assert_eq!(store.due_timers(FAR, 5).expect("reads"), []);
}

pub(super) fn a_refused_commit_leaves_the_others_of_its_group(store: &dyn Store) {
    let a = stream_id(1);
    let answers = group(
        store,
        vec![
            vec![create(a, &key("a"), W1), append(a, 1, vec![chunk(0, &["0"])])],
            vec![append(a, 1, vec![chunk(1, &["gone"])]), begin(call_id(1), W1), enqueue(1, NOW), never()],
            vec![append(a, 1, vec![chunk(1, &["1"])]), begin(call_id(2), W1), enqueue(2, NOW)],
        ],
    );
    assert_eq!(answers, [Ok(vec![Done::Nothing; 2]), Err(Refused::Unknown), Ok(vec![Done::Nothing; 3])]);
    assert_eq!(payloads(store, a), ["0", "1"]);
    assert_eq!(store.call(call_id(1)).expect("reads"), None);
    assert!(store.call(call_id(2)).expect("reads").is_some());
    assert_eq!(summaries(store).iter().map(|delivery| delivery.event_id.as_str()).collect::<Vec<_>>(), ["msg_2"]);
}

/// A commit of `op` and then one that is refused changes nothing at all; `op` alone then does what it would have done.
#[track_caller]
fn taken_back(store: &dyn Store, op: Op) {
    assert_eq!(refused(store, [op.clone(), never()]), Refused::Unknown, "{op:?}");
    assert_eq!(refused(store, [heartbeat(W1, FAR), op.clone(), never()]), Refused::Unknown, "{op:?}");
    let before = World::of(store);
    done(store, [op.clone()]);
    assert_ne!(World::of(store), before, "the operation does something that can be seen: {op:?}");
}

pub(super) fn a_refused_last_operation_takes_back_what_streams_saw(store: &dyn Store) {
    let a = stream_id(1);
    taken_back(store, create(a, &key("a"), W1));
    taken_back(store, append(a, 1, vec![chunk(0, &["0", "1"]), chunk(2, &["2"])]));
    taken_back(store, claim(stream_id(9), &key("a"), W2));
    taken_back(store, shared(stream_id(9), &key("a"), &["3"]));
    taken_back(store, claim(stream_id(2), &key("b"), W2));
    taken_back(store, append_and_close(stream_id(2), 1, vec![chunk(0, &["0"])], NOW));
    taken_back(store, shared(stream_id(3), &key("call"), &["0"]));
    taken_back(store, shared_and_close(stream_id(9), &key("call"), &["1"], NOW));
    assert_eq!(payloads(store, a), ["0", "1", "2", "3"]);
    assert_eq!(payloads(store, stream_id(3)), ["0", "1"]);
    assert_eq!(store.stream_by_id(stream_id(9)).expect("reads"), None);
}

pub(super) fn a_refused_last_operation_takes_back_what_calls_saw(store: &dyn Store) {
    taken_back(store, begin(call_id(1), W1));
    taken_back(store, timer(call_id(1), NOW + 5));
    taken_back(store, timer(call_id(1), NOW + 3));
    taken_back(store, end(call_id(1), "failed"));
}

pub(super) fn a_refused_last_operation_takes_back_what_deliveries_saw(store: &dyn Store) {
    taken_back(store, enqueue(1, NOW));
    taken_back(store, lease_op(W1, NOW, NOW + 10, 5));
    let leased = lease_one(store, W1, NOW + 10, NOW + 20);
    taken_back(store, settle_op(settle(&leased, DeliveryState::Retrying, NOW)));
    let leased = lease_one(store, W1, NOW + 1_000, NOW + 2_000);
    taken_back(store, settle_op(settle(&leased, DeliveryState::Delivered, NOW + 1_000)));
}

pub(super) fn a_refused_last_operation_takes_back_what_workers_did(store: &dyn Store) {
    done(store, [begin(call_id(1), W1), begin(call_id(2), W2), enqueue(1, NOW), create(stream_id(1), &key("a"), W1)]);
    let leased = lease_one(store, W1, NOW, FAR);
    taken_back(store, Op::Leave { worker: W2 });
    assert_eq!(refused(store, [Op::Leave { worker: W1 }, never()]), Refused::Unknown);
    done(store, [settle_op(settle(&leased, DeliveryState::Retrying, NOW))]);
    taken_back(store, Op::Leave { worker: W1 });
    assert_eq!(refused(store, [heartbeat(W1, FAR), never()]), Refused::Unknown);
    assert_eq!(store.lost_calls(NOW, 5).expect("reads").len(), 2, "a registration that was taken back saves no call");
}

pub(super) fn a_refused_last_operation_takes_back_what_retention_did(store: &dyn Store) {
    let (a, b) = (stream_id(1), stream_id(2));
    done(store, [create(a, &key("a"), W1), append(a, 1, vec![chunk(0, &["0", "1", "2"])])]);
    done(store, [append(a, 1, vec![chunk(3, &["3", "4", "5"])])]);
    done(store, [shared_and_close(b, &key("b"), &["0"], NOW), begin(call_id(1), W1), end(call_id(1), "completed")]);
    done(store, [enqueue(1, NOW), enqueue(2, FAR)]);
    let leased = lease_one(store, W1, NOW, FAR);
    done(store, [settle_op(settle(&leased, DeliveryState::Dead, NOW))]);
    let retention = Retention { max_events: Some(2), after_close_ms: Some(10), ..Retention::UNLIMITED };
    taken_back(store, Op::Trim { now: NOW + 1_000, wall: NOW, retention, keep_finished_ms: 10 });
    assert_eq!(payloads(store, a), ["4", "5"]);
    assert_eq!(store.stream(&key("b")).expect("reads"), None);
}

/// The receipt of a delivery and its end, the outcome of a call and its firing: each pair is there or is not.
pub(super) fn an_event_and_what_it_fires_are_one(store: &dyn Store) {
    done(store, [create(stream_id(1), &key("a"), W1), begin(call_id(1), W1), claim(stream_id(9), &key("a"), W2)]);
    let late = append(stream_id(1), 1, vec![chunk(0, &["outcome"])]);
    let fenced = Refused::Fenced { claim: 2, next_seq: 0 };
    assert_eq!(refused(store, [end(call_id(1), "completed"), enqueue(1, NOW), late]), fenced);
    let now = append_and_close(stream_id(1), 2, vec![chunk(0, &["outcome"])], NOW);
    done(store, [end(call_id(1), "completed"), enqueue(1, NOW), now]);
    assert_eq!((payloads(store, stream_id(1)).len(), summaries(store).len()), (1, 1));
}

pub(super) fn both_durabilities_are_taken(store: &dyn Store) {
    let a = stream_id(1);
    let commit = |durability, first_seq| Commit::new(durability, vec![append(a, 1, vec![chunk(first_seq, &["x"])])]);
    done(store, [create(a, &key("a"), W1)]);
    let answers =
        store.commit(&[commit(Durability::Process, 0), commit(Durability::Disk, 1), commit(Durability::Process, 2)]);
    assert!(answers.iter().all(Result::is_ok) && answers.len() == 3);
    assert!(store.commit(&[commit(Durability::Disk, 3)])[0].is_ok());
    assert_eq!(payloads(store, a).len(), 4);
}
