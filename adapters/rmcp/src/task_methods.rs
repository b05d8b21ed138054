//! The requests about tasks and calls: `tasks/get`, `tasks/update`, `tasks/cancel` (SEP-2663), and
//! `io.tidings/calls/cancel`.

use rmcp::ErrorData;
use rmcp::model::{GetTaskResult, UpdateTaskParams};
use serde_json::Value;
use tidings::{ErrorCode, Task};

use crate::adapter::Adapter;
use crate::tasks::Tasks;
use crate::wire;

pub(crate) fn find(terms: &Adapter, id: &str, asker: &str) -> Result<Task, ErrorData> {
    let found = terms.hub.task(id, asker);
    found.map_err(|error| wire::failed("The task could not be looked up", &error))?.ok_or_else(wire::unknown_task)
}

pub(crate) fn get(terms: &Adapter, tasks: &Tasks, id: &str, asker: &str) -> Result<GetTaskResult, ErrorData> {
    let task = find(terms, id, asker)?;
    let shown = tasks.shown(&task).and_then(serde_json::from_value);
    shown.map(GetTaskResult::new).map_err(|error| {
        tracing::error!(%error, "a task cannot be shown");
        wire::error(tidings::proto::wire::rpc::INTERNAL_ERROR, "The task could not be looked up", None)
    })
}

pub(crate) async fn update(terms: &Adapter, params: &UpdateTaskParams, asker: &str) -> Result<(), ErrorData> {
    let responses = serde_json::json!(params.input_responses).to_string();
    match terms.hub.answer_task(&params.task_id, asker, responses.as_bytes()).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(wire::unknown_task()),
        // It has ended meanwhile.
        Err(error) if matches!(error.code(), ErrorCode::Closed | ErrorCode::Ended) => Ok(()),
        Err(error) => Err(wire::failed("The task could not be looked up", &error)),
    }
}

pub(crate) async fn cancel(terms: &Adapter, id: &str, asker: &str) -> Result<(), ErrorData> {
    match terms.hub.cancel_task(id, asker).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(wire::unknown_task()),
        Err(error) => Err(wire::failed("The task could not be looked up", &error)),
    }
}

/// A client stops a call that went on without it.
pub(crate) async fn cancel_call(terms: &Adapter, params: Option<&Value>, asker: &str) -> Result<(), ErrorData> {
    let id = params.and_then(|params| params.get("callId")).and_then(Value::as_str);
    let id = id.ok_or_else(|| wire::invalid_params("callId must be a string", None))?;
    match terms.hub.cancel_call(id, asker).await {
        Ok(true) => Ok(()),
        // The same for one that never was, is forgotten, or belongs to somebody else.
        Ok(false) => Err(wire::invalid_params("Unknown call", None)),
        Err(error) => Err(wire::failed("The call could not be cancelled", &error)),
    }
}
