//! Standard Webhooks for receivers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::TidingsError;

/// The secrets of a sender.
#[derive(uniffi::Object)]
pub struct Webhook {
    webhook: tidings_bridge::Webhook,
}

#[uniffi::export]
impl Webhook {
    /// Secrets in text form (`whsec_…`); two during a rotation.
    #[uniffi::constructor]
    pub fn new(secrets: Vec<String>) -> Result<Arc<Self>, TidingsError> {
        let webhook =
            tidings_bridge::Webhook::new(&secrets).map_err(|error| TidingsError::argument("secrets", error))?;
        Ok(Arc::new(Self { webhook }))
    }

    /// Checks a webhook: its raw body and its headers. A signature older than `tolerance_secs` fails, and so does one from
    /// the future. The codes are `mismatch`, `missing_header` and the like.
    #[uniffi::method(default(tolerance_secs = 300))]
    pub fn verify(
        &self,
        body: Vec<u8>,
        headers: HashMap<String, String>,
        tolerance_secs: u64,
    ) -> Result<(), TidingsError> {
        let headers: Vec<(String, String)> = headers.into_iter().collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.webhook
            .verify(&body, &headers, now.cast_signed(), tolerance_secs)
            .map_err(|error| TidingsError::new(error.code, error.message))
    }
}
