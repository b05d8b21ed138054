//! Standard Webhooks for receivers.

use std::fmt;

use tidings::proto::webhook::{self, PrivateKey, Received, Secret};

use crate::error::{Error, Result};

/// Why a webhook is not to be trusted, or cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookError {
    /// A stable name, such as `mismatch`.
    pub code: &'static str,
    /// What is wrong, for people; never a secret or part of the body.
    pub message: String,
}

/// The answer to a sender's challenge, as JSON text; `None` for any other body. Verify it first.
pub fn challenge_answer(body: &[u8]) -> Option<String> {
    webhook::challenge_answer(body)
}

/// The document that says which paths of a host receive webhooks.
pub fn receiver_document(paths: &[String]) -> String {
    webhook::receiver_document_json(paths)
}

/// The secrets of a sender, of which one or more signatures must be. Two during rotation.
#[derive(Clone)]
pub struct Webhook {
    secrets: Vec<Secret>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({} secrets)", self.secrets.len())
    }
}

impl Webhook {
    /// Secrets in text form; `whsec_` may be missing.
    ///
    /// # Errors
    /// `invalid_argument`, which never holds the secret.
    pub fn new(secrets: &[String]) -> Result<Self> {
        if secrets.is_empty() {
            return Err(Error::argument("secrets", "at least one is needed"));
        }
        let parse = |secret: &String| Secret::parse_lenient(secret).map_err(|fault| Error::argument("secrets", fault));
        Ok(Self { secrets: secrets.iter().map(parse).collect::<Result<_>>()? })
    }

    /// Checks a webhook: its raw body, and its headers as (name, value) pairs.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn verify(
        &self,
        body: &[u8],
        headers: &[(String, String)],
        now_secs: i64,
        tolerance_secs: u64,
    ) -> Result<(), WebhookError> {
        let headers = headers.iter().map(|(name, value)| (name, value.as_str()));
        Received::from_headers(headers)
            .and_then(|received| webhook::verify(&self.secrets, &received, body, now_secs, tolerance_secs))
            .map_err(|error| WebhookError { code: error.code(), message: error.to_string() })
    }

    /// The headers of a webhook with this body, signed with every secret.
    ///
    /// # Errors
    /// `message_id`: the id cannot be a header.
    pub fn sign(
        &self,
        id: &str,
        timestamp_secs: i64,
        body: &[u8],
    ) -> Result<[(&'static str, String); 3], WebhookError> {
        webhook::check_message_id(id).map_err(|fault| WebhookError {
            code: "message_id",
            message: format!("{}: {fault}", webhook::ID_HEADER),
        })?;
        Ok([
            (webhook::ID_HEADER, id.to_owned()),
            (webhook::TIMESTAMP_HEADER, timestamp_secs.to_string()),
            (webhook::SIGNATURE_HEADER, webhook::sign(&self.secrets, id, timestamp_secs, body)),
        ])
    }
}

/// The private keys of a receiver, for bodies that are encrypted to it. Several while one replaces the other.
#[derive(Clone, Debug)]
pub struct DecryptionKeys {
    keys: Vec<PrivateKey>,
}

impl DecryptionKeys {
    /// Keys as the JSON texts of JWKs with `d`.
    ///
    /// # Errors
    /// `invalid_argument`, which never holds any of a key.
    pub fn new(keys: &[String]) -> Result<Self> {
        if keys.is_empty() {
            return Err(Error::argument("keys", "at least one is needed"));
        }
        let parse = |key: &String| PrivateKey::parse(key).map_err(|fault| Error::argument("keys", fault));
        Ok(Self { keys: keys.iter().map(parse).collect::<Result<_>>()? })
    }

    /// Reads a body that was encrypted to one of the keys. Verify it first.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn decrypt(&self, body: &[u8]) -> Result<Vec<u8>, WebhookError> {
        webhook::decrypt(&self.keys, body)
            .map_err(|error| WebhookError { code: error.code(), message: error.to_string() })
    }
}
