//! Checking a signature on the receiving side.

use core::fmt;

use subtle::{Choice, ConstantTimeEq};

use super::message_id::{MessageIdFault, check_message_id};
use super::secret::Secret;
use super::sign::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, signature};

/// How far a timestamp may be off in either direction, in seconds, unless the caller says otherwise. Standard Webhooks
/// leaves the number open; its libraries use five minutes.
pub const DEFAULT_TOLERANCE_SECS: u64 = 300;

/// The longest `webhook-signature` header that is looked at, in bytes: room for 170 signatures.
pub const MAX_SIGNATURE_HEADER_BYTES: usize = 8 * 1024;

/// The three headers of a received webhook, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// `webhook-id`: what the receiver remembers to see a message only once.
    pub id: &'a str,
    /// `webhook-timestamp`: Unix seconds in decimal.
    pub timestamp: &'a str,
    /// `webhook-signature`: signatures separated by blanks.
    pub signature: &'a str,
}

/// Why a webhook is not to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// A header is missing, or empty.
    MissingHeader {
        /// Its name.
        name: &'static str,
    },
    /// A header occurs twice, so it is unclear which one was signed.
    RepeatedHeader {
        /// Its name.
        name: &'static str,
    },
    /// `webhook-id` is no message id.
    MessageId(MessageIdFault),
    /// `webhook-timestamp` is no plain decimal number of seconds.
    Timestamp,
    /// The message was signed too long ago; it may be a replay.
    TooOld {
        /// Its age in seconds.
        age_secs: u64,
    },
    /// The message was signed too far in the future; one of the clocks is wrong.
    TooNew {
        /// How far ahead it is, in seconds.
        ahead_secs: u64,
    },
    /// `webhook-signature` is longer than [`MAX_SIGNATURE_HEADER_BYTES`].
    SignatureHeaderTooLong,
    /// `webhook-signature` holds no signature of version `v1`.
    NoSignature,
    /// The receiver gave no secret to check with.
    NoSecret,
    /// No signature matches any secret: another sender, another secret, or changed content.
    Mismatch,
}

impl VerifyError {
    /// A stable machine-readable code, such as `mismatch`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::MissingHeader { .. } => "missing_header",
            Self::RepeatedHeader { .. } => "repeated_header",
            Self::MessageId(_) => "message_id",
            Self::Timestamp => "timestamp",
            Self::TooOld { .. } => "too_old",
            Self::TooNew { .. } => "too_new",
            Self::SignatureHeaderTooLong => "signature_header_too_long",
            Self::NoSignature => "no_signature",
            Self::NoSecret => "no_secret",
            Self::Mismatch => "mismatch",
        }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingHeader { name } => write!(f, "the {name} header is missing or empty"),
            Self::RepeatedHeader { name } => write!(f, "the {name} header occurs more than once"),
            Self::MessageId(fault) => write!(f, "{ID_HEADER}: {fault}"),
            Self::Timestamp => write!(f, "{TIMESTAMP_HEADER} must be Unix seconds in decimal"),
            Self::TooOld { age_secs } => write!(f, "the message was signed {age_secs} s ago, longer than tolerated"),
            Self::TooNew { ahead_secs } => {
                write!(f, "the message was signed {ahead_secs} s in the future, further than tolerated")
            }
            Self::SignatureHeaderTooLong => {
                write!(f, "{SIGNATURE_HEADER} is longer than {MAX_SIGNATURE_HEADER_BYTES} bytes")
            }
            Self::NoSignature => write!(f, "{SIGNATURE_HEADER} holds no v1 signature"),
            Self::NoSecret => f.write_str("no secret was given to check with"),
            Self::Mismatch => f.write_str("no signature matches: wrong secret, or the content was changed"),
        }
    }
}

impl core::error::Error for VerifyError {}

impl<'a> Received<'a> {
    /// Picks the three headers out of a request's (name, value) pairs; names match whatever their case.
    ///
    /// # Errors
    /// [`VerifyError::MissingHeader`] and [`VerifyError::RepeatedHeader`].
    pub fn from_headers<N: AsRef<str>>(headers: impl IntoIterator<Item = (N, &'a str)>) -> Result<Self, VerifyError> {
        let names = [ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER];
        let mut values = [None; 3];
        for (header, value) in headers {
            for (name, slot) in names.iter().zip(&mut values) {
                if header.as_ref().eq_ignore_ascii_case(name) && slot.replace(value).is_some() {
                    return Err(VerifyError::RepeatedHeader { name });
                }
            }
        }
        let [id, timestamp, signature] = values;
        let present = |value: Option<&'a str>, name| value.ok_or(VerifyError::MissingHeader { name });
        Ok(Self {
            id: present(id, ID_HEADER)?,
            timestamp: present(timestamp, TIMESTAMP_HEADER)?,
            signature: present(signature, SIGNATURE_HEADER)?,
        })
    }
}

/// Checks that a webhook came from somebody who holds one of `secrets`, unchanged, and not too long ago.
///
/// `body` is the raw request body: parsing and writing it again changes bytes and breaks the signature. Any of the
/// `v1` signatures may match any of the secrets, which is how rotation works; entries of other versions (`v1a`) are
/// skipped. Comparison takes the same time whether and where signatures differ. `now_secs` is the receiver's wall
/// clock; a message exactly `tolerance_secs` old or ahead still passes.
///
/// A valid signature does not make a message new: a receiver also remembers the ids it has seen.
///
/// # Errors
/// [`VerifyError`] with the first rule that is broken.
pub fn verify(
    secrets: &[Secret],
    received: &Received<'_>,
    body: &[u8],
    now_secs: i64,
    tolerance_secs: u64,
) -> Result<(), VerifyError> {
    if secrets.is_empty() {
        return Err(VerifyError::NoSecret);
    }
    // A header value does not include the blanks around it (RFC 9110 5.5), whatever a framework hands over.
    let blanks = [' ', '\t'];
    let (id, timestamp) = (received.id.trim_matches(blanks), received.timestamp.trim_matches(blanks));
    let signatures = received.signature.trim_matches(blanks);
    for (value, name) in [(id, ID_HEADER), (timestamp, TIMESTAMP_HEADER), (signatures, SIGNATURE_HEADER)] {
        if value.is_empty() {
            return Err(VerifyError::MissingHeader { name });
        }
    }
    check_message_id(id).map_err(VerifyError::MessageId)?;
    check_age(timestamp, now_secs, tolerance_secs)?;
    if signatures.len() > MAX_SIGNATURE_HEADER_BYTES {
        return Err(VerifyError::SignatureHeaderTooLong);
    }
    if v1_entries(signatures).next().is_none() {
        return Err(VerifyError::NoSignature);
    }
    let mut matched = Choice::from(0);
    for secret in secrets {
        let expected = signature(secret, id, timestamp, body);
        for entry in v1_entries(signatures) {
            matched |= expected.as_bytes().ct_eq(entry.as_bytes());
        }
    }
    if matched.into() { Ok(()) } else { Err(VerifyError::Mismatch) }
}

fn v1_entries(header: &str) -> impl Iterator<Item = &str> {
    header.split([' ', '\t']).filter_map(|entry| entry.strip_prefix("v1,"))
}

fn check_age(timestamp: &str, now_secs: i64, tolerance_secs: u64) -> Result<(), VerifyError> {
    // The text is signed as it stands, so only one spelling of a number is taken: digits, no sign, no leading zero.
    let plain = timestamp.bytes().all(|b| b.is_ascii_digit()) && (timestamp == "0" || !timestamp.starts_with('0'));
    let signed_at: i64 = if plain { timestamp.parse().ok() } else { None }.ok_or(VerifyError::Timestamp)?;
    let off = now_secs.abs_diff(signed_at);
    match off > tolerance_secs {
        false => Ok(()),
        true if signed_at < now_secs => Err(VerifyError::TooOld { age_secs: off }),
        true => Err(VerifyError::TooNew { ahead_secs: off }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sign::sign;
    use super::*;

    const NOW: i64 = 1_767_225_600;
    const BODY: &[u8] = br#"{"p":1.0}"#;
    const SIGNATURE: &str = "v1,2MMOzszGbkbmaR4/zB0aW3wW7gxYYNblaCZMOvwIh5w=";

    fn secret() -> Secret {
        Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap()
    }

    fn other() -> Secret {
        Secret::from_bytes(&[9; 32]).unwrap()
    }

    fn received(signature: &str) -> Received<'_> {
        Received { id: "evt_1", timestamp: "1767225600", signature }
    }

    fn check(received: &Received<'_>) -> Result<(), VerifyError> {
        verify(&[secret()], received, BODY, NOW, DEFAULT_TOLERANCE_SECS)
    }

    #[test]
    fn accepts_the_known_vectors() {
        assert_eq!(check(&received(SIGNATURE)), Ok(()));
        let public = Received {
            id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            timestamp: "1649367553",
            signature: "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        };
        let body = br#"{"email":"test@example.com","username":"test_user"}"#;
        let secret = Secret::parse_lenient("C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
        assert_eq!(verify(&[secret], &public, body, 1_649_367_553, DEFAULT_TOLERANCE_SECS), Ok(()));
    }

    #[test]
    fn any_change_is_a_mismatch() {
        let good = received(SIGNATURE);
        let mismatch = |secrets: &[Secret], received: &Received<'_>, body: &[u8]| {
            assert_eq!(verify(secrets, received, body, NOW, 300), Err(VerifyError::Mismatch), "{received:?} {body:?}");
        };
        for body in [&b"{\"p\":1}"[..], b"{\"p\":1.0} ", b"", b"{\"p\": 1.0}"] {
            mismatch(&[secret()], &good, body);
        }
        mismatch(&[other()], &good, BODY);
        mismatch(&[secret()], &Received { id: "evt_2", ..good }, BODY);
        mismatch(&[secret()], &Received { timestamp: "1767225601", ..good }, BODY);
        for signature in [
            &SIGNATURE[..46],
            &format!("{SIGNATURE}="),
            "v1,2MMOzszGbkbmaR4/zB0aW3wW7gxYYNblaCZMOvwIh5x=",
            "v1,2mmOzszGbkbmaR4/zB0aW3wW7gxYYNblaCZMOvwIh5w=",
            "v1,",
            "v1,,",
            "v1,AAAA",
        ] {
            mismatch(&[secret()], &received(signature), BODY);
        }
    }

    #[test]
    fn rotation_any_secret_matches_any_signature() {
        let (old, new) = (secret(), other());
        let both = sign(&[old.clone(), new.clone()], "evt_1", NOW, BODY);
        for secrets in [vec![new.clone(), old.clone()], vec![old], vec![new]] {
            assert_eq!(verify(&secrets, &received(&both), BODY, NOW, 300), Ok(()));
        }
        let third = Secret::from_bytes(&[1; 24]).unwrap();
        assert_eq!(verify(&[third], &received(&both), BODY, NOW, 300), Err(VerifyError::Mismatch));
        assert_eq!(verify(&[], &received(&both), BODY, NOW, 300), Err(VerifyError::NoSecret));
    }

    #[test]
    fn junk_around_a_good_signature_is_skipped() {
        let b64 = &SIGNATURE[3..];
        for header in [
            format!("v1a,{b64} {SIGNATURE}"),
            format!("v2,xx  v1,AAAA \t {SIGNATURE} , v1 v1, ="),
            format!(" {SIGNATURE}\t"),
            format!("{SIGNATURE} {SIGNATURE}"),
            format!("\u{e9},\u{0} {SIGNATURE}"),
        ] {
            assert_eq!(check(&received(&header)), Ok(()), "{header}");
        }
        for header in [format!("v1a,{b64}"), format!("V1,{b64}"), b64.to_string(), "v1".into(), ",".into()] {
            assert_eq!(check(&received(&header)), Err(VerifyError::NoSignature), "{header}");
        }
        // Commas separate version and signature, never entries.
        assert_eq!(check(&received(&format!("v1,AAAA,{SIGNATURE}"))), Err(VerifyError::Mismatch));
    }

    #[test]
    fn the_signature_header_is_bounded() {
        let entry = format!(" {}", "v1,AAAA");
        let fill = entry.repeat((MAX_SIGNATURE_HEADER_BYTES - SIGNATURE.len()) / entry.len());
        assert_eq!(check(&received(&format!("{SIGNATURE}{fill}"))), Ok(()));
        let huge = format!("{SIGNATURE}{}", " v1,AAAA".repeat(100_000));
        assert_eq!(check(&received(&huge)), Err(VerifyError::SignatureHeaderTooLong));
    }

    #[test]
    fn tolerance_counts_both_ways_and_includes_its_end() {
        let at = |now| verify(&[secret()], &received(SIGNATURE), BODY, now, 300);
        for now in [NOW - 300, NOW, NOW + 300] {
            assert_eq!(at(now), Ok(()), "{now}");
        }
        assert_eq!(at(NOW + 301), Err(VerifyError::TooOld { age_secs: 301 }));
        assert_eq!(at(NOW - 301), Err(VerifyError::TooNew { ahead_secs: 301 }));
        assert!(matches!(at(i64::MIN), Err(VerifyError::TooNew { .. })));
        assert!(matches!(at(i64::MAX), Err(VerifyError::TooOld { .. })));
    }

    #[test]
    fn odd_timestamps_are_named() {
        for timestamp in ["-1", "+1767225600", "01767225600", "1767225600.0", "1e9", "99999999999999999999", "abc", "१"]
        {
            let got = check(&Received { timestamp, ..received(SIGNATURE) });
            assert_eq!(got, Err(VerifyError::Timestamp), "{timestamp}");
        }
        for (received, name) in [
            (Received { id: " ", ..received(SIGNATURE) }, ID_HEADER),
            (Received { timestamp: "", ..received(SIGNATURE) }, TIMESTAMP_HEADER),
            (received("\t "), SIGNATURE_HEADER),
        ] {
            assert_eq!(check(&received), Err(VerifyError::MissingHeader { name }));
        }
    }

    /// "a.1" at 2 and "a" at 1 with body "2.x" would share their signed content.
    #[test]
    fn an_id_with_a_dot_is_refused_although_the_signature_fits() {
        let header = sign(&[secret()], "evt.1", NOW, BODY);
        let got = check(&Received { id: "evt.1", ..received(&header) });
        assert_eq!(got, Err(VerifyError::MessageId(MessageIdFault::Dot { at: 3 })));
    }

    #[test]
    fn headers_are_picked_by_name() {
        let pairs = [
            ("Content-Type", "application/json"),
            ("Webhook-Id", "evt_1"),
            ("WEBHOOK-TIMESTAMP", "1767225600"),
            ("webhook-signature", SIGNATURE),
        ];
        assert_eq!(Received::from_headers(pairs), Ok(received(SIGNATURE)));
        for (i, name) in [(1, ID_HEADER), (2, TIMESTAMP_HEADER), (3, SIGNATURE_HEADER)] {
            let without = pairs.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, pair)| *pair);
            assert_eq!(Received::from_headers(without), Err(VerifyError::MissingHeader { name }));
            let twice = pairs.into_iter().chain([pairs[i]]);
            assert_eq!(Received::from_headers(twice), Err(VerifyError::RepeatedHeader { name }));
        }
    }

    proptest! {
        #[test]
        fn what_was_signed_verifies_and_nothing_else(
            key in prop::collection::vec(any::<u8>(), 24..=64),
            id in "[!-\\-/-~]{1,40}",
            body in prop::collection::vec(any::<u8>(), 0..200),
            now in 0..i64::MAX,
            flip: prop::sample::Index,
        ) {
            let secrets = [Secret::from_bytes(&key).unwrap()];
            let (timestamp, signature) = (now.to_string(), sign(&secrets, &id, now, &body));
            let received = Received { id: &id, timestamp: &timestamp, signature: &signature };
            prop_assert_eq!(verify(&secrets, &received, &body, now, 0), Ok(()));
            if !body.is_empty() {
                let mut changed = body.clone();
                changed[flip.index(body.len())] ^= 1;
                prop_assert_eq!(verify(&secrets, &received, &changed, now, 0), Err(VerifyError::Mismatch));
            }
        }

        #[test]
        fn any_headers_get_an_answer(id: String, timestamp: String, signature: String, now: i64, tolerance: u64) {
            let received = Received { id: &id, timestamp: &timestamp, signature: &signature };
            prop_assert!(verify(&[secret()], &received, BODY, now, tolerance).is_err());
        }
    }
}
