//! Importing and constructing starts no thread. Alone in its process, because it counts the process's threads.
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeSet;

use support::HANG;
use tidings::Hub;

/// The names of this process's threads that are the hub's.
fn threads() -> BTreeSet<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads");
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("tidings")).collect()
}

#[test]
fn no_thread_before_the_first_use_and_none_after_the_end() {
    let (one, two) = (Hub::open("memory:").expect("a hub"), Hub::open("memory:").expect("a hub"));
    assert_eq!(threads(), BTreeSet::new());
    assert!(one.close(HANG));
    assert_eq!(threads(), BTreeSet::new());
    two.ensure_open().expect("open");
    wait_for(&["tidings-io", "tidings-writer"]);
    assert!(two.close(HANG));
    wait_for(&[]);
}

/// They name themselves when they begin, and the system takes a moment to forget those that have ended.
fn wait_for(names: &[&str]) {
    support::wait(async {
        while !threads().iter().eq(names) {
            tokio::task::yield_now().await;
        }
    });
}
