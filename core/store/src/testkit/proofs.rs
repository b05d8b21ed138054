//! What origins publish about where they take webhooks.

use tidings_proto::stream::Retention;
use tidings_proto::time::StoreMillis;

use super::Make;
use super::fixtures::{FAR, NOW, delivery_id, done, enqueue, refused};
use crate::commit::{Op, Refused, Settle};
use crate::record::{DeliveryState, OriginProof};
use crate::store::Store;

const A: &str = "https://a.example";

fn proof(principal: &str, origin: &str, document: &str, until: StoreMillis) -> OriginProof {
    OriginProof { principal: principal.into(), origin: origin.into(), document: document.into(), until }
}

fn prove(proof: &OriginProof) -> Op {
    Op::ProveOrigin(Box::new(proof.clone()))
}

fn kept(store: &dyn Store, principal: &str, origin: &str) -> Option<OriginProof> {
    store.origin_proof(principal, origin).expect("reads")
}

pub(super) fn what_an_origin_publishes_is_kept_for_each_principal(store: &dyn Store) {
    assert_eq!(kept(store, "p", A), None);
    let first = proof("p", A, r#"{"receivers":["/h\u00f6ks/"]}"#, NOW + 100);
    let other_port = proof("p", "https://a.example:8443", "{}", NOW);
    done(store, [prove(&first), prove(&other_port)]);
    assert_eq!(kept(store, "p", A), Some(first));
    assert_eq!(kept(store, "p", "https://a.example:8443"), Some(other_port), "whether or not it still counts");
    assert_eq!((kept(store, "q", A), kept(store, "p", "http://a.example"), kept(store, "", A)), (None, None, None));
    let next = proof("p", A, "[]", NOW + 50);
    let theirs = proof("q", A, "{}", FAR);
    done(store, [prove(&next), prove(&theirs)]);
    assert_eq!((kept(store, "p", A), kept(store, "q", A)), (Some(next), Some(theirs)), "the newest one of each");
}

pub(super) fn what_does_not_count_any_more_is_forgotten(store: &dyn Store) {
    let (old, good) = (proof("p", A, "{}", NOW + 100), proof("q", A, "{}", NOW + 101));
    done(store, [prove(&old), prove(&good)]);
    let trim = Op::Trim { now: NOW + 100, wall: 0, retention: Retention::UNLIMITED, keep_finished_ms: 1_000_000 };
    done(store, [trim]);
    assert_eq!((kept(store, "p", A), kept(store, "q", A)), (None, Some(good)));
}

pub(super) fn a_refused_commit_keeps_what_was_published_before(store: &dyn Store) {
    let before = proof("p", A, "{}", FAR);
    done(store, [prove(&before)]);
    let lost = Op::Settle(Box::new(Settle {
        id: delivery_id(9),
        token: 1,
        state: DeliveryState::Delivered,
        due: NOW,
        counts: true,
        error: None,
        at: NOW,
    }));
    let trim = Op::Trim { now: FAR, wall: 0, retention: Retention::UNLIMITED, keep_finished_ms: 0 };
    let ops = [prove(&proof("p", A, "[]", NOW)), prove(&proof("q", A, "[]", FAR)), trim, lost];
    assert_eq!(refused(store, ops), Refused::LostLease);
    assert_eq!((kept(store, "p", A), kept(store, "q", A)), (Some(before), None));
}

pub(super) fn what_was_published_is_there_after_a_close(make: Make<'_>) {
    let harness = make();
    let store = harness.open();
    let proof = proof("p", A, r#"{"receivers":["/"]}"#, FAR);
    done(&*store, [prove(&proof), enqueue(1, NOW)]);
    drop(store);
    assert_eq!(kept(&*harness.open(), "p", A), Some(proof));
}
