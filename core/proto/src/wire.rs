//! Names and codes that are not (or not yet) in a released MCP version, all in this one module.
//!
//! SEP-992 and SEP-2694 are drafts and SEP-3415 is Beta: what they name may change, and changes here only. Names under `io.tidings` are
//! our own.

use crate::json;

/// SEP-992, "Notification Configuration for Tool Call Result" (draft).
pub mod sep992 {
    /// Capability key, and the member of a `tools/call` request's params.
    pub const NOTIFICATION_CONFIG: &str = "notificationConfig";
    /// Member of the capability: the route types that the server supports.
    pub const SUPPORTED_ROUTE_TYPES: &str = "supportedRouteTypes";
    /// Notification that acknowledges an accepted config before the tool runs.
    pub const CONFIG_ACKNOWLEDGED: &str = "notifications/config/acknowledged";
    /// Route type that posts to a URL.
    pub const ROUTE_WEBHOOK: &str = "webhook";
    /// Route type that sends a frame into the calling session.
    pub const ROUTE_MESSAGE: &str = "message";
    /// Route type that rings a local peer's doorbell.
    pub const ROUTE_SIGNAL: &str = "signal";
    /// Trigger: the call completed successfully.
    pub const TRIGGER_COMPLETED: &str = "completed";
    /// Trigger: the call failed.
    pub const TRIGGER_FAILED: &str = "failed";
    /// Trigger: the call exceeded the server's time limit.
    pub const TRIGGER_TIMEOUT: &str = "timeout";
    /// Trigger: the call was cancelled.
    pub const TRIGGER_CANCELLED: &str = "cancelled";
    /// Trigger: the call emitted an event or chunk.
    pub const TRIGGER_STREAMING: &str = "streaming";
}

/// SEP-2694, "Resumable Task Event Streams" (draft).
pub mod sep2694 {
    /// Request that opens a task's event stream.
    pub const TASKS_STREAM: &str = "tasks/stream";
    /// Notification that carries one task event.
    pub const TASKS_EVENT: &str = "notifications/tasks/event";
    /// Sub-capability of Tasks by which a server may advertise event streams.
    pub const EVENT_STREAMS: &str = "eventStreams";
    /// `_meta` key that names the task of an event.
    pub const META_RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// Default code of `events_gone`. It lies in a range where MCP 2026-07-28 allows no new codes, so clients branch
    /// on `data.reason` and operators may set another.
    pub const EVENTS_GONE: i64 = -32010;
    /// `data.reason` of that error.
    pub const REASON_EVENTS_GONE: &str = "events_gone";
    /// `data.reason` when `after` lies beyond the head (code [`super::rpc::INVALID_PARAMS`]); ours, the draft is silent.
    pub const REASON_AHEAD: &str = "ahead";
}

/// SEP-3415, "Events extension": how the sender of webhooks and a receiver deal with each other. Beta; the names are those
/// of its October text.
pub mod sep3415 {
    /// Member that tells a control envelope from an event.
    pub const TYPE: &str = "type";
    /// The envelope that asks an endpoint whether it wants webhooks.
    pub const TYPE_VERIFICATION: &str = "verification";
    /// Member with the nonce, in the envelope and in its answer.
    pub const CHALLENGE: &str = "challenge";
    /// What the `webhook-id` of a verification begins with.
    pub const VERIFICATION_ID_PREFIX: &str = "msg_verification_";
    /// The path of the document by which an origin says where it takes webhooks.
    pub const WELL_KNOWN_RECEIVER: &str = "/.well-known/mcp-webhook-receiver.json";
    /// Its member that lists path prefixes.
    pub const RECEIVERS: &str = "receivers";
}

/// Our own extensions, under the reverse-DNS prefix `io.tidings`.
pub mod tidings {
    /// Key under the capability `extensions`; its value has the shape of SEP-992's capability.
    pub const EXTENSION: &str = "io.tidings/notification-config";
    /// Result `_meta` key with the acknowledgement, for a response that has no stream to put it on.
    pub const META_ACKNOWLEDGED: &str = "io.tidings/acknowledged";
    /// Result `_meta` key with what could not be delivered.
    pub const META_UNDELIVERED: &str = "io.tidings/undelivered";
    /// `_meta` key with a captured event's identity.
    pub const META_EVENT: &str = "io.tidings/event";
    /// Type of a captured progress notification.
    pub const EVENT_PROGRESS: &str = "io.tidings.progress";
    /// Type of a captured log message.
    pub const EVENT_LOG: &str = "io.tidings.log";
    /// Type of the event that ends a call's stream.
    pub const EVENT_OUTCOME: &str = "io.tidings.outcome";
    /// Type of the event that says that a task asks its client for something; the payload has the keys.
    pub const EVENT_INPUT_REQUIRED: &str = "io.tidings.input_required";
    /// Type of the event that says the client's connection was lost while the call goes on.
    pub const EVENT_DISCONNECTED: &str = "io.tidings.disconnected";
    /// The stream of receipts, in the scope of the principal.
    pub const STREAM_DELIVERIES: &str = "deliveries";
    /// Type of the receipt for a delivery that was taken.
    pub const EVENT_DELIVERED: &str = "io.tidings.delivered";
    /// Type of the receipt for one that was given up, or whose deadline passed.
    pub const EVENT_DEAD: &str = "io.tidings.dead";
    /// Type of the receipt that says that an endpoint is disabled.
    pub const EVENT_DISABLED: &str = "io.tidings.disabled";
    /// Notification on a resumed legacy stream that cannot be complete.
    pub const GAP: &str = "notifications/io.tidings/gap";
    /// Notification of a route of type `message`; its params are the webhook body.
    pub const TRIGGERED: &str = "notifications/io.tidings/triggered";
    /// Request `{callId}` that stops a detached call of the same principal.
    pub const CALLS_CANCEL: &str = "io.tidings/calls/cancel";
    /// Trigger: the connection of a call that goes on was lost.
    pub const TRIGGER_DISCONNECTED: &str = "io.tidings/disconnected";
    /// Trigger: the call has run for so long; the member of a config that asks for it.
    pub const TRIGGER_ELAPSED: &str = "elapsedMs";
    /// Trigger: the call has run for so long once more; the member of a config that asks for it.
    pub const TRIGGER_EVERY: &str = "everyMs";
    /// Trigger: a group of calls came to what was asked for; the member of a config that asks for it.
    pub const TRIGGER_GROUP: &str = "group";
    /// Route type whose deliveries go to a handler in the host.
    pub const ROUTE_CALLBACK: &str = "callback";
    /// What the webhook `name` of a call's own trigger begins with: `tool_call.completed`.
    pub const WEBHOOK_NAME_PREFIX: &str = "tool_call.";
    /// The webhook `name` of an aggregate that ended without having come true.
    pub const GROUP_UNMET: &str = "tool_call.group_unmet";
    /// The one member of a batch's body.
    pub const BATCH_EVENTS: &str = "events";
    /// Member of an error's `data` that lists a rejected config's faults.
    pub const DATA_FAULTS: &str = "faults";
    /// Member of an error's `data` that counts them all, those not listed too.
    pub const DATA_FAULTS_TOTAL: &str = "total";
}

/// JSON-RPC 2.0 and MCP error codes that Tidings answers with. Codes of our own would stay outside -32768…-32000.
pub mod rpc {
    /// The method does not exist or is not offered.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// A bad config, cursor, task id or other parameter.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A failure on our side.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// MCP 2026-07-28: the request lacks a client capability, named in `data.requiredCapabilities`.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
}

/// The value of the capability, `{"supportedRouteTypes":[…]}`, under both [`sep992::NOTIFICATION_CONFIG`] and
/// [`tidings::EXTENSION`].
pub fn capability_json<S: AsRef<str>>(route_types: impl IntoIterator<Item = S>) -> String {
    let mut out = String::from("{");
    json::push_name(&mut out, sep992::SUPPORTED_ROUTE_TYPES);
    json::push_strings(&mut out, route_types);
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_has_the_shape_of_the_sep() {
        assert_eq!(capability_json(["webhook", "message"]), r#"{"supportedRouteTypes":["webhook","message"]}"#);
        assert_eq!(capability_json::<&str>([]), r#"{"supportedRouteTypes":[]}"#);
    }
}
