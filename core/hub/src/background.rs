//! The background thread: heartbeats, timers, lost calls, retention, deliveries, and what other processes committed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings_proto::time::StoreMillis;
use tidings_store::{Commit, CommitError, Done, Durability, Op};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, timeout_at};

use crate::call;
use crate::core::{Core, millis};
use crate::dispatch::{self, Attempts, Outcome};
use crate::fanout::others as published;
use crate::others::Others;
use crate::verify;

/// How often, in milliseconds, due work of other processes is looked for when nothing is known to be due.
const LOOK_MS: i64 = 1_000;
/// Attempts that end while others are under way free their slots together: those that follow are leased in one commit, once
/// a part of the attempts has ended …
const ENDED_PART: usize = 4;
/// … or after so long, by the runtime's clock: that of the hub may stand still.
const ENDED_WAIT: Duration = Duration::from_millis(2);
/// How often, in milliseconds, retention looks for what may go.
const TRIM_MS: i64 = 1_000;
/// After how many milliseconds something that is due and of which nothing came is looked at again: somebody else is at
/// it, its commit is under way, or every slot is taken.
const AGAIN_MS: i64 = 100;
/// Timers and lost calls handled at a time.
const BATCH: u32 = 64;

/// Attempts under way. Those of the host have bounds of their own, so that neither kind holds up the other.
#[derive(Default)]
struct InFlight {
    webhooks: Attempts,
    host: Attempts,
    /// Of those that have ended: recorded together, when their slots are given out again.
    outcomes: Vec<Outcome>,
}

impl InFlight {
    /// Ready once an attempt has ended; never where there is none. Says how many have by now.
    async fn some_ended(&mut self) -> usize {
        let ended = tokio::select! {
            biased; // either will do
            Some(ended) = self.webhooks.join_next() => ended,
            Some(ended) = self.host.join_next() => ended,
            else => std::future::pending().await,
        };
        self.keep(ended);
        let before = self.count();
        while let Some(ended) = self.webhooks.try_join_next().or_else(|| self.host.try_join_next()) {
            self.keep(ended);
        }
        1 + before - self.count()
    }

    /// An attempt that was cut, or that panicked, comes up again with the end of its lease.
    fn keep(&mut self, ended: Result<Option<Outcome>, JoinError>) {
        self.outcomes.extend(ended.ok().flatten());
    }

    fn count(&self) -> usize {
        self.webhooks.len() + self.host.len()
    }

    async fn all_ended(&mut self) {
        while self.count() > 0 {
            self.some_ended().await;
        }
    }

    fn abort(&mut self) {
        self.webhooks.abort_all();
        self.host.abort_all();
    }
}

/// Runs until the hub closes.
pub(crate) fn run(core: &Arc<Core>, runtime: tokio::runtime::Runtime) {
    runtime.block_on(serve(core));
    // The runtime is dropped without waiting for name lookups that hang.
    runtime.shutdown_background();
}

/// When what is done next, on the store's timeline.
struct Schedule {
    heartbeat: StoreMillis,
    trim: StoreMillis,
    /// Everything that may be due.
    look: StoreMillis,
    /// Deliveries alone.
    lease: StoreMillis,
    /// Attempts that ended since deliveries were leased …
    ended: usize,
    /// … and when the slots of those are given out, or those of attempts that turn out to be slow.
    freed: Option<Instant>,
    /// When the loop came round last.
    round: StoreMillis,
    /// Calls of workers whose lease ran out are left alone before this.
    reap: StoreMillis,
}

/// Everything the thread does, until the hub closes.
pub(crate) async fn serve(core: &Arc<Core>) {
    let start = core.started;
    let mut schedule = Schedule {
        heartbeat: start.saturating_add(heartbeat_ms(core)),
        trim: start.saturating_add(TRIM_MS),
        look: start,
        lease: StoreMillis::MAX,
        ended: 0,
        freed: None,
        round: start,
        reap: start,
    };
    let mut others = Others::new(core);
    let mut in_flight = InFlight::default();
    while !core.draining.load(Ordering::Acquire) {
        let wait = work(core, &mut schedule, &mut in_flight, &mut others).await;
        tokio::select! {
            biased; // those first that say more than "come round"; what any of them is about is done each time
            () = core.work.notified() => schedule.look = core.timeline.now(),
            () = core.enqueued.notified() => schedule.lease = core.timeline.now(),
            ended = in_flight.some_ended() => schedule.ended(ended, in_flight.count()),
            () = core.fanouts.others.published.notified() => {}
            () = core.watched.notified() => {}
            () = others.committed() => {}
            () = sleep(wait) => {}
        }
    }
    let until = core.drain_until();
    while timeout_at(until, in_flight.all_ended()).await.is_ok() && !in_flight.outcomes.is_empty() {
        lease(core, &mut schedule, &mut in_flight, core.timeline.now()).await;
    }
    in_flight.abort(); // what is cut here comes up again, as its lease ends with this worker
    in_flight.all_ended().await;
    lease(core, &mut schedule, &mut in_flight, core.timeline.now()).await;
    // An outcome that was refused is recorded by itself, without what it was refused for. The store is not waited for any more.
    in_flight.all_ended().await;
    // The ends of calls were handed over before this, so they are committed with it, or the store fails.
    if commit(core, Durability::Process, vec![Op::Leave { worker: core.worker }]).await.is_some() {
        let _ = timeout_at(until, call::settle_all(core)).await;
    }
}

impl Schedule {
    /// So many attempts have ended, and so many go on.
    fn ended(&mut self, ended: usize, go_on: usize) {
        self.ended += ended;
        let many = self.ended.saturating_mul(ENDED_PART) >= go_on;
        let by = Instant::now() + if many { Duration::ZERO } else { ENDED_WAIT };
        self.freed = Some(self.freed.map_or(by, |at| at.min(by)));
    }
}

/// A worker is heard of every third of its lease.
fn heartbeat_ms(core: &Core) -> i64 {
    millis(core.options.worker_lease / 3)
}

/// Does what is due, and answers how long there is nothing to do.
async fn work(core: &Arc<Core>, schedule: &mut Schedule, in_flight: &mut InFlight, others: &mut Others) -> Duration {
    let now = core.timeline.now();
    // The clock counts while the host sleeps or this process is stopped, and all leases run out meanwhile. The others
    // wake up like this one: they get the time to say that they live.
    if now.saturating_sub(schedule.round) > heartbeat_ms(core).saturating_add(LOOK_MS) {
        schedule.reap = now.saturating_add(heartbeat_ms(core));
        schedule.heartbeat = now;
    }
    schedule.round = now;
    if schedule.heartbeat <= now {
        schedule.heartbeat = now.saturating_add(heartbeat_ms(core));
        commit(core, Durability::Process, vec![core.heartbeat_op()]).await;
    }
    if schedule.trim <= now {
        // Step by step: what has ended meanwhile is recorded between two of them.
        let more = trim(core).await;
        schedule.trim = if more { now } else { now.saturating_add(TRIM_MS) };
        if !more {
            core.sender.sweep();
            core.routes.sweep();
        }
    }
    core.fanouts.expire(now);
    published::flush(core).await;
    if others.look(core, now) && !core.outlets.is_empty() {
        schedule.lease = now; // what they enqueued may wait for a place of this process
    }
    if schedule.look <= now {
        look(core, schedule, in_flight, now).await;
    } else if schedule.lease <= now || schedule.freed.is_some_and(|at| at <= Instant::now()) {
        look_at_deliveries(core, schedule, in_flight, now).await;
    }
    let late = core.fanouts.next_late().unwrap_or(StoreMillis::MAX);
    let next =
        schedule.heartbeat.min(schedule.trim).min(schedule.look).min(schedule.lease).min(others.next()).min(late);
    // Commits took their time: what came meanwhile is counted from now.
    let wait = Duration::from_millis(u64::try_from(next.saturating_sub(core.timeline.now())).unwrap_or(0));
    schedule.freed.map_or(wait, |at| wait.min(at.saturating_duration_since(Instant::now())))
}

/// Looks for lost calls, timers and deliveries that are due at `round`. All of it with that one time, at which this
/// worker's own lease is known to run: else it could take back what it has just leased itself.
async fn look(core: &Arc<Core>, schedule: &mut Schedule, in_flight: &mut InFlight, round: StoreMillis) {
    let mut came_of_it = call::fire_due_timers(core, round, BATCH).await;
    if schedule.reap <= round {
        came_of_it += call::end_lost(core, round, BATCH).await;
    }
    came_of_it += call::end_timed_out(core, round, BATCH).await;
    came_of_it += call::tell_due_aggregates(core, round, BATCH).await;
    // A wake that was lost, or a read that failed, only delays.
    if core.store.is_shared() && core.fanouts.any() {
        published::look(core);
    }
    came_of_it += verify::start(core, &mut in_flight.webhooks, round).await;
    came_of_it += lease(core, schedule, in_flight, round).await;
    let now = core.timeline.now();
    schedule.look = now.saturating_add(LOOK_MS).min(next_due(core, came_of_it, now));
}

/// Looks for deliveries alone, because some have come or slots are free again: all else keeps its time.
async fn look_at_deliveries(core: &Arc<Core>, schedule: &mut Schedule, in_flight: &mut InFlight, round: StoreMillis) {
    let started = lease(core, schedule, in_flight, round).await;
    // While every slot is taken, the next to come is the end of an attempt.
    if !dispatch::is_full(core) {
        schedule.lease = schedule.lease.min(next_due(core, started, core.timeline.now()));
    }
}

/// Records what attempts have come to, and leases deliveries that are due at `round`. Says how many.
async fn lease(core: &Arc<Core>, schedule: &mut Schedule, in_flight: &mut InFlight, round: StoreMillis) -> usize {
    (schedule.ended, schedule.freed) = (0, None);
    let outcomes = std::mem::take(&mut in_flight.outcomes);
    let started = dispatch::turn(core, &mut in_flight.webhooks, outcomes, round).await;
    if dispatch::is_full(core) {
        schedule.freed = core.load.next_slow(core.options.concurrency);
    }
    let (handed, next) = dispatch::lease_outlets(core, &mut in_flight.host, round).await;
    let now = core.timeline.now();
    schedule.lease = next.map_or(StoreMillis::MAX, |next| next.max(now));
    started + handed
}

/// When the next thing is due, of which so many have just been done.
fn next_due(core: &Core, done: usize, now: StoreMillis) -> StoreMillis {
    let soonest = if done > 0 { now } else { now.saturating_add(AGAIN_MS) };
    core.store.next_due().ok().flatten().map_or(StoreMillis::MAX, |due| due.max(soonest))
}

/// One step of retention. Says whether there is more to do now.
async fn trim(core: &Core) -> bool {
    let op = Op::Trim {
        now: core.timeline.now(),
        wall: core.timeline.wall(),
        retention: core.options.retention,
        keep_finished_ms: millis(core.options.keep_finished),
    };
    matches!(commit(core, Durability::Process, vec![op]).await.as_deref(), Some([Done::Trimmed { more: true, .. }]))
}

/// Commits for the background's own purposes; what fails is done again at its next turn.
pub(crate) async fn commit(core: &Core, durability: Durability, ops: Vec<Op>) -> Option<Vec<Done>> {
    match core.committer.submit(Commit::new(durability, ops)).await.ok()? {
        Ok(done) => Some(done),
        Err(CommitError::Refused(_)) => None,
        Err(CommitError::Store(error)) => {
            tracing::debug!(%error, "background work waits for the store");
            None
        }
    }
}
