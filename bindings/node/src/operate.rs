//! What an operator does by hand.

use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use tidings_bridge as bridge;

use crate::convert::{Result, Told, begin, entry, number};
use crate::hub::{Hub, limit};

/// An endpoint: a URL of one principal.
#[napi(object, object_from_js = false)]
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
    /// Why it is disabled.
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

#[napi]
impl Hub {
    /// What the settled attempts of a delivery came to; `null`: it was taken.
    #[napi]
    pub fn attempts(&self, id: String) -> Result<Vec<Option<String>>> {
        entry("Hub.attempts", || self.inner.attempts(&id))
    }

    /// The body of a delivery.
    #[napi]
    pub fn delivery_body(&self, id: String) -> Result<Option<Buffer>> {
        Ok(entry("Hub.deliveryBody", || self.inner.delivery_body(&id))?.map(Buffer::from))
    }

    /// Sends a dead letter again; the id of the new delivery.
    #[napi]
    pub fn send_again(&self, id: String) -> Result<String> {
        entry("Hub.sendAgain", || self.inner.send_again(&id))
    }

    /// Forgets finished deliveries; how many.
    #[napi]
    pub fn purge(&self, id: Option<String>, principal: Option<String>, state: Option<String>) -> Result<f64> {
        entry("Hub.purge", || self.inner.purge(id.as_deref(), principal.as_deref(), state.as_deref())).map(number)
    }

    /// Endpoints of a principal, or all.
    #[napi]
    pub fn endpoints(&self, principal: Option<String>, most: f64) -> Result<Vec<Endpoint>> {
        let found = entry("Hub.endpoints", || self.inner.endpoints(principal.as_deref(), limit(most)?))?;
        Ok(found.into_iter().map(Endpoint::from).collect())
    }

    /// Has an endpoint tried again, or sends nothing more to it.
    #[napi]
    pub fn set_endpoint(&self, key: String, enabled: bool) -> Result<()> {
        entry("Hub.setEndpoint", || self.inner.set_endpoint(&key, enabled))
    }

    /// Holds deliveries back in this process, or lets them go again.
    #[napi]
    pub fn set_paused(&self, paused: bool) -> Result<()> {
        entry("Hub.setPaused", || self.inner.set_paused(paused))
    }

    /// Pauses and waits for the attempts under way.
    #[napi(ts_return_type = "boolean | Pending")]
    pub fn drain(&self, timeout_ms: f64) -> Result<Told> {
        begin("Hub.drain", || Ok(self.inner.drain(bridge::milliseconds("timeoutMs", timeout_ms)?)))
    }

    /// The numbers in Prometheus's text format.
    #[napi]
    pub fn prometheus(&self) -> Result<String> {
        entry("Hub.prometheus", || Ok(self.inner.prometheus()))
    }
}
