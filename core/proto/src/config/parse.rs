//! The rules of a config, member by member.

use super::checks::{ConfigChecks, Violation};
use super::fault::{Faults, rule};
use super::limits::ConfigLimits;
use super::read::{Node, Object, Reader, member_path, quoted};
use super::{Batching, NotificationConfig, PEER, Route, SEED, Sensitive};
use crate::doorbell::Doorbell;
use crate::firing::KEPT;
use crate::json;
use crate::redact::Redaction;
use crate::webhook::{Jwk, PublicKey, Seed};
use crate::wire::sep992::{NOTIFICATION_CONFIG, ROUTE_SIGNAL, ROUTE_WEBHOOK};

const MAX_ID_CHARS: usize = 128;

pub(super) fn config(
    raw: &[u8],
    limits: &ConfigLimits,
    checks: &dyn ConfigChecks,
) -> Result<NotificationConfig, Faults> {
    let text = bounded_json(raw, limits)?;
    let value = json::check(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        Faults::one(rule::MALFORMED_JSON, format!("{NOTIFICATION_CONFIG} is not valid JSON at {place}"))
    })?;
    let mut rules = Rules { reader: Reader::default(), limits, checks };
    let config = rules.config(&Node { path: String::new(), name: NOTIFICATION_CONFIG, value });
    match config {
        Some(config) if rules.reader.faults.total() == 0 => Ok(config),
        _ => Err(rules.reader.faults),
    }
}

/// The bounds that keep all further work small, before anything is read.
fn bounded_json<'a>(raw: &'a [u8], limits: &ConfigLimits) -> Result<&'a str, Faults> {
    if raw.len() > limits.max_bytes {
        let message =
            format!("{NOTIFICATION_CONFIG} has {} bytes, at most {} are allowed", raw.len(), limits.max_bytes);
        return Err(Faults::one(rule::TOO_LARGE, message));
    }
    let text = core::str::from_utf8(raw)
        .map_err(|_| Faults::one(rule::MALFORMED_JSON, format!("{NOTIFICATION_CONFIG} is not UTF-8")))?;
    let depth = json::depth(text);
    if depth > limits.max_depth {
        let message = format!("{NOTIFICATION_CONFIG} nests {depth} deep, at most {} is allowed", limits.max_depth);
        return Err(Faults::one(rule::TOO_DEEP, message));
    }
    Ok(text)
}

pub(super) struct Rules<'c> {
    pub(super) reader: Reader,
    pub(super) limits: &'c ConfigLimits,
    checks: &'c dyn ConfigChecks,
}

impl Rules<'_> {
    /// `None` only with a fault noted; the reverse need not hold.
    fn config(&mut self, node: &Node<'_>) -> Option<NotificationConfig> {
        let object = self.reader.object(node)?;
        let routes = self.routes(&object);
        let timeout_ms = object.get("timeoutMs").and_then(|node| self.reader.integer(&node, 1));
        let group = object.get("group").and_then(|node| self.reader.short_text(&node, self.limits.max_key_chars));
        Some(NotificationConfig { routes: routes?, timeout_ms, group })
    }

    fn routes(&mut self, object: &Object<'_>) -> Option<Vec<Route>> {
        let node = self.reader.required(object, "routes")?;
        let nodes = self.reader.list(&node, "route", self.limits.max_routes)?;
        let mut ids: Vec<String> = Vec::with_capacity(nodes.len());
        let mut routes = Vec::with_capacity(nodes.len());
        for node in nodes {
            routes.extend(self.route(&node, &mut ids));
        }
        Some(routes)
    }

    fn route(&mut self, node: &Node<'_>, ids: &mut Vec<String>) -> Option<Route> {
        let object = self.reader.object(node)?;
        // Each member is read before the first missing one ends the route, so that all faults are found.
        let id = self.id(&object, ids);
        let kind = self.kind(&object);
        let endpoint = self.endpoint(&object, kind.as_deref());
        let signal = self.signal(&object, kind.as_deref());
        let triggers = self.triggers(&object);
        let secret = self.secret(&object, kind.as_deref());
        let headers = self.headers(&object);
        let deadline_ms =
            object.get("deadlineMs").and_then(|node| self.reader.integer(&node, self.limits.min_deadline_ms));
        let fifo_key = object.get("fifoKey").and_then(|node| self.reader.short_text(&node, self.limits.max_key_chars));
        let batch = self.batch(&object, kind.as_deref());
        let redact = self.redact(&object);
        let public_key = self.public_key(&object, kind.as_deref());
        let peer = self.kept(&object, PEER);
        let seed = self.kept(&object, SEED).and_then(|text| Seed::parse(&text));
        Some(Route {
            id: id?,
            kind: kind?,
            endpoint,
            peer,
            signal,
            triggers: triggers?,
            secret,
            headers,
            deadline_ms,
            fifo_key,
            batch,
            redact,
            public_key,
            seed,
        })
    }

    fn id(&mut self, object: &Object<'_>, ids: &mut Vec<String>) -> Option<String> {
        let node = self.reader.required(object, "id")?;
        let id = self.reader.text(&node)?;
        if id.is_empty() || id.len() > MAX_ID_CHARS || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("id must be 1 to {MAX_ID_CHARS} visible ASCII characters");
            self.reader.fault(&node, rule::PATTERN, message);
            return None;
        }
        if ids.contains(&id) {
            let message = format!("id {} is used by an earlier route", quoted(&id));
            self.reader.fault(&node, rule::DUPLICATE_ID, message);
            return None;
        }
        ids.push(id.clone());
        Some(id)
    }

    /// The route's type if the server supports it.
    fn kind(&mut self, object: &Object<'_>) -> Option<String> {
        let node = self.reader.required(object, "type")?;
        let kind = self.reader.text(&node)?;
        match &self.limits.route_types {
            Some(supported) if !supported.contains(&kind) => {
                let supported = if supported.is_empty() { "none".into() } else { supported.join(", ") };
                let message = format!("type {} is not supported; supported: {supported}", quoted(&kind));
                self.reader.fault(&node, rule::UNSUPPORTED_TYPE, message);
                None
            }
            _ => Some(kind),
        }
    }

    /// Without a supported type only the shape can be checked.
    fn endpoint(&mut self, object: &Object<'_>, kind: Option<&str>) -> Option<String> {
        let node = match kind {
            Some(ROUTE_WEBHOOK) => self.reader.required(object, "endpoint")?,
            _ => match (object.get("endpoint"), kind) {
                (Some(node), _) => node,
                (None, Some(kind)) => {
                    if let Err(violation) = self.checks.no_endpoint(kind) {
                        self.violation(object.path.clone(), violation);
                    }
                    return None;
                }
                (None, None) => return None,
            },
        };
        if kind == Some(ROUTE_SIGNAL) {
            let message = "endpoint is not allowed on a signal route: it goes to the local peer only";
            self.reader.fault(&node, rule::NOT_ALLOWED, message);
            return None;
        }
        let endpoint = self.reader.short_text(&node, self.limits.max_endpoint_chars)?;
        if let Err(violation) = self.checks.endpoint(kind?, &endpoint) {
            self.violation(node.path, violation);
        }
        Some(endpoint)
    }

    /// The client names the signal that it waits for: any of them would end a process that does not.
    fn signal(&mut self, object: &Object<'_>, kind: Option<&str>) -> Option<Doorbell> {
        if kind != Some(ROUTE_SIGNAL) {
            return None;
        }
        if let Some(node) = object.get("target")
            && self.reader.text(&node)? != "peer"
        {
            let message = "target names nothing that this server opens; there is \"peer\"";
            self.reader.fault(&node, rule::NOT_OPEN, message);
        }
        let node = self.reader.required(object, "signal")?;
        let name = self.reader.text(&node)?;
        let signal = Doorbell::parse(&name);
        if signal.is_none() {
            self.reader.fault(
                &node,
                rule::PATTERN,
                "signal must be SIGUSR1, SIGUSR2 or SIGRTMIN+n with n from 0 to 15",
            );
        }
        signal
    }

    /// Only requests have a body that several firings fit into.
    fn batch(&mut self, object: &Object<'_>, kind: Option<&str>) -> Option<Batching> {
        let node = object.get("batch")?;
        if kind.is_some_and(|kind| kind != ROUTE_WEBHOOK) {
            self.reader.fault(&node, rule::NOT_ALLOWED, "batch is allowed on a webhook route only");
            return None;
        }
        let object = self.reader.object(&node)?;
        let (least_events, least_delay_ms) = self.limits.least_batch();
        let max_events = self
            .reader
            .required(&object, "maxEvents")
            .and_then(|node| self.reader.integer_within(&node, least_events, self.limits.max_batch_events.into()));
        let max_delay_ms = self
            .reader
            .required(&object, "maxDelayMs")
            .and_then(|node| self.reader.integer_within(&node, least_delay_ms, self.limits.max_batch_delay_ms));
        Some(Batching { max_events: u32::try_from(max_events?).unwrap_or(u32::MAX), max_delay_ms: max_delay_ms? })
    }

    /// Members of the body's `data` that a receiver needs to know what it has before it, and Tidings to send it on.
    fn redact(&mut self, object: &Object<'_>) -> Vec<String> {
        let Some(node) = object.get("redact") else { return Vec::new() };
        let Some(nodes) = self.reader.list_from(&node, "redact entry", 0, self.limits.max_redacted) else {
            return Vec::new();
        };
        let mut redact = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(entry) = self.reader.short_text(&node, self.limits.max_pointer_chars) else { continue };
            if let Err((_, fault)) = Redaction::parse([&entry]) {
                self.reader.fault(&node, rule::POINTER, format!("a redact entry {fault}"));
            } else if KEPT.iter().any(|name| entry.strip_prefix('/') == Some(name)) {
                self.reader.fault(&node, rule::NOT_ALLOWED, format!("{entry} of a body is never redacted"));
            }
            redact.push(entry);
        }
        redact
    }

    /// Only requests are encrypted: what goes through the host is read by it.
    fn public_key(&mut self, object: &Object<'_>, kind: Option<&str>) -> Option<PublicKey> {
        let node = object.get("publicKey")?;
        if kind.is_some_and(|kind| kind != ROUTE_WEBHOOK) {
            self.reader.fault(&node, rule::NOT_ALLOWED, "publicKey is allowed on a webhook route only");
            return None;
        }
        let object = self.reader.object(&node)?;
        let before = self.reader.faults.total();
        let mut text = |name| object.get(name).and_then(|node| self.reader.text(&node));
        let jwk = Jwk {
            kty: text("kty"),
            crv: text("crv"),
            x: text("x"),
            y: text("y"),
            d: text("d"),
            kid: text("kid"),
            usage: text("use"),
            alg: text("alg"),
        };
        if self.reader.faults.total() > before {
            return None;
        }
        match PublicKey::from_jwk(&jwk) {
            Ok(key) => Some(key),
            Err(fault) => {
                let path = fault.member().map_or_else(|| node.path.clone(), |member| format!("{}/{member}", node.path));
                self.reader.faults.push(path, fault.code(), format!("publicKey: {fault}"));
                None
            }
        }
    }

    /// A member that only a text of our own has.
    fn kept(&mut self, object: &Object<'_>, name: &'static str) -> Option<String> {
        let node = object.get(name).filter(|_| self.limits.stored)?;
        self.reader.text(&node)
    }

    fn secret(&mut self, object: &Object<'_>, kind: Option<&str>) -> Option<Sensitive> {
        let Some(node) = object.get("secret") else {
            if self.limits.require_secret && kind == Some(ROUTE_WEBHOOK) {
                let message = "secret is required on a webhook route by this server";
                self.reader.faults.push(object.path.as_str(), rule::SECRET_REQUIRED, message);
            }
            return None;
        };
        let secret = self.reader.text(&node)?;
        if let Err(violation) = self.checks.secret(&secret) {
            self.violation(node.path, violation);
        }
        Some(Sensitive::new(secret))
    }

    fn headers(&mut self, object: &Object<'_>) -> Vec<(String, Sensitive)> {
        let Some(node) = object.get("headers") else { return Vec::new() };
        let Some(object) = self.reader.object(&node) else { return Vec::new() };
        let (count, max) = (object.members.len(), self.limits.max_headers);
        if count > max {
            let message = format!("headers has {count} members, at most {max} are allowed");
            self.reader.fault(&node, rule::TOO_MANY, message);
            return Vec::new();
        }
        let mut headers: Vec<(String, Sensitive)> = Vec::with_capacity(count);
        for (name, value) in object.members {
            let node = Node { path: member_path(&node.path, &name), name: "header value", value };
            let Ok(name) = String::from_utf8(name) else {
                self.reader.fault(&node, rule::NOT_UNICODE, "a header name must not contain a lone surrogate");
                continue;
            };
            let Some(value) = self.reader.text(&node) else { continue };
            if headers.iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(&name)) {
                let message = "a header name may be used once, without regard to case";
                self.reader.fault(&node, rule::DUPLICATE_HEADER, message);
            }
            if let Err(violation) = self.checks.header(&name, &value) {
                self.violation(node.path, violation);
            }
            headers.push((name, Sensitive::new(value)));
        }
        headers
    }

    fn violation(&mut self, path: String, violation: Violation) {
        self.reader.faults.push(path, violation.rule, violation.message);
    }
}
