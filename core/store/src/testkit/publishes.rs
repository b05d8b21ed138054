//! The publishes log: numbered, bounded, read after a place.

use super::Make;
use super::fixtures::{W1, W2, append, chunk, done, refused, stream_id};
use crate::commit::{Commit, Done, Durability, Op, Refused};
use crate::publish::{PUBLISHES_KEPT, Publish, Publishes};
use crate::store::Store;

fn entry(kinds: &str) -> Publish {
    Publish { worker: W1, kinds: kinds.to_owned(), name: None, audience: None }
}

fn publish(kinds: &str) -> Op {
    Op::Publish(entry(kinds))
}

fn read(store: &dyn Store, after: u64, limit: u32) -> Publishes {
    store.publishes(after, limit).expect("reads")
}

pub(super) fn publishes_are_numbered_and_read_after_a_place(store: &dyn Store) {
    assert_eq!(read(store, 0, 10), Publishes { entries: vec![], earliest: 1, head: 0 }, "there is none");
    let whole = Publish {
        worker: W2,
        kinds: "resource".to_owned(),
        name: Some("file:///a b\u{0}\u{1f600}".to_owned()),
        audience: Some(String::new()),
    };
    let answers = store.commit(&[Commit::new(Durability::Process, vec![publish("tools"), Op::Publish(whole.clone())])]);
    assert!(matches!(answers.as_slice(), [Ok(done)] if *done == [Done::Nothing, Done::Nothing]));
    done(store, [publish("tools prompts")]);
    let all = [(1, entry("tools")), (2, whole), (3, entry("tools prompts"))];
    assert_eq!(read(store, 0, 10), Publishes { entries: all.to_vec(), earliest: 1, head: 3 });
    assert_eq!(read(store, 1, 1).entries, all[1..2]);
    assert_eq!(read(store, 3, 10), Publishes { entries: vec![], earliest: 1, head: 3 });
    assert_eq!(read(store, u64::MAX, 10).head, 3);
}

pub(super) fn the_publishes_log_is_bounded(store: &dyn Store) {
    let many = 2 * PUBLISHES_KEPT + 7;
    let all: Vec<_> = (1..=many).map(|n| publish(&n.to_string())).collect();
    for some in all.chunks(100) {
        done(store, some.iter().cloned());
    }
    let found = read(store, 0, u32::MAX);
    assert_eq!(found.head, many);
    assert!(found.earliest <= many - PUBLISHES_KEPT + 1, "the newest are kept: {}", found.earliest);
    assert!(found.entries.len() as u64 <= 2 * PUBLISHES_KEPT, "and not many more: {}", found.entries.len());
    let numbers: Vec<_> = found.entries.iter().map(|(n, entry)| (*n, entry.kinds.clone())).collect();
    let want: Vec<_> = (found.earliest..=many).map(|n| (n, n.to_string())).collect();
    assert_eq!(numbers, want, "what is kept is whole");
}

pub(super) fn a_refused_commit_publishes_nothing(store: &dyn Store) {
    done(store, [publish("tools")]);
    let before = read(store, 0, 10);
    let nowhere = append(stream_id(9), 1, vec![chunk(0, &["x"])]);
    assert_eq!(refused(store, [publish("prompts"), nowhere]), Refused::Unknown);
    assert_eq!(read(store, 0, 10), before);
    done(store, [publish("resources")]);
    assert_eq!(read(store, 1, 10).entries.len(), 1);
}

pub(super) fn handles_see_each_others_publishes(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    done(&*one, [publish("tools")]);
    done(&*two, [publish("prompts")]);
    for store in [&*one, &*two] {
        assert_eq!(read(store, 0, 10).entries, [(1, entry("tools")), (2, entry("prompts"))]);
    }
}

pub(super) fn publishes_go_on_after_a_close(make: Make<'_>) {
    let place = make();
    let store = place.open();
    done(&*store, [publish("tools")]);
    store.close().expect("closes");
    drop(store);
    let store = place.open();
    done(&*store, [publish("prompts")]);
    assert_eq!(read(&*store, 0, 10).entries, [(1, entry("tools")), (2, entry("prompts"))]);
}
