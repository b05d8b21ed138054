//! Deliveries that go out together, and the cursor that passes nothing undelivered.

use bytes::Bytes;
use tidings_proto::time::StoreMillis;

use super::fixtures::{
    FAR, NOW, W1, W2, call_id, delivery_id, done, endpoint_key, lease, new_delivery, refused, settle, settle_op,
    summaries,
};
use crate::commit::{Done, Lease, Op, Refused, Settle};
use crate::flow::Flow;
use crate::record::{Batch, Delivery, DeliveryState, NewDelivery, Sealed, Subject, Taken};
use crate::store::Store;

/// How long the first of a batch waits for others here.
const WAIT: StoreMillis = 1_000;

fn batch(settings: &'static str) -> Option<Batch> {
    Some(Batch { settings: Sealed(Bytes::from_static(settings.as_bytes())), max_events: 3, max_bytes: 100 })
}

/// Enqueued `after` the others, with a body of 21 bytes.
fn member(n: u8, after: StoreMillis) -> NewDelivery {
    let created_at = NOW + after;
    NewDelivery { batch: batch("a"), created_at, ..new_delivery(n, created_at + WAIT) }
}

fn keyed(n: u8, after: StoreMillis) -> NewDelivery {
    NewDelivery { fifo_key: Some("k".to_owned()), ..member(n, after) }
}

fn enqueue(new: impl IntoIterator<Item = NewDelivery>) -> Vec<Op> {
    new.into_iter().map(|new| Op::Enqueue(Box::new(new))).collect()
}

/// What was leased, as lists of what goes out together.
fn units(leased: &[Delivery]) -> Vec<Vec<u8>> {
    let mut units: Vec<(Option<u64>, Vec<u8>)> = Vec::new();
    for delivery in leased {
        let n = delivery.new.id.0[0];
        match units.last_mut().filter(|(batch, _)| delivery.batch.is_some() && *batch == delivery.batch) {
            Some((_, unit)) => unit.push(n),
            None => units.push((delivery.batch, vec![n])),
        }
    }
    units.into_iter().map(|(_, unit)| unit).collect()
}

fn again(leased: &[Delivery], due: StoreMillis) -> Vec<Op> {
    leased.iter().map(|one| settle_op(Settle { due, ..settle(one, DeliveryState::Retrying, NOW) })).collect()
}

pub(super) fn a_batch_is_due_with_its_first_and_stays_together(store: &dyn Store) {
    done(store, enqueue([member(1, 0), member(2, 900)]));
    assert_eq!(store.next_due().expect("reads"), Some(NOW + WAIT));
    assert_eq!(lease(store, W1, NOW + WAIT - 1, FAR, 10), []);
    let first = lease(store, W1, NOW + WAIT, FAR, 10);
    assert_eq!(units(&first), [[1, 2]]);
    assert!(first.iter().all(|one| one.new.batch.is_none() && one.attempts == 0), "{first:?}");
    // What comes now opens another one, also when the first is tried again.
    done(store, enqueue([member(3, WAIT)]));
    done(store, again(&first, NOW + 1_500));
    done(store, enqueue([member(4, WAIT + 100)]));
    let second = lease(store, W2, NOW + 1_500, FAR, 10);
    assert_eq!(units(&second), [[1, 2]]);
    assert!(second.iter().zip(&first).all(|(now, before)| now.token > before.token && now.attempts == 1));
    assert_eq!(units(&lease(store, W1, NOW + 2 * WAIT, FAR, 10)), [[3, 4]]);
}

pub(super) fn a_full_batch_goes_at_once(store: &dyn Store) {
    done(store, enqueue([member(1, 0), member(2, 10), member(3, 20), member(4, 30)]));
    assert_eq!(units(&lease(store, W1, NOW + 19, FAR, 10)), Vec::<Vec<u8>>::new());
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 20));
    assert_eq!(units(&lease(store, W1, NOW + 20, FAR, 10)), [[1, 2, 3]]);
    assert_eq!(units(&lease(store, W1, NOW + 30 + WAIT, FAR, 10)), [[4]]);
}

/// 100 bytes: of these bodies with their commas, 21 + 1 + 50 fit, and 28 more only without a comma.
pub(super) fn a_batch_has_its_bytes_and_no_more(store: &dyn Store) {
    let of = |n: u8, bytes: usize| NewDelivery { body: Bytes::from(vec![b'1'; bytes]), ..member(n, i64::from(n)) };
    done(store, enqueue([of(1, 21), of(2, 50), of(3, 28)]));
    assert_eq!(units(&lease(store, W1, NOW + 3, FAR, 10)), [[1, 2]], "what does not fit closes it");
    done(store, enqueue([of(4, 71)]));
    assert_eq!(units(&lease(store, W1, NOW + 4, FAR, 10)), [[3, 4]], "to the last byte, and full by that");
    done(store, enqueue([of(5, 300), of(6, 21)]));
    assert_eq!(units(&lease(store, W1, NOW + 6, FAR, 10)), [[5]], "too large for any, it goes alone");
}

pub(super) fn other_settings_and_endpoints_are_other_batches(store: &dyn Store) {
    let other = NewDelivery { batch: batch("b"), ..member(2, 0) };
    let elsewhere = NewDelivery { endpoint: endpoint_key(2), ..member(3, 0) };
    let alone = NewDelivery { batch: None, ..member(4, 0) };
    done(store, enqueue([member(1, 0), other, elsewhere, alone, member(5, 0)]));
    let mut all = units(&lease(store, W1, NOW + WAIT, FAR, 10));
    all.sort();
    assert_eq!(all, [vec![1, 5], vec![2], vec![3], vec![4]]);
}

/// One request is one attempt: it takes one slot and one token, and counts once against the limit of a lease.
pub(super) fn a_batch_is_one_attempt(store: &dyn Store) {
    let other = |n: u8| NewDelivery { batch: batch("b"), ..member(n, 0) };
    done(store, enqueue([member(1, 0), member(2, 0), other(3), other(4)]));
    let flow = Flow { per_endpoint: 1, fresh: 1, ..Flow::unlimited() };
    let limited = |limit| {
        let op = Op::Lease(Lease { worker: W1, now: NOW + WAIT, until: FAR, limit, flow });
        match done(store, [op]).remove(0) {
            Done::Leased(leased) => leased,
            other => panic!("a lease answers `Leased`, not {other:?}"),
        }
    };
    let first = limited(10);
    assert_eq!(units(&first), [[1, 2]]);
    assert_eq!(limited(10), [], "the slot is taken");
    done(store, again(&first[..1], FAR));
    assert_eq!(limited(10), [], "by either of them");
    done(store, again(&first[1..], FAR));
    assert_eq!(units(&limited(1)), [[3, 4]]);
}

/// A delivery of a batch ends for itself; the others go on together.
pub(super) fn what_is_left_of_a_batch_goes_on(store: &dyn Store) {
    done(store, enqueue([member(1, 0), member(2, 0), member(3, 0)]));
    let first = lease(store, W1, NOW, FAR, 10);
    let ended = settle_op(settle(&first[1], DeliveryState::Expired, NOW));
    done(store, [again(&first[..1], NOW + 5), again(&first[2..], NOW + 5), vec![ended]].concat());
    assert_eq!(units(&lease(store, W1, NOW + 5, FAR, 10)), [[1, 3]]);
    assert_eq!(summaries(store)[1].state, DeliveryState::Expired);
}

/// Whose lease ran out gives all of it back, and the next one has the same.
pub(super) fn a_batch_of_a_dead_worker_is_the_same_again(store: &dyn Store) {
    done(store, enqueue([member(1, 0), member(2, 0), member(3, 0)]));
    let first = lease(store, W1, NOW, NOW + 10, 10);
    let second = lease(store, W2, NOW + 10, FAR, 10);
    assert_eq!((units(&first), units(&second)), (vec![vec![1, 2, 3]], vec![vec![1, 2, 3]]));
    assert_eq!(refused(store, [settle_op(settle(&first[0], DeliveryState::Delivered, NOW))]), Refused::LostLease);
}

pub(super) fn batches_of_a_key_go_out_one_after_the_other(store: &dyn Store) {
    let alone = NewDelivery { batch: None, ..keyed(5, 4) };
    done(store, enqueue([keyed(1, 0), keyed(2, 1), keyed(3, 2), keyed(4, 3), alone, keyed(6, 5)]));
    let first = lease(store, W1, NOW + 10, FAR, 10);
    assert_eq!(units(&first), [[1, 2, 3]], "one that is full, and nothing else of its key");
    done(store, again(&first, NOW + 2 * WAIT));
    assert_eq!(lease(store, W1, NOW + 2 * WAIT - 1, FAR, 10), [], "nothing passes one that is tried again");
    let first = lease(store, W1, NOW + 2 * WAIT, FAR, 10);
    assert_eq!(units(&first), [[1, 2, 3]]);
    let end = |all: &[Delivery]| {
        done(store, all.iter().map(|one| settle_op(settle(one, DeliveryState::Delivered, NOW + 2 * WAIT))));
    };
    let next = || lease(store, W1, NOW + 3 * WAIT, FAR, 10);
    end(&first[..1]);
    assert_eq!(next(), [], "not before all of it has ended");
    end(&first[1..]);
    // 6 could not join 4: 5 stands between them.
    for want in [[4], [5], [6]] {
        let one = next();
        assert_eq!(units(&one), [want]);
        end(&one);
    }
}

/// What is taken late, or from a disabled endpoint, is given up one by one; and nothing joins what is left.
pub(super) fn what_waited_too_long_leaves_its_batch(store: &dyn Store) {
    let late = NewDelivery { wait_until: NOW + 10, ..member(1, 0) };
    done(store, enqueue([late, member(2, 0)]));
    let taken = lease(store, W1, NOW + 10, FAR, 10);
    assert_eq!(units(&taken), [[1]]);
    assert_eq!((taken[0].taken, taken[0].batch), (Taken::Late, None));
    done(store, enqueue([member(3, 20)]));
    assert_eq!(units(&lease(store, W1, NOW + WAIT + 20, FAR, 10)), [[2], [3]]);
}

/// A refused commit leaves the batch as it was.
pub(super) fn a_batch_is_joined_with_its_commit_or_not_at_all(store: &dyn Store) {
    done(store, enqueue([member(1, 0)]));
    assert_eq!(refused(store, enqueue([member(2, 5), member(3, 5), member(1, 5)])), Refused::Exists);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + WAIT), "it was full for a moment");
    done(store, enqueue([member(4, 10)]));
    assert_eq!(units(&lease(store, W1, NOW + WAIT, FAR, 10)), [[1, 4]]);
}

const CURSOR: &str = "00000000000000000000000011.1.2.";

fn telling(n: u8, seq: u64) -> NewDelivery {
    let body = format!(r#"{{"data":{{"seq":{seq}}},"cursor":"{CURSOR}{}"}}"#, seq + 1);
    NewDelivery { seq: Some(seq), whole: Sealed(body.clone().into()), body: body.into(), ..new_delivery(n, NOW) }
}

fn cursors(store: &dyn Store, n: u8) -> [String; 2] {
    let stored = store.stored_delivery(delivery_id(n)).expect("reads").expect("known");
    [stored.body, stored.whole.0].map(|body| {
        let text = String::from_utf8(body.to_vec()).expect("text");
        let (_, cursor) = text.rsplit_once(CURSOR).expect("a cursor");
        cursor.trim_end_matches("\"}").to_owned()
    })
}

/// SEP-3415 "Cursors": never beyond what was neither taken nor given up.
pub(super) fn a_cursor_never_passes_what_is_undelivered(store: &dyn Store) {
    let other = NewDelivery { subject: Subject::Call(call_id(2)), ..telling(3, 9) };
    let bare = NewDelivery { seq: None, ..telling(4, 3) };
    done(store, enqueue([telling(1, 4), telling(2, 8), other, bare]));
    assert_eq!(cursors(store, 1), ["5", "5"], "nothing before it");
    assert_eq!(cursors(store, 2), ["4", "4"], "event 4 is undelivered: a reader goes on with it");
    assert_eq!(cursors(store, 3), ["10", "10"], "another subject");
    assert_eq!(cursors(store, 4), ["4", "4"], "what tells of no event has no watermark");
    let all = lease(store, W1, NOW, FAR, 10);
    let of = |n: u8| all.iter().find(|one| one.new.id == delivery_id(n)).expect("leased");
    assert_eq!((of(2).new.seq, of(4).new.seq), (Some(8), None));
    done(store, [settle_op(Settle { due: NOW + 100, ..settle(of(1), DeliveryState::Retrying, NOW) })]);
    done(store, [settle_op(settle(of(2), DeliveryState::Delivered, NOW))]);
    done(store, enqueue([telling(5, 10)]));
    assert_eq!(cursors(store, 5), ["4", "4"], "what is tried again is undelivered");
    let later = lease(store, W1, NOW + 100, FAR, 10);
    let of = |n: u8| later.iter().find(|one| one.new.id == delivery_id(n)).expect("leased");
    // Handed over to another route in one commit: undelivered all the same.
    let over = settle_op(settle(of(1), DeliveryState::Superseded, NOW));
    done(store, [vec![over], enqueue([telling(6, 4), telling(7, 11)])].concat());
    assert_eq!((cursors(store, 6), cursors(store, 7)), (["5", "5"].map(str::to_owned), ["4", "4"].map(str::to_owned)));
    done(store, [settle_op(settle(of(5), DeliveryState::Delivered, NOW))]);
    let rest = lease(store, W1, NOW + 100, FAR, 10);
    done(store, rest.iter().map(|one| settle_op(settle(one, DeliveryState::Dead, NOW))));
    done(store, enqueue([telling(8, 12)]));
    assert_eq!(cursors(store, 8), ["13", "13"], "what was given up holds nothing back");
}
