//! What retention in total takes, and what it leaves.

use tidings_proto::stream::{Retention, StreamId};

use super::Make;
use super::fixtures::{
    FAR, NOW, W1, append, append_and_close, chunk, create, done, info, key, payloads, shared, shared_and_close,
    stream_id,
};
use super::retention::trim;
use crate::record::StreamKey;
use crate::store::Store;

fn events(max: u64) -> Retention {
    Retention { max_total_events: Some(max), ..Retention::UNLIMITED }
}

fn bytes(max: u64) -> Retention {
    Retention { max_total_bytes: Some(max), ..Retention::UNLIMITED }
}

fn cut(store: &dyn Store, retention: Retention) -> u64 {
    trim(store, NOW, NOW, retention, FAR)
}

/// Of streams `a` and `b`: the earliest and the next number.
fn bounds(store: &dyn Store, names: &[&str]) -> Vec<(u64, u64)> {
    let bounds = |name: &&str| {
        let info = info(store, &key(name));
        (info.earliest, info.next_seq)
    };
    names.iter().map(bounds).collect()
}

/// Chunks of ten events, by turns of `a` and `b`, three each.
fn by_turns(store: &dyn Store) {
    for (n, name) in [(1, "a"), (2, "b")] {
        done(store, [create(stream_id(n), &key(name), W1)]);
    }
    for turn in 0..3 {
        for n in [1, 2] {
            done(store, [append(stream_id(n), 1, vec![chunk(turn * 10, &["x"; 10])])]);
        }
    }
}

pub(super) fn all_streams_together_keep_so_many_events(store: &dyn Store) {
    by_turns(store);
    let (a, b) = (stream_id(1), stream_id(2));
    assert_eq!(cut(store, events(60)), 0);
    assert_eq!(cut(store, events(58)), 2, "exactly, inside a chunk");
    assert_eq!(bounds(store, &["a", "b"]), [(2, 30), (0, 30)]);
    assert_eq!(cut(store, events(47)), 11, "in the order of their commits");
    assert_eq!(bounds(store, &["a", "b"]), [(10, 30), (3, 30)]);
    assert_eq!(cut(store, events(47)), 0);
    // The head stays, and numbers go on.
    assert_eq!(cut(store, events(0)), 47);
    assert_eq!(bounds(store, &["a", "b"]), [(30, 30), (30, 30)]);
    done(store, [append(a, 1, vec![chunk(30, &["30"])]), append(b, 1, vec![chunk(30, &["30"])])]);
    assert_eq!(cut(store, events(2)), 0);
    assert_eq!((payloads(store, a), payloads(store, b)), (vec!["30".to_owned()], vec!["30".to_owned()]));
}

pub(super) fn all_streams_together_keep_so_many_bytes(store: &dyn Store) {
    by_turns(store);
    let weight = chunk(0, &["x"; 10]).weight();
    assert_eq!(cut(store, bytes(6 * weight)), 0);
    assert_eq!(cut(store, bytes(6 * weight - 1)), 10, "whole chunks");
    assert_eq!(bounds(store, &["a", "b"]), [(10, 30), (0, 30)]);
    assert_eq!(cut(store, bytes(3 * weight + 1)), 20);
    assert_eq!(bounds(store, &["a", "b"]), [(20, 30), (10, 30)]);
    assert_eq!(cut(store, bytes(0)), 20, "the newest of all stays");
    assert_eq!(bounds(store, &["a", "b"]), [(30, 30), (20, 30)]);
    let both = Retention { max_total_events: Some(4), ..bytes(0) };
    assert_eq!(cut(store, both), 6, "but for the count");
    assert_eq!(bounds(store, &["a", "b"]), [(30, 30), (26, 30)]);
}

/// Field case B24: the last event of a finished stream, what it came to, outlives what was said on the way.
pub(super) fn closed_streams_go_first_but_for_their_last_event(store: &dyn Store) {
    done(store, [create(stream_id(1), &key("open"), W1)]);
    done(store, [append(stream_id(1), 1, vec![chunk(0, &["x"; 10])])]);
    for (n, at) in [(2, NOW + 5), (3, NOW + 4)] {
        let (id, name) = (stream_id(n), key(&format!("closed {n}")));
        done(store, [create(id, &name, W1), append(id, 1, vec![chunk(0, &["x"; 5]), chunk(5, &["x"; 4])])]);
        done(store, [append_and_close(id, 1, vec![chunk(9, &["end"])], at)]);
    }
    let names = ["open", "closed 2", "closed 3"];
    assert_eq!(cut(store, events(27)), 3);
    assert_eq!(bounds(store, &names), [(0, 10), (0, 10), (3, 10)], "the one that was closed longest ago");
    assert_eq!(cut(store, events(19)), 8);
    assert_eq!(bounds(store, &names), [(0, 10), (2, 10), (9, 10)]);
    assert_eq!(cut(store, events(12)), 7);
    assert_eq!(bounds(store, &names), [(0, 10), (9, 10), (9, 10)]);
    assert_eq!(cut(store, events(5)), 7, "then what was committed first");
    assert_eq!(bounds(store, &names), [(7, 10), (9, 10), (9, 10)]);
    assert_eq!(payloads(store, stream_id(2)), ["end"]);
    // One that is closed later comes before what is older and open.
    done(store, [shared_and_close(stream_id(4), &key("late"), &["0", "1", "2"], NOW + 6)]);
    assert_eq!(cut(store, events(6)), 2);
    assert_eq!(bounds(store, &["open", "late"]), [(7, 10), (2, 3)]);
    assert_eq!(cut(store, events(2)), 4);
    assert_eq!(bounds(store, &["open", "closed 2", "closed 3", "late"]), [(10, 10), (10, 10), (9, 10), (2, 3)]);
}

/// What each stream's own limits take, and what goes with its stream, is not counted any more.
pub(super) fn what_is_kept_is_counted_whatever_took_the_rest(store: &dyn Store) {
    by_turns(store);
    let own = |max| Retention { max_events: Some(max), ..events(40) };
    assert_eq!(cut(store, own(20)), 20, "each stream's own limit was enough");
    assert_eq!(cut(store, own(20)), 0);
    done(store, [append(stream_id(1), 1, vec![chunk(30, &["x"; 10])])]);
    assert_eq!(cut(store, own(25)), 10, "its own limit takes five of them");
    assert_eq!(bounds(store, &["a", "b"]), [(20, 40), (10, 30)]);
    // A stream that goes whole.
    done(store, [append_and_close(stream_id(1), 1, vec![], NOW - 2_000)]);
    let gone = Retention { after_close_ms: Some(1_000), ..events(20) };
    assert_eq!(cut(store, gone), 20);
    assert_eq!(store.stream(&key("a")).expect("reads"), None);
    assert_eq!(bounds(store, &["b"]), [(10, 30)], "which made room for the other");
    done(store, [shared(stream_id(3), &key("c"), &["0", "1"])]);
    assert_eq!(cut(store, events(20)), 2);
    assert_eq!(bounds(store, &["b", "c"]), [(12, 30), (0, 2)]);
}

pub(super) fn many_streams_are_taken_from(store: &dyn Store) {
    const STREAMS: u64 = 700;
    let name = |n: u64| StreamKey::new("many", n.to_string());
    let id = |n: u64| StreamId(u128::from(n * 7_919 % 1_009 + 1).to_le_bytes());
    for n in 0..STREAMS {
        done(store, [shared(id(n), &name(n), &["0", "1", "2"])]);
    }
    assert_eq!(cut(store, events(150)), 3 * STREAMS - 150);
    for n in 0..STREAMS {
        let kept = if n < STREAMS - 50 { 3 } else { 0 };
        assert_eq!(info(store, &name(n)).earliest, kept, "stream {n}");
    }
}

pub(super) fn what_all_handles_append_is_counted(make: Make<'_>) {
    let place = make();
    let handles = [place.open(), place.open()];
    for n in 0..20 {
        let store = &*handles[n % 2];
        done(store, [shared(stream_id(1), &key("a"), &["0", "1", "2"])]);
        cut(store, events(10));
        let info = info(store, &key("a"));
        assert_eq!(info.next_seq - info.earliest, info.next_seq.min(10));
    }
}
