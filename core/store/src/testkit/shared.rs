//! Shared streams: numbered inside the commit.

use super::fixtures::{
    NOW, W1, W2, append, chunk, claim, create, done, info, key, payloads, refused, shared, shared_and_close, stream_id,
};
use crate::commit::{Claimed, Done, Op, Refused};
use crate::store::Store;

/// Claim and first number.
fn appended(store: &dyn Store, op: Op) -> (u32, u64) {
    match done(store, [op]).remove(0) {
        Done::Appended { stream, epoch, claim, first_seq } => {
            let found = store.stream_by_id(stream).expect("reads").expect("there");
            assert_eq!((found.epoch, found.claim), (epoch, claim));
            (claim, first_seq)
        }
        other => panic!("a shared append answers `Appended`, not {other:?}"),
    }
}

pub(super) fn shared_appends_are_numbered_in_the_commit(store: &dyn Store) {
    assert_eq!(appended(store, shared(stream_id(1), &key("a"), &["0", "1"])), (1, 0), "a new stream begins at 0");
    assert_eq!(appended(store, shared(stream_id(2), &key("a"), &["2"])), (1, 2));
    assert_eq!(appended(store, shared(stream_id(3), &key("a"), &["3", "4", "5"])), (1, 3));
    let found = info(store, &key("a"));
    assert_eq!((found.id, found.owned, found.owner_gone, found.next_seq), (stream_id(1), false, false, 6));
    assert_eq!(payloads(store, stream_id(1)), ["0", "1", "2", "3", "4", "5"]);
}

pub(super) fn a_shared_append_fences_the_writer_and_goes_on_at_the_head(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1), append(a, 1, vec![chunk(0, &["0", "1"])])]);
    assert_eq!(appended(store, shared(stream_id(2), &key("a"), &["2"])), (2, 2));
    assert_eq!(refused(store, [append(a, 1, vec![chunk(2, &["lost"])])]), Refused::Fenced { claim: 2, next_seq: 3 });
    assert_eq!(appended(store, shared(stream_id(2), &key("a"), &["3"])), (2, 3), "one shared claim serves everybody");

    let claimed = done(store, [claim(stream_id(3), &key("a"), W2)]).remove(0);
    let epoch = info(store, &key("a")).epoch;
    assert_eq!(claimed, Done::Claimed(Claimed { stream: a, epoch, claim: 3, next_seq: 4 }));
    assert!(info(store, &key("a")).owned);
    assert_eq!(appended(store, shared(stream_id(2), &key("a"), &["4"])), (4, 4));
    assert!(!info(store, &key("a")).owned);
    let next = |claim| store.next_claim_first(a, claim).expect("reads");
    assert_eq!([next(1), next(2), next(3), next(4)], [Some(2), Some(4), Some(4), None]);
    assert_eq!(payloads(store, a), ["0", "1", "2", "3", "4"]);
}

pub(super) fn a_shared_append_may_close(store: &dyn Store) {
    assert_eq!(appended(store, shared_and_close(stream_id(1), &key("a"), &["only"], NOW + 1)), (1, 0));
    assert_eq!(info(store, &key("a")).closed_at, Some(NOW + 1));
    assert_eq!(appended(store, shared_and_close(stream_id(2), &key("b"), &[], NOW + 2)), (1, 0));
    assert_eq!((info(store, &key("b")).closed_at, info(store, &key("b")).next_seq), (Some(NOW + 2), 0));
    assert_eq!(refused(store, [shared(stream_id(3), &key("b"), &["late"])]), Refused::Closed);
    assert_eq!(payloads(store, stream_id(1)), ["only"]);
}

pub(super) fn a_shared_append_of_nothing_creates_the_stream(store: &dyn Store) {
    assert_eq!(appended(store, shared(stream_id(1), &key("a"), &[])), (1, 0));
    let found = info(store, &key("a"));
    assert_eq!((found.id, found.owned, found.next_seq, found.closed_at), (stream_id(1), false, 0, None));
    assert_eq!(appended(store, shared(stream_id(2), &key("a"), &["0"])), (1, 0));
}
