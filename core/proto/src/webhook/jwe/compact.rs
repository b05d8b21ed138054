//! The compact form: header, no encrypted key, nonce, ciphertext and tag, each base64url, with dots between them.

use core::fmt;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::kdf::concat_kdf;
use super::key::{Jwk, Point, PrivateKey, PublicKey, Scalar};
use crate::json;

/// The `content-type` of an encrypted body (RFC 7515 section 9.2.1: JWE in its compact form, too).
pub const JWE_MEDIA_TYPE: &str = "application/jose";

const KEY_AGREEMENT: &str = "ECDH-ES";
const ENCRYPTION: &str = "A256GCM";
const NONCE: usize = 12;
const TAG: usize = 16;

/// What the ephemeral keys of one delivery follow from: 32 random bytes, used for nothing else. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// A seed of these bytes, which have to be random.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads what [`reveal`](Self::reveal) wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(Self(URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?))
    }

    /// For sealing at rest. Not for logs.
    pub(crate) fn reveal(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(redacted)")
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        self.0 = [0; 32];
        // Makes the zeros observable, so that the write is not removed as dead.
        core::hint::black_box(&self.0);
    }
}

/// The plaintext is beyond what AES-GCM can encrypt in one message (64 GiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a body of more than 64 GiB cannot be encrypted")
    }
}

impl core::error::Error for TooLong {}

/// Encrypts a JSON body to a receiver: the same key, seed and body give the same text.
///
/// # Errors
/// [`TooLong`].
pub fn encrypt(key: &PublicKey, seed: &Seed, plain: &[u8]) -> Result<String, TooLong> {
    let before = header_before_epk(key);
    let (ephemeral, nonce) = derive(key, seed, &before, plain);
    let mut header = before;
    ephemeral.public().push_json(&mut header);
    header.push('}');
    let header = URL_SAFE_NO_PAD.encode(header);
    let shared = ephemeral.shared(&key.point).expect("both are on one curve, and a JWK's point is of no small order");
    let payload = Payload { msg: plain, aad: header.as_bytes() };
    let mut sealed = cipher(&shared, &[], &[]).encrypt(&nonce.into(), payload).map_err(|_| TooLong)?;
    let tag = sealed.split_off(sealed.len().saturating_sub(TAG));
    let [nonce, sealed, tag] = [&nonce[..], &sealed, &tag].map(|part| URL_SAFE_NO_PAD.encode(part));
    Ok([&header, "", &nonce, &sealed, &tag].join("."))
}

impl PublicKey {
    /// The longest plaintext whose message has at most `most` bytes.
    pub fn longest_plain(&self, most: usize) -> usize {
        let mut header = header_before_epk(self);
        self.point.push_json(&mut header);
        header.push('}');
        let around = encoded(header.len()) + encoded(NONCE) + encoded(TAG) + 4;
        most.saturating_sub(around) / 4 * 3
    }
}

/// The length of base64url without padding.
const fn encoded(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

/// The header as far as the ephemeral key. `cty` is the media type without `application/` (RFC 7516 section 4.1.12).
fn header_before_epk(key: &PublicKey) -> String {
    let mut out = format!(r#"{{"alg":"{KEY_AGREEMENT}","enc":"{ENCRYPTION}","cty":"json""#);
    if let Some(kid) = &key.kid {
        json::push_name(&mut out, "kid");
        json::push_string(&mut out, kid);
    }
    json::push_name(&mut out, "epk");
    out
}

/// The ephemeral key and the nonce of this message and no other: see the [module](super).
fn derive(key: &PublicKey, seed: &Seed, header: &str, plain: &[u8]) -> (Scalar, [u8; NONCE]) {
    let mut recipient = String::new();
    key.point.push_json(&mut recipient);
    let mut message = Sha256::new();
    for part in [header.as_bytes(), recipient.as_bytes(), plain] {
        message.update((part.len() as u64).to_be_bytes());
        message.update(part);
    }
    let message: [u8; 32] = message.finalize().into();
    let expand = Hkdf::<Sha256>::from_prk(&seed.0).expect("a seed has the 32 bytes that a key of HKDF-SHA256 needs");
    for round in 0_u8.. {
        let mut out = [0; 32 + NONCE];
        let info: [&[u8]; 3] = [b"io.tidings jwe 1\0", &message, &[round]];
        expand.expand_multi_info(&info, &mut out).expect("44 bytes are within the 8,160 of HKDF-SHA256");
        let (scalar, nonce) = out.split_at(32);
        let nonce = nonce.try_into().unwrap_or_default();
        let scalar = match &key.point {
            // One in 2^32 is not below the order of the group: then the next one.
            Point::P256(_) => p256::SecretKey::from_slice(scalar).ok().map(Scalar::P256),
            Point::X25519(_) => <[u8; 32]>::try_from(scalar).ok().map(|scalar| Scalar::X25519(scalar.into())),
        };
        if let Some(scalar) = scalar {
            return (scalar, nonce);
        }
    }
    unreachable!("256 scalars in a row are beyond the order of P-256 with a chance of 2^-8192")
}

fn cipher(shared: &[u8], apu: &[u8], apv: &[u8]) -> Aes256Gcm {
    let mut key = Key::<Aes256Gcm>::default();
    concat_kdf(shared, ENCRYPTION, apu, apv, &mut key);
    Aes256Gcm::new(&key)
}

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecryptError {
    /// It is no JWE in its compact form.
    Malformed,
    /// Its header asks for something else than ECDH-ES with A256GCM, or for an extension.
    Unsupported,
    /// None of the keys opens it: it is for another one, or was changed.
    NoKey,
}

impl DecryptError {
    /// A stable machine-readable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Malformed => "jwe_malformed",
            Self::Unsupported => "jwe_unsupported",
            Self::NoKey => "jwe_no_key",
        }
    }
}

impl fmt::Display for DecryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the body is no JWE in its compact form",
            Self::Unsupported => "the body is encrypted by something else than ECDH-ES with A256GCM",
            Self::NoKey => "the body is encrypted to another key, or was changed",
        })
    }
}

impl core::error::Error for DecryptError {}

#[derive(Deserialize)]
struct Header<'a> {
    alg: String,
    enc: String,
    #[serde(borrow)]
    epk: &'a RawValue,
    kid: Option<String>,
    apu: Option<String>,
    apv: Option<String>,
    zip: Option<String>,
    #[serde(borrow)]
    crit: Option<&'a RawValue>,
}

/// Reads a body that was encrypted to one of these keys: several while one replaces the other. A message that names a key
/// (`kid`) is tried with those of that name only, and those without one.
///
/// # Errors
/// [`DecryptError`] with the rule.
pub fn decrypt(keys: &[PrivateKey], body: &[u8]) -> Result<Vec<u8>, DecryptError> {
    let text = core::str::from_utf8(body).map_err(|_| DecryptError::Malformed)?;
    let parts: Vec<&str> = text.split('.').collect();
    let Ok([header_text, encrypted_key, nonce, sealed, tag]) = <[&str; 5]>::try_from(parts) else {
        return Err(DecryptError::Malformed);
    };
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| DecryptError::Malformed);
    let header = decoded(header_text)?;
    let header: Header<'_> = serde_json::from_slice(&header).map_err(|_| DecryptError::Malformed)?;
    if header.alg != KEY_AGREEMENT || header.enc != ENCRYPTION || header.zip.is_some() || header.crit.is_some() {
        return Err(DecryptError::Unsupported);
    }
    if !encrypted_key.is_empty() {
        return Err(DecryptError::Malformed);
    }
    let epk: Jwk = serde_json::from_str(header.epk.get()).map_err(|_| DecryptError::Malformed)?;
    let epk = PublicKey::from_jwk(&epk).map_err(|_| DecryptError::Malformed)?;
    let (apu, apv) = (decoded(header.apu.as_deref().unwrap_or(""))?, decoded(header.apv.as_deref().unwrap_or(""))?);
    let nonce = <[u8; NONCE]>::try_from(decoded(nonce)?).map_err(|_| DecryptError::Malformed)?;
    let tag = <[u8; TAG]>::try_from(decoded(tag)?).map_err(|_| DecryptError::Malformed)?;
    let sealed = [&decoded(sealed)?[..], &tag].concat();
    let named = |key: &&PrivateKey| match (&header.kid, key.public_key().kid()) {
        (Some(wanted), Some(kid)) => wanted == kid,
        _ => true,
    };
    for key in keys.iter().filter(named) {
        let Some(shared) = key.scalar.shared(&epk.point) else { continue };
        let payload = Payload { msg: &sealed, aad: header_text.as_bytes() };
        if let Ok(plain) = cipher(&shared, &apu, &apv).decrypt(&nonce.into(), payload) {
            return Ok(plain);
        }
    }
    Err(DecryptError::NoKey)
}
