//! Endpoints: their standing, and which of their deliveries may go.

use tidings_proto::delivery::{Category, DisableReason, EndpointPolicy, EndpointState, Learned, Proof, Rate, Standing};
use tidings_proto::time::StoreMillis;

use super::Make;
use super::fixtures::{
    ALL, FAR, Fresh, NOW, W1, W2, delivery_id, done, endpoint_key, enqueue, heartbeat, lease, new_delivery, settle,
    settle_op, summaries,
};
use crate::commit::{Commit, Done, Durability, EndpointNews, Lease, Op, Settle};
use crate::flow::Flow;
use crate::record::{Delivery, DeliveryState, EndpointOwner, EndpointRecord, NewDelivery, Sealed, Taken};
use crate::store::Store;

fn owner(principal: &str, host: &str) -> EndpointOwner {
    let route = Sealed(format!("https://{host}/hook?token=secret").into_bytes().into());
    EndpointOwner { principal: principal.to_owned(), host: host.to_owned(), route }
}

fn news(n: u8, learned: Learned, now: StoreMillis) -> Op {
    news_of(n, "p", "a.example", learned, now)
}

fn news_of(n: u8, principal: &str, host: &str, learned: Learned, now: StoreMillis) -> Op {
    let (key, owner) = (endpoint_key(n), owner(principal, host));
    Op::Endpoint(Box::new(EndpointNews { key, owner, learned, policy: EndpointPolicy::default(), now }))
}

fn trusted(n: u8) -> Op {
    news(n, Learned::NamedTrusted(Proof::AllowList), NOW)
}

/// Enqueues a delivery for an endpoint.
fn to(endpoint: u8, n: u8, due: StoreMillis) -> Op {
    Op::Enqueue(Box::new(NewDelivery { endpoint: endpoint_key(endpoint), ..new_delivery(n, due) }))
}

fn standing(store: &dyn Store, n: u8) -> Standing {
    store.endpoint(endpoint_key(n)).expect("reads").expect("known").standing
}

fn flowing(store: &dyn Store, now: StoreMillis, limit: u32, flow: Flow) -> Vec<Delivery> {
    match done(store, [Op::Lease(Lease { worker: W1, now, until: FAR, limit, flow })]).remove(0) {
        Done::Leased(leased) => leased,
        other => panic!("a lease answers `Leased`, not {other:?}"),
    }
}

fn ids(leased: &[Delivery]) -> Vec<u8> {
    leased.iter().map(|delivery| delivery.new.id.0[0]).collect()
}

fn unverified(store: &dyn Store, now: StoreMillis, until: StoreMillis) -> Vec<EndpointRecord> {
    match done(store, [Op::TakeUnverified { now, until, limit: 10 }]).remove(0) {
        Done::Verify(endpoints) => endpoints,
        other => panic!("it answers `Verify`, not {other:?}"),
    }
}

pub(super) fn an_endpoint_comes_to_be_when_it_is_named(store: &dyn Store) {
    assert_eq!(store.endpoint(endpoint_key(1)).expect("reads"), None);
    for learned in [Learned::Took, Learned::Failed(Category::Timeout), Learned::Disable(DisableReason::Gone)] {
        done(store, [news(1, learned, NOW)]);
        assert_eq!(store.endpoint(endpoint_key(1)).expect("reads"), None, "{learned:?}");
    }
    done(store, [news_of(1, "p", "a.example", Learned::NamedForProof, NOW)]);
    done(store, [news_of(2, "q", "a.example", Learned::NamedTrusted(Proof::Address), NOW)]);
    done(store, [news_of(3, "p", "b.example", Learned::NamedForProof, NOW + 1)]);
    let found = store.endpoint(endpoint_key(1)).expect("reads").expect("known");
    assert_eq!((found.key, &found.owner), (endpoint_key(1), &owner("p", "a.example")));
    let list = |principal, limit| -> Vec<u8> {
        store.endpoints(principal, limit).expect("reads").iter().map(|endpoint| endpoint.key.0[0]).collect()
    };
    assert_eq!((list(None, ALL), list(Some("p"), ALL)), (vec![1, 2, 3], vec![1, 3]));
    assert_eq!((list(None, 2), list(Some("nobody"), ALL)), (vec![1, 2], vec![]));
}

pub(super) fn everything_that_is_known_of_an_endpoint_is_kept(store: &dyn Store) {
    let policy = EndpointPolicy::default();
    let mut expected = Standing::default();
    let lessons = [
        Learned::NamedForProof,
        Learned::Refused { category: Category::ChallengeFailed, random: 77 },
        Learned::Proven(Proof::Challenge, NOW + 9_000),
        Learned::Failed(Category::Http5xx),
        Learned::Took,
        Learned::Failed(Category::TlsError),
        Learned::Failed(Category::Timeout),
        Learned::Failed(Category::Timeout),
        Learned::Failed(Category::Timeout),
        Learned::Failed(Category::DnsError),
        Learned::Lapsed,
        Learned::Disable(DisableReason::Gone),
        Learned::NamedForProof,
        Learned::Proven(Proof::WellKnown, NOW + 99_000),
        Learned::Disable(DisableReason::Operator),
        Learned::Enable,
    ];
    for (at, learned) in (NOW..).zip(lessons) {
        done(store, [news(1, learned, at)]);
        expected = expected.learn(&policy, learned, at);
        assert_eq!(standing(store, 1), expected, "{learned:?}");
    }
}

pub(super) fn deliveries_wait_until_their_endpoint_is_verified(store: &dyn Store) {
    done(store, [news(1, Learned::NamedForProof, NOW), to(1, 1, NOW), to(2, 2, NOW)]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW));
    assert_eq!(ids(&lease(store, W1, NOW, FAR, 10)), [2], "the other one's is known to nobody, so it is trusted");
    assert_eq!(unverified(store, NOW - 1, FAR), []);
    let asked = unverified(store, NOW, NOW + 50);
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].key, &asked[0].owner), (endpoint_key(1), &owner("p", "a.example")));
    assert_eq!(unverified(store, NOW + 49, FAR), [], "somebody is at it");
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 50));
    assert_eq!(unverified(store, NOW + 50, NOW + 90).len(), 1, "who took it is gone");
    done(store, [news(1, Learned::Proven(Proof::Challenge, NOW + 1_000), NOW + 60)]);
    assert_eq!(unverified(store, NOW + 500, FAR), []);
    assert_eq!(ids(&lease(store, W1, NOW + 60, FAR, 10)), [1]);
    assert_eq!(summaries(store)[0].attempts, 1, "waiting was no attempt");
}

pub(super) fn a_proof_that_ran_out_is_asked_for_again(store: &dyn Store) {
    done(store, [news(1, Learned::NamedForProof, NOW)]);
    done(store, [news(1, Learned::Proven(Proof::Challenge, NOW + 100), NOW), to(1, 1, NOW + 99), to(1, 2, NOW + 100)]);
    assert_eq!(ids(&lease(store, W1, NOW + 99, FAR, 10)), [1]);
    assert_eq!(ids(&lease(store, W1, NOW + 100, FAR, 10)), [0; 0]);
    assert_eq!(standing(store, 1).state, EndpointState::Unverified);
    assert_eq!(unverified(store, NOW + 100, FAR).len(), 1);
}

pub(super) fn a_disabled_endpoint_gives_up_what_waits(store: &dyn Store) {
    done(store, [trusted(1), to(1, 1, NOW), to(1, 2, NOW + 5_000)]);
    done(store, [news(1, Learned::Disable(DisableReason::Gone), NOW), to(1, 3, NOW)]);
    let given_up = lease(store, W1, NOW, FAR, 2);
    assert_eq!(ids(&given_up), [1, 3]);
    assert!(given_up.iter().all(|delivery| delivery.taken == Taken::Disabled));
    assert_eq!(ids(&lease(store, W1, NOW, FAR, 2)), [2], "due or not");
    done(store, [news(1, Learned::Enable, NOW + 1), to(1, 4, NOW)]);
    let leased = lease(store, W1, NOW + 1, FAR, 2);
    assert_eq!((ids(&leased), leased[0].taken), (vec![4], Taken::Ready));
}

pub(super) fn an_open_breaker_lets_a_probe_through_when_its_time_is_over(store: &dyn Store) {
    done(store, [trusted(1), to(1, 1, NOW), to(1, 2, NOW), to(1, 3, NOW)]);
    for _ in 0..5 {
        done(store, [news(1, Learned::Failed(Category::Http5xx), NOW)]);
    }
    let flow = Flow { per_endpoint: 8, ..Flow::unlimited() };
    assert_eq!(ids(&flowing(store, NOW + 29_999, 10, flow)), [0; 0]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 30_000));
    let probe = flowing(store, NOW + 30_000, 10, flow);
    assert_eq!((ids(&probe), probe[0].suspect), (vec![1], true));
    assert_eq!(ids(&flowing(store, NOW + 30_000, 10, flow)), [0; 0], "one probe at a time");
    done(
        store,
        [settle_op(settle(&probe[0], DeliveryState::Delivered, NOW + 30_001)), news(1, Learned::Took, NOW + 30_001)],
    );
    let rest = flowing(store, NOW + 30_001, 10, flow);
    assert_eq!((ids(&rest), rest[0].suspect), (vec![2, 3], false));
}

pub(super) fn an_endpoint_has_its_slots_and_no_more(store: &dyn Store) {
    done(store, [trusted(1), trusted(2), news(1, Learned::Took, NOW)]);
    done(store, (1..=6).map(|n| to(1, n, NOW)).chain((7..=9).map(|n| to(2, n, NOW))));
    let flow = Flow { per_endpoint: 3, fresh: 2, ..Flow::unlimited() };
    let mut first = flowing(store, NOW, 10, flow);
    first.sort_by_key(|delivery| delivery.new.id);
    assert_eq!(ids(&first), [1, 2, 3, 7, 8], "three of one that took something before, two of a new one");
    assert_eq!(first.iter().map(|delivery| delivery.suspect).collect::<Vec<_>>(), [false, false, false, true, true]);
    assert_eq!(ids(&flowing(store, NOW, 10, flow)), [0; 0]);
    assert_eq!(store.next_due().expect("reads"), Some(FAR), "nothing may go before one of them ends");
    done(store, [settle_op(settle(&first[1], DeliveryState::Delivered, NOW))]);
    assert_eq!(ids(&flowing(store, NOW, 10, flow)), [4]);
    done(store, [settle_op(settle(&first[0], DeliveryState::Retrying, NOW))]);
    assert_eq!(ids(&flowing(store, NOW, 10, flow)), [5], "the one that is tried again is not due yet");
}

pub(super) fn endpoints_for_which_nothing_speaks_share_their_slots(store: &dyn Store) {
    for n in 1..=5 {
        done(store, [trusted(n), to(n, n, NOW)]);
    }
    done(store, [news(5, Learned::Took, NOW)]);
    let flow = Flow { suspects: 2, ..Flow::unlimited() };
    let mut leased = ids(&flowing(store, NOW, 10, flow));
    leased.sort_unstable();
    assert_eq!(leased, [1, 2, 5]);
    let none = Flow { suspects: 0, ..flow };
    assert_eq!(ids(&flowing(store, NOW, 10, none)), [0; 0]);
    done(store, [to(5, 6, NOW + 1)]);
    assert_eq!(ids(&flowing(store, NOW + 1, 10, none)), [6], "they are not in the way of the others");
    let mut leased = ids(&flowing(store, NOW + 1, 10, flow));
    leased.sort_unstable();
    assert_eq!(leased, [3, 4], "their turn comes with the next slot");
    done(store, [to(4, 7, NOW + 2), news(4, Learned::Disable(DisableReason::Gone), NOW + 2)]);
    let given_up = flowing(store, NOW + 2, 10, none);
    assert_eq!((ids(&given_up), given_up[0].taken), (vec![7], Taken::Disabled), "to give up takes no slot");
}

pub(super) fn slots_that_are_scarce_are_spread(store: &dyn Store) {
    for n in 1..=3 {
        done(store, [trusted(n), news(n, Learned::Took, NOW)]);
        done(store, (0..8).map(|at| to(n, n * 10 + at, NOW + i64::from(n))));
    }
    // 40 of 100 are free: an eighth of that is 5, then of 35 it is 4.
    let scarce = Flow { per_endpoint: 8, slots: 100, free: 40, ..Flow::unlimited() };
    assert_eq!(ids(&flowing(store, NOW + 9, 9, scarce)), [10, 11, 12, 13, 14, 20, 21, 22, 23]);
    // Half are free: as many as the endpoint may have. The third has not had its turn yet.
    let plenty = Flow { free: 50, ..scarce };
    assert_eq!(ids(&flowing(store, NOW + 9, 8, plenty)), [30, 31, 32, 33, 34, 35, 36, 37]);
    // The last one goes to somebody.
    let last = Flow { free: 1, ..scarce };
    assert_eq!(flowing(store, NOW + 9, 1, last).len(), 1);
}

pub(super) fn an_endpoint_whose_attempt_is_slow_gets_no_slot_that_is_scarce(store: &dyn Store) {
    done(store, [trusted(1), trusted(2), news(1, Learned::Took, NOW), news(2, Learned::Took, NOW)]);
    done(store, [to(1, 1, NOW), to(1, 2, NOW + 500), to(2, 3, NOW + 500)]);
    let scarce = Flow { per_endpoint: 8, slots: 100, free: 40, slow_ms: 500, ..Flow::unlimited() };
    let lasting = |now| Lease { worker: W1, now, until: now + 10_000, limit: 10, flow: scarce };
    let leased = |lease: Lease| match done(store, [Op::Lease(lease)]).remove(0) {
        Done::Leased(leased) => leased,
        other => panic!("a lease answers `Leased`, not {other:?}"),
    };
    let slow = leased(lasting(NOW));
    assert_eq!(ids(&slow), [1]);
    assert_eq!(ids(&leased(lasting(NOW + 500))), [3], "the first has been open for half a second");
    done(store, [to(1, 4, NOW + 501)]);
    assert_eq!(ids(&leased(lasting(NOW + 501))), [0; 0], "whatever comes for it");
    let plenty = Flow { free: 50, ..scarce };
    done(store, [to(1, 5, NOW + 502)]);
    assert_eq!(ids(&leased(Lease { flow: plenty, ..lasting(NOW + 502) })), [2, 4, 5], "nobody has to wait for those");
    done(store, [to(1, 6, NOW + 503), settle_op(settle(&slow[0], DeliveryState::Delivered, NOW + 503))]);
    assert_eq!(ids(&leased(lasting(NOW + 503))), [6], "it has ended");
}

pub(super) fn a_line_that_was_served_goes_behind_the_others(store: &dyn Store) {
    done(store, [trusted(1), trusted(2)]);
    done(store, (1..=4).map(|n| to(1, n, NOW)));
    done(store, [to(2, 5, NOW + 10), to(2, 6, NOW + 10)]);
    let order: Vec<u8> = (0..6).flat_map(|n| ids(&lease(store, W1, NOW + 20 + n, FAR, 1))).collect();
    assert_eq!(order, [1, 5, 2, 6, 3, 4]);
}

pub(super) fn a_rate_is_kept_and_waiting_for_it_is_no_attempt(store: &dyn Store) {
    done(store, [trusted(1)]);
    done(store, (1..=5).map(|n| to(1, n, NOW)));
    let flow = Flow { rate: Some(Rate { per_second: 10, burst: 2 }), ..Flow::unlimited() };
    assert_eq!(ids(&flowing(store, NOW, 10, flow)), [1, 2]);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 100));
    assert_eq!(ids(&flowing(store, NOW + 99, 10, flow)), [0; 0]);
    assert_eq!(ids(&flowing(store, NOW + 100, 10, flow)), [3]);
    assert_eq!(ids(&flowing(store, NOW + 300, 10, flow)), [4, 5]);
    assert!(summaries(store).iter().all(|delivery| delivery.attempts == 1));
}

pub(super) fn a_host_goes_round_its_principals(store: &dyn Store) {
    // One principal with forty endpoints at the host, and one with a single one that came later.
    for n in 1..=40 {
        done(store, [news_of(n, "many", "h.example", Learned::NamedTrusted(Proof::Address), NOW), to(n, n, NOW)]);
    }
    done(store, [news_of(50, "one", "h.example", Learned::NamedTrusted(Proof::Address), NOW)]);
    done(store, (101..=105).map(|n| to(50, n, NOW)));
    done(store, [news_of(60, "else", "i.example", Learned::NamedTrusted(Proof::Address), NOW), to(60, 60, NOW)]);
    let flow = Flow { host_rate: Some(Rate { per_second: 10, burst: 1 }), ..Flow::unlimited() };
    let mut served = Vec::new();
    for round in 0..16 {
        let leased = flowing(store, NOW + round * 100, 100, flow);
        assert!(leased.len() <= 1 + usize::from(round == 0), "a token each tenth of a second: {:?}", ids(&leased));
        served.extend(ids(&leased));
    }
    assert!(served.contains(&60), "another host has its own");
    let ones = served.iter().filter(|n| **n > 100).count();
    assert_eq!(ones, 5, "half of the first tokens went to the other principal: {served:?}");
    let last = served.iter().position(|n| *n == 105).expect("served");
    assert!(last <= 12, "{served:?}");
}

pub(super) fn a_wait_that_ended_is_told_whatever_the_endpoint(store: &dyn Store) {
    let waiting = |n: u8, due| NewDelivery { wait_until: NOW + 100, ..new_delivery(n, due) };
    let enqueue = |new: NewDelivery| Op::Enqueue(Box::new(new));
    done(store, [news(1, Learned::NamedForProof, NOW), enqueue(waiting(1, NOW))]);
    let behind = NewDelivery { fifo_key: Some("k".to_owned()), endpoint: endpoint_key(2), ..waiting(3, NOW + 500) };
    let ahead = NewDelivery { wait_until: FAR, ..NewDelivery { id: delivery_id(2), ..behind.clone() } };
    done(store, [trusted(2), enqueue(ahead), enqueue(behind)]);
    done(store, [Op::TakeUnverified { now: NOW, until: FAR, limit: 1 }]);
    assert_eq!(lease(store, W1, NOW + 99, FAR, 10), []);
    assert_eq!(store.next_due().expect("reads"), Some(NOW + 100));
    let late = lease(store, W1, NOW + 100, FAR, 10);
    assert_eq!(ids(&late), [1, 3]);
    assert!(late.iter().all(|delivery| delivery.taken == Taken::Late));
}

pub(super) fn deliveries_of_a_key_go_out_one_after_the_other(store: &dyn Store) {
    let keyed = |n: u8, endpoint: u8, key: Option<&str>| {
        let (endpoint, fifo_key) = (endpoint_key(endpoint), key.map(str::to_owned));
        Op::Enqueue(Box::new(NewDelivery { endpoint, fifo_key, ..new_delivery(n, NOW) }))
    };
    done(store, [trusted(1), trusted(2)]);
    let new = [keyed(1, 1, Some("k")), keyed(2, 1, Some("k")), keyed(3, 1, None), keyed(4, 1, Some("l"))];
    done(store, new.into_iter().chain([keyed(5, 2, Some("k")), keyed(6, 1, Some("k"))]));
    let mut first = lease(store, W1, NOW, FAR, 10);
    first.sort_by_key(|delivery| delivery.new.id);
    assert_eq!(ids(&first), [1, 3, 4, 5], "the same key of another endpoint is another key");
    let head = first.remove(0);
    done(store, [settle_op(Settle { due: NOW + 500, ..settle(&head, DeliveryState::Retrying, NOW) })]);
    assert_eq!(ids(&lease(store, W1, NOW + 499, FAR, 10)), [0; 0], "nothing passes one that is tried again");
    let head = lease(store, W1, NOW + 500, FAR, 10).remove(0);
    assert_eq!(head.new.id, delivery_id(1));
    done(store, [settle_op(settle(&head, DeliveryState::Dead, NOW + 500))]);
    let second = lease(store, W1, NOW + 500, FAR, 10);
    assert_eq!(ids(&second), [2], "one at a time, also after one that was given up");
    done(store, [settle_op(settle(&second[0], DeliveryState::Delivered, NOW + 501))]);
    assert_eq!(ids(&lease(store, W1, NOW + 501, FAR, 10)), [6]);
}

pub(super) fn unfinished_deliveries_of_a_principal_are_counted(store: &dyn Store) {
    let of = |n: u8, principal: &str| {
        Op::Enqueue(Box::new(NewDelivery { principal: principal.to_owned(), ..new_delivery(n, NOW + i64::from(n)) }))
    };
    done(store, [of(1, "p"), of(2, "p"), of(3, "q"), of(4, "p")]);
    let count = |principal: &str| store.pending(principal, 100).expect("reads");
    assert_eq!((count("p"), count("q"), count("r")), (3, 1, 0));
    assert_eq!(store.pending("p", 2).expect("reads"), 2, "no further than asked");
    let leased = lease(store, W1, NOW + 2, FAR, 10);
    assert_eq!(count("p"), 3, "one in a worker's hands is not finished");
    done(store, [settle_op(settle(&leased[0], DeliveryState::Delivered, NOW))]);
    done(store, [settle_op(Settle { due: NOW + 5, ..settle(&leased[1], DeliveryState::Retrying, NOW) })]);
    assert_eq!(count("p"), 2);
    let twice = Commit::new(Durability::Process, vec![settle_op(settle(&leased[0], DeliveryState::Dead, NOW))]);
    assert!(store.commit(&[twice])[0].is_err());
    // What is refused is wholly taken back: the second of these is there already.
    let again = Commit::new(Durability::Process, vec![of(5, "p"), of(4, "p")]);
    assert!(store.commit(&[again])[0].is_err());
    assert_eq!((count("p"), count("q")), (2, 1), "each is counted once, and taken off once");
    for one in lease(store, W1, NOW + 10, FAR, 10) {
        done(store, [settle_op(settle(&one, DeliveryState::Dead, NOW + 10))]);
    }
    assert_eq!((count("p"), count("q")), (0, 0));
    done(store, [of(6, "p")]);
    assert_eq!(count("p"), 1);
}

pub(super) fn slots_of_a_dead_worker_are_free(make: Make<'_>) {
    let fresh = Fresh::open(make);
    let store = &*fresh;
    done(store, [heartbeat(W1, NOW + 1_000), heartbeat(W2, FAR), trusted(1), to(1, 1, NOW), to(1, 2, NOW)]);
    let flow = Flow { per_endpoint: 1, ..Flow::unlimited() };
    assert_eq!(ids(&flowing(store, NOW, 10, flow)), [1]);
    assert_eq!(ids(&flowing(store, NOW, 10, flow)), [0; 0]);
    let again = Op::Lease(Lease { worker: W2, now: NOW + 1_500, until: FAR, limit: 10, flow });
    let Done::Leased(leased) = done(store, [again]).remove(0) else { panic!("leased") };
    assert_eq!((ids(&leased), leased[0].attempts), (vec![1], 1));
}

pub(super) fn endpoints_that_nobody_names_are_forgotten(store: &dyn Store) {
    done(store, [trusted(1), trusted(2), news(3, Learned::NamedTrusted(Proof::Address), NOW + 500), to(2, 1, NOW)]);
    let retention = tidings_proto::stream::Retention::UNLIMITED;
    done(store, [Op::Trim { now: NOW + 1_000, wall: 0, retention, keep_finished_ms: 600 }]);
    let known = |n| store.endpoint(endpoint_key(n)).expect("reads").is_some();
    assert_eq!((known(1), known(2), known(3)), (false, true, true), "the second one's delivery still waits");
    assert_eq!(ids(&lease(store, W1, NOW + 1_000, FAR, 10)), [1]);
}

pub(super) fn standings_are_there_after_a_close(make: Make<'_>) {
    let harness = make();
    let store = harness.open();
    done(&*store, [heartbeat(W1, FAR), news(1, Learned::NamedForProof, NOW), enqueue(1, NOW)]);
    done(&*store, [news(1, Learned::Proven(Proof::Challenge, FAR), NOW), news(2, Learned::NamedForProof, NOW)]);
    done(&*store, [news(2, Learned::Disable(DisableReason::Gone), NOW + 1)]);
    let before: Vec<_> = [1, 2].map(|n| store.endpoint(endpoint_key(n)).expect("reads")).into();
    drop(store);
    let store = harness.open();
    let after: Vec<_> = [1, 2].map(|n| store.endpoint(endpoint_key(n)).expect("reads")).into();
    assert_eq!(before, after);
    assert_eq!(standing(&*store, 2).disabled, Some((DisableReason::Gone, NOW + 1)));
}
