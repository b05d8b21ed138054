//! Owned streams: creating, claiming, numbering, closing, keys.

use tidings_proto::stream::MAX_SEQ;

use super::fixtures::{
    NOW, W1, W2, append, append_and_close, chunk, claim, create, done, info, key, payloads, refused, retained, shared,
    shared_and_close, stream_id,
};
use crate::chunk::Chunk;
use crate::commit::{Claimed, Done, Refused};
use crate::record::StreamKey;
use crate::store::{ReadLimits, Store};

pub(super) fn a_created_stream_is_found_by_key_and_by_id(store: &dyn Store) {
    assert_eq!(done(store, [create(stream_id(1), &key("a"), W1)]), [Done::Nothing]);
    let found = info(store, &key("a"));
    assert_eq!((found.id, found.key.clone()), (stream_id(1), key("a")));
    assert_eq!((found.claim, found.owned, found.owner_gone), (1, true, false));
    assert_eq!((found.earliest, found.next_seq, found.closed_at), (0, 0, None));
    assert_eq!(store.stream_by_id(stream_id(1)).expect("reads"), Some(found));
    assert_eq!(retained(store, stream_id(1)).expect("there").1, []);
}

pub(super) fn what_is_not_there_is_none(store: &dyn Store) {
    assert_eq!(store.stream(&key("a")).expect("reads"), None);
    assert_eq!(store.stream_by_id(stream_id(1)).expect("reads"), None);
    assert_eq!(store.read(stream_id(1), 0, ReadLimits::default()).expect("reads"), None);
    assert_eq!(store.next_claim_first(stream_id(1), 0).expect("reads"), None);
}

pub(super) fn a_stream_is_created_once(store: &dyn Store) {
    done(store, [create(stream_id(1), &key("a"), W1), append(stream_id(1), 1, vec![chunk(0, &["0"])])]);
    assert_eq!(refused(store, [create(stream_id(2), &key("a"), W2)]), Refused::Exists);
    assert_eq!(store.stream_by_id(stream_id(2)).expect("reads"), None);
}

pub(super) fn claims_rise_and_go_on_at_the_head(store: &dyn Store) {
    let claimed = |new_id, worker| match done(store, [claim(new_id, &key("a"), worker)]).remove(0) {
        Done::Claimed(claimed) => claimed,
        other => panic!("a claim answers `Claimed`, not {other:?}"),
    };
    let first = claimed(stream_id(1), W1);
    assert_eq!((first.stream, first.claim, first.next_seq), (stream_id(1), 1, 0));
    done(store, [append(stream_id(1), 1, vec![chunk(0, &["0", "1", "2"])])]);

    let second = claimed(stream_id(2), W2);
    assert_eq!(second, Claimed { claim: 2, next_seq: 3, ..first }, "the stream that is there keeps its id and history");
    assert_eq!(claimed(stream_id(3), W2), Claimed { claim: 3, next_seq: 3, ..first });
    assert_eq!(info(store, &key("a")).claim, 3);
    assert_eq!(store.stream_by_id(stream_id(2)).expect("reads"), None, "an id that was not needed names nothing");
}

pub(super) fn a_new_claim_fences_the_old_one(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1), append(a, 1, vec![chunk(0, &["0", "1"])])]);
    done(store, [claim(stream_id(2), &key("a"), W2)]);
    let fenced = Refused::Fenced { claim: 2, next_seq: 2 };
    assert_eq!(refused(store, [append(a, 1, vec![chunk(2, &["old"])])]), fenced);
    assert_eq!(refused(store, [append_and_close(a, 1, vec![], NOW)]), fenced);
    assert_eq!(refused(store, [append(a, 3, vec![chunk(2, &["never given out"])])]), fenced);
    done(store, [append(a, 2, vec![chunk(2, &["new"])])]);
    assert_eq!(payloads(store, a), ["0", "1", "new"]);
}

pub(super) fn numbers_must_follow_on_the_head(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1)]);
    let at = |next_seq| Refused::Fenced { claim: 1, next_seq };
    assert_eq!(refused(store, [append(a, 1, vec![chunk(1, &["hole"])])]), at(0));
    done(store, [append(a, 1, vec![chunk(0, &["0", "1"])])]);
    assert_eq!(refused(store, [append(a, 1, vec![chunk(0, &["again", "again"])])]), at(2));
    assert_eq!(refused(store, [append(a, 1, vec![chunk(1, &["overlap"])])]), at(2));
    assert_eq!(refused(store, [append(a, 1, vec![chunk(3, &["hole"])])]), at(2));
    done(store, [append(a, 1, vec![chunk(2, &["2"])])]);
    assert_eq!(payloads(store, a), ["0", "1", "2"]);
}

pub(super) fn chunks_of_one_append_must_follow_on_each_other(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1)]);
    let at = Refused::Fenced { claim: 1, next_seq: 0 };
    assert_eq!(refused(store, [append(a, 1, vec![chunk(0, &["0", "1"]), chunk(3, &["hole"])])]), at);
    assert_eq!(refused(store, [append(a, 1, vec![chunk(0, &["0", "1"]), chunk(1, &["overlap"])])]), at);
    done(store, [append(a, 1, vec![chunk(0, &["0", "1"]), chunk(2, &["2"]), chunk(3, &["3", "4"])])]);
    assert_eq!(payloads(store, a), ["0", "1", "2", "3", "4"]);
    assert_eq!(info(store, &key("a")).next_seq, 5);
}

/// A store never panics, and never takes a number that is too large for another one.
pub(super) fn numbers_beyond_all_bounds_are_refused(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1), append(a, 1, vec![chunk(0, &["0"])])]);
    let at = Refused::Fenced { claim: 1, next_seq: 1 };
    for first_seq in [MAX_SEQ, MAX_SEQ + 1, 1 << 63, u64::MAX] {
        let beyond = Chunk { first_seq, ..chunk(0, &["beyond"]) };
        assert_eq!(refused(store, [append(a, 1, vec![beyond.clone()])]), at);
        assert_eq!(refused(store, [append(a, 1, vec![chunk(1, &["1"]), beyond])]), at);
        let page = store.read(a, first_seq, ReadLimits::default()).expect("reads").expect("there");
        assert_eq!((page.chunks.len(), page.info.next_seq), (0, 1));
    }
    for claim in [0, 1 << 31, u32::MAX] {
        assert_eq!(refused(store, [append(a, claim, vec![chunk(1, &["1"])])]), at);
    }
    assert_eq!(store.next_claim_first(a, u32::MAX).expect("reads"), None);
    let unlimited = ReadLimits { events: u32::MAX, bytes: u64::MAX };
    assert_eq!(store.read(a, 0, unlimited).expect("reads").map(|page| page.chunks.len()), Some(1));
}

pub(super) fn an_append_may_close_with_and_without_events(store: &dyn Store) {
    let (a, b, c) = (stream_id(1), stream_id(2), stream_id(3));
    done(store, [create(a, &key("a"), W1), create(b, &key("b"), W1), create(c, &key("call"), W1)]);
    done(store, [append(b, 1, vec![chunk(0, &["0"])])]);
    done(store, [append_and_close(a, 1, vec![chunk(0, &["0"]), chunk(1, &["last"])], NOW + 1)]);
    done(store, [append_and_close(b, 1, vec![], NOW + 2)]);
    done(store, [append_and_close(c, 1, vec![], NOW + 3)]);
    let closed = |name| (info(store, &key(name)).closed_at, info(store, &key(name)).next_seq);
    assert_eq!(closed("a"), (Some(NOW + 1), 2));
    assert_eq!(closed("b"), (Some(NOW + 2), 1));
    assert_eq!(closed("call"), (Some(NOW + 3), 0));
    assert_eq!(payloads(store, a), ["0", "last"], "a closed stream is still read");
}

pub(super) fn nothing_follows_a_close(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1), append_and_close(a, 1, vec![chunk(0, &["0"])], NOW)]);
    assert_eq!(refused(store, [append(a, 1, vec![chunk(1, &["late"])])]), Refused::Closed);
    assert_eq!(refused(store, [append_and_close(a, 1, vec![], NOW + 1)]), Refused::Closed);
    assert_eq!(refused(store, [shared(stream_id(2), &key("a"), &["late"])]), Refused::Closed);
    assert_eq!(refused(store, [shared_and_close(stream_id(2), &key("a"), &[], NOW + 1)]), Refused::Closed);
    assert_eq!(refused(store, [claim(stream_id(2), &key("a"), W2)]), Refused::Closed);
    assert_eq!(refused(store, [create(stream_id(2), &key("a"), W2)]), Refused::Exists);
}

/// Another process commits the outcome and closes the stream; the owner then sees `closed` (DESIGN section 4).
pub(super) fn a_fenced_writer_of_a_closed_stream_hears_closed(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1)]);
    done(store, [shared_and_close(stream_id(2), &key("a"), &["outcome"], NOW)]);
    assert_eq!(refused(store, [append(a, 1, vec![chunk(0, &["late"])])]), Refused::Closed);
}

pub(super) fn an_append_to_no_stream_is_refused(store: &dyn Store) {
    assert_eq!(refused(store, [append(stream_id(1), 1, vec![chunk(0, &["0"])])]), Refused::Unknown);
    assert_eq!(refused(store, [append_and_close(stream_id(1), 1, vec![], NOW)]), Refused::Unknown);
}

pub(super) fn an_append_of_nothing_is_done(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1), append(a, 1, vec![])]);
    assert_eq!((info(store, &key("a")).next_seq, info(store, &key("a")).closed_at), (0, None));
}

pub(super) fn the_first_number_of_each_claim_is_kept(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1), append(a, 1, vec![chunk(0, &["0", "1", "2", "3", "4"])])]);
    let next = |claim| store.next_claim_first(a, claim).expect("reads");
    assert_eq!(next(1), None);
    done(store, [claim(stream_id(2), &key("a"), W2), append(a, 2, vec![chunk(5, &["5", "6", "7"])])]);
    done(store, [claim(stream_id(2), &key("a"), W1)]);
    done(store, [claim(stream_id(2), &key("a"), W2)]);
    done(store, [append(a, 4, vec![chunk(8, &["8"])])]);
    assert_eq!([next(1), next(2), next(3), next(4), next(5)], [Some(5), Some(8), Some(8), None, None]);
}

pub(super) fn an_owner_that_left_is_gone(store: &dyn Store) {
    done(store, [create(stream_id(1), &key("a"), W1), create(stream_id(2), &key("b"), W2)]);
    done(store, [crate::Op::Leave { worker: W1 }]);
    assert!(info(store, &key("a")).owner_gone);
    assert!(!info(store, &key("b")).owner_gone);
    done(store, [claim(stream_id(3), &key("a"), W2)]);
    assert!(!info(store, &key("a")).owner_gone, "the newest claim's worker counts");
}

/// Field case B01: a stream's name is never taken apart, whatever it holds.
pub(super) fn keys_are_whole_whatever_they_hold(store: &dyn Store) {
    let scopes = ["", "s", "s_", "s:", "S", "s/x", "issuer|subject|client", "日本 語"];
    let names = [
        "",
        "_",
        "_GET_stream",
        "-",
        ":",
        "/",
        " ",
        "a",
        "A",
        "a ",
        "a_b",
        "a-b",
        "a:b",
        "a/b",
        "x/",
        "\0",
        "%",
        "é",
        "e\u{301}",
    ];
    let keys: Vec<_> = scopes.iter().flat_map(|scope| names.iter().map(|name| StreamKey::new(*scope, *name))).collect();
    for (n, key) in (1..).zip(&keys) {
        let text = format!("{key:?}");
        done(store, [create(stream_id(n), key, W1), append(stream_id(n), 1, vec![chunk(0, &[text.as_str()])])]);
    }
    for (n, key) in (1..).zip(&keys) {
        let found = info(store, key);
        assert_eq!((found.id, &found.key), (stream_id(n), key));
        assert_eq!(payloads(store, stream_id(n)), [format!("{key:?}")]);
    }
}

/// Scope and name have no joint text: where one ends and the other begins counts.
pub(super) fn one_name_in_two_scopes_is_two_streams(store: &dyn Store) {
    let keys = [
        StreamKey::new("a", "b_c"),
        StreamKey::new("a_b", "c"),
        StreamKey::new("ab", "c"),
        StreamKey::new("a", "bc"),
        StreamKey::new("", "abc"),
        StreamKey::new("abc", ""),
        StreamKey::new("c", "ab"),
    ];
    for (n, key) in (1..).zip(&keys) {
        done(store, [shared(stream_id(n), key, &[&n.to_string()])]);
    }
    for (n, key) in (1..).zip(&keys) {
        assert_eq!(info(store, key).id, stream_id(n));
        assert_eq!(payloads(store, stream_id(n)), [n.to_string()]);
    }
}

/// Field case B20: what is read is of the stream asked for, though events of several were written in turns.
pub(super) fn a_read_is_of_one_stream(store: &dyn Store) {
    let (a, b) = (stream_id(1), stream_id(2));
    done(store, [create(a, &key("a"), W1), create(b, &key("b"), W1)]);
    for (stream, first_seq, payload) in [(a, 0, "e1"), (b, 0, "e2"), (a, 1, "e3"), (b, 1, "e4"), (a, 2, "e5")] {
        done(store, [append(stream, 1, vec![chunk(first_seq, &[payload])])]);
    }
    let page = store.read(a, 1, ReadLimits::default()).expect("reads").expect("there");
    let after: Vec<_> = page.chunks.iter().flat_map(Chunk::events).map(|event| event.payload).collect();
    assert_eq!(after, ["e3", "e5"]);
    assert_eq!(store.read(stream_id(3), 1, ReadLimits::default()).expect("reads"), None, "unknown is not empty");
}
