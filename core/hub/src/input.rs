//! What a task asks its client for: questions and answers are events of one stream of the call, so that any process
//! knows what is outstanding and any process may take the answer.
//!
//! The stream comes to be with the first question and ends with the call. Each change of it tells the task's listeners.

use std::sync::Arc;

use tidings_proto::stream::StreamId;
use tidings_proto::task::{ANSWERED, ASKED, Input, InputFault};
use tidings_store::{
    AppendShared, CallRecord, Commit, CommitError, Durability, NewEvent, Op, ReadLimits, Refused, StreamKey,
};

use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::fanout;
use crate::stream::{Stream, new_event};

/// The stream's name, in the scope of the call.
const INPUT: &str = "input";

fn key(record: &CallRecord) -> StreamKey {
    StreamKey::new(record.stream.scope.clone(), INPUT)
}

/// The stream of what the task asks and is answered.
pub(crate) fn stream(core: &Arc<Core>, record: &CallRecord) -> Stream {
    Stream { core: Arc::clone(core), key: key(record) }
}

/// For an [`InputFault`] in an argument.
pub(crate) fn fault(field: &str, fault: InputFault) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("{field}: {fault}"))
}

/// What is outstanding. Blocks for a read.
pub(crate) fn outstanding(core: &Core, record: &CallRecord) -> Result<Input> {
    let mut input = Input::default();
    let Some(info) = core.store.stream(&key(record))? else { return Ok(input) };
    let mut next = info.earliest;
    while let Some(page) = core.store.read(info.id, next, ReadLimits::default())? {
        for chunk in &page.chunks {
            for event in chunk.events_from(next) {
                input.apply(&event.kind, &event.payload, event.time);
            }
        }
        match page.chunks.last() {
            Some(last) if last.end() < page.info.next_seq => next = last.end(),
            _ => break,
        }
    }
    Ok(input)
}

/// Appends one event to it; the payload is redacted here.
fn append_op(core: &Core, record: &CallRecord, kind: &str, payload: &str) -> Result<Op> {
    let payload = core.options.redact.apply_bytes(payload.as_bytes()).into_owned();
    append(core, record, vec![new_event(core, kind, payload)], false)
}

fn append(core: &Core, record: &CallRecord, events: Vec<NewEvent>, close: bool) -> Result<Op> {
    let new_id = StreamId(core.random()?);
    Ok(Op::AppendShared(AppendShared { key: key(record), new_id, events, close, now: core.timeline.now() }))
}

/// For the commit that asks.
pub(crate) fn ask_ops(core: &Core, record: &CallRecord, questions: &str) -> Result<Vec<Op>> {
    let mut ops = vec![append_op(core, record, ASKED, questions)?];
    ops.extend(fanout::task_op(core, record));
    Ok(ops)
}

/// For the commit that ends a call which has asked.
pub(crate) fn close_op(core: &Core, record: &CallRecord) -> Option<Op> {
    append(core, record, Vec::new(), true).ok()
}

/// The same, where this process does not know whether it has.
pub(crate) fn close_op_if_asked(core: &Core, record: &CallRecord) -> Option<Op> {
    record.task.as_ref()?;
    let info = core.store.stream(&key(record)).ok()??;
    info.closed_at.is_none().then(|| close_op(core, record))?
}

/// Gives a running task those of `responses` that answer something. Goes on when nobody waits.
pub(crate) async fn answer(core: &Arc<Core>, record: &CallRecord, responses: &[u8]) -> Result<()> {
    let known = outstanding(core, record)?.known(responses);
    let Some(known) = known.map_err(|why| fault("responses", why))? else { return Ok(()) };
    let mut ops = vec![append_op(core, record, ANSWERED, &known)?];
    ops.extend(fanout::task_op(core, record));
    let (shared, id) = (Arc::clone(core), record.id);
    let answered = core.spawn(async move {
        match shared.committer.submit(Commit::new(Durability::Disk, ops)).await {
            Ok(Ok(_)) => fanout::task_changed(&shared, id),
            Ok(Err(CommitError::Refused(Refused::Closed))) => {} // it has ended meanwhile
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(Error::closed("hub")),
        }
        Ok(())
    });
    match answered {
        Some(answered) => answered.await.unwrap_or_else(|_| Err(Error::closed("hub"))),
        None => Err(Error::closed("hub")),
    }
}
