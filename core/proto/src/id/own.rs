//! Ids that Tidings gives: 128 random bits, drawn by the caller, as header-safe text.

use core::fmt;
use core::str::FromStr;

use super::base32::{decode, encode};

/// Why a text is no id of the asked kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdError {
    /// It does not begin with the kind's prefix.
    Prefix,
    /// It has not 26 digits after the prefix.
    Length,
    /// A character is not a lower-case Crockford base32 digit. Aliases and upper case are refused, so that one id
    /// has one text.
    Digit,
    /// The value has more than 128 bits.
    Range,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "id: wrong prefix",
            Self::Length => "id: must have 26 digits after the prefix",
            Self::Digit => "id: digits must be lower-case Crockford base32",
            Self::Range => "id: must not exceed 128 bits",
        })
    }
}

impl core::error::Error for IdError {}

macro_rules! own_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u128);

        impl $name {
            /// What every id of this kind begins with.
            pub const PREFIX: &'static str = $prefix;

            /// The id made of 128 bits, which the caller draws from a cryptographic generator.
            pub const fn from_u128(bits: u128) -> Self {
                Self(bits)
            }

            /// The id made of 16 bytes, big-endian, which the caller draws from a cryptographic generator.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }

            /// The bits.
            pub const fn as_u128(self) -> u128 {
                self.0
            }

            /// The bits as 16 bytes, big-endian; they sort as the texts do.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// Reads the text that `Display` writes.
            ///
            /// # Errors
            /// [`IdError`] for any other text.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix(Self::PREFIX).ok_or(IdError::Prefix)?;
                decode(digits.as_bytes()).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::PREFIX)?;
                encode(self.0).iter().try_for_each(|digit| fmt::Write::write_char(f, char::from(*digit)))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }
    };
}

own_id! {
    /// The id of one watched `tools/call`: `call_` and 26 digits.
    ///
    /// Ours, because a client's request id is unique only while the request is in flight and only on its connection.
    CallId, "call_"
}

own_id! {
    /// The id of one firing, the same on every fallback route and every attempt: `evt_` and 26 digits.
    ///
    /// It is the Standard Webhooks `webhook-id`, which must be free of `.` as that separates the signed parts.
    EventId, "evt_"
}

own_id! {
    /// The id of several firings in one request, from [`batch_id`](crate::firing::batch_id): `bat_` and 26 digits. It is the
    /// `webhook-id` of that request.
    BatchId, "bat_"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 1 is the last digit; all ones is 3 bits (7) and then 25 times 31 (`z`); 2^125 is the first digit alone.
    #[test]
    fn known_texts() {
        for (bits, want) in [
            (0, "00000000000000000000000000"),
            (1, "00000000000000000000000001"),
            (31, "0000000000000000000000000z"),
            (32, "00000000000000000000000010"),
            (1 << 125, "10000000000000000000000000"),
            (u128::MAX, "7zzzzzzzzzzzzzzzzzzzzzzzzz"),
        ] {
            assert_eq!(CallId::from_u128(bits).to_string(), format!("call_{want}"));
            assert_eq!(EventId::from_u128(bits).to_string(), format!("evt_{want}"));
        }
        assert_eq!(CallId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 31]), CallId::from_u128(31));
    }

    #[test]
    fn other_texts_are_refused() {
        let digits = "0".repeat(26);
        for (text, want) in [
            (format!("evt_{digits}"), IdError::Prefix),
            (digits.clone(), IdError::Prefix),
            (format!("call_{digits}0"), IdError::Length),
            ("call_".into(), IdError::Length),
            (format!("call_{}", "A".repeat(26)), IdError::Digit),
            (format!("call_{}", "o".repeat(26)), IdError::Digit),
            (format!("call_{}é", "0".repeat(24)), IdError::Digit),
            (format!("call_8{}", "0".repeat(25)), IdError::Range),
            (format!("call_{}", "z".repeat(26)), IdError::Range),
        ] {
            assert_eq!(CallId::parse(&text), Err(want), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip_and_header_safe(bits in any::<u128>()) {
            let id = EventId::from_u128(bits);
            let text = id.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
            prop_assert_eq!(text.parse::<EventId>(), Ok(id));
            prop_assert_eq!(EventId::from_bytes(id.to_bytes()), id);
        }

        #[test]
        fn texts_sort_as_bits(a in any::<u128>(), b in any::<u128>()) {
            let texts = CallId::from_u128(a).to_string().cmp(&CallId::from_u128(b).to_string());
            prop_assert_eq!(texts, a.cmp(&b));
        }

        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = CallId::parse(&text);
            let _ = EventId::parse(&format!("evt_{text}"));
        }
    }
}
