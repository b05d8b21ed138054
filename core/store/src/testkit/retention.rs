//! What `Trim` takes and what it leaves.

use tidings_proto::stream::Retention;
use tidings_proto::time::{StoreMillis, UnixMillis};

use super::fixtures::{
    FAR, NOW, W1, W2, append, append_and_close, begin, call_id, chunk, chunk_at, create, done, end, enqueue, info, key,
    lease, lease_one, payloads, refused, retained, settle, settle_op, shared, shared_and_close, stream_id, summaries,
    timer,
};
use crate::chunk::Chunk;
use crate::commit::{Done, Op, Refused};
use crate::record::{DeliveryState, StreamKey};
use crate::store::Store;

/// Trims until there is no more to do. Answers how many events went.
#[track_caller]
pub(super) fn trim(
    store: &dyn Store,
    now: StoreMillis,
    wall: UnixMillis,
    retention: Retention,
    keep_finished_ms: i64,
) -> u64 {
    let mut gone = 0;
    for _ in 0..10_000 {
        match done(store, [Op::Trim { now, wall, retention, keep_finished_ms }]).remove(0) {
            Done::Trimmed { events, more } => {
                gone += events;
                if !more {
                    return gone;
                }
            }
            other => panic!("a trim answers `Trimmed`, not {other:?}"),
        }
    }
    panic!("a trim that has more to do comes to an end");
}

/// Ten chunks of ten events, chunk `i` at `NOW + 1000 i`. Answers what one chunk weighs.
fn ten_chunks(store: &dyn Store) -> u64 {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1)]);
    for i in 0..10 {
        done(store, [append(a, 1, vec![chunk_at(i * 10, &["x"; 10], NOW + 1_000 * i as i64)])]);
    }
    chunk_at(0, &["x"; 10], NOW).weight()
}

fn bounds(store: &dyn Store) -> (u64, u64) {
    let info = info(store, &key("a"));
    let (same, slots) = retained(store, info.id).expect("there");
    assert_eq!((same.earliest, slots.len() as u64), (info.earliest, info.next_seq - info.earliest));
    (info.earliest, info.next_seq)
}

pub(super) fn unlimited_keeps_everything(store: &dyn Store) {
    ten_chunks(store);
    done(store, [append_and_close(stream_id(1), 1, vec![], NOW)]);
    assert_eq!(trim(store, FAR, FAR, Retention::UNLIMITED, FAR), 0);
    assert_eq!(bounds(store), (0, 100));
}

pub(super) fn retention_by_count_is_exact(store: &dyn Store) {
    ten_chunks(store);
    let keep = |max| Retention { max_events: Some(max), ..Retention::UNLIMITED };
    assert_eq!(trim(store, NOW, NOW, keep(100), FAR), 0);
    assert_eq!(trim(store, NOW, NOW, keep(99), FAR), 1);
    assert_eq!(bounds(store), (1, 100));
    assert_eq!(trim(store, NOW, NOW, keep(35), FAR), 64);
    assert_eq!(bounds(store), (65, 100));
    assert_eq!(trim(store, NOW, NOW, keep(80), FAR), 0, "what is gone stays gone");
    assert_eq!(bounds(store), (65, 100));
}

/// Chunks go whole while the rest weighs more than the limit; the newest stays.
pub(super) fn retention_by_bytes_takes_whole_chunks(store: &dyn Store) {
    let weight = ten_chunks(store);
    let keep = |max| Retention { max_bytes: Some(max), ..Retention::UNLIMITED };
    assert_eq!(trim(store, NOW, NOW, keep(10 * weight), FAR), 0);
    assert_eq!(trim(store, NOW, NOW, keep(10 * weight - 1), FAR), 10);
    assert_eq!(trim(store, NOW, NOW, keep(4 * weight + weight / 2), FAR), 50);
    assert_eq!(bounds(store), (60, 100));
    assert_eq!(trim(store, NOW, NOW, keep(0), FAR), 30);
    assert_eq!(bounds(store), (90, 100));
}

/// By the wall clock and the newest event of each chunk.
pub(super) fn retention_by_age_takes_whole_chunks(store: &dyn Store) {
    ten_chunks(store);
    let keep = |max| Retention { max_age_ms: Some(max), ..Retention::UNLIMITED };
    let wall = NOW + 9_000;
    assert_eq!(trim(store, 0, wall, keep(9_000), FAR), 0);
    assert_eq!(trim(store, 0, NOW - FAR, keep(0), FAR), 0, "a wall clock set back evicts nothing");
    assert_eq!(trim(store, 0, wall, keep(8_999), FAR), 10);
    assert_eq!(trim(store, 0, wall, keep(4_500), FAR), 40);
    assert_eq!(bounds(store), (50, 100));
}

/// DESIGN section 4: head, epoch and claims outlive evicted events.
pub(super) fn the_head_outlives_all_events(store: &dyn Store) {
    let a = stream_id(1);
    ten_chunks(store);
    let before = info(store, &key("a"));
    let retention = Retention { max_age_ms: Some(1), ..Retention::UNLIMITED };
    assert_eq!(trim(store, NOW, FAR, retention, FAR), 100);
    let after = info(store, &key("a"));
    assert_eq!((after.earliest, after.next_seq), (100, 100), "nothing retained: earliest is head + 1");
    assert_eq!((after.id, after.epoch, after.claim), (a, before.epoch, 1));
    assert_eq!(payloads(store, a), [""; 0]);
    assert_eq!(refused(store, [append(a, 1, vec![chunk(0, &["again"])])]), Refused::Fenced { claim: 1, next_seq: 100 });
    done(store, [append(a, 1, vec![chunk(100, &["100"])])]);
    done(store, [shared(stream_id(2), &key("a"), &["101"])]);
    assert_eq!(payloads(store, a), ["100", "101"]);
    assert_eq!(store.next_claim_first(a, 1).expect("reads"), Some(101));
}

pub(super) fn tombstones_go_as_events_do(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1)]);
    done(store, [append(a, 1, vec![chunk(0, &["0"]), Chunk::lost(1, 8, NOW), chunk(9, &["9"])])]);
    let keep = |max| Retention { max_events: Some(max), ..Retention::UNLIMITED };
    assert_eq!(trim(store, NOW, NOW, keep(5), FAR), 5);
    assert_eq!(payloads(store, a), ["<lost>", "<lost>", "<lost>", "<lost>", "9"]);
    assert_eq!(trim(store, NOW, NOW, keep(1), FAR), 4);
    assert_eq!(payloads(store, a), ["9"]);
}

pub(super) fn a_closed_stream_goes_after_its_time(store: &dyn Store) {
    done(store, [create(stream_id(1), &key("a"), W1), append(stream_id(1), 1, vec![chunk(0, &["0"])])]);
    done(store, [shared_and_close(stream_id(2), &key("b"), &["0"], NOW)]);
    let retention = Retention { after_close_ms: Some(1_000), ..Retention::UNLIMITED };
    trim(store, NOW + 999, NOW, retention, FAR);
    assert_eq!(payloads(store, stream_id(2)), ["0"], "not before its time");
    trim(store, NOW + 1_000, NOW, retention, FAR);
    assert_eq!(store.stream(&key("b")).expect("reads"), None);
    assert_eq!(store.stream_by_id(stream_id(2)).expect("reads"), None);
    assert_eq!(store.next_claim_first(stream_id(2), 0).expect("reads"), None);
    trim(store, FAR, NOW, retention, FAR);
    assert_eq!(payloads(store, stream_id(1)), ["0"], "a stream that is open stays");
    done(store, [shared(stream_id(3), &key("b"), &["new"])]);
    assert_eq!(info(store, &key("b")).id, stream_id(3), "the key is free for another stream with another id");
    assert_eq!(payloads(store, stream_id(3)), ["new"]);
}

pub(super) fn retention_reaches_every_stream(store: &dyn Store) {
    const STREAMS: u64 = 600;
    let name = |n: u64| StreamKey::new("many", n.to_string());
    let id = |n: u64| tidings_proto::stream::StreamId(u128::from(n * 7_919 % 1_009 + 1).to_le_bytes());
    for n in 0..STREAMS {
        done(store, [shared(id(n), &name(n), &["0", "1", "2"])]);
    }
    let retention = Retention { max_events: Some(1), ..Retention::UNLIMITED };
    assert_eq!(trim(store, NOW, NOW, retention, FAR), 2 * STREAMS);
    for n in 0..STREAMS {
        assert_eq!(info(store, &name(n)).earliest, 2, "stream {n}");
    }
}

pub(super) fn ended_calls_are_forgotten_and_running_ones_are_not(store: &dyn Store) {
    done(store, [begin(call_id(1), W1), begin(call_id(2), W1), timer(call_id(2), NOW + 5), end(call_id(1), "failed")]);
    trim(store, NOW + 500, NOW, Retention::UNLIMITED, 1_000);
    assert!(store.call(call_id(1)).expect("reads").is_some(), "readable for its time");
    trim(store, NOW + 1_500, NOW, Retention::UNLIMITED, 1_000);
    assert_eq!(store.call(call_id(1)).expect("reads"), None);
    assert!(store.call(call_id(2)).expect("reads").is_some());
    assert_eq!(store.due_timers(FAR, 5).expect("reads").len(), 1);
    assert_eq!(refused(store, [end(call_id(1), "failed")]), Refused::Unknown);
}

pub(super) fn finished_deliveries_are_forgotten_and_waiting_ones_are_not(store: &dyn Store) {
    done(store, [enqueue(1, NOW), enqueue(2, NOW + 1), enqueue(3, NOW + 2), enqueue(4, NOW + 3)]);
    let first = lease_one(store, W1, NOW, FAR);
    done(store, [settle_op(settle(&first, DeliveryState::Delivered, NOW))]);
    let second = lease_one(store, W1, NOW + 1, FAR);
    done(store, [settle_op(settle(&second, DeliveryState::Retrying, NOW + 1))]);
    lease_one(store, W1, NOW + 2, FAR);
    trim(store, NOW + 500, NOW, Retention::UNLIMITED, 1_000);
    assert_eq!(summaries(store).len(), 4);
    trim(store, NOW + 1_500, NOW, Retention::UNLIMITED, 1_000);
    trim(store, FAR - 1, NOW, Retention::UNLIMITED, 1_000);
    let left: Vec<_> = summaries(store).iter().map(|delivery| delivery.state).collect();
    assert_eq!(left, [DeliveryState::Retrying, DeliveryState::Leased, DeliveryState::Pending]);
    assert_eq!(lease(store, W2, FAR - 1, FAR, 10).len(), 2, "both that nobody holds");
}

/// A forgotten worker is gone for good: what it left behind is still found.
pub(super) fn calls_of_a_forgotten_worker_stay_lost(store: &dyn Store) {
    done(store, [super::fixtures::heartbeat(W1, NOW + 1_000), begin(call_id(1), W1), enqueue(1, NOW)]);
    lease_one(store, W1, NOW, FAR);
    trim(store, NOW + 100_000, NOW, Retention::UNLIMITED, 1_000);
    assert_eq!(store.lost_calls(NOW + 100_000, 5).expect("reads").len(), 1);
    assert_eq!(lease_one(store, W2, NOW + 100_000, FAR).attempts, 1);
}
