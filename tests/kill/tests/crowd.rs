//! Four processes write to one file and four others read from it live; one writer is killed (-9) and another claims its
//! stream. Every committed event comes once and in order, at every reader and in the file.

#![allow(clippy::panic, reason = "helpers of these tests are tests")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tidings::proto::stream::Retention;
use tidings::{After, Hub, Options, ReadLimits, Stream};

#[path = "../src/common.rs"]
mod common;

use common::{SCOPE, SHARED, STEP, Sum};

const WRITERS: u64 = 4;
const EVENTS: u64 = 50_000;

struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    fn start(database: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crowd"));
        let mut child =
            command.arg(database).args(args).stdout(Stdio::piped()).spawn().expect("a process of the crowd starts");
        let stdout = BufReader::new(child.stdout.take().expect("its stdout"));
        Self { child, stdout }
    }

    /// The next line, or `None` once it has ended.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line).expect("its stdout");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Its last line; it must have ended well.
    fn last(&mut self) -> String {
        let mut last = String::new();
        while let Some(line) = self.line() {
            last = line;
        }
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "{status} after {last:?}");
        last
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that failed leaves nobody behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All events of a stream, a page at a time.
fn read_all(stream: &Stream, mut each: impl FnMut(u64, &[u8])) {
    let mut after = After::Earliest;
    loop {
        let read = stream.read(after, ReadLimits::default()).expect("reads");
        assert!(read.gap.is_none(), "{:?}", read.gap);
        read.events.iter().for_each(|event| each(event.seq, &event.payload));
        after = After::Cursor(read.cursor);
        if read.events.is_empty() || read.ended {
            return;
        }
    }
}

/// Some number below `below`, another one in each run. It is printed with a failure.
fn some(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) % below
}

fn run(events: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("crowd.db");
    let names: Vec<String> = (0..WRITERS).map(|n| format!("stream {n}")).collect();
    let until = events.to_string();
    let write = |name: &str| Process::start(&database, &["write", name, &until]);
    let mut writers: Vec<Process> = names.iter().map(|name| write(name)).collect();
    let mut readers: Vec<Process> = names.iter().map(|name| Process::start(&database, &["read", name])).collect();

    // One is killed when it has been told of some of its commits, somewhere after that.
    let victim = usize::try_from(some(WRITERS)).expect("small");
    let (told, more) = (some(events / STEP - 1) + 1, some(1_000));
    let mut acked = 0;
    for _ in 0..told {
        let line = loop {
            let line = writers[victim].line().expect("it lives");
            if line.starts_with("acked") {
                break line;
            }
        };
        acked = line["acked ".len()..].parse().expect("a number");
    }
    for _ in 0..more {
        std::hint::spin_loop();
    }
    writers[victim].child.kill().expect("SIGKILL");
    while let Some(line) = writers[victim].line() {
        if let Some(number) = line.strip_prefix("acked ") {
            acked = number.parse().expect("a number"); // said before it died
        }
    }
    let mut heir = write(&names[victim]);
    let claimed = heir.line().expect("it claims");
    let claimed: u64 = claimed.strip_prefix("claimed ").expect("it says so").parse().expect("a number");
    assert!(claimed >= acked, "{acked} events were acknowledged, the heir goes on at {claimed}");
    assert_eq!(heir.last(), "closed", "killed after {told} acknowledgements");
    for (n, writer) in writers.iter_mut().enumerate().filter(|(n, _)| *n != victim) {
        assert_eq!(writer.last(), "closed", "writer {n}");
    }

    let mut all = Sum::default();
    (0..events).for_each(|n| all.add(n, n.to_string().as_bytes()));
    for reader in &mut readers {
        assert_eq!(reader.last(), format!("read {events} {} 0", all.sum));
    }
    let mut options = Options::default();
    options.retention = Retention::UNLIMITED;
    let hub = Hub::with(&format!("sqlite:{}", database.display()), options).expect("a hub");
    for name in &names {
        let mut found = Sum::default();
        read_all(&hub.stream(SCOPE, name).expect("a stream"), |seq, payload| found.add(seq, payload));
        assert_eq!((found.count, found.sum), (events, all.sum), "{name}");
    }
    // Each acknowledgement stands in the shared stream once, whoever repeated it.
    let mut shared = Vec::new();
    read_all(&hub.stream(SCOPE, SHARED).expect("a stream"), |seq, payload| {
        assert_eq!(seq, shared.len() as u64);
        shared.push(String::from_utf8(payload.to_vec()).expect("text"));
    });
    let once: BTreeSet<_> = shared.iter().collect();
    assert_eq!(once.len(), shared.len());
    let steps = |name: &String| (1..=events / STEP).map(move |n| format!("{name} {}", n * STEP)).collect::<Vec<_>>();
    let missing: Vec<_> = names.iter().flat_map(steps).filter(|key| !once.contains(key)).collect();
    // The victim may have died between a commit and its note; its heir begins after it.
    assert!(missing.len() <= 1, "{} of {} are missing", missing.len(), events / STEP * WRITERS);
    assert!(missing.iter().all(|key| key.starts_with(&names[victim])), "{missing:?}");
    assert!(hub.close(std::time::Duration::from_secs(30)));

    let check = rusqlite::Connection::open(&database).expect("the file");
    let said: String = check.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
    assert_eq!(said, "ok");
}

#[test]
fn four_writers_four_readers_and_a_kill() {
    run(EVENTS);
}
