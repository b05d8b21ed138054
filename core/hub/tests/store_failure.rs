//! A store that fails or hangs: appends go on, nothing else hangs, and what had to be given up is told.

use std::time::Duration;

use crate::support::{ENDS, FaultStore, HANG, Receiver, begin, config, drain, keep_all, local, over, seqs, wait};
use tidings::proto::stream::{Gap, GapReason};
use tidings::proto::trigger::Outcome;
use tidings::store::{DeliveryState, Store, StoreErrorKind};
use tidings::{Durability, ErrorCode, Hub, NewEvent, Options, Read, Writer};

const PROCESS: Durability = Durability::Process;

const KINDS: [StoreErrorKind; 9] = [
    StoreErrorKind::Io,
    StoreErrorKind::Full,
    StoreErrorKind::Busy,
    StoreErrorKind::ReadOnly,
    StoreErrorKind::Corrupt,
    StoreErrorKind::NewerSchema,
    StoreErrorKind::Unsupported,
    StoreErrorKind::WrongKey,
    StoreErrorKind::Closed,
];

fn append(writer: &Writer, from: u64, to: u64) {
    for n in from..to {
        assert_eq!(writer.append("message", n.to_string().as_bytes(), None).expect("never the writer's concern"), n);
    }
}

fn gaps(reads: &[Read]) -> Vec<Gap> {
    reads.iter().filter_map(|read| read.gap).collect()
}

/// Whatever the failure: appends return, waiting for it is answered, and once it is over all is there in order.
#[test]
fn every_kind_of_failure_and_the_recovery() {
    std::thread::scope(|scope| {
        for kind in KINDS {
            scope.spawn(move || failure_and_recovery(kind));
        }
    });
}

fn failure_and_recovery(kind: StoreErrorKind) {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let (one, two) = (hub.new_writer("s", "one").expect("a writer"), hub.new_writer("s", "two").expect("a writer"));
    append(&one, 0, 10);
    wait(one.flush(PROCESS)).expect("committed");

    store.fail(Some(kind));
    append(&one, 10, 20);
    append(&two, 0, 10);
    let error = wait(one.flush(PROCESS)).expect_err("the store fails");
    let code = match kind {
        StoreErrorKind::Closed => ErrorCode::Closed,
        StoreErrorKind::Io | StoreErrorKind::Full | StoreErrorKind::Busy | StoreErrorKind::ReadOnly => {
            ErrorCode::Unavailable
        }
        _ => ErrorCode::Unsupported,
    };
    assert_eq!(error.code(), code, "{kind:?}");
    let event = NewEvent { kind: "k".to_owned(), payload: "{}".into(), time: 0, identity: None };
    let shared = wait(hub.stream("s", "shared").expect("a stream").append(vec![event], PROCESS));
    assert_eq!(shared.expect_err("the store fails").code(), code, "{kind:?}");
    assert!(wait(hub.stream("s", "claimed").expect("a stream").claim()).is_err(), "{kind:?}");
    append(&one, 20, 30);
    store.wait_failed(2);
    let stats = hub.stats();
    assert!(stats.failing && stats.failures > 0 && stats.buffered > 0, "{kind:?} {stats:?}");

    store.fail(None);
    append(&two, 10, 20);
    for writer in [&one, &two] {
        writer.close().expect("open until now");
        let reads = drain(&mut hub.resume("s", &writer.cursor_after(0)).expect("a tail"));
        let end = if std::ptr::eq(writer, &one) { 30 } else { 20 };
        assert_eq!((gaps(&reads), seqs(&reads)), (vec![], (1..end).collect()), "{kind:?}");
    }
    counted(&hub);
    let stats = hub.stats();
    assert_eq!((stats.failing, stats.lost, stats.events, stats.buffered), (false, 0, 50, 0), "{kind:?}");
    assert!(hub.close(HANG));
}

/// Every failing round in a while is one in which some events are in the writer thread's hands and others are not.
#[test]
fn order_is_kept_over_many_failures() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let writer = hub.new_writer("s", "n").expect("a writer");
    for round in 0..50 {
        store.fail((round % 2 == 0).then_some(StoreErrorKind::Io));
        append(&writer, round * 20, round * 20 + 20);
    }
    store.fail(None);
    writer.close().expect("open until now");
    let reads = drain(&mut hub.resume("s", &writer.cursor_after(0)).expect("a tail"));
    assert_eq!((gaps(&reads), seqs(&reads)), (vec![], (1..1_000).collect()));
}

/// Until the writer thread has counted what it committed: readers may see that before.
fn counted(hub: &Hub) {
    wait(hub.flush(PROCESS)).expect("committed");
}

fn small() -> Options {
    let mut options = keep_all();
    options.buffer_bytes = 16 << 10;
    options
}

/// Makes the store fail and the hub notice.
fn break_down(store: &FaultStore, hub: &Hub) {
    store.fail(Some(StoreErrorKind::Io));
    let writer = hub.new_writer("probe", "probe").expect("a writer");
    writer.append("message", b"{}", None).expect("numbered");
    wait(writer.flush(PROCESS)).expect_err("the store fails");
    assert!(hub.stats().failing);
}

/// Past the bound the oldest events become one tombstone: one gap, with numbers that add up.
#[test]
fn the_oldest_are_given_up_as_one_gap() {
    let store = FaultStore::new();
    let hub = over(&store, small());
    let writer = hub.new_writer("s", "n").expect("a writer");
    append(&writer, 0, 10);
    wait(writer.flush(PROCESS)).expect("committed");
    break_down(&store, &hub);
    let payload = [b'x'; 100];
    for n in 10..1_010_u64 {
        assert_eq!(writer.append("message", &payload, None).expect("never the writer's concern"), n);
        assert!(hub.stats().buffered < 17 << 10, "memory has a bound");
    }
    let stats = hub.stats();
    // 16 KiB hold at most 140 events of 117 bytes; at least 7/8 of them less a chunk stay.
    assert!((860..=920).contains(&stats.lost), "{stats:?}");
    store.fail(None);
    writer.close().expect("open until now");
    let reads = drain(&mut hub.resume("s", &writer.cursor_after(4)).expect("a tail"));
    // The probe's one event, older than all of this, is one of those given up.
    let first_kept = 10 + stats.lost - 1;
    assert_eq!(gaps(&reads), [Gap { reason: GapReason::Lost, earliest_seq: Some(first_kept), head_seq: Some(1_009) }]);
    assert_eq!(seqs(&reads), (5..10).chain(first_kept..1_010).collect::<Vec<_>>());
    let at = reads.iter().position(|read| read.gap.is_some()).expect("a gap");
    assert_eq!(seqs(&reads[..at]), (5..10).collect::<Vec<_>>(), "told in its place");
    counted(&hub);
    assert_eq!(hub.stats().lost, stats.lost);
    assert_eq!(hub.stats().events, 10 + 1_010 - first_kept);
}

/// What is given up is the oldest of all writers, not what the writer that needs room has just numbered.
#[test]
fn a_quiet_writer_does_not_pay_for_a_loud_one() {
    let store = FaultStore::new();
    let hub = over(&store, small());
    let (loud, quiet) =
        (hub.new_writer("s", "loud").expect("a writer"), hub.new_writer("s", "quiet").expect("a writer"));
    break_down(&store, &hub);
    for n in 0..2_000_u64 {
        loud.append("message", &[b'x'; 100], None).expect("numbered");
        if n >= 1_990 {
            quiet.append("message", b"{}", None).expect("numbered");
        }
    }
    store.fail(None);
    quiet.close().expect("open until now");
    loud.close().expect("open until now");
    wait(quiet.flush(PROCESS)).expect("committed");
    let stream = hub.stream("s", "quiet").expect("a stream");
    let reads = drain(&mut stream.tail(tidings::After::Earliest).expect("a tail"));
    assert_eq!((gaps(&reads), seqs(&reads)), (vec![], (0..10).collect()));
    let stream = hub.stream("s", "loud").expect("a stream");
    let reads = drain(&mut stream.tail(tidings::After::Earliest).expect("a tail"));
    assert_eq!(gaps(&reads).len(), 1);
    assert_eq!(seqs(&reads).last(), Some(&1_999));
}

/// Events given up while others are in the writer thread's hands, whose commit then fails: no hole, no wrong order.
#[test]
fn giving_up_while_a_commit_fails() {
    let store = FaultStore::new();
    let hub = over(&store, small());
    let writer = hub.new_writer("s", "n").expect("a writer");
    let first = writer.cursor();
    store.spare_heartbeats();
    break_down(&store, &hub);
    let mut next = 0;
    let mut append = |count| {
        for _ in 0..count {
            assert_eq!(writer.append("message", &[b'x'; 100], None).expect("never the writer's concern"), next);
            next += 1;
        }
    };
    append(10);
    for count in [5, 300, 5, 300] {
        // A heartbeat gets through, so all there is is in the writer thread's hands; and that fails in the end.
        store.block(true);
        store.wait_held();
        append(count);
        store.block(false);
        store.wait_failed(1);
    }
    store.fail(None);
    writer.close().expect("open until now");
    let reads = drain(&mut hub.resume("s", &first).expect("a tail"));
    let mut at = 0;
    for read in &reads {
        if let Some(gap) = read.gap {
            assert_eq!(gap.reason, GapReason::Lost);
            at = gap.earliest_seq.expect("a place");
        }
        for event in &read.events {
            assert_eq!(event.seq, at);
            at += 1;
        }
    }
    assert_eq!(at, next, "every number is an event or told as lost");
    assert_eq!(hub.stats().refused, 0);
}

/// One who can wait no longer for a store that is slow: each event is numbered, and what had to go for it is told.
#[test]
fn giving_up_on_request() {
    let store = FaultStore::new();
    let hub = over(&store, small());
    let writer = hub.new_writer("s", "n").expect("a writer");
    store.block(true);
    append(&writer, 0, 10);
    store.wait_held();
    let payload = [b'x'; 100];
    let mut next = 10;
    let error = loop {
        match writer.append("message", &payload, None) {
            Ok(seq) => assert_eq!(seq, next),
            Err(error) => break error,
        }
        next += 1;
    };
    assert_eq!(error.code(), ErrorCode::Congested);
    for _ in 0..500 {
        assert_eq!(writer.append_giving_up("message", &payload, None).expect("room is made"), next);
        next += 1;
        assert!(hub.stats().buffered < 17 << 10, "memory has a bound");
    }
    let lost = hub.stats().lost;
    assert!(lost > 400 && !hub.stats().failing, "{lost}");
    store.block(false);
    writer.close().expect("open until now");
    let reads = drain(&mut hub.resume("s", &writer.cursor_after(4)).expect("a tail"));
    let gaps = gaps(&reads);
    assert_eq!(gaps.len(), 1);
    let first_kept = gaps[0].earliest_seq.expect("a place");
    let first_lost = first_kept - lost;
    assert!((1..=10).contains(&first_lost), "what was in the writer thread's hands is not given up");
    assert_eq!(seqs(&reads), (5..first_lost.max(5)).chain(first_kept..next).collect::<Vec<_>>());
}

/// The result of a call does not wait for a store that is down; the outcome is committed when it is back, and told once.
#[test]
fn the_outcome_of_a_call_while_the_store_is_down() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let mut options = local();
    options.outcome_wait = Duration::from_millis(20);
    let hub = over(&store, options);
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    store.fail(Some(StoreErrorKind::Io));
    let ended = wait(call.complete(br#"{"content":[]}"#)).expect("ended");
    assert_eq!((ended.outcome, ended.ours, ended.committed), (Outcome::Completed, true, false));
    let undelivered = r#"[{"trigger":"completed","routes":["main"],"reason":"store_unavailable"}]"#;
    assert_eq!(ended.undelivered.as_deref(), Some(undelivered));
    let late = wait(call.cancel(None)).expect("ended");
    assert_eq!((late.outcome, late.ours), (Outcome::Completed, false));
    let refused =
        begin(&hub, &config(&receiver.endpoint, &ENDS)).map(drop).expect_err("nothing is accepted that is not stored");
    assert_eq!(refused.code(), ErrorCode::Unavailable);
    assert_eq!(receiver.connections(), 0, "nothing is told that is not committed");

    store.fail(None);
    store.wait_deliveries(&[DeliveryState::Delivered]);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (requests[0].field("callId"), requests[0].field("status")),
        (call.id().to_string(), "completed".to_owned())
    );
    let row = store.call(call.id()).expect("an answer").expect("there").outcome.expect("ended");
    assert_eq!((row.status.as_str(), row.reason), ("completed", None));
    let now = wait(call.ended()).expect("ended");
    assert_eq!((now.outcome, now.committed, now.undelivered), (Outcome::Completed, true, None));
}

/// The outcome is the one event that is never given up.
#[test]
fn the_outcome_is_kept_when_all_else_is_given_up() {
    let store = FaultStore::new();
    let mut options = local();
    options.buffer_bytes = 16 << 10;
    options.outcome_wait = Duration::from_millis(1);
    let hub = over(&store, options);
    let call = begin(&hub, &config("http://127.0.0.1:1/", &["failed"])).expect("accepted");
    break_down(&store, &hub);
    call.emit("step", b"{}").expect("numbered");
    wait(call.complete(br#"{"content":[]}"#)).expect("ended");
    let loud = hub.new_writer("s", "loud").expect("a writer");
    for _ in 0..1_000 {
        loud.append("message", &[b'x'; 100], None).expect("numbered");
    }
    store.fail(None);
    let stream = hub.stream(format!("call:{}", call.id()), "events").expect("a stream");
    let reads = drain(&mut stream.tail(tidings::After::Earliest).expect("a tail"));
    let last = reads.last().and_then(|read| read.events.last()).expect("an event");
    assert_eq!((last.seq, last.kind.as_str()), (1, "io.tidings.outcome"));
    assert_eq!(&last.payload[..], br#"{"status":"completed","result":{"content":[]}}"#);
}

#[test]
fn closing_over_a_failing_store_gives_up_in_time() {
    for kind in [StoreErrorKind::Io, StoreErrorKind::Closed] {
        let store = FaultStore::new();
        let hub = over(&store, local());
        let call = begin(&hub, &config("http://127.0.0.1:1/", &ENDS)).expect("accepted");
        let writer = hub.new_writer("s", "n").expect("a writer");
        break_down(&store, &hub);
        store.fail(Some(kind));
        append(&writer, 0, 10);
        assert!(hub.close(HANG), "nothing more can be done, and that is done");
        assert_eq!(writer.append("message", b"{}", None).expect_err("closed").code(), ErrorCode::Closed);
        assert_eq!(call.emit("step", b"{}").expect_err("closed").code(), ErrorCode::Closed);
        assert!(store.stream_by_id(writer.stream_id()).expect("an answer").is_none());
        assert_eq!(store.call(call.id()).expect("an answer").expect("there").outcome, None);
    }
}

/// A store that never answers: the deadline holds, and the process is not held up by it.
#[test]
fn closing_over_a_hanging_store_ends_at_the_deadline() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    let writer = hub.new_writer("s", "n").expect("a writer");
    store.block(true);
    append(&writer, 0, 10);
    store.wait_held();
    assert!(!hub.close(Duration::from_millis(50)));
    assert_eq!(writer.append("message", b"{}", None).expect_err("closed").code(), ErrorCode::Closed);
    store.block(false); // lets the threads of the test end
}

/// Opening tells what is wrong with the store, and the next use tries again.
#[test]
fn opening_over_a_failing_store() {
    let store = FaultStore::new();
    store.fail(Some(StoreErrorKind::ReadOnly));
    let opened = Hub::over(store, Options::default(), std::sync::Arc::new(tidings::SystemClock));
    assert_eq!(opened.map(drop).expect_err("the store fails").code(), ErrorCode::Unavailable);
}
