//! Tails: replay, the join with what comes live, and what a reader is told when something is missing.

use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::support::{FaultStore, HANG, TestClock, drain, keep_all, memory, over, over_with, seqs, wait};
use tidings::proto::stream::{Gap, GapReason};
use tidings::store::{Store, StoreErrorKind};
use tidings::{After, Durability, ErrorCode, Hub, Options, Read, ReadLimits, Tail, Writer};

const PROCESS: Durability = Durability::Process;

fn fill(writer: &Writer, count: u64) {
    for n in 0..count {
        writer.append("message", n.to_string().as_bytes(), None).expect("numbered");
    }
    wait(writer.flush(PROCESS)).expect("committed");
}

fn gaps(reads: &[Read]) -> Vec<Gap> {
    reads.iter().filter_map(|read| read.gap).collect()
}

fn gap(reason: GapReason, earliest: u64, head: u64) -> Gap {
    Gap { reason, earliest_seq: Some(earliest), head_seq: Some(head) }
}

#[test]
fn every_cut_point_of_fifty_events() {
    let hub = memory();
    let writer = hub.new_writer("s", "n").expect("a writer");
    let mut cursors = vec![writer.cursor()];
    for n in 0..50_u64 {
        writer.append("message", n.to_string().as_bytes(), None).expect("numbered");
        cursors.push(writer.cursor());
    }
    writer.close().expect("open until now");
    wait(writer.flush(PROCESS)).expect("committed");
    for (cut, cursor) in cursors.iter().enumerate() {
        let reads = drain(&mut hub.resume("s", cursor).expect("a tail"));
        assert_eq!(seqs(&reads), (cut as u64..50).collect::<Vec<_>>(), "cut at {cut}");
        assert_eq!(gaps(&reads), [], "cut at {cut}");
        let payloads: Vec<String> =
            reads.iter().flat_map(Read::payloads).map(|p| String::from_utf8_lossy(p).into_owned()).collect();
        assert_eq!(payloads, (cut..50).map(|n| n.to_string()).collect::<Vec<_>>());
    }
}

/// The join of replay and live: a producer runs while readers begin at all kinds of places. Field cases B15 and B19.
#[test]
fn replay_and_live_join_without_hole_or_double() {
    const ROUNDS: usize = 60;
    const READERS: usize = 3;
    const EVENTS: u64 = 300;
    let hub = Hub::with("memory:", keep_all()).expect("a hub");
    for round in 0..ROUNDS {
        let writer = hub.new_writer("s", format!("{round}")).expect("a writer");
        let start = Barrier::new(READERS + 1);
        std::thread::scope(|scope| {
            for reader in 0..READERS {
                let (hub, start, writer) = (&hub, &start, writer.clone());
                scope.spawn(move || {
                    let first = writer.cursor();
                    start.wait();
                    // Each reader begins elsewhere, some with what is numbered and not committed yet.
                    let cursor = if reader == 0 { first } else { writer.cursor() };
                    let from: u64 = cursor.rsplit('.').next().expect("parts").parse().expect("a number");
                    let mut tail = hub.resume("s", &cursor).expect("a tail");
                    let reads = drain(&mut tail);
                    assert_eq!(gaps(&reads), []);
                    assert_eq!(seqs(&reads), (from..EVENTS).collect::<Vec<_>>());
                });
            }
            start.wait();
            for n in 0..EVENTS {
                writer.append("message", n.to_string().as_bytes(), None).expect("numbered");
            }
            writer.close().expect("open until now");
        });
    }
}

/// Shared appends of one process come live to a tail in another.
#[test]
fn a_tail_follows_another_process() {
    let store = FaultStore::shared();
    let (writes, reads) = (over(&store, keep_all()), over(&store.other(), keep_all()));
    let writer = writes.new_writer("s", "n").expect("a writer");
    writer.append("message", b"0", None).expect("numbered");
    wait(writer.flush(PROCESS)).expect("committed");
    let mut tail = reads.resume("s", &writer.cursor_after(0)).expect("a tail");
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || seqs(&drain(&mut tail)));
        for n in 1..20_u64 {
            writer.append("message", n.to_string().as_bytes(), None).expect("numbered");
            wait(writer.flush(PROCESS)).expect("committed");
        }
        writer.close().expect("open until now");
        assert_eq!(reader.join().expect("a reader"), (1..20).collect::<Vec<_>>());
    });
}

#[test]
fn several_tails_of_one_stream_and_one_that_goes() {
    let hub = memory();
    let writer = hub.new_writer("s", "n").expect("a writer");
    let tails: Vec<Tail> = (0..10).map(|_| hub.resume("s", &writer.cursor()).expect("a tail")).collect();
    std::thread::scope(|scope| {
        let readers: Vec<_> = tails
            .into_iter()
            .enumerate()
            .map(|(nth, mut tail)| {
                scope.spawn(move || {
                    if nth % 2 == 1 {
                        let read = wait(tail.next()).expect("open").expect("a read");
                        return read.events.len() as u64; // and goes, in the middle
                    }
                    seqs(&drain(&mut tail)).len() as u64
                })
            })
            .collect();
        fill(&writer, 200);
        writer.close().expect("open until now");
        for (nth, reader) in readers.into_iter().enumerate() {
            let read = reader.join().expect("a reader");
            assert!(if nth % 2 == 1 { (1..=200).contains(&read) } else { read == 200 });
        }
    });
}

fn keep_ten() -> Options {
    let mut options = Options::default();
    options.retention.max_events = Some(10);
    options
}

/// Lets retention come round.
fn trim(clock: &TestClock, store: &FaultStore, writer: &Writer, earliest: u64) {
    clock.advance(Duration::from_secs(1));
    store.wait_for(|inner| {
        let info = inner.stream_by_id(writer.stream_id()).expect("an answer").expect("there");
        (info.earliest == earliest).then_some(())
    });
}

#[test]
fn a_slow_tail_is_overtaken_once_and_goes_on() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, keep_ten(), &clock);
    let writer = hub.new_writer("s", "n").expect("a writer");
    fill(&writer, 5);
    let mut slow = hub.resume("s", &writer.cursor_after(1)).expect("a tail");
    let early = writer.cursor_after(1);
    fill(&writer, 25);
    trim(&clock, &store, &writer, 20);
    let read = slow.read(ReadLimits::default()).expect("a read");
    assert_eq!(read.gap, Some(gap(GapReason::Evicted, 20, 29)));
    assert_eq!(seqs(&[read]), (20..30).collect::<Vec<_>>());
    let read = slow.read(ReadLimits::default()).expect("a read");
    assert_eq!((read.gap, read.events.len()), (None, 0), "told once");

    // A cursor of before is told the same, and one that has all of what is gone is told nothing.
    let reads = |cursor: &str| {
        let read = hub.resume("s", cursor).expect("a tail").read(ReadLimits::default()).expect("a read");
        (read.gap, seqs(&[read]))
    };
    assert_eq!(reads(&early), (Some(gap(GapReason::Evicted, 20, 29)), (20..30).collect()));
    assert_eq!(reads(&writer.cursor_after(19)), (None, (20..30).collect()));
    assert_eq!(reads(&writer.cursor_after(18)), (Some(gap(GapReason::Evicted, 20, 29)), (20..30).collect()));
    assert_eq!(reads(&writer.cursor_after(29)), (None, vec![]), "nothing new is not loss");

    fill(&writer, 1);
    writer.close().expect("open until now");
    let rest = drain(&mut slow);
    assert_eq!((gaps(&rest), seqs(&rest)), (vec![], vec![30]));
}

/// What a reader was to be told is told later when the read that was to tell it fails, and with the numbers of then.
#[test]
fn a_gap_survives_a_failed_read_and_more_retention() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, keep_ten(), &clock);
    let writer = hub.new_writer("s", "n").expect("a writer");
    let first = writer.cursor();
    fill(&writer, 30);
    trim(&clock, &store, &writer, 20);
    let mut tail = hub.resume("s", &first).expect("a tail");
    let mut early = hub.resume("s", &first).expect("a tail");
    store.fail_reads(true);
    for tail in [&mut tail, &mut early] {
        let error = wait(tail.next()).expect("open").expect_err("reading fails");
        assert_eq!((error.code(), error.retryable()), (ErrorCode::Unavailable, true));
    }
    store.fail_reads(false);
    let read = wait(early.next()).expect("open").expect("a read");
    assert_eq!((read.gap, seqs(&[read])), (Some(gap(GapReason::Evicted, 20, 29)), (20..30).collect()));
    fill(&writer, 5);
    trim(&clock, &store, &writer, 25);
    let read = wait(tail.next()).expect("open").expect("a read");
    assert_eq!((read.gap, seqs(&[read])), (Some(gap(GapReason::Evicted, 25, 34)), (25..35).collect()));
}

/// A stream that retention removed while a reader stood in it.
#[test]
fn a_stream_that_is_gone() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let mut options = keep_all();
    options.retention.after_close_ms = Some(500);
    let hub = over_with(&store, options, &clock);
    let writer = hub.new_writer("s", "n").expect("a writer");
    fill(&writer, 5);
    let (cursor, mut tail) = (writer.cursor_after(1), hub.resume("s", &writer.cursor_after(1)).expect("a tail"));
    let mut done = hub.resume("s", &cursor).expect("a tail");
    writer.close().expect("open until now");
    assert_eq!(seqs(&drain(&mut done)), [2, 3, 4]);
    clock.advance(Duration::from_secs(1));
    store.wait_for(|inner| inner.stream_by_id(writer.stream_id()).expect("an answer").is_none().then_some(()));
    let reads = drain(&mut tail);
    assert_eq!((gaps(&reads), seqs(&reads)), (vec![Gap::UNKNOWN], vec![]));
    let again = done.read(ReadLimits::default()).expect("a read");
    assert_eq!((again.gap, again.ended), (None, true), "who had everything misses nothing");
    let resumed = hub.resume("s", &cursor).map(drop).expect_err("gone");
    assert_eq!(resumed.code(), ErrorCode::UnknownCursor);
}

/// Chunks whose bytes do not hold the events they should: told as lost, neither left out silently nor read again for ever.
#[test]
fn damaged_chunks_are_told() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let writer = hub.new_writer("s", "n").expect("a writer");
    let first = writer.cursor();
    for _ in 0..3 {
        // One chunk a turn: 0..=4, 5..=9, 10..=14, of each of which the last byte is the end of the last event.
        store.block(true);
        for _ in 0..5 {
            writer.append("message", b"{}", None).expect("numbered");
        }
        store.wait_held();
        store.block(false);
        wait(writer.flush(PROCESS)).expect("committed");
    }
    writer.close().expect("open until now");
    let page = store.read(writer.stream_id(), 0, ReadLimits::default()).expect("a read").expect("there");
    // The first event may have been taken alone, before the others came: look at where the last chunk begins.
    let last = page.chunks.last().expect("chunks").first_seq;
    assert!((10..=11).contains(&last), "{:?}", page.chunks);
    store.damage(last);
    let reads = drain(&mut hub.resume("s", &first).expect("a tail"));
    assert_eq!(seqs(&reads), (0..14).collect::<Vec<_>>());
    assert_eq!(gaps(&reads), [gap(GapReason::Lost, 15, 14)]);
    let at = reads.iter().position(|read| read.gap.is_some()).expect("a gap");
    assert_eq!(seqs(&reads[at..]), Vec::<u64>::new(), "in its place, after the events before it");
}

/// Counts its wakes.
#[derive(Default)]
struct Count(Mutex<usize>, Condvar);

impl Count {
    fn wait_for(&self, wakes: usize) {
        let few = |count: &mut usize| *count < wakes;
        let count = self.1.wait_timeout_while(self.0.lock().expect("a count"), HANG, few).expect("a count");
        assert_eq!(*count.0, wakes);
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        *self.0.lock().expect("a count") += 1;
        self.1.notify_all();
    }
}

/// No wake is lost: whatever is committed between a look and the wait is found by looking again.
#[test]
fn a_waiting_tail_is_woken() {
    let hub = memory();
    let writer = hub.new_writer("s", "n").expect("a writer");
    let mut tail = hub.resume("s", &writer.cursor()).expect("a tail");
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let poll = |tail: &mut Tail| tail.poll_next(&mut Context::from_waker(&waker), ReadLimits::default());
    assert!(poll(&mut tail).is_pending());
    assert!(poll(&mut tail).is_pending(), "polling again loses nothing");
    fill(&writer, 3);
    count.wait_for(1);
    let Poll::Ready(Some(Ok(read))) = poll(&mut tail) else { panic!("there are events") };
    assert_eq!(seqs(&[read]), [0, 1, 2]);
    assert!(poll(&mut tail).is_pending());
    writer.close().expect("open until now");
    count.wait_for(2);
    assert!(matches!(poll(&mut tail), Poll::Ready(None)));
    assert!(matches!(poll(&mut tail), Poll::Ready(None)));
}

/// A host may come straight back from its waker: poll the tail, make another, drop one.
struct Inline {
    hub: Hub,
    tail: Mutex<Option<Tail>>,
    got: Mutex<Vec<u64>>,
    ended: Count,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut tail = self.tail.lock().expect("the tail");
        while let Some(open) = tail.as_mut() {
            match open.poll_next(&mut Context::from_waker(&waker), ReadLimits::default()) {
                Poll::Ready(Some(read)) => self.got.lock().expect("got").extend(seqs(&[read.expect("a read")])),
                Poll::Ready(None) => {
                    *tail = None;
                    *self.ended.0.lock().expect("a count") += 1;
                    self.ended.1.notify_all();
                }
                Poll::Pending => break,
            }
        }
        let other = self.hub.stream("s", "n").expect("a stream").tail(After::Earliest);
        drop(other.expect("a tail"));
    }
}

#[test]
fn a_waker_may_poll_at_once() {
    let hub = memory();
    let writer = hub.new_writer("s", "n").expect("a writer");
    let tail = Mutex::new(Some(hub.resume("s", &writer.cursor()).expect("a tail")));
    let inline = Arc::new(Inline { hub, tail, got: Mutex::default(), ended: Count::default() });
    fill(&writer, 1);
    Arc::clone(&inline).wake();
    for _ in 1..50 {
        fill(&writer, 1);
    }
    writer.close().expect("open until now");
    inline.ended.wait_for(1);
    assert_eq!(*inline.got.lock().expect("got"), (0..50).collect::<Vec<_>>());
}

struct Panics;

impl Wake for Panics {
    #[allow(clippy::panic, reason = "this is what the test is about")]
    fn wake(self: Arc<Self>) {
        panic!("a waker of a host that is not well");
    }
}

#[test]
fn a_waker_that_panics_hurts_nobody_else() {
    let hub = memory();
    let writer = hub.new_writer("s", "n").expect("a writer");
    let mut ill = hub.resume("s", &writer.cursor()).expect("a tail");
    let waker = Waker::from(Arc::new(Panics));
    assert!(ill.poll_next(&mut Context::from_waker(&waker), ReadLimits::default()).is_pending());
    let mut well = hub.resume("s", &writer.cursor()).expect("a tail");
    fill(&writer, 2);
    writer.close().expect("open until now");
    assert_eq!(seqs(&drain(&mut well)), [0, 1]);
    assert_eq!(seqs(&drain(&mut ill)), [0, 1]);
    assert!(hub.close(HANG));
}

/// A store that fails and comes back delays a tail and takes nothing from it.
#[test]
fn a_tail_over_a_failing_store() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let writer = hub.new_writer("s", "n").expect("a writer");
    let mut tail = hub.resume("s", &writer.cursor()).expect("a tail");
    store.fail(Some(StoreErrorKind::Io));
    for n in 0..10_u64 {
        writer.append("message", n.to_string().as_bytes(), None).expect("a failing store is not the writer's concern");
    }
    writer.close().expect("open until now");
    store.wait_failed(2);
    assert_eq!(tail.read(ReadLimits::default()).expect("a read").events.len(), 0);
    store.fail(None);
    let reads = drain(&mut tail);
    assert_eq!((gaps(&reads), seqs(&reads)), (vec![], (0..10).collect()));
}
