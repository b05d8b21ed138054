//! What is told of a call.

use serde_json::json;
use tidings::proto::firing::{
    Body, Ended, Firing, Payload, TaskView, Undelivered, UndeliveredReason, acknowledgement_json, raw_json,
    undelivered_json,
};
use tidings::proto::id::{CallId, EventId, RequestId};
use tidings::proto::trigger::{Outcome, Reason, Trigger};

use super::call::config_of;
use crate::Answer;
use crate::given::Given;

fn request_id(given: Given<'_>) -> Result<RequestId, String> {
    RequestId::parse(given.text("requestId")?.as_bytes()).map_err(|error| error.to_string())
}

fn call_id(given: Given<'_>) -> Result<CallId, String> {
    CallId::parse(given.text("callId")?).map_err(|error| error.to_string())
}

fn ended(given: Given<'_>) -> Result<Ended<'_>, String> {
    let raw = |name| -> Result<_, String> {
        given
            .maybe_text(name)?
            .map(|text| raw_json(text.as_bytes()).ok_or_else(|| format!("{name}: no JSON")))
            .transpose()
    };
    let payload = raw("result")?.map(Payload::Result).or(raw("error")?.map(Payload::Error));
    let reason = given.maybe_text("reason")?.map(|text| Reason::parse(text).ok_or("reason")).transpose()?;
    Ok(Ended { outcome: Outcome::parse(given.text("outcome")?).ok_or("outcome")?, reason, payload })
}

pub(super) fn body(given: Given<'_>) -> Answer {
    let task = given.at("task");
    let request_id = request_id(given)?;
    let firing = Firing {
        event_id: EventId::parse(given.text("eventId")?).map_err(|error| error.to_string())?,
        trigger: &Trigger::from_name(given.text("trigger")?),
        at: given.int("unixMs")?,
        call_id: call_id(given)?,
        request_id: &request_id,
        tool: given.text("tool")?,
        ended: if given.has("ended") { Some(ended(given.at("ended"))?) } else { None },
        task: if given.has("task") {
            Some(TaskView { id: task.text("id")?, status: task.text("status")? })
        } else {
            None
        },
        seq: given.maybe_num("seq")?,
        cursor: given.maybe_text("cursor")?,
    };
    let body = Body::new(&firing, given.num("maxBody")?).for_route(given.text("route")?);
    Ok(json!({"text": String::from_utf8(body).map_err(|error| error.to_string())?}))
}

pub(super) fn acknowledgement(given: Given<'_>) -> Answer {
    let config = config_of(given.list("routes")?).ok_or("routes: pairs of an id and triggers are wanted")?;
    Ok(json!({"text": acknowledgement_json(&request_id(given)?, &config, call_id(given)?)}))
}

pub(super) fn undelivered(given: Given<'_>) -> Answer {
    let mut parts = Vec::new();
    for entry in given.list("entries")? {
        let entry = Given(entry);
        let reason = match entry.text("reason")? {
            "no_deliverable_route" => UndeliveredReason::NoRoute,
            _ => UndeliveredReason::StoreUnavailable,
        };
        parts.push((Trigger::from_name(entry.text("trigger")?), entry.texts("routes")?, reason));
    }
    let entries: Vec<_> =
        parts.iter().map(|(trigger, routes, reason)| Undelivered { trigger, routes, reason: *reason }).collect();
    Ok(json!({"text": undelivered_json(&entries)}))
}
