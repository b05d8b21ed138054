//! What this store does beyond the kit: boots, several handles, retention in steps, faults.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod common;

use std::time::Duration;

use common::*;
use rusqlite::Connection;
use tidings_proto::stream::{Cursor, GapReason, Resume, Retention, StreamView, check};
use tidings_store::{Boot, Commit, Done, Durability, Op, Refused, Store, StoreErrorKind};
use tidings_store_sqlite::{SqliteOptions, SqliteStore};

fn boot(store: &dyn Store, id: &str) -> i64 {
    store.timeline(&Boot { id: id.to_owned(), now_ms: 1_000 }, NOW).expect("anchors")
}

fn claim_of(store: &dyn Store, name: &str) -> u32 {
    store.stream(&key(name)).unwrap().unwrap().claim
}

/// Power loss may take back `Process` commits of the last boot; their numbers must not stand for other events.
#[test]
fn the_first_shared_append_of_a_boot_is_a_new_claim() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    boot(&store, "one");
    done(&store, [shared("a", 1, &["0", "1"]), shared("b", 2, &["0"])]);
    done(&store, [shared("a", 1, &["2"])]);
    assert_eq!(claim_of(&store, "a"), 1);
    drop(store);

    let store = open(&db);
    boot(&store, "two");
    let answer = done(&store, [shared("a", 9, &["3"])]).remove(0);
    assert_eq!(answer, Done::Appended { stream: stream_id(1), epoch: 1, claim: 2, first_seq: 3 });
    done(&store, [shared("a", 9, &["4"])]);
    assert_eq!((claim_of(&store, "a"), claim_of(&store, "b")), (2, 1), "one claim a boot, where something is appended");
    assert_eq!(store.next_claim_first(stream_id(1), 1).unwrap(), Some(3));

    // Had the power failed after number 5 was seen and before it was on disk, this is what its reader hears.
    let info = store.stream(&key("a")).unwrap().unwrap();
    let view = StreamView {
        epoch: info.epoch,
        claim: info.claim,
        earliest: info.earliest,
        next_seq: info.next_seq,
        next_claim_first: store.next_claim_first(info.id, 1).unwrap(),
        owner_alive: info.owned && !info.owner_gone,
    };
    let at = |next| check(&Cursor { stream: info.id, epoch: 1, claim: 1, next }, &view);
    assert!(matches!(at(5), Resume::Gap(gap) if gap.reason == GapReason::Regressed));
    assert_eq!(at(3), Resume::From(3));

    // Another process of the same boot goes on under the same claim.
    let other = open(&db);
    boot(&other, "two");
    done(&other, [shared("a", 9, &["5"])]);
    assert_eq!(claim_of(&store, "a"), 2);
}

#[test]
fn workers_of_another_boot_are_gone() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    boot(&store, "one");
    done(&store, [heartbeat(W1, FAR), begin(1, W1), create("a", 1, W1), enqueue(1)]);
    leased(&store, W1, NOW, FAR);
    assert_eq!(store.lost_calls(NOW, 10).unwrap(), []);
    boot(&store, "two");
    assert_eq!(store.lost_calls(NOW, 10).unwrap().len(), 1);
    assert!(store.stream(&key("a")).unwrap().unwrap().owner_gone);
    assert_eq!(leased(&store, W2, NOW, FAR).len(), 1);
    done(&store, [heartbeat(W1, FAR)]);
    assert_eq!(store.lost_calls(NOW, 10).unwrap(), [], "a heartbeat of this boot counts");
}

/// A writer remembers streams between groups, and must not when another process has changed them.
#[test]
fn what_another_handle_did_is_seen_by_the_next_append() {
    let dir = dir();
    let db = db(&dir);
    let (one, two) = (open(&db), open(&db));
    done(&one, [create("a", 1, W1), append(1, 1, chunk(0, &["0"])), shared("b", 2, &["0"])]);
    for round in 0..20_u64 {
        done(&two, [shared("b", 2, &["x"])]);
        let answer = done(&one, [shared("b", 2, &["y"])]).remove(0);
        assert!(matches!(answer, Done::Appended { first_seq, .. } if first_seq == 2 + 2 * round), "{answer:?}");
    }
    done(&two, [Op::Claim { new_id: stream_id(9), key: key("a"), worker: W2 }]);
    let answer = one.commit(&[Commit::new(Durability::Process, vec![append(1, 1, chunk(1, &["1"]))])]).remove(0);
    assert!(matches!(answer, Err(tidings_store::CommitError::Refused(Refused::Fenced { claim: 2, next_seq: 1 }))));
    let retention = Retention { max_events: Some(1), after_close_ms: Some(0), ..Retention::UNLIMITED };
    done(&two, [append(1, 2, chunk(1, &["1", "2", "3"]))]);
    done(&two, [Op::Trim { now: NOW, wall: NOW, retention, keep_finished_ms: 0 }]);
    assert_eq!(one.stream(&key("a")).unwrap().unwrap().earliest, 3);
    assert_eq!(payloads(&one, stream_id(1)), ["3"]);
}

/// A group in which something is refused in the middle of a commit leaves streams as the rest of the group made them.
#[test]
fn a_refusal_takes_back_its_own_commit_only() {
    let dir = dir();
    let store = open(&db(&dir));
    done(&store, [create("a", 1, W1)]);
    let commit = |ops| Commit::new(Durability::Process, ops);
    let answers = store.commit(&[
        commit(vec![append(1, 1, chunk(0, &["0"]))]),
        commit(vec![
            append(1, 1, chunk(1, &["taken back"])),
            shared("b", 2, &["taken back"]),
            begin(1, W1),
            begin(1, W1),
        ]),
        commit(vec![append(1, 1, chunk(1, &["1"]))]),
        commit(vec![append(1, 1, chunk(1, &["refused"]))]),
        commit(vec![append(1, 1, chunk(2, &["2"])), shared("b", 3, &["0"])]),
    ]);
    let fine: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(fine, [true, false, true, false, true]);
    assert_eq!(payloads(&store, stream_id(1)), ["0", "1", "2"]);
    assert_eq!(payloads(&store, stream_id(3)), ["0"]);
    assert_eq!(store.call(call_id(1)).unwrap(), None);
}

fn trim(store: &dyn Store, now: i64, retention: Retention) -> (u64, bool) {
    match done(store, [Op::Trim { now, wall: NOW, retention, keep_finished_ms: FAR }]).remove(0) {
        Done::Trimmed { events, more } => (events, more),
        other => panic!("a trim answers `Trimmed`, not {other:?}"),
    }
}

/// One call takes a bounded number of rows, and between two calls every stream is whole.
#[test]
fn a_large_stream_goes_in_steps() {
    const EVENTS: u64 = 5_000;
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    // Each in a group of its own, and so in a row of its own.
    for n in 0..EVENTS {
        let one = Commit::new(Durability::Process, vec![shared("a", 1, &[&n.to_string()])]);
        assert!(store.commit(&[one]).iter().all(Result::is_ok));
    }
    done(
        &store,
        [Op::AppendShared(tidings_store::AppendShared {
            key: key("a"),
            new_id: stream_id(1),
            events: Vec::new(),
            close: true,
            now: NOW,
        })],
    );
    let retention = Retention { after_close_ms: Some(10), ..Retention::UNLIMITED };
    assert_eq!(trim(&store, NOW + 9, retention), (0, false));
    let (mut gone, mut calls) = (0, 0);
    loop {
        let (events, more) = trim(&store, NOW + 10, retention);
        assert!(events <= 2_000, "{events} in one call");
        gone += events;
        calls += 1;
        match store.stream(&key("a")).unwrap() {
            Some(info) => {
                assert_eq!((info.earliest, info.next_seq), (gone, EVENTS));
                let left = payloads(&store, stream_id(1));
                assert_eq!(left.first().cloned(), (gone < EVENTS).then(|| gone.to_string()));
                assert_eq!(left.len() as u64, EVENTS - gone);
            }
            None => assert_eq!(gone, EVENTS),
        }
        if !more {
            break;
        }
    }
    assert_eq!((gone, calls), (EVENTS, 3));
    assert_eq!(store.read(stream_id(1), 0, tidings_store::ReadLimits::default()).unwrap(), None, "unknown, not empty");
    let left: i64 = Connection::open(&db)
        .unwrap()
        .query_row(
            "SELECT (SELECT count(*) FROM chunks) + (SELECT count(*) FROM claims) + (SELECT count(*) FROM streams)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
}

/// What a process appended and did not trim before it died is found by others, also when it is old only.
#[test]
fn another_process_trims_what_was_left() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    for n in 0..50 {
        done(&store, [shared(&n.to_string(), n + 1, &["0", "1"])]);
    }
    drop(store);
    let store = open(&db);
    let count = Retention { max_events: Some(1), ..Retention::UNLIMITED };
    assert_eq!(trim(&store, NOW, count), (50, false));
    let age = Retention { max_age_ms: Some(1_000), ..Retention::UNLIMITED };
    let old = Op::Trim { now: NOW, wall: NOW + 2_000, retention: age, keep_finished_ms: FAR };
    assert_eq!(done(&store, [old]).remove(0), Done::Trimmed { events: 50, more: false });
    assert_eq!(store.stream(&key("0")).unwrap().unwrap().next_seq, 2, "its head stays");
}

/// The file gives back what was freed, a little at a time.
#[test]
fn the_file_shrinks() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    let large = "x".repeat(100_000);
    for _ in 0..400 {
        done(&store, [shared("a", 1, &[&large])]);
    }
    let pages =
        || -> i64 { Connection::open(&db).unwrap().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap() };
    let before = pages();
    assert!(before > 9_000, "{before}");
    let nothing = Retention { max_events: Some(0), ..Retention::UNLIMITED };
    let mut after = before;
    for _ in 0..30 {
        // Each call frees or forgets something, else there is nothing to give back yet.
        done(&store, [shared("b", 2, &["x"])]);
        trim(&store, NOW, nothing);
        let now = pages();
        assert!(after - now <= 300, "{} pages in one call", after - now);
        after = now;
    }
    assert!(after < before - 3_000, "from {before} to {after}");
}

#[test]
fn a_store_held_by_another_is_busy_and_readable() {
    let dir = dir();
    let db = db(&dir);
    drop(open(&db));
    let mut options = SqliteOptions::new(&db);
    options.busy_timeout = Duration::from_millis(20);
    let store = SqliteStore::open(options).unwrap();
    done(&store, [shared("a", 1, &["0"])]);
    let other = Connection::open(&db).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(fails(&store, [shared("a", 1, &["1"])]), StoreErrorKind::Busy);
    assert_eq!(payloads(&store, stream_id(1)), ["0"]);
    assert!(store.changes().is_ok());
    other.execute_batch("ROLLBACK").unwrap();
    done(&store, [shared("a", 1, &["1"])]);
    assert_eq!(payloads(&store, stream_id(1)), ["0", "1"]);
}

/// A file that is gone takes commits without a word; the next heartbeat tells.
#[test]
fn a_deleted_or_replaced_file_is_told() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    done(&store, [heartbeat(W1, FAR)]);
    std::fs::rename(&db, beside(&db, "-moved")).unwrap();
    assert_eq!(fails(&store, [heartbeat(W1, FAR)]), StoreErrorKind::Io);
    std::fs::copy(beside(&db, "-moved"), &db).unwrap();
    assert_eq!(fails(&store, [heartbeat(W1, FAR)]), StoreErrorKind::Io);
    std::fs::rename(beside(&db, "-moved"), &db).unwrap();
    done(&store, [heartbeat(W1, FAR)]);
}

#[test]
fn a_closed_store_answers_closed() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    done(&store, [heartbeat(W1, FAR), begin(1, W1)]);
    store.close().expect("closes");
    assert_eq!(store.close().unwrap_err().kind(), StoreErrorKind::Closed);
    assert_eq!(fails(&store, [shared("a", 1, &["0"])]), StoreErrorKind::Closed);
    assert_eq!(store.stream(&key("a")).unwrap_err().kind(), StoreErrorKind::Closed);
    assert_eq!(store.changes().unwrap_err().kind(), StoreErrorKind::Closed);
    let other = open(&db);
    assert_eq!(other.lost_calls(NOW, 10).unwrap().len(), 1, "its worker did not leave, and is gone");
    drop(store);
    assert_eq!(
        names(&dir).len(),
        6,
        "database, log, its index, key and queue; who opened it took away its worker's lock"
    );
}

/// What can never be stored fails alone.
#[test]
fn an_event_too_long_for_a_chunk_fails_alone() {
    let dir = dir();
    let store = open(&db(&dir));
    let mut long = event("{}");
    long.kind = "k".repeat(65_536);
    let append =
        tidings_store::AppendShared { key: key("a"), new_id: stream_id(1), events: vec![long], close: false, now: NOW };
    let answers = store.commit(&[
        Commit::new(Durability::Process, vec![begin(1, W1), Op::AppendShared(append)]),
        Commit::new(Durability::Process, vec![shared("b", 2, &["0"])]),
    ]);
    assert!(
        matches!(&answers[0], Err(tidings_store::CommitError::Store(error)) if error.kind() == StoreErrorKind::Unsupported)
    );
    assert!(answers[1].is_ok());
    assert_eq!((store.stream(&key("a")).unwrap(), store.call(call_id(1)).unwrap()), (None, None));
}

#[test]
fn a_tombstone_is_kept_as_one() {
    let dir = dir();
    let store = open(&db(&dir));
    let lost = tidings_store::Chunk::lost(1, 1_000_000, NOW);
    done(&store, [create("a", 1, W1), append(1, 1, chunk(0, &["0"])), append(1, 1, lost.clone())]);
    let page = store.read(stream_id(1), 500_000, tidings_store::ReadLimits::default()).unwrap().unwrap();
    assert_eq!((page.chunks, page.info.next_seq), (vec![lost], 1_000_001));
}

#[test]
fn nothing_secret_is_shown_by_debug() {
    let mut options = SqliteOptions::new("x");
    options.secret_key = Some([0x5a; 32]);
    let shown = format!("{options:?}");
    assert!(!shown.contains("90") && !shown.contains("5a"), "{shown}");
}
