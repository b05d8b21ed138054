//! Ids.

use serde_json::json;
use tidings::proto::id::{CallId, EventId, IdError, RequestId, RequestIdError};

use crate::Answer;
use crate::given::{Given, to_hex};

pub(super) fn text(given: Given<'_>) -> Answer {
    let bits = given.id("bits")?;
    let text = match given.text("kind")? {
        "call" => CallId::from_bytes(bits).to_string(),
        _ => EventId::from_bytes(bits).to_string(),
    };
    Ok(json!({"text": text}))
}

pub(super) fn parse(given: Given<'_>) -> Answer {
    let text = given.text("text")?;
    let read = match given.text("kind")? {
        "call" => CallId::parse(text).map(CallId::to_bytes),
        _ => EventId::parse(text).map(EventId::to_bytes),
    };
    Ok(match read {
        Ok(bits) => json!({"bits": to_hex(&bits)}),
        Err(IdError::Prefix) => json!({"error": "prefix"}),
        Err(IdError::Length) => json!({"error": "length"}),
        Err(IdError::Digit) => json!({"error": "digit"}),
        Err(IdError::Range) => json!({"error": "range"}),
        Err(other) => json!({"error": other.to_string()}),
    })
}

pub(super) fn request(given: Given<'_>) -> Answer {
    Ok(match RequestId::parse(&given.bytes("raw")?) {
        Ok(id) => {
            let kind = if id.as_integer().is_some() { "integer" } else { "string" };
            json!({"type": kind, "json": id.to_json()})
        }
        Err(error) => json!({"error": match error {
            RequestIdError::Malformed => "malformed",
            RequestIdError::WrongType(_) => "wrong_type",
            RequestIdError::Fraction => "fraction",
            RequestIdError::OutOfRange => "out_of_range",
            RequestIdError::NotUnicode => "not_unicode",
            RequestIdError::TooLong => "too_long",
            _ => "another one",
        }}),
    })
}
