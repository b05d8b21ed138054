//! What the tests of this crate share.
#![allow(dead_code, unreachable_pub, reason = "a module of tests, of which each file uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "it is all tests")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use tempfile::TempDir;
use tidings_proto::delivery::EndpointKey;
use tidings_proto::stream::StreamId;
use tidings_store::{
    AppendShared, CallId, CallRecord, Chunk, ChunkBuilder, Commit, CommitError, DeliveryId, Done, Durability, Flow,
    Lease, NewDelivery, NewEvent, Op, ReadLimits, Sealed, Store, StoreErrorKind, StreamKey, Subject, WorkerId,
};
use tidings_store_sqlite::{SqliteOptions, SqliteStore};

pub const NOW: i64 = 1_790_000_000_000;
pub const FAR: i64 = NOW + 1_000_000_000;
pub const W1: WorkerId = WorkerId([1; 16]);
pub const W2: WorkerId = WorkerId([2; 16]);

pub fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

pub fn db(dir: &TempDir) -> PathBuf {
    dir.path().canonicalize().expect("there").join("store.db")
}

pub fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(path)).expect("opens")
}

pub fn refused_to_open(path: &Path) -> StoreErrorKind {
    SqliteStore::open(SqliteOptions::new(path)).expect_err("does not open").kind()
}

/// The file whose name is the store's with this after it.
pub fn beside(db: &Path, suffix: &str) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub fn names(dir: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path()).expect("a directory");
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn stream_id(n: u8) -> StreamId {
    StreamId([n; 16])
}

pub fn call_id(n: u8) -> CallId {
    CallId::from_bytes([n; 16])
}

pub fn delivery_id(n: u32) -> DeliveryId {
    let mut id = [7; 16];
    id[..4].copy_from_slice(&n.to_le_bytes());
    DeliveryId(id)
}

pub fn key(name: &str) -> StreamKey {
    StreamKey::new("session", name)
}

pub fn event(payload: &str) -> NewEvent {
    NewEvent {
        kind: "message".to_owned(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        time: NOW,
        identity: None,
    }
}

pub fn shared(name: &str, id: u8, payloads: &[&str]) -> Op {
    Op::AppendShared(AppendShared {
        key: key(name),
        new_id: stream_id(id),
        events: payloads.iter().map(|payload| event(payload)).collect(),
        close: false,
        now: NOW,
    })
}

pub fn chunk(first_seq: u64, payloads: &[&str]) -> Chunk {
    let mut builder = ChunkBuilder::default();
    for payload in payloads {
        assert!(builder.push("message", payload.as_bytes(), NOW, None));
    }
    builder.take(first_seq)
}

pub fn append(id: u8, claim: u32, chunk: Chunk) -> Op {
    Op::Append { stream: stream_id(id), claim, chunks: vec![chunk], close: false, now: NOW }
}

pub fn create(name: &str, id: u8, worker: WorkerId) -> Op {
    Op::Create { id: stream_id(id), key: key(name), worker }
}

pub fn record(id: u8, worker: WorkerId, config: &str) -> CallRecord {
    CallRecord {
        id: call_id(id),
        principal: "p".to_owned(),
        session: None,
        request_id: "1".to_owned(),
        tool: "t".to_owned(),
        config: Sealed(Bytes::copy_from_slice(config.as_bytes())),
        stream: key("call"),
        worker,
        began_at: NOW,
        began_time: NOW,
        outcome: None,
        ended_at: None,
        task: None,
    }
}

pub fn begin(id: u8, worker: WorkerId) -> Op {
    Op::BeginCall(Box::new(record(id, worker, "{}")))
}

pub fn delivery(n: u32, route: &str) -> NewDelivery {
    NewDelivery {
        id: delivery_id(n),
        event_id: format!("msg_{n}"),
        subject: Subject::Call(call_id(1)),
        principal: "p".to_owned(),
        trigger: "tool_call.completed".to_owned(),
        route_id: "r".to_owned(),
        route: Sealed(Bytes::copy_from_slice(route.as_bytes())),
        fallback: Sealed::default(),
        body: Bytes::from_static(b"{}"),
        whole: Sealed::default(),
        route_at: (0, 0),
        due: NOW,
        outlet: None,
        deadline: FAR,
        created_at: NOW,
        endpoint: EndpointKey([1; 32]),
        fifo_key: None,
        wait_until: i64::MAX,
        seq: None,
        batch: None,
    }
}

pub fn enqueue(n: u32) -> Op {
    Op::Enqueue(Box::new(delivery(n, "{}")))
}

pub fn lease_op(worker: WorkerId, now: i64, until: i64) -> Op {
    Op::Lease(Lease { worker, now, until, limit: 1_000, flow: Flow::unlimited() })
}

pub fn heartbeat(worker: WorkerId, until: i64) -> Op {
    Op::Heartbeat { worker, until }
}

/// Commits one commit that must be done.
#[track_caller]
pub fn done(store: &dyn Store, ops: impl Into<Vec<Op>>) -> Vec<Done> {
    store.commit(&[Commit::new(Durability::Process, ops.into())]).remove(0).expect("done")
}

/// Commits one commit that must fail; answers with what kind.
#[track_caller]
pub fn fails(store: &dyn Store, ops: impl Into<Vec<Op>>) -> StoreErrorKind {
    match store.commit(&[Commit::new(Durability::Process, ops.into())]).remove(0) {
        Err(CommitError::Store(error)) => error.kind(),
        other => panic!("the store fails, not {other:?}"),
    }
}

#[track_caller]
pub fn leased(store: &dyn Store, worker: WorkerId, now: i64, until: i64) -> Vec<tidings_store::Delivery> {
    match done(store, [lease_op(worker, now, until)]).remove(0) {
        Done::Leased(deliveries) => deliveries,
        other => panic!("a lease answers `Leased`, not {other:?}"),
    }
}

/// All retained payloads of a stream, read in pages.
#[track_caller]
pub fn payloads(store: &dyn Store, id: StreamId) -> Vec<String> {
    let mut found = Vec::new();
    let mut from = 0;
    loop {
        let page = store.read(id, from, ReadLimits::default()).expect("reads").expect("there");
        for event in page.chunks.iter().flat_map(Chunk::events) {
            if event.seq >= page.info.earliest {
                found.push(String::from_utf8(event.payload.to_vec()).unwrap());
            }
        }
        match page.chunks.last() {
            Some(last) if last.end() < page.info.next_seq => from = last.end(),
            _ => return found,
        }
    }
}

/// Which part a child process plays, and where.
const PART: &str = "TIDINGS_TEST_PART";
const PLACE: &str = "TIDINGS_TEST_PLACE";

/// In a child process: its part and the store's path. In the test itself: nothing.
pub fn part() -> Option<(String, PathBuf)> {
    Some((std::env::var(PART).ok()?, std::env::var_os(PLACE)?.into()))
}

/// This test executable again, playing `part` in the test function `child`. Its output can be read, its input written.
pub fn another(part: &str, db: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this executable"));
    command
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(PLACE, db)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Kills with SIGKILL and reaps.
pub fn kill(mut child: Child) {
    child.kill().expect("ours to kill");
    child.wait().expect("ends");
}
