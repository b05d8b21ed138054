//! What a peer and its server negotiated.

use core::fmt;

use super::protocol::{Method, MethodSet, Protocol};
use crate::json::{self, Kind};

/// A peer's protocol version and both sides' capabilities.
///
/// Legacy MCP negotiates it once for each session; MCP 2026-07-28 states it with every request, and a listener's is that
/// of its own request.
#[derive(Clone, Debug)]
pub struct Profile {
    protocol: &'static Protocol,
    version: usize,
    server: Box<str>,
    client: Box<str>,
    offered: MethodSet,
}

/// Why there is no frame for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoFrame {
    /// The peer's version does not have the method.
    NotInVersion,
    /// The server did not advertise the capability.
    NotAdvertised,
    /// The client did not declare the capability.
    NotDeclared,
    /// The peer did not ask for it, by a filter or a subscription.
    NotAsked,
    /// What was asked for may not be cancelled: `initialize`.
    NotCancellable,
    /// The state to tell is no JSON object, or its `_meta` is none.
    NoObject,
}

impl NoFrame {
    /// The reason as a name that never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotInVersion => "not_in_version",
            Self::NotAdvertised => "not_advertised",
            Self::NotDeclared => "not_declared",
            Self::NotAsked => "not_asked",
            Self::NotCancellable => "not_cancellable",
            Self::NoObject => "no_object",
        }
    }
}

impl fmt::Display for NoFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInVersion => "the peer's protocol version does not have it",
            Self::NotAdvertised => "the server did not advertise it",
            Self::NotDeclared => "the client did not declare it",
            Self::NotAsked => "the peer did not ask for it",
            Self::NotCancellable => "initialize may not be cancelled",
            Self::NoObject => "the state must be a JSON object, and so must its _meta",
        })
    }
}

impl core::error::Error for NoFrame {}

/// Why something is no profile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// A version that the protocol's table does not have.
    Version(String),
    /// That side's capabilities are no JSON object.
    Capabilities(&'static str),
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version: {version:?} is not known"),
            Self::Capabilities(side) => write!(f, "{side}_capabilities: must be a JSON object"),
        }
    }
}

impl core::error::Error for ProfileError {}

impl Profile {
    /// The profile of a peer that speaks `version`; `server` and `client` are both sides' capabilities as JSON text.
    ///
    /// # Errors
    /// [`ProfileError`] for an unknown version and for capabilities that are no JSON object.
    pub fn new(protocol: &'static Protocol, version: &str, server: &str, client: &str) -> Result<Self, ProfileError> {
        let place = protocol.version(version).ok_or_else(|| ProfileError::Version(version.to_owned()))?;
        for (side, text) in [("server", server), ("client", client)] {
            if json::check(text).is_err() || Kind::of(text) != Some(Kind::Object) {
                return Err(ProfileError::Capabilities(side));
            }
        }
        let mut profile =
            Self { protocol, version: place, server: server.into(), client: client.into(), offered: MethodSet::EMPTY };
        profile.offered = protocol.all(|method| profile.gate(method).is_ok());
        Ok(profile)
    }

    /// The protocol.
    pub fn protocol(&self) -> &'static Protocol {
        self.protocol
    }

    /// The version's name.
    pub fn version(&self) -> &'static str {
        self.protocol.versions.get(self.version).map_or("", |version| version.name)
    }

    /// Whether this peer is told only within acknowledged filters.
    pub fn listens(&self) -> bool {
        self.protocol.versions.get(self.version).is_some_and(|version| version.listens)
    }

    /// The table's methods that version and capabilities allow towards this peer.
    pub fn offered(&self) -> MethodSet {
        self.offered
    }

    /// Whether version and capabilities allow a method, of the table or of its own.
    ///
    /// # Errors
    /// The first reason against it, in the order version, server, client.
    pub fn gate(&self, method: &Method) -> Result<(), NoFrame> {
        if !self.protocol.has(self.version, method) {
            return Err(NoFrame::NotInVersion);
        }
        if !declared(&self.server, method.server) {
            return Err(NoFrame::NotAdvertised);
        }
        if !declared(&self.client, method.client) {
            return Err(NoFrame::NotDeclared);
        }
        Ok(())
    }
}

/// Whether the value at `path` is `true` or an object; nothing at an empty path is asked for.
fn declared(text: &str, path: &[&str]) -> bool {
    let Some((name, rest)) = path.split_first() else { return true };
    let mut value = None;
    if json::each_member(text, |found, raw| {
        if found == name.as_bytes() {
            value = Some(raw.get());
        }
    })
    .is_err()
    {
        return false;
    }
    let Some(value) = value else { return false };
    match (Kind::of(value), rest.is_empty()) {
        (Some(Kind::Object), true) => true,
        (Some(Kind::Object), false) => declared(value, rest),
        (Some(Kind::Boolean), true) => value == "true",
        _ => false,
    }
}
