//! Several processes on one store, some of them killed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout};
use std::time::Duration;

use common::*;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Pid, Signal, kill_process};
use tidings_store::{Commit, DeliveryState, Durability, Op, Store, StoreErrorKind, WorkerId};
use tidings_store_sqlite::{SqliteOptions, SqliteStore};

/// The other process.
#[test]
fn child() {
    let Some((part, db)) = part() else { return };
    match part.as_str() {
        "worker" => worker(&db),
        "writer" => writer(&db),
        "opener" => opener(&db),
        "sizes" => sizes(&db),
        "appender" => appender(&db),
        "queuer" => queuer(&db),
        "impatient" => impatient(&db),
        other => panic!("no part {other}"),
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "said {text}").unwrap();
    out.flush().unwrap();
}

/// Waits until the parent writes a line, or is gone.
fn wait() {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

/// What a child says, without what the test harness around it prints.
fn said(out: &mut BufReader<ChildStdout>) -> Option<String> {
    let mut line = String::new();
    loop {
        line.clear();
        if out.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some((_, text)) = line.trim_end().split_once("said ") {
            return Some(text.to_owned());
        }
    }
}

fn start(part: &str, db: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = another(part, db).spawn().expect("starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    (child, out)
}

/// Runs a call, holds a delivery and owns a stream until it is killed.
fn worker(db: &Path) {
    let store = open(db);
    done(&store, [heartbeat(W1, FAR), begin(1, W1), enqueue(1), create("owned", 9, W1)]);
    assert_eq!(leased(&store, W1, NOW, FAR).len(), 1);
    say("ready");
    wait();
}

fn lost(store: &dyn Store) -> usize {
    store.lost_calls(NOW + 1, 10).expect("reads").len()
}

fn owner_gone(store: &dyn Store) -> bool {
    store.stream(&key("owned")).expect("reads").expect("there").owner_gone
}

#[test]
fn a_killed_worker_is_seen_at_once() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    let (child, mut out) = start("worker", &db);
    assert_eq!(said(&mut out).as_deref(), Some("ready"));
    let lock = beside(&db, &format!("-w-{W1}"));
    // It lives, also while it is stopped and however often it is asked.
    for _ in 0..3 {
        assert_eq!((lost(&store), owner_gone(&store)), (0, false));
        assert_eq!(leased(&store, W2, NOW + 1, FAR), []);
    }
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    assert_eq!((lost(&store), owner_gone(&store)), (0, false));
    assert_eq!(store.lost_calls(FAR + 1, 10).unwrap().len(), 1, "but its lease runs out");
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(lost(&store), 0);

    kill(child);
    assert_eq!((lost(&store), owner_gone(&store)), (1, true));
    let taken = leased(&store, W2, NOW + 1, FAR);
    assert_eq!(taken.iter().map(|delivery| delivery.attempts).collect::<Vec<_>>(), [1], "its attempt counts as begun");
    assert!(lock.exists());
    let trim = |now, keep_finished_ms| Op::Trim {
        now,
        wall: NOW,
        retention: tidings_proto::stream::Retention::UNLIMITED,
        keep_finished_ms,
    };
    done(&store, [trim(NOW + 2, 0)]);
    assert!(lock.exists(), "it is remembered until its lease is over");
    done(&store, [trim(FAR + 1, 0)]);
    assert!(!lock.exists(), "whoever forgets it removes its file");
    assert_eq!((lost(&store), owner_gone(&store)), (1, true), "a forgotten worker does not come back to life");
}

/// Nobody but its process can say that a worker without a lock file is dead.
#[test]
fn a_worker_without_its_lock_file_lives_until_its_lease_ends() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    let (child, mut out) = start("worker", &db);
    assert_eq!(said(&mut out).as_deref(), Some("ready"));
    std::fs::remove_file(beside(&db, &format!("-w-{W1}"))).unwrap();
    assert_eq!((lost(&store), owner_gone(&store)), (0, false));
    kill(child);
    assert_eq!(lost(&store), 0);
    assert_eq!(store.lost_calls(FAR + 1, 10).unwrap().len(), 1);
}

/// A file with a lock, made before its worker's row is committed, is nobody's to remove.
#[test]
fn opening_removes_what_the_dead_left_and_nothing_of_the_living() {
    let dir = dir();
    let db = db(&dir);
    drop(open(&db));
    let stray = WorkerId([77; 16]);
    std::fs::write(beside(&db, &format!("-w-{stray}")), "").unwrap();
    std::fs::write(beside(&db, "-key.0011223344556677"), "").unwrap();
    let (child, mut out) = start("worker", &db);
    assert_eq!(said(&mut out).as_deref(), Some("ready"));
    let expected = [
        "store.db",
        "store.db-gate",
        "store.db-key",
        "store.db-next",
        "store.db-shm",
        &format!("store.db-w-{W1}"),
        "store.db-wal",
    ];
    assert_eq!(names(&dir), expected);
    drop(open(&db));
    assert_eq!(names(&dir), expected);
    kill(child);
    // Its process died, so that its file says nothing more than no file; and what it had is as lost as before.
    let store = open(&db);
    assert_eq!(names(&dir), expected.iter().copied().filter(|name| !name.contains("-w-")).collect::<Vec<_>>());
    assert_eq!((lost(&store), owner_gone(&store)), (1, true));
    assert_eq!(leased(&store, W2, NOW + 1, FAR).len(), 1);
}

/// Commits groups of three commits: an event each for two streams, a delivery and an event of a third, and says which
/// groups were acknowledged.
fn writer(db: &Path) {
    let store = open(db);
    done(&store, [heartbeat(W1, FAR)]);
    for n in 0_u32.. {
        let text = n.to_string();
        let group = [
            Commit::new(Durability::Process, vec![shared("a", 1, &[&text])]),
            Commit::new(Durability::Process, vec![shared("b", 2, &[&text])]),
            Commit::new(Durability::Disk, vec![enqueue(n), shared("c", 3, &[&text])]),
        ];
        for answer in store.commit(&group) {
            answer.expect("done");
        }
        say(&text);
    }
}

/// Faults 1 and 2's process half (`delivery-systems.md` 8): groups are whole, what was acknowledged is there.
#[test]
fn groups_survive_a_kill_whole() {
    for round in 0..12 {
        let dir = dir();
        let db = db(&dir);
        drop(open(&db));
        let (child, mut out) = start("writer", &db);
        let mut acknowledged = None;
        for _ in 0..=round * 3 {
            acknowledged = said(&mut out);
        }
        kill(child);
        while let Some(more) = said(&mut out) {
            acknowledged = Some(more);
        }
        let acknowledged: usize = acknowledged.expect("at least one").parse().unwrap();

        let store = open(&db);
        let a = payloads(&store, stream_id(1));
        assert!(a.len() > acknowledged, "{} events, {acknowledged} acknowledged", a.len());
        assert_eq!(a, (0..a.len()).map(|n| n.to_string()).collect::<Vec<_>>(), "each once, in order");
        for other in [2, 3] {
            assert_eq!(payloads(&store, stream_id(other)), a, "of one group all or nothing");
        }
        let deliveries = store.deliveries(None, None, Some(DeliveryState::Pending), 1_000_000).unwrap();
        assert_eq!(deliveries.len(), a.len(), "a delivery exists if and only if its event does");
        done(&store, [shared("a", 1, &["after"])]);
        drop(store);
        let check: String =
            rusqlite::Connection::open(&db).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
}

/// Opens, seals something, and says it is done.
fn opener(db: &Path) {
    let store = open(db);
    let mut id = [0; 16];
    id[..4].copy_from_slice(&std::process::id().to_le_bytes());
    let mut call = record(1, W1, "sealed");
    call.id = tidings_store::CallId::from_bytes(id);
    done(&store, [Op::BeginCall(Box::new(call))]);
    say("done");
    wait();
}

#[test]
fn processes_that_make_the_store_at_once_share_one_key() {
    for _ in 0..3 {
        let dir = dir();
        let db = db(&dir);
        let mut openers: Vec<_> = (0..4).map(|_| start("opener", &db)).collect();
        for (_, out) in &mut openers {
            assert_eq!(said(out).as_deref(), Some("done"));
        }
        let store = open(&db);
        for (child, _) in openers {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&child.id().to_le_bytes());
            let call = store.call(tidings_store::CallId::from_bytes(id)).expect("opens what it sealed").expect("there");
            assert_eq!(call.config.0, "sealed");
            kill(child);
        }
        assert_eq!(
            names(&dir),
            ["store.db", "store.db-gate", "store.db-key", "store.db-next", "store.db-shm", "store.db-wal"]
        );
    }
}

/// A store that is killed at any moment of its making opens afterwards, and keeps its key.
#[test]
fn a_store_killed_while_it_is_made_can_be_opened() {
    for round in 0..25 {
        let dir = dir();
        let db = db(&dir);
        let (mut child, _out) = start("opener", &db);
        // The next thing that appears in the directory, then some more or less.
        while names(&dir).len() <= round % 4 && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        for _ in 0..round * 500 {
            std::hint::spin_loop();
        }
        kill(child);
        let store = open(&db);
        done(&store, [shared("a", 1, &["0"]), begin(200, W1)]);
        assert_eq!(store.call(call_id(200)).unwrap().unwrap().config.0, "{}");
    }
}

/// Appends to one shared stream, and says when it is done.
fn appender(db: &Path) {
    let store = open(db);
    say("ready");
    wait();
    let me = std::process::id();
    for n in 0..200 {
        done(&store, [shared("all", 1, &[&format!("{me} {n}")])]);
    }
    say("done");
    wait();
}

/// Field case B25: numbers are given in the commit, so visible numbers have no holes and their order is the order of commits.
#[test]
fn readers_of_a_stream_with_many_writers_miss_nothing() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    done(&store, [shared("all", 1, &[])]);
    let mut writers: Vec<_> = (0..3).map(|_| start("appender", &db)).collect();
    for (_, out) in &mut writers {
        assert_eq!(said(out).as_deref(), Some("ready"));
    }
    for (child, _) in &mut writers {
        writeln!(child.stdin.as_mut().expect("piped"), "go").unwrap();
    }
    // A reader that follows from where it stands sees every number once.
    let mut seen: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut next = 0;
    while next < 600 {
        let page = store.read(stream_id(1), next, tidings_store::ReadLimits::default()).unwrap().unwrap();
        for event in page.chunks.iter().flat_map(tidings_store::Chunk::events) {
            assert_eq!(event.seq, next);
            next += 1;
            let text = String::from_utf8(event.payload.to_vec()).unwrap();
            let (writer, n) = text.split_once(' ').unwrap();
            seen.entry(writer.to_owned()).or_default().push(n.parse().unwrap());
        }
    }
    assert_eq!(seen.len(), 3);
    for numbers in seen.values() {
        assert_eq!(*numbers, (0..200).collect::<Vec<_>>(), "each writer's events in its order");
    }
    for (child, mut out) in writers {
        assert_eq!(said(&mut out).as_deref(), Some("done"));
        kill(child);
    }
}

/// Writes until its files may grow no further, and goes on when they may.
fn sizes(db: &Path) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let store = open(db);
    done(&store, [heartbeat(W1, FAR), shared("a", 1, &["before"])]);
    let before = getrlimit(Resource::Fsize);
    let length = std::fs::metadata(beside(db, "-wal")).unwrap().len();
    let mut limited = before;
    limited.current = Some(length + 40_000);
    setrlimit(Resource::Fsize, limited).unwrap();

    let large = "x".repeat(10_000);
    let commit = |n: u32| Commit::new(Durability::Process, vec![shared("a", 1, &[&large]), enqueue(n)]);
    let mut held = 0_u32;
    let kind = loop {
        let answers = store.commit(&[commit(2 * held), commit(2 * held + 1)]);
        match &answers[..] {
            [Ok(_), Ok(_)] => held += 1,
            [Err(tidings_store::CommitError::Store(one)), Err(tidings_store::CommitError::Store(two))] => {
                assert_eq!(one.kind(), two.kind());
                break one.kind();
            }
            other => panic!("a group fails as a whole, not {other:?}"),
        }
    };
    say(&format!("{kind:?}"));
    // More than the files may ever hold, so that no checkpoint makes room for it.
    let larger = "x".repeat(200_000);
    for _ in 0..3 {
        assert_eq!(fails(&store, [shared("a", 1, &[&larger])]), kind);
    }
    let there = |store: &dyn Store| payloads(store, stream_id(1)).len() as u32;
    assert_eq!(there(&store), 1 + 2 * held, "readers go on");

    setrlimit(Resource::Fsize, before).unwrap();
    for answer in store.commit(&[commit(2 * held), commit(2 * held + 1)]) {
        answer.expect("it works again");
    }
    assert_eq!(there(&store), 3 + 2 * held);
    assert_eq!(store.deliveries(None, None, None, 1_000).unwrap().len() as u32, 2 * held + 2);
    store.close().unwrap();
    say("recovered");
}

/// Fault 4: a limit on the size of files stands for a full disk and a quota, which need a mount.
#[test]
fn a_full_medium_fails_cleanly_and_mends() {
    let dir = dir();
    let db = db(&dir);
    // The signal that comes with the limit must be ignored; a shell can say so for the program it becomes.
    let inner = another("sizes", &db);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        shell.env(name, value.expect("set"));
    }
    let ran = shell.output().expect("runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("said Full"), "{said}");
    assert!(said.contains("said recovered"), "{said}");
    let store = open(&db);
    assert!(store.stream_by_id(stream_id(1)).unwrap().is_some());
    assert!(!names(&dir).iter().any(|name| name.contains("probe")));
}

/// Appends once, and says so.
fn queuer(db: &Path) {
    let store = open(db);
    say("open");
    wait();
    done(&store, [shared("q", 1, &["queuer"])]);
    say("done");
    wait();
}

/// Who waits for its turn holds the head of the queue, which others therefore do not get past it; and whoever dies or is
/// stopped in the queue or in its turn holds up nobody for longer than the timeout.
#[test]
fn writers_queue_for_their_turn() {
    let dir = dir();
    let db = db(&dir);
    drop(open(&db));
    let file = |suffix| File::options().read(true).write(true).open(beside(&db, suffix)).unwrap();
    let (gate, next) = (file("-gate"), file("-next"));
    let lock = |file| fcntl_lock(file, FlockOperation::NonBlockingLockExclusive);

    let (mut child, mut out) = start("queuer", &db);
    assert_eq!(said(&mut out).as_deref(), Some("open"));
    lock(&gate).unwrap(); // it is our turn
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    while lock(&next).is_ok() {
        fcntl_lock(&next, FlockOperation::Unlock).unwrap();
        std::thread::yield_now();
    }
    fcntl_lock(&gate, FlockOperation::Unlock).unwrap();
    assert_eq!(said(&mut out).as_deref(), Some("done"));
    lock(&next).expect("it has left the queue");
    lock(&gate).expect("and its turn");

    // One that does not let go. This process's own locks do not hold it up, so another one has to wait.
    let (mut second, mut out) = start("impatient", &db);
    assert_eq!(said(&mut out).as_deref(), Some("busy"));
    fcntl_lock(&gate, FlockOperation::Unlock).unwrap();
    fcntl_lock(&next, FlockOperation::Unlock).unwrap();
    second.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(said(&mut out).as_deref(), Some("done"));
    for child in [child, second] {
        kill(child);
    }
    assert_eq!(payloads(&open(&db), stream_id(1)), ["queuer", "impatient"]);
}

/// Waits for nobody: is told that the store is busy, and comes again when it is told to.
fn impatient(db: &Path) {
    let mut options = SqliteOptions::new(db);
    options.busy_timeout = Duration::ZERO;
    let store = SqliteStore::open(options).unwrap();
    assert_eq!(fails(&store, [shared("q", 1, &["early"])]), StoreErrorKind::Busy);
    say("busy");
    wait();
    done(&store, [shared("q", 1, &["impatient"])]);
    say("done");
    wait();
}
