//! Signing secrets.

use core::fmt;
use core::ops::RangeInclusive;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use subtle::ConstantTimeEq;

/// What the text of a secret begins with.
pub const SECRET_PREFIX: &str = "whsec_";

/// How many bytes a secret has once decoded (Standard Webhooks "Symmetric"; SEP-3415).
pub const SECRET_BYTES: RangeInclusive<usize> = 24..=64;

/// The standard alphabet; `=` at the end may be left out, bits that no byte uses must be zero.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A symmetric signing secret: `whsec_` and base64 of 24 to 64 bytes.
///
/// Neither `Debug` nor `Display` shows it; [`Secret::reveal`] does. The bytes are overwritten when it is dropped. That
/// is best effort without unsafe code: the optimiser is kept from removing the write, but copies on the stack of the
/// hash, or left behind by moves, are not reached.
#[derive(Clone)]
pub struct Secret {
    key: Vec<u8>,
}

/// Why a text is no [`Secret`]. Never holds any of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretFault {
    /// Does not begin with `whsec_`.
    Prefix,
    /// Base64 of the URL-safe alphabet (`-`, `_`). Refused, not converted: receivers decode the standard alphabet, and
    /// one that accepts both is rare enough that signatures would not match.
    UrlSafe,
    /// Not base64: a foreign character, wrong padding, an impossible length, or left-over bits that are not zero.
    Base64,
    /// Decodes to fewer than 24 or more than 64 bytes.
    Length {
        /// How many bytes it decodes to; for a text too long to be worth decoding, within three bytes.
        bytes: usize,
    },
}

impl SecretFault {
    /// A stable machine-readable code: `secret_prefix`, `secret_url_safe`, `secret_base64` or `secret_length`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Prefix => "secret_prefix",
            Self::UrlSafe => "secret_url_safe",
            Self::Base64 => "secret_base64",
            Self::Length { .. } => "secret_length",
        }
    }
}

impl fmt::Display for SecretFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (SECRET_BYTES.start(), SECRET_BYTES.end());
        match self {
            Self::Prefix => write!(f, "a secret must begin with {SECRET_PREFIX}"),
            Self::UrlSafe => f.write_str("a secret must use the standard base64 alphabet (+ and /), not - and _"),
            Self::Base64 => write!(f, "a secret must be {SECRET_PREFIX} and standard base64"),
            Self::Length { bytes } => write!(f, "a secret must have {min} to {max} bytes, not {bytes}"),
        }
    }
}

impl core::error::Error for SecretFault {}

impl Secret {
    /// Reads the text form, as a config holds it: the prefix is required.
    ///
    /// # Errors
    /// [`SecretFault`] with the rule that is broken.
    pub fn parse(text: &str) -> Result<Self, SecretFault> {
        Self::decode(text.strip_prefix(SECRET_PREFIX).ok_or(SecretFault::Prefix)?)
    }

    /// Reads the text form as a receiver was given it: the prefix may be missing, and what is left is base64 all the
    /// same, never used as text (field report B62).
    ///
    /// # Errors
    /// [`SecretFault`] with the rule that is broken.
    pub fn parse_lenient(text: &str) -> Result<Self, SecretFault> {
        Self::decode(text.strip_prefix(SECRET_PREFIX).unwrap_or(text))
    }

    /// A secret of these bytes, such as 32 fresh random ones.
    ///
    /// # Errors
    /// [`SecretFault::Length`] outside 24 to 64 bytes.
    pub fn from_bytes(key: &[u8]) -> Result<Self, SecretFault> {
        Self::checked(key.to_vec())
    }

    fn decode(text: &str) -> Result<Self, SecretFault> {
        // Three bytes make four characters: what is longer than this cannot fit and is not worth decoding.
        let longest = SECRET_BYTES.end().div_ceil(3) * 4;
        if text.len() > longest {
            return Err(SecretFault::Length { bytes: text.trim_end_matches('=').len() / 4 * 3 });
        }
        if text.contains(['-', '_']) {
            return Err(SecretFault::UrlSafe);
        }
        Self::checked(BASE64.decode(text).map_err(|_| SecretFault::Base64)?)
    }

    fn checked(key: Vec<u8>) -> Result<Self, SecretFault> {
        let secret = Self { key };
        let bytes = secret.key.len();
        if SECRET_BYTES.contains(&bytes) { Ok(secret) } else { Err(SecretFault::Length { bytes }) }
    }

    /// The key bytes, for the hash and for sealing at rest. Not for logs.
    pub fn as_bytes(&self) -> &[u8] {
        &self.key
    }

    /// The text form with prefix and padding, for handing it to its owner. Not for logs.
    pub fn reveal(&self) -> String {
        format!("{SECRET_PREFIX}{}", BASE64.encode(&self.key))
    }
}

/// Equal keys, compared in constant time.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.key.ct_eq(&other.key).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whsec_(redacted)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.key.fill(0);
        // Makes the zeros observable, so that the write is not removed as dead.
        core::hint::black_box(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes 0 to 31, by field report B62.
    const TEXT: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn reads_prefixed_and_unpadded_text() {
        let want: Vec<u8> = (0..32).collect();
        for text in [TEXT, TEXT.trim_end_matches('=')] {
            assert_eq!(Secret::parse(text).unwrap().as_bytes(), want, "{text}");
        }
        for text in [TEXT, &TEXT[6..], TEXT[6..].trim_end_matches('=')] {
            assert_eq!(Secret::parse_lenient(text).unwrap().as_bytes(), want, "{text}");
        }
        assert_eq!(Secret::parse(TEXT.trim_end_matches('=')).unwrap().reveal(), TEXT);
    }

    #[test]
    fn refuses_by_the_rule_that_is_broken() {
        let of = |bytes: usize| format!("whsec_{}", BASE64.encode(vec![0xab; bytes]));
        for bytes in [24, 25, 26, 32, 63, 64] {
            assert_eq!(Secret::parse(&of(bytes)).unwrap().as_bytes(), vec![0xab; bytes]);
        }
        for (text, want) in [
            ("", SecretFault::Prefix),
            (&TEXT[6..], SecretFault::Prefix),
            ("WHSEC_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", SecretFault::Prefix),
            (" whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", SecretFault::Prefix),
            ("whsec_", SecretFault::Length { bytes: 0 }),
            (&of(23), SecretFault::Length { bytes: 23 }),
            (&of(65), SecretFault::Length { bytes: 65 }),
            ("whsec_-_ECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", SecretFault::UrlSafe),
            ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8==", SecretFault::Base64),
            ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= ", SecretFault::Base64),
            ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n", SecretFault::Base64),
            ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", SecretFault::Base64),
            ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHhé=", SecretFault::Base64),
            ("whsec_whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", SecretFault::UrlSafe),
        ] {
            assert_eq!(Secret::parse(text).unwrap_err(), want, "{text:?}");
        }
        assert!(matches!(Secret::parse(&of(1_000_000)), Err(SecretFault::Length { bytes }) if bytes > 64));
        assert_eq!(Secret::parse_lenient("").unwrap_err(), SecretFault::Length { bytes: 0 });
        assert_eq!(Secret::from_bytes(&[0; 23]).unwrap_err(), SecretFault::Length { bytes: 23 });
    }

    #[test]
    fn does_not_show_itself() {
        let secret = Secret::parse(TEXT).unwrap();
        for shown in [format!("{secret:?}"), format!("{secret}"), format!("{:#?}", [&secret])] {
            assert!(shown.contains("redacted") && !shown.contains("AAEC") && !shown.contains("31"), "{shown}");
        }
    }

    #[test]
    fn equality_is_of_the_key() {
        let padded = Secret::parse(TEXT).unwrap();
        assert_eq!(padded, Secret::parse_lenient(TEXT[6..].trim_end_matches('=')).unwrap());
        assert_ne!(padded, Secret::from_bytes(&[0; 32]).unwrap());
        assert_ne!(padded, Secret::from_bytes(&[0; 24]).unwrap());
    }

    proptest! {
        #[test]
        fn any_text_gets_an_answer(text: String) {
            let _ = Secret::parse(&text);
            let _ = Secret::parse_lenient(&text);
            let _ = Secret::parse(&format!("whsec_{text}"));
        }

        #[test]
        fn text_form_round_trips(key in prop::collection::vec(any::<u8>(), SECRET_BYTES)) {
            let secret = Secret::from_bytes(&key).unwrap();
            prop_assert_eq!(Secret::parse(&secret.reveal()).unwrap(), secret);
        }
    }
}
