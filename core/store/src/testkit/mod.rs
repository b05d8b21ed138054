//! What every [`Store`] must do, as tests.
//!
//! A store's author says how to open the store and gets one named test for each rule:
//!
//! ```
//! use tidings_store::testkit::{Harness, run_all};
//! use tidings_store::{MemoryStore, Store};
//!
//! struct InMemory(std::sync::Mutex<Option<MemoryStore>>);
//!
//! impl Harness for InMemory {
//!     fn open(&self) -> Box<dyn Store> {
//!         Box::new(self.0.lock().expect("whole").take().expect("neither shared nor durable: opened once"))
//!     }
//! }
//!
//! let report = run_all(|| InMemory(std::sync::Mutex::new(Some(MemoryStore::new()))));
//! assert!(report.failed.is_empty(), "{report}");
//! ```
//!
//! In a test file, [`store_tests!`](crate::store_tests) makes a `#[test]` of each case instead, so that a failure has a
//! name:
//!
//! ```text
//! tidings_store::store_tests!(MyHarness::new());                  // one process, forgets
//! tidings_store::store_tests!(MyHarness::new(), shared, durable); // several processes, remembers
//! ```
//!
//! Cases for an ability that a store does not have show up as ignored, with the reason; that a store declares the
//! abilities it has is a case of its own. A case knows only the [`Store`] trait; its expected values follow from the
//! documentation of the trait and its operations, never from a store's answers.
#![allow(clippy::panic, reason = "a kit of tests says what is wrong by panicking, and is compiled for tests only")]

mod batches;
mod bytes;
mod calls;
mod cases;
mod commits;
mod deliveries;
mod durable;
mod endpoints;
mod fixtures;
mod groups;
mod handles;
mod keys;
mod model;
mod outlets;
mod proofs;
mod property;
mod publishes;
mod reading;
mod retention;
mod script;
mod shared;
mod streams;
mod timeline;
mod total;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use self::cases::{case, cases};
use crate::store::Store;

/// One place where a store keeps its state: a temporary directory, a database of its own, a process's memory.
///
/// Each case makes a harness anew, and so starts from nothing.
pub trait Harness {
    /// A new handle on the place. Called a second time only for a store that is durable (after the first handle was
    /// closed or dropped) or shared (beside the first handle).
    fn open(&self) -> Box<dyn Store>;

    /// Whether what was committed is there when the place is opened again.
    fn is_durable(&self) -> bool {
        false
    }
}

/// Makes a harness whose place is empty.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Harness>;

/// What a store must be able to do for a case to mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing beyond what every store does.
    Nothing,
    /// [`Store::is_shared`]: several handles on one place at the same time.
    Shared,
    /// [`Harness::is_durable`].
    Durable,
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Says the rule.
    pub name: &'static str,
    /// Where it applies.
    pub needs: Needs,
    run: fn(Make<'_>),
}

impl Case {
    /// Runs it. Panics where the store breaks the rule, and where the rule does not apply to the store.
    pub fn run(&self, make: Make<'_>) {
        if let Some(reason) = self.inapplicable(make) {
            panic!("not applicable: {reason}");
        }
        (self.run)(make);
    }

    fn inapplicable(&self, make: Make<'_>) -> Option<&'static str> {
        match self.needs {
            Needs::Nothing => None,
            Needs::Shared => (!make().open().is_shared()).then_some("the store is of one process"),
            Needs::Durable => (!make().is_durable()).then_some("the store forgets when it is closed"),
        }
    }
}

/// How a store fared.
#[derive(Clone, Debug, Default)]
#[must_use = "look at `failed`"]
pub struct Report {
    /// Cases the store passed.
    pub passed: Vec<&'static str>,
    /// Cases it failed, and how.
    pub failed: Vec<(&'static str, String)>,
    /// Cases that do not apply to it, and why.
    pub not_applicable: Vec<(&'static str, &'static str)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, skipped) = (self.passed.len(), self.failed.len(), self.not_applicable.len());
        writeln!(f, "{passed} passed, {failed} failed, {skipped} not applicable")?;
        for (name, reason) in &self.not_applicable {
            writeln!(f, "not applicable: {name} ({reason})")?;
        }
        for (name, message) in &self.failed {
            writeln!(f, "failed: {name}: {message}")?;
        }
        Ok(())
    }
}

/// Runs every case, each on a harness of its own, and reports how each went.
pub fn run_all<H: Harness + 'static>(make: impl Fn() -> H) -> Report {
    let make: Make<'_> = &|| Box::new(make());
    let mut report = Report::default();
    for case in cases() {
        if let Some(reason) = case.inapplicable(make) {
            report.not_applicable.push((case.name, reason));
            continue;
        }
        match catch_unwind(AssertUnwindSafe(|| (case.run)(make))) {
            Ok(()) => report.passed.push(case.name),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                report.failed.push((case.name, text.unwrap_or_default()));
            }
        }
    }
    report
}

/// Fails unless the store has exactly the abilities its tests declare.
pub fn check_abilities(make: Make<'_>, shared: bool, durable: bool) {
    let harness = make();
    assert_eq!(harness.open().is_shared(), shared, "`shared` is declared exactly if `Store::is_shared` says so");
    assert_eq!(harness.is_durable(), durable, "`durable` is declared exactly if `Harness::is_durable` says so");
}
