//! What happens to calls without their tool: they are lost, time out, are ended by another process, or the hub closes.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use tidings_proto::firing;
use tidings_proto::stream::StreamId;
use tidings_proto::time::StoreMillis;
use tidings_proto::trigger::{Outcome, Reason};
use tidings_proto::wire;
use tidings_store::{
    AppendShared, CallId, CallOutcome, CallRecord, Commit, CommitError, Done, Durability, Op, Refused, StoreError,
    StoreErrorKind, TimerKind,
};

use super::{CallInner, bare};
use crate::core::Core;
use crate::error::Result;
use crate::fanout;
use crate::input;
use crate::notify::lock;
use crate::plan::{self, Fired};
use crate::stream::new_event;

/// Whether calls run in this process.
pub(crate) fn any(core: &Core) -> bool {
    !lock(&core.calls).is_empty()
}

/// In the order of their ids: what follows from them must not depend on how a map is laid out.
fn here(core: &Core) -> Vec<Arc<CallInner>> {
    let mut calls: Vec<_> = lock(&core.calls).values().filter_map(Weak::upgrade).collect();
    calls.sort_unstable_by_key(|call| call.record.id);
    calls
}

/// Looks whether other processes ended calls of this one.
pub(crate) fn look(core: &Core) {
    look_where(core, |_| true);
}

/// Same, those whose stream is one of these: a call's end is an event of its stream.
pub(crate) fn look_at(core: &Core, streams: &[StreamId]) {
    look_where(core, |call| streams.contains(&call.writer.stream_id()));
}

fn look_where(core: &Core, which: impl Fn(&CallInner) -> bool) {
    for call in here(core).into_iter().filter(|call| which(call)) {
        // One that this process is ending hears of it by its own commit.
        if !call.is_ending()
            && let Ok(Some(CallRecord { outcome: Some(outcome), .. })) = core.store.call(call.record.id)
        {
            call.ended_elsewhere(&outcome);
        }
    }
}

/// Ends all calls of this process because it stops. Does not wait for the commits: the writer thread does them before it
/// ends. A call whose row is on its way is ended by whoever began it.
pub(crate) fn shut_down(core: &Core) {
    for call in here(core) {
        if call.begun() {
            call.start_end(&bare(Outcome::Failed, Some(Reason::Shutdown)));
        }
    }
}

/// Waits until the calls that are being ended have told how they ended.
pub(crate) async fn settle_all(core: &Core) {
    for call in here(core) {
        if call.is_ending() {
            let _ = call.wait_ended().await;
        }
    }
}

/// Ends calls whose worker is gone `now`: `failed`, reason `server_lost`. Says how many.
pub(crate) async fn end_lost(core: &Arc<Core>, now: StoreMillis, limit: u32) -> usize {
    let Ok(lost) = core.store.lost_calls(now, limit) else { return 0 };
    let mut ended = 0;
    for record in lost.iter().filter(|record| record.worker != core.worker) {
        let ending = bare(Outcome::Failed, Some(Reason::ServerLost));
        match end_record(core, record, &ending).await {
            Ok(_) => ended += 1,
            Err(CommitError::Store(_)) => break,
            Err(CommitError::Refused(_)) => {} // another process was faster
        }
    }
    ended
}

/// Ends calls whose time limit has passed `now`. Says how many.
pub(crate) async fn end_timed_out(core: &Arc<Core>, now: StoreMillis, limit: u32) -> usize {
    let Ok(due) = core.store.due_timers(now, limit) else { return 0 };
    let mut ended = 0;
    for timer in due.into_iter().filter(|timer| timer.kind == TimerKind::Timeout) {
        let ending = bare(Outcome::Timeout, None);
        let local = lock(&core.calls).get(&timer.call).and_then(Weak::upgrade);
        if let Some(call) = local {
            ended += usize::from(call.start_end(&ending));
        } else if let Ok(Some(record)) = core.store.call(timer.call) {
            match end_record(core, &record, &ending).await {
                Ok(_) => ended += 1,
                Err(CommitError::Store(_)) => break,
                Err(CommitError::Refused(_)) => {}
            }
        }
    }
    ended
}

/// Ends a running call as `cancelled`, wherever it runs.
pub(crate) async fn cancel_call(core: &Arc<Core>, record: &CallRecord) -> Result<()> {
    let cancelled = bare(Outcome::Cancelled, None);
    let here = lock(&core.calls).get(&record.id).and_then(Weak::upgrade);
    match here {
        Some(call) => drop(call.end(&cancelled).await?),
        // Another process runs it, and is told by the row.
        None => match end_record(core, record, &cancelled).await {
            Ok(_) => core.work.notify_one(),
            Err(CommitError::Refused(_)) => {} // it ended meanwhile
            Err(error) => return Err(error.into()),
        },
    }
    Ok(())
}

/// Cancels the call of that id for the principal who asks. `false`: there is none, or it is not theirs.
pub(crate) async fn cancel_by_id(core: &Arc<Core>, id: &str, asker: &str) -> Result<bool> {
    core.alive()?;
    let Ok(id) = CallId::parse(id) else { return Ok(false) };
    let Some(record) = core.store.call(id)?.filter(|record| record.principal == asker) else { return Ok(false) };
    if record.outcome.is_none() {
        cancel_call(core, &record).await?;
    }
    Ok(true)
}

/// Ends a call without its writer, with everything that follows from it, in one commit. Answers the entry for what could
/// not be delivered.
pub(crate) async fn end_record(
    core: &Core,
    record: &CallRecord,
    ended: &firing::Ended<'_>,
) -> std::result::Result<Option<String>, CommitError> {
    let now = core.timeline.now();
    let reason = ended.reason.map(|reason| reason.as_str().to_owned());
    let outcome = CallOutcome { status: ended.outcome.as_str().to_owned(), reason };
    let event = Bytes::from(plan::outcome_event(ended));
    let mut ops = vec![Op::EndCall { id: record.id, outcome, at: now, payload: Some(event.clone()) }];
    let task = record.task.as_ref().map(|task| task.terms);
    let mut undelivered = None;
    match plan::stored_config(record) {
        Ok(config) => {
            let (trigger, document) = (ended.outcome.trigger(), std::str::from_utf8(&event).ok());
            match plan::plan(
                core,
                record,
                &config,
                task,
                &Fired { ended: Some(*ended), document, ..Fired::bare(&trigger) },
            ) {
                Ok(plan) => {
                    ops.extend(plan.ops);
                    undelivered = plan.undelivered;
                }
                Err(error) => {
                    tracing::error!(call = %record.id, %error, "the outcome is recorded without its deliveries")
                }
            }
        }
        Err(faults) => tracing::error!(call = %record.id, %faults, "the stored config cannot be read"),
    }
    ops.extend(input::close_op_if_asked(core, record));
    ops.extend(fanout::task_op(core, record));
    let Ok(new_id) = core.random() else {
        tracing::error!(call = %record.id, "the outcome is recorded without its event: no randomness");
        return submit(core, ops).await.map(|_| undelivered);
    };
    let event = Op::AppendShared(AppendShared {
        key: record.stream.clone(),
        new_id: StreamId(new_id),
        events: vec![new_event(core, wire::tidings::EVENT_OUTCOME, event)],
        close: true,
        now,
    });
    let done = match submit(core, [ops.clone(), vec![event]].concat()).await {
        // Whoever closed the stream must not keep the outcome back.
        Err(CommitError::Refused(Refused::Closed)) => submit(core, ops).await.map(|_| undelivered),
        done => done.map(|_| undelivered),
    };
    if done.is_ok() {
        fanout::task_changed(core, record.id);
    }
    done
}

pub(super) async fn submit(core: &Core, ops: Vec<Op>) -> std::result::Result<Vec<Done>, CommitError> {
    let gone = || StoreError::new(StoreErrorKind::Closed, "the hub is closed").into();
    core.committer.submit(Commit::new(Durability::Disk, ops)).await.unwrap_or_else(|_| Err(gone()))
}
