//! Appends that are made once, several events at once, identities, flush, and export.

use crate::support::{self, FaultStore, drain, keep_all, memory, over, wait};
use bytes::Bytes;
use tidings::proto::stream::identity_json;
use tidings::store::{Op, StoreErrorKind};
use tidings::{After, Durability, ErrorCode, Hub, NewEvent, Options, ReadLimits, Result, Stream};

const PROCESS: Durability = Durability::Process;

fn events(payloads: &[&str]) -> Vec<NewEvent> {
    let event = |payload: &&str| NewEvent {
        kind: "message".to_owned(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        time: 7,
        identity: None,
    };
    payloads.iter().map(event).collect()
}

fn code<T>(result: Result<T>) -> ErrorCode {
    result.map(drop).expect_err("an error").code()
}

fn texts(stream: &Stream) -> Vec<String> {
    let read = stream.read(After::Earliest, ReadLimits::default()).expect("a read");
    read.payloads().map(|payload| String::from_utf8(payload.to_vec()).expect("text")).collect()
}

fn lines(stream: &Stream, after: After) -> String {
    let pages: Vec<_> = stream.export(after).expect("a stream").collect::<Result<_>>().expect("pages");
    String::from_utf8(pages.concat().concat()).expect("text")
}

#[test]
fn an_append_with_a_key_is_made_once() {
    let hub = memory();
    let stream = hub.stream("scope", "name").expect("a stream");
    let once = |key: &str, payloads: &[&str], close| wait(stream.append_once(key, events(payloads), close, PROCESS));
    assert_eq!(once("a", &["0", "1"], false).expect("appended"), 0);
    assert_eq!(once("b", &["2"], false).expect("appended"), 2);
    assert_eq!(once("a", &["other"], false).expect("made before"), 0);
    assert_eq!(once("end", &["3"], true).expect("closed"), 3);
    assert_eq!(once("end", &["3"], true).expect("made before"), 3);
    assert_eq!(once("a", &["other"], false).expect("made before"), 0);
    assert_eq!(code(once("c", &["late"], false)), ErrorCode::Closed);
    assert_eq!(texts(&stream), ["0", "1", "2", "3"]);
    for key in ["", &"k".repeat(256)] {
        assert_eq!(code(once(key, &["x"], false)), ErrorCode::InvalidArgument);
    }
    assert_eq!(code(once("d", &[], true)), ErrorCode::InvalidArgument);
}

/// Whoever does not hear of the commit asks again with the same key: that is what keys are for.
#[test]
fn an_append_whose_answer_was_lost() {
    let store = FaultStore::shared();
    let (first, second) = (over(&store, keep_all()), over(&store.other(), keep_all()));
    let streams = [&first, &second].map(|hub| hub.stream("scope", "name").expect("a stream"));
    drop(streams[0].append_once("k", events(&["0"]), false, PROCESS)); // never polled: not made
    let mut unheard = Box::pin(streams[0].append_once("k", events(&["0"]), false, PROCESS));
    let waker = std::task::Waker::noop();
    let _ = unheard.as_mut().poll(&mut std::task::Context::from_waker(waker));
    drop(unheard);
    for stream in streams.iter().rev() {
        assert_eq!(wait(stream.append_once("k", events(&["0"]), false, PROCESS)).expect("appended"), 0);
    }
    assert_eq!(texts(&streams[1]), ["0"]);
}

#[test]
fn events_appended_together_are_seen_together() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let writer = hub.new_writer("scope", "name").expect("a writer");
    let stream = hub.stream("scope", "name").expect("a stream");
    assert_eq!(writer.append_all("m", [b"0".as_slice(), b"1"], None, false).expect("numbered"), 0..2);
    assert_eq!(writer.append_all("m", [], None, false).expect("nothing"), 2..2);
    wait(writer.flush(PROCESS)).expect("committed");
    // However many chunks they fill, they and the close are one commit.
    let many: Vec<String> = (2..3_000).map(|n| n.to_string()).collect();
    let append = |op: &Op| matches!(op, Op::Append { .. });
    let before = store.count_groups(append);
    let seqs = writer.append_all("m", many.iter().map(String::as_bytes), None, true).expect("numbered");
    assert_eq!(seqs, 2..3_000);
    wait(writer.flush(PROCESS)).expect("committed");
    assert_eq!(store.count_groups(append), before + 1);
    assert_eq!(code(writer.append_all("m", [b"x".as_slice()], None, false)), ErrorCode::Closed);
    let reads = drain(&mut stream.tail(After::Earliest).expect("a tail"));
    assert_eq!(support::seqs(&reads), (0..3_000).collect::<Vec<_>>());

    // One that does not fit refuses all.
    let writer = hub.new_writer("scope", "other").expect("a writer");
    let long = "k".repeat(65_536);
    assert_eq!(code(writer.append_all(&long, [b"0".as_slice()], None, true)), ErrorCode::TooLarge);
    assert_eq!(writer.append_all("m", [b"0".as_slice()], None, true).expect("numbered"), 0..1);
}

#[test]
fn what_closes_a_stream_is_not_refused_for_want_of_room() {
    let store = FaultStore::new();
    let mut options = Options::default();
    options.buffer_bytes = 1_024;
    let hub = over(&store, options);
    let writer = hub.new_writer("scope", "name").expect("a writer");
    store.block(true);
    while writer.append("m", &[b'1'; 100], None).is_ok() {}
    assert_eq!(code(writer.append_all("m", [b"1".as_slice()], None, false)), ErrorCode::Congested);
    let last = writer.append_all("m", [b"end".as_slice()], None, true).expect("numbered");
    store.block(false);
    wait(writer.flush(PROCESS)).expect("committed");
    let info = hub.stream("scope", "name").expect("a stream").info().expect("reads").expect("there");
    assert_eq!((info.next_seq, info.closed_at.is_some()), (last.end, true));
}

#[test]
fn identities_come_back() {
    let hub = memory();
    let task = Bytes::from(identity_json([("task", "t"), ("turn", "1")]).expect("one").expect("members"));
    let writer = hub.new_writer("scope", "name").expect("a writer");
    writer.append("m", b"0", Some(&task)).expect("numbered");
    writer.append_all("m", [b"1".as_slice(), b"2"], Some(&task), false).expect("numbered");
    writer.append("m", b"3", None).expect("numbered");
    wait(writer.flush(PROCESS)).expect("committed");
    let stream = hub.stream("scope", "name").expect("a stream");
    let read = stream.read(After::Earliest, ReadLimits::default()).expect("a read");
    let told: Vec<_> = read.events.iter().map(|event| event.identity.clone()).collect();
    assert_eq!(told, [Some(task.clone()), Some(task.clone()), Some(task), None]);
}

#[test]
fn a_flush_of_the_hub_is_one_of_every_writer() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let writers: Vec<_> = (0..5).map(|n| hub.new_writer("scope", n.to_string()).expect("a writer")).collect();
    for writer in &writers {
        writer.append("m", b"0", None).expect("numbered");
    }
    let before = store.disk();
    wait(hub.flush(Durability::Disk)).expect("committed");
    assert_eq!(store.disk(), before + 1);
    assert_eq!(hub.stats().events, 5);
    wait(hub.flush(PROCESS)).expect("nothing to do");
    store.fail(Some(StoreErrorKind::Full));
    writers[0].append("m", b"1", None).expect("numbered");
    assert_eq!(code(wait(hub.flush(PROCESS))), ErrorCode::Unavailable);
    store.fail(None);
    while wait(hub.flush(PROCESS)).is_err() {}
    assert_eq!(hub.stats().events, 6);

    let unused = Hub::open("sqlite:/nowhere/at/all.db").expect("a hub");
    wait(unused.flush(Durability::Disk)).expect("nothing was appended");
    hub.close(support::HANG);
    assert_eq!(code(wait(hub.flush(PROCESS))), ErrorCode::Closed);
}

#[test]
fn a_stream_is_exported_as_lines() {
    let store = FaultStore::new();
    let hub = over(&store, keep_all());
    let stream = hub.stream("scope", "name").expect("a stream");
    assert_eq!(lines(&stream, After::Earliest), "", "no stream has no lines");
    assert_eq!(code(stream.export(After::Seq(0))), ErrorCode::UnknownCursor);
    let mut given = events(&["1.0", "{\n}", "no json"]);
    given[1].identity = Some(Bytes::from_static(b"{\"task\":\"t\"}"));
    wait(stream.append(given, PROCESS)).expect("appended");
    let all = concat!(
        "{\"seq\":0,\"type\":\"message\",\"time\":7,\"payload\":1.0}\n",
        "{\"seq\":1,\"type\":\"message\",\"time\":7,\"identity\":{\"task\":\"t\"},\"payload\":{ }}\n",
        "{\"seq\":2,\"type\":\"message\",\"time\":7,\"payloadBytes\":\"bm8ganNvbg==\"}\n",
    );
    assert_eq!(lines(&stream, After::Earliest), all);
    assert_eq!(lines(&stream, After::Seq(1)), all.split_inclusive('\n').next_back().expect("a line"));
    assert_eq!(lines(&stream, After::Seq(2)), "");
    assert_eq!(code(stream.export(After::Seq(3))), ErrorCode::Ahead);

    // What is appended while it goes on is not exported: it ends.
    let mut export = stream.export(After::Earliest).expect("a stream");
    wait(stream.append(events(&["later"]), PROCESS)).expect("appended");
    assert_eq!(export.by_ref().map(|page| page.expect("a page").len()).sum::<usize>(), 3);
    assert!(export.next().is_none());
}

/// Pages follow on each other, and a gap stands before what follows it.
#[test]
fn a_long_export_with_a_hole() {
    let store = FaultStore::new();
    let mut options = Options::default();
    options.retention.max_events = Some(5_000);
    let hub = over(&store, options);
    let writer = hub.new_writer("scope", "name").expect("a writer");
    for n in 0..6_000 {
        writer.append("m", n.to_string().as_bytes(), None).expect("numbered");
    }
    writer.close().expect("closed");
    wait(writer.flush(PROCESS)).expect("committed");
    let stream = hub.stream("scope", "name").expect("a stream");
    while stream.info().expect("reads").expect("there").earliest != 1_000 {
        std::thread::yield_now(); // retention comes round in its own time
    }
    let told = lines(&stream, After::Seq(10));
    let mut told = told.lines();
    assert_eq!(told.next(), Some("{\"gap\":\"evicted\",\"earliestSeq\":1000,\"headSeq\":5999}"));
    for n in 1_000..6_000 {
        let line = told.next().expect("a line");
        assert!(
            line.starts_with(&format!("{{\"seq\":{n},")) && line.ends_with(&format!("\"payload\":{n}}}")),
            "{line}"
        );
    }
    assert_eq!(told.next(), None);
}
