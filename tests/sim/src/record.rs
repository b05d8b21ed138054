//! What happened, line by line, and what must not have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::MachineClock;

/// Locks; a simulation that panics is over anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The trace of one run. Two runs of one seed have the same.
#[derive(Debug)]
pub(crate) struct Record {
    clock: Arc<MachineClock>,
    lines: Mutex<Vec<String>>,
    violations: Mutex<Vec<String>>,
}

impl Record {
    /// An empty one.
    pub(crate) fn new(clock: Arc<MachineClock>) -> Self {
        Self { clock, lines: Mutex::default(), violations: Mutex::default() }
    }

    /// Something happened.
    pub(crate) fn note(&self, what: impl AsRef<str>) {
        lock(&self.lines).push(format!("{:>9} {}", self.clock.elapsed(), what.as_ref()));
    }

    /// An invariant does not hold. `rule` is its name (I1 to I12).
    pub(crate) fn violated(&self, rule: &str, how: impl AsRef<str>) {
        let line = format!("{rule} violated: {}", how.as_ref());
        self.note(&line);
        lock(&self.violations).push(line);
    }

    /// Says so where it does not hold.
    pub(crate) fn hold(&self, rule: &str, holds: bool, how: impl FnOnce() -> String) {
        if !holds {
            self.violated(rule, how());
        }
    }

    /// Whether every invariant held so far.
    pub(crate) fn is_clean(&self) -> bool {
        lock(&self.violations).is_empty()
    }

    /// What was violated.
    pub(crate) fn violations(&self) -> Vec<String> {
        lock(&self.violations).clone()
    }

    /// The whole trace.
    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&self.lines).clone()
    }
}
