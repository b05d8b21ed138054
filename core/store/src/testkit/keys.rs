//! Appends that are made once, by their keys.

use tidings_proto::stream::Retention;

use super::fixtures::{
    FAR, NOW, W1, append, chunk, create, done, info, key, once, once_and_close, payloads, refused, retained, shared,
    shared_and_close, stream_id,
};
use crate::commit::{Commit, Done, Durability, Op, Refused};
use crate::store::Store;

/// The first number.
#[track_caller]
pub(super) fn appended(store: &dyn Store, op: Op) -> u64 {
    match done(store, [op]).remove(0) {
        Done::Appended { first_seq, .. } => first_seq,
        other => panic!("an append answers `Appended`, not {other:?}"),
    }
}

pub(super) fn an_append_with_a_key_is_made_once(store: &dyn Store) {
    let a = stream_id(1);
    assert_eq!(appended(store, once(a, &key("a"), "k", &["0", "1"])), 0);
    assert_eq!(appended(store, once(stream_id(2), &key("a"), "other", &["2"])), 2);
    assert_eq!(appended(store, once(stream_id(2), &key("a"), "k", &["again", "and", "other"])), 0);
    assert_eq!(appended(store, once(stream_id(2), &key("a"), "other", &["again"])), 2);
    done(store, [shared(stream_id(2), &key("a"), &["3"])]);
    // Any text is a key; letters of another case are another key.
    for (seq, text) in (4..).zip(["K", "", "k ", "k\0", "\u{1f511}"]) {
        assert_eq!(appended(store, once(a, &key("a"), text, &["x"])), seq, "{text:?}");
        assert_eq!(appended(store, once(a, &key("a"), text, &["y"])), seq, "{text:?}");
    }
    assert_eq!(payloads(store, a), ["0", "1", "2", "3", "x", "x", "x", "x", "x"]);
}

pub(super) fn a_key_is_of_one_stream(store: &dyn Store) {
    for (n, name) in [(1, "a"), (2, "b")] {
        assert_eq!(appended(store, once(stream_id(n), &key(name), "k", &[name])), 0);
    }
    assert_eq!((payloads(store, stream_id(1)), payloads(store, stream_id(2))), (vec!["a".into()], vec!["b".into()]));
}

pub(super) fn a_repeated_key_fences_and_creates_nothing(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1), append(a, 1, vec![chunk(0, &["0"])])]);
    assert_eq!(appended(store, once(a, &key("a"), "k", &["1"])), 1, "the first append is one as any");
    assert_eq!(info(store, &key("a")).claim, 2);
    done(store, [Op::Claim { new_id: stream_id(2), key: key("a"), worker: W1 }]);
    assert_eq!(appended(store, once(a, &key("a"), "k", &["1"])), 1);
    let found = info(store, &key("a"));
    assert_eq!((found.claim, found.owned, found.next_seq), (3, true, 2));
    done(store, [append(a, 3, vec![chunk(2, &["2"])])]);
    assert_eq!(payloads(store, a), ["0", "1", "2"]);
}

pub(super) fn a_closed_stream_knows_its_keys(store: &dyn Store) {
    let a = stream_id(1);
    assert_eq!(appended(store, once_and_close(a, &key("a"), "end", &["last"], NOW + 1)), 0);
    assert_eq!(appended(store, once_and_close(a, &key("a"), "end", &["last"], NOW + 2)), 0, "it was done");
    assert_eq!(info(store, &key("a")).closed_at, Some(NOW + 1));
    assert_eq!(refused(store, [once(a, &key("a"), "new", &["late"])]), Refused::Closed);
    assert_eq!(refused(store, [once(a, &key("a"), "new", &["late"])]), Refused::Closed, "refused is not made");
    assert_eq!(payloads(store, a), ["last"]);
}

pub(super) fn keys_of_one_group_are_seen_by_each_other(store: &dyn Store) {
    let one = || Commit::new(Durability::Process, vec![once(stream_id(1), &key("a"), "k", &["0"])]);
    let answers: Vec<_> = store.commit(&[one(), one(), one()]).into_iter().map(|done| done.expect("done")).collect();
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    assert_eq!(payloads(store, stream_id(1)), ["0"]);
    let twice = [once(stream_id(1), &key("a"), "l", &["1"]), once(stream_id(1), &key("a"), "l", &["1"])];
    done(store, twice);
    assert_eq!(payloads(store, stream_id(1)), ["0", "1"]);
}

pub(super) fn a_refused_commit_leaves_no_key(store: &dyn Store) {
    let (a, b) = (stream_id(1), stream_id(2));
    done(store, [shared(a, &key("a"), &["0"]), shared_and_close(b, &key("b"), &[], NOW)]);
    for id in [a, stream_id(3)] {
        let name = if id == a { "a" } else { "new" };
        let both = [once(id, &key(name), "k", &["1"]), shared(b, &key("b"), &["late"])];
        assert_eq!(refused(store, both), Refused::Closed);
    }
    assert_eq!(appended(store, once(a, &key("a"), "k", &["1"])), 1);
    assert_eq!(appended(store, once(stream_id(3), &key("new"), "k", &["0"])), 0);
    assert_eq!(payloads(store, a), ["0", "1"]);
}

/// A key is known as long as the first event that was appended with it is retained, so that the number it answers can be
/// read; after that it is as new, and takes no room.
pub(super) fn a_key_goes_with_its_event(store: &dyn Store) {
    let a = stream_id(1);
    assert_eq!(appended(store, once(a, &key("a"), "k", &["0", "1"])), 0);
    assert_eq!(appended(store, once(a, &key("a"), "l", &["2"])), 2);
    let trim = |max| {
        let retention = Retention { max_events: Some(max), ..Retention::UNLIMITED };
        done(store, [Op::Trim { now: NOW, wall: NOW, retention, keep_finished_ms: FAR }]);
    };
    trim(3);
    assert_eq!(appended(store, once(a, &key("a"), "k", &["again"])), 0);
    trim(2);
    assert_eq!(appended(store, once(a, &key("a"), "l", &["again"])), 2);
    assert_eq!(appended(store, once(a, &key("a"), "k", &["3"])), 3, "its first event is gone");
    assert_eq!(appended(store, once(a, &key("a"), "k", &["again"])), 3);
    assert_eq!(retained(store, a).expect("there").0.next_seq, 4);
    // A stream that goes takes its keys with it.
    done(store, [shared_and_close(a, &key("a"), &[], NOW)]);
    let retention = Retention { after_close_ms: Some(0), ..Retention::UNLIMITED };
    done(store, [Op::Trim { now: NOW + 1, wall: NOW, retention, keep_finished_ms: FAR }]);
    assert_eq!(appended(store, once(stream_id(2), &key("a"), "l", &["0"])), 0);
}
