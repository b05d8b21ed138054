//! Migrations that are cut off, of a file with rows in it (fault 23).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::{Connection, params};
use tidings_store::{ChunkBuilder, Durability, Flow, Lease, Op};

use super::*;
use crate::schema::{APPLICATION_ID, KEY_CHECK, STEPS, newest};
use crate::seal::{Field, Sealer};

const NOW: i64 = 1_790_000_000_000;
const KEY: [u8; 32] = [1; 32];
const STREAM: StreamId = StreamId([3; 16]);
const CHUNKS: u64 = 100;
const EVENTS: u64 = 3;
const CALLS: u8 = 20;
const DELIVERIES: u32 = 300;

/// For the child: the file, and the step before which it is killed.
const FILE: &str = "TIDINGS_TEST_MIGRATED_FILE";
const STEP: &str = "TIDINGS_TEST_MIGRATED_STEP";
const HERE: &str = "the child is there";

/// A migration has made that many versions and has committed none of them. In the child: says so, and waits for its end.
pub(crate) fn reached(conn: &Connection, steps: usize) {
    let Some(last) = std::env::var(STEP).ok().and_then(|step| step.parse::<usize>().ok()) else { return };
    // What does not fit goes to the log while the transaction runs, so that a kill leaves something to be undone.
    conn.execute_batch("PRAGMA cache_size = 1").unwrap();
    if steps == last {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{HERE}").unwrap();
        out.flush().unwrap();
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(1);
    }
}

fn open(db: &Path) -> SqliteStore {
    let mut options = SqliteOptions::new(db);
    options.secret_key = Some(KEY);
    SqliteStore::open(options).unwrap()
}

#[test]
fn child() {
    if let Some(db) = std::env::var_os(FILE) {
        drop(open(Path::new(&db)));
    }
}

fn call(n: u8) -> CallId {
    CallId::from_bytes([n; 16])
}

fn delivery(n: u32) -> DeliveryId {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&n.to_le_bytes());
    DeliveryId(id)
}

fn body(n: u32) -> Vec<u8> {
    format!("{{\"n\":{n},\"filler\":\"{}\"}}", "x".repeat(200)).into_bytes()
}

/// A store as the first library wrote it.
fn of_the_first_version(db: &Path) {
    let (conn, sealer) = (Connection::open(db).unwrap(), Sealer::new(&KEY));
    conn.pragma_update(None, "journal_mode", "WAL").unwrap();
    conn.execute_batch("BEGIN").unwrap();
    conn.execute_batch(STEPS[0]).unwrap();
    let check = sealer.seal(KEY_CHECK, Field::KeyCheck, b"").unwrap();
    conn.execute("INSERT INTO meta (name, value) VALUES ('key_check', ?1)", [check]).unwrap();
    let mut bytes = 0;
    for n in 0..CHUNKS {
        let mut events = ChunkBuilder::default();
        for seq in n * EVENTS..(n + 1) * EVENTS {
            assert!(events.push("message", seq.to_string().as_bytes(), NOW, None));
        }
        let chunk = events.take(n * EVENTS);
        bytes += chunk.weight();
        conn.execute(
            "INSERT INTO chunks (stream, first_seq, count, last_time, data) VALUES (1, ?1, ?2, ?3, ?4)",
            params![rows::int(chunk.first_seq), chunk.count, NOW, chunk.data.as_deref()],
        )
        .unwrap();
    }
    conn.execute(
        "INSERT INTO streams (n, next_seq, bytes, earliest, epoch, claim, owned, uid, scope, name)
         VALUES (1, ?1, ?2, 0, 1, 1, 0, ?3, 'scope', 'name')",
        params![rows::int(CHUNKS * EVENTS), rows::int(bytes), STREAM.0],
    )
    .unwrap();
    for n in 0..CALLS {
        let config = sealer.seal(format!("config {n}").as_bytes(), Field::CallConfig, &call(n).to_bytes()).unwrap();
        conn.execute(
            "INSERT INTO calls (uid, worker, began_at, began_time, principal, request_id, tool, scope, name, config)
             VALUES (?1, ?2, ?3, ?3, 'p', '1', 't', 'scope', 'call', ?4)",
            params![call(n).to_bytes(), [9_u8; 16], NOW, config],
        )
        .unwrap();
    }
    for n in 0..DELIVERIES {
        let id = delivery(n);
        conn.execute(
            "INSERT INTO deliveries (n, uid, queue, at, state, due, deadline, created_at, attempts, token, subject_kind,
                 subject, event_id, principal, trigger_name, route_id)
             VALUES (?1, ?2, 0, ?3, 'pending', ?3, ?4, ?3, 0, 0, 0, ?5, ?6, 'p', 'tool_call.completed', 'r')",
            params![n + 1, id.0, NOW, NOW + 1_000_000, call(0).to_bytes(), format!("evt_{n}")],
        )
        .unwrap();
        let seal = |text: &str, field| sealer.seal(text.as_bytes(), field, &id.0).unwrap();
        conn.execute(
            "INSERT INTO delivery_contents (n, route, fallback, route_start, route_end, body)
             VALUES (?1, ?2, ?3, 0, 0, ?4)",
            params![
                n + 1,
                seal(&format!("route {n}"), Field::DeliveryRoute),
                seal("[]", Field::DeliveryFallback),
                body(n)
            ],
        )
        .unwrap();
    }
    conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
    conn.execute_batch("COMMIT").unwrap();
}

/// Killed before each step in turn, and before the commit: each time the file is what it was. Then it is brought up, once,
/// and everything in it can be used.
#[test]
fn one_that_is_killed_at_any_step_is_made_afterwards_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().canonicalize().unwrap().join("store.db");
    of_the_first_version(&db);
    let mut left = 0;
    for step in 1..=newest() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["migration_tests::child", "--exact", "--nocapture", "--test-threads=1"])
            .env(FILE, &db)
            .env(STEP, step.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains(HERE)), "the migration comes to step {step}");
        child.kill().unwrap();
        child.wait().unwrap();
        left = left.max(std::fs::metadata(beside(&db, "-wal")).map_or(0, |log| log.len()));
        let look = Connection::open(&db).unwrap();
        let number = |sql: &str| look.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(number("PRAGMA user_version"), 1, "killed at step {step}");
        assert_eq!(number("SELECT count(*) FROM deliveries"), i64::from(DELIVERIES), "killed at step {step}");
        let check: String = look.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "killed at step {step}");
    }
    assert!(left > 100_000, "a migration that was cut off had written to the log: {left} bytes");

    let store = open(&db);
    let mut events = Vec::new();
    while let Some(page) = store.read(STREAM, events.len() as u64, ReadLimits::default()).unwrap()
        && !page.chunks.is_empty()
    {
        events.extend(page.chunks.iter().flat_map(|chunk| chunk.events()).map(|event| (event.seq, event.payload)));
    }
    let want: Vec<_> = (0..CHUNKS * EVENTS).map(|seq| (seq, seq.to_string().into_bytes().into())).collect();
    assert_eq!(events, want);
    for n in 0..CALLS {
        assert_eq!(store.call(call(n)).unwrap().unwrap().config.0, format!("config {n}"));
    }
    let worker = WorkerId([7; 16]);
    let lease = Lease { worker, now: NOW, until: NOW + 1_000, limit: 1_000, flow: Flow::unlimited() };
    let ops = vec![Op::Heartbeat { worker, until: NOW + 1_000 }, Op::Lease(lease)];
    let leased = match store.commit(&[Commit::new(Durability::Disk, ops)]).remove(0).unwrap().pop() {
        Some(Done::Leased(leased)) => leased,
        other => panic!("{other:?}"),
    };
    let mut leased: Vec<_> =
        leased.into_iter().map(|found| (found.new.id, found.new.route.0, found.new.body)).collect();
    leased.sort();
    let mut want: Vec<_> =
        (0..DELIVERIES).map(|n| (delivery(n), format!("route {n}").into_bytes().into(), body(n).into())).collect();
    want.sort();
    assert_eq!(leased, want, "each once");
    drop(store);
    let look = Connection::open(&db).unwrap();
    let number = |sql: &str| look.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("PRAGMA user_version"), newest() as i64);
    assert_eq!(number("SELECT count(*) FROM endpoints"), 1, "what a step fills in is there once");
}

fn beside(db: &Path, suffix: &str) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
