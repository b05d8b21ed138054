//! What a listener asks to be told.

use core::fmt;

use super::profile::{NoFrame, Profile};
use super::protocol::{About, MethodSet, Protocol};
use crate::json::{self, Kind};

/// A listener's filter: lists by flag, single things by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    methods: MethodSet,
    /// Place of the method and the name, in the order they were given, without repeats.
    names: Vec<(usize, Box<str>)>,
}

/// Why something is no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterError {
    /// The member at that path is not what it must be.
    Invalid {
        /// The member.
        member: String,
        /// What it must be.
        rule: &'static str,
    },
    /// More names than one listener may have.
    TooMany {
        /// The member.
        member: String,
    },
    /// The member needs a capability that the client did not declare; MCP answers -32021.
    NotDeclared {
        /// The member.
        member: &'static str,
        /// The path in the client's capabilities.
        capability: &'static [&'static str],
    },
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { member, rule } => write!(f, "{member}: {rule}"),
            Self::TooMany { member } => write!(f, "{member}: must be at most {} names", Filter::MAX_NAMES),
            Self::NotDeclared { member, capability } => {
                write!(f, "{member}: needs the client capability {}", capability.join("."))
            }
        }
    }
}

impl core::error::Error for FilterError {}

impl Filter {
    /// Names of single things in one filter, over all members.
    pub const MAX_NAMES: usize = 1_024;
    /// The longest name, in bytes of UTF-8.
    pub const MAX_NAME_BYTES: usize = 4_096;

    /// Reads a filter from its raw JSON text. Members that the protocol does not have ask for nothing that we have and are
    /// left out; `false`, `null` and empty arrays ask for nothing.
    ///
    /// # Errors
    /// [`FilterError::Invalid`] and [`FilterError::TooMany`] for what MCP answers with -32602.
    pub fn parse(protocol: &Protocol, raw: &str) -> Result<Self, FilterError> {
        let invalid = |member: &str, rule| FilterError::Invalid { member: member.to_owned(), rule };
        let whole = protocol.acknowledged_member;
        if Kind::of(raw) != Some(Kind::Object) {
            return Err(invalid(whole, "must be an object"));
        }
        let object = json::check(raw).map_err(|_| invalid(whole, "must be a JSON object"))?;
        let members = json::members(object).map_err(|_| invalid(whole, "must be a JSON object"))?;
        let mut filter = Self::default();
        for (name, value) in members {
            let Some((place, method)) =
                protocol.methods.iter().enumerate().find(|(_, m)| m.filter.is_some_and(|f| f.as_bytes() == name))
            else {
                continue;
            };
            let member = format!("{whole}.{}", method.filter.unwrap_or_default());
            match (method.about, Kind::of(value.get())) {
                (_, Some(Kind::Null)) => {}
                (About::List, Some(Kind::Boolean)) => {
                    if value.get() == "true" {
                        filter.methods = filter.methods.and(MethodSet::one(place));
                    }
                }
                (About::List, _) => return Err(invalid(&member, "must be a boolean")),
                (About::Named(_) | About::State, Some(Kind::Array)) => {
                    let (names, count) = json::elements(value, Self::MAX_NAMES)
                        .map_err(|_| invalid(&member, "must be an array of strings"))?;
                    if count + filter.names.len() > Self::MAX_NAMES {
                        return Err(FilterError::TooMany { member });
                    }
                    for name in names {
                        let name: String = serde_json::from_str(name.get())
                            .map_err(|_| invalid(&member, "must be an array of strings"))?;
                        if name.len() > Self::MAX_NAME_BYTES {
                            return Err(invalid(&member, "a name must have at most 4,096 bytes"));
                        }
                        filter.add(place, &name);
                    }
                }
                (About::Named(_) | About::State, _) => {
                    return Err(invalid(&member, "must be an array of strings"));
                }
            }
        }
        Ok(filter)
    }

    /// What a peer hears that does not send filters: every list that its profile offers.
    pub fn implied(profile: &Profile) -> Self {
        Self { methods: profile.offered().common(profile.protocol().lists()), names: Vec::new() }
    }

    /// Asks for one thing by its name; `false`: it did already.
    pub fn add(&mut self, method: usize, name: &str) -> bool {
        let known = self.names.iter().any(|(place, known)| *place == method && **known == *name);
        if !known {
            self.methods = self.methods.and(MethodSet::one(method));
            self.names.push((method, name.into()));
        }
        !known
    }

    /// Asks for it no longer; `false`: it did not.
    pub fn remove(&mut self, method: usize, name: &str) -> bool {
        let before = self.names.len();
        self.names.retain(|(place, known)| *place != method || **known != *name);
        before > self.names.len()
    }

    /// Keeps only the names that `keep` says yes to.
    pub fn retain(&mut self, method: usize, mut keep: impl FnMut(&str) -> bool) {
        self.names.retain(|(place, name)| *place != method || keep(name));
        if !self.names.iter().any(|(place, _)| *place == method) {
            self.methods = self.methods.without(MethodSet::one(method));
        }
    }

    /// The part that is honoured towards a peer of that profile.
    ///
    /// # Errors
    /// [`FilterError::NotDeclared`] when it asks for what only a client with a certain capability may ask for.
    pub fn honoured(&self, profile: &Profile) -> Result<Self, FilterError> {
        for place in self.methods.places() {
            let Some(method) = profile.protocol().methods.get(place) else { continue };
            if profile.gate(method) == Err(NoFrame::NotDeclared) {
                let member = method.filter.unwrap_or_default();
                return Err(FilterError::NotDeclared { member, capability: method.client });
            }
        }
        let methods = self.methods.common(profile.offered());
        let names = self.names.iter().filter(|(place, _)| methods.has(*place)).cloned().collect();
        Ok(Self { methods, names })
    }

    /// The methods it may be told by.
    pub fn methods(&self) -> MethodSet {
        self.methods
    }

    /// The names it asked for, with the place of the method.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.names.iter().map(|(place, name)| (*place, &**name))
    }

    /// How many names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it asks for nothing at all.
    pub fn is_empty(&self) -> bool {
        self.methods.is_empty()
    }

    /// The filter as JSON text, as an acknowledgement repeats it: what is not asked for is not there.
    pub fn to_json(&self, protocol: &Protocol) -> String {
        let mut out = String::from("{");
        for (place, method) in protocol.methods.iter().enumerate() {
            let Some(member) = method.filter.filter(|_| self.methods.has(place)) else { continue };
            json::push_name(&mut out, member);
            match method.about {
                About::List => out.push_str("true"),
                About::Named(_) | About::State => {
                    let names = self.names.iter().filter(|(at, _)| *at == place).map(|(_, name)| &**name);
                    json::push_strings(&mut out, names);
                }
            }
        }
        out.push('}');
        out
    }
}
