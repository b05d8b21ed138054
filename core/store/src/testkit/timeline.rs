//! One timeline for all processes and all boots.

use super::Make;
use super::fixtures::{Fresh, NOW, W1, done, lease_op};
use crate::store::{Boot, Store};

fn boot(id: &str, now_ms: i64) -> Boot {
    Boot { id: id.to_owned(), now_ms }
}

/// Where the caller stands on the timeline.
#[track_caller]
fn stand(store: &dyn Store, boot: &Boot, wall: i64) -> i64 {
    store.timeline(boot, wall).expect("reads") + boot.now_ms
}

pub(super) fn the_first_boot_stands_near_the_wall_clock(make: Make<'_>) {
    let store = Fresh::open(make);
    let first = stand(&*store, &boot("first", 5_000), NOW);
    assert!((first - NOW).abs() <= 1_000, "{first} is within a second of {NOW}");
}

pub(super) fn one_boot_has_one_offset(make: Make<'_>) {
    let store = Fresh::open(make);
    let offset = store.timeline(&boot("one", 5_000), NOW).expect("reads");
    for (now_ms, wall) in [(5_000, NOW), (6_000, NOW + 1_000), (7_000, NOW - 90_000_000), (7_500, 0), (8_000, NOW * 2)]
    {
        assert_eq!(store.timeline(&boot("one", now_ms), wall).expect("reads"), offset, "the wall clock moves nothing");
    }
}

pub(super) fn another_boot_never_runs_backward(make: Make<'_>) {
    let store = Fresh::open(make);
    let mut last = stand(&*store, &boot("one", 5_000), NOW);
    last = last.max(stand(&*store, &boot("one", 3_600_000), NOW));
    // The wall clock came back at 1970 and, another time, an hour early.
    for (id, now_ms, wall) in [("two", 10, 0), ("three", 900_000, NOW - 3_600_000), ("four", 0, 1)] {
        let now = stand(&*store, &boot(id, now_ms), wall);
        assert!(now >= last, "boot {id}: {now} is not before {last}");
        last = now;
    }
    let later = stand(&*store, &boot("five", 10), NOW + 90_000_000);
    assert!((later - (NOW + 90_000_000)).abs() <= 1_000, "a wall clock that went on anchors the boot");
}

/// A process asks once and then reckons alone: what its commits named has been, though no boot was told.
pub(super) fn another_boot_begins_after_what_commits_named(make: Make<'_>) {
    let store = Fresh::open(make);
    let first = stand(&*store, &boot("one", 5_000), NOW);
    let named = first + 7_200_000;
    done(&*store, [lease_op(W1, named, named + 30_000, 10)]);
    let second = stand(&*store, &boot("two", 10), NOW);
    assert!(second >= named, "{second} is not before {named}");
}
