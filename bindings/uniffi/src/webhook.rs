//! Standard Webhooks for receivers.

use std::sync::Arc;

use tidings_bridge as bridge;

use crate::entry::entry;
use crate::error::TidingsError;

/// One header; a name may come more than once.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Header {
    /// In any case.
    pub name: String,
    /// As it came.
    pub value: String,
}

/// The secrets of a sender.
#[derive(uniffi::Object)]
pub struct Webhook {
    inner: bridge::Webhook,
}

#[uniffi::export]
impl Webhook {
    /// Secrets in text form (`whsec_…`); two during a rotation.
    #[uniffi::constructor]
    pub fn new(secrets: Vec<String>) -> Result<Arc<Self>, TidingsError> {
        entry("Webhook", || Ok(Arc::new(Self { inner: bridge::Webhook::new(&secrets)? })))
    }

    /// Checks a webhook: its raw body and its headers. It must have been signed at most `tolerance_seconds` before or after
    /// `now_seconds`, which count from 1970.
    #[uniffi::method(default(tolerance_seconds = 300))]
    pub fn verify(
        &self,
        body: Vec<u8>,
        headers: Vec<Header>,
        now_seconds: i64,
        tolerance_seconds: u64,
    ) -> Result<(), TidingsError> {
        let headers: Vec<_> = headers.into_iter().map(|header| (header.name, header.value)).collect();
        let checked =
            entry("Webhook.verify", || Ok(self.inner.verify(&body, &headers, now_seconds, tolerance_seconds)))?;
        Ok(checked?)
    }

    /// The headers of a webhook with this body, signed with every secret.
    pub fn sign(&self, id: &str, timestamp_seconds: i64, body: Vec<u8>) -> Result<Vec<Header>, TidingsError> {
        let signed = entry("Webhook.sign", || Ok(self.inner.sign(id, timestamp_seconds, &body)))?;
        Ok(signed?.into_iter().map(|(name, value)| Header { name: name.to_owned(), value }).collect())
    }
}

/// The private keys of a receiver, for bodies that are encrypted to it. Several while one replaces the other.
#[derive(uniffi::Object)]
pub struct DecryptionKeys {
    inner: bridge::DecryptionKeys,
}

#[uniffi::export]
impl DecryptionKeys {
    /// Keys as the JSON texts of JWKs with `d`.
    #[uniffi::constructor]
    pub fn new(keys: Vec<String>) -> Result<Arc<Self>, TidingsError> {
        entry("DecryptionKeys", || Ok(Arc::new(Self { inner: bridge::DecryptionKeys::new(&keys)? })))
    }

    /// Reads a body that was encrypted to one of the keys. Verify it first.
    pub fn decrypt(&self, body: Vec<u8>) -> Result<Vec<u8>, TidingsError> {
        let plain = entry("DecryptionKeys.decrypt", || Ok(self.inner.decrypt(&body)))?;
        Ok(plain?)
    }
}

/// The answer to a sender's challenge, as JSON text; none for any other body. Verify it first.
#[uniffi::export]
pub fn challenge_answer(body: Vec<u8>) -> Result<Option<String>, TidingsError> {
    entry("challengeAnswer", || Ok(bridge::challenge_answer(&body)))
}

/// The document that says which paths of a host receive webhooks, as JSON text.
#[uniffi::export]
pub fn receiver_document(paths: Vec<String>) -> Result<String, TidingsError> {
    entry("receiverDocument", || Ok(bridge::receiver_document(&paths)))
}
