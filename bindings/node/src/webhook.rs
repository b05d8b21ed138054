//! Standard Webhooks for receivers.

use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use tidings_bridge as bridge;

use crate::convert::{Result, entry};

/// The secrets of a sender.
#[napi]
pub struct Webhook {
    inner: bridge::Webhook,
}

#[napi]
impl Webhook {
    /// Secrets in text form.
    #[napi(constructor)]
    pub fn new(secrets: Vec<String>) -> Result<Self> {
        entry("Webhook", || Ok(Self { inner: bridge::Webhook::new(&secrets)? }))
    }

    /// Checks a webhook: its raw body, and its headers as pairs.
    #[napi]
    pub fn verify(
        &self,
        body: Uint8Array,
        headers: Vec<(String, String)>,
        now_seconds: i64,
        tolerance_seconds: f64,
    ) -> Result<()> {
        let checked = entry("Webhook.verify", || {
            let tolerance = bridge::whole_number("tolerance", tolerance_seconds)?;
            Ok(self.inner.verify(&body, &headers, now_seconds, tolerance))
        })?;
        checked.map_err(|error| refused(&error))
    }

    /// The headers of a webhook with this body, as pairs.
    #[napi]
    pub fn sign(&self, id: String, timestamp_seconds: i64, body: Uint8Array) -> Result<Vec<(String, String)>> {
        let signed = entry("Webhook.sign", || Ok(self.inner.sign(&id, timestamp_seconds, &body)))?;
        let headers = signed.map_err(|error| refused(&error))?;
        Ok(headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// The private keys of a receiver.
#[napi]
pub struct DecryptionKeys {
    inner: bridge::DecryptionKeys,
}

#[napi]
impl DecryptionKeys {
    /// Keys as the JSON texts of JWKs.
    #[napi(constructor)]
    pub fn new(keys: Vec<String>) -> Result<Self> {
        entry("DecryptionKeys", || Ok(Self { inner: bridge::DecryptionKeys::new(&keys)? }))
    }

    /// Reads a body that was encrypted to one of the keys.
    #[napi]
    pub fn decrypt(&self, body: Uint8Array) -> Result<Uint8Array> {
        let plain = entry("DecryptionKeys.decrypt", || Ok(self.inner.decrypt(&body)))?;
        plain.map(Uint8Array::from).map_err(|error| refused(&error))
    }
}

/// What a challenge is answered with, if this verified body is one.
#[napi]
pub fn challenge_answer(body: Uint8Array) -> Result<Option<String>> {
    entry("challengeAnswer", || Ok(bridge::challenge_answer(&body)))
}

/// The document that says which paths of a host receive webhooks.
#[napi]
pub fn receiver_document(paths: Vec<String>) -> Result<String> {
    entry("receiverDocument", || Ok(bridge::receiver_document(&paths)))
}

/// A webhook that is not to be trusted; its codes are no rows of the error table.
fn refused(error: &bridge::WebhookError) -> napi::Error<String> {
    napi::Error::new(format!("webhook/{}", error.code), error.message.clone())
}
