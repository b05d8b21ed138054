//! Deliveries that go through one place of the host: leased by who offers it, and by anybody once its time is over.

use super::Make;
use super::fixtures::{
    FAR, Fresh, NOW, W1, W2, done, heartbeat, lease, new_delivery, refused, settle, settle_op, summaries,
};
use crate::commit::{Done, Lease, Op, Refused, Settle};
use crate::flow::Flow;
use crate::record::{Delivery, DeliveryId, DeliveryState, NewDelivery, Outlet, WorkerId};
use crate::store::Store;

fn bound(n: u8, due: i64, name: &str, until: i64) -> Op {
    let outlet = Some(Outlet { name: name.to_owned(), until });
    Op::Enqueue(Box::new(NewDelivery { outlet, ..new_delivery(n, due) }))
}

#[track_caller]
fn lease_outlet(store: &dyn Store, worker: WorkerId, now: i64, until: i64, outlet: &str) -> Vec<Delivery> {
    let lease = Lease { worker, now, until, limit: 2, flow: Flow::unlimited() };
    match done(store, [Op::LeaseOutlet { lease, outlet: outlet.to_owned() }]).remove(0) {
        Done::Leased(leased) => leased,
        other => panic!("a lease answers `Leased`, not {other:?}"),
    }
}

fn ids(leased: &[Delivery]) -> Vec<u8> {
    leased.iter().map(|delivery| delivery.new.id.0[0]).collect()
}

fn waiting(store: &dyn Store) -> Vec<(String, i64)> {
    store.waiting_outlets().expect("reads")
}

pub(super) fn only_who_offers_the_outlet_leases(store: &dyn Store) {
    assert_eq!(waiting(store), []);
    for (n, due, name) in [(1, NOW + 3, "b"), (2, NOW + 1, "b"), (3, NOW, "a"), (4, NOW + 2, "b"), (5, NOW + 9, "b")] {
        done(store, [bound(n, due, name, FAR)]);
    }
    assert_eq!(waiting(store), [("a".to_owned(), NOW), ("b".to_owned(), NOW + 1)]);
    assert_eq!(store.next_due().expect("reads"), Some(FAR), "nobody else may take them before");
    assert_eq!(lease(store, W1, NOW + 5, FAR, 10), []);
    assert_eq!(ids(&lease_outlet(store, W1, NOW, FAR, "b")), [0; 0], "not due");
    assert_eq!(ids(&lease_outlet(store, W1, NOW + 5, FAR, "c")), [0; 0]);
    let taken = lease_outlet(store, W1, NOW + 5, FAR, "b");
    assert_eq!(ids(&taken), [2, 4], "oldest due first, no more than asked for");
    assert_eq!(taken[0].new.outlet, Some(Outlet { name: "b".to_owned(), until: FAR }));
    assert_eq!(ids(&lease_outlet(store, W2, NOW + 5, FAR, "b")), [1], "what is held is not leased again");
    assert_eq!(waiting(store), [("a".to_owned(), NOW), ("b".to_owned(), NOW + 9)]);
    done(store, [settle_op(settle(&taken[0], DeliveryState::Delivered, NOW + 6))]);
    assert_eq!(summaries(store)[1].state, DeliveryState::Delivered);
}

pub(super) fn once_its_time_is_over_any_worker_leases(store: &dyn Store) {
    done(store, [bound(1, NOW, "a", NOW + 100)]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 100));
    assert_eq!(lease(store, W2, NOW + 99, FAR, 10), []);
    assert_eq!(ids(&lease(store, W2, NOW + 100, FAR, 10)), [1]);
    assert_eq!(waiting(store), []);
    assert_eq!(lease_outlet(store, W1, NOW + 200, FAR, "a"), []);
}

pub(super) fn a_retry_waits_for_the_outlet_again(store: &dyn Store) {
    done(store, [bound(1, NOW, "a", FAR)]);
    let first = lease_outlet(store, W1, NOW, FAR, "a").remove(0);
    done(store, [settle_op(Settle { due: NOW + 50, ..settle(&first, DeliveryState::Retrying, NOW) })]);
    assert_eq!(waiting(store), [("a".to_owned(), NOW + 50)]);
    assert_eq!(lease(store, W2, NOW + 60, FAR, 10), []);
    let second = lease_outlet(store, W2, NOW + 60, FAR, "a").remove(0);
    assert_eq!((second.attempts, second.new.due), (1, NOW + 50));
    done(store, [Op::Leave { worker: W2 }]);
    assert_eq!(waiting(store), [("a".to_owned(), NOW + 50)]);
    assert_eq!(lease_outlet(store, W1, NOW + 60, FAR, "a").remove(0).attempts, 2);
}

pub(super) fn an_offer_lives_as_long_as_its_worker(make: Make<'_>) {
    let fresh = Fresh::open(make);
    let store = &*fresh;
    let offer = |worker, outlet: &str, offered| Op::Offer { worker, outlet: outlet.to_owned(), offered };
    let offered = |outlet: &str, now| store.offered(outlet, now).expect("reads");
    assert!(!offered("a", NOW));
    done(store, [heartbeat(W1, NOW + 1_000), heartbeat(W2, FAR), offer(W1, "a", true), offer(W1, "a", true)]);
    done(store, [offer(W2, "ab", true), offer(W1, "b", true), offer(W2, "b", true)]);
    assert_eq!([offered("a", NOW), offered("ab", NOW), offered("b", NOW), offered("", NOW)], [true, true, true, false]);
    assert!(!offered("a", NOW + 1_001), "its worker is gone");
    assert!(offered("b", NOW + 1_001), "another one's lives");
    done(store, [offer(W1, "a", false), offer(W1, "a", false)]);
    assert!(!offered("a", NOW));
    done(store, [Op::Leave { worker: W2 }]);
    assert!(!offered("ab", NOW));
    assert!(offered("b", NOW));
    assert_eq!(refused(store, [offer(W1, "c", true), settle_op(no_such())]), Refused::LostLease);
    assert!(!offered("c", NOW), "with its commit or not at all");
}

fn no_such() -> Settle {
    let state = DeliveryState::Delivered;
    Settle { id: DeliveryId([9; 16]), token: 1, state, due: NOW, counts: true, error: None, at: NOW }
}

pub(super) fn what_a_dead_worker_held_waits_for_the_outlet_again(make: Make<'_>) {
    let fresh = Fresh::open(make);
    let store = &*fresh;
    done(store, [heartbeat(W1, NOW + 1_000), heartbeat(W2, FAR), bound(1, NOW, "a", FAR), bound(2, NOW, "b", FAR)]);
    let dies = lease_outlet(store, W1, NOW, FAR, "a").remove(0);
    let late = lease_outlet(store, W2, NOW, NOW + 500, "b").remove(0);
    assert_eq!(lease(store, W2, NOW + 499, FAR, 10), []);
    assert_eq!(waiting(store), []);
    assert_eq!(lease(store, W2, NOW + 500, FAR, 10), [], "its lease ran out, and it is not anybody's");
    assert_eq!(waiting(store), [("b".to_owned(), NOW)]);
    assert_eq!(lease(store, W2, NOW + 1_500, FAR, 10), []);
    assert_eq!(waiting(store), [("a".to_owned(), NOW), ("b".to_owned(), NOW)]);
    for (before, outlet) in [(dies, "a"), (late, "b")] {
        assert_eq!(lease_outlet(store, W2, NOW + 1_500, FAR, outlet).remove(0).attempts, 1);
        assert_eq!(refused(store, [settle_op(settle(&before, DeliveryState::Delivered, NOW))]), Refused::LostLease);
    }
}
