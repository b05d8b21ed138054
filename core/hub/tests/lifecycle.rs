//! Opening, closing and dropping a hub: nothing hangs, nothing is lost that could be kept.

use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::support::{
    ENDS, FaultStore, Gate, HANG, Receiver, Reply, begin, config, drain, keep_all, local, memory, over, seqs, wait,
};
use tidings::store::Store;
use tidings::{After, Durability, ErrorCode, Hub, Options, ReadLimits, Stats, Tail};

#[test]
fn a_hub_that_was_never_used() {
    let hub = memory();
    assert_eq!(hub.stats(), Stats::default());
    assert!(hub.close(Duration::ZERO));
    assert!(hub.close(Duration::ZERO), "closing twice is nothing");
    assert_eq!(hub.ensure_open().expect_err("closed").code(), ErrorCode::Closed);
    drop(memory());
}

#[test]
fn everything_answers_closed() {
    let hub = memory();
    let (other, stream) = (hub.clone(), hub.stream("s", "n").expect("a stream"));
    let writer = hub.new_writer("s", "w").expect("a writer");
    writer.append("message", b"{}", None).expect("numbered");
    wait(writer.flush(Durability::Process)).expect("committed");
    let mut tail = hub.resume("s", &writer.cursor_after(0)).expect("a tail");
    assert!(hub.close(HANG));
    let codes = [
        writer.append("message", b"{}", None).map(drop),
        writer.close(),
        wait(writer.flush(Durability::Process)),
        stream.info().map(drop),
        stream.read(After::Earliest, ReadLimits::default()).map(drop),
        stream.tail(After::Earliest).map(drop),
        wait(stream.claim()).map(drop),
        tail.read(ReadLimits::default()).map(drop),
        wait(tail.next()).expect("an answer").map(drop),
        other.stream("s", "n").map(drop),
        other.new_writer("s", "x").map(drop),
        other.resume("s", &writer.cursor()).map(drop),
        other.deliveries(None, None, None, 1).map(drop),
        begin(&other, &config("https://a.example/", &ENDS)).map(drop),
    ]
    .map(|result| result.expect_err("closed").code());
    assert_eq!(codes, [ErrorCode::Closed; 14]);
}

/// Whoever waits when the hub closes is told, at once.
#[test]
fn closing_wakes_whoever_waits() {
    let hub = memory();
    let writer = hub.new_writer("s", "n").expect("a writer");
    let mut tail = hub.resume("s", &writer.cursor()).expect("a tail");
    let call = begin(&hub, &config("https://a.example/", &ENDS)).expect("accepted");
    std::thread::scope(|scope| {
        let tailing = scope.spawn(move || wait(tail.next()).expect("an answer").expect_err("closed").code());
        let ending = scope.spawn(move || wait(call.ended()).expect("ended").reason);
        assert!(hub.close(HANG));
        assert_eq!(tailing.join().expect("a thread"), ErrorCode::Closed);
        assert_eq!(ending.join().expect("a thread").as_deref(), Some("shutdown"));
    });
}

/// An attempt that hangs holds up the closing; it does not hold up those who wait for events.
#[test]
fn closing_wakes_tails_before_attempts_end() {
    let gate = Gate::default();
    let held = gate.clone();
    let receiver = Receiver::start(move |_, _| {
        held.pass();
        Reply::OK
    });
    let mut options = local();
    options.attempt_timeout = HANG * 10;
    let hub = over(&FaultStore::new(), options);
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    wait(call.complete(b"{}")).expect("ended");
    receiver.wait_for(1);
    let writer = hub.new_writer("s", "n").expect("a writer");
    let mut tail = hub.resume("s", &writer.cursor()).expect("a tail");
    let woken = Then::new(|| ());
    assert!(poll(&mut tail, &woken));
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| hub.close(HANG * 10));
        woken.wait();
        gate.open();
        assert!(closing.join().expect("a thread"));
    });
    assert_eq!(wait(tail.next()).expect("an answer").expect_err("closed").code(), ErrorCode::Closed);
}

/// What was appended is committed by closing and by dropping, without a flush.
#[test]
fn closing_and_dropping_flush() {
    for close in [true, false] {
        let store = FaultStore::new();
        let hub = over(&store, keep_all());
        let writers: Vec<_> = (0..50).map(|n| hub.new_writer("s", format!("{n}")).expect("a writer")).collect();
        for _ in 0..100 {
            for writer in &writers {
                writer.append("message", b"{}", None).expect("numbered");
            }
        }
        if close {
            assert!(hub.close(HANG));
        }
        drop(hub);
        for writer in &writers {
            let info = store.stream_by_id(writer.stream_id()).expect("an answer").expect("there");
            assert_eq!(info.next_seq, 100);
        }
    }
}

/// Threads append and begin calls while another closes: each answer is a number or `closed`, and every number that was
/// given before the closing began is committed.
#[test]
fn closing_while_others_work() {
    for _ in 0..20 {
        let store = FaultStore::new();
        let hub = over(&store, local());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|n| {
                    let hub = hub.clone();
                    scope.spawn(move || {
                        let appended =
                            hub.new_writer("s", format!("{n}")).and_then(|w| w.append("message", b"{}", None));
                        appended.map_or_else(|error| assert_eq!(error.code(), ErrorCode::Closed), drop);
                        loop {
                            match begin(&hub, &config("http://127.0.0.1:1/", &ENDS)) {
                                Ok(call) => match wait(call.complete(b"{}")) {
                                    Ok(ended) => assert!(ended.ours || ended.reason.as_deref() == Some("shutdown")),
                                    Err(error) => assert_eq!(error.code(), ErrorCode::Closed),
                                },
                                Err(error) => {
                                    assert_eq!(error.code(), ErrorCode::Closed);
                                    break;
                                }
                            }
                        }
                    })
                })
                .collect();
            store.wait_op(|op| matches!(op, tidings::store::Op::EndCall { .. }));
            assert!(hub.close(HANG));
            workers.into_iter().for_each(|worker| worker.join().expect("a worker"));
        });
    }
}

/// A waker that does something to the hub, on whatever thread it is woken on.
struct Then {
    what: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    done: (Mutex<bool>, Condvar),
}

impl Then {
    fn new(what: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(Self { what: Mutex::new(Some(Box::new(what))), done: Default::default() })
    }

    fn wait(&self) {
        let done = self.done.0.lock().expect("done");
        let (_done, timeout) = self.done.1.wait_timeout_while(done, HANG, |done| !*done).expect("done");
        assert!(!timeout.timed_out(), "the waker hangs");
    }
}

impl Wake for Then {
    fn wake(self: Arc<Self>) {
        if let Some(what) = self.what.lock().expect("what").take() {
            what();
        }
        *self.done.0.lock().expect("done") = true;
        self.done.1.notify_all();
    }
}

fn poll(tail: &mut Tail, waker: &Arc<Then>) -> bool {
    let waker = Waker::from(Arc::clone(waker));
    matches!(tail.poll_next(&mut Context::from_waker(&waker), ReadLimits::default()), Poll::Pending)
}

/// Field case B69: a callback, on a thread of the hub's own, closes it, drops it, or asks it for more.
#[test]
fn closing_from_within_a_waker() {
    for drops in [false, true] {
        let store = FaultStore::new();
        let hub = over(&store, keep_all());
        let writer = hub.new_writer("s", "n").expect("a writer");
        let mut tail = hub.resume("s", &writer.cursor()).expect("a tail");
        let closing = Then::new(move || {
            if !drops {
                assert!(!hub.close(HANG), "it cannot wait for itself");
            }
            drop(hub);
        });
        assert!(poll(&mut tail, &closing));
        writer.append("message", b"{}", None).expect("numbered");
        closing.wait();
        assert_eq!(writer.append("message", b"{}", None).expect_err("closed").code(), ErrorCode::Closed);
        store.wait_op(|op| matches!(op, tidings::store::Op::Leave { .. }));
    }
}

#[test]
fn using_the_hub_from_within_a_waker() {
    let hub = memory();
    let writer = hub.new_writer("s", "n").expect("a writer");
    let mut tail = hub.resume("s", &writer.cursor()).expect("a tail");
    let (again, stream) = (writer.clone(), hub.stream("s", "n").expect("a stream"));
    let using = Then::new(move || {
        again.append("message", b"1", None).expect("numbered");
        stream.read(After::Earliest, ReadLimits::default()).expect("a read");
        again.append_and_close("message", b"2").expect("numbered");
    });
    assert!(poll(&mut tail, &using));
    writer.append("message", b"0", None).expect("numbered");
    using.wait();
    assert_eq!(seqs(&drain(&mut tail)), [0, 1, 2]);
}

/// Over SQLite: what one hub did, the next one finds, and cursors go on.
#[test]
fn a_restart_over_sqlite() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", dir.path().join("t.db").display());
    let first = Hub::with(&url, keep_all()).expect("a hub");
    assert!(!dir.path().join("t.db").exists(), "nothing is touched before the first use");
    let writer = first.new_writer("s", "n").expect("a writer");
    for n in 0..10_u64 {
        writer.append("message", n.to_string().as_bytes(), None).expect("numbered");
    }
    let cursors: Vec<String> = (0..10).map(|seq| writer.cursor_after(seq)).collect();
    assert!(first.close(HANG));
    let second = Hub::with(&url, keep_all()).expect("a hub");
    let claimed = wait(second.stream("s", "n").expect("a stream").claim()).expect("a claim");
    assert_eq!(claimed.append_and_close("message", b"10").expect("numbered"), 10);
    for (seq, cursor) in cursors.iter().enumerate() {
        let reads = drain(&mut second.resume("s", cursor).expect("a tail"));
        assert!(reads.iter().all(|read| read.gap.is_none()));
        assert_eq!(seqs(&reads), (seq as u64 + 1..11).collect::<Vec<_>>());
    }
    assert!(second.close(HANG));
}

#[test]
fn opening_what_cannot_be_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub =
        Hub::open(&format!("sqlite:{}", dir.path().join("missing/t.db").display())).expect("nothing is touched yet");
    assert!(hub.ensure_open().is_err());
    assert!(hub.stream("s", "n").is_err());
    std::fs::create_dir(dir.path().join("missing")).expect("a directory");
    assert!(hub.ensure_open().is_ok(), "the next use tries again");
    assert!(hub.close(HANG));
}

#[test]
fn deadlines_without_end() {
    let hub = Hub::with("memory:", Options::default()).expect("a hub");
    hub.ensure_open().expect("open");
    assert!(hub.close(Duration::MAX));
}
