//! The writer thread: one a process, commits in groups.
//!
//! Everything that wants to be committed while a commit runs goes into the next group, so a slow medium makes larger
//! groups and not longer queues.
//!
//! While the store fails, nothing is taken from the writers until a heartbeat gets through again: what waits stays in
//! one place and in order, so that what must be given up can be the oldest.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tidings_store::{Commit, CommitError, Done, Durability, Op, Store, StoreError, StoreErrorKind};
use tokio::sync::{Notify, oneshot};

use crate::clock::Timeline;
use crate::failpoint;
use crate::inbox::{Inbox, Work};
use crate::notify::Notifier;
use crate::owned::{self, Owned, Taken};

/// While the store fails, it is tried again after this, doubling …
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// … up to this. Whoever waits for a commit meanwhile is told of the failure after at most that long.
const RETRY_LAST: Duration = Duration::from_secs(1);
/// A group takes at most this many commits, so that the first of them does not wait for ever.
const GROUP: usize = 4_096;
/// A chunk is sealed when it weighs this much.
const CHUNK_BYTES: usize = 64 << 10;
/// Of the whole buffer a chunk is at most this part: giving one up costs no more than that.
const CHUNKS_A_BUFFER: usize = 16;

/// What became of a commit.
pub(crate) type Answer = Result<Vec<Done>, CommitError>;

/// The same, and the commit itself, which whoever asked for it may want to try again.
pub(crate) type Answered = (Answer, Commit);

/// What waits for its group.
enum Waiting {
    One(Commit, oneshot::Sender<Answer>),
    /// Commits of somebody who waits for all of them: one answer, so that the one who waits is woken once.
    All(Vec<Commit>, oneshot::Sender<Vec<Answered>>),
}

impl Waiting {
    fn fail(self, error: &StoreError) {
        match self {
            Self::One(_, reply) => drop(reply.send(Err(error.clone().into()))),
            Self::All(commits, reply) => {
                drop(reply.send(commits.into_iter().map(|commit| (Err(error.clone().into()), commit)).collect()));
            }
        }
    }
}

/// Who is to be told, and of how many commits.
enum Reply {
    One(oneshot::Sender<Answer>),
    All(usize, oneshot::Sender<Vec<Answered>>),
}

/// Somebody waits until everything handed over before is committed.
struct Flush {
    durability: Durability,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// What waits for the next group, and what one group is made of.
#[derive(Default)]
struct Queue {
    dirty: Vec<Arc<Owned>>,
    commits: Vec<Waiting>,
    flushes: Vec<Flush>,
    /// The writer thread has taken some of it and is not done with that.
    in_hand: bool,
}

impl Queue {
    /// Whether everything that was handed over is committed, or was refused.
    fn is_settled(&self) -> bool {
        self.is_empty() && !self.in_hand
    }
}

impl Work for Queue {
    fn is_empty(&self) -> bool {
        self.dirty.is_empty() && self.commits.is_empty() && self.flushes.is_empty()
    }
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

/// What the writer thread works with.
pub(crate) struct Means<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) timeline: &'a Timeline,
    pub(crate) notifier: &'a Notifier,
    /// Told when deliveries are committed, whoever asked for it.
    pub(crate) enqueued: &'a Notify,
    /// A heartbeat of this worker.
    pub(crate) heartbeat: &'a dyn Fn() -> Op,
}

/// Hands work to the writer thread.
pub(crate) struct Committer {
    queue: Inbox<Queue>,
    /// Bytes of events numbered and not yet committed.
    buffered: AtomicUsize,
    limit: usize,
    failing: AtomicBool,
    /// The log has told of events given up since the buffer was last not congested.
    told_loss: AtomicBool,
    pub(crate) counters: Counters,
}

impl Committer {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            queue: Inbox::default(),
            buffered: AtomicUsize::new(0),
            limit,
            failing: AtomicBool::new(false),
            told_loss: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// A writer has something to commit. Called under the writer's lock, which therefore comes before the queue's.
    pub(crate) fn enqueue(&self, owned: &Arc<Owned>) {
        self.queue.put(|queue| queue.dirty.push(Arc::clone(owned)));
    }

    /// Commits in the next group; the answer comes when it is done.
    pub(crate) fn submit(&self, commit: Commit) -> oneshot::Receiver<Answer> {
        let (reply, receiver) = oneshot::channel();
        self.put(Waiting::One(commit, reply));
        receiver
    }

    /// The same for several, each wholly or not at all by itself, which are done in one group and in this order. Answers one
    /// result for each, and gives it back.
    pub(crate) fn submit_all(&self, commits: Vec<Commit>) -> oneshot::Receiver<Vec<Answered>> {
        let (reply, receiver) = oneshot::channel();
        self.put(Waiting::All(commits, reply));
        receiver
    }

    fn put(&self, waiting: Waiting) {
        if let Err(waiting) = self.queue.offer(waiting, |queue, waiting| queue.commits.push(waiting)) {
            waiting.fail(&closed());
        }
    }

    /// Answers when everything handed over before is committed that durably. What waits is committed so at once: an append
    /// and its flush are one commit. Where nothing waits, nobody is woken for it.
    pub(crate) fn flush(&self, durability: Durability) -> oneshot::Receiver<Result<(), StoreError>> {
        let (reply, receiver) = oneshot::channel();
        // A store that fails has to be asked; and what is to be on disk may have been committed less durably.
        if durability == Durability::Process && self.queue.look(|queue| queue.is_settled()) && !self.failing() {
            let _ = reply.send(Ok(()));
            return receiver;
        }
        let flush = Flush { durability, reply };
        if let Err(Flush { reply, .. }) = self.queue.offer(flush, |queue, flush| queue.flushes.push(flush)) {
            let _ = reply.send(Err(closed()));
        }
        receiver
    }

    /// Counts what an append adds, before anybody can take it.
    pub(crate) fn added(&self, bytes: usize) {
        self.buffered.fetch_add(bytes, Ordering::Relaxed);
    }

    fn removed(&self, bytes: usize) {
        self.buffered.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of events that wait for the store.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered.load(Ordering::Relaxed)
    }

    /// A chunk is sealed when it weighs this much.
    pub(crate) fn chunk_bytes(&self) -> usize {
        CHUNK_BYTES.min(self.limit / CHUNKS_A_BUFFER)
    }

    /// More than a quarter of what may be buffered is: whoever can wait for a flush should.
    pub(crate) fn congested(&self) -> bool {
        self.buffered() > self.limit / 4
    }

    /// Nothing more may be buffered unless something is given up.
    pub(crate) fn full(&self) -> bool {
        self.buffered() > self.limit
    }

    /// The last group failed.
    pub(crate) fn failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Makes room: the oldest events that are not in the writer thread's hands, whosever they are, become tombstones. Makes a little more
    /// than is needed now, so that it has to look through the writers only now and then.
    pub(crate) fn give_up(&self) {
        let dirty = self.queue.look(|queue| queue.dirty.clone());
        let mut oldest: std::collections::BinaryHeap<_> = dirty
            .iter()
            .enumerate()
            .filter_map(|(at, owned)| owned.oldest().map(|time| std::cmp::Reverse((time, at))))
            .collect();
        while self.buffered() > self.limit - self.limit / 8
            && let Some(std::cmp::Reverse((_, at))) = oldest.pop()
        {
            let (bytes, events) = dirty[at].give_up_oldest();
            self.removed(bytes);
            self.counters.lost.fetch_add(events, Ordering::Relaxed);
            if events > 0 && !self.told_loss.swap(true, Ordering::Relaxed) {
                tracing::error!(limit = self.limit, "the buffer is full: the oldest events are given up");
            }
            if let Some(time) = dirty[at].oldest() {
                oldest.push(std::cmp::Reverse((time, at)));
            }
        }
    }

    /// The hub is closing: a store that fails is tried once more, and not waited for.
    pub(crate) fn hurry(&self) {
        self.queue.hurry();
    }

    /// Ends the thread once everything queued is committed or has failed once more.
    pub(crate) fn stop(&self) {
        self.queue.stop();
    }

    /// The writer thread. Returns when it was stopped and nothing is left, or nothing more can be done.
    pub(crate) fn run(&self, means: &Means<'_>) {
        let mut retry = RETRY_FIRST;
        loop {
            let stop = if self.failing() { self.queue.pause(retry, RETRY_FIRST) } else { self.queue.wait() };
            if self.turn(means, stop, &mut retry).is_break() {
                return;
            }
        }
    }

    /// The same as a future, for a simulation. `late` says how long the thread takes to come round each time.
    #[cfg(feature = "simulation")]
    pub(crate) async fn simulate(&self, core: &crate::core::Core, late: impl Fn() -> Duration) {
        let mut retry = RETRY_FIRST;
        loop {
            self.queue.simulate_wait(self.failing().then_some((retry, RETRY_FIRST))).await;
            tokio::time::sleep(late()).await;
            let stop = self.queue.is_stopped();
            if core.with_means(|means| self.turn(means, stop, &mut retry)).is_break() {
                return;
            }
        }
    }

    /// One round of the writer thread, after its wait.
    fn turn(&self, means: &Means<'_>, stop: bool, retry: &mut Duration) -> ControlFlow<()> {
        let failing = self.failing();
        if failing && let Err(error) = probe(means) {
            *retry = (*retry * 2).min(RETRY_LAST);
            self.still_failing(error);
            return self.goes_on_unless(stop);
        }
        let batch = self.next_batch();
        if batch.is_empty() {
            if failing {
                self.note(None);
            }
            return if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        if self.commit(means, batch) {
            *retry = RETRY_FIRST;
            ControlFlow::Continue(())
        } else {
            *retry = (*retry * 2).min(RETRY_LAST);
            self.goes_on_unless(stop)
        }
    }

    /// The store fails.
    fn goes_on_unless(&self, stop: bool) -> ControlFlow<()> {
        if stop {
            self.fail_rest();
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn next_batch(&self) -> Queue {
        self.queue.look(|queue| {
            let rest = if queue.commits.len() > GROUP { queue.commits.split_off(GROUP) } else { Vec::new() };
            let in_hand = !queue.is_empty();
            std::mem::replace(queue, Queue { commits: rest, in_hand, ..Queue::default() })
        })
    }

    /// One group. `false`: the store failed.
    fn commit(&self, means: &Means<'_>, batch: Queue) -> bool {
        let now = means.timeline.now();
        let taken: Vec<(Arc<Owned>, Taken)> = batch
            .dirty
            .into_iter()
            .map(|owned| {
                let taken = owned.take();
                (owned, taken)
            })
            .collect();
        let mut group: Vec<Commit> = Vec::with_capacity(taken.len() + batch.commits.len());
        for (owned, taken) in &taken {
            let durability = taken.end.as_ref().map_or(Durability::Process, |end| end.durability);
            group.push(Commit::new(durability, owned::ops(owned, taken, now)));
        }
        let mut replies = Vec::with_capacity(batch.commits.len());
        for waiting in batch.commits {
            match waiting {
                Waiting::One(commit, reply) => {
                    group.push(commit);
                    replies.push(Reply::One(reply));
                }
                Waiting::All(commits, reply) => {
                    replies.push(Reply::All(commits.len(), reply));
                    group.extend(commits);
                }
            }
        }
        let asked = batch.flushes.iter().map(|flush| flush.durability).max().unwrap_or_default();
        if asked == Durability::Disk {
            match group.first_mut() {
                Some(first) if !taken.is_empty() => first.durability = asked,
                // The heartbeat is what gives the store something to sync when all else is committed already.
                _ => group.push(Commit::new(asked, vec![(means.heartbeat)()])),
            }
        }

        failpoint::hit(if holds(&group, |op| matches!(op, Op::EndCall { .. })) {
            "before_outcome_commit"
        } else {
            "before_commit"
        });
        let mut results = if group.is_empty() { Vec::new() } else { means.store.commit(&group) };
        let enqueues = holds(&group, |op| matches!(op, Op::Enqueue(_)));
        if enqueues {
            failpoint::hit("after_commit_before_dispatch");
        }
        let short = || StoreError::new(StoreErrorKind::Io, "the store answered fewer results than commits").into();
        results.resize_with(group.len(), || Err(short()));
        let mut failure = results.iter().find_map(|result| match result {
            Err(CommitError::Store(error)) => Some(error.clone()),
            _ => None,
        });
        let refused = |results: &[Result<_, _>]| !results.is_empty() && results.iter().all(Result::is_err);
        if asked == Durability::Disk && failure.is_none() && refused(&results[..taken.len()]) {
            // Nothing was written by those who were to be synced.
            failure = probe(means).err();
        }
        // Before anybody hears of it, so that whoever does finds the hub knowing it.
        let works = if group.is_empty() && !self.failing() { true } else { self.note(failure.clone()) };
        let mut results = results.into_iter();
        let mut commits = group.into_iter().skip(taken.len());
        for ((owned, taken), result) in taken.into_iter().zip(results.by_ref()) {
            match result {
                Ok(_) => {
                    self.counters.events.fetch_add(taken.events(), Ordering::Relaxed);
                    self.removed(taken.bytes());
                    owned.done(&taken);
                    means.notifier.committed(owned.id, owned.claim, &taken.chunks, taken.end.is_some());
                    if let Some(end) = taken.end {
                        let _ = end.reply.send(Ok(()));
                    }
                    means.notifier.grown(owned.id);
                }
                Err(CommitError::Refused(refused)) => self.refused(&owned, taken, refused, means.notifier),
                Err(CommitError::Store(_)) => owned.give_back(self, taken),
            }
        }
        // What failed waits in the queue again.
        self.queue.look(|queue| queue.in_hand = false);
        let mut results = results.inspect(|result| {
            for done in result.iter().flatten() {
                if let Done::Appended { stream, .. } = done {
                    means.notifier.grown(*stream);
                }
            }
        });
        for reply in replies {
            match reply {
                Reply::One(reply) => {
                    commits.next();
                    drop(results.next().map(|result| reply.send(result)));
                }
                Reply::All(count, reply) => {
                    drop(reply.send(results.by_ref().zip(commits.by_ref()).take(count).collect()));
                }
            }
        }
        if enqueues {
            means.enqueued.notify_one();
        }
        for flush in batch.flushes {
            let _ = flush.reply.send(failure.clone().map_or(Ok(()), Err));
        }
        works
    }

    fn refused(&self, owned: &Owned, taken: Taken, refused: tidings_store::Refused, notifier: &Notifier) {
        self.removed(taken.bytes());
        let (bytes, more) = owned.refuse(refused.clone());
        self.removed(bytes);
        let events = taken.events() + more;
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
                tracing::warn!("the store is back");
            }
            if before || !self.congested() {
                self.told_loss.store(false, Ordering::Relaxed);
            }
        }
        !failed
    }

    /// The store was tried and still fails: whoever waits for a commit is told, the writers' events stay.
    fn still_failing(&self, error: StoreError) {
        self.note(Some(error.clone()));
        let (commits, flushes) =
            self.queue.look(|queue| (std::mem::take(&mut queue.commits), std::mem::take(&mut queue.flushes)));
        commits.into_iter().for_each(|waiting| waiting.fail(&error));
        for flush in flushes {
            let _ = flush.reply.send(Err(error.clone()));
        }
    }

    /// The thread ends and nothing of what is left will be committed: nobody waits any longer.
    pub(crate) fn fail_rest(&self) {
        self.queue.stop();
        // What is left stays in hand for ever: it is never committed.
        let left = Queue { in_hand: true, ..Queue::default() };
        let Queue { dirty, commits, flushes, .. } = self.queue.look(|queue| std::mem::replace(queue, left));
        let closed = || StoreError::new(StoreErrorKind::Closed, "the hub closed before it was committed");
        let gone = || CommitError::Store(closed());
        let mut events = 0;
        for owned in dirty {
            let taken = owned.take();
            self.removed(taken.bytes());
            events += taken.events();
            if let Some(end) = taken.end {
                let _ = end.reply.send(Err(gone()));
            }
        }
        commits.into_iter().for_each(|waiting| waiting.fail(&closed()));
        for flush in flushes {
            let _ = flush.reply.send(Err(closed()));
        }
        if events > 0 {
            tracing::error!(events, "the hub closed while the store was failing; events are lost");
        }
    }
}

fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Closed, "the hub is closed")
}

/// Asks a store that failed whether it works again, with the least it can be asked for.
fn probe(means: &Means<'_>) -> Result<(), StoreError> {
    let commit = Commit::new(Durability::Disk, vec![(means.heartbeat)()]);
    match means.store.commit(&[commit]).pop() {
        Some(Err(CommitError::Store(error))) => Err(error),
        Some(Ok(_) | Err(CommitError::Refused(_))) | None => Ok(()),
    }
}

fn holds(group: &[Commit], what: impl Fn(&Op) -> bool) -> bool {
    group.iter().any(|commit| commit.ops.iter().any(&what))
}

#[cfg(test)]
mod tests;
