//! Reads: pages, limits, snapshots, tombstones; and a store that was closed.

use tidings_proto::stream::Retention;

use super::Make;
use super::fixtures::{
    FAR, Fresh, NOW, Slot, W1, append, chunk, create, done, heartbeat, info, key, retained, shared, slots, stream_id,
};
use crate::chunk::Chunk;
use crate::commit::{Commit, CommitError, Durability, Op};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{Boot, Page, ReadLimits, Store};

/// A stream of five chunks of four events: 0..4, 4..8, 8..12, 12..16, 16..20.
fn five_chunks(store: &dyn Store) {
    done(store, [create(stream_id(1), &key("a"), W1)]);
    for first_seq in [0, 4, 8, 12, 16] {
        done(store, [append(stream_id(1), 1, vec![chunk(first_seq, &["w", "x", "y", "z"])])]);
    }
}

/// What a page begins and ends with, and how many chunks it has.
fn page(store: &dyn Store, from: u64, limits: ReadLimits) -> (u64, u64, usize) {
    let found = store.read(stream_id(1), from, limits).expect("reads");
    assert_eq!(store.read_key(&key("a"), from, limits).expect("reads"), found, "by its key it is the same");
    let Page { chunks, info } = found.expect("there");
    assert_eq!((info.id, info.next_seq), (stream_id(1), 20));
    slots(&chunks);
    let ends = chunks.first().zip(chunks.last()).map_or((0, 0), |(first, last)| (first.first_seq, last.end()));
    (ends.0, ends.1, chunks.len())
}

pub(super) fn a_read_stops_after_so_many_events(store: &dyn Store) {
    five_chunks(store);
    let limits = |events| ReadLimits { events, bytes: 1 << 40 };
    assert_eq!(page(store, 0, limits(1)), (0, 4, 1), "at least one chunk");
    assert_eq!(page(store, 0, limits(4)), (0, 4, 1));
    assert_eq!(page(store, 0, limits(5)), (0, 8, 2));
    assert_eq!(page(store, 8, limits(8)), (8, 16, 2));
    assert_eq!(page(store, 8, limits(1_000)), (8, 20, 3));
    assert_eq!(page(store, 0, limits(20)), (0, 20, 5));
    assert_eq!(page(store, 3, limits(1)), (0, 4, 1));
    assert_eq!(page(store, 3, limits(4)), (0, 8, 2), "what lies before the first event does not count");
}

pub(super) fn a_read_stops_after_so_many_bytes(store: &dyn Store) {
    five_chunks(store);
    let weight = chunk(0, &["w", "x", "y", "z"]).weight();
    let limits = |bytes| ReadLimits { events: u32::MAX, bytes };
    assert_eq!(page(store, 0, limits(1)), (0, 4, 1), "at least one chunk");
    assert_eq!(page(store, 0, limits(weight)), (0, 4, 1));
    assert_eq!(page(store, 4, limits(weight + 1)), (4, 12, 2));
    assert_eq!(page(store, 4, limits(1 << 40)), (4, 20, 4));
    assert_eq!(page(store, 3, limits(weight)), (0, 8, 2), "what lies before the first event does not count");
}

pub(super) fn a_read_begins_in_the_chunk_that_holds_its_first_event(store: &dyn Store) {
    five_chunks(store);
    let limits = ReadLimits::default();
    assert_eq!(page(store, 3, limits), (0, 20, 5));
    assert_eq!(page(store, 4, limits), (4, 20, 4));
    assert_eq!(page(store, 5, limits), (4, 20, 4));
    assert_eq!(page(store, 19, limits), (16, 20, 1));
}

pub(super) fn a_read_from_the_head_or_beyond_is_empty(store: &dyn Store) {
    five_chunks(store);
    assert_eq!(store.read_key(&key("b"), 0, ReadLimits::default()).expect("reads"), None, "no such stream");
    for from in [20, 21, 1_000_000, u64::from(u32::MAX) + 1, (1 << 53) - 1] {
        assert_eq!(page(store, from, ReadLimits::default()), (0, 0, 0), "from {from}");
    }
}

pub(super) fn a_read_from_before_the_earliest_begins_there(store: &dyn Store) {
    five_chunks(store);
    let retention = Retention { max_events: Some(10), ..Retention::UNLIMITED };
    done(store, [Op::Trim { now: NOW, wall: NOW, retention, keep_finished_ms: 1_000 }]);
    assert_eq!(info(store, &key("a")).earliest, 10);
    for from in [0, 4, 9, 10, 11] {
        assert_eq!(page(store, from, ReadLimits::default()), (8, 20, 3), "from {from}");
    }
    assert_eq!(page(store, 12, ReadLimits::default()), (12, 20, 2));
    let (_, slots) = retained(store, stream_id(1)).expect("there");
    assert_eq!(slots.len(), 10);
}

/// A writer and a reader at the same time: what is read never differs from the info beside it.
pub(super) fn chunks_and_info_are_of_one_moment(store: &dyn Store) {
    const APPENDS: u64 = 200;
    done(store, [shared(stream_id(1), &key("a"), &["0"])]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 1..APPENDS {
                done(store, [shared(stream_id(2), &key("a"), &["n"])]);
            }
        });
        let mut seen = 0;
        loop {
            let over = writer.is_finished();
            let Page { chunks, info } = store
                .read(stream_id(1), seen, ReadLimits { events: u32::MAX, bytes: 1 << 40 })
                .expect("reads")
                .expect("there");
            slots(&chunks);
            assert!(info.next_seq >= seen, "what was committed stays");
            assert_eq!(chunks.last().map_or(seen, Chunk::end), info.next_seq, "info says what the chunks show");
            seen = info.next_seq;
            if over {
                break;
            }
        }
        assert_eq!(seen, APPENDS);
    });
}

pub(super) fn a_tombstone_stands_over_its_range(store: &dyn Store) {
    let a = stream_id(1);
    done(store, [create(a, &key("a"), W1)]);
    done(store, [append(a, 1, vec![chunk(0, &["0", "1"]), Chunk::lost(2, 3, NOW), chunk(5, &["5"])])]);
    done(store, [append(a, 1, vec![Chunk::lost(6, 100_000, NOW)])]);
    done(store, [append(a, 1, vec![chunk(100_006, &["100006"])])]);

    let page = store.read(a, 3, ReadLimits { events: u32::MAX, bytes: 1 << 40 }).expect("reads").expect("there");
    let shape: Vec<_> = page.chunks.iter().map(|chunk| (chunk.first_seq, chunk.count, chunk.data.is_none())).collect();
    assert_eq!(shape, [(2, 3, true), (5, 1, false), (6, 100_000, true), (100_006, 1, false)]);
    assert_eq!(page.info.next_seq, 100_007);
    let (_, slots) = retained(store, a).expect("there");
    assert!(
        matches!(&slots[..6], [Slot::Event(_), Slot::Event(_), Slot::Lost(2), Slot::Lost(3), Slot::Lost(4), Slot::Event(e)] if e.seq == 5)
    );
    assert!(matches!(&slots[100_005..], [Slot::Lost(100_005), Slot::Event(e)] if e.seq == 100_006));
}

pub(super) fn a_closed_store_says_so(make: Make<'_>) {
    let store = Fresh::open(make);
    done(&*store, [create(stream_id(1), &key("a"), W1)]);
    store.close().expect("closes");
    fn kind<T>(answer: Result<T, StoreError>) -> Option<StoreErrorKind> {
        answer.err().map(|error| error.kind())
    }
    let closed = Some(StoreErrorKind::Closed);
    let commits = [
        Commit::new(Durability::Process, vec![heartbeat(W1, FAR)]),
        Commit::new(Durability::Disk, vec![create(stream_id(2), &key("b"), W1)]),
    ];
    let answers = store.commit(&commits);
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert!(matches!(answer, Err(CommitError::Store(error)) if error.kind() == StoreErrorKind::Closed));
    }
    assert_eq!(kind(store.timeline(&Boot { id: "boot".to_owned(), now_ms: 0 }, NOW)), closed);
    assert_eq!(kind(store.stream(&key("a"))), closed);
    assert_eq!(kind(store.stream_by_id(stream_id(1))), closed);
    assert_eq!(kind(store.next_claim_first(stream_id(1), 1)), closed);
    assert_eq!(kind(store.read(stream_id(1), 0, ReadLimits::default())), closed);
    assert_eq!(kind(store.call(super::fixtures::call_id(1))), closed);
    assert_eq!(kind(store.lost_calls(NOW, 1)), closed);
    assert_eq!(kind(store.due_timers(NOW, 1)), closed);
    assert_eq!(kind(store.next_due()), closed);
    assert_eq!(kind(store.deliveries(None, None, None, 1)), closed);
    assert_eq!(kind(store.changes()), closed);
}
