//! The writer thread: one a process, commits in groups.
//!
//! Everything that wants to be committed while a commit runs goes into the next group, so a slow medium makes larger
//! groups and not longer queues.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tidings_store::{Commit, CommitError, Done, Durability, Op, Store, StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use crate::clock::Timeline;
use crate::failpoint;
use crate::notify::{Notifier, lock};
use crate::owned::{self, Owned, Taken};

/// While the store fails, it is tried again after this, doubling …
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// … up to this.
const RETRY_LAST: Duration = Duration::from_secs(1);
/// A group takes at most this many commits, so that the first of them does not wait for ever.
const GROUP: usize = 4_096;

pub(crate) type Reply = oneshot::Sender<Result<Vec<Done>, CommitError>>;

/// A commit that waits for its group.
struct Waiting {
    commit: Commit,
    reply: Reply,
}

#[derive(Default)]
struct Queue {
    dirty: Vec<Arc<Owned>>,
    commits: Vec<Waiting>,
    stop: bool,
}

/// What the committer counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Groups committed.
    pub(crate) groups: AtomicU64,
    /// Events committed by writers of this process.
    pub(crate) events: AtomicU64,
    /// Events given up while the store was down.
    pub(crate) lost: AtomicU64,
    /// Events dropped because the store refused their writer.
    pub(crate) refused: AtomicU64,
    /// Groups that failed.
    pub(crate) failures: AtomicU64,
}

/// Hands work to the writer thread.
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Bytes of events numbered and not yet committed.
    buffered: AtomicUsize,
    limit: usize,
    failing: AtomicBool,
    pub(crate) counters: Counters,
}

impl Committer {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            queue: Mutex::default(),
            wake: Condvar::new(),
            buffered: AtomicUsize::new(0),
            limit,
            failing: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// A writer has something to commit.
    pub(crate) fn enqueue(&self, owned: &Arc<Owned>) {
        let mut queue = lock(&self.queue);
        queue.dirty.push(Arc::clone(owned));
        let first = queue.dirty.len() == 1 && queue.commits.is_empty();
        drop(queue);
        if first {
            self.wake.notify_one();
        }
    }

    /// Commits in the next group; the answer comes when it is done.
    pub(crate) fn submit(&self, commit: Commit) -> oneshot::Receiver<Result<Vec<Done>, CommitError>> {
        let (reply, receiver) = oneshot::channel();
        let mut queue = lock(&self.queue);
        if queue.stop {
            let _ = reply.send(Err(StoreError::new(StoreErrorKind::Closed, "the hub is closed").into()));
            return receiver;
        }
        queue.commits.push(Waiting { commit, reply });
        drop(queue);
        self.wake.notify_one();
        receiver
    }

    /// Counts what an append added.
    pub(crate) fn added(&self, bytes: usize) {
        self.buffered.fetch_add(bytes, Ordering::Relaxed);
    }

    fn removed(&self, bytes: usize) {
        self.buffered.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// More than a quarter of what may be buffered is: whoever can wait for a flush should.
    pub(crate) fn congested(&self) -> bool {
        self.buffered.load(Ordering::Relaxed) > self.limit / 4
    }

    /// Nothing more may be buffered unless something is given up.
    pub(crate) fn full(&self) -> bool {
        self.buffered.load(Ordering::Relaxed) > self.limit
    }

    /// The last group failed.
    pub(crate) fn failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Makes room while the store fails: the oldest events of this writer become a tombstone.
    pub(crate) fn give_up(&self, owned: &Owned) {
        while self.full() {
            let (bytes, events) = owned.give_up_oldest();
            if events == 0 {
                return;
            }
            self.removed(bytes);
            if self.counters.lost.fetch_add(events, Ordering::Relaxed) == 0 {
                tracing::error!(
                    limit = self.limit,
                    "the store is down and the buffer is full: events are being given up"
                );
            }
        }
    }

    /// Ends the thread once everything queued is committed or has failed once more.
    pub(crate) fn stop(&self) {
        lock(&self.queue).stop = true;
        self.wake.notify_all();
    }

    /// The writer thread. Returns when it was stopped and nothing is left, or nothing more can be done.
    pub(crate) fn run(&self, store: &dyn Store, timeline: &Timeline, notifier: &Notifier) {
        let mut retry = RETRY_FIRST;
        loop {
            let (dirty, commits, stop) = self.next_batch(self.failing().then_some(retry));
            if dirty.is_empty() && commits.is_empty() {
                if stop {
                    return;
                }
                continue;
            }
            if self.commit(store, timeline, notifier, dirty, commits) {
                retry = RETRY_FIRST;
            } else {
                retry = (retry * 2).min(RETRY_LAST);
                if stop {
                    self.fail_rest();
                    return;
                }
            }
        }
    }

    fn next_batch(&self, pause: Option<Duration>) -> (Vec<Arc<Owned>>, Vec<Waiting>, bool) {
        let mut queue = lock(&self.queue);
        if let Some(pause) = pause {
            // The store fails: what is queued stays queued for a while, unless the hub is closing.
            if !queue.stop {
                (queue, _) =
                    self.wake.wait_timeout_while(queue, pause, |q| !q.stop).unwrap_or_else(PoisonError::into_inner);
            }
        } else {
            queue = self
                .wake
                .wait_while(queue, |q| q.dirty.is_empty() && q.commits.is_empty() && !q.stop)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let dirty = std::mem::take(&mut queue.dirty);
        let commits = if queue.commits.len() > GROUP {
            let rest = queue.commits.split_off(GROUP);
            std::mem::replace(&mut queue.commits, rest)
        } else {
            std::mem::take(&mut queue.commits)
        };
        (dirty, commits, queue.stop)
    }

    /// One group. `false`: the store failed.
    fn commit(
        &self,
        store: &dyn Store,
        timeline: &Timeline,
        notifier: &Notifier,
        dirty: Vec<Arc<Owned>>,
        commits: Vec<Waiting>,
    ) -> bool {
        let (now, wall) = (timeline.now(), timeline.wall());
        let taken: Vec<(Arc<Owned>, Taken)> = dirty
            .into_iter()
            .map(|owned| {
                let taken = owned.take(wall);
                (owned, taken)
            })
            .collect();
        let mut group: Vec<Commit> = Vec::with_capacity(taken.len() + commits.len());
        for (owned, taken) in &taken {
            let durability = taken.end.as_ref().map_or(Durability::Process, |end| end.durability);
            group.push(Commit::new(durability, owned::ops(owned, taken, now)));
        }
        let (waiting, replies): (Vec<Commit>, Vec<Reply>) = commits.into_iter().map(|w| (w.commit, w.reply)).unzip();
        group.extend(waiting);

        failpoint::hit(if group.iter().any(|c| c.ops.iter().any(|op| matches!(op, Op::EndCall { .. }))) {
            "before_outcome_commit"
        } else {
            "before_commit"
        });
        let mut results = store.commit(&group).into_iter();
        if group.iter().any(|commit| commit.ops.iter().any(|op| matches!(op, Op::Enqueue(_)))) {
            failpoint::hit("after_commit_before_dispatch");
        }
        let mut failure: Option<StoreError> = None;
        for (owned, taken) in taken {
            match results.next() {
                Some(Ok(_)) => {
                    let events = taken.chunks.iter().map(|c| u64::from(c.count)).sum();
                    self.counters.events.fetch_add(events, Ordering::Relaxed);
                    self.removed(taken.chunks.iter().map(|c| c.weight() as usize).sum());
                    owned.done(&taken);
                    if let Some(end) = taken.end {
                        let _ = end.reply.send(Ok(()));
                    }
                    notifier.grown(owned.id);
                }
                Some(Err(CommitError::Refused(refused))) => self.refused(&owned, taken, refused, notifier),
                Some(Err(CommitError::Store(error))) => {
                    failure = Some(error);
                    if owned.give_back(taken) {
                        lock(&self.queue).dirty.push(owned);
                    }
                }
                None => self.refused(&owned, taken, tidings_store::Refused::Unknown, notifier),
            }
        }
        for reply in replies {
            let result = results.next().unwrap_or_else(|| {
                Err(StoreError::new(StoreErrorKind::Io, "the store answered fewer results than commits").into())
            });
            if let Err(CommitError::Store(error)) = &result {
                failure = Some(error.clone());
            }
            if result.is_ok() {
                for done in result.iter().flatten() {
                    if let Done::Appended { stream, .. } = done {
                        notifier.grown(*stream);
                    }
                }
            }
            let _ = reply.send(result);
        }
        self.note(failure)
    }

    fn refused(&self, owned: &Owned, taken: Taken, refused: tidings_store::Refused, notifier: &Notifier) {
        let mut events: u64 = taken.chunks.iter().map(|c| u64::from(c.count)).sum();
        self.removed(taken.chunks.iter().map(|c| c.weight() as usize).sum());
        let (bytes, more) = owned.refuse(refused.clone());
        self.removed(bytes);
        events += more;
        self.counters.refused.fetch_add(events, Ordering::Relaxed);
        if taken.end.is_none() && events > 0 {
            tracing::warn!(stream = %owned.id, events, %refused, "a writer was refused; its buffered events are dropped");
        }
        if let Some(end) = taken.end {
            let _ = end.reply.send(Err(refused.into()));
        }
        notifier.grown(owned.id);
    }

    /// Remembers whether the store works; one log line at each change.
    fn note(&self, failure: Option<StoreError>) -> bool {
        let failed = failure.is_some();
        let before = self.failing.swap(failed, Ordering::Relaxed);
        if let Some(error) = failure {
            self.counters.failures.fetch_add(1, Ordering::Relaxed);
            if !before {
                tracing::error!(%error, "the store fails; events stay in memory until it is back");
            }
        } else {
            self.counters.groups.fetch_add(1, Ordering::Relaxed);
            if before {
                tracing::info!("the store is back");
            }
        }
        !failed
    }

    /// The hub is closing and the store fails: nobody waits any longer.
    fn fail_rest(&self) {
        let mut queue = lock(&self.queue);
        let (dirty, commits) = (std::mem::take(&mut queue.dirty), std::mem::take(&mut queue.commits));
        drop(queue);
        let gone = || {
            CommitError::Store(StoreError::new(StoreErrorKind::Closed, "the hub closed while the store was failing"))
        };
        let mut events = 0;
        for owned in dirty {
            let taken = owned.take(0);
            events += taken.chunks.iter().map(|c| u64::from(c.count)).sum::<u64>();
            if let Some(end) = taken.end {
                let _ = end.reply.send(Err(gone()));
            }
        }
        for waiting in commits {
            let _ = waiting.reply.send(Err(gone()));
        }
        if events > 0 {
            tracing::error!(events, "the hub closed while the store was failing; events are lost");
        }
    }
}
