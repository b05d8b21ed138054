//! Secrets at rest (DESIGN section 6): XChaCha20-Poly1305 with a random nonce.
//!
//! A sealed value is `1 | nonce (24) | ciphertext and tag`. The associated data names the table, the column and the row,
//! so that a value copied to another place does not open.

use bytes::Bytes;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use tidings_store::{StoreError, StoreErrorKind};

const VERSION: u8 = 1;
const NONCE: usize = 24;

/// A place for sealed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// A known value that tells a wrong key.
    KeyCheck,
    CallConfig,
    DeliveryRoute,
    DeliveryFallback,
    EndpointRoute,
    DeliveryWhole,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::KeyCheck => "meta.key_check",
            Self::CallConfig => "calls.config",
            Self::DeliveryRoute => "delivery_contents.route",
            Self::DeliveryFallback => "delivery_contents.fallback",
            Self::EndpointRoute => "endpoints.route",
            Self::DeliveryWhole => "delivery_contents.whole",
        }
    }
}

/// Seals and opens with one key.
#[derive(Debug)]
pub(crate) struct Sealer {
    cipher: XChaCha20Poly1305,
    equality: Hmac<Sha256>,
}

/// The value does not open: another key, another place, or damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DoesNotOpen;

impl Sealer {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        // One key for two uses: the label keeps them apart, as the ciphers use it in no such way.
        let mut equality =
            <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length (RFC 2104)");
        equality.update(b"tidings: equality\0");
        Self { cipher: XChaCha20Poly1305::new(key.into()), equality }
    }

    /// What is equal for equal texts and tells nothing of them without the key.
    pub(crate) fn equality(&self, text: &[u8]) -> [u8; 32] {
        self.equality.clone().chain_update(text).finalize().into_bytes().into()
    }

    /// Seals `plain` for `field` of the row `id`.
    pub(crate) fn seal(&self, plain: &[u8], field: Field, id: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut nonce = [0; NONCE];
        random(&mut nonce)?;
        let sealed =
            self.cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &aad(field, id) }).map_err(|_| {
                StoreError::new(StoreErrorKind::Unsupported, format!("{}: too long to be sealed", field.name()))
            })?;
        let mut out = Vec::with_capacity(1 + NONCE + sealed.len());
        out.push(VERSION);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed);
        Ok(out)
    }

    /// Opens what [`seal`](Self::seal) made for the same field of the same row.
    pub(crate) fn open(&self, sealed: &[u8], field: Field, id: &[u8]) -> Result<Bytes, DoesNotOpen> {
        let (&[VERSION], rest) = sealed.split_first_chunk::<1>().ok_or(DoesNotOpen)? else { return Err(DoesNotOpen) };
        let (nonce, body) = rest.split_first_chunk::<NONCE>().ok_or(DoesNotOpen)?;
        let opened = self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: body, aad: &aad(field, id) });
        opened.map(Bytes::from).map_err(|_| DoesNotOpen)
    }
}

fn aad(field: Field, id: &[u8]) -> Vec<u8> {
    [b"tidings\0", field.name().as_bytes(), b"\0", id].concat()
}

/// Fills `out` with the system's randomness.
pub(crate) fn random(out: &mut [u8]) -> Result<(), StoreError> {
    getrandom::fill(out).map_err(|error| StoreError::new(StoreErrorKind::Io, format!("no randomness: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer() -> Sealer {
        Sealer::new(&[7; 32])
    }

    #[test]
    fn opens_only_in_its_own_place_and_with_its_own_key() {
        let sealed = sealer().seal(b"whsec_x", Field::DeliveryRoute, b"row-a").unwrap();
        assert_eq!(sealer().open(&sealed, Field::DeliveryRoute, b"row-a").unwrap(), &b"whsec_x"[..]);
        assert_eq!(sealer().open(&sealed, Field::DeliveryRoute, b"row-b"), Err(DoesNotOpen));
        assert_eq!(sealer().open(&sealed, Field::DeliveryFallback, b"row-a"), Err(DoesNotOpen));
        assert_eq!(Sealer::new(&[8; 32]).open(&sealed, Field::DeliveryRoute, b"row-a"), Err(DoesNotOpen));
    }

    #[test]
    fn any_changed_or_missing_byte_is_noticed() {
        let sealed = sealer().seal(b"secret", Field::CallConfig, b"c").unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(sealer().open(&changed, Field::CallConfig, b"c"), Err(DoesNotOpen), "byte {at}");
            assert_eq!(sealer().open(&sealed[..at], Field::CallConfig, b"c"), Err(DoesNotOpen), "cut at {at}");
        }
    }

    #[test]
    fn the_same_secret_never_looks_the_same() {
        let one = sealer().seal(b"", Field::CallConfig, b"c").unwrap();
        let two = sealer().seal(b"", Field::CallConfig, b"c").unwrap();
        assert_ne!(one, two);
        assert_eq!(one.len(), 1 + 24 + 16);
        assert_eq!(sealer().open(&one, Field::CallConfig, b"c").unwrap(), &b""[..]);
    }

    /// Test vector A.3.1 of draft-irtf-cfrg-xchacha-03, so that another library can open what this one sealed.
    #[test]
    fn is_the_published_construction() {
        let key: [u8; 32] = std::array::from_fn(|i| 0x80 + i as u8);
        let nonce: [u8; 24] = std::array::from_fn(|i| 0x40 + i as u8);
        let aad = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
        let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
        let sealed = Sealer::new(&key).cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &aad }).unwrap();
        assert_eq!(
            sealed[..16],
            [0xbd, 0x6d, 0x17, 0x9d, 0x3e, 0x83, 0xd4, 0x3b, 0x95, 0x76, 0x57, 0x94, 0x93, 0xc0, 0xe9, 0x39]
        );
        let tag = [0xc0, 0x87, 0x59, 0x24, 0xc1, 0xc7, 0x98, 0x79, 0x47, 0xde, 0xaf, 0xd8, 0x78, 0x0a, 0xcf, 0x49];
        assert_eq!(sealed[plain.len()..], tag);
    }
}
