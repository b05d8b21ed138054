//! What SQLite and the system say, in the store's words.
//!
//! Messages are made of what was tried and of the system's fixed texts; nothing of what is stored gets into them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ffi;
use tidings_store::{CommitError, Refused, StoreError, StoreErrorKind};

use crate::open::sibling;

/// Why an operation of a commit did not happen.
#[derive(Debug)]
pub(crate) enum Fail {
    /// Its own conditions did not hold: nothing of its commit takes effect, the group goes on.
    Refused(Refused),
    /// What it holds cannot be stored at all: same.
    Own(StoreError),
    /// The medium failed: nothing of the group takes effect.
    Medium(StoreError),
    /// The same, in SQLite's words.
    Sql(rusqlite::Error),
}

impl Fail {
    /// The answer for one commit, if the group can go on; else the failure again.
    pub(crate) fn of_one_commit(self) -> Result<CommitError, Self> {
        match self {
            Self::Refused(refused) => Ok(refused.into()),
            Self::Own(error) => Ok(error.into()),
            other => Err(other),
        }
    }

    /// The failure as every commit of the group is told it.
    pub(crate) fn of_the_group(self, db: &Path) -> StoreError {
        match self {
            Self::Refused(refused) => {
                StoreError::new(StoreErrorKind::Corrupt, format!("refused out of place: {refused}"))
            }
            Self::Own(error) | Self::Medium(error) => error,
            Self::Sql(error) => sql(&error, "commit", db),
        }
    }
}

impl From<Refused> for Fail {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        Self::Medium(error)
    }
}

/// The store was closed by its owner.
pub(crate) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Closed, "the store is closed")
}

/// The process that calls is a fork of the one that opened the store.
pub(crate) fn forked() -> StoreError {
    StoreError::new(
        StoreErrorKind::Closed,
        "the store was opened before this process was forked: SQLite connections and locks do not survive a fork, open it anew",
    )
}

/// Another process has the right to write and does not let go.
pub(crate) fn busy() -> StoreError {
    StoreError::new(StoreErrorKind::Busy, "another process has been writing for longer than this store waits")
}

/// Something in the file is not as this store writes it.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, what)
}

/// SQLite's answer to an attempt to do `what` with the database at `db`.
pub(crate) fn sql(error: &rusqlite::Error, what: &str, db: &Path) -> StoreError {
    let Some(code) = extended_code(error) else {
        // What remains are answers of the binding: a value of another type than we write, a text that is not UTF-8.
        return corrupt(format!("{what}: the database holds a value that this store does not write"));
    };
    let kind = match code & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => StoreErrorKind::Busy,
        ffi::SQLITE_FULL | ffi::SQLITE_NOLFS => StoreErrorKind::Full,
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM => StoreErrorKind::ReadOnly,
        ffi::SQLITE_CORRUPT
        | ffi::SQLITE_NOTADB
        | ffi::SQLITE_CONSTRAINT
        | ffi::SQLITE_MISMATCH
        | ffi::SQLITE_ERROR => StoreErrorKind::Corrupt,
        ffi::SQLITE_TOOBIG => StoreErrorKind::Unsupported,
        ffi::SQLITE_IOERR if code == ffi::SQLITE_IOERR_CORRUPTFS => StoreErrorKind::Corrupt,
        // SQLite tells only ENOSPC apart; a quota or a size limit comes as a failed write.
        ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN => ask_the_medium(db),
        _ => StoreErrorKind::Io,
    };
    StoreError::new(kind, format!("{what}: SQLite answered \"{}\" (code {code})", ffi::code_to_str(code)))
}

/// The system's answer to an attempt to do `what`.
pub(crate) fn system(error: &io::Error, what: impl std::fmt::Display) -> StoreError {
    StoreError::new(kind_of(error), format!("{what}: {error}"))
}

/// SQLite's extended result code, if the error is SQLite's.
pub(crate) fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    match error {
        rusqlite::Error::SqliteFailure(error, _) | rusqlite::Error::SqlInputError { error, .. } => {
            Some(error.extended_code)
        }
        _ => None,
    }
}

/// Whether the connection that answered this must not be used again: after a failed write or sync nobody knows what
/// of its state is on the medium, and a second sync would falsely succeed.
pub(crate) fn poisons(error: &rusqlite::Error) -> bool {
    match extended_code(error) {
        Some(code) => {
            !matches!(code & 0xff, ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_CONSTRAINT | ffi::SQLITE_TOOBIG)
        }
        None => false,
    }
}

fn kind_of(error: &io::Error) -> StoreErrorKind {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG) => StoreErrorKind::Full,
        Some(rustix::io::Errno::ROFS | rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => StoreErrorKind::ReadOnly,
        _ => StoreErrorKind::Io,
    }
}

/// Why the medium refuses: one block is written where SQLite's log ends, beside it, and taken away again. The system
/// then names a reason that SQLite keeps to itself (a quota, a limit on the size of files, a mount turned read-only).
fn ask_the_medium(db: &Path) -> StoreErrorKind {
    let length = |path: PathBuf| std::fs::metadata(path).map_or(0, |found| found.len());
    let end = length(sibling(db, "-wal")).max(length(db.to_owned()));
    static PROBES: AtomicU64 = AtomicU64::new(0);
    let probe = sibling(db, &format!("-probe-{}-{}", std::process::id(), PROBES.fetch_add(1, Ordering::Relaxed)));
    let written = write_block(&probe, end);
    let _ = std::fs::remove_file(&probe);
    written.map_or_else(|error| kind_of(&error), |()| StoreErrorKind::Io)
}

fn write_block(path: &Path, at: u64) -> io::Result<()> {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all_at(&[0; 4096], at)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: i32) -> StoreErrorKind {
        let dir = tempfile::tempdir().unwrap();
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some("a payload".to_owned()));
        let told = sql(&error, "commit", &dir.path().join("s.db"));
        assert!(!told.to_string().contains("payload"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the probe is taken away");
        told.kind()
    }

    #[test]
    fn codes_have_kinds() {
        for (code, kind) in [
            (5, StoreErrorKind::Busy),         // SQLITE_BUSY
            (517, StoreErrorKind::Busy),       // SQLITE_BUSY_SNAPSHOT
            (13, StoreErrorKind::Full),        // SQLITE_FULL
            (8, StoreErrorKind::ReadOnly),     // SQLITE_READONLY
            (1544, StoreErrorKind::ReadOnly),  // SQLITE_READONLY_DIRECTORY
            (11, StoreErrorKind::Corrupt),     // SQLITE_CORRUPT
            (26, StoreErrorKind::Corrupt),     // SQLITE_NOTADB
            (8458, StoreErrorKind::Corrupt),   // SQLITE_IOERR_CORRUPTFS
            (2067, StoreErrorKind::Corrupt),   // SQLITE_CONSTRAINT_UNIQUE: a number twice
            (266, StoreErrorKind::Io),         // SQLITE_IOERR_READ, and the medium takes writes
            (1034, StoreErrorKind::Io),        // SQLITE_IOERR_FSYNC, same
            (18, StoreErrorKind::Unsupported), // SQLITE_TOOBIG
            (7, StoreErrorKind::Io),           // SQLITE_NOMEM
        ] {
            assert_eq!(told(code), kind, "{code}");
        }
    }

    #[test]
    fn the_system_names_full_and_read_only() {
        for (errno, kind) in [
            (rustix::io::Errno::NOSPC, StoreErrorKind::Full),
            (rustix::io::Errno::DQUOT, StoreErrorKind::Full),
            (rustix::io::Errno::FBIG, StoreErrorKind::Full),
            (rustix::io::Errno::ROFS, StoreErrorKind::ReadOnly),
            (rustix::io::Errno::ACCESS, StoreErrorKind::ReadOnly),
            (rustix::io::Errno::IO, StoreErrorKind::Io),
        ] {
            assert_eq!(system(&errno.into(), "x").kind(), kind, "{errno:?}");
        }
    }

    #[test]
    fn a_failed_write_poisons_and_a_busy_store_does_not() {
        let error = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        assert!(poisons(&error(778)) && poisons(&error(1034)) && poisons(&error(13)));
        assert!(!poisons(&error(5)) && !poisons(&error(2067)));
    }
}
