//! Making a signature.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::secret::Secret;

/// The header with the message id: the same on every attempt.
pub const ID_HEADER: &str = "webhook-id";

/// The header with the Unix seconds of this attempt.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";

/// The header with the signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// The `webhook-signature` header: one `v1,` entry for each secret in the order given, separated by blanks (Standard
/// Webhooks "Signature scheme"). Empty for no secrets: such a request is sent without the header.
///
/// `id` and `timestamp_secs` (Unix seconds of this attempt) have to be sent as `webhook-id` and `webhook-timestamp`,
/// and `body` byte for byte. The id is not checked here: it passed [`check_message_id`](super::check_message_id) when
/// it was made or taken from outside.
pub fn sign(secrets: &[Secret], id: &str, timestamp_secs: i64, body: &[u8]) -> String {
    let timestamp = timestamp_secs.to_string();
    let mut header = String::with_capacity(secrets.len() * 48);
    for secret in secrets {
        if !header.is_empty() {
            header.push(' ');
        }
        header.push_str("v1,");
        header.push_str(&signature(secret, id, &timestamp, body));
    }
    header
}

/// Base64 of the HMAC over id, timestamp text and body, without the version.
pub(super) fn signature(secret: &Secret, id: &str, timestamp: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length (RFC 2104)");
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (secret, id, timestamp, body, signature): the vector of the reference libraries, and field report B62's.
    const VECTORS: [(&str, &str, i64, &str, &str); 2] = [
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1_649_367_553,
            r#"{"email":"test@example.com","username":"test_user"}"#,
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
        (
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "evt_1",
            1_767_225_600,
            r#"{"p":1.0}"#,
            "v1,2MMOzszGbkbmaR4/zB0aW3wW7gxYYNblaCZMOvwIh5w=",
        ),
    ];

    #[test]
    fn matches_the_published_vectors() {
        for (secret, id, timestamp, body, want) in VECTORS {
            let secret = Secret::parse(secret).unwrap();
            assert_eq!(sign(&[secret], id, timestamp, body.as_bytes()), want);
        }
    }

    #[test]
    fn rotation_signs_with_each_secret_in_order() {
        let secrets = VECTORS.map(|(secret, ..)| Secret::parse(secret).unwrap());
        let (_, id, timestamp, body, first) = VECTORS[0];
        let both = sign(&secrets, id, timestamp, body.as_bytes());
        let (old, new) = both.split_once(' ').unwrap();
        assert_eq!(old, first);
        assert_eq!(new, sign(&secrets[1..], id, timestamp, body.as_bytes()));
        assert_ne!(old, new);
        assert_eq!(sign(&[], id, timestamp, body.as_bytes()), "");
    }

    #[test]
    fn the_body_is_bytes() {
        let secret = Secret::from_bytes(&[7; 32]).unwrap();
        let of = |body: &[u8]| sign(core::slice::from_ref(&secret), "evt_1", 1, body);
        let variants: [&[u8]; 6] = [b"", b"1.0", b"1", b"\xff\x00\xfe", b"\xed\xa0\x80", b"1.0\n"];
        for (i, a) in variants.iter().enumerate() {
            for b in &variants[i + 1..] {
                assert_ne!(of(a), of(b), "{a:?} {b:?}");
            }
        }
    }
}
