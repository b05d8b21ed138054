//! Deliveries: enqueued once, leased when due, settled by the one who holds them.

use bytes::Bytes;

use super::Make;
use super::fixtures::{
    ALL, FAR, Fresh, NOW, W1, W2, call_id, delivery_id, done, enqueue, heartbeat, lease, lease_one, new_delivery,
    refused, settle, settle_op, summaries,
};
use crate::commit::{Done, Op, Purge, Refused, Settle};
use crate::record::{AttemptRecord, Delivery, DeliveryState, DeliverySummary, NewDelivery, Sealed, Subject};
use crate::store::Store;

fn ids(leased: &[Delivery]) -> Vec<u8> {
    leased.iter().map(|delivery| delivery.new.id.0[0]).collect()
}

fn the_only(store: &dyn Store) -> DeliverySummary {
    let mut all = summaries(store);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

pub(super) fn an_enqueued_delivery_waits_and_can_be_seen(store: &dyn Store) {
    assert_eq!(done(store, [enqueue(1, NOW + 5)]), [Done::Nothing]);
    let seen = DeliverySummary {
        id: delivery_id(1),
        event_id: "msg_1".to_owned(),
        subject: Subject::Call(call_id(1)),
        principal: "issuer|subject|client".to_owned(),
        trigger: "completed".to_owned(),
        route_id: "a".to_owned(),
        state: DeliveryState::Pending,
        attempts: 0,
        last_error: None,
        due: NOW + 5,
        deadline: FAR,
    };
    assert_eq!(summaries(store), [seen]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 5));
    assert_eq!(refused(store, [enqueue(1, NOW)]), Refused::Exists);
}

pub(super) fn a_lease_carries_what_was_enqueued(store: &dyn Store) {
    let given = NewDelivery {
        event_id: "msg_é".to_owned(),
        subject: Subject::Subscription("sub:1/ä".to_owned()),
        trigger: "com.example.x".to_owned(),
        route_id: "\"\u{2028}".to_owned(),
        route: Sealed(Bytes::from_static(b"{\"secret\":\"whsec_\"}\0\xff")),
        fallback: Sealed(Bytes::from_static(b"[ {\"id\":\"b\"} , {\"id\":\"c\",\"n\":1.0} ]")),
        body: Bytes::from_static(b"{\"n\":9007199254740993,\"x\":1.0,\"y\":\"\\ud800\"}\0\xff"),
        whole: Sealed(Bytes::from_static(b"{\"secret\":1.0}\0\xff")),
        route_at: (5, 4_000_000_000),
        deadline: NOW + 86_400_000,
        ..new_delivery(1, NOW)
    };
    done(store, [Op::Enqueue(Box::new(given.clone()))]);
    let leased = lease_one(store, W1, NOW, NOW + 10);
    assert_eq!((&leased.new, leased.attempts), (&given, 0));
    let seen = the_only(store);
    assert_eq!((seen.subject, seen.route_id, seen.state), (given.subject, given.route_id, DeliveryState::Leased));
}

pub(super) fn only_what_is_due_is_leased_oldest_due_first(store: &dyn Store) {
    for (n, due) in [(1, NOW + 30), (2, NOW + 10), (3, NOW + 20), (4, NOW + 40), (5, NOW + 11)] {
        done(store, [enqueue(n, due)]);
    }
    assert_eq!(ids(&lease(store, W1, NOW + 9, FAR, 10)), [0; 0]);
    assert_eq!(ids(&lease(store, W1, NOW + 10, FAR, 10)), [2], "due at its moment");
    assert_eq!(ids(&lease(store, W1, NOW + 35, FAR, 2)), [5, 3], "no more than asked for, oldest due first");
    assert_eq!(ids(&lease(store, W1, NOW + 35, FAR, 0)), [0; 0]);
    assert_eq!(ids(&lease(store, W2, NOW + 35, FAR, 10)), [1]);
    assert_eq!(ids(&lease(store, W2, NOW + 39, FAR, 10)), [0; 0]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 40), "what is held is not due");
}

pub(super) fn a_leased_delivery_is_not_leased_again(store: &dyn Store) {
    done(store, [enqueue(1, NOW)]);
    lease_one(store, W1, NOW, NOW + 1_000);
    for worker in [W1, W2] {
        assert_eq!(lease(store, worker, NOW + 999, NOW + 5_000, 10), []);
    }
    assert_eq!(store.next_due().expect("reads"), None);
    assert_eq!((the_only(store).state, the_only(store).attempts), (DeliveryState::Leased, 1), "attempts begun");
}

pub(super) fn tokens_rise_with_every_lease(store: &dyn Store) {
    done(store, [enqueue(1, NOW)]);
    let mut last = None;
    let mut now = NOW;
    for round in 0..5 {
        let leased = lease_one(store, W1, now, now + 10);
        assert!(last.is_none_or(|last| leased.token > last), "{} after {last:?}", leased.token);
        last = Some(leased.token);
        if round % 2 == 0 {
            done(store, [settle_op(settle(&leased, DeliveryState::Retrying, now))]);
        }
        now += 1_000;
    }
}

pub(super) fn a_settle_needs_the_token_of_the_lease(store: &dyn Store) {
    assert_eq!(refused(store, [settle_op(no_lease(1))]), Refused::LostLease, "no such delivery");
    done(store, [enqueue(1, NOW)]);
    assert_eq!(refused(store, [settle_op(no_lease(0))]), Refused::LostLease, "not leased yet");
    let first = lease_one(store, W1, NOW, NOW + 10);
    for token in [0, first.token.wrapping_sub(1), first.token + 1, first.token | 1 << 62, u64::MAX] {
        if token != first.token {
            let other = Settle { token, ..settle(&first, DeliveryState::Delivered, NOW) };
            assert_eq!(refused(store, [settle_op(other)]), Refused::LostLease, "token {token}");
        }
    }
    done(store, [settle_op(settle(&first, DeliveryState::Retrying, NOW))]);
    assert_eq!(
        refused(store, [settle_op(settle(&first, DeliveryState::Delivered, NOW))]),
        Refused::LostLease,
        "a lease ends once"
    );
    let second = lease_one(store, W1, NOW + 1_000, NOW + 2_000);
    assert_eq!(
        refused(store, [settle_op(settle(&first, DeliveryState::Delivered, NOW + 1_000))]),
        Refused::LostLease,
        "the token of an earlier lease"
    );
    done(store, [settle_op(settle(&second, DeliveryState::Delivered, NOW + 1_000))]);
    assert_eq!(the_only(store).state, DeliveryState::Delivered);
}

fn no_lease(token: u64) -> Settle {
    let state = DeliveryState::Delivered;
    Settle { id: delivery_id(1), token, state, due: NOW, counts: true, error: None, at: NOW }
}

pub(super) fn a_lease_that_ran_out_is_taken_over(store: &dyn Store) {
    done(store, [enqueue(1, NOW)]);
    let first = lease_one(store, W1, NOW, NOW + 100);
    assert_eq!(lease(store, W2, NOW + 99, FAR, 10), []);
    let second = lease_one(store, W2, NOW + 100, FAR);
    assert_eq!((second.attempts, &second.new), (1, &first.new), "the attempt that was begun counts");
    for state in [DeliveryState::Delivered, DeliveryState::Retrying] {
        assert_eq!(refused(store, [settle_op(settle(&first, state, NOW + 101))]), Refused::LostLease);
    }
    done(store, [settle_op(settle(&second, DeliveryState::Delivered, NOW + 101))]);
    assert_eq!((the_only(store).state, the_only(store).attempts), (DeliveryState::Delivered, 2));
}

pub(super) fn a_late_settle_holds_if_nobody_took_over(store: &dyn Store) {
    done(store, [enqueue(1, NOW)]);
    let leased = lease_one(store, W1, NOW, NOW + 100);
    done(store, [settle_op(settle(&leased, DeliveryState::Delivered, NOW + 5_000))]);
    assert_eq!(the_only(store).state, DeliveryState::Delivered);
}

pub(super) fn deliveries_of_a_dead_worker_are_taken_over(make: Make<'_>) {
    let fresh = Fresh::open(make);
    let store = &*fresh;
    done(store, [heartbeat(W1, NOW + 1_000), heartbeat(W2, FAR), enqueue(1, NOW), enqueue(2, NOW + 1)]);
    let first = lease(store, W1, NOW + 1, FAR, 1);
    assert_eq!(ids(&first), [1]);
    assert_eq!(ids(&lease(store, W2, NOW + 500, FAR, 1)), [2]);
    assert_eq!(lease(store, W2, NOW + 500, FAR, 10), [], "its worker lives");
    let second = lease_one(store, W2, NOW + 1_500, FAR);
    assert_eq!((second.new.id, second.attempts), (delivery_id(1), 1), "its worker is gone, whatever the lease says");
    assert_eq!(refused(store, [settle_op(settle(&first[0], DeliveryState::Delivered, NOW))]), Refused::LostLease);
    done(store, [settle_op(settle(&second, DeliveryState::Delivered, NOW))]);
}

pub(super) fn a_worker_that_leaves_ends_its_leases_at_once(store: &dyn Store) {
    done(store, [enqueue(1, NOW), enqueue(2, NOW + 1)]);
    let first = lease(store, W1, NOW, FAR, 1).remove(0);
    assert_eq!(ids(&lease(store, W2, NOW + 1, FAR, 1)), [2]);
    done(store, [Op::Leave { worker: W1 }]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW), "nobody holds it");
    let second = lease_one(store, W2, NOW + 1, FAR);
    assert_eq!((second.new.id, second.attempts), (delivery_id(1), 1));
    assert_eq!(refused(store, [settle_op(settle(&first, DeliveryState::Delivered, NOW))]), Refused::LostLease);
}

pub(super) fn a_retry_waits_until_it_is_due(store: &dyn Store) {
    done(store, [enqueue(1, NOW)]);
    let first = lease_one(store, W1, NOW, FAR);
    let retry = Settle { due: NOW + 500, ..settle(&first, DeliveryState::Retrying, NOW + 5) };
    done(store, [settle_op(retry)]);
    let seen = the_only(store);
    assert_eq!((seen.state, seen.attempts, seen.due), (DeliveryState::Retrying, 1, NOW + 500));
    assert_eq!(seen.last_error.as_deref(), Some("timeout"));
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 500));
    assert_eq!(lease(store, W2, NOW + 499, FAR, 10), []);
    let second = lease_one(store, W2, NOW + 500, FAR);
    assert_eq!(second.attempts, 1);
    assert_eq!(second.new, NewDelivery { due: NOW + 500, ..first.new });
}

pub(super) fn an_attempt_that_only_waited_does_not_count(store: &dyn Store) {
    done(store, [enqueue(1, NOW)]);
    let mut now = NOW;
    for (round, counts) in [false, true, false, true, true].into_iter().enumerate() {
        let counted = [0, 0, 1, 1, 2][round];
        let leased = lease_one(store, W1, now, FAR);
        assert_eq!((leased.attempts, the_only(store).attempts), (counted, counted + 1), "round {round}");
        done(store, [settle_op(Settle { counts, ..settle(&leased, DeliveryState::Retrying, now) })]);
        assert_eq!(the_only(store).attempts, counted + u32::from(counts), "round {round}");
        now += 1_000;
    }
}

pub(super) fn final_states_stay(store: &dyn Store) {
    let finals: Vec<_> = DeliveryState::ALL.into_iter().filter(|state| state.is_final()).collect();
    assert_eq!(finals.len(), 4);
    for (n, state) in (1..).zip(&finals) {
        done(store, [enqueue(n, NOW + i64::from(n))]);
        let leased = lease_one(store, W1, NOW + 50, NOW + 100);
        done(store, [settle_op(settle(&leased, *state, NOW + 60))]);
        for next in [DeliveryState::Retrying, DeliveryState::Delivered] {
            assert_eq!(refused(store, [settle_op(settle(&leased, next, NOW + 70))]), Refused::LostLease);
        }
    }
    assert_eq!(store.next_due().expect("reads"), None);
    assert_eq!(lease(store, W2, FAR, FAR + 10, 10), [], "not after any time");
    done(store, [Op::Leave { worker: W1 }]);
    assert_eq!(lease(store, W2, FAR, FAR + 10, 10), [], "nor after its worker left");
    let seen: Vec<_> = summaries(store).iter().map(|delivery| (delivery.state, delivery.attempts)).collect();
    assert_eq!(seen, finals.into_iter().map(|state| (state, 1)).collect::<Vec<_>>());
}

/// A fallback's delivery is enqueued in the commit that gives up the one before it.
pub(super) fn giving_up_a_route_and_trying_the_next_is_one(store: &dyn Store) {
    let first = NewDelivery { fallback: Sealed(Bytes::from_static(b"[{\"id\":\"b\"}]")), ..new_delivery(1, NOW) };
    done(store, [Op::Enqueue(Box::new(first))]);
    let leased = lease_one(store, W1, NOW, FAR);
    let next = NewDelivery { event_id: "msg_1".to_owned(), route_id: "b".to_owned(), ..new_delivery(2, NOW) };
    let next = Op::Enqueue(Box::new(next));
    let stale = Settle { token: leased.token + 1, ..settle(&leased, DeliveryState::Superseded, NOW) };
    assert_eq!(refused(store, [next.clone(), settle_op(stale)]), Refused::LostLease);
    done(store, [settle_op(settle(&leased, DeliveryState::Superseded, NOW)), next]);
    let seen: Vec<_> = summaries(store).into_iter().map(|seen| (seen.event_id, seen.route_id, seen.state)).collect();
    let told = |route: &str, state| ("msg_1".to_owned(), route.to_owned(), state);
    assert_eq!(seen, [told("a", DeliveryState::Superseded), told("b", DeliveryState::Pending)]);
}

pub(super) fn deliveries_are_listed_by_subject_and_state(store: &dyn Store) {
    let call = Subject::Call(call_id(1));
    let subscription = Subject::Subscription(call_id(1).to_string());
    for n in 1..=6 {
        let subject = if n % 2 == 0 { subscription.clone() } else { call.clone() };
        // Due in the opposite order, so that oldest means enqueued first and nothing else.
        done(store, [Op::Enqueue(Box::new(NewDelivery { subject, ..new_delivery(n, NOW + 100 - i64::from(n)) }))]);
    }
    for leased in lease(store, W1, NOW + 95, FAR, 10) {
        if leased.new.id == delivery_id(5) {
            done(store, [settle_op(settle(&leased, DeliveryState::Dead, NOW + 95))]);
        }
    }
    let list = |subject: Option<&Subject>, state, limit| -> Vec<u8> {
        store.deliveries(None, subject, state, limit).expect("reads").iter().map(|delivery| delivery.id.0[0]).collect()
    };
    assert_eq!(list(None, None, ALL), [1, 2, 3, 4, 5, 6]);
    assert_eq!(list(None, None, 2), [1, 2]);
    assert_eq!(list(Some(&call), None, ALL), [1, 3, 5]);
    assert_eq!(list(Some(&subscription), None, ALL), [2, 4, 6], "a subscription is not the call of the same text");
    assert_eq!(list(None, Some(DeliveryState::Pending), ALL), [1, 2, 3, 4]);
    assert_eq!(list(None, Some(DeliveryState::Leased), ALL), [6]);
    assert_eq!(list(Some(&call), Some(DeliveryState::Dead), ALL), [5]);
    assert_eq!(list(Some(&call), Some(DeliveryState::Pending), 1), [1]);
    assert_eq!(list(Some(&Subject::Call(call_id(9))), None, ALL), [0; 0]);
    assert_eq!(list(None, Some(DeliveryState::Expired), ALL), [0; 0]);
}

pub(super) fn deliveries_are_listed_by_principal(store: &dyn Store) {
    for (n, principal) in [(1, "p"), (2, "q"), (3, "p"), (4, "P"), (5, "p")] {
        let subject = Subject::Call(call_id(n % 2));
        let new = NewDelivery { principal: principal.to_owned(), subject, ..new_delivery(n, NOW + i64::from(n)) };
        done(store, [Op::Enqueue(Box::new(new))]);
    }
    let leased = lease_one(store, W1, NOW + 1, FAR);
    done(store, [settle_op(settle(&leased, DeliveryState::Delivered, NOW + 1))]);
    let list = |principal, subject: Option<&Subject>, state, limit| -> Vec<u8> {
        let found = store.deliveries(principal, subject, state, limit).expect("reads");
        found.iter().map(|delivery| delivery.id.0[0]).collect()
    };
    let (odd, even) = (Subject::Call(call_id(1)), Subject::Call(call_id(0)));
    assert_eq!(list(None, None, None, ALL), [1, 2, 3, 4, 5]);
    assert_eq!(list(Some("p"), None, None, ALL), [1, 3, 5], "finished or not");
    assert_eq!(list(Some("p"), None, None, 2), [1, 3]);
    assert_eq!(list(Some("q"), None, None, ALL), [2]);
    assert_eq!(list(Some("p"), Some(&odd), None, ALL), [1, 3, 5]);
    assert_eq!(list(Some("p"), Some(&even), None, ALL), [0; 0], "a call of somebody else");
    assert_eq!(list(Some("p"), None, Some(DeliveryState::Pending), ALL), [3, 5]);
    assert_eq!(list(Some("p"), Some(&odd), Some(DeliveryState::Delivered), ALL), [1]);
    assert_eq!((list(Some(""), None, None, ALL), list(Some("nobody"), None, None, ALL)), (vec![], vec![]));
}

pub(super) fn attempts_are_recorded_in_order(store: &dyn Store) {
    done(store, [enqueue(1, NOW)]);
    assert_eq!(store.attempts(delivery_id(1)).expect("reads"), []);
    let first = lease_one(store, W1, NOW, FAR);
    done(store, [settle_op(settle(&first, DeliveryState::Retrying, NOW + 5))]);
    let waited = lease_one(store, W1, NOW + 2_000, FAR);
    done(store, [settle_op(Settle { counts: false, ..settle(&waited, DeliveryState::Retrying, NOW + 2_001) })]);
    let last = lease_one(store, W1, NOW + 4_000, FAR);
    done(store, [settle_op(settle(&last, DeliveryState::Delivered, NOW + 4_007))]);
    let attempt = |at, error: Option<&str>| AttemptRecord { at, error: error.map(str::to_owned) };
    let expected = [attempt(NOW + 5, Some("timeout")), attempt(NOW + 4_007, None)];
    assert_eq!(store.attempts(delivery_id(1)).expect("reads"), expected, "what only waited was no attempt");
    assert_eq!(store.attempts(delivery_id(2)).expect("reads"), []);
}

/// A dead letter keeps what was to be sent, so that it can be sent again.
pub(super) fn a_finished_delivery_keeps_what_was_enqueued(store: &dyn Store) {
    let given = NewDelivery {
        route: Sealed(Bytes::from_static(b"{\"secret\":\"whsec_\"}\0\xff")),
        fallback: Sealed(Bytes::from_static(b"[1.0]")),
        body: Bytes::from_static(b"{\"n\":9007199254740993}"),
        fifo_key: Some("k".to_owned()),
        ..new_delivery(1, NOW)
    };
    done(store, [Op::Enqueue(Box::new(given.clone()))]);
    let leased = lease_one(store, W1, NOW, FAR);
    done(store, [settle_op(settle(&leased, DeliveryState::Dead, NOW))]);
    assert_eq!(store.stored_delivery(delivery_id(1)).expect("reads"), Some(given));
    assert_eq!(store.stored_delivery(delivery_id(2)).expect("reads"), None);
}

pub(super) fn a_purge_takes_what_is_finished_and_asked_for(store: &dyn Store) {
    let of = |n: u8, principal: &str| {
        Op::Enqueue(Box::new(NewDelivery { principal: principal.to_owned(), ..new_delivery(n, NOW + i64::from(n)) }))
    };
    done(store, [of(1, "p"), of(2, "p"), of(3, "q"), of(4, "p"), of(5, "p"), of(6, "p")]);
    for (leased, state) in lease(store, W1, NOW + 5, FAR, 10).iter().zip([
        DeliveryState::Dead,
        DeliveryState::Delivered,
        DeliveryState::Dead,
        DeliveryState::Dead,
    ]) {
        done(store, [settle_op(settle(leased, state, NOW + 10))]);
    }
    let purge = |id: Option<u8>, principal: Option<&str>, state, limit| {
        let (id, principal) = (id.map(delivery_id), principal.map(str::to_owned));
        match done(store, [Op::Purge(Purge { id, principal, state, limit })]).remove(0) {
            Done::Purged(count) => count,
            other => panic!("a purge answers `Purged`, not {other:?}"),
        }
    };
    let left = || summaries(store).iter().map(|one| one.id.0[0]).collect::<Vec<_>>();
    let dead = Some(DeliveryState::Dead);
    assert_eq!(purge(Some(5), None, None, ALL), 0, "one that a worker holds is not finished");
    assert_eq!(purge(None, Some("p"), dead, 1), 1);
    assert_eq!(left(), [2, 3, 4, 5, 6], "the one that was finished first");
    assert_eq!(purge(Some(3), Some("p"), None, ALL), 0, "another principal's");
    assert_eq!(purge(Some(3), None, dead, ALL), 1);
    assert_eq!(purge(None, None, None, ALL), 2);
    assert_eq!(left(), [5, 6]);
    assert_eq!(store.attempts(delivery_id(2)).expect("reads"), []);
}
