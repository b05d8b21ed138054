//! Streams: appending, claiming, numbering, cursors, closing.

use std::sync::Arc;

use crate::support::{FaultStore, TestClock, drain, keep_all, memory, over, over_with, seqs, wait};
use bytes::Bytes;
use tidings::proto::stream::{Cursor, GapReason, MAX_SEQ, Retention};
use tidings::store::{Commit, Op, Store};
use tidings::{After, Durability, ErrorCode, Hub, NewEvent, Options, Read, ReadLimits, Result, Stream};

const PROCESS: Durability = Durability::Process;

fn event(payload: &str) -> NewEvent {
    NewEvent {
        kind: "message".to_owned(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        time: 0,
        identity: None,
    }
}

fn read(stream: &Stream, after: After) -> Read {
    stream.read(after, ReadLimits::default()).expect("a read")
}

fn code<T>(result: Result<T>) -> ErrorCode {
    result.map(drop).expect_err("an error").code()
}

fn texts(read: &Read) -> Vec<&str> {
    read.payloads().map(|payload| std::str::from_utf8(payload).expect("text")).collect()
}

#[test]
fn shared_events_are_numbered_in_their_commit() {
    let hub = memory();
    let stream = hub.stream("scope", "name").expect("a stream");
    assert!(stream.info().expect("an answer").is_none());
    assert_eq!(wait(stream.append(vec![event("0"), event("1")], PROCESS)).expect("numbered"), 0);
    assert_eq!(wait(stream.append(vec![event("2")], Durability::Disk)).expect("numbered"), 2);
    let all = read(&stream, After::Earliest);
    assert_eq!(
        (texts(&all), seqs(std::slice::from_ref(&all)), all.head_seq),
        (vec!["0", "1", "2"], vec![0, 1, 2], Some(2))
    );
    assert!(!all.ended && all.gap.is_none());
    assert_eq!(texts(&read(&stream, After::Seq(0))), ["1", "2"]);
    assert_eq!(texts(&read(&stream, After::Seq(2))), [""; 0]);
    assert_eq!(texts(&read(&stream, After::Cursor(all.cursor))), [""; 0]);

    wait(stream.close(vec![event("3")], PROCESS)).expect("closed");
    let rest = read(&stream, After::Cursor(all.cursor));
    assert_eq!((texts(&rest), rest.ended), (vec!["3"], true));
    assert_eq!(code(wait(stream.append(vec![event("4")], PROCESS))), ErrorCode::Closed);
    assert_eq!(code(wait(stream.close(Vec::new(), PROCESS))), ErrorCode::Closed);
    assert_eq!(code(wait(stream.claim())), ErrorCode::Closed);
    assert_eq!(code(wait(stream.append(Vec::new(), PROCESS))), ErrorCode::InvalidArgument);
}

#[test]
fn a_stream_that_is_not_there() {
    let hub = memory();
    let stream = hub.stream("scope", "name").expect("a stream");
    let nothing = read(&stream, After::Earliest);
    assert_eq!((nothing.events.len(), nothing.head_seq, nothing.ended, nothing.gap), (0, None, false, None));
    assert_eq!(code(stream.read(After::Seq(0), ReadLimits::default())), ErrorCode::UnknownCursor);
    assert_eq!(read(&stream, After::Cursor(nothing.cursor)), nothing, "its cursor is good, and still nothing there");
    assert_eq!(code(stream.tail(After::Earliest)), ErrorCode::UnknownCursor);
    wait(stream.close(Vec::new(), PROCESS)).expect("created and closed");
    for after in [After::Earliest, After::Cursor(nothing.cursor)] {
        let empty = read(&stream, after);
        assert_eq!((empty.events.len(), empty.head_seq, empty.ended), (0, None, true));
    }
}

/// Who looked before the stream was goes on from its first event; what retention took meanwhile is a gap and not a silence.
#[test]
fn a_reader_of_a_stream_that_was_not_there_misses_nothing() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let stream = hub.stream("scope", "name").expect("a stream");
    let nothing = read(&stream, After::Earliest);
    let text = nothing.cursor.to_string();
    let before = After::Cursor(Cursor::parse(&text).expect("it survives its text"));
    wait(stream.append(vec![event("0"), event("1")], PROCESS)).expect("numbered");
    let all = read(&stream, before);
    assert_eq!((texts(&all), all.gap), (vec!["0", "1"], None));
    let mut tail = stream.tail(before).expect("a tail");
    let first = wait(tail.next()).expect("not closed").expect("a read");
    assert_eq!(seqs(&[first]), [0, 1]);

    let more = (2..10).map(|n| event(&n.to_string())).collect();
    wait(stream.append(more, PROCESS)).expect("numbered");
    let retention = Retention { max_events: Some(2), ..Retention::UNLIMITED };
    let trim = Op::Trim { now: 0, wall: 0, retention, keep_finished_ms: i64::MAX };
    store.inner().commit(&[Commit::new(PROCESS, vec![trim])]).remove(0).expect("trimmed");
    let evicted = read(&stream, before);
    let gap = evicted.gap.expect("a gap");
    assert_eq!((gap.reason, gap.head_seq), (GapReason::Evicted, Some(9)));
    assert_eq!(Some(evicted.events[0].seq), gap.earliest_seq);

    let other = hub.stream("other", "name").expect("a stream");
    wait(other.append(vec![event("\"x\"")], PROCESS)).expect("numbered");
    assert_eq!(texts(&read(&other, before)), ["\"x\""], "it names no stream: scope and name say which is read");
}

/// A newer claim fences the older writer, whichever process has it; what the older one buffered is dropped and counted.
#[test]
fn claims_of_two_processes() {
    let store = FaultStore::shared();
    let (first, second) = (over(&store, keep_all()), over(&store.other(), keep_all()));
    let old = wait(first.stream("scope", "name").expect("a stream").claim()).expect("a claim");
    assert_eq!(old.append("message", b"\"a0\"", None).expect("numbered"), 0);
    assert_eq!(old.append("message", b"\"a1\"", None).expect("numbered"), 1);
    wait(old.flush(PROCESS)).expect("committed");

    let stream = second.stream("scope", "name").expect("a stream");
    let new = wait(stream.claim()).expect("a claim");
    assert_eq!((new.stream_id(), new.key()), (old.stream_id(), old.key()));
    assert_eq!(old.append("message", b"\"a2\"", None).expect("the old writer does not know yet"), 2);
    assert_eq!(code(wait(old.flush(PROCESS))), ErrorCode::Fenced);
    assert_eq!(code(old.append("message", b"\"a3\"", None)), ErrorCode::Fenced);
    assert_eq!(code(old.close()), ErrorCode::Fenced);
    assert!(old.closed() && !new.closed());
    wait(first.flush(PROCESS)).expect("committed"); // by then it is counted
    assert_eq!((first.stats().events, first.stats().refused, first.stats().buffered), (2, 1, 0));

    assert_eq!(new.append_and_close("message", b"\"b2\"").expect("numbered"), 2);
    wait(new.flush(PROCESS)).expect("committed");
    let all = read(&stream, After::Earliest);
    assert_eq!((texts(&all), all.ended), (vec!["\"a0\"", "\"a1\"", "\"b2\""], true));
}

#[test]
fn a_shared_append_fences_the_writer() {
    let hub = memory();
    let stream = hub.stream("scope", "name").expect("a stream");
    let writer = wait(stream.claim()).expect("a claim");
    writer.append("message", b"0", None).expect("numbered");
    wait(writer.flush(PROCESS)).expect("committed");
    assert_eq!(wait(stream.append(vec![event("1")], PROCESS)).expect("numbered"), 1);
    writer.append("message", b"-1", None).expect("the writer does not know yet");
    assert_eq!(code(wait(writer.flush(PROCESS))), ErrorCode::Fenced);
    // The writer may take the right back, and numbers on.
    let again = wait(stream.claim()).expect("a claim");
    assert_eq!(again.append("message", b"2", None).expect("numbered"), 2);
    wait(again.flush(PROCESS)).expect("committed");
    assert_eq!(texts(&read(&stream, After::Earliest)), ["0", "1", "2"]);
}

#[test]
fn a_new_writer_whose_key_is_taken_is_refused() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let (first, second) = (hub.new_writer("s", "n").expect("a writer"), hub.new_writer("s", "n").expect("a writer"));
    first.append("message", b"1", None).expect("numbered");
    wait(first.flush(PROCESS)).expect("committed");
    store.block(true);
    second.append("message", b"2", None).expect("the second does not know yet");
    second.append("message", b"3", None).expect("the second does not know yet");
    store.block(false);
    assert_eq!(code(wait(second.flush(PROCESS))), ErrorCode::InvalidArgument);
    assert!(second.closed());
    wait(hub.flush(PROCESS)).expect("committed"); // by then it is counted
    assert_eq!(hub.stats().refused, 2);
    let unknown = hub.resume("s", &second.cursor());
    assert_eq!(code(unknown), ErrorCode::UnknownCursor, "it never came to be");
    assert_eq!(texts(&read(&hub.stream("s", "n").expect("a stream"), After::Earliest)), ["1"]);
}

/// Many threads append through clones of one writer: all numbers are given once, and a flush after an append holds it.
#[test]
fn appends_of_many_threads_and_their_flushes() {
    const THREADS: usize = 4;
    const EACH: u64 = 250;
    let hub = Hub::with("memory:", keep_all()).expect("a hub");
    let writer = hub.new_writer("s", "n").expect("a writer");
    let start = std::sync::Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for turn in 0..EACH {
                    let seq = writer.append("message", b"{}", None).expect("numbered");
                    if turn % 10 == 0 {
                        wait(writer.flush(PROCESS)).expect("whoever flushes his own events never hears of others'");
                        let head = hub.stream("s", "n").expect("a stream").info().expect("an answer").expect("there");
                        assert!(head.next_seq > seq, "flushed {seq}, committed before {}", head.next_seq);
                    }
                }
            });
        }
    });
    writer.close().expect("open until now");
    let tail = &mut hub.resume("s", &writer.cursor_after(0)).expect("a tail");
    assert_eq!(seqs(&drain(tail)), (1..THREADS as u64 * EACH).collect::<Vec<_>>());
    wait(hub.flush(PROCESS)).expect("committed"); // readers may see it before it is counted
    assert_eq!(hub.stats().buffered, 0);
}

/// The cursor after each append stands exactly behind that event, whether it is committed yet or not.
#[test]
fn the_cursor_after_each_append() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let writer = hub.new_writer("s", "n").expect("a writer");
    let mut tails = vec![hub.resume("s", &writer.cursor()).expect("nothing is committed, and the place is known")];
    store.block(true);
    for seq in 0..20_u64 {
        assert_eq!(writer.append("message", seq.to_string().as_bytes(), None).expect("numbered"), seq);
        assert_eq!(writer.cursor(), writer.cursor_after(seq));
        tails.push(hub.resume("s", &writer.cursor()).expect("nothing is committed, and the place is known"));
    }
    store.block(false);
    writer.close().expect("open until now");
    for (from, tail) in tails.iter_mut().enumerate() {
        let reads = drain(tail);
        assert!(reads.iter().all(|read| read.gap.is_none()), "{reads:?}");
        assert_eq!(seqs(&reads), (from as u64..20).collect::<Vec<_>>());
    }
}

/// An adapter sends a stream's first cursor before anything is committed, and the client may be back at once.
#[test]
fn a_stream_is_known_before_its_first_commit() {
    let hub = memory();
    let writer = hub.new_writer("mine", "n").expect("a writer");
    assert_eq!(code(hub.resume("theirs", &writer.cursor())), ErrorCode::UnknownCursor);
    let mut tail = hub.resume("mine", &writer.cursor()).expect("a tail");
    assert_eq!(tail.read(ReadLimits::default()).expect("a read").events.len(), 0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || drain(&mut tail));
        writer.append_and_close("message", b"{}").expect("numbered");
        assert_eq!(seqs(&reader.join().expect("a reader")), [0]);
    });
    // A writer that goes without a word leaves nothing behind.
    let silent = hub.new_writer("mine", "other").expect("a writer");
    let cursor = silent.cursor();
    drop(silent);
    assert_eq!(code(hub.resume("mine", &cursor)), ErrorCode::UnknownCursor);
}

#[test]
fn cursors_that_open_nothing() {
    let hub = memory();
    let writer = hub.new_writer("mine", "n").expect("a writer");
    writer.append("message", b"{}", None).expect("numbered");
    wait(writer.flush(PROCESS)).expect("committed");
    let good = writer.cursor();
    assert!(hub.resume("mine", &good).is_ok());
    let mut other = Cursor::parse(&good).expect("ours");
    other.stream.0[0] ^= 1;
    let bad = [
        "",
        "0",
        "-1",
        "abc",
        "latest",
        "_GET_stream_1",
        " ",
        &format!("{good}0x"),
        &format!("{good} "),
        &other.to_string(),
    ];
    for text in bad {
        let error = hub.resume("mine", text).map(drop).expect_err(text);
        assert_eq!(error.code(), ErrorCode::UnknownCursor, "{text:?}");
    }
    let foreign = hub.resume("theirs", &good).map(drop).expect_err("foreign");
    let unknown = hub.resume("mine", &other.to_string()).map(drop).expect_err("unknown");
    assert_eq!(foreign.to_string(), unknown.to_string(), "what is another's and what is not there are told alike");
    let wrong = hub.stream("mine", "n").expect("a stream").read(After::Cursor(other), ReadLimits::default());
    assert_eq!(code(wrong), ErrorCode::UnknownCursor);
}

/// Field case B14: places inside and outside what is retained, for a reader that only has a number.
#[test]
fn bare_numbers() {
    let hub = memory();
    let stream = hub.stream("s", "n").expect("a stream");
    wait(stream.append((0..5).map(|n| event(&n.to_string())).collect(), PROCESS)).expect("numbered");
    let limits = ReadLimits::default();
    assert_eq!(texts(&read(&stream, After::Seq(3))), ["4"]);
    assert_eq!(texts(&read(&stream, After::Seq(4))), [""; 0]);
    assert_eq!(code(stream.read(After::Seq(5), limits)), ErrorCode::Ahead);
    assert_eq!(code(stream.read(After::Seq(MAX_SEQ), limits)), ErrorCode::Ahead);
    assert_eq!(code(stream.read(After::Seq(MAX_SEQ + 1), limits)), ErrorCode::InvalidArgument);
    assert_eq!(code(stream.tail(After::Seq(5))), ErrorCode::Ahead);
}

/// A crash loses events that were numbered and whose cursors were sent; the next writer gives the numbers out again. A
/// reader with such a cursor hears `regressed`, and never takes the new events for the old ones.
#[test]
fn what_a_crash_took_back_is_regressed() {
    let store = FaultStore::shared();
    let dying = over(&store, keep_all());
    let writer = dying.new_writer("s", "n").expect("a writer");
    for n in 0..5 {
        writer.append("message", format!("\"old {n}\"").as_bytes(), None).expect("numbered");
    }
    wait(writer.flush(PROCESS)).expect("committed");
    let (kept, all_kept) = (writer.cursor_after(2), writer.cursor_after(4));
    let mut live = dying.resume("s", &all_kept).expect("a tail");
    // From here on nothing of this process reaches the store, which is what a crash comes to.
    store.block(true);
    for n in 5..8 {
        writer.append("message", format!("\"old {n}\"").as_bytes(), None).expect("numbered");
    }
    let lost = [writer.cursor_after(5), writer.cursor_after(7)];

    let heir_store = store.other();
    let heir = over(&heir_store, keep_all());
    let claimed = wait(heir.stream("s", "n").expect("a stream").claim()).expect("a claim");
    for n in 5..9 {
        assert_eq!(claimed.append("message", format!("\"new {n}\"").as_bytes(), None).expect("numbered"), n);
    }
    claimed.close().expect("open until now");

    for cursor in &lost {
        let reads = drain(&mut heir.resume("s", cursor).expect("a tail"));
        let gap = reads[0].gap.expect("a gap");
        assert_eq!((gap.reason, gap.earliest_seq), (GapReason::Regressed, Some(0)));
        assert_eq!(seqs(&reads), (0..9).collect::<Vec<_>>(), "the reader starts over, with nothing left out");
        assert!(reads[1..].iter().all(|read| read.gap.is_none()), "{reads:?}");
    }
    for (cursor, from) in [(&kept, 3), (&all_kept, 5)] {
        let reads = drain(&mut heir.resume("s", cursor).expect("a tail"));
        assert!(reads.iter().all(|read| read.gap.is_none()), "{reads:?}");
        assert_eq!(seqs(&reads), (from..9).collect::<Vec<_>>());
    }
    let reads = drain(&mut live);
    assert_eq!(seqs(&reads), [5, 6, 7, 8], "a tail saw committed events only and goes on");
    assert!(reads.iter().flat_map(Read::payloads).all(|payload| payload.starts_with(b"\"new")));
    store.block(false);
}

/// A tail that waits behind events of a living writer, which dies before they are committed.
#[test]
fn a_tail_ahead_of_what_is_committed_is_told_when_that_is_taken_back() {
    let store = FaultStore::shared();
    let dying = over(&store, keep_all());
    let writer = dying.new_writer("s", "n").expect("a writer");
    writer.append("message", b"\"old 0\"", None).expect("numbered");
    wait(writer.flush(PROCESS)).expect("committed");
    store.block(true);
    for n in 1..50 {
        writer.append("message", format!("\"old {n}\"").as_bytes(), None).expect("numbered");
    }
    let heir = over(&store.other(), keep_all());
    let mut tail = heir.resume("s", &writer.cursor()).expect("its writer lives, so what it saw is on its way");
    assert_eq!(tail.read(ReadLimits::default()).expect("a read").gap, None);

    // The next writer goes beyond the place where the tail stands.
    let claimed = wait(heir.stream("s", "n").expect("a stream").claim()).expect("a claim");
    for n in 1..80 {
        claimed.append("message", format!("\"new {n}\"").as_bytes(), None).expect("numbered");
    }
    claimed.close().expect("open until now");
    wait(claimed.flush(PROCESS)).expect("committed");
    let reads = drain(&mut tail);
    let gap = reads[0].gap.expect("a gap");
    assert_eq!((gap.reason, gap.earliest_seq, gap.head_seq), (GapReason::Regressed, Some(0), Some(79)));
    assert_eq!(seqs(&reads), (0..80).collect::<Vec<_>>(), "nothing between the earliest and its place is left out");
    store.block(false);
}

#[test]
fn closing() {
    let hub = memory();
    let writer = hub.new_writer("s", "n").expect("a writer");
    assert!(!writer.closed());
    writer.append("message", b"0", None).expect("numbered");
    assert_eq!(writer.append_and_close("last", b"1").expect("numbered"), 1);
    assert!(writer.closed());
    assert_eq!(code(writer.append("message", b"2", None)), ErrorCode::Closed);
    assert_eq!(code(writer.close()), ErrorCode::Closed);
    assert_eq!(code(writer.append_and_close("last", b"2")), ErrorCode::Closed);
    wait(writer.flush(PROCESS)).expect("committed");
    let all = read(&hub.stream("s", "n").expect("a stream"), After::Earliest);
    assert_eq!((texts(&all), all.ended), (vec!["0", "1"], true));
    assert_eq!(all.events[1].kind, "last");

    let empty = hub.new_writer("s", "empty").expect("a writer");
    empty.close().expect("open until now");
    wait(empty.flush(PROCESS)).expect("committed");
    let nothing = read(&hub.stream("s", "empty").expect("a stream"), After::Earliest);
    assert_eq!((nothing.events.len(), nothing.head_seq, nothing.ended), (0, None, true));
}

/// Field cases B57 and B61 and what else parsers like to change: bytes in are bytes out, from read, tail and replay.
#[test]
fn bytes_stay_as_they_are() {
    let big = format!("\"{}\"", "x".repeat(1 << 20));
    let payloads: Vec<Vec<u8>> = [
        "1.0",
        "1E2",
        "-0",
        "0.1",
        "1e400",
        "9007199254740993",
        "123456789012345678901234567890",
        "\"\u{2028}\u{2029}\"",
        r#""\ud800""#,
        r#""\u2028""#,
        "{ \"b\" : 1.0 ,\n\"a\":2, \"a\":3 }",
        "\u{feff}{}",
        "",
        &big,
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .chain([vec![0xff, 0x00, 0xfe]])
    .collect();
    let identity = Bytes::from_static(br#"{"task":"t",  "turn":1.0}"#);
    let hub = Hub::with("memory:", keep_all()).expect("a hub");
    let owned = hub.new_writer("s", "owned").expect("a writer");
    let first = owned.cursor();
    for payload in &payloads {
        owned.append("message", payload, Some(&identity)).expect("numbered");
    }
    owned.close().expect("open until now");
    wait(owned.flush(PROCESS)).expect("committed");
    let shared = hub.stream("s", "shared").expect("a stream");
    let events = payloads.iter().map(|payload| NewEvent {
        kind: "message".to_owned(),
        payload: Bytes::copy_from_slice(payload),
        time: 5,
        identity: Some(identity.clone()),
    });
    wait(shared.close(events.collect(), PROCESS)).expect("closed");

    for stream in [hub.stream("s", "owned").expect("a stream"), shared] {
        let mut tail = stream.tail(After::Earliest).expect("a tail");
        let mut reads = drain(&mut tail);
        let mut by_read = Vec::new();
        let mut at = stream.tail(After::Earliest).expect("a tail").cursor();
        loop {
            let read = read(&stream, After::Cursor(at));
            at = read.cursor;
            let ended = read.ended;
            by_read.push(read);
            if ended {
                break;
            }
        }
        for reads in [&mut reads, &mut by_read] {
            let got: Vec<&[u8]> = reads.iter().flat_map(Read::payloads).collect();
            assert!(got == payloads, "bytes changed");
            assert!(reads.iter().flat_map(|read| &read.events).all(|event| event.identity.as_ref() == Some(&identity)));
        }
    }
    let replay = drain(&mut hub.resume("s", &first).expect("a tail"));
    assert!(replay.iter().flat_map(Read::payloads).eq(payloads.iter().map(Vec::as_slice)), "bytes changed");
}

#[test]
fn limits_of_keys_and_labels() {
    let hub = memory();
    let (fits, long) = ("x".repeat(1_024), "x".repeat(1_025));
    assert!(hub.stream(fits.as_str(), fits.as_str()).is_ok());
    for (scope, name, field) in [(&long, &fits, "scope"), (&fits, &long, "name")] {
        for error in [
            hub.stream(scope.as_str(), name.as_str()).map(drop).expect_err("too long"),
            hub.new_writer(scope.as_str(), name.as_str()).map(drop).expect_err("too long"),
        ] {
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            assert_eq!(error.to_string(), format!("{field}: at most 1024 bytes"));
        }
    }
    let writer = hub.new_writer("s", "n").expect("a writer");
    let (label, too_long) = ("k".repeat(65_535), "k".repeat(65_536));
    assert_eq!(writer.append(&label, b"0", None).expect("numbered"), 0);
    assert_eq!(code(writer.append(&too_long, b"1", None)), ErrorCode::TooLarge);
    assert_eq!(code(writer.append("k", b"1", Some(&Bytes::from(too_long.clone())))), ErrorCode::TooLarge);
    assert_eq!(code(writer.append_and_close(&too_long, b"1")), ErrorCode::TooLarge);
    assert_eq!(writer.append("k", b"1", None).expect("the refused ones used up no number"), 1);
    let shared = hub.stream("s", "shared").expect("a stream");
    let event = NewEvent { kind: too_long, ..event("0") };
    assert_eq!(code(wait(shared.append(vec![event], PROCESS))), ErrorCode::TooLarge);
    assert!(!hub.stats().failing, "an event that does not fit is no failure of the store");
}

/// A store that is slow but works: more than the buffer holds is refused, and nothing that was taken is lost.
#[test]
fn congestion_refuses_and_loses_nothing() {
    let store = FaultStore::new();
    let mut options = keep_all();
    options.buffer_bytes = 64 << 10;
    let hub = over(&store, options);
    let writer = hub.new_writer("s", "n").expect("a writer");
    store.block(true);
    let mut taken = 0;
    let error = loop {
        match writer.append("message", &[b'x'; 1_000], None) {
            Ok(seq) => assert_eq!(seq, taken),
            Err(error) => break error,
        }
        taken += 1;
        assert!(taken <= 20 || writer.congested(), "a quarter of the buffer is in use");
        assert!(taken < 100, "the buffer has a bound");
    };
    assert_eq!((error.code(), error.retryable()), (ErrorCode::Congested, true));
    assert!((60..=70).contains(&taken), "64 KiB hold {taken} of these");
    store.block(false);
    wait(writer.flush(PROCESS)).expect("committed");
    assert!(!writer.congested());
    assert_eq!(writer.append_and_close("message", b"{}").expect("room again"), taken);
    let reads = drain(&mut hub.resume("s", &writer.cursor_after(0)).expect("a tail"));
    assert_eq!(seqs(&reads), (1..=taken).collect::<Vec<_>>());
    assert_eq!(hub.stats().lost, 0);
}

#[test]
fn flushing() {
    let store = FaultStore::new();
    let clock = TestClock::new();
    let hub = over_with(&store, keep_all(), &clock);
    let writer = hub.new_writer("s", "n").expect("a writer");
    wait(writer.flush(PROCESS)).expect("nothing to do");
    writer.append("message", b"{}", None).expect("numbered");
    wait(writer.flush(PROCESS)).expect("committed");
    let info = store.stream_by_id(writer.stream_id()).expect("an answer").expect("there");
    assert_eq!((info.next_seq, store.disk()), (1, 0));
    wait(writer.flush(Durability::Disk)).expect("synced");
    assert_eq!(store.disk(), 1, "a flush to the disk syncs also when all is committed already");
    store.block(true);
    writer.append("message", b"{}", None).expect("numbered");
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| wait(writer.flush(PROCESS)));
        store.wait_held();
        assert!(!flush.is_finished(), "nothing is committed");
        store.block(false);
        flush.join().expect("no panic").expect("committed");
    });
    let info = store.stream_by_id(writer.stream_id()).expect("an answer").expect("there");
    assert_eq!(info.next_seq, 2);
}

#[test]
fn options_that_cannot_work_are_named() {
    let with = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        Hub::with("memory:", options).map(drop).expect_err("bad options")
    };
    for (error, field) in [
        (with(|options| options.buffer_bytes = 1_023), "buffer_bytes"),
        (with(|options| options.concurrency = 0), "concurrency"),
        (with(|options| options.attempt_timeout = std::time::Duration::ZERO), "attempt_timeout"),
        (with(|options| options.worker_lease = std::time::Duration::from_millis(999)), "worker_lease"),
        (with(|options| options.address.allow_ports = vec![0]), "address"),
        (with(|options| options.header_names = vec!["webhook-id".to_owned()]), "header_names"),
    ] {
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.to_string().starts_with(&format!("{field}: ")), "{error}");
    }
    let store = Arc::new(tidings::store::MemoryStore::new());
    let mut options = Options::default();
    options.concurrency = 0;
    assert_eq!(code(Hub::over(store, options, Arc::new(tidings::SystemClock))), ErrorCode::InvalidArgument);
}
