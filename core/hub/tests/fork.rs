//! What a forked child sees. Alone in its process, because the generation is the process's: the tests say that they are
//! the child of a fork, one after the other, and look at what the parent left them.

mod support;

use support::{ENDS, FaultStore, HANG, begin, config, local, memory, over, wait};
use tidings::{After, Durability, ErrorCode, Hub, ReadLimits, Result, Stats, after_fork};

fn code<T>(result: Result<T>) -> ErrorCode {
    result.map(drop).expect_err("an error").code()
}

/// Field case B70: every object of the parent answers at once, and a hub at module level works anew.
#[test]
fn a_child() {
    let hub = memory();
    let stream = hub.stream("s", "n").expect("a stream");
    let writer = hub.new_writer("s", "n").expect("a writer");
    writer.append("message", b"{}", None).expect("numbered");
    wait(writer.flush(Durability::Process)).expect("committed");
    let cursor = writer.cursor();
    let mut tail = hub.resume("s", &cursor).expect("a tail");
    let mut idle = hub.resume("s", &cursor).expect("a tail");
    let waker = std::task::Waker::noop();
    assert!(idle.poll_next(&mut std::task::Context::from_waker(waker), ReadLimits::default()).is_pending());
    let call = begin(&hub, &config("https://a.example/", &ENDS)).expect("accepted");
    let given = over(&FaultStore::new(), local());
    let closed_by_child = memory();
    closed_by_child.ensure_open().expect("open");

    after_fork();
    let codes = [
        code(writer.append("message", b"{}", None)),
        code(writer.append_and_close("message", b"{}")),
        code(writer.close()),
        code(wait(writer.flush(Durability::Disk))),
        code(stream.info()),
        code(stream.read(After::Earliest, ReadLimits::default())),
        code(stream.tail(After::Earliest)),
        code(wait(stream.claim())),
        code(wait(stream.close(Vec::new(), Durability::Process))),
        code(tail.read(ReadLimits::default())),
        code(wait(tail.next()).expect("an answer")),
        code(wait(idle.next()).expect("an answer")),
        code(call.emit("step", b"{}")),
        code(call.disconnected()),
        code(wait(call.complete(b"{}"))),
        code(wait(call.cancel(None))),
        code(wait(call.ended())),
        code(given.ensure_open()),
    ];
    assert_eq!(codes, [ErrorCode::Forked; 18]);
    assert_eq!(hub.stats(), Stats::default());
    assert!(closed_by_child.close(HANG), "a child closes nothing of its parent's");
    drop((tail, idle, call, writer, stream, given, closed_by_child));

    // The same hub, opened by this process: in memory that is a new state.
    assert_eq!(code(hub.resume("s", &cursor)), ErrorCode::UnknownCursor);
    let anew = hub.new_writer("s", "n").expect("a writer");
    anew.append_and_close("message", b"{}").expect("numbered");
    wait(anew.flush(Durability::Process)).expect("committed");
    let call = begin(&hub, &config("https://a.example/", &["retired"])).expect("accepted");
    assert!(wait(call.complete(b"{}")).expect("ended").committed);
    assert!(hub.close(HANG));

    // Of several generations.
    let hub = Hub::open("memory:").expect("a hub");
    for _ in 0..3 {
        let writer = hub.new_writer("s", "n").expect("a writer");
        assert_eq!(writer.append("message", b"{}", None).expect("numbered"), 0);
        after_fork();
        assert_eq!(code(writer.append("message", b"{}", None)), ErrorCode::Forked);
    }
}
