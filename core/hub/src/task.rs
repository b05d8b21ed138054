//! Calls that can be asked for by their id: tasks (SEP-2663).
//!
//! A task's durable record is its call's row: who may ask, for how long, and how it ended stand there, so that neither
//! the death of a process nor the eviction of events takes them away. Its events are the call's stream; what it asks its
//! client for stands in another one of the call, see [`input`](crate::input).

use std::sync::Arc;

use tidings_proto::firing::Payload;
use tidings_proto::task::{self, TaskEnd, payload_of};
use tidings_proto::time::StoreMillis;
use tidings_proto::trigger::{Outcome, Reason};
use tidings_store::{CallId, CallRecord, StreamKey, TaskRecord, TaskTerms};

use crate::call::cancel_call;
use crate::core::{Core, millis};
use crate::error::{Error, ErrorCode, Result};
use crate::input;
use crate::options::Options;

/// One task, as it was when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// `working`, `input_required`, `completed`, `failed` or `cancelled`.
    pub status: &'static str,
    /// SEP-2663's `DetailedTask` as JSON text; see [`task::Task::to_json`].
    pub json: String,
    /// The stream of its events, which the outcome's event closes.
    pub stream: StreamKey,
}

/// Refuses terms that could not be kept: the row and the events of a task must not go before its time.
pub(crate) fn check_terms(options: &Options, terms: TaskTerms) -> Result<()> {
    let refuse = |rule: String| Err(Error::new(ErrorCode::InvalidArgument, format!("task ttl: {rule}")));
    let row = u64::try_from(millis(options.keep_finished)).unwrap_or(u64::MAX);
    if terms.ttl_ms > row {
        return refuse(format!("at most {row} ms, for which the hub keeps ended calls"));
    }
    match options.retention.after_close_ms {
        Some(events) if terms.ttl_ms > events => {
            refuse(format!("at most {events} ms, for which the hub keeps streams that are closed (retention)"))
        }
        _ => Ok(()),
    }
}

impl Task {
    /// The one look-up; applies the principal's check and the ttl.
    pub(crate) fn find(core: &Core, id: &str, asker: &str) -> Result<Option<Self>> {
        core.alive()?;
        open(core, id, asker)?.map(|(record, task)| view(core, &record, &task)).transpose()
    }

    /// The task of that id, whoever asks: for those who asked before.
    pub(crate) fn peek(core: &Core, id: &str) -> Result<Option<Self>> {
        record_of(core, id)?.map(|(record, task)| view(core, &record, &task)).transpose()
    }

    pub(crate) async fn cancel(core: &Arc<Core>, id: &str, asker: &str) -> Result<bool> {
        core.alive()?;
        let Some((record, _)) = open(core, id, asker)? else { return Ok(false) };
        if record.outcome.is_some() {
            return Ok(true);
        }
        cancel_call(core, &record).await?;
        Ok(true)
    }

    pub(crate) async fn answer(core: &Arc<Core>, id: &str, asker: &str, responses: &[u8]) -> Result<bool> {
        core.alive()?;
        let Some((record, _)) = open(core, id, asker)? else { return Ok(false) };
        if record.outcome.is_none() {
            input::answer(core, &record, responses).await?;
        }
        Ok(true)
    }
}

fn open(core: &Core, id: &str, asker: &str) -> Result<Option<(CallRecord, TaskRecord)>> {
    let found = record_of(core, id)?;
    Ok(found.filter(|(record, task)| !task.terms.bound || record.principal == asker))
}

/// The row of a task whose time is not over.
fn record_of(core: &Core, id: &str) -> Result<Option<(CallRecord, TaskRecord)>> {
    let Ok(id) = CallId::parse(id) else { return Ok(None) };
    let Some(record) = core.store.call(id)? else { return Ok(None) };
    let Some(task) = record.task.clone() else { return Ok(None) };
    let over = record.ended_at.is_some_and(|at| expires(at, task.terms) <= core.timeline.now());
    Ok((!over).then_some((record, task)))
}

fn expires(ended: StoreMillis, terms: TaskTerms) -> StoreMillis {
    ended.saturating_add_unsigned(terms.ttl_ms)
}

fn view(core: &Core, record: &CallRecord, task: &TaskRecord) -> Result<Task> {
    let end = record.outcome.as_ref().map(|outcome| TaskEnd {
        after_ms: u64::try_from(record.ended_at.unwrap_or(record.began_at) - record.began_at).unwrap_or(0),
        outcome: Outcome::parse(&outcome.status).unwrap_or(Outcome::Failed),
        reason: outcome.reason.as_deref().and_then(Reason::parse),
        payload: task.end.as_deref().and_then(|event: &[u8]| -> Option<Payload<'_>> { payload_of(event) }),
    });
    let input = if end.is_none() { Some(input::outstanding(core, record)?) } else { None };
    let (created, ttl_ms) = (record.began_time, task.terms.ttl_ms);
    let shown = task::Task { id: record.id, created, ttl_ms, input: input.as_ref(), end };
    Ok(Task { status: shown.status(), json: shown.to_json(), stream: record.stream.clone() })
}
