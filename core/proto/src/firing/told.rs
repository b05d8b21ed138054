//! What the calling client is told beside its result.

use crate::config::NotificationConfig;
use crate::id::{CallId, RequestId};
use crate::json;
use crate::trigger::Trigger;
use crate::wire::tidings::TRIGGERED;

/// The params of `notifications/config/acknowledged`, and the value of the result's `_meta["io.tidings/acknowledged"]`:
/// `{requestId, acceptedRoutes, callId, ignoredTriggers?}`.
///
/// The client finds the call again by `callId`: its request id may be used anew once the request is answered.
pub fn acknowledgement_json(request_id: &RequestId, config: &NotificationConfig, call_id: CallId) -> String {
    let mut out = String::from("{");
    json::push_name(&mut out, "requestId");
    out.push_str(&request_id.to_json());
    json::push_name(&mut out, "acceptedRoutes");
    json::push_strings(&mut out, config.route_ids());
    json::push_name(&mut out, "callId");
    json::push_string(&mut out, &call_id.to_string());
    let ignored = config.ignored_triggers();
    if !ignored.is_empty() {
        json::push_name(&mut out, "ignoredTriggers");
        json::push_strings(&mut out, ignored);
    }
    out.push('}');
    out
}

/// Why a firing was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndeliveredReason {
    /// No route that lists the trigger was deliverable.
    NoRoute,
    /// The store could not take the delivery.
    StoreUnavailable,
    /// The principal has as many unfinished deliveries as it may have.
    TooManyPending,
}

impl UndeliveredReason {
    /// The reason's text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            UndeliveredReason::NoRoute => "no_deliverable_route",
            UndeliveredReason::StoreUnavailable => "store_unavailable",
            UndeliveredReason::TooManyPending => "too_many_pending",
        }
    }
}

/// One firing that was not delivered.
#[derive(Debug, Clone, Copy)]
pub struct Undelivered<'a> {
    /// The trigger that fired.
    pub trigger: &'a Trigger,
    /// The ids of the routes that list it, in order of preference.
    pub routes: &'a [&'a str],
    /// Why.
    pub reason: UndeliveredReason,
}

/// The value of the result's `_meta["io.tidings/undelivered"]`: `[{trigger, routes, reason}…]`.
pub fn undelivered_json(entries: &[Undelivered<'_>]) -> String {
    let mut out = String::from("[");
    for (index, entry) in entries.iter().enumerate() {
        out.push_str(if index > 0 { ",{" } else { "{" });
        json::push_name(&mut out, "trigger");
        json::push_string(&mut out, entry.trigger.name());
        json::push_name(&mut out, "routes");
        json::push_strings(&mut out, entry.routes);
        json::push_name(&mut out, "reason");
        json::push_string(&mut out, entry.reason.as_str());
        out.push('}');
    }
    out.push(']');
    out
}
/// The JSON-RPC notification of a route of type `message`: [`TRIGGERED`], with a webhook's body as its params.
pub fn message_frame(body: &[u8]) -> Vec<u8> {
    let head = format!(r#"{{"jsonrpc":"2.0","method":"{TRIGGERED}","params":"#);
    [head.as_bytes(), body, b"}"].concat()
}
