//! Names, codes, times.

use serde_json::{Value, json};
use tidings::ErrorCode;
use tidings::proto::stream::GapReason;
use tidings::proto::time;
use tidings::proto::trigger::{Reason, Trigger};
use tidings::proto::webhook::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use tidings::proto::wire::{capability_json, rpc, sep992, sep2694, tidings as ours};

use crate::Answer;
use crate::given::Given;

pub(super) fn rfc3339(given: Given<'_>) -> Answer {
    Ok(json!({"text": time::rfc3339(given.int("unixMs")?)}))
}

pub(super) fn capability(given: Given<'_>) -> Answer {
    Ok(json!({"text": capability_json(given.texts("routeTypes")?)}))
}

pub(super) fn name(given: Given<'_>) -> Answer {
    let of = given.text("of")?;
    let is: Value = match of {
        "capability" => sep992::NOTIFICATION_CONFIG.into(),
        "capability.supportedRouteTypes" => sep992::SUPPORTED_ROUTE_TYPES.into(),
        "acknowledged" => sep992::CONFIG_ACKNOWLEDGED.into(),
        "route.webhook" => sep992::ROUTE_WEBHOOK.into(),
        "route.message" => sep992::ROUTE_MESSAGE.into(),
        "route.signal" => sep992::ROUTE_SIGNAL.into(),
        "route.callback" => ours::ROUTE_CALLBACK.into(),
        "trigger.completed" => Trigger::Completed.name().into(),
        "trigger.failed" => Trigger::Failed.name().into(),
        "trigger.timeout" => Trigger::Timeout.name().into(),
        "trigger.cancelled" => Trigger::Cancelled.name().into(),
        "trigger.streaming" => Trigger::Streaming.name().into(),
        "trigger.disconnected" => Trigger::Disconnected.name().into(),
        "trigger.elapsed" => ours::TRIGGER_ELAPSED.into(),
        "trigger.every" => ours::TRIGGER_EVERY.into(),
        "trigger.group" => ours::TRIGGER_GROUP.into(),
        "name.group_unmet" => ours::GROUP_UNMET.into(),
        "extension" => ours::EXTENSION.into(),
        "meta.acknowledged" => ours::META_ACKNOWLEDGED.into(),
        "meta.undelivered" => ours::META_UNDELIVERED.into(),
        "meta.event" => ours::META_EVENT.into(),
        "event.progress" => ours::EVENT_PROGRESS.into(),
        "event.log" => ours::EVENT_LOG.into(),
        "event.outcome" => ours::EVENT_OUTCOME.into(),
        "gap" => ours::GAP.into(),
        "triggered" => ours::TRIGGERED.into(),
        "calls.cancel" => ours::CALLS_CANCEL.into(),
        "tasks.stream" => sep2694::TASKS_STREAM.into(),
        "tasks.event" => sep2694::TASKS_EVENT.into(),
        "tasks.eventStreams" => sep2694::EVENT_STREAMS.into(),
        "meta.relatedTask" => sep2694::META_RELATED_TASK.into(),
        "events_gone.code" => sep2694::EVENTS_GONE.into(),
        "events_gone.reason" => sep2694::REASON_EVENTS_GONE.into(),
        "ahead.reason" => sep2694::REASON_AHEAD.into(),
        "invalid_params" => rpc::INVALID_PARAMS.into(),
        "method_not_found" => rpc::METHOD_NOT_FOUND.into(),
        "internal_error" => rpc::INTERNAL_ERROR.into(),
        "data.faults" => ours::DATA_FAULTS.into(),
        "header.id" => ID_HEADER.into(),
        "header.timestamp" => TIMESTAMP_HEADER.into(),
        "header.signature" => SIGNATURE_HEADER.into(),
        "gap.evicted" => GapReason::Evicted.as_str().into(),
        "gap.regressed" => GapReason::Regressed.as_str().into(),
        "gap.lost" => GapReason::Lost.as_str().into(),
        "gap.unknown" => GapReason::Unknown.as_str().into(),
        "reason.server_lost" => Reason::ServerLost.as_str().into(),
        "reason.shutdown" => Reason::Shutdown.as_str().into(),
        "reason.disconnected" => Reason::Disconnected.as_str().into(),
        _ => return Err(format!("of: nothing is called {of}")),
    };
    Ok(json!({"is": is}))
}

pub(super) fn error_code(given: Given<'_>) -> Answer {
    let name = given.text("code")?;
    let code = ErrorCode::ALL.into_iter().find(|code| code.as_str() == name).ok_or("code: no such code")?;
    Ok(json!({"retryable": code.retryable()}))
}
