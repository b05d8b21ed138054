//! Whoever watches hears of the commits of others at once, and of its own never.
#![cfg(any(target_os = "linux", target_os = "android"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod common;

use std::io::{Read, Write};

use common::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tidings_store::{Op, Store, Wake, WorkerId};

/// The other process: commits once for each byte it reads.
#[test]
fn child() {
    let Some((part, db)) = part() else { return };
    assert_eq!(part, "writer");
    let store = open(&db);
    done(&store, [heartbeat(W2, FAR)]);
    let mut stdin = std::io::stdin();
    let mut byte = [0];
    loop {
        // Told after the heartbeat and after each commit.
        std::io::stdout().write_all(b"\x07").unwrap();
        std::io::stdout().flush().unwrap();
        if stdin.read(&mut byte).unwrap() == 0 {
            return;
        }
        done(&store, [shared("s", 1, &["x"])]);
    }
}

fn readable(wake: &dyn Wake, wait: bool) -> bool {
    let timeout = if wait { None } else { Some(&Timespec { tv_sec: 0, tv_nsec: 0 }) };
    poll(&mut [PollFd::new(&wake, PollFlags::IN)], timeout).unwrap() == 1
}

/// Waits until others have committed.
fn woken(wake: &dyn Wake) {
    while !(readable(wake, true) && wake.clear()) {}
}

#[track_caller]
fn silent(wake: &dyn Wake) {
    assert!(!readable(wake, false) || !wake.clear());
}

#[test]
fn commits_of_others_wake_and_own_ones_do_not() {
    let dir = dir();
    let (one, two) = (open(&db(&dir)), open(&db(&dir)));
    done(&one, [heartbeat(W1, FAR)]);
    done(&two, [heartbeat(W2, FAR)]);
    let wake = one.wake().expect("this file system tells");
    silent(&*wake);
    done(&one, [shared("s", 1, &["own"])]);
    silent(&*wake);
    for _ in 0..3 {
        done(&two, [shared("s", 1, &["other"])]);
        woken(&*wake);
        silent(&*wake);
    }
    // Two commits before anybody looks are one wake.
    done(&two, [shared("s", 1, &["other"])]);
    done(&two, [shared("s", 1, &["other"])]);
    woken(&*wake);
    silent(&*wake);
    // Files that are no worker's wake nobody.
    for name in ["notes", "store.db-w-notes", "other.db-w-aaaaaaaaaaaaaaaaaaaaaaaaaa"] {
        std::fs::write(dir.path().join(name), "x").unwrap();
    }
    silent(&*wake);
}

/// The heartbeat of a new worker wakes by its file's coming; what it commits later by that file.
#[test]
fn a_worker_that_comes_later_is_heard_and_so_is_one_in_the_place_of_a_killed_one() {
    let dir = dir();
    let db = db(&dir);
    let store = open(&db);
    done(&store, [heartbeat(W1, FAR)]);
    let wake = store.wake().expect("this file system tells");
    for round in 0..2 {
        let mut child = another("writer", &db).spawn().expect("starts");
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // What the harness prints before it is of no interest.
        let told = move || {
            let mut byte = [0];
            while byte != [7] {
                assert_eq!(stdout.read(&mut byte).unwrap(), 1, "round {round}");
            }
        };
        let mut told = told;
        told();
        woken(&*wake);
        while readable(&*wake, false) && wake.clear() {}
        for _ in 0..3 {
            stdin.write_all(b"x").unwrap();
            woken(&*wake);
            told();
            while readable(&*wake, false) && wake.clear() {}
        }
        kill(child);
        // The next one finds the file of the dead one, locks it and goes on with it.
    }
    let lock = beside(&db, &format!("-w-{W2}"));
    assert!(lock.exists());
    done(&store, [Op::Leave { worker: WorkerId([9; 16]) }]);
    silent(&*wake);
}
