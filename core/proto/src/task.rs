//! A call as a task of the Tasks extension (SEP-2663), and what its events may be named (SEP-2694).
//!
//! A task is a call that can be asked for by its id. Its status follows from the call's outcome, see
//! [`Outcome::task_status`], and while it runs from what it asks for, see [`Input`].

mod input;

use core::fmt;

use serde_json::value::RawValue;

use crate::firing::Payload;
use crate::id::CallId;
use crate::json::{self, Kind};
use crate::time::{UnixMillis, rfc3339};
use crate::trigger::{Outcome, Reason};
use crate::wire;

pub use input::{ANSWERED, ASKED, Input, InputFault, Keys, Round};

/// The status of a task whose call runs.
pub const WORKING: &str = "working";
/// The status of one that waits for what it asked its client.
pub const INPUT_REQUIRED: &str = "input_required";

/// What is known of a task.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The call, whose id is the task's.
    pub id: CallId,
    /// When the call began, by the wall clock.
    pub created: UnixMillis,
    /// How long it can be asked for after its end, in milliseconds.
    pub ttl_ms: u64,
    /// What it asks for while it runs.
    pub input: Option<&'a Input>,
    /// How it ended, if it has.
    pub end: Option<TaskEnd<'a>>,
}

/// How a task ended.
#[derive(Debug, Clone, Copy)]
pub struct TaskEnd<'a> {
    /// When, in milliseconds after the call began.
    pub after_ms: u64,
    /// The call's outcome.
    pub outcome: Outcome,
    /// Why, where there is a reason.
    pub reason: Option<Reason>,
    /// The result or error, where there is one.
    pub payload: Option<Payload<'a>>,
}

impl Task<'_> {
    /// `working`, `input_required`, `completed`, `failed` or `cancelled`.
    pub fn status(&self) -> &'static str {
        match (self.end, self.input) {
            (Some(end), _) => end.outcome.task_status(matches!(end.payload, Some(Payload::Result(_)))),
            (None, Some(input)) if !input.is_empty() => INPUT_REQUIRED,
            (None, _) => WORKING,
        }
    }

    /// SEP-2663's `DetailedTask` as JSON text, `{taskId, status, statusMessage?, createdAt, lastUpdatedAt, ttlMs,
    /// inputRequests? | result? | error?}`; requests and payload are spliced as they are.
    ///
    /// - `ttlMs` counts from the creation, so it is the shortest it can be while the call runs, and grows to the whole
    ///   truth with its end: the task is kept for its ttl from then on.
    /// - A task that failed without an error of its own has one that names the reason, because a `failed` task must have
    ///   one.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        text(&mut out, "taskId", &self.id.to_string());
        text(&mut out, "status", self.status());
        let message = self.end.and_then(|end| explain(end.outcome, end.reason));
        if let Some(message) = message {
            text(&mut out, "statusMessage", message);
        }
        let lived = self.end.map_or(0, |end| end.after_ms);
        text(&mut out, "createdAt", &rfc3339(self.created));
        text(&mut out, "lastUpdatedAt", &rfc3339(self.updated(lived)));
        json::push_name(&mut out, "ttlMs");
        out.push_str(&self.ttl_ms.saturating_add(lived).to_string());
        if let (INPUT_REQUIRED, Some(input)) = (self.status(), self.input) {
            json::push_name(&mut out, "inputRequests");
            out.push_str(&input.requests());
        }
        if let Some(end) = self.end {
            match (self.status(), end.payload) {
                ("completed", Some(Payload::Result(raw))) => raw_member(&mut out, "result", raw),
                ("failed", Some(Payload::Error(raw))) => raw_member(&mut out, "error", raw),
                ("failed", _) => {
                    json::push_name(&mut out, "error");
                    out.push_str(&error_json(end.outcome, end.reason));
                }
                _ => {}
            }
        }
        out.push('}');
        out
    }

    /// When the task changed last. Never before it began, whatever happened to the wall clock.
    fn updated(&self, lived: u64) -> UnixMillis {
        let asked = self.input.and_then(Input::updated).filter(|_| self.end.is_none());
        asked.unwrap_or(self.created).max(self.created.saturating_add_unsigned(lived))
    }
}

/// What a client is told of an end that has no payload.
fn explain(outcome: Outcome, reason: Option<Reason>) -> Option<&'static str> {
    match (outcome, reason) {
        (Outcome::Timeout, _) => Some("The time limit passed"),
        (_, Some(Reason::ServerLost)) => Some("The server that ran it died"),
        (_, Some(Reason::Shutdown)) => Some("The server was stopped"),
        (_, Some(Reason::Unserialisable)) => Some("The tool's result could not be serialised"),
        (_, Some(Reason::Disconnected)) => Some("The connection was lost"),
        (_, Some(Reason::DetachLimit)) => Some("Too many calls run on without their request"),
        (_, Some(Reason::DetachExpired)) => Some("It ran for as long as one may"),
        (_, None) => None,
    }
}

/// The JSON-RPC error of a task that failed without one.
fn error_json(outcome: Outcome, reason: Option<Reason>) -> String {
    let mut out = format!(r#"{{"code":{}"#, wire::rpc::INTERNAL_ERROR);
    text(&mut out, "message", explain(outcome, reason).unwrap_or("The tool call failed"));
    json::push_name(&mut out, "data");
    out.push('{');
    text(&mut out, "reason", reason.map_or(outcome.as_str(), Reason::as_str));
    out.push_str("}}");
    out
}

/// Takes the payload out of the text of an outcome's event, `{"status", "reason"?, "result" | "error"?}`.
pub fn payload_of(outcome_event: &[u8]) -> Option<Payload<'_>> {
    let mut payload = None;
    json::each_member(core::str::from_utf8(outcome_event).ok()?, |name, value| match name {
        b"result" => payload = Some(Payload::Result(value)),
        b"error" => payload = Some(Payload::Error(value)),
        _ => {}
    })
    .ok()?;
    payload
}

fn text(out: &mut String, name: &str, value: &str) {
    json::push_name(out, name);
    json::push_string(out, value);
}

fn raw_member(out: &mut String, name: &str, raw: &RawValue) {
    json::push_name(out, name);
    out.push_str(raw.get());
}

/// The longest type of an event that a tool emits, in bytes: a domain name has at most 253.
pub const MAX_EVENT_TYPE: usize = 256;

/// The largest payload of an event that a tool emits, in bytes of JSON text. SEP-2694 wants a limit named and large things
/// sent by reference; this one is that of a webhook's body.
pub const MAX_EVENT_PAYLOAD: usize = 256 * 1024;

/// Why an event may not be emitted by a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFault {
    /// SEP-2694: names without a vendor prefix are reserved and must not be emitted.
    NoVendor,
    /// The prefix is ours, or the protocol's.
    Reserved,
    /// The type has more than [`MAX_EVENT_TYPE`] bytes.
    TypeTooLong,
    /// SEP-2694: the payload must be an object.
    NoObject,
    /// The payload has more than [`MAX_EVENT_PAYLOAD`] bytes.
    TooLarge,
}

impl fmt::Display for EventFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoVendor => "type: must have a vendor prefix in reverse-DNS form, such as com.example.review.comment",
            Self::Reserved => "type: the prefixes io.tidings and io.modelcontextprotocol are reserved",
            Self::TypeTooLong => "type: must have at most 256 bytes",
            Self::NoObject => "payload: must be the JSON text of an object",
            Self::TooLarge => "payload: must have at most 262144 bytes of JSON text; send what is larger by reference",
        })
    }
}

impl core::error::Error for EventFault {}

/// Checks an event that a tool wants to emit. The type has at least two labels of a vendor before its own name, which is
/// what tells `com.example.step` from the reserved `content.partial`; labels are letters, digits, `-` and `_`.
///
/// # Errors
/// The first rule that is broken.
pub fn check_event(kind: &str, payload: &[u8]) -> Result<(), EventFault> {
    if kind.len() > MAX_EVENT_TYPE {
        return Err(EventFault::TypeTooLong);
    }
    let mut labels = 0;
    for label in kind.split('.') {
        let first = label.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !first || !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err(EventFault::NoVendor);
        }
        labels += 1;
    }
    if labels < 3 || !kind.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(EventFault::NoVendor);
    }
    if ["io.tidings.", "io.modelcontextprotocol."].iter().any(|reserved| kind.starts_with(reserved)) {
        return Err(EventFault::Reserved);
    }
    if payload.len() > MAX_EVENT_PAYLOAD {
        return Err(EventFault::TooLarge);
    }
    // Validated as a whole: it goes on the wire as it is, in the middle of a message.
    let text = core::str::from_utf8(payload).ok().and_then(|text| json::check(text).ok());
    match text.and_then(|text| Kind::of(text.get())) {
        Some(Kind::Object) => Ok(()),
        _ => Err(EventFault::NoObject),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firing::raw_json;

    const ID: CallId = CallId::from_u128(0);

    fn end(outcome: Outcome, reason: Option<Reason>, payload: Option<Payload<'_>>) -> TaskEnd<'_> {
        TaskEnd { after_ms: 1_500, outcome, reason, payload }
    }

    fn json(end: Option<TaskEnd<'_>>) -> String {
        let task = Task { id: ID, created: 0, ttl_ms: 60_000, input: None, end };
        task.to_json().replace(&ID.to_string(), "ID")
    }

    #[test]
    fn a_running_task_has_neither_result_nor_error() {
        assert_eq!(
            json(None),
            r#"{"taskId":"ID","status":"working","createdAt":"1970-01-01T00:00:00.000Z","lastUpdatedAt":"1970-01-01T00:00:00.000Z","ttlMs":60000}"#
        );
    }

    /// SEP-2663: `inputRequests` has all that is outstanding while the status is `input_required`, and only then.
    #[test]
    fn a_task_that_asks_says_what_for_until_it_is_answered_or_ends() {
        let mut input = Input::default();
        input.apply(ASKED, br#"{"k":{"method": "elicitation/create"}}"#, 500);
        let json = |input: &Input, end| {
            let task = Task { id: ID, created: 0, ttl_ms: 60_000, input: Some(input), end };
            (task.status(), task.to_json())
        };
        let (status, text) = json(&input, None);
        assert_eq!(status, "input_required");
        let tail = r#""lastUpdatedAt":"1970-01-01T00:00:00.500Z","ttlMs":60000,"inputRequests":{"k":{"method": "elicitation/create"}}}"#;
        assert!(text.contains(r#""status":"input_required""#) && text.ends_with(tail), "{text}");
        let (status, text) = json(&input, Some(end(Outcome::Cancelled, None, None)));
        assert_eq!(status, "cancelled");
        assert!(text.ends_with(r#""lastUpdatedAt":"1970-01-01T00:00:01.500Z","ttlMs":61500}"#), "{text}");
        input.apply(ANSWERED, br#"{"k":{}}"#, 900);
        let (status, text) = json(&input, None);
        assert_eq!(status, "working");
        assert!(text.ends_with(r#""lastUpdatedAt":"1970-01-01T00:00:00.900Z","ttlMs":60000}"#), "{text}");
    }

    /// `reference/mcp-protocol.md` 5.3: `isError: true` is `completed`, `failed` only for a JSON-RPC error; a failed
    /// task has an error, a completed one its result.
    #[test]
    fn every_end_has_its_status_and_payload() {
        let result = Payload::Result(raw_json(br#"{"content": [1.0]}"#).unwrap());
        let error = Payload::Error(raw_json(br#"{"code":4711}"#).unwrap());
        for (end, status, payload) in [
            (end(Outcome::Completed, None, Some(result)), "completed", r#","result":{"content": [1.0]}"#),
            (end(Outcome::Failed, None, Some(result)), "completed", r#","result":{"content": [1.0]}"#),
            (end(Outcome::Failed, None, Some(error)), "failed", r#","error":{"code":4711}"#),
            (
                end(Outcome::Failed, Some(Reason::ServerLost), None),
                "failed",
                r#","error":{"code":-32603,"message":"The server that ran it died","data":{"reason":"server_lost"}}"#,
            ),
            (
                end(Outcome::Timeout, None, None),
                "failed",
                r#","error":{"code":-32603,"message":"The time limit passed","data":{"reason":"timeout"}}"#,
            ),
            (
                end(Outcome::Failed, None, None),
                "failed",
                r#","error":{"code":-32603,"message":"The tool call failed","data":{"reason":"failed"}}"#,
            ),
            (end(Outcome::Cancelled, None, None), "cancelled", ""),
            (end(Outcome::Cancelled, Some(Reason::DetachExpired), None), "cancelled", ""),
        ] {
            let json = json(Some(end));
            assert!(json.contains(&format!(r#""status":"{status}""#)), "{json}");
            // 60 s from the end, which came 1.5 s after the beginning.
            let tail = format!(r#""lastUpdatedAt":"1970-01-01T00:00:01.500Z","ttlMs":61500{payload}}}"#);
            assert!(json.ends_with(&tail), "{json} ends with {tail}");
        }
    }

    #[test]
    fn an_end_without_words_of_its_own_is_explained() {
        let of = |outcome, reason| json(Some(end(outcome, reason, None)));
        for (outcome, reason, message) in [
            (Outcome::Failed, Some(Reason::ServerLost), Some("The server that ran it died")),
            (Outcome::Cancelled, Some(Reason::DetachExpired), Some("It ran for as long as one may")),
            (Outcome::Timeout, None, Some("The time limit passed")),
            (Outcome::Cancelled, None, None),
        ] {
            let want = message.map(|message| format!(r#""statusMessage":"{message}""#));
            let json = of(outcome, reason);
            assert_eq!(json.contains("statusMessage"), want.is_some(), "{json}");
            assert!(want.is_none_or(|want| json.contains(&want)), "{json}");
        }
    }

    #[test]
    fn the_payload_is_found_in_an_outcomes_event() {
        let of = |text: &'static str| payload_of(text.as_bytes());
        assert!(
            matches!(of(r#"{"status":"completed","result":{"a":1.0}}"#), Some(Payload::Result(raw)) if raw.get() == r#"{"a":1.0}"#)
        );
        assert!(matches!(of(r#"{"status":"failed","error":{}}"#), Some(Payload::Error(_))));
        for none in [r#"{"status":"failed","reason":"server_lost"}"#, "", "[]", "{"] {
            assert!(of(none).is_none(), "{none}");
        }
    }

    #[test]
    fn events_of_a_tool_have_a_vendor_and_an_object() {
        for good in ["com.example.x", "com.example.review.comment", "dev.example-1.step_2", "io.tidingsx.a"] {
            assert_eq!(check_event(good, b" {}"), Ok(()), "{good}");
        }
        // The first three are the draft's own examples of what must not be emitted.
        for bad in [
            "content.partial",
            "task.status",
            "tool.started",
            "message",
            "",
            ".",
            "com.example",
            "com.example.",
            ".com.example.x",
            "com..example.x",
            "com.example.x y",
            "com.example.\u{e4}",
            "1.2.3",
            "Com.example.x",
            "-com.example.x",
            "example.com/x",
        ] {
            assert_eq!(check_event(bad, b"{}"), Err(EventFault::NoVendor), "{bad:?}");
        }
        for reserved in ["io.tidings.progress", "io.modelcontextprotocol.x"] {
            assert_eq!(check_event(reserved, b"{}"), Err(EventFault::Reserved));
        }
        // What only begins like an object would break the message that it is put into.
        for bad in [
            &b""[..],
            b"1",
            b"[]",
            b"null",
            b"\"{}\"",
            b"\xff{",
            b"{",
            b"{}}",
            b"{} {}",
            b"{a:1}",
            b"{\"a\":NaN}",
            b"{\"a\":\"\n\"}",
            b"{},\"method\":\"x\"",
        ] {
            assert_eq!(check_event("com.example.x", bad), Err(EventFault::NoObject), "{bad:?}");
        }
    }

    #[test]
    fn events_of_a_tool_are_bounded() {
        let kind = |bytes: usize| format!("com.example.{}", "x".repeat(bytes - "com.example.".len()));
        assert_eq!(check_event(&kind(256), b"{}"), Ok(()));
        assert_eq!(check_event(&kind(257), b"{}"), Err(EventFault::TypeTooLong));
        let payload = |bytes: usize| format!("{{{}}}", " ".repeat(bytes - 2));
        assert_eq!(check_event("com.example.x", payload(262_144).as_bytes()), Ok(()));
        assert_eq!(check_event("com.example.x", payload(262_145).as_bytes()), Err(EventFault::TooLarge));
    }
}
