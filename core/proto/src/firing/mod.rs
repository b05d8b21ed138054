//! What is told of a firing: webhook bodies, the acknowledgement of a config, and what could not be delivered.
//!
//! Payloads are spliced as the bytes they came as, never parsed into values and written anew: `1.0` stays `1.0`.

mod batch;
mod receipt;
mod told;
mod watermark;

pub use batch::{BATCH_FRAME_BYTES, batch_body, batch_id};
pub use receipt::{Receipt, disabled_json};
pub use told::{Undelivered, UndeliveredReason, acknowledgement_json, message_frame, undelivered_json};
pub use watermark::lower_cursor;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::id::{CallId, EventId, RequestId};
use crate::json;
use crate::redact::{Redaction, member_range};
use crate::time::{UnixMillis, rfc3339};
use crate::trigger::{Outcome, Reason, Trigger};
use crate::wire::tidings::GROUP_UNMET;

/// The default limit of a webhook body, in bytes.
pub const DEFAULT_MAX_BODY: usize = 256 * 1024;

/// Members of a body's `data` that no redaction touches: they tell the receiver what it has before it.
pub const KEPT: [&str; 2] = ["callId", "route"];

/// What a call ended with, as raw JSON text.
#[derive(Debug, Clone, Copy)]
pub enum Payload<'a> {
    /// The tool's result, also one with `isError: true`.
    Result(&'a RawValue),
    /// A JSON-RPC error object.
    Error(&'a RawValue),
}

impl<'a> Payload<'a> {
    fn name_and_text(self) -> (&'static str, &'a str) {
        match self {
            Payload::Result(raw) => ("result", raw.get()),
            Payload::Error(raw) => ("error", raw.get()),
        }
    }
}

/// Takes bytes as one JSON value, left as it is but for whitespace around it; `None` for anything else.
///
/// This is how a payload from the store becomes a [`Payload`] again.
pub fn raw_json(bytes: &[u8]) -> Option<&RawValue> {
    json::check(core::str::from_utf8(bytes).ok()?).ok()
}

/// What conditions on `streaming` look into: `{"type", "payload"}` of the event. A payload that is no JSON is null.
pub fn event_document(kind: &str, payload: &[u8]) -> String {
    let mut out = String::from("{");
    push_text(&mut out, "type", kind);
    json::push_name(&mut out, "payload");
    out.push_str(raw_json(payload).map_or("null", RawValue::get));
    out.push('}');
    out
}

/// The end of a call.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where there is a reason.
    pub reason: Option<Reason>,
    /// The result or error, where there is one.
    pub payload: Option<Payload<'a>>,
}

/// A call's task in the Tasks extension.
#[derive(Debug, Clone, Copy)]
pub struct TaskView<'a> {
    /// The task's id.
    pub id: &'a str,
    /// Its status, see [`Outcome::task_status`].
    pub status: &'a str,
}

/// What a firing of a trigger that is no outcome is about.
#[derive(Debug, Clone, Copy)]
pub enum Detail<'a> {
    /// What the tool fired a vendor's trigger with: `data.payload`.
    Payload(&'a RawValue),
    /// `data.elapsedMs`: how long the call has run, as the config asked.
    Elapsed(u64),
    /// `data.everyMs` as the config asked, and `data.count`: how many times that long the call has run.
    Every(u64, u64),
    /// `data.group`, see [`Aggregate::report_json`](crate::group::Aggregate::report_json).
    Group {
        /// Its JSON text.
        report: &'a str,
        /// The group came to what was asked for; else the body's `name` is `tool_call.group_unmet`.
        met: bool,
    },
}

/// One time a trigger came true.
#[derive(Debug, Clone, Copy)]
pub struct Firing<'a> {
    /// The firing's id, the same on every fallback route.
    pub event_id: EventId,
    /// The trigger that fired.
    pub trigger: &'a Trigger,
    /// When, by the wall clock.
    pub at: UnixMillis,
    /// The call.
    pub call_id: CallId,
    /// The client's id of the request, with its JSON type.
    pub request_id: &'a RequestId,
    /// The tool's name.
    pub tool: &'a str,
    /// The call's end; none for a trigger of a call that goes on (`streaming`, `io.tidings/disconnected`).
    pub ended: Option<Ended<'a>>,
    /// What else there is to tell.
    pub detail: Option<Detail<'a>>,
    /// The call's task, if it became one.
    pub task: Option<TaskView<'a>>,
    /// The sequence number of the event that the firing is about.
    pub seq: Option<u64>,
    /// A cursor from which the call's stream can be read on: after the event, unless an earlier one is undelivered when the
    /// body is enqueued, see [`lower_cursor`].
    pub cursor: Option<&'a str>,
}

/// The webhook body of one firing, made ready for any of the call's routes.
///
/// ```json
/// {"eventId":…,"name":…,"timestamp":…,"data":{"callId":…,"requestId":…,"tool":…,"route":…,"trigger":…,
///  "outcome":{"status":…,"reason"?,"result"|"error"?},"taskId"?,"taskStatus"?,"seq"?},"cursor"?}
/// ```
///
/// For a trigger of another kind `elapsedMs`, `everyMs` and `count`, `group`, or `payload` stand in the place of `outcome`.
///
/// Members stand in this order. `data.outcome` is left out for a trigger of a call that goes on. A call that ended
/// without a payload (cancelled, timeout, `server_lost`) has neither `result` nor `error`.
///
/// A body over the limit has `{"truncated":true,"bytes":N,"taskId"?,"cursor"?}` in the place of the value of
/// `result`, `error` or `payload`: N is that value's length in bytes, and the rest says where the whole can be had. All other
/// members stay, so that a receiver reads both forms alike.
#[derive(Debug, Clone)]
pub struct Body<'a> {
    /// Up to `data`.
    before: String,
    /// `data`, up to the route's id.
    head: String,
    /// From there up to the payload.
    middle: String,
    payload: Option<&'a str>,
    /// What stands for a payload that is too large.
    stand_in: String,
    /// From the payload to the end of `data`.
    tail: String,
    /// From there to the end.
    after: String,
    max_body: usize,
}

impl<'a> Body<'a> {
    /// Prepares the body of `firing`, with at most `max_body` bytes where truncation can bring that about: the
    /// truncated form has only names in it, and goes out even where `max_body` is smaller still.
    pub fn new(firing: &Firing<'a>, max_body: usize) -> Self {
        let mut before = String::from("{");
        push_text(&mut before, "eventId", &firing.event_id.to_string());
        match firing.detail {
            Some(Detail::Group { met: false, .. }) => push_text(&mut before, "name", GROUP_UNMET),
            _ => push_text(&mut before, "name", &firing.trigger.webhook_name()),
        }
        push_text(&mut before, "timestamp", &rfc3339(firing.at));
        json::push_name(&mut before, "data");
        let mut head = String::from("{");
        push_text(&mut head, "callId", &firing.call_id.to_string());
        json::push_name(&mut head, "requestId");
        head.push_str(&firing.request_id.to_json());
        push_text(&mut head, "tool", firing.tool);
        json::push_name(&mut head, "route");

        let mut middle = String::new();
        push_text(&mut middle, "trigger", firing.trigger.name());
        let mut tail = String::new();
        let mut payload = None;
        if let Some(ended) = &firing.ended {
            json::push_name(&mut middle, "outcome");
            middle.push('{');
            push_text(&mut middle, "status", ended.outcome.as_str());
            if let Some(reason) = ended.reason {
                push_text(&mut middle, "reason", reason.as_str());
            }
            if let Some((name, text)) = ended.payload.map(Payload::name_and_text) {
                json::push_name(&mut middle, name);
                payload = Some(text);
            }
            tail.push('}');
        } else if let Some(detail) = firing.detail {
            payload = push_detail(&mut middle, detail);
        }
        if let Some(task) = &firing.task {
            push_text(&mut tail, "taskId", task.id);
            push_text(&mut tail, "taskStatus", task.status);
        }
        if let Some(seq) = firing.seq {
            json::push_name(&mut tail, "seq");
            tail.push_str(&seq.to_string());
        }
        tail.push('}');
        let mut after = String::new();
        if let Some(cursor) = firing.cursor {
            push_text(&mut after, "cursor", cursor);
        }
        after.push('}');
        let stand_in = payload.map(|text| truncated(text.len(), firing)).unwrap_or_default();
        Self { before, head, middle, payload, stand_in, tail, after, max_body }
    }

    /// The body for the route of this id: the bytes to sign, store and send. Only `data.route`, and for a body at the
    /// limit the truncation, differ between a firing's routes.
    pub fn for_route(&self, route_id: &str) -> Vec<u8> {
        self.redacted_for_route(route_id, &Redaction::default())
    }

    /// The body for the route of this id without what its `redact` takes out of `data`. The members in [`KEPT`] stay.
    pub fn redacted_for_route(&self, route_id: &str, redaction: &Redaction) -> Vec<u8> {
        let mut id = String::new();
        json::push_string(&mut id, route_id);
        let whole = self.put_together(&id, self.payload.unwrap_or_default(), redaction);
        let body = match self.payload {
            Some(_) if whole.len() > self.max_body => self.put_together(&id, &self.stand_in, redaction),
            _ => whole,
        };
        body.into_bytes()
    }

    fn put_together(&self, id: &str, payload: &str, redaction: &Redaction) -> String {
        let data = [&self.head, id, &self.middle, payload, &self.tail].concat();
        [&self.before, &*redaction.apply(&data, &KEPT), &self.after].concat()
    }
}

/// A body that [`Body::for_route`] made, without what a route's `redact` takes out of it; `None` if it is no such body.
pub fn redact_body<'b>(body: &'b str, redaction: &Redaction) -> Option<Cow<'b, str>> {
    if redaction.is_empty() {
        return Some(Cow::Borrowed(body));
    }
    let data = member_range(body, "data")?;
    let inside = redaction.apply(body.get(data.clone())?, &KEPT);
    Some(Cow::Owned([body.get(..data.start)?, &*inside, body.get(data.end..)?].concat()))
}

/// Writes what stands in the place of an outcome; a payload that may be too large is left to the caller.
fn push_detail<'a>(out: &mut String, detail: Detail<'a>) -> Option<&'a str> {
    let number = |out: &mut String, name: &str, value: u64| {
        json::push_name(out, name);
        out.push_str(&value.to_string());
    };
    match detail {
        Detail::Payload(raw) => {
            json::push_name(out, "payload");
            return Some(raw.get());
        }
        Detail::Elapsed(ms) => number(out, "elapsedMs", ms),
        Detail::Every(ms, count) => {
            number(out, "everyMs", ms);
            number(out, "count", count);
        }
        Detail::Group { report, .. } => {
            json::push_name(out, "group");
            out.push_str(report);
        }
    }
    None
}

fn truncated(bytes: usize, firing: &Firing<'_>) -> String {
    let mut out = format!(r#"{{"truncated":true,"bytes":{bytes}"#);
    if let Some(task) = &firing.task {
        push_text(&mut out, "taskId", task.id);
    }
    if let Some(cursor) = firing.cursor {
        push_text(&mut out, "cursor", cursor);
    }
    out.push('}');
    out
}

fn push_text(out: &mut String, name: &str, value: &str) {
    json::push_name(out, name);
    json::push_string(out, value);
}

#[cfg(test)]
mod tests;
