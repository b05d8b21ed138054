//! The JSON-RPC request id.

use core::fmt;

use crate::json::{self, Kind};

/// A JSON-RPC request id as MCP has it: a string or an integer, with its JSON type kept (schema `RequestId`).
///
/// `7` and `"7"` are different ids; `0` and `""` are valid. Integers are exact over the whole range of `i64` and
/// `u64`. Integers sort before strings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(Repr);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    /// Within `i64::MIN..=u64::MAX`.
    Integer(i128),
    String(String),
}

impl RequestId {
    /// The longest accepted string, in bytes of UTF-8: an id is repeated in every webhook body and acknowledgement.
    pub const MAX_BYTES: usize = 1024;

    /// An id that is a JSON string.
    ///
    /// # Errors
    /// [`RequestIdError::TooLong`] beyond [`RequestId::MAX_BYTES`].
    pub fn string(value: impl Into<String>) -> Result<Self, RequestIdError> {
        let value = value.into();
        if value.len() > Self::MAX_BYTES {
            return Err(RequestIdError::TooLong);
        }
        Ok(Self(Repr::String(value)))
    }

    /// Reads an id from its raw JSON text.
    ///
    /// # Errors
    /// [`RequestIdError`] for any text that is not one JSON string or one integer within `i64` or `u64`. `7.0` and
    /// `7e0` are refused too: they cannot be answered with the same bytes.
    pub fn parse(raw: &[u8]) -> Result<Self, RequestIdError> {
        let text = core::str::from_utf8(raw).map_err(|_| RequestIdError::Malformed)?;
        let text = json::check(text).map_err(|_| RequestIdError::Malformed)?.get();
        match Kind::of(text) {
            Some(Kind::String) => {
                // The text is valid JSON, so what cannot be read as a str holds a lone surrogate.
                Self::string(serde_json::from_str::<String>(text).map_err(|_| RequestIdError::NotUnicode)?)
            }
            Some(Kind::Number) => Self::integer(text),
            Some(kind) => Err(RequestIdError::WrongType(kind.with_article())),
            None => Err(RequestIdError::Malformed),
        }
    }

    fn integer(text: &str) -> Result<Self, RequestIdError> {
        if text.contains(['.', 'e', 'E']) {
            return Err(RequestIdError::Fraction);
        }
        // A JSON number without fraction and exponent can only fail here by its size.
        let value: i128 = text.parse().map_err(|_| RequestIdError::OutOfRange)?;
        if value < i128::from(i64::MIN) || value > i128::from(u64::MAX) {
            return Err(RequestIdError::OutOfRange);
        }
        Ok(Self(Repr::Integer(value)))
    }

    /// The string, when the id is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Repr::String(value) => Some(value),
            Repr::Integer(_) => None,
        }
    }

    /// The integer, when the id is one; always within `i64::MIN..=u64::MAX`.
    pub fn as_integer(&self) -> Option<i128> {
        match self.0 {
            Repr::Integer(value) => Some(value),
            Repr::String(_) => None,
        }
    }

    /// The id as JSON text: an integer in decimal, a string quoted and escaped.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        match &self.0 {
            Repr::Integer(value) => out.push_str(&value.to_string()),
            Repr::String(value) => json::push_string(&mut out, value),
        }
        out
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl From<i64> for RequestId {
    fn from(value: i64) -> Self {
        Self(Repr::Integer(value.into()))
    }
}

impl From<u64> for RequestId {
    fn from(value: u64) -> Self {
        Self(Repr::Integer(value.into()))
    }
}

/// Why a value is no request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestIdError {
    /// Not one JSON value in UTF-8.
    Malformed,
    /// JSON of another type, named with its article.
    WrongType(&'static str),
    /// A number written with a fraction or an exponent.
    Fraction,
    /// An integer outside `i64::MIN..=u64::MAX`, which could not be kept exact.
    OutOfRange,
    /// A string with a lone surrogate escape, which no UTF-8 text can answer.
    NotUnicode,
    /// A string longer than [`RequestId::MAX_BYTES`].
    TooLong,
}

impl fmt::Display for RequestIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("request id: not a JSON value in UTF-8"),
            Self::WrongType(got) => write!(f, "request id: must be a string or an integer, not {got}"),
            Self::Fraction => f.write_str("request id: a number must be written without fraction and exponent"),
            Self::OutOfRange => f.write_str("request id: an integer must lie within -2^63 and 2^64-1"),
            Self::NotUnicode => f.write_str("request id: a string must not contain a lone surrogate"),
            Self::TooLong => write!(f, "request id: a string must have at most {} bytes", RequestId::MAX_BYTES),
        }
    }
}

impl core::error::Error for RequestIdError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn parse(text: &str) -> Result<RequestId, RequestIdError> {
        RequestId::parse(text.as_bytes())
    }

    #[test]
    fn valid_ids_come_back_as_they_were_written() {
        for text in [
            "0",
            "7",
            "-1",
            r#""7""#,
            r#""""#,
            r#""req-9""#,
            "9007199254740993",
            "9223372036854775808",
            "18446744073709551615",
            "-9223372036854775808",
            r#""a\"b\\c\n""#,
            "\"\u{2028}é😀\"",
        ] {
            let id = parse(text).unwrap();
            assert_eq!(id.to_json(), text);
            assert_eq!(parse(&id.to_json()).unwrap(), id);
        }
    }

    /// Field report B51: the integer 7 and the string "7" are two requests.
    #[test]
    fn integer_and_string_are_different_keys() {
        let ids: HashSet<_> =
            ["7", r#""7""#, r#""req-9""#, "0", r#""""#, r#""0""#].iter().map(|t| parse(t).unwrap()).collect();
        assert_eq!(ids.len(), 6);
        assert!(ids.contains(&RequestId::from(7_i64)) && ids.contains(&RequestId::from(7_u64)));
        assert!(ids.contains(&RequestId::string("7").unwrap()));
        assert_ne!(parse("9007199254740993").unwrap(), parse("9007199254740992").unwrap());
        assert!(parse("18446744073709551615").unwrap() < parse(r#""""#).unwrap());
    }

    /// Field report B51: malformed cancels.
    #[test]
    fn everything_else_is_refused_by_rule() {
        use RequestIdError::*;
        for (text, want) in [
            ("14204.5", Fraction),
            ("7.0", Fraction),
            ("7e0", Fraction),
            ("1E400", Fraction),
            ("{}", WrongType("an object")),
            ("true", WrongType("a boolean")),
            ("[]", WrongType("an array")),
            ("null", WrongType("null")),
            ("18446744073709551616", OutOfRange),
            ("-9223372036854775809", OutOfRange),
            ("123456789012345678901234567890123456789012345678901234567890", OutOfRange),
            (r#""\ud800""#, NotUnicode),
            ("", Malformed),
            ("007", Malformed),
            ("+7", Malformed),
            ("7 8", Malformed),
            ("\"a", Malformed),
            ("NaN", Malformed),
            ("\"a\nb\"", Malformed),
        ] {
            assert_eq!(parse(text), Err(want), "{text}");
        }
        assert_eq!(RequestId::parse(b"\"\xff\""), Err(Malformed));
        assert_eq!(parse(&format!("\"{}\"", "x".repeat(1025))), Err(TooLong));
        assert!(parse(&format!("\"{}\"", "x".repeat(1024))).is_ok());
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn escapes_are_decoded_and_whitespace_around_is_not_part_of_an_id() {
        assert_eq!(parse(r#" "\u0061" "#).unwrap(), RequestId::string("a").unwrap());
        assert_eq!(parse("\n-0\t").unwrap(), RequestId::from(0_i64));
    }

    proptest! {
        #[test]
        fn never_panics_and_what_is_accepted_round_trips(raw in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(id) = RequestId::parse(&raw) {
                prop_assert_eq!(RequestId::parse(id.to_json().as_bytes()), Ok(id));
            }
        }

        #[test]
        fn strings_round_trip(text in any::<String>()) {
            prop_assume!(text.len() <= RequestId::MAX_BYTES);
            let id = RequestId::string(text.clone()).unwrap();
            let back = RequestId::parse(id.to_json().as_bytes()).unwrap();
            prop_assert_eq!(back.as_str(), Some(text.as_str()));
        }

        #[test]
        fn integers_round_trip(value in any::<i64>(), unsigned in any::<u64>()) {
            prop_assert_eq!(RequestId::parse(value.to_string().as_bytes()), Ok(RequestId::from(value)));
            let id = RequestId::from(unsigned);
            prop_assert_eq!(id.as_integer(), Some(i128::from(unsigned)));
        }
    }
}
