//! `notificationConfig`: what a client asks to be told about one `tools/call`, read and validated as a whole.
//!
//! The shape is SEP-992's with the project's extensions. Nothing is accepted in part: either every rule holds, or
//! the caller gets all [`Faults`] and nothing runs.

mod checks;
mod fault;
mod limits;
mod parse;
mod read;
mod sensitive;
mod triggers;
mod wanted;

pub use checks::{AcceptStored, ConfigChecks, Violation};
pub use fault::{Fault, Faults, rule};
pub use limits::ConfigLimits;
pub use sensitive::Sensitive;
pub use wanted::Wanted;

use core::fmt;

use crate::doorbell::Doorbell;
use crate::json;
use crate::trigger::Trigger;
use crate::webhook::{PublicKey, Seed};

/// An accepted config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotificationConfig {
    /// At least one route, in the client's order of preference; their ids differ.
    pub routes: Vec<Route>,
    /// Milliseconds after which the client wants the call ended; may only lower the server's own limit, see
    /// [`crate::call::effective_timeout`].
    pub timeout_ms: Option<u64>,
    /// The group of calls to which this one counts.
    pub group: Option<String>,
}

/// One place to tell. Its `Debug` shows neither the secret, nor header values, nor the endpoint beyond its host.
#[derive(Clone, PartialEq, Eq)]
pub struct Route {
    /// The client's name for the route, 1 to 128 visible ASCII characters.
    pub id: String,
    /// `webhook`, `message`, `signal`, `callback`, or a type that the server registered.
    pub kind: String,
    /// A URL for `webhook`; a name for other types, where none means the calling session.
    pub endpoint: Option<String>,
    /// The host's name for the calling session's connection, where the route goes there. Never read from a client's config:
    /// set by whoever accepts it, kept with it.
    pub peer: Option<String>,
    /// The signal that a route of type `signal` rings with, and no other route has.
    pub signal: Option<Doorbell>,
    /// At least one trigger, as listed.
    pub triggers: Vec<Wanted>,
    /// The signing secret as the client wrote it (`whsec_…`).
    pub secret: Option<Sensitive>,
    /// Static headers in the client's order; names differ also without regard to case.
    pub headers: Vec<(String, Sensitive)>,
    /// Milliseconds from the firing after which a delivery is no longer wanted.
    pub deadline_ms: Option<u64>,
    /// Deliveries with the same key go out in order.
    pub fifo_key: Option<String>,
    /// Firings that go out together.
    pub batch: Option<Batching>,
    /// What is taken out of the bodies for this route: JSON Pointers into `data`, and names of members at every depth,
    /// see [`Redaction`](crate::redact::Redaction).
    pub redact: Vec<String>,
    /// Bodies are encrypted to this key.
    pub public_key: Option<PublicKey>,
    /// What the encryption of one delivery follows from. Never read from a client's config: drawn with the delivery, kept
    /// with it.
    pub seed: Option<Seed>,
}

/// How many firings a route wants in one request, and how long the first of them may wait for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// At most so many.
    pub max_events: u32,
    /// In milliseconds.
    pub max_delay_ms: u64,
}

impl NotificationConfig {
    /// Reads and validates a config from its raw JSON text.
    ///
    /// Members that are not known are ignored, so that a later SEP can add some. A member named twice in one object
    /// is refused, because two readers could take a different one.
    ///
    /// # Errors
    /// All [`Faults`], in the order of the document where that can be had. Text that is too large, nests too deep or
    /// is no JSON is one fault, and so is a list with too many elements.
    pub fn parse(raw: &[u8], limits: &ConfigLimits, checks: &dyn ConfigChecks) -> Result<Self, Faults> {
        parse::config(raw, limits, checks)
    }

    /// The canonical text for the store, read back by [`NotificationConfig::parse`] with [`ConfigLimits::stored`] and
    /// [`AcceptStored`].
    ///
    /// It contains the secrets and header values: seal it before it is written, and never log it.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        json::push_name(&mut out, "routes");
        out.push('[');
        for (index, route) in self.routes.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            route.push_json(&mut out);
        }
        out.push(']');
        push_millis(&mut out, "timeoutMs", self.timeout_ms);
        push_text(&mut out, "group", self.group.as_deref());
        out.push('}');
        out
    }

    /// The ids of all routes, for the acknowledgement: an accepted config has no route that is not.
    pub fn route_ids(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| route.id.as_str())
    }

    /// Every trigger that a route lists, in order, as often as it is listed.
    pub fn triggers(&self) -> impl Iterator<Item = &Trigger> {
        self.routes.iter().flat_map(|route| &route.triggers).map(|wanted| &wanted.trigger)
    }

    /// The listed trigger names that nothing fires, each once, in the order of their first mention. SEP-992 leaves
    /// trigger types extensible, so they are accepted, and the acknowledgement names them.
    pub fn ignored_triggers(&self) -> Vec<&str> {
        let mut ignored: Vec<&str> = Vec::new();
        for trigger in self.triggers() {
            if !trigger.is_known() && !ignored.contains(&trigger.name()) {
                ignored.push(trigger.name());
            }
        }
        ignored
    }
}

impl Route {
    /// Whether the route lists the trigger, under whatever conditions.
    pub fn lists(&self, trigger: &Trigger) -> bool {
        self.triggers.iter().any(|wanted| wanted.trigger == *trigger)
    }

    fn push_json(&self, out: &mut String) {
        out.push('{');
        push_text(out, "id", Some(&self.id));
        push_text(out, "type", Some(&self.kind));
        push_text(out, "endpoint", self.endpoint.as_deref());
        push_text(out, PEER, self.peer.as_deref());
        push_text(out, "signal", self.signal.map(|signal| signal.to_string()).as_deref());
        json::push_name(out, "triggers");
        out.push('[');
        for (index, wanted) in self.triggers.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            wanted.push_json(out);
        }
        out.push(']');
        push_text(out, "secret", self.secret.as_ref().map(Sensitive::expose));
        if !self.headers.is_empty() {
            json::push_name(out, "headers");
            out.push('{');
            for (name, value) in &self.headers {
                push_text(out, name, Some(value.expose()));
            }
            out.push('}');
        }
        push_millis(out, "deadlineMs", self.deadline_ms);
        push_text(out, "fifoKey", self.fifo_key.as_deref());
        if let Some(batch) = self.batch {
            json::push_name(out, "batch");
            out.push_str(&format!(r#"{{"maxEvents":{},"maxDelayMs":{}}}"#, batch.max_events, batch.max_delay_ms));
        }
        if !self.redact.is_empty() {
            json::push_name(out, "redact");
            json::push_strings(out, &self.redact);
        }
        if let Some(key) = &self.public_key {
            json::push_name(out, "publicKey");
            out.push_str(&key.to_json());
        }
        push_text(out, SEED, self.seed.as_ref().map(Seed::reveal).as_deref());
        out.push('}');
    }
}

/// Only in the text for the store.
const PEER: &str = "peer";
/// The same.
const SEED: &str = "seed";

fn push_text(out: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        json::push_name(out, name);
        json::push_string(out, value);
    }
}

fn push_millis(out: &mut String, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        json::push_name(out, name);
        out.push_str(&value.to_string());
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("endpoint", &self.endpoint.as_deref().map(without_path))
            .field("peer", &self.peer)
            .field("signal", &self.signal)
            .field("triggers", &self.triggers)
            .field("secret", &self.secret)
            .field("headers", &self.headers)
            .field("deadline_ms", &self.deadline_ms)
            .field("fifo_key", &self.fifo_key)
            .field("batch", &self.batch)
            .field("redact", &self.redact)
            .field("public_key", &self.public_key)
            .field("seed", &self.seed)
            .finish()
    }
}

/// Scheme and authority of a URL: receivers put credentials into paths and queries.
fn without_path(endpoint: &str) -> &str {
    let authority = endpoint.find("://").map_or(0, |at| at + 3);
    let end = endpoint[authority..].find(['/', '?', '#']).map_or(endpoint.len(), |at| authority + at);
    &endpoint[..end]
}

#[cfg(test)]
mod tests;
