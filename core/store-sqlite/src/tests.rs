//! What needs to look inside: forks, which a test cannot make, and what is synced.

use tidings_store::{AppendShared, Chunk, Durability, NewEvent, Op};

use super::*;

const NOW: i64 = 1_790_000_000_000;
/// A fork stops all stores of the process, those of the other tests as well.
static ONE_FORK_AT_A_TIME: Mutex<()> = Mutex::new(());

fn store(dir: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(dir.path().join("s.db"))).unwrap()
}

fn descriptors() -> usize {
    let of_ours = |link: PathBuf| link.file_name().is_some_and(|name| name.to_string_lossy().starts_with("forked.db"));
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok())
        .filter(|link| of_ours(link.clone()))
        .count()
}

/// A fork cannot be made without unsafe code; a store that another process opened looks the same.
#[test]
fn in_a_forked_child_nothing_is_done_and_nothing_is_closed() {
    let _alone = lock(&ONE_FORK_AT_A_TIME);
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(dir.path().join("forked.db"))).unwrap();
    let worker = WorkerId([1; 16]);
    let beat = [Commit::new(Durability::Process, vec![Op::Heartbeat { worker, until: NOW }])];
    assert!(store.commit(&beat)[0].is_ok());
    assert!(store.changes().is_ok());
    store.inner.as_ref().unwrap().core.pid.fetch_xor(1, Ordering::AcqRel);

    let told = |kind: Result<(), StoreError>| {
        let error = kind.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Closed);
        assert!(error.to_string().contains("forked"), "{error}");
    };
    for answer in store.commit(&beat) {
        match answer {
            Err(CommitError::Store(error)) => told(Err(error)),
            other => panic!("{other:?}"),
        }
    }
    let (key, id) = (StreamKey::new("s", "a"), StreamId([1; 16]));
    told(store.stream(&key).map(drop));
    told(store.stream_by_id(id).map(drop));
    told(store.next_claim_first(id, 1).map(drop));
    told(store.read(id, 0, ReadLimits::default()).map(drop));
    told(store.call(CallId::from_bytes([1; 16])).map(drop));
    told(store.lost_calls(NOW, 1).map(drop));
    told(store.due_timers(NOW, 1).map(drop));
    told(store.next_due().map(drop));
    told(store.deliveries(None, None, None, 1).map(drop));
    told(store.changes().map(drop));
    told(store.timeline(&Boot { id: "b".to_owned(), now_ms: 0 }, NOW).map(drop));
    told(store.close());
    let open = descriptors();
    assert!(open >= 4, "database, log, its index and a worker's lock: {open}");
    drop(store);
    assert_eq!(descriptors(), open);
}

/// Between the two calls there is no connection in this process, and nobody gets in.
#[test]
fn around_a_fork_stores_hold_still() {
    let _alone = lock(&ONE_FORK_AT_A_TIME);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("held-still.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    let beat = |until| {
        let op = Op::Heartbeat { worker: WorkerId([1; 16]), until };
        store.commit(&[Commit::new(Durability::Process, vec![op])]).remove(0)
    };
    assert!(beat(NOW).is_ok() && store.changes().is_ok() && store.next_due().is_ok());
    let inner = store.inner.as_ref().unwrap();
    assert!(inner.has_connections());
    std::thread::scope(|scope| {
        before_fork();
        before_fork();
        assert!(!inner.has_connections());
        let waits = scope.spawn(|| beat(NOW + 1).is_ok() && store.next_due().is_ok());
        let opens = scope.spawn(|| SqliteStore::open(SqliteOptions::new(&path)).is_ok());
        // As a child would see it: what it inherited holds nothing, so it may open the file.
        inner.core.pid.fetch_xor(1, Ordering::AcqRel);
        assert!(!inner.has_connections());
        inner.core.pid.fetch_xor(1, Ordering::AcqRel);
        assert!(!waits.is_finished() && !opens.is_finished());
        after_fork();
        assert!(waits.join().unwrap() && opens.join().unwrap());
    });
    assert!(inner.has_connections());
}

#[test]
fn a_child_of_an_unprepared_fork_is_refused() {
    let _alone = lock(&ONE_FORK_AT_A_TIME);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("unprepared.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    let pid = &store.inner.as_ref().unwrap().core.pid;
    pid.fetch_xor(1, Ordering::AcqRel);
    let error = SqliteStore::open(SqliteOptions::new(&path)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert!(error.to_string().contains("before_fork"), "{error}");
    assert!(SqliteStore::open(SqliteOptions::new(dir.path().join("another.db"))).is_ok());
    // A store that was suspended leaves nothing to inherit.
    pid.fetch_xor(1, Ordering::AcqRel);
    store.inner.as_ref().unwrap().suspend();
    pid.fetch_xor(1, Ordering::AcqRel);
    assert!(SqliteStore::open(SqliteOptions::new(&path)).is_ok());
}

/// A claim that a loss of power takes back would be given out again, for other events.
#[test]
fn claims_on_streams_that_exist_are_synced() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    let key = StreamKey::new("s", "a");
    let (id, worker) = (StreamId([1; 16]), WorkerId([1; 16]));
    let synced_after = |op: Op| {
        assert!(store.commit(&[Commit::new(Durability::Process, vec![op])])[0].is_ok());
        let inner = store.inner.as_ref().unwrap();
        lock(&inner.writer).durability()
    };
    let claim = || Op::Claim { new_id: id, key: key.clone(), worker };
    let shared =
        || Op::AppendShared(AppendShared { key: key.clone(), new_id: id, events: Vec::new(), close: false, now: NOW });
    let beat = || Op::Heartbeat { worker, until: NOW };
    assert_eq!(synced_after(claim()), Some(Durability::Process), "a new stream has an id of its own");
    assert_eq!(synced_after(claim()), Some(Durability::Disk));
    assert_eq!(synced_after(beat()), Some(Durability::Process));
    assert_eq!(synced_after(shared()), Some(Durability::Disk), "it fences the writer");
    assert_eq!(synced_after(shared()), Some(Durability::Process), "the claim stands already");
    store.timeline(&Boot { id: "b".to_owned(), now_ms: 0 }, NOW).unwrap();
    assert_eq!(synced_after(beat()), Some(Durability::Process));
    assert_eq!(synced_after(shared()), Some(Durability::Disk), "another boot");
    let info = store.stream(&key).unwrap().unwrap();
    assert_eq!((info.claim, info.owned), (4, false));
}

/// One that is refused half-way takes none of the others' events with it, and leaves no hole.
#[test]
fn what_a_group_appends_to_a_shared_stream_is_one_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    let (key, id) = (StreamKey::new("s", "a"), StreamId([1; 16]));
    let append = |payload: &'static str| {
        let event = NewEvent { kind: "t".to_owned(), payload: payload.as_bytes().into(), time: NOW, identity: None };
        Op::AppendShared(AppendShared { key: key.clone(), new_id: id, events: vec![event], close: false, now: NOW })
    };
    let commit = |ops| Commit::new(Durability::Process, ops);
    let chunks = || {
        let page = store.read(id, 0, ReadLimits::default()).unwrap().unwrap();
        let chunk = |chunk: &Chunk| {
            let payloads = chunk.events().map(|event| String::from_utf8(event.payload.to_vec()).unwrap());
            (chunk.first_seq, payloads.collect::<Vec<_>>())
        };
        page.chunks.iter().map(chunk).collect::<Vec<_>>()
    };
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let done = store.commit(&[commit(vec![append("0")]), commit(vec![append("1"), append("2")])]);
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(chunks(), [(0, texts(&["0", "1", "2"]))]);
    let refused = Op::Append { stream: StreamId([9; 16]), claim: 1, chunks: Vec::new(), close: false, now: NOW };
    let group = [vec![append("3")], vec![append("x"), refused], vec![append("4")]].map(commit);
    let first_seq = |answer: &Result<Vec<Done>, CommitError>| match answer {
        Ok(done) => match done[0] {
            Done::Appended { first_seq, .. } => Some(first_seq),
            _ => None,
        },
        Err(_) => None,
    };
    assert_eq!(store.commit(&group).iter().map(first_seq).collect::<Vec<_>>(), [Some(3), None, Some(4)]);
    let events: Vec<_> = chunks().into_iter().flat_map(|(_, payloads)| payloads).collect();
    assert_eq!(events, ["0", "1", "2", "3", "4"]);
    assert_eq!(store.stream(&key).unwrap().unwrap().next_seq, 5);
}
