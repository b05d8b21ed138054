//! The JSON-RPC errors of our own, in the words that they have in every language (DESIGN section 8).

use rmcp::ErrorData;
use rmcp::model::{ErrorCode, JsonObject, TASKS_EXTENSION_ID};
use serde_json::{Value, json};
use tidings::Ended;
use tidings::proto::config::Faults;
use tidings::proto::trigger::{Outcome, Reason};
use tidings::proto::wire::rpc;

/// An error of one of the codes that [`rpc`] names.
pub(crate) fn error(code: i64, message: impl Into<String>, data: Option<Value>) -> ErrorData {
    let code = i32::try_from(code).unwrap_or(ErrorCode::INTERNAL_ERROR.0);
    ErrorData::new(ErrorCode(code), message.into(), data)
}

pub(crate) fn invalid_params(message: impl Into<String>, data: Option<Value>) -> ErrorData {
    error(rpc::INVALID_PARAMS, message, data)
}

/// -32602 with the faults, at most 20, and how many there were; nothing ran.
pub(crate) fn config_rejected(faults: &Faults) -> ErrorData {
    let data = serde_json::from_str(&faults.to_json()).ok();
    invalid_params("notificationConfig was rejected and nothing ran; data.faults says why", data)
}

/// A config that cannot be made durable is not accepted: the client is told and may try again.
pub(crate) fn config_not_stored() -> ErrorData {
    let data = json!({"reason": "unavailable", "retryable": true});
    error(rpc::INTERNAL_ERROR, "notificationConfig could not be stored and nothing ran; try again later", Some(data))
}

/// Answered where the operator's policy came to no decision: nothing is sent anywhere on a guess.
pub(crate) fn policy_failed() -> ErrorData {
    let data = json!({"reason": "policy_failed", "retryable": true});
    error(rpc::INTERNAL_ERROR, "notificationConfig could not be judged and nothing ran", Some(data))
}

/// Answered where a name would have to be drawn and the system has no randomness.
pub(crate) fn no_randomness() -> ErrorData {
    let data = json!({"reason": "no_randomness", "retryable": true});
    error(rpc::INTERNAL_ERROR, "The server's system has no randomness; nothing ran", Some(data))
}

/// Answered to a listener that cannot be told anything.
pub(crate) fn cannot_listen() -> ErrorData {
    let data = json!({"reason": "unavailable", "retryable": true});
    error(rpc::INTERNAL_ERROR, "Notifications cannot be served now; try again later", Some(data))
}

/// Answered for a tool that was stopped because its time was over.
pub(crate) fn timed_out(timeout_ms: u64) -> ErrorData {
    let data = json!({"reason": "timeout", "timeoutMs": timeout_ms});
    error(rpc::INTERNAL_ERROR, "The tool call timed out", Some(data))
}

/// Answered for a request that its client left, where nothing lets it go on: only a later resume can see it.
pub(crate) fn disconnected() -> ErrorData {
    let data = json!({"reason": Reason::Disconnected.as_str()});
    error(rpc::INTERNAL_ERROR, "The request was cancelled: its connection was lost", Some(data))
}

/// Answered for a call that somebody else ended while its tool ran: its timer, its client, or another process.
pub(crate) fn ended_elsewhere(ended: &Ended, call_id: &str) -> ErrorData {
    if ended.outcome == Outcome::Timeout {
        let data = json!({"reason": "timeout", "callId": call_id});
        return error(rpc::INTERNAL_ERROR, "The tool call timed out", Some(data));
    }
    let outcome = ended.outcome.as_str();
    let data = json!({"reason": ended.reason.as_deref().unwrap_or(outcome), "callId": call_id});
    error(rpc::INTERNAL_ERROR, format!("The tool call ended as {outcome}"), Some(data))
}

/// Answered, by whoever finds it, for a request whose server is gone without an answer: the words that a task has then.
pub(crate) fn server_lost() -> ErrorData {
    let data = json!({"reason": Reason::ServerLost.as_str()});
    error(rpc::INTERNAL_ERROR, "The server that ran it died", Some(data))
}

/// Answered for a request that needs the Tasks extension and did not declare it.
pub(crate) fn tasks_undeclared() -> ErrorData {
    let extensions = JsonObject::from_iter([(TASKS_EXTENSION_ID.to_owned(), json!({}))]);
    let data = json!({"requiredCapabilities": {"extensions": extensions}});
    let message = format!("The client did not declare the extension '{TASKS_EXTENSION_ID}'");
    error(rpc::MISSING_CLIENT_CAPABILITY, message, Some(data))
}

/// The same for a task that never was, is over, or belongs to somebody else.
pub(crate) fn unknown_task() -> ErrorData {
    invalid_params("Unknown task", None)
}

/// What to answer for what a hub says of a request about a task or a call.
pub(crate) fn failed(what: &'static str, failure: &tidings::Error) -> ErrorData {
    if failure.code() == tidings::ErrorCode::InvalidArgument {
        return invalid_params(failure.to_string(), None);
    }
    tracing::warn!(error = %failure, "{what}");
    let data = json!({"reason": failure.code().as_str(), "retryable": failure.retryable()});
    error(rpc::INTERNAL_ERROR, what, Some(data))
}
