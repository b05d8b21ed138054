//! Places in the host that deliveries go through.

use std::sync::Arc;
use std::time::Duration;

use tidings_bridge::{self as bridge, Answer};

use crate::entry::{answer, entry};
use crate::error::TidingsError;
use crate::hub::Hub;

/// Which place it is.
pub type Offer = bridge::Offer;

/// Which place it is.
#[uniffi::remote(Record)]
pub struct Offer {
    /// `message`, `callback`, or a type of the host's own.
    pub route_type: String,
    /// The name of a handler or a sink, for `message` and `callback`.
    #[uniffi(default = None)]
    pub name: Option<String>,
    /// The host's name for a session's connection, for `message` and `signal`.
    #[uniffi(default = None)]
    pub peer: Option<String>,
    /// Deliveries in the host's hands or queued for it; none leaves the core's default.
    #[uniffi(default = None)]
    pub limit: Option<u32>,
    /// How long one attempt may take; none leaves the core's default.
    #[uniffi(default = None)]
    pub timeout: Option<Duration>,
}

/// A place that takes deliveries, until it is stopped or freed.
#[derive(uniffi::Object)]
pub struct Outlet {
    inner: bridge::Outlet,
}

#[uniffi::export]
impl Outlet {
    /// The next delivery; none once the outlet is stopped or the hub closed.
    pub async fn next(&self) -> Result<Option<Arc<HostDelivery>>, TidingsError> {
        let delivery = |answer| match answer {
            Answer::Delivery(delivery) => Some(delivery.map(|inner| Arc::new(HostDelivery { inner: *inner }))),
            _ => None,
        };
        answer("Outlet.next", || Ok(self.inner.next()), delivery).await
    }

    /// Offers it no longer.
    pub fn stop(&self) -> Result<(), TidingsError> {
        entry("Outlet.stop", || {
            self.inner.close();
            Ok(())
        })
    }
}

/// A delivery in the host's hands, to be answered once. Freed without an answer, its attempt failed.
#[derive(uniffi::Object)]
pub struct HostDelivery {
    inner: bridge::HostDelivery,
}

/// What there is to know of a delivery.
#[derive(Clone, Debug, uniffi::Record)]
pub struct HostDeliveryFacts {
    /// Its own id.
    pub id: String,
    /// The firing's id, the same on every attempt and every route.
    pub event_id: String,
    /// The call it is about, if it is about one.
    pub call_id: Option<String>,
    /// On whose behalf.
    pub principal: String,
    /// The trigger that fired.
    pub trigger: String,
    /// The route's id.
    pub route: String,
    /// The route's type.
    pub route_type: String,
    /// What the client named, if it did.
    pub endpoint: Option<String>,
    /// The signal to ring with, for a route of type `signal`.
    pub signal: Option<String>,
    /// Attempts begun, this one included.
    pub attempt: u32,
    /// The JSON text that a webhook would carry.
    pub body: Vec<u8>,
}

#[uniffi::export]
impl HostDelivery {
    /// What there is to know of it.
    pub fn facts(&self) -> HostDeliveryFacts {
        let delivery = &self.inner;
        HostDeliveryFacts {
            id: delivery.id.clone(),
            event_id: delivery.event_id.clone(),
            call_id: delivery.call_id.clone(),
            principal: delivery.principal.clone(),
            trigger: delivery.trigger.clone(),
            route: delivery.route.clone(),
            route_type: delivery.route_type.clone(),
            endpoint: delivery.endpoint.clone(),
            signal: delivery.signal.clone(),
            attempt: delivery.attempt,
            body: delivery.body.clone(),
        }
    }

    /// The JSON-RPC notification that a route of type `message` sends.
    pub fn frame(&self) -> Result<Vec<u8>, TidingsError> {
        entry("HostDelivery.frame", || Ok(self.inner.frame()))
    }

    /// The host has it. False: too late, or answered before.
    pub fn confirm(&self) -> Result<bool, TidingsError> {
        entry("HostDelivery.confirm", || Ok(self.inner.confirm()))
    }

    /// The host does not take it: `failed` (it may go better another time), `refused`, `unreachable` or `not_ready` (the
    /// next route has its turn). False: too late, or answered before.
    pub fn refuse(&self, why: &str) -> Result<bool, TidingsError> {
        entry("HostDelivery.refuse", || self.inner.refuse(why))
    }
}

#[uniffi::export]
impl Hub {
    /// Whether this process offers that place now.
    pub fn offers(&self, offer: Offer) -> Result<bool, TidingsError> {
        entry("Hub.offers", || self.inner.offers(&offer))
    }

    /// Offers a place that takes deliveries.
    pub fn outlet(&self, offer: Offer) -> Result<Arc<Outlet>, TidingsError> {
        entry("Hub.outlet", || Ok(Arc::new(Outlet { inner: self.inner.outlet(offer)? })))
    }
}
