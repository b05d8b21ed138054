//! What became of what was fired.

use tidings_bridge as bridge;

use crate::entry::entry;
use crate::error::TidingsError;
use crate::hub::Hub;

/// One firing on its way over one route.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Delivery {
    /// Its own id.
    pub id: String,
    /// The firing's id: the `webhook-id`.
    pub event_id: String,
    /// The call it is about, if it is about one.
    pub call_id: Option<String>,
    /// On whose behalf.
    pub principal: String,
    /// The trigger that fired.
    pub trigger: String,
    /// The route's id.
    pub route: String,
    /// `pending`, `leased`, `retrying`, `delivered`, `dead`, `expired` or `superseded`.
    pub state: String,
    /// Attempts begun.
    pub attempts: u32,
    /// The category of the last failure.
    pub last_error: Option<String>,
}

impl From<bridge::Delivery> for Delivery {
    fn from(delivery: bridge::Delivery) -> Self {
        let bridge::Delivery { id, event_id, call_id, principal, trigger, route, state, attempts, last_error } =
            delivery;
        Self { id, event_id, call_id, principal, trigger, route, state: state.to_owned(), attempts, last_error }
    }
}

#[uniffi::export]
impl Hub {
    /// Deliveries of a principal, about a call, in a state, each only where it is named; oldest first. Blocks for a read.
    #[uniffi::method(default(principal = None, call_id = None, state = None, limit = 100))]
    pub fn deliveries(
        &self,
        principal: Option<String>,
        call_id: Option<String>,
        state: Option<String>,
        limit: u32,
    ) -> Result<Vec<Delivery>, TidingsError> {
        entry("Hub.deliveries", || {
            let limit = bridge::limit(limit.into())?;
            let found = self.inner.deliveries(principal.as_deref(), call_id.as_deref(), state.as_deref(), limit)?;
            Ok(found.into_iter().map(Delivery::from).collect())
        })
    }

    /// The categories of the settled attempts of a delivery, in order; none: it was taken. Blocks for a read.
    pub fn attempts(&self, id: &str) -> Result<Vec<Option<String>>, TidingsError> {
        entry("Hub.attempts", || self.inner.attempts(id))
    }

    /// The body of a delivery, as it was sent or is to be sent; where its route encrypts, before that. Blocks for a read.
    pub fn delivery_body(&self, id: &str) -> Result<Option<Vec<u8>>, TidingsError> {
        entry("Hub.deliveryBody", || self.inner.delivery_body(id))
    }

    /// Sends a dead letter again; the id of the new delivery. Blocks for a commit.
    pub fn send_again(&self, id: &str) -> Result<String, TidingsError> {
        entry("Hub.sendAgain", || self.inner.send_again(id))
    }

    /// Forgets finished deliveries; how many. Blocks for a commit.
    #[uniffi::method(default(id = None, principal = None, state = None))]
    pub fn purge(
        &self,
        id: Option<String>,
        principal: Option<String>,
        state: Option<String>,
    ) -> Result<u64, TidingsError> {
        entry("Hub.purge", || self.inner.purge(id.as_deref(), principal.as_deref(), state.as_deref()))
    }
}
