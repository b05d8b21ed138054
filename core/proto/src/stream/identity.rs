//! Who and what an event belongs to, so that a client can rebuild a transcript from its events.

use std::fmt;

use crate::json;

/// The members an identity may have, in the order in which they are written. All are optional.
pub const IDENTITY_MEMBERS: [&str; 5] = ["task", "session", "turn", "toolCall", "sourceType"];

/// The longest text of a whole identity, in bytes.
pub const MAX_IDENTITY_BYTES: usize = 65_535;

/// What is wrong with an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityFault {
    /// A member that none has.
    UnknownMember(String),
    /// A member that stands there twice.
    Twice(&'static str),
    /// More than [`MAX_IDENTITY_BYTES`].
    TooLarge,
}

impl fmt::Display for IdentityFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownMember(name) => {
                write!(f, "has no member {name:?}; its members are {}", IDENTITY_MEMBERS.join(", "))
            }
            Self::Twice(name) => write!(f, "names {name} twice"),
            Self::TooLarge => write!(f, "must be at most {MAX_IDENTITY_BYTES} bytes as JSON text"),
        }
    }
}

impl std::error::Error for IdentityFault {}

/// An identity of these members as JSON text. `None` for none: an event without an identity.
pub fn identity_json<'a>(
    members: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Option<String>, IdentityFault> {
    let mut values: [Option<&str>; IDENTITY_MEMBERS.len()] = [None; IDENTITY_MEMBERS.len()];
    for (name, value) in members {
        let known = IDENTITY_MEMBERS.iter().zip(&mut values).find(|(known, _)| **known == name);
        let Some((known, place)) = known else { return Err(IdentityFault::UnknownMember(name.to_owned())) };
        if place.replace(value).is_some() {
            return Err(IdentityFault::Twice(known));
        }
    }
    if values.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut text = String::from("{");
    for (name, value) in IDENTITY_MEMBERS.iter().zip(values) {
        if let Some(value) = value {
            json::push_name(&mut text, name);
            json::push_string(&mut text, value);
        }
    }
    text.push('}');
    if text.len() > MAX_IDENTITY_BYTES { Err(IdentityFault::TooLarge) } else { Ok(Some(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(members: &[(&str, &str)]) -> Result<Option<String>, IdentityFault> {
        identity_json(members.iter().copied())
    }

    #[test]
    fn members_stand_in_one_order() {
        assert_eq!(json(&[]), Ok(None));
        let given = [("turn", "3"), ("task", "t \"1\""), ("sourceType", ""), ("toolCall", "c"), ("session", "é")];
        let want = r#"{"task":"t \"1\"","session":"é","turn":"3","toolCall":"c","sourceType":""}"#;
        assert_eq!(json(&given), Ok(Some(want.to_owned())));
        assert_eq!(json(&[("turn", "3")]), Ok(Some(r#"{"turn":"3"}"#.to_owned())));
    }

    #[test]
    fn what_is_no_identity_is_named() {
        let unknown = json(&[("tool_call", "c")]).unwrap_err();
        assert!(unknown.to_string().contains("\"tool_call\"") && unknown.to_string().contains("toolCall"));
        assert_eq!(json(&[("task", "a"), ("task", "a")]), Err(IdentityFault::Twice("task")));
        let long = "x".repeat(MAX_IDENTITY_BYTES);
        assert_eq!(json(&[("task", &long)]), Err(IdentityFault::TooLarge));
        // `{"task":""}` are 11 bytes.
        assert!(json(&[("task", &long[..MAX_IDENTITY_BYTES - 11])]).is_ok());
        assert!(json(&[("task", &long[..MAX_IDENTITY_BYTES - 10])]).is_err());
    }
}
