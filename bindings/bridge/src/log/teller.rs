//! What is logged, told at once: for hosts whose functions any thread may call.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{LogRecord, install};
use crate::error::Result;
use crate::fork::{lock, lock_global};

type Tell = dyn Fn(&LogRecord) + Send + Sync;

#[derive(Default)]
pub(crate) struct Tellers {
    last: u64,
    told: Vec<(u64, Arc<Tell>)>,
}

static TELLERS: Mutex<Tellers> = Mutex::new(Tellers { last: 0, told: Vec::new() });

thread_local! {
    /// This thread is telling somebody.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// A function that is told what the library logs, until this is dropped. A call that is under way then goes on to its end.
pub struct LogTeller {
    number: u64,
}

impl fmt::Debug for LogTeller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogTeller").finish_non_exhaustive()
    }
}

/// Has `tell` told of each warning and error, in the thread that logs it: several may do so at a time, some of them with a
/// lock of the library held. So it must neither block nor use the library; what is logged while it runs, in the same thread,
/// is not told. Only for a library that carries its own copy of the Rust runtime: a Rust program has its own subscriber.
///
/// # Errors
/// `unsupported` where the program has a subscriber of its own.
pub fn tell_log(tell: impl Fn(&LogRecord) + Send + Sync + 'static) -> Result<LogTeller> {
    install()?;
    let mut tellers = lock(&TELLERS);
    tellers.last += 1;
    let number = tellers.last;
    tellers.told.push((number, Arc::new(tell)));
    Ok(LogTeller { number })
}

impl Drop for LogTeller {
    fn drop(&mut self) {
        let mut tellers = lock(&TELLERS);
        let at = tellers.told.iter().position(|(number, _)| *number == self.number);
        let gone = at.map(|at| tellers.told.remove(at));
        drop(tellers);
        drop(gone);
    }
}

/// Until it is dropped, this thread is telling somebody.
struct Telling;

impl Drop for Telling {
    fn drop(&mut self) {
        TELLING.set(false);
    }
}

pub(super) fn tell(record: &LogRecord) {
    if TELLING.replace(true) {
        return;
    }
    let _telling = Telling;
    let told: Vec<_> = lock_global(&TELLERS)
        .map(|tellers| tellers.told.iter().map(|(_, tell)| Arc::clone(tell)).collect())
        .unwrap_or_default();
    // Without the lock: whoever is told may let go of its teller.
    for tell in told {
        tell(record);
    }
}

/// Keeps everybody out, over a fork.
pub(super) fn hold() -> MutexGuard<'static, Tellers> {
    lock(&TELLERS)
}
