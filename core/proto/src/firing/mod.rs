//! What is told of a firing: webhook bodies, the acknowledgement of a config, and what could not be delivered.
//!
//! Payloads are spliced as the bytes they came as, never parsed into values and written anew: `1.0` stays `1.0`.

mod receipt;
mod told;

pub use receipt::{Receipt, disabled_json};
pub use told::{Undelivered, UndeliveredReason, acknowledgement_json, message_frame, undelivered_json};

use serde_json::value::RawValue;

use crate::id::{CallId, EventId, RequestId};
use crate::json;
use crate::time::{UnixMillis, rfc3339};
use crate::trigger::{Outcome, Reason, Trigger};

/// The default limit of a webhook body, in bytes.
pub const DEFAULT_MAX_BODY: usize = 256 * 1024;

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
    /// The call's task, if it became one.
    pub task: Option<TaskView<'a>>,
    /// The sequence number of the event that the firing is about.
    pub seq: Option<u64>,
    /// A cursor from which the call's stream can be read on.
    pub cursor: Option<&'a str>,
}

/// The webhook body of one firing, made ready for any of the call's routes.
///
/// ```json
/// {"eventId":…,"name":…,"timestamp":…,"data":{"callId":…,"requestId":…,"tool":…,"route":…,"trigger":…,
///  "outcome":{"status":…,"reason"?,"result"|"error"?},"taskId"?,"taskStatus"?,"seq"?},"cursor"?}
/// ```
///
/// Members stand in this order. `data.outcome` is left out for a trigger of a call that goes on. A call that ended
/// without a payload (cancelled, timeout, `server_lost`) has neither `result` nor `error`.
///
/// A body over the limit has `{"truncated":true,"bytes":N,"taskId"?,"cursor"?}` in the place of the value of
/// `result` or `error`: N is that value's length in bytes, and the rest says where the whole can be had. All other
/// members stay, so that a receiver reads both forms alike.
#[derive(Debug, Clone)]
pub struct Body<'a> {
    /// Up to the route's id.
    head: String,
    /// From there up to the payload.
    middle: String,
    payload: Option<&'a str>,
    /// What stands for a payload that is too large.
    stand_in: String,
    /// From the payload to the end.
    tail: String,
    max_body: usize,
}

impl<'a> Body<'a> {
    /// Prepares the body of `firing`, with at most `max_body` bytes where truncation can bring that about: the
    /// truncated form has only names in it, and goes out even where `max_body` is smaller still.
    pub fn new(firing: &Firing<'a>, max_body: usize) -> Self {
        let mut head = String::from("{");
        push_text(&mut head, "eventId", &firing.event_id.to_string());
        push_text(&mut head, "name", &firing.trigger.webhook_name());
        push_text(&mut head, "timestamp", &rfc3339(firing.at));
        json::push_name(&mut head, "data");
        head.push('{');
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
        if let Some(cursor) = firing.cursor {
            push_text(&mut tail, "cursor", cursor);
        }
        tail.push('}');
        let stand_in = payload.map(|text| truncated(text.len(), firing)).unwrap_or_default();
        Self { head, middle, payload, stand_in, tail, max_body }
    }

    /// The body for the route of this id: the bytes to sign, store and send. Only `data.route`, and for a body at the
    /// limit the truncation, differ between a firing's routes.
    pub fn for_route(&self, route_id: &str) -> Vec<u8> {
        let mut out = String::new();
        json::push_string(&mut out, route_id);
        let around = self.head.len() + out.len() + self.middle.len() + self.tail.len();
        let payload = match self.payload {
            Some(text) if around.saturating_add(text.len()) <= self.max_body => text,
            Some(_) => &self.stand_in,
            None => "",
        };
        let mut body = String::with_capacity(around + payload.len());
        for part in [&self.head, &out, &self.middle, payload, &self.tail] {
            body.push_str(part);
        }
        body.into_bytes()
    }
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
