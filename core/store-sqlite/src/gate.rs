//! Whose turn it is to write: processes queue here, in front of SQLite's own lock.
//!
//! That lock is taken by whoever asks for it at the right moment, which is mostly the one who has just let go of it: the
//! others sleep between two tries, and one process can keep them out for seconds (`delivery-systems.md` 4.2). Here the one
//! who waits for its turn holds the place at the head of the queue meanwhile, and who comes back has to queue behind it.
//!
//! Two files beside the database, `-gate` (whose turn it is) and `-next` (the head of the queue), each locked by `fcntl`: such
//! locks end with their process, however it ends, and a fork does not inherit them. They order the writers and nothing
//! else; what they guard is guarded by SQLite as well. So it does no harm that two stores of one process get through together
//! (`fcntl` does not tell them apart), or that there is no gate where its files cannot be made.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::open::{in_mode_0600, sibling};
use crate::workers::NO_FOLLOW;

/// How long to sleep between two tries. All waiters try as often, so that nobody waits longer for having waited long …
const STEP: Duration = Duration::from_micros(50);
/// … until whoever is at it takes longer than a commit does, after so many tries.
const TRIES: u32 = 200;
const LONG_STEP: Duration = Duration::from_micros(500);

/// The two files; `None` where they cannot be made.
#[derive(Debug)]
pub(crate) struct Gate {
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    gate: File,
    next: File,
}

/// Somebody else did not let go in time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TimedOut;

impl Gate {
    pub(crate) fn new(db: &Path) -> Self {
        let open = |suffix| lock_file(&sibling(db, suffix));
        match open("-gate").and_then(|gate| Ok(Files { gate, next: open("-next")? })) {
            Ok(files) => Self { files: Some(files) },
            Err(error) => {
                tracing::warn!(%error, "no gate: processes that write at once may keep each other waiting");
                Self { files: None }
            }
        }
    }

    /// Waits for the turn, which lasts until what is answered is dropped.
    pub(crate) fn enter(&self, timeout: Duration) -> Result<Turn<'_>, TimedOut> {
        let Some(Files { gate, next }) = &self.files else { return Ok(Turn(None)) };
        let mut wait = Wait { since: None, timeout, tries: 0 };
        let head = Turn(wait.lock(next)?);
        let turn = Turn(wait.lock(gate)?);
        drop(head);
        Ok(turn)
    }
}

/// A lock that is held, if there is one. Dropping it lets go.
#[derive(Debug)]
pub(crate) struct Turn<'a>(Option<&'a File>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            let _ = fcntl_lock(file, FlockOperation::NonBlockingUnlock);
        }
    }
}

struct Wait {
    /// Set with the first try that fails.
    since: Option<Instant>,
    timeout: Duration,
    tries: u32,
}

impl Wait {
    /// A file system on which locks fail has no gate.
    fn lock<'a>(&mut self, file: &'a File) -> Result<Option<&'a File>, TimedOut> {
        loop {
            match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(file)),
                Err(Errno::AGAIN | Errno::ACCESS | Errno::INTR) => {}
                Err(_) => return Ok(None),
            }
            if self.since.get_or_insert_with(Instant::now).elapsed() >= self.timeout {
                return Err(TimedOut);
            }
            sleep(if self.tries < TRIES { STEP } else { LONG_STEP });
            self.tries += 1;
        }
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_FOLLOW);
    let file = options.open(path)?;
    in_mode_0600(&file)?;
    Ok(file)
}
