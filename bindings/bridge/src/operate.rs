//! What an operator does by hand. All of it blocks for a commit or a read, but for the drain.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use tidings::proto::delivery::{BreakerState, EndpointKey};
use tidings::store::{DeliveryId, DeliveryState};

use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::hub::{Hub, state_of};
use crate::pending::{Cancel, Started, start};

/// An endpoint: a URL of one principal. Never the URL itself, which may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its key, in hex.
    pub key: String,
    /// Whose it is.
    pub principal: String,
    /// Its host.
    pub host: String,
    /// `unverified`, `verified` or `disabled`.
    pub state: &'static str,
    /// `challenge`, `well_known`, `allow_list` or `address`.
    pub proof: Option<&'static str>,
    /// Why it is disabled: `gone`, `failing`, `unverified` or `operator`.
    pub disabled: Option<&'static str>,
    /// Failures in a row.
    pub failures: u32,
    /// Its breaker has opened since the last success.
    pub tripped: bool,
    /// The category of the last failure.
    pub last_error: Option<&'static str>,
}

impl Hub {
    /// The categories of the settled attempts of a delivery, in order; none: it was taken.
    pub fn attempts(&self, id: &str) -> Result<Vec<Option<String>>> {
        let attempts = self.core().attempts(delivery_id(id)?)?;
        Ok(attempts.into_iter().map(|attempt| attempt.error).collect())
    }

    /// The body of a delivery, as it was sent or is to be sent; where its route encrypts, before that.
    pub fn delivery_body(&self, id: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.core().stored_delivery(delivery_id(id)?)?.map(|stored| stored.body.to_vec()))
    }

    /// Sends a dead letter again; answers the id of the new delivery.
    pub fn send_again(&self, id: &str) -> Result<String> {
        Ok(wait(self.core().send_again(delivery_id(id)?))?.to_string())
    }

    /// Forgets finished deliveries; answers how many.
    pub fn purge(&self, id: Option<&str>, principal: Option<&str>, state: Option<&str>) -> Result<u64> {
        let id = id.map(delivery_id).transpose()?;
        let state: Option<DeliveryState> = state.map(state_of).transpose()?;
        Ok(wait(self.core().purge(id, principal, state))?)
    }

    /// Endpoints of a principal, or all.
    pub fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<Endpoint>> {
        let found = self.core().endpoints(principal, limit)?;
        let plain = found.into_iter().map(|record| Endpoint {
            key: record.key.0.iter().map(|byte| format!("{byte:02x}")).collect(),
            principal: record.owner.principal,
            host: record.owner.host,
            state: record.standing.state.as_str(),
            proof: record.standing.proof.map(|proof| proof.as_str()),
            disabled: record.standing.disabled.map(|(reason, _)| reason.as_str()),
            failures: record.standing.health.failures,
            tripped: record.standing.health.breaker(i64::MAX) != BreakerState::Closed,
            last_error: record.standing.last_error.map(|category| category.as_str()),
        });
        Ok(plain.collect())
    }

    /// Has an endpoint tried again, or sends nothing more to it.
    pub fn set_endpoint(&self, key: &str, enabled: bool) -> Result<()> {
        let key = endpoint_key(key)?;
        let hub = self.core();
        let done = if enabled { wait(hub.enable_endpoint(key)) } else { wait(hub.disable_endpoint(key)) };
        Ok(done?)
    }

    /// Holds deliveries back in this process, or lets them go again.
    pub fn set_paused(&self, paused: bool) -> Result<()> {
        let done = if paused { self.core().pause() } else { self.core().unpause() };
        Ok(done?)
    }

    /// Pauses and waits for the attempts under way; answers [`Answer::Complete`].
    pub fn drain(&self, wait: Duration) -> Started {
        let hub = self.clone();
        start(Cancel::Drop, async move { Ok(Answer::Complete(hub.core().drain(wait).await?)) })
    }

    /// The numbers in Prometheus's text format.
    pub fn prometheus(&self) -> String {
        self.core().prometheus()
    }
}

fn delivery_id(text: &str) -> Result<DeliveryId> {
    tidings::proto::stream::decode_id(text).map(DeliveryId).map_err(|_| Error::argument("id", "is no delivery's"))
}

fn endpoint_key(text: &str) -> Result<EndpointKey> {
    let bad = || Error::argument("key", "must be 64 hexadecimal digits");
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return Err(bad());
    }
    for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(bad)?;
    }
    Ok(EndpointKey(key))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future of the hub on this thread; it needs no runtime.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
