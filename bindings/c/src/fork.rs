//! No thread is inside a table of handles, nor counts a callback, while the process forks: in the child their locks would stay
//! locked for ever.

use std::any::Any;
use std::cell::RefCell;

use crate::answer::ANSWERS;
use crate::batch::BATCHES;
use crate::call::{BEGINS, CALLS};
use crate::callback;
use crate::delivery::DELIVERIES;
use crate::export::EXPORTS;
use crate::fanout::{FAILED, NOTICES, OUTBOXES, PROFILES};
use crate::hub::{HUBS, OPTIONS};
use crate::logger::LOGGERS;
use crate::operate::ENDPOINTS;
use crate::outlet::{HANDED, OUTLETS};
use crate::peer::{LISTENERS, PEERS};
use crate::port::PORTS;
use crate::progress::PROGRESSES;
use crate::stdio_peer::STDIO_PEERS;
use crate::stream::{STREAMS, TAILS, WRITERS};
use crate::task::TASKS;
use crate::text::TEXTS;
use crate::texts::LISTS;
use crate::webhook::{KEYS, WEBHOOKS};

thread_local! {
    /// What the thread that forks holds meanwhile. It is the one thread that there is in the child.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Does something with every table, and lists what it answers.
macro_rules! every {
    ($method:ident) => {
        vec![
            TEXTS.$method(),
            PORTS.$method(),
            ANSWERS.$method(),
            BATCHES.$method(),
            STREAMS.$method(),
            WRITERS.$method(),
            TAILS.$method(),
            OPTIONS.$method(),
            HUBS.$method(),
            BEGINS.$method(),
            CALLS.$method(),
            WEBHOOKS.$method(),
            DELIVERIES.$method(),
            PROFILES.$method(),
            OUTBOXES.$method(),
            NOTICES.$method(),
            FAILED.$method(),
            PEERS.$method(),
            LISTENERS.$method(),
            LISTS.$method(),
            EXPORTS.$method(),
            OUTLETS.$method(),
            HANDED.$method(),
            TASKS.$method(),
            ENDPOINTS.$method(),
            PROGRESSES.$method(),
            KEYS.$method(),
            LOGGERS.$method(),
            STDIO_PEERS.$method(),
        ]
    };
}

/// Before a fork. A second one in the same thread changes nothing.
pub(crate) fn freeze() {
    HELD.with_borrow_mut(|held| {
        if held.is_empty() {
            *held = every!(freeze);
            held.push(Box::new(callback::hold()));
        }
    });
}

/// After it, in the same thread of the parent.
pub(crate) fn thaw() {
    HELD.take();
}

/// The same in the child.
pub(crate) fn thaw_in_child() {
    HELD.take();
    callback::forget_other_threads();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads sources, and follows no pointer")]
    fn every_table_is_listed() {
        let mut kinds = every!(kind);
        kinds.sort_unstable();
        let last = kinds.len();
        assert_eq!(kinds, (1..=last).collect::<Vec<_>>(), "each number once");
        let declared: usize = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
            .unwrap()
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
            .map(|source| {
                source.lines().filter(|line| line.starts_with("pub(crate) static") && line.contains("Table<")).count()
            })
            .sum();
        assert_eq!(last, declared, "a table that a fork forgets");
    }

    #[test]
    fn a_fork_finds_nobody_inside() {
        freeze();
        freeze();
        // Of the table that this thread holds.
        assert!(every!(is_free).into_iter().all(|free| !free));
        assert!(!callback::is_free());
        thaw();
        let handle: *mut crate::text::tidings_text = TEXTS.insert(String::from("after").into());
        TEXTS.free("text", handle).unwrap();
    }
}
