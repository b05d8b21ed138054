//! What all parts of an open hub share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tidings_store::{CallId, Commit, Done, Durability, Op, Store, WorkerId};
use tokio::sync::Notify;

use crate::background;
use crate::call::CallInner;
use crate::clock::{Clock, Timeline};
use crate::committer::Committer;
use crate::error::{Error, ErrorCode, Result};
use crate::fork;
use crate::notify::{Notifier, lock};
use crate::options::Options;
use crate::sender::Sender;

/// How long the threads of a hub that was dropped may take to flush.
const EXIT_FLUSH: Duration = Duration::from_secs(2);

pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) timeline: Timeline,
    pub(crate) committer: Committer,
    pub(crate) notifier: Notifier,
    pub(crate) options: Options,
    pub(crate) worker: WorkerId,
    pub(crate) sender: Sender,
    /// The calls that run in this process.
    pub(crate) calls: Mutex<HashMap<CallId, Weak<CallInner>>>,
    /// Deliveries or timers were committed, or the hub is closing.
    pub(crate) work: Notify,
    /// No new deliveries are taken; attempts in flight may end.
    pub(crate) draining: AtomicBool,
    generation: u32,
    closed: AtomicBool,
    /// Threads that still run.
    running: Mutex<usize>,
    ended: Condvar,
    /// The background thread's runtime, for what needs its clock.
    io: OnceLock<tokio::runtime::Handle>,
}

impl Core {
    /// Opens the hub over a store and starts its two threads.
    pub(crate) fn start(store: Arc<dyn Store>, options: Options, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let offset = store.timeline(&clock.boot(), clock.wall())?;
        let core = Arc::new(Self {
            timeline: Timeline { clock, offset },
            committer: Committer::new(options.buffer_bytes),
            notifier: Notifier::default(),
            worker: WorkerId(random()?),
            sender: Sender::new(&options),
            calls: Mutex::default(),
            work: Notify::new(),
            draining: AtomicBool::new(false),
            generation: fork::generation(),
            closed: AtomicBool::new(false),
            running: Mutex::new(2),
            ended: Condvar::new(),
            io: OnceLock::new(),
            store,
            options,
        });
        // The first heartbeat goes straight to the store: whatever is wrong with it is told by the opening.
        let first = Commit::new(Durability::Process, vec![core.heartbeat_op()]);
        core.store.commit(&[first]).pop().unwrap_or_else(|| Ok(Vec::new())).map_err(Error::from)?;

        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime
            .map_err(|error| Error::new(ErrorCode::Unavailable, format!("cannot start the IO thread: {error}")))?;
        let _ = core.io.set(runtime.handle().clone());
        let (committer, background) = (Arc::clone(&core), Arc::clone(&core));
        spawn("tidings-writer", move || {
            committer.committer.run(&*committer.store, &committer.timeline, &committer.notifier);
            committer.thread_ended();
        })?;
        spawn("tidings-io", move || {
            background::run(&background, runtime);
            background.thread_ended();
        })?;
        Ok(core)
    }

    /// Whether this process may still use the hub.
    pub(crate) fn alive(&self) -> Result<()> {
        if self.generation != fork::generation() {
            return Err(Error::forked());
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::closed("hub"));
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// This process opened the hub, rather than inheriting it by a fork.
    pub(crate) fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Runs a future on the background thread. `None`: the hub closes before it is done.
    pub(crate) async fn on_io<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        self.io.get()?.spawn(future).await.ok()
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<Vec<Done>> {
        self.alive()?;
        match self.committer.submit(commit).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Error::closed("hub")),
        }
    }

    pub(crate) fn random(&self) -> Result<[u8; 16]> {
        random()
    }

    pub(crate) fn heartbeat_op(&self) -> Op {
        let until = self.timeline.now() + millis(self.options.worker_lease);
        Op::Heartbeat { worker: self.worker, until }
    }

    fn thread_ended(&self) {
        *lock(&self.running) -= 1;
        self.ended.notify_all();
    }

    /// Stops both threads: the writer commits what is queued, the background ends what is in flight. Waits at most
    /// `wait`; says whether all was done by then. Does nothing in a forked child.
    pub(crate) fn stop(&self, wait: Duration) -> bool {
        if !self.is_ours() {
            return true;
        }
        self.draining.store(true, Ordering::Release);
        self.closed.store(true, Ordering::Release);
        self.work.notify_waiters();
        self.work.notify_one();
        let running = lock(&self.running);
        let (running, timeout) = self
            .ended
            .wait_timeout_while(running, wait, |running| *running > 0)
            .unwrap_or_else(PoisonError::into_inner);
        let done = *running == 0;
        drop(running);
        if timeout.timed_out() && !done {
            tracing::error!("the hub did not finish in time; what is in memory may be lost");
        }
        if done && let Err(error) = self.store.close() {
            tracing::warn!(%error, "closing the store");
        }
        // Whoever waits for events learns that none will come.
        self.notifier.all();
        done
    }
}

/// Stops the hub's threads when its last handle goes away.
pub(crate) struct Guard(pub(crate) Arc<Core>);

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.0.is_closed() {
            self.0.stop(EXIT_FLUSH);
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.map(drop).map_err(|error| Error::new(ErrorCode::Unavailable, format!("cannot start a thread: {error}")))
}

pub(crate) fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorCode::Unavailable, format!("no randomness: {error}")))?;
    Ok(bytes)
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
