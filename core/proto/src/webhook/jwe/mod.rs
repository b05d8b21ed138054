//! Bodies that only the receiver can read: JWE (RFC 7516) in its compact form, ECDH-ES straight to A256GCM (RFC 7518
//! sections 4.6 and 5.3), for a public key on P-256 or X25519 (RFC 8037).
//!
//! The curves, AES-GCM, HKDF and SHA-256 are RustCrypto's and dalek's, constant-time and pure Rust. What a JOSE library
//! would add to them is assembling the text and the [KDF](kdf), while those there are either need OpenSSL or draw their own
//! randomness, which a body that has to come out the same on every attempt cannot have.
//!
//! # The same bytes on every attempt
//!
//! A webhook keeps its bytes as it keeps its `webhook-id`, over retries, other workers and crashes, so nothing is drawn when
//! it is encrypted: the ephemeral key and the nonce follow from a [`Seed`] of 32 random bytes, drawn with the delivery and
//! kept sealed, by HKDF-Expand (RFC 5869) over everything that goes into the message: the header, the recipient's key, and
//! the plaintext. This is safe, because
//!
//! - without the seed, the ephemeral key cannot be told from a random one (HMAC is a pseudo-random function), whatever is
//!   known of the plaintext;
//! - one seed never gives two messages the same ephemeral key and nonce: unless SHA-256 collides, another plaintext,
//!   recipient or header gives another key, so the rule of GCM (a nonce once per key) holds also where a seed is used
//!   again, as in a batch that comes apart. What repeats is the same message, and that tells only that it is the same, as
//!   its `webhook-id` does;
//! - who learns a seed can read that message; the store keeps the plaintext beside it anyway.

mod compact;
mod kdf;
mod key;

pub use compact::{DecryptError, JWE_MEDIA_TYPE, Seed, TooLong, decrypt, encrypt};
pub use kdf::concat_kdf;
pub use key::{Jwk, KeyFault, MAX_KEY_ID_CHARS, PrivateKey, PublicKey};

#[cfg(test)]
mod tests;
