use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tidings_proto::delivery::EndpointKey;
use tidings_proto::stream::StreamId;
use tidings_store::{
    AppendShared, CallId, CallRecord, Commit, DeliveryId, Durability, NewDelivery, NewEvent, Op, ReadLimits, Sealed,
    Store, StoreError, StoreErrorKind, StreamKey, Subject, WorkerId,
};
use tidings_store_sqlite::{SqliteOptions, SqliteStore};

const NOW: i64 = 1_790_000_000_000;
const KEY: [u8; 32] = [7; 32];
/// Stands in the store, sealed; no error may tell it.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// Events of each stream in the database file, and commits that only its log holds.
const KEPT: u64 = 5;
const LOGGED: u64 = 6;
const PAGE: usize = 4096;
/// More mutations than this say nothing new.
const MOST: usize = 16;

/// A store as it stands on a disk when its power goes: the database file with its log.
struct Base {
    database: Vec<u8>,
    log: Vec<u8>,
}

/// What happens to one place of one file, in five bytes: which file, where (as a fraction of it), what, with which value.
///
/// A store's bytes differ from process to process (random salts and nonces), so an input that fails may need a few runs to
/// fail again where those decide.
pub fn store(data: &[u8]) {
    static BASE: LazyLock<Base> = LazyLock::new(base);
    let (mut database, mut log) = (BASE.database.clone(), BASE.log.clone());
    // Whatever stands there, it is only an index of the log and is made anew.
    let mut index = None;
    let mut damaged = 0;
    for step in data.chunks_exact(5).take(MOST) {
        let [file, high, low, what, value] = *step else { continue };
        match file % 4 {
            0 | 1 => {
                damaged += 1;
                mutate(&mut database, [high, low], what, value);
            }
            2 => mutate(&mut log, [high, low], what, value),
            _ => index = Some(vec![value; PAGE * 8]),
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store.db");
    write(&path, &database, &log, index.as_deref());
    match open(&path) {
        Ok(store) => look(&store, damaged),
        Err(error) => {
            assert!(damaged > 0, "a damaged log is cut off, and the rest is there: {error}");
            told(&error);
        }
    }
}

fn mutate(bytes: &mut Vec<u8>, place: [u8; 2], what: u8, value: u8) {
    let at = usize::from(u16::from_be_bytes(place)) * bytes.len() / (1 << 16) + usize::from(what >> 4);
    let page = at / PAGE * PAGE;
    let Some(byte) = bytes.get_mut(at) else { return };
    match what % 8 {
        0 | 1 => *byte = value,
        2 | 3 => *byte ^= value.max(1),
        4 => bytes.truncate(at),
        // A page that never came to the disk.
        5 => bytes.iter_mut().skip(page).take(PAGE).for_each(|byte| *byte = 0),
        // One that came to another place.
        6 => {
            let from = usize::from(value) * PAGE % bytes.len().max(1);
            let torn: Vec<u8> = bytes.iter().skip(from).take(PAGE).copied().collect();
            bytes.iter_mut().skip(page).zip(torn).for_each(|(byte, torn)| *byte = torn);
        }
        // One that came in part.
        _ => bytes.iter_mut().take(page + PAGE).skip(at).for_each(|byte| *byte = value),
    }
}

/// Everything can be asked, and what is answered holds together. `damaged`: how many places of the database file were.
fn look(store: &SqliteStore, damaged: usize) {
    let only_the_log = damaged == 0;
    for stream in [1, 2] {
        let read = events(store, StreamId([stream; 16]));
        let Ok(read) = read.inspect_err(told) else {
            assert!(!only_the_log, "what the database file holds can be read");
            continue;
        };
        for (place, (seq, payload)) in read.iter().enumerate() {
            // The log has sums: what it gives is what was written, up to some commit.
            assert!(!only_the_log || *seq == place as u64, "event {seq} at place {place}");
            // And so has each chunk, which one fault alone cannot change together with what it holds.
            assert!(
                damaged > 1 || *payload == format!("{stream}:{seq}"),
                "event {seq} of stream {stream} is {payload:?}"
            );
        }
        let (least, most) = (KEPT as usize, (KEPT + LOGGED) as usize);
        assert!(!only_the_log || (least..=most).contains(&read.len()), "{} events", read.len());
    }
    let call = store.call(CallId::from_bytes([3; 16])).inspect_err(told);
    if let Ok(Some(call)) = call {
        assert!(!only_the_log || call.config.0 == SECRET, "another config");
    }
    let _ = store.deliveries(None, None, None, 100).inspect_err(told);
    let _ = store.stored_delivery(DeliveryId([4; 16])).inspect_err(told);
    let _ = store.endpoints(None, 100).inspect_err(told);
    let _ = store.lost_calls(NOW, 100).inspect_err(told);
    let _ = store.due_timers(NOW, 100).inspect_err(told);
    let _ = store.publishes(0, 100).inspect_err(told);
    let _ = store.next_due().inspect_err(told);
    let _ = store.changes().inspect_err(told);

    let before = store.stream_by_id(StreamId([1; 16])).ok().flatten().map(|info| info.next_seq);
    let appended = store.commit(&[Commit::new(Durability::Disk, vec![append(1, "more")])]).remove(0);
    assert!(!only_the_log || appended.is_ok(), "the store goes on: {appended:?}");
    if let (true, Some(before)) = (only_the_log, before) {
        let read = events(store, StreamId([1; 16])).expect("it can be read");
        assert_eq!(read.last(), Some(&(before, Bytes::from_static(b"more"))));
    }
    let _ = store.close().inspect_err(told);
}

/// All retained events, in pages.
fn events(store: &SqliteStore, id: StreamId) -> Result<Vec<(u64, Bytes)>, StoreError> {
    let mut found: Vec<(u64, Bytes)> = Vec::new();
    let mut from = 0;
    // Each page goes on after the one before, so no more pages than events can come.
    for _ in 0..64 {
        let Some(page) = store.read(id, from, ReadLimits::default())? else { return Ok(found) };
        let Some(last) = page.chunks.last() else { return Ok(found) };
        found.extend(page.chunks.iter().flat_map(|chunk| chunk.events()).map(|event| (event.seq, event.payload)));
        if last.end() <= from || last.end() >= page.info.next_seq {
            return Ok(found);
        }
        from = last.end();
    }
    Ok(found)
}

/// An error says what was tried, and nothing of what is stored.
fn told(error: &StoreError) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains("whsec_"), "{text}");
    let never = [StoreErrorKind::Closed, StoreErrorKind::Full, StoreErrorKind::ReadOnly];
    assert!(!never.contains(&error.kind()), "damage is not {:?}: {text}", error.kind());
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    let mut options = SqliteOptions::new(path);
    options.secret_key = Some(KEY);
    options.busy_timeout = Duration::from_millis(50);
    SqliteStore::open(options)
}

fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn write(path: &Path, database: &[u8], log: &[u8], index: Option<&[u8]>) {
    std::fs::write(path, database).expect("room on the disk");
    std::fs::write(beside(path, "-wal"), log).expect("room on the disk");
    if let Some(index) = index {
        std::fs::write(beside(path, "-shm"), index).expect("room on the disk");
    }
}

fn base() -> Base {
    let dir: TempDir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store.db");
    let store = open(&path).expect("a new store");
    let first = [1, 2].map(|stream| {
        let events = (0..KEPT).map(|seq| event(&format!("{stream}:{seq}"))).collect();
        Op::AppendShared(AppendShared { events, ..shared(stream) })
    });
    let mut ops = Vec::from(first);
    ops.push(Op::BeginCall(Box::new(call())));
    ops.push(Op::Enqueue(Box::new(delivery())));
    committed(&store, ops);
    store.close().expect("into the database file");
    drop(store);

    let store = open(&path).expect("the same store");
    for seq in KEPT..KEPT + LOGGED {
        committed(&store, [1, 2].map(|stream| append(stream, &format!("{stream}:{seq}"))).into());
    }
    // While it is open, the log holds what was committed last.
    let read = |path: &Path| std::fs::read(path).expect("it is there");
    Base { database: read(&path), log: read(&beside(&path, "-wal")) }
}

fn committed(store: &SqliteStore, ops: Vec<Op>) {
    store.commit(&[Commit::new(Durability::Disk, ops)]).remove(0).expect("a sound store commits");
}

fn event(payload: &str) -> NewEvent {
    NewEvent { kind: "n".to_owned(), payload: payload.to_owned().into(), time: NOW, identity: None }
}

fn shared(stream: u8) -> AppendShared {
    let key = StreamKey::new("scope", stream.to_string());
    AppendShared { key, new_id: StreamId([stream; 16]), events: Vec::new(), close: false, now: NOW }
}

fn append(stream: u8, payload: &str) -> Op {
    Op::AppendShared(AppendShared { events: vec![event(payload)], ..shared(stream) })
}

fn call() -> CallRecord {
    CallRecord {
        id: CallId::from_bytes([3; 16]),
        principal: "p".to_owned(),
        session: None,
        request_id: "1".to_owned(),
        tool: "t".to_owned(),
        config: Sealed(Bytes::from_static(SECRET.as_bytes())),
        stream: StreamKey::new("scope", "call"),
        worker: WorkerId([5; 16]),
        began_at: NOW,
        began_time: NOW,
        outcome: None,
        ended_at: None,
        task: None,
    }
}

fn delivery() -> NewDelivery {
    NewDelivery {
        id: DeliveryId([4; 16]),
        event_id: "evt_1".to_owned(),
        subject: Subject::Call(CallId::from_bytes([3; 16])),
        principal: "p".to_owned(),
        trigger: "tool_call.completed".to_owned(),
        route_id: "r".to_owned(),
        route: Sealed(Bytes::from_static(SECRET.as_bytes())),
        fallback: Sealed::default(),
        body: Bytes::from_static(b"{}"),
        whole: Sealed::default(),
        route_at: (0, 0),
        due: NOW,
        outlet: None,
        deadline: NOW + 1_000_000,
        created_at: NOW,
        endpoint: EndpointKey([6; 32]),
        fifo_key: None,
        wait_until: i64::MAX,
        seq: None,
        batch: None,
    }
}
