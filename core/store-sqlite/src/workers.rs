//! Which workers live.
//!
//! A worker has a lease (`workers.until`) and, as long as its store object lives, an exclusive `fcntl` lock on a file of
//! its own, `<database>-w-<worker>`. The kernel drops such a lock when its process ends, however it ends, and a child of
//! a fork does not inherit it; so other processes see a worker killed with `kill -9` at once, not when its lease ends.
//!
//! A worker is gone if any of these holds:
//! - it has no row: it left, or it was forgotten after it was gone;
//! - its lease ran out: a process that is stopped, or cannot reach the store, has given up its work even though it lives;
//! - its row is of another boot than the caller's;
//! - its lock file is there and nobody holds the lock.
//!
//! A lock file that is missing says nothing (somebody cleaned up the directory, or the disk was full when it was to be
//! made): then the lease alone decides, so that a live worker is never taken for dead. The row of a worker becomes visible only
//! after its lock is held, and its file goes only after the row.
//!
//! POSIX locks have two traps. They do not conflict within one process, and closing *any* descriptor of the file drops
//! the process's lock. So a process keeps a list of the workers it holds and never opens their files a second time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use tidings_proto::stream::decode_id;
use tidings_store::WorkerId;

use crate::open::{in_mode_0600, sibling};

/// The lock files that this process holds, with the process id that does: after a fork the child has the list, but none
/// of the locks.
static HELD: LazyLock<Mutex<HashMap<PathBuf, u32>>> = LazyLock::new(Mutex::default);

fn held() -> MutexGuard<'static, HashMap<PathBuf, u32>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn held_by_this_process(path: &Path) -> bool {
    held().get(path) == Some(&std::process::id())
}

/// What the lock says about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Its process lives.
    Held,
    /// Its process died.
    Free,
    /// Nothing: there is no lock file, or it cannot be asked.
    Unknown,
}

/// The locks of one store object. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    db: PathBuf,
    mine: Arc<Mutex<HashMap<WorkerId, Mine>>>,
}

/// A lock this store object holds. Dropping it lets go of the lock and leaves the file, which then says that the worker is dead.
#[derive(Debug)]
struct Mine {
    path: PathBuf,
    file: Option<File>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        // Off the list first: who then opens the file finds it free, which it is about to be.
        held().remove(&self.path);
        drop(self.file.take());
    }
}

impl Workers {
    pub(crate) fn new(db: &Path) -> Self {
        Self { db: db.to_owned(), mine: Arc::default() }
    }

    fn mine(&self) -> MutexGuard<'_, HashMap<WorkerId, Mine>> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, worker: WorkerId) -> PathBuf {
        sibling(&self.db, &format!("-w-{worker}"))
    }

    /// Locks the worker's file unless this process holds it already.
    pub(crate) fn hold(&self, worker: WorkerId) -> io::Result<()> {
        let path = self.path(worker);
        {
            let mut held = held();
            if held.get(&path) == Some(&std::process::id()) {
                return Ok(());
            }
            // On the list before there is a file, so that no other thread opens and closes it.
            held.insert(path.clone(), std::process::id());
        }
        // Known as one of ours before its file is seen.
        self.mine().insert(worker, Mine { path: path.clone(), file: None });
        match lock_file(&path) {
            Ok(file) => {
                if let Some(mine) = self.mine().get_mut(&worker) {
                    mine.file = Some(file);
                }
                Ok(())
            }
            Err(error) => {
                self.mine().remove(&worker);
                Err(error)
            }
        }
    }

    /// Whether this store object holds the worker's lock.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn is_mine(&self, worker: WorkerId) -> bool {
        self.mine().contains_key(&worker)
    }

    /// Tells whoever watches (see [`wake`](crate::wake)) that this store has committed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn ring(&self) {
        use std::os::unix::fs::FileExt;
        // Others watch every worker of this store, so one does for all.
        if let Some(file) = self.mine().values().find_map(|mine| mine.file.as_ref()) {
            let _ = file.read_at(&mut [0], 0);
        }
    }

    /// The directory of the lock files.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.db.parent()
    }

    /// The worker whose lock file has this name.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn named(&self, file: &OsStr) -> Option<WorkerId> {
        let prefix = sibling(Path::new(self.db.file_name()?), "-w-");
        decode_worker(rest_of(file, &prefix)?)
    }

    /// What the lock says about a worker.
    pub(crate) fn ask(&self, worker: WorkerId) -> Lock {
        let path = self.path(worker);
        if held_by_this_process(&path) {
            return Lock::Held;
        }
        let Ok(file) = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(&path) else {
            return Lock::Unknown;
        };
        match fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)) {
            Ok(Some(_)) => Lock::Held,
            Ok(None) => Lock::Free,
            Err(_) => Lock::Unknown,
        }
    }

    /// Lets go of a worker that left, and takes its file away.
    pub(crate) fn release(&self, worker: WorkerId) {
        let mine = self.mine().remove(&worker);
        match mine {
            Some(mine) => {
                let _ = std::fs::remove_file(&mine.path);
                drop(mine);
            }
            None => self.remove_dead(&[worker]),
        }
    }

    /// Lets go of every lock. The files stay and say that their workers are dead.
    pub(crate) fn let_go(&self) {
        let all = std::mem::take(&mut *self.mine());
        drop(all);
    }

    /// Removes the files of workers that have no row any more. A file that is locked stays: whoever may remove it holds
    /// its lock, and checks that the name still means the file that was locked.
    pub(crate) fn remove_dead(&self, workers: &[WorkerId]) {
        for worker in workers {
            let path = self.path(*worker);
            if held_by_this_process(&path) {
                continue;
            }
            let Ok(file) = OpenOptions::new().read(true).write(true).custom_flags(NO_FOLLOW).open(&path) else {
                continue;
            };
            if fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && names(&path, &file) {
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    /// Removes what processes that were killed left: lock files of workers that nobody needs to know (`known` tells),
    /// and drafts of a key file that stands.
    pub(crate) fn sweep(&self, known: &dyn Fn(WorkerId) -> bool) {
        let (Some(dir), Some(name)) = (self.db.parent(), self.db.file_name()) else { return };
        let (locks, drafts) = (sibling(Path::new(name), "-w-"), sibling(Path::new(name), "-key."));
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let file = entry.file_name();
            if rest_of(&file, &drafts)
                .is_some_and(|mark| mark.len() == 16 && mark.bytes().all(|byte| byte.is_ascii_hexdigit()))
            {
                let _ = std::fs::remove_file(entry.path());
            }
            if let Some(worker) = rest_of(&file, &locks).and_then(decode_worker)
                && !known(worker)
            {
                self.remove_dead(&[worker]);
            }
        }
    }
}

/// What a file's name has after `prefix`.
fn rest_of<'a>(file: &'a OsStr, prefix: &Path) -> Option<&'a str> {
    let rest = file.as_encoded_bytes().strip_prefix(prefix.as_os_str().as_encoded_bytes())?;
    std::str::from_utf8(rest).ok()
}

fn decode_worker(text: &str) -> Option<WorkerId> {
    decode_id(text).ok().map(WorkerId)
}

/// Never through a link that somebody put in place of the file.
pub(crate) const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

fn lock_file(path: &Path) -> io::Result<File> {
    // Somebody who sweeps may hold the lock of a new file for a moment, and remove it.
    for _ in 0..100 {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(NO_FOLLOW)
            .open(path)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if names(path, &file) => {
                in_mode_0600(&file)?;
                // For people; and a file that is empty wakes nobody. The lock does not need it.
                let _ = writeln!(&file, "{}", std::process::id());
                return Ok(file);
            }
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => std::thread::sleep(std::time::Duration::from_millis(1)),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds this worker's lock"))
}

/// Whether the name still means this file.
fn names(path: &Path, file: &File) -> bool {
    let (Ok(named), Ok(open)) = (std::fs::symlink_metadata(path), file.metadata()) else { return false };
    (named.dev(), named.ino()) == (open.dev(), open.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn worker(n: u8) -> WorkerId {
        WorkerId([n; 16])
    }

    #[test]
    fn a_lock_lives_as_long_as_its_store() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (Workers::new(&dir.path().join("s.db")), Workers::new(&dir.path().join("s.db")));
        let id = worker(1);
        assert_eq!(two.ask(id), Lock::Unknown);
        one.hold(id).unwrap();
        one.hold(id).unwrap();
        assert_eq!(one.ask(id), Lock::Held);
        assert_eq!(two.ask(id), Lock::Held, "another store of the same process");
        let path = one.path(id);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        drop(one);
        assert_eq!(two.ask(id), Lock::Free);
        two.hold(id).unwrap();
        assert_eq!(two.ask(id), Lock::Held);
        two.release(id);
        assert!(!path.exists());
        assert_eq!(two.ask(id), Lock::Unknown);
    }

    #[test]
    fn files_of_the_living_stay_and_files_of_the_dead_go() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("s.db");
        let (one, two) = (Workers::new(&db), Workers::new(&db));
        let (lives, dead) = (worker(2), worker(3));
        one.hold(lives).unwrap();
        two.hold(dead).unwrap();
        two.let_go();
        one.remove_dead(&[lives, dead, worker(4)]);
        assert!(one.path(lives).exists() && !one.path(dead).exists());
        assert_eq!(one.ask(lives), Lock::Held);
    }

    #[test]
    fn a_sweep_removes_strays_only() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("s.db");
        let workers = Workers::new(&db);
        let (stray, row) = (worker(5), worker(6));
        for path in [workers.path(stray), workers.path(row)] {
            std::fs::write(path, "").unwrap();
        }
        for name in ["s.db-key", "s.db-key.0123456789abcdef", "s.db-w-notes", "other.db-w-x", "s.db-key.backup"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        workers.sweep(&|worker| worker == row);
        let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        let mut want = ["other.db-w-x", "s.db-key", "s.db-key.backup", "s.db-w-notes"].map(Into::into).to_vec();
        want.push(workers.path(row).file_name().unwrap().to_owned());
        want.sort();
        assert_eq!(left, want);
    }
}
