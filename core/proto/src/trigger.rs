//! What a call comes to, and the triggers that it fires.

use core::fmt;

use serde_json::value::RawValue;

use crate::group::Aggregate;
use crate::json::{self, Kind};
use crate::wire::{sep992, tidings};

/// How a call ends. A call has exactly one outcome, the first that is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The tool returned a result that is no error.
    Completed,
    /// A result with `isError: true`, a JSON-RPC error, or a call that could not be brought to its end.
    Failed,
    /// The client, the operator or a lost connection ended it.
    Cancelled,
    /// It exceeded the server's time limit.
    Timeout,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 4] = [Outcome::Completed, Outcome::Failed, Outcome::Cancelled, Outcome::Timeout];

    /// The status text on the wire and in the store; also the name of the trigger it fires.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Completed => sep992::TRIGGER_COMPLETED,
            Outcome::Failed => sep992::TRIGGER_FAILED,
            Outcome::Cancelled => sep992::TRIGGER_CANCELLED,
            Outcome::Timeout => sep992::TRIGGER_TIMEOUT,
        }
    }

    /// Reads what [`Outcome::as_str`] writes.
    pub fn parse(text: &str) -> Option<Outcome> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }

    /// The one trigger that this outcome fires.
    pub const fn trigger(self) -> Trigger {
        match self {
            Outcome::Completed => Trigger::Completed,
            Outcome::Failed => Trigger::Failed,
            Outcome::Cancelled => Trigger::Cancelled,
            Outcome::Timeout => Trigger::Timeout,
        }
    }

    /// The status of the call's task in the Tasks extension (SEP-2663), where a result with `isError: true` is
    /// `completed` and a timeout, which has no status of its own, is `failed`.
    ///
    /// `has_result` says whether the call ended with a result rather than with a JSON-RPC error or nothing.
    pub const fn task_status(self, has_result: bool) -> &'static str {
        match (self, has_result) {
            (Outcome::Completed, _) | (Outcome::Failed, true) => "completed",
            (Outcome::Failed, false) | (Outcome::Timeout, _) => "failed",
            (Outcome::Cancelled, _) => "cancelled",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a call ended as it did, where its payload does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// `failed`: the server died; found by its expired lease.
    ServerLost,
    /// `failed`: the server was stopped in good order, or its stdin ended.
    Shutdown,
    /// `failed`: the tool's result is no JSON object.
    Unserialisable,
    /// `cancelled`: the connection was lost and the request had not opted in to going on (MCP 2026-07-28).
    Disconnected,
    /// `cancelled`: the connection was lost and the principal has no room for another detached call.
    DetachLimit,
    /// `cancelled`: it went on without a connection for as long as the operator allows.
    DetachExpired,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 6] = [
        Reason::ServerLost,
        Reason::Shutdown,
        Reason::Unserialisable,
        Reason::Disconnected,
        Reason::DetachLimit,
        Reason::DetachExpired,
    ];

    /// The reason's text on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::ServerLost => "server_lost",
            Reason::Shutdown => "shutdown",
            Reason::Unserialisable => "unserialisable",
            Reason::Disconnected => "disconnected",
            Reason::DetachLimit => "detach_limit",
            Reason::DetachExpired => "detach_expired",
        }
    }

    /// Reads what [`Reason::as_str`] writes.
    pub fn parse(text: &str) -> Option<Reason> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a condition that a route waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// [`Outcome::Completed`].
    Completed,
    /// [`Outcome::Failed`].
    Failed,
    /// [`Outcome::Timeout`].
    Timeout,
    /// [`Outcome::Cancelled`].
    Cancelled,
    /// The call emitted an event.
    Streaming,
    /// The call's connection was lost and the call goes on.
    Disconnected,
    /// The call has run for this many milliseconds.
    Elapsed(u64),
    /// The call has run for another this many milliseconds.
    Every(u64),
    /// A group of calls came to what is asked for.
    Group(Box<Aggregate>),
    /// Any other name: a vendor's, which the tool may fire, or one that nothing fires. SEP-992 calls its triggers
    /// extensible, so the latter is kept and acknowledged as ignored.
    Other(String),
}

impl Trigger {
    /// Every trigger that has a name of its own and fires by itself.
    pub const KNOWN: [Trigger; 6] = [
        Trigger::Completed,
        Trigger::Failed,
        Trigger::Timeout,
        Trigger::Cancelled,
        Trigger::Streaming,
        Trigger::Disconnected,
    ];

    /// The trigger's name, as a config lists it; of one that is an object there, the member that makes it what it is.
    pub fn name(&self) -> &str {
        match self {
            Trigger::Completed => sep992::TRIGGER_COMPLETED,
            Trigger::Failed => sep992::TRIGGER_FAILED,
            Trigger::Timeout => sep992::TRIGGER_TIMEOUT,
            Trigger::Cancelled => sep992::TRIGGER_CANCELLED,
            Trigger::Streaming => sep992::TRIGGER_STREAMING,
            Trigger::Disconnected => tidings::TRIGGER_DISCONNECTED,
            Trigger::Elapsed(_) => tidings::TRIGGER_ELAPSED,
            Trigger::Every(_) => tidings::TRIGGER_EVERY,
            Trigger::Group(_) => tidings::TRIGGER_GROUP,
            Trigger::Other(name) => name,
        }
    }

    /// The trigger of that name; every other name is [`Trigger::Other`].
    pub fn from_name(name: &str) -> Trigger {
        Self::KNOWN.into_iter().find(|known| known.name() == name).unwrap_or_else(|| Trigger::Other(name.to_owned()))
    }

    /// Whether anything can fire it.
    pub fn is_known(&self) -> bool {
        match self {
            Trigger::Other(name) => is_vendor_name(name),
            _ => true,
        }
    }

    /// The `name` of the webhook body: `tool_call.completed`, `tool_call.disconnected`, `tool_call.elapsed`; any other
    /// name as it is.
    pub fn webhook_name(&self) -> String {
        let own = match self {
            Trigger::Other(name) => return name.clone(),
            Trigger::Disconnected => "disconnected",
            Trigger::Elapsed(_) => "elapsed",
            Trigger::Every(_) => "every",
            known => known.name(),
        };
        format!("{}{own}", tidings::WEBHOOK_NAME_PREFIX)
    }
}

/// Whether a name is a vendor's: labels of a reversed domain, at least two before its own name, which follows on `.` or
/// `/` (`com.example.done`, `com.example/done`). Those under `io.tidings` and `io.modelcontextprotocol` are no vendor's.
pub fn is_vendor_name(name: &str) -> bool {
    let label = |label: &str| {
        label.starts_with(|first: char| first.is_ascii_alphanumeric())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let (domain, least) = match name.split_once('/') {
        Some((domain, own)) if own.split('.').all(label) => (domain, 2),
        Some(_) => return false,
        None => (name, 3),
    };
    let reserved =
        |prefix: &str| domain == prefix || domain.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
    name.len() <= MAX_VENDOR_NAME
        && domain.starts_with(|first: char| first.is_ascii_lowercase())
        && domain.split('.').all(label)
        && domain.split('.').count() >= least
        && !["io.tidings", "io.modelcontextprotocol"].into_iter().any(reserved)
}

/// Why a tool may not fire something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FireFault {
    /// The name is no vendor's, see [`is_vendor_name`].
    NoVendor,
    /// The payload is not the JSON text of an object.
    NoObject,
}

impl fmt::Display for FireFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoVendor => "name: must be a vendor's, such as com.example/done, and not under io.tidings",
            Self::NoObject => "payload: must be the JSON text of an object",
        })
    }
}

impl core::error::Error for FireFault {}

/// Checks what a tool fires a vendor's trigger with.
///
/// # Errors
/// The first rule that is broken.
pub fn check_fire(name: &str, payload: &[u8]) -> Result<(), FireFault> {
    if !is_vendor_name(name) {
        return Err(FireFault::NoVendor);
    }
    match classify_result(payload).result {
        Some(_) => Ok(()),
        None => Err(FireFault::NoObject),
    }
}

/// The longest name of a vendor's trigger, in bytes.
pub const MAX_VENDOR_NAME: usize = 256;

/// The most firings of one `everyMs` (DESIGN section 5).
pub const MAX_EVERY_FIRINGS: u64 = 100;

/// When a trigger with `everyMs` is due next, in milliseconds after the call began: the first multiple after
/// `elapsed_ms`, so that those that were missed fire once. `None` after [`MAX_EVERY_FIRINGS`] multiples.
pub fn next_every(every_ms: u64, elapsed_ms: u64) -> Option<u64> {
    let next = elapsed_ms.checked_div(every_ms)?.checked_add(1)?;
    if next > MAX_EVERY_FIRINGS { None } else { next.checked_mul(every_ms) }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a tool's result amounts to.
#[derive(Debug, Clone, Copy)]
pub struct ResultClass<'a> {
    /// [`Outcome::Completed`] or [`Outcome::Failed`].
    pub outcome: Outcome,
    /// [`Reason::Unserialisable`] or none.
    pub reason: Option<Reason>,
    /// The result as it was written, without whitespace around it; none if it is not a JSON object.
    pub result: Option<&'a RawValue>,
}

/// Classifies the raw JSON text of a `tools/call` result by its top-level `isError`.
///
/// `isError: true` is [`Outcome::Failed`], anything else [`Outcome::Completed`]: SEP-992 says that `completed` means
/// successfully. Of several `isError` members the last counts, as in the JSON parsers that clients use. Text that is
/// not one JSON object in UTF-8 is [`Outcome::Failed`] with [`Reason::Unserialisable`], never an error.
pub fn classify_result(raw: &[u8]) -> ResultClass<'_> {
    let unserialisable = ResultClass { outcome: Outcome::Failed, reason: Some(Reason::Unserialisable), result: None };
    let Ok(text) = core::str::from_utf8(raw) else { return unserialisable };
    let Ok(result) = json::check(text) else { return unserialisable };
    if Kind::of(result.get()) != Some(Kind::Object) {
        return unserialisable;
    }
    let mut is_error = false;
    let read = json::each_member(result.get(), |name, value| {
        if name == b"isError" {
            is_error = value.get() == "true";
        }
    });
    if read.is_err() {
        return unserialisable;
    }
    let outcome = if is_error { Outcome::Failed } else { Outcome::Completed };
    ResultClass { outcome, reason: None, result: Some(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_outcome_fires_its_own_trigger_under_its_own_name() {
        for (outcome, trigger, text, webhook) in [
            (Outcome::Completed, Trigger::Completed, "completed", "tool_call.completed"),
            (Outcome::Failed, Trigger::Failed, "failed", "tool_call.failed"),
            (Outcome::Cancelled, Trigger::Cancelled, "cancelled", "tool_call.cancelled"),
            (Outcome::Timeout, Trigger::Timeout, "timeout", "tool_call.timeout"),
        ] {
            assert_eq!(outcome.trigger(), trigger);
            assert_eq!(outcome.as_str(), text);
            assert_eq!(Outcome::parse(text), Some(outcome));
            assert_eq!(trigger.webhook_name(), webhook);
        }
        assert_eq!(Outcome::parse("Completed"), None);
        assert_eq!(Trigger::Streaming.webhook_name(), "tool_call.streaming");
        assert_eq!(Trigger::Disconnected.webhook_name(), "tool_call.disconnected");
        assert_eq!(Trigger::Other("com.example/done".into()).webhook_name(), "com.example/done");
    }

    #[test]
    fn names_are_read_exactly() {
        for name in ["completed", "failed", "timeout", "cancelled", "streaming", "io.tidings/disconnected"] {
            let trigger = Trigger::from_name(name);
            assert!(trigger.is_known(), "{name}");
            assert_eq!(trigger.name(), name);
        }
        for name in ["", "Completed", "completed ", "canceled", "disconnected", "io.tidings/x", "elapsedMs", "group"] {
            assert_eq!(Trigger::from_name(name), Trigger::Other(name.into()));
            assert!(!Trigger::from_name(name).is_known(), "{name}");
        }
        assert!(Trigger::from_name("com.example/done").is_known());
    }

    #[test]
    fn vendors_have_a_domain_before_their_own_name() {
        for name in ["com.example/done", "com.example.done", "org.x-y.a_b/c.d-e", "dev.a/1", "io.tidingsx.a"] {
            assert!(is_vendor_name(name), "{name}");
        }
        let long = format!("com.example/{}", "a".repeat(MAX_VENDOR_NAME));
        for name in [
            "com/done",
            "com.example",
            "com.example/",
            "/done",
            "com..example/x",
            ".com.example",
            "com.example/a/b",
            "Com.example/done",
            "com.example/é",
            "com.example/a b",
            "io.tidings/x",
            "io.tidings.x",
            "io.modelcontextprotocol.a/x",
            "1com.example.a",
            "completed",
            &long,
        ] {
            assert!(!is_vendor_name(name), "{name}");
        }
    }

    #[test]
    fn a_tool_fires_a_vendors_name_with_an_object() {
        assert_eq!(check_fire("com.example/x", b" {} "), Ok(()));
        assert_eq!(check_fire("completed", b"{}"), Err(FireFault::NoVendor));
        for payload in [&b"[]"[..], b"{", b"", b"{\"a\":\"\xff\"}", b"null"] {
            assert_eq!(check_fire("com.example/x", payload), Err(FireFault::NoObject));
        }
    }

    #[test]
    fn what_was_missed_of_an_interval_fires_once() {
        for (every, elapsed, want) in [
            (10_000, 0, Some(10_000)),
            (10_000, 9_999, Some(10_000)),
            (10_000, 10_000, Some(20_000)),
            (10_000, 35_000, Some(40_000)),
            (10_000, 989_999, Some(990_000)),
            (10_000, 999_999, Some(1_000_000)),
            (10_000, 1_000_000, None),
            (u64::MAX, 0, Some(u64::MAX)),
            (u64::MAX / 2, u64::MAX - 1, None),
            (0, 0, None),
        ] {
            assert_eq!(next_every(every, elapsed), want, "{every} {elapsed}");
        }
    }

    #[test]
    fn reasons_read_back() {
        for (reason, text) in [
            (Reason::ServerLost, "server_lost"),
            (Reason::Shutdown, "shutdown"),
            (Reason::Unserialisable, "unserialisable"),
            (Reason::Disconnected, "disconnected"),
            (Reason::DetachLimit, "detach_limit"),
            (Reason::DetachExpired, "detach_expired"),
        ] {
            assert_eq!(reason.as_str(), text);
            assert_eq!(Reason::parse(text), Some(reason));
        }
        assert_eq!(Reason::parse(""), None);
    }

    /// `reference/mcp-protocol.md` 5.3: a task is `completed` for `isError: true`, `failed` only for an error.
    #[test]
    fn task_status_differs_from_the_outcome() {
        for (outcome, has_result, want) in [
            (Outcome::Completed, true, "completed"),
            (Outcome::Failed, true, "completed"),
            (Outcome::Failed, false, "failed"),
            (Outcome::Timeout, false, "failed"),
            (Outcome::Cancelled, false, "cancelled"),
        ] {
            assert_eq!(outcome.task_status(has_result), want, "{outcome} {has_result}");
        }
    }

    #[test]
    fn results_are_classified_by_their_own_top_level_flag() {
        use Outcome::{Completed, Failed};
        for (raw, want) in [
            (r#"{}"#, Completed),
            (r#"{"content":[],"isError":false}"#, Completed),
            (r#"{"content":[],"isError":true}"#, Failed),
            (" {\n\"isError\" :\ttrue } ", Failed),
            (r#"{"isE\u0072ror":true}"#, Failed),
            // Not the flag itself: nested, in text, under another name, of another type.
            (r#"{"structuredContent":{"isError":true}}"#, Completed),
            (r#"{"content":[{"type":"text","text":"\"isError\":true"}]}"#, Completed),
            (r#"{"iserror":true}"#, Completed),
            (r#"{"isError":"true"}"#, Completed),
            (r#"{"isError":1}"#, Completed),
            (r#"{"isError":null}"#, Completed),
            // The last of several counts.
            (r#"{"isError":true,"isError":false}"#, Completed),
            (r#"{"isError":false,"isError":true}"#, Failed),
            // Field report B61 and lone surrogates: numbers and strings are skipped, not converted.
            (r#"{"a":1e400,"b":123456789012345678901234567890,"c":"\ud800","\udfff":-0}"#, Completed),
        ] {
            let class = classify_result(raw.as_bytes());
            assert_eq!((class.outcome, class.reason), (want, None), "{raw}");
            assert_eq!(class.result.unwrap().get(), raw.trim());
        }
    }

    #[test]
    fn what_is_no_json_object_is_unserialisable() {
        for raw in [
            &b""[..],
            b"{",
            b"{}x",
            b"{} {}",
            b"[]",
            b"null",
            b"\"isError\"",
            b"{\"a\":NaN}",
            b"{\"a\":1,}",
            b"{a:1}",
            b"{\"a\":\"\xff\"}",
            b"{\"a\nb\":1}",
            b"{\"a\":01}",
            b"\xef\xbb\xbf{}",
        ] {
            let class = classify_result(raw);
            assert_eq!(class.outcome, Outcome::Failed, "{raw:?}");
            assert_eq!(class.reason, Some(Reason::Unserialisable), "{raw:?}");
            assert!(class.result.is_none());
        }
    }

    #[test]
    fn deep_nesting_is_no_danger() {
        let deep = format!(r#"{{"a":{}{},"isError":true}}"#, "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(classify_result(deep.as_bytes()).outcome, Outcome::Failed);
        assert_eq!(classify_result(deep.as_bytes()).reason, None);
        assert_eq!(classify_result("[".repeat(500_000).as_bytes()).reason, Some(Reason::Unserialisable));
    }

    proptest! {
        #[test]
        fn never_panics(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = classify_result(&raw);
        }

        #[test]
        fn never_panics_on_nearly_json(raw in r#"[{}\[\]":,\\ \n0-9eE.+\-tisErorfalsn]{0,60}"#) {
            let class = classify_result(raw.as_bytes());
            prop_assert_eq!(class.result.is_none(), class.reason.is_some());
        }
    }
}
