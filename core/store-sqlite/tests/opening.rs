//! What opening makes, and what it refuses.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod common;

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use common::*;
use rusqlite::Connection;
use tidings_store::{Chunk, Op, Store, StoreErrorKind, TaskTerms};
use tidings_store_sqlite::{SqliteOptions, SqliteStore};

/// A store with something in it, closed.
fn made(db: &Path) {
    let store = open(db);
    done(&store, [shared("a", 1, &["0"]), begin(1, W1), enqueue(1)]);
    store.close().expect("closes");
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a file")
}

#[test]
fn every_file_is_its_owners_alone() {
    let dir = dir();
    let store = open(&db(&dir));
    done(&store, [heartbeat(W1, FAR), shared("a", 1, &["0"])]);
    let made = names(&dir);
    let worker = format!("-w-{W1}");
    let want = ["", "-gate", "-key", "-next", "-shm", worker.as_str(), "-wal"].map(|after| format!("store.db{after}"));
    assert_eq!(made, want, "nothing else is left behind");
    for name in made {
        let mode = std::fs::metadata(dir.path().join(&name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o600, "{name}: {mode:o}");
    }
}

/// Field case B27: 16 garbage bytes over the header are never an empty-looking store.
#[test]
fn a_damaged_header_is_told_and_left_alone() {
    let dir = dir();
    let db = db(&dir);
    made(&db);
    let mut file = std::fs::OpenOptions::new().write(true).open(&db).unwrap();
    file.write_all(&[0xa5; 16]).unwrap();
    drop(file);
    let before = bytes(&db);
    assert_eq!(refused_to_open(&db), StoreErrorKind::Corrupt);
    assert_eq!(bytes(&db), before);
}

#[test]
fn what_is_no_store_is_told_and_left_alone() {
    let dir = dir();
    let db = db(&dir);
    for content in [&b"hello\n"[..], &[0; 100], &[0; 4096], &[0xff; 10_000]] {
        std::fs::write(&db, content).unwrap();
        assert_eq!(refused_to_open(&db), StoreErrorKind::Corrupt, "{} bytes", content.len());
        assert_eq!(bytes(&db), content);
    }
    std::fs::remove_file(&db).unwrap();
    Connection::open(&db).unwrap().execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    let before = bytes(&db);
    assert_eq!(refused_to_open(&db), StoreErrorKind::Corrupt);
    assert_eq!(bytes(&db), before);
}

#[test]
fn a_cut_or_scribbled_file_never_opens_as_something_else() {
    let dir = dir();
    let db = db(&dir);
    made(&db);
    let whole = bytes(&db);
    for cut in [1, 15, 99, 100, 512, 4_095, 4_096, whole.len() - 4_096] {
        std::fs::write(&db, &whole[..cut]).unwrap();
        // Either it is told at once, or when what is missing is asked for; never another answer.
        match SqliteStore::open(SqliteOptions::new(&db)) {
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "cut at {cut}: {error}"),
            Ok(store) => match store.read(stream_id(1), 0, tidings_store::ReadLimits::default()) {
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Corrupt, "cut at {cut}: {error}"),
                Ok(page) => assert_eq!(page.map(|page| page.chunks), Some(vec![chunk(0, &["0"])]), "cut at {cut}"),
            },
        }
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(beside(&db, suffix));
        }
    }
}

/// Fault 3: SQLite has no sums over the database file. What is handed out as it is has ours.
#[test]
fn a_flipped_bit_is_told_and_never_handed_out() {
    let payload = |n: u32| format!("event {n} of the stream, {}", "long enough to be hit ".repeat(3));
    let body = r#"{"body":"of a delivery"}"#;
    let end = r#"{"end":"of a task"}"#;
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    for n in 0..3 {
        done(&store, [shared("a", 1, &[&payload(n)])]);
    }
    let mut task = record(1, W1, "{}");
    task.task = Some(tidings_store::TaskRecord { terms: TaskTerms { ttl_ms: 1_000, bound: false }, end: None });
    let outcome = tidings_store::CallOutcome { status: "completed".to_owned(), reason: None };
    let ended = Op::EndCall { id: call_id(1), outcome, at: NOW, payload: Some(end.into()) };
    let mut sent = delivery(1, "{}");
    sent.body = body.into();
    done(&store, [Op::BeginCall(Box::new(task)), ended, Op::Enqueue(Box::new(sent))]);
    store.close().expect("closes");
    let whole = bytes(&db);
    let place = |text: &str| {
        let mut found = whole.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes());
        let (at, _) = found.next().expect("it is in the file as it is");
        assert!(found.next().is_none(), "once");
        at
    };
    let over = |bytes: &[u8], look: &dyn Fn(&SqliteStore)| {
        std::fs::write(&db, bytes).unwrap();
        let store = open(&db);
        look(&store);
        store.close().expect("closes");
    };
    let flipped = |at: usize, bit: u8, look: &dyn Fn(&SqliteStore)| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        over(&bytes, look);
    };
    let chunks = |store: &SqliteStore, from| {
        store.read(stream_id(1), from, tidings_store::ReadLimits::default()).unwrap().unwrap().chunks
    };
    let middle = payload(1);
    for (after, bit) in [(0, 0), (7, 1), (30, 5), (middle.len() - 1, 7)] {
        flipped(place(&middle) + after, bit, &|store| {
            let want = [chunk(0, &[&payload(0)]), Chunk::lost(1, 1, 0), chunk(2, &[&payload(2)])];
            assert_eq!(chunks(store, 0), want, "bit {bit} of byte {after}: in its place, and nothing else");
        });
    }
    // In the length of the last event: its bytes hold no event any more, and the head says how many there were.
    flipped(place(&payload(2)) - "message".len() - 2, 0, &|store| {
        assert_eq!(chunks(store, 2), [Chunk::lost(2, 1, 0)]);
    });
    flipped(place(end) + 3, 2, &|store| {
        assert_eq!(store.call(call_id(1)).unwrap_err().kind(), StoreErrorKind::Corrupt);
    });
    flipped(place(body) + 3, 2, &|store| {
        assert_eq!(leased(store, W1, NOW, FAR), []);
        let dead = store.deliveries(None, None, Some(tidings_store::DeliveryState::Dead), 10).unwrap();
        assert_eq!(dead[0].last_error.as_deref(), Some("unreadable"));
    });
    over(&whole, &|store| {
        assert_eq!(payloads(store, stream_id(1)), [payload(0), payload(1), payload(2)]);
        assert_eq!(store.call(call_id(1)).unwrap().unwrap().task.unwrap().end.unwrap(), end);
        assert_eq!(leased(store, W1, NOW, FAR)[0].new.body, body);
    });
}

/// A sum is that of its place too: a row that came to another one, and a number that changed, are damage.
#[test]
fn a_chunk_that_is_not_where_it_was_written_is_told() {
    let dir = dir();
    let db = db(&dir);
    made(&db);
    let store = open(&db);
    for payload in ["0", "1", "2"] {
        done(&store, [shared("b", 2, &[payload])]); // a group of its own, and so a chunk
    }
    let other = Connection::open(&db).unwrap();
    let change = |sql: &str| assert_eq!(other.execute(sql, []).unwrap(), 1, "{sql}");
    let chunks = || store.read(stream_id(2), 0, tidings_store::ReadLimits::default()).unwrap().unwrap().chunks;
    change(
        "UPDATE chunks SET (data, crc) = (SELECT data, crc FROM chunks WHERE stream = 1) WHERE stream = 2 AND first_seq = 0",
    );
    assert_eq!(chunks(), [Chunk::lost(0, 1, 0), chunk(1, &["1"]), chunk(2, &["2"])]);
    change("UPDATE chunks SET count = 7 WHERE stream = 2 AND first_seq = 1");
    assert_eq!(chunks(), [Chunk::lost(0, 1, 0), Chunk::lost(1, 1, 0), chunk(2, &["2"])]);
    change("UPDATE chunks SET data = NULL WHERE stream = 2 AND first_seq = 2");
    assert_eq!(chunks(), [0, 1, 2].map(|n| Chunk::lost(n, 1, 0)));
}

#[test]
fn a_store_that_lost_its_content_is_not_a_new_one() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    done(&store, [shared("a", 1, &["0"])]);
    std::fs::copy(beside(&db, "-wal"), beside(&db, "-saved")).unwrap();
    store.close().expect("closes");
    drop(store);
    std::fs::rename(beside(&db, "-saved"), beside(&db, "-wal")).unwrap();
    std::fs::OpenOptions::new().write(true).open(&db).unwrap().set_len(0).unwrap();
    assert_eq!(refused_to_open(&db), StoreErrorKind::Corrupt);
}

#[test]
fn a_newer_schema_is_told_and_left_alone() {
    let dir = dir();
    let db = db(&dir);
    made(&db);
    Connection::open(&db).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = bytes(&db);
    assert_eq!(refused_to_open(&db), StoreErrorKind::NewerSchema);
    assert_eq!(bytes(&db), before);
}

/// A newer library migrates the file while this one has it open.
#[test]
fn a_schema_that_becomes_newer_stops_the_writer() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    done(&store, [shared("a", 1, &["0"])]);
    Connection::open(&db).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(fails(&store, [shared("a", 1, &["1"])]), StoreErrorKind::NewerSchema);
    assert_eq!(payloads(&store, stream_id(1)), ["0"]);
}

#[test]
fn a_directory_that_is_not_there_is_told() {
    let dir = dir();
    let error = SqliteStore::open(SqliteOptions::new(dir.path().join("none").join("s.db"))).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Io);
    assert!(error.to_string().contains("none"), "{error}");
    assert_eq!(names(&dir), [""; 0]);
}

#[test]
fn the_key_decides() {
    let dir = dir();
    let db = db(&dir);
    let with = |key: u8| {
        let mut options = SqliteOptions::new(&db);
        options.secret_key = Some([key; 32]);
        SqliteStore::open(options)
    };
    drop(with(1).expect("opens"));
    assert!(!beside(&db, "-key").exists(), "a given key makes no file");
    assert_eq!(with(2).unwrap_err().kind(), StoreErrorKind::WrongKey);
    assert_eq!(refused_to_open(&db), StoreErrorKind::WrongKey, "no key and no key file");
    assert!(!beside(&db, "-key").exists(), "a store that has a key gets no other");
    drop(with(1).expect("opens"));
}

#[test]
fn a_key_file_that_is_lost_or_another_is_told() {
    let dir = dir();
    let db = db(&dir);
    made(&db);
    let key = bytes(&beside(&db, "-key"));
    assert_eq!(key.len(), 32);
    std::fs::write(beside(&db, "-key"), [9; 32]).unwrap();
    assert_eq!(refused_to_open(&db), StoreErrorKind::WrongKey);
    std::fs::remove_file(beside(&db, "-key")).unwrap();
    assert_eq!(refused_to_open(&db), StoreErrorKind::WrongKey);
    std::fs::write(beside(&db, "-key"), key).unwrap();
    assert_eq!(payloads(&open(&db), stream_id(1)), ["0"]);
}

/// All bytes that reach the disk, the log included.
#[test]
fn secrets_are_in_no_file() {
    const SECRETS: [&str; 3] = ["whsec_config-4f1d", "whsec_route-77ab", "whsec_fallback-02ce"];
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    let mut with_secrets = delivery(1, SECRETS[1]);
    with_secrets.fallback = tidings_store::Sealed(SECRETS[2].into());
    done(&store, [heartbeat(W1, FAR), tidings_store::Op::BeginCall(Box::new(record(1, W1, SECRETS[0])))]);
    done(&store, [tidings_store::Op::Enqueue(Box::new(with_secrets)), shared("a", 1, &["a visible payload"])]);
    let back = leased(&store, W1, NOW, FAR).remove(0);
    assert_eq!((&back.new.route.0[..], &back.new.fallback.0[..]), (SECRETS[1].as_bytes(), SECRETS[2].as_bytes()));
    assert_eq!(store.call(call_id(1)).unwrap().unwrap().config.0, SECRETS[0]);
    let look = |when: &str| {
        let mut visible = false;
        for name in names(&dir) {
            let content = bytes(&dir.path().join(&name));
            let holds = |text: &str| content.windows(text.len()).any(|window| window == text.as_bytes());
            for secret in SECRETS {
                assert!(!holds(secret), "{secret} in {name} {when}");
                assert!(!holds(&secret[6..]), "{secret} in {name} {when}");
            }
            visible |= holds("a visible payload");
        }
        assert!(visible, "the search finds what is there");
    };
    look("while open");
    store.close().expect("closes");
    look("after the close");
}

#[test]
fn a_sealed_value_moved_to_another_row_does_not_open() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    done(&store, [begin(1, W1), begin(2, W1), enqueue(1), enqueue(2), enqueue(3)]);
    let other = Connection::open(&db).unwrap();
    other
        .execute_batch(
            "UPDATE calls SET config = (SELECT config FROM calls WHERE n = 2) WHERE n = 1;
             UPDATE delivery_contents SET route = (SELECT route FROM delivery_contents WHERE n = 3) WHERE n = 1;
             UPDATE delivery_contents SET fallback = route WHERE n = 2;",
        )
        .unwrap();
    assert_eq!(store.call(call_id(1)).unwrap_err().kind(), StoreErrorKind::Corrupt);
    assert!(store.call(call_id(2)).unwrap().is_some());
    let ids: Vec<_> = leased(&store, W1, NOW, FAR).into_iter().map(|delivery| delivery.new.id).collect();
    assert_eq!(ids, [delivery_id(3)], "damaged ones do not stand in the way");
    let dead = store.deliveries(None, None, Some(tidings_store::DeliveryState::Dead), 10).unwrap();
    assert_eq!(dead.len(), 2);
    assert!(dead.iter().all(|delivery| delivery.last_error.as_deref() == Some("unreadable")));
    let lost: Vec<_> = store.lost_calls(NOW, 10).unwrap().into_iter().map(|call| call.id).collect();
    assert_eq!(lost, [call_id(2)]);
}

/// Runs as another user, because root may write anywhere.
#[test]
fn what_cannot_be_written_is_read_only() {
    if !rustix::process::geteuid().is_root() {
        return as_plain_user(&dir_for(rustix::process::geteuid().as_raw()));
    }
    const NOBODY: u32 = 65_534;
    let dir = dir_for(NOBODY);
    let exe = std::env::current_exe().unwrap();
    let reachable = exe.ancestors().skip(1).all(|dir| {
        std::fs::metadata(dir).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0) || dir.as_os_str().is_empty()
    });
    if !reachable {
        eprintln!("skipped: root may write anywhere, and another user may not run this test executable");
        return;
    }
    let mut child = another("read-only", &db(&dir));
    let ran = child.uid(NOBODY).gid(NOBODY).output().expect("runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

fn dir_for(user: u32) -> tempfile::TempDir {
    let dir = dir();
    std::os::unix::fs::chown(dir.path(), Some(user), None).unwrap();
    dir
}

fn as_plain_user(dir: &tempfile::TempDir) {
    read_only(&db(dir));
}

fn read_only(db: &Path) {
    let dir = db.parent().unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(dir, 0o500);
    assert_eq!(refused_to_open(db), StoreErrorKind::ReadOnly, "a new store in a read-only directory");
    mode(dir, 0o700);
    made(db);
    mode(dir, 0o500);
    assert_eq!(refused_to_open(db), StoreErrorKind::ReadOnly, "its log cannot be made");
    mode(dir, 0o700);
    mode(db, 0o400);
    assert_eq!(refused_to_open(db), StoreErrorKind::ReadOnly, "its file cannot be written");
    mode(db, 0o600);
    assert_eq!(payloads(&open(db), stream_id(1)), ["0"]);
}

/// The other process.
#[test]
fn child() {
    if let Some((part, db)) = part() {
        assert_eq!(part, "read-only");
        read_only(&db);
    }
}

/// The tail of a log torn by a crash is not read.
#[test]
fn a_torn_log_ends_at_its_last_whole_commit() {
    let dir = dir();
    let (db, copy) = (db(&dir), dir.path().canonicalize().unwrap().join("copy.db"));
    let store = open(&db);
    let mut ends = Vec::new();
    for n in 0..5 {
        done(&store, [shared("a", 1, &[&n.to_string()])]);
        ends.push(std::fs::metadata(beside(&db, "-wal")).unwrap().len());
    }
    let mut log = Vec::new();
    std::fs::File::open(beside(&db, "-wal")).unwrap().read_to_end(&mut log).unwrap();
    for (n, end) in ends.iter().enumerate() {
        for cut in [*end as usize - 1, *end as usize] {
            std::fs::copy(&db, &copy).unwrap();
            std::fs::copy(beside(&db, "-key"), beside(&copy, "-key")).unwrap();
            std::fs::write(beside(&copy, "-wal"), &log[..cut]).unwrap();
            let whole = if cut == *end as usize { n + 1 } else { n };
            let torn = open(&copy);
            let found = torn.stream_by_id(stream_id(1)).unwrap().map_or(0, |info| info.next_seq);
            assert_eq!(found, whole as u64, "cut at {cut}");
            drop(torn);
            // A flipped bit in a frame ends the log there as well.
            if cut == *end as usize {
                std::fs::copy(&db, &copy).unwrap();
                let mut file = std::fs::File::create(beside(&copy, "-wal")).unwrap();
                file.write_all(&log[..cut]).unwrap();
                file.seek(SeekFrom::Start(*end - 100)).unwrap();
                file.write_all(&[log[*end as usize - 100] ^ 1]).unwrap();
                drop(file);
                let _ = std::fs::remove_file(beside(&copy, "-shm"));
                let found = open(&copy).stream_by_id(stream_id(1)).unwrap().map_or(0, |info| info.next_seq);
                assert_eq!(found, n as u64, "a flipped bit before {end}");
            }
        }
    }
}
