//! The background thread: heartbeats, timers, lost calls, retention, deliveries, and what other processes committed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings_store::{Commit, CommitError, Done, Durability, Op};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::call;
use crate::core::{Core, millis};
use crate::dispatch;

/// How often a tail learns of what another process committed.
const POLL: Duration = Duration::from_millis(20);
/// How often due work of other processes is looked for when nothing is known to be due.
const LOOK: Duration = Duration::from_secs(1);
/// How often retention looks for what may go.
const TRIM: Duration = Duration::from_secs(1);
/// Timers and lost calls handled at a time.
const BATCH: u32 = 64;

/// Runs until the hub closes; then lets the writer thread end.
pub(crate) fn run(core: &Arc<Core>, runtime: tokio::runtime::Runtime) {
    runtime.block_on(serve(core));
    // The runtime is dropped without waiting for name lookups that hang.
    runtime.shutdown_background();
    core.committer.stop();
}

struct Schedule {
    heartbeat: Instant,
    trim: Instant,
    look: Instant,
    version: u64,
}

async fn serve(core: &Arc<Core>) {
    let start = Instant::now();
    let mut schedule = Schedule {
        heartbeat: start + core.options.worker_lease / 3,
        trim: start + TRIM,
        look: start,
        version: core.store.version().unwrap_or_default(),
    };
    let mut in_flight = JoinSet::new();
    while !core.draining.load(Ordering::Acquire) {
        let due = work(core, &mut schedule, &mut in_flight).await;
        tokio::select! {
            () = core.work.notified() => schedule.look = Instant::now(),
            Some(_) = in_flight.join_next() => schedule.look = Instant::now(),
            () = sleep_until(due) => {}
        }
    }
    while in_flight.join_next().await.is_some() {}
    commit(core, Durability::Process, vec![Op::Leave { worker: core.worker }]).await;
}

/// Does what is due, and answers when to come back at the latest.
async fn work(core: &Arc<Core>, schedule: &mut Schedule, in_flight: &mut JoinSet<()>) -> Instant {
    let now = Instant::now();
    if schedule.heartbeat <= now {
        schedule.heartbeat = now + core.options.worker_lease / 3;
        commit(core, Durability::Process, vec![core.heartbeat_op()]).await;
    }
    if schedule.trim <= now {
        schedule.trim = now + TRIM;
        trim(core).await;
    }
    let watched = core.store.is_shared() && (core.notifier.any() || call::any(core));
    if watched
        && let Ok(version) = core.store.version()
        && version != schedule.version
    {
        schedule.version = version;
        core.notifier.all();
        call::look(core);
    }
    if schedule.look <= now {
        schedule.look = now + LOOK;
        call::end_lost(core, BATCH).await;
        call::end_timed_out(core, BATCH).await;
        dispatch::lease(core, in_flight).await;
        if let Ok(Some(due)) = core.store.next_due() {
            let wait = u64::try_from(due - core.timeline.now()).unwrap_or(0);
            // With every slot taken, the next one that gets free looks again.
            if in_flight.len() < core.options.concurrency as usize {
                schedule.look = schedule.look.min(now + Duration::from_millis(wait.max(1)));
            }
        }
    }
    let soonest = schedule.heartbeat.min(schedule.trim).min(schedule.look);
    if watched { soonest.min(now + POLL) } else { soonest }
}

async fn trim(core: &Arc<Core>) {
    loop {
        let op = Op::Trim {
            now: core.timeline.now(),
            wall: core.timeline.wall(),
            retention: core.options.retention,
            keep_finished_ms: millis(core.options.keep_finished),
        };
        match commit(core, Durability::Process, vec![op]).await.as_deref() {
            Some([Done::Trimmed { more: true, .. }]) => {}
            _ => return,
        }
    }
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
