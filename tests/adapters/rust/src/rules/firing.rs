//! What is told of a call.

use serde_json::json;
use tidings::proto::firing::{
    Body, Detail, Ended, Firing, Payload, TaskView, Undelivered, UndeliveredReason, acknowledgement_json, batch_body,
    batch_id, lower_cursor, raw_json, undelivered_json,
};
use tidings::proto::group::{Aggregate, Rule};
use tidings::proto::id::{CallId, EventId, RequestId};
use tidings::proto::redact::Redaction;
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

fn detail(given: Given<'_>) -> Result<Option<Detail<'_>>, String> {
    if let Some(payload) = given.maybe_text("payload")? {
        return Ok(Some(Detail::Payload(raw_json(payload.as_bytes()).ok_or("payload: no JSON")?)));
    }
    if let Some(report) = given.maybe_text("group")? {
        return Ok(Some(Detail::Group { report, met: report.contains(r#""met":true"#) }));
    }
    if let Some(ms) = given.maybe_num("everyMs")? {
        return Ok(Some(Detail::Every(ms, given.num("count")?)));
    }
    Ok(given.maybe_num("elapsedMs")?.map(Detail::Elapsed))
}

pub(super) fn body(given: Given<'_>) -> Answer {
    let task = given.at("task");
    let trigger = match given.text("trigger")? {
        "elapsedMs" => Trigger::Elapsed(0),
        "everyMs" => Trigger::Every(0),
        "group" => {
            Trigger::Group(Box::new(Aggregate { group: String::new(), on: None, rule: Rule::Any, deadline_ms: None }))
        }
        name => Trigger::from_name(name),
    };
    let redact = if given.has("redact") { given.texts("redact")? } else { Vec::new() };
    let redaction = Redaction::parse(redact).map_err(|(_, fault)| fault.to_string())?;
    let request_id = request_id(given)?;
    let firing = Firing {
        event_id: EventId::parse(given.text("eventId")?).map_err(|error| error.to_string())?,
        trigger: &trigger,
        at: given.int("unixMs")?,
        call_id: call_id(given)?,
        request_id: &request_id,
        tool: given.text("tool")?,
        ended: if given.has("ended") { Some(ended(given.at("ended"))?) } else { None },
        detail: if given.has("detail") { detail(given.at("detail"))? } else { None },
        task: if given.has("task") {
            Some(TaskView { id: task.text("id")?, status: task.text("status")? })
        } else {
            None
        },
        seq: given.maybe_num("seq")?,
        cursor: given.maybe_text("cursor")?,
    };
    let body = Body::new(&firing, given.num("maxBody")?).redacted_for_route(given.text("route")?, &redaction);
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

pub(super) fn batch(given: Given<'_>) -> Answer {
    let body = batch_body(given.texts("bodies")?.into_iter().map(str::as_bytes));
    let text = String::from_utf8(body).map_err(|error| error.to_string())?;
    Ok(json!({"text": text, "id": batch_id(given.texts("eventIds")?).to_string()}))
}

pub(super) fn lowered(given: Given<'_>) -> Answer {
    let body = given.text("body")?;
    let lowered = lower_cursor(body.as_bytes(), given.num::<i64>("next")?.cast_unsigned());
    let lowered = lowered.unwrap_or_else(|| body.as_bytes().to_vec());
    Ok(json!({"body": String::from_utf8(lowered).map_err(|error| error.to_string())?}))
}
