//! Limits on a config.

use crate::group::{MAX_GROUP_CALLS, MAX_GROUP_MS};

/// What the operator allows a config to hold. The defaults are those of the design, section 5, and of the config's
/// JSON Schema; lengths of text count Unicode characters, as in JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigLimits {
    /// The whole text, in bytes.
    pub max_bytes: usize,
    /// How deep arrays and objects nest; a config that uses all of the schema needs 8.
    pub max_depth: usize,
    /// Routes in a config.
    pub max_routes: usize,
    /// Triggers in a route.
    pub max_triggers: usize,
    /// Conditions of a trigger.
    pub max_conditions: usize,
    /// Characters in a JSON Pointer or another entry of `redact`.
    pub max_pointer_chars: usize,
    /// Entries of a route's `redact`.
    pub max_redacted: usize,
    /// The least `everyMs`, in milliseconds.
    pub min_every_ms: u64,
    /// The greatest `all` and `count` of a group trigger, and the most calls of a group.
    pub max_group_calls: u64,
    /// The greatest `deadlineMs` of a group trigger, and how long one without it waits, in milliseconds.
    pub max_group_ms: u64,
    /// Static headers of a route.
    pub max_headers: usize,
    /// Characters in an endpoint.
    pub max_endpoint_chars: usize,
    /// Characters in a `fifoKey`, and in a group's name.
    pub max_key_chars: usize,
    /// The greatest `maxEvents` of a `batch`.
    pub max_batch_events: u32,
    /// The greatest `maxDelayMs` of a `batch`, in milliseconds.
    pub max_batch_delay_ms: u64,
    /// The least `deadlineMs`, in milliseconds.
    pub min_deadline_ms: u64,
    /// Refuses a webhook route without a secret of its own.
    pub require_secret: bool,
    /// The route types that the server supports; `None` takes any.
    pub route_types: Option<Vec<String>>,
    /// Reads what was added when the config was accepted, too; for a text of our own.
    pub stored: bool,
}

impl Default for ConfigLimits {
    /// The documented limits, and no route type: nothing of a draft is on unless it is named.
    fn default() -> Self {
        Self {
            max_bytes: 16 * 1024,
            max_depth: 16,
            max_routes: 8,
            max_triggers: 16,
            max_conditions: 16,
            max_pointer_chars: 512,
            max_redacted: 32,
            min_every_ms: 10_000,
            max_group_calls: MAX_GROUP_CALLS,
            max_group_ms: MAX_GROUP_MS,
            max_headers: 16,
            max_endpoint_chars: 2048,
            max_key_chars: 128,
            max_batch_events: 100,
            max_batch_delay_ms: 60_000,
            min_deadline_ms: 1000,
            require_secret: false,
            route_types: Some(Vec::new()),
            stored: false,
        }
    }
}

impl ConfigLimits {
    /// No limits: for reading back what was accepted once, under limits that may have been wider than today's.
    pub fn stored() -> Self {
        Self {
            max_bytes: usize::MAX,
            max_depth: usize::MAX,
            max_routes: usize::MAX,
            max_triggers: usize::MAX,
            max_conditions: usize::MAX,
            max_pointer_chars: usize::MAX,
            max_redacted: usize::MAX,
            min_every_ms: 0,
            max_group_calls: u64::MAX,
            max_group_ms: u64::MAX,
            max_headers: usize::MAX,
            max_endpoint_chars: usize::MAX,
            max_key_chars: usize::MAX,
            max_batch_events: u32::MAX,
            max_batch_delay_ms: u64::MAX,
            min_deadline_ms: 0,
            require_secret: false,
            route_types: None,
            stored: true,
        }
    }

    /// The least `maxEvents` and `maxDelayMs` of a batch: with less there is nothing to wait for.
    pub(super) const fn least_batch(&self) -> (u64, u64) {
        if self.stored { (0, 0) } else { (2, 100) }
    }

    /// The documented limits for a server that supports `route_types`.
    pub fn for_route_types<S: Into<String>>(route_types: impl IntoIterator<Item = S>) -> Self {
        Self { route_types: Some(route_types.into_iter().map(Into::into).collect()), ..Self::default() }
    }
}
