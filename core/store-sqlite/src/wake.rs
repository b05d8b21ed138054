//! Tells at once of commits by other processes.
//!
//! Each worker has a file of its own, its lock (see [`workers`](crate::workers)). After a group is committed one byte of it is
//! read, and whoever watches it by inotify is told of that access. So the kernel keeps the list of those who want to
//! know: a process that is killed or forked leaves nothing behind, somebody who is stopped holds up nobody, and where nobody
//! watches a commit costs one small read more (0.3 µs). Nothing is written, so no page of the file gets dirty.
//!
//! Whoever watches learns of new workers by their files' coming into the directory. What gets lost (the queue of events
//! overflows, a file was made without content because the disk was full) is found by the poll of whoever waits.
//!
//! A counter in memory that the processes share, with a futex, would be as quick. It needs code that Rust cannot check, which
//! is kept out of the core; and a process on which the file is cut short is ended by a signal.

use std::collections::HashMap;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tidings_store::WorkerId;

use crate::lock;
use crate::workers::Workers;

/// Watches the workers of other stores.
pub(crate) struct Wake {
    queue: OwnedFd,
    dir: PathBuf,
    workers: Workers,
    watched: Mutex<HashMap<i32, WorkerId>>,
}

impl Wake {
    /// Watches from now on. An error: the system has no more such queues for this user, or the file system does not support
    /// it.
    pub(crate) fn new(workers: Workers) -> rustix::io::Result<Self> {
        let dir = workers.dir().ok_or(Errno::NOENT)?.to_owned();
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&queue, &dir, WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)?;
        let wake = Self { queue, dir, workers, watched: Mutex::default() };
        // After the directory is watched, so that none is missed; one that is watched twice counts once.
        for entry in std::fs::read_dir(&wake.dir).into_iter().flatten().flatten() {
            wake.watch(entry.file_name());
        }
        Ok(wake)
    }

    /// Watches the file if it is the lock of a worker of another store.
    fn watch(&self, file: OsString) -> bool {
        let Some(worker) = self.workers.named(&file).filter(|worker| !self.workers.is_mine(*worker)) else {
            return false;
        };
        let flags = WatchFlags::ACCESS | WatchFlags::DONT_FOLLOW;
        match inotify::add_watch(&self.queue, self.dir.join(file), flags) {
            Ok(watch) => {
                lock(&self.watched).insert(watch, worker);
                true
            }
            // Gone again, or one too many: the poll has to do.
            Err(_) => false,
        }
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl tidings_store::Wake for Wake {
    fn clear(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut events = inotify::Reader::new(&self.queue, &mut buffer);
        let mut woken = false;
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => return woken,
            };
            let (what, watch) = (event.events(), event.wd());
            let name = event.file_name().map(|name| std::ffi::OsStr::from_bytes(name.to_bytes()).to_owned());
            if what.contains(ReadFlags::IGNORED) {
                lock(&self.watched).remove(&watch);
            } else if what.contains(ReadFlags::QUEUE_OVERFLOW) || lock(&self.watched).contains_key(&watch) {
                woken = true;
            } else if let Some(name) = name {
                // What it committed before it was watched is to be looked for.
                woken |= self.watch(name);
            }
        }
    }
}
