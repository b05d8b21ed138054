//! What an operator does by hand.

use std::time::Duration;

use tidings_bridge as bridge;

use crate::entry::{answer, complete, entry};
use crate::error::TidingsError;
use crate::hub::Hub;

/// An endpoint: a URL of one principal. Never the URL itself, which may hold a secret.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Endpoint {
    /// Its key, in hex.
    pub key: String,
    /// Whose it is.
    pub principal: String,
    /// Its host.
    pub host: String,
    /// `unverified`, `verified` or `disabled`.
    pub state: String,
    /// `challenge`, `well_known`, `allow_list` or `address`.
    pub proof: Option<String>,
    /// Why it is disabled: `gone`, `failing`, `unverified` or `operator`.
    pub disabled: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// Its breaker has opened since the last success.
    pub tripped: bool,
    /// The category of the last failure.
    pub last_error: Option<String>,
}

impl From<bridge::Endpoint> for Endpoint {
    fn from(endpoint: bridge::Endpoint) -> Self {
        let bridge::Endpoint { key, principal, host, state, proof, disabled, failures, tripped, last_error } = endpoint;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            key,
            principal,
            host,
            state: state.to_owned(),
            proof: owned(proof),
            disabled: owned(disabled),
            failures,
            tripped,
            last_error: owned(last_error),
        }
    }
}

#[uniffi::export]
impl Hub {
    /// Endpoints of a principal, or all. Blocks for a read.
    #[uniffi::method(default(principal = None, limit = 100))]
    pub fn endpoints(&self, principal: Option<String>, limit: u32) -> Result<Vec<Endpoint>, TidingsError> {
        entry("Hub.endpoints", || {
            let found = self.inner.endpoints(principal.as_deref(), bridge::limit(limit.into())?)?;
            Ok(found.into_iter().map(Endpoint::from).collect())
        })
    }

    /// Has an endpoint tried again, or sends nothing more to it. Blocks for a commit.
    pub fn set_endpoint(&self, key: &str, enabled: bool) -> Result<(), TidingsError> {
        entry("Hub.setEndpoint", || self.inner.set_endpoint(key, enabled))
    }

    /// Holds deliveries back in this process, or lets them go again.
    pub fn set_paused(&self, paused: bool) -> Result<(), TidingsError> {
        entry("Hub.setPaused", || self.inner.set_paused(paused))
    }

    /// Pauses and waits for the attempts under way; whether all have ended in time.
    pub async fn drain(&self, timeout: Duration) -> Result<bool, TidingsError> {
        answer("Hub.drain", || Ok(self.inner.drain(timeout)), complete).await
    }

    /// The numbers in Prometheus's text format.
    pub fn prometheus(&self) -> Result<String, TidingsError> {
        entry("Hub.prometheus", || Ok(self.inner.prometheus()))
    }
}
