//! What all parts of an open hub share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use tidings_proto::fanout::mcp::MCP;
use tidings_proto::stream::StreamId;
use tidings_proto::time::StoreMillis;
use tidings_store::{CallId, Commit, Done, Durability, Op, Store, WorkerId};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::background;
use crate::call::{CallInner, Rooms};
use crate::clock::{Clock, Timeline};
use crate::committer::{Committer, Means};
use crate::entropy::Entropy;
use crate::error::{Error, ErrorCode, Result};
use crate::fanout::Fanouts;
use crate::fork;
use crate::load::Load;
use crate::metrics::Counters;
use crate::notify::{Notifier, Signal, lock};
use crate::options::Options;
use crate::outlet::Outlets;
use crate::routes::Routes;
use crate::sender::Sender;
use crate::unborn::Unborn;

/// How long the threads of a hub that was dropped may take to flush.
const EXIT_FLUSH: Duration = Duration::from_secs(2);
/// The longest deadline that means anything.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) timeline: Timeline,
    pub(crate) committer: Committer,
    pub(crate) notifier: Notifier,
    pub(crate) unborn: Arc<Unborn>,
    pub(crate) fanouts: Fanouts,
    pub(crate) options: Options,
    pub(crate) worker: WorkerId,
    /// When the first heartbeat was given.
    pub(crate) started: StoreMillis,
    pub(crate) sender: Sender,
    pub(crate) routes: Routes,
    pub(crate) outlets: Outlets,
    /// The attempts under way.
    pub(crate) load: Load,
    pub(crate) counters: Counters,
    /// Verifications under way.
    pub(crate) verifying: AtomicU32,
    /// Nothing is leased for the time being.
    paused: AtomicBool,
    /// The calls that run in this process.
    pub(crate) calls: Mutex<HashMap<CallId, Weak<CallInner>>>,
    /// How many calls go on without their request, by whose limit counts.
    pub(crate) rooms: Arc<Rooms>,
    /// Ends of calls that came after another.
    pub(crate) late: AtomicU64,
    /// Anything may be due: timers were committed, the clock was moved, or the hub is closing.
    pub(crate) work: Notify,
    /// Deliveries were committed.
    pub(crate) enqueued: Notify,
    /// The first tail or call here came that wants to know what other processes commit.
    pub(crate) watched: Notify,
    /// No new deliveries are taken; attempts in flight may end.
    pub(crate) draining: AtomicBool,
    /// Attempts that are still in flight then are cut.
    drain_until: Mutex<Option<Instant>>,
    entropy: Entropy,
    generation: u32,
    closed: AtomicBool,
    /// Threads that still run.
    running: Mutex<usize>,
    ended: Condvar,
    /// Who they are.
    threads: Mutex<Vec<ThreadId>>,
    /// The background thread's runtime, for what needs its clock.
    io: OnceLock<tokio::runtime::Handle>,
    /// The background thread has ended: what it has not done is not done any more.
    gone: watch::Sender<bool>,
}

impl Core {
    /// Opens the hub over a store and starts its two threads.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        options: Options,
        clock: Arc<dyn Clock>,
        rooms: Arc<Rooms>,
    ) -> Result<Arc<Self>> {
        let sender = Sender::new(&options);
        Self::start_with(store, options, clock, sender, rooms)
    }

    /// The same, with this sender.
    pub(crate) fn start_with(
        store: Arc<dyn Store>,
        options: Options,
        clock: Arc<dyn Clock>,
        sender: Sender,
        rooms: Arc<Rooms>,
    ) -> Result<Arc<Self>> {
        let core = Self::open(store, options, clock, sender, Entropy::System, rooms)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime
            .map_err(|error| Error::new(ErrorCode::Unavailable, format!("cannot start the IO thread: {error}")))?;
        core.set_io(runtime.handle().clone());
        let (writer, io) = (Arc::clone(&core), Arc::clone(&core));
        core.spawn_thread("tidings-writer", move || {
            let _exit = OnExit(|| writer.writer_ended());
            writer.with_means(|means| writer.committer.run(means));
            writer.close_store();
        })?;
        let started = core.spawn_thread("tidings-io", move || {
            let _exit = OnExit(|| io.io_ended());
            background::run(&io, runtime);
        });
        if let Err(error) = started {
            core.committer.stop();
            return Err(error);
        }
        Ok(core)
    }

    /// The hub over a store, before its threads.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        options: Options,
        clock: Arc<dyn Clock>,
        sender: Sender,
        entropy: Entropy,
        rooms: Arc<Rooms>,
    ) -> Result<Arc<Self>> {
        let offset = store.timeline(&clock.boot(), clock.wall())?;
        let timeline = Timeline { clock: Arc::clone(&clock), offset };
        let core = Arc::new(Self {
            started: timeline.now(),
            timeline,
            committer: Committer::new(options.buffer_bytes),
            notifier: Notifier::default(),
            unborn: Unborn::new(),
            fanouts: Fanouts::new(&MCP, &options),
            worker: WorkerId(entropy.draw()?),
            sender,
            routes: Routes::default(),
            outlets: Outlets::default(),
            load: Load::default(),
            counters: Counters::default(),
            verifying: AtomicU32::new(0),
            paused: AtomicBool::new(false),
            calls: Mutex::default(),
            rooms,
            late: AtomicU64::new(0),
            work: Notify::new(),
            enqueued: Notify::new(),
            watched: Notify::new(),
            draining: AtomicBool::new(false),
            drain_until: Mutex::default(),
            entropy,
            generation: fork::generation(),
            closed: AtomicBool::new(false),
            running: Mutex::new(2),
            ended: Condvar::new(),
            threads: Mutex::default(),
            io: OnceLock::new(),
            gone: watch::Sender::new(false),
            store,
            options,
        });
        // The first heartbeat goes straight to the store: whatever is wrong with it is told by the opening.
        let first = Commit::new(Durability::Process, vec![core.heartbeat_op()]);
        core.store.commit(&[first]).pop().unwrap_or_else(|| Ok(Vec::new())).map_err(Error::from)?;
        let weak = Arc::downgrade(&core);
        clock.on_move(Arc::new(move || {
            if let Some(core) = weak.upgrade() {
                core.work.notify_one();
            }
        }));
        Ok(core)
    }

    /// Where futures of the hub run.
    pub(crate) fn set_io(&self, runtime: tokio::runtime::Handle) {
        let _ = self.io.set(runtime);
    }

    /// What the writer thread works with.
    pub(crate) fn with_means<T>(&self, work: impl FnOnce(&Means<'_>) -> T) -> T {
        let heartbeat = || self.heartbeat_op();
        let (store, timeline, notifier) = (&*self.store, &self.timeline, &self.notifier);
        work(&Means { store, timeline, notifier, enqueued: &self.enqueued, heartbeat: &heartbeat })
    }

    /// The writer thread's last act where it comes to its end in order.
    pub(crate) fn close_store(&self) {
        if let Err(error) = self.store.close() {
            tracing::warn!(%error, "closing the store");
        }
    }

    /// The writer thread is gone, in whatever way.
    pub(crate) fn writer_ended(&self) {
        self.committer.fail_rest();
        self.thread_ended();
    }

    /// The background thread is gone, in whatever way.
    pub(crate) fn io_ended(&self) {
        self.closed.store(true, Ordering::Release);
        self.gone.send_replace(true);
        self.committer.stop();
        self.notifier.all();
        self.fanouts.wake();
        self.thread_ended();
    }

    /// Whether this process may still use the hub.
    pub(crate) fn alive(&self) -> Result<()> {
        if !self.is_ours() {
            return Err(Error::forked());
        }
        if self.is_closed() {
            return Err(Error::closed("hub"));
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// This process opened the hub, rather than inheriting it by a fork.
    pub(crate) fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Starts a future on the background thread. Nothing comes of it if the hub closes before it is done.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<tokio::task::JoinHandle<T>> {
        Some(self.io.get()?.spawn(future))
    }

    /// Ready once the background thread has ended.
    pub(crate) async fn gone(&self) {
        // The sender lives as long as the core, so this ends by the value only.
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// A signal that is raised whenever the stream grows.
    pub(crate) fn watch(&self, stream: StreamId) -> Arc<Signal> {
        let (signal, first) = self.notifier.watch(stream);
        if first {
            self.watched.notify_one();
        }
        signal
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<Vec<Done>> {
        self.alive()?;
        match self.committer.submit(commit).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Error::closed("hub")),
        }
    }

    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N]> {
        self.entropy.draw()
    }

    /// A number for jitter, spread evenly.
    pub(crate) fn random_number(&self) -> u64 {
        self.random::<16>().map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default()))
    }

    /// Whether deliveries are held back for the time being.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Holds deliveries back, or lets them go again.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.work.notify_one();
    }

    pub(crate) fn heartbeat_op(&self) -> Op {
        let until = self.timeline.now().saturating_add(millis(self.options.worker_lease));
        Op::Heartbeat { worker: self.worker, until }
    }

    fn spawn_thread(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        let handle =
            spawned.map_err(|error| Error::new(ErrorCode::Unavailable, format!("cannot start a thread: {error}")))?;
        lock(&self.threads).push(handle.thread().id());
        Ok(())
    }

    /// The simulation's one thread is both of the hub's: it must not wait for itself.
    #[cfg(feature = "simulation")]
    pub(crate) fn without_threads(&self) {
        lock(&self.threads).push(std::thread::current().id());
    }

    fn thread_ended(&self) {
        *lock(&self.running) -= 1;
        self.ended.notify_all();
    }

    /// Nothing new is begun from here on.
    pub(crate) fn close_door(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Attempts in flight at close may last until this.
    pub(crate) fn drain_until(&self) -> Instant {
        lock(&self.drain_until).unwrap_or_else(Instant::now)
    }

    /// Stops both threads: the background ends what is in flight, or cuts it after three quarters of `wait`; then the
    /// writer commits what is queued and closes the store. Waits at most `wait`; says whether all was done by then. Does
    /// nothing in a forked child. On a thread of the hub's own (a waker may run there) it does not wait.
    pub(crate) fn stop(&self, wait: Duration) -> bool {
        if !self.is_ours() {
            return true;
        }
        let wait = wait.min(FOR_EVER);
        self.close_door();
        *lock(&self.drain_until) = Some(Instant::now() + wait / 4 * 3);
        self.draining.store(true, Ordering::Release);
        self.committer.hurry();
        self.work.notify_one();
        self.notifier.all(); // tails end now, not when the last attempt has
        self.outlets.wake_all();
        self.fanouts.wake();
        if lock(&self.threads).contains(&std::thread::current().id()) {
            return false;
        }
        let running = lock(&self.running);
        let (running, _) = self
            .ended
            .wait_timeout_while(running, wait, |running| *running > 0)
            .unwrap_or_else(PoisonError::into_inner);
        let done = *running == 0;
        if !done {
            tracing::error!("the hub did not finish in time; what is in memory may be lost");
        }
        done
    }
}

/// Stops the hub's threads when its last handle goes away.
pub(crate) struct Guard(pub(crate) Arc<Core>);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0.is_ours() && !self.0.is_closed() {
            self.0.stop(EXIT_FLUSH);
        }
    }
}

/// Runs at the end of a thread, however it ends.
pub(crate) struct OnExit<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnExit<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
