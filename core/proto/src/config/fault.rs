//! What is wrong with a config.

use core::fmt;

use crate::json;
use crate::wire::tidings::{DATA_FAULTS, DATA_FAULTS_TOTAL};

/// The codes of the rules that the config module checks itself. They are stable: clients may branch on them.
pub mod rule {
    /// The text is not one JSON value in UTF-8.
    pub const MALFORMED_JSON: &str = "malformed_json";
    /// The text has too many bytes.
    pub const TOO_LARGE: &str = "too_large";
    /// Arrays and objects nest too deep.
    pub const TOO_DEEP: &str = "too_deep";
    /// A value has another JSON type than its member wants.
    pub const WRONG_TYPE: &str = "wrong_type";
    /// A required member is not there.
    pub const MISSING: &str = "missing";
    /// A list has no element.
    pub const EMPTY: &str = "empty";
    /// A list or object has too many elements.
    pub const TOO_MANY: &str = "too_many";
    /// A text has too many characters.
    pub const TOO_LONG: &str = "too_long";
    /// A number is below its minimum.
    pub const TOO_SMALL: &str = "too_small";
    /// A number is above its maximum.
    pub const TOO_BIG: &str = "too_big";
    /// A text does not match its pattern.
    pub const PATTERN: &str = "pattern";
    /// A text holds a lone surrogate.
    pub const NOT_UNICODE: &str = "not_unicode";
    /// Two routes have the same id.
    pub const DUPLICATE_ID: &str = "duplicate_id";
    /// An object names a member twice.
    pub const DUPLICATE_KEY: &str = "duplicate_key";
    /// Two header names differ only in case.
    pub const DUPLICATE_HEADER: &str = "duplicate_header";
    /// The server does not support the route type.
    pub const UNSUPPORTED_TYPE: &str = "unsupported_type";
    /// A member that the route's type does not allow.
    pub const NOT_ALLOWED: &str = "not_allowed";
    /// A name that the server's policy does not open for this call, whether or not there is such a thing.
    pub const NOT_OPEN: &str = "not_open";
    /// The route goes to the calling session, and this one has no connection that outlives the request.
    pub const NO_SESSION: &str = "no_session";
    /// The server's policy does not let this principal send its results elsewhere.
    pub const DENIED: &str = "denied";
    /// The server requires a secret.
    pub const SECRET_REQUIRED: &str = "secret_required";
    /// A member that its object may not have.
    pub const UNKNOWN_MEMBER: &str = "unknown_member";
    /// A text is no JSON Pointer (RFC 6901).
    pub const POINTER: &str = "pointer";
    /// A condition's operand is none that its operator compares with.
    pub const OPERAND: &str = "operand";
    /// A group trigger has not exactly one of `all`, `any`, `count`.
    pub const GROUP_RULE: &str = "group_rule";
    /// A group trigger waits for something that is no outcome of a call.
    pub const OUTCOME: &str = "outcome";
    /// The group has as many calls as it may have.
    pub const GROUP_FULL: &str = "group_full";
}

/// One rule that a config breaks, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// JSON Pointer (RFC 6901) into the config; of an object's member that is missing, the object's. Where a member's
    /// name is not short visible ASCII, it ends at the object.
    pub path: String,
    /// A stable snake_case code: one of [`rule`], or one of the operator's checks.
    pub rule: &'static str,
    /// Names the field and the rule; never a secret or a header value.
    pub message: String,
}

/// All faults of a config: the first [`Faults::MAX_LISTED`], and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    listed: Vec<Fault>,
    total: usize,
}

impl Faults {
    /// How many faults are kept with their text, so that the answer to a hostile config stays small.
    pub const MAX_LISTED: usize = 20;

    /// The first faults, at most [`Faults::MAX_LISTED`].
    pub fn listed(&self) -> &[Fault] {
        &self.listed
    }

    /// How many faults there are in all.
    pub fn total(&self) -> usize {
        self.total
    }

    pub(super) fn push(&mut self, path: impl Into<String>, rule: &'static str, message: impl Into<String>) {
        self.total += 1;
        if self.listed.len() < Self::MAX_LISTED {
            self.listed.push(Fault { path: path.into(), rule, message: message.into() });
        }
    }

    /// The one fault of a config that is well made and cannot be accepted now.
    pub fn at(path: &str, rule: &'static str, message: impl Into<String>) -> Self {
        let mut faults = Self::default();
        faults.push(path, rule, message);
        faults
    }

    /// The one fault of a config as a whole.
    pub fn one(rule: &'static str, message: impl Into<String>) -> Self {
        let mut faults = Self::default();
        faults.push("", rule, message);
        faults
    }

    /// The `data` of the JSON-RPC error: `{"faults":[{"path","rule","message"}…],"total":N}`.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        json::push_name(&mut out, DATA_FAULTS);
        out.push('[');
        for (index, fault) in self.listed.iter().enumerate() {
            out.push_str(if index > 0 { ",{" } else { "{" });
            for (name, value) in [("path", &*fault.path), ("rule", fault.rule), ("message", &*fault.message)] {
                json::push_name(&mut out, name);
                json::push_string(&mut out, value);
            }
            out.push('}');
        }
        out.push(']');
        json::push_name(&mut out, DATA_FAULTS_TOTAL);
        out.push_str(&self.total.to_string());
        out.push('}');
        out
    }
}

impl fmt::Display for Faults {
    /// One line: how many faults, and the first of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.total == 1 { "fault" } else { "faults" };
        write!(f, "notificationConfig has {} {plural}", self.total)?;
        match self.listed.first() {
            Some(Fault { path, message, .. }) if path.is_empty() => write!(f, ": {message}"),
            Some(Fault { path, message, .. }) => write!(f, ": {path}: {message}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Faults {}
