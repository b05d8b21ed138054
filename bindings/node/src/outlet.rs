//! Places in the host that deliveries go through.

use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use tidings_bridge::{self as bridge};

use crate::convert::{Result, Told, begin, entry};

/// Which place it is.
#[napi(object, object_to_js = false)]
pub struct Offer {
    /// `message`, `callback`, or a type of the host's own.
    pub route_type: String,
    /// The name of a handler or a sink, for `message` and `callback`.
    pub name: Option<String>,
    /// The host's name for a session's connection, for `message` and `signal`.
    pub peer: Option<String>,
    /// Deliveries in the host's hands or queued for it.
    pub limit: Option<f64>,
    /// How long one attempt may take.
    pub timeout_ms: Option<f64>,
}

impl Offer {
    pub(crate) fn plain(self) -> bridge::Result<bridge::Offer> {
        let limit = |limit| {
            let limit = bridge::whole_number("limit", limit)?;
            bridge::limit(i64::try_from(limit).unwrap_or(i64::MAX))
        };
        Ok(bridge::Offer {
            route_type: self.route_type,
            name: self.name,
            peer: self.peer,
            limit: self.limit.map(limit).transpose()?,
            timeout: self.timeout_ms.map(|timeout| bridge::milliseconds("timeoutMs", timeout)).transpose()?,
        })
    }
}

/// A place that takes deliveries, until it is closed or dropped.
#[napi]
pub struct Outlet {
    inner: bridge::Outlet,
}

impl Outlet {
    pub(crate) fn new(inner: bridge::Outlet) -> Self {
        Self { inner }
    }
}

#[napi]
impl Outlet {
    /// The next delivery; `null` once the outlet or the hub is closed.
    #[napi(ts_return_type = "HostDelivery | null | Pending")]
    pub fn next(&self) -> Result<Told> {
        begin("Outlet.next", || Ok(self.inner.next()))
    }

    /// Offers it no longer.
    #[napi]
    pub fn close(&self) -> Result<()> {
        entry("Outlet.close", || {
            self.inner.close();
            Ok(())
        })
    }
}

/// A delivery in the host's hands, to be answered once.
#[napi]
pub struct HostDelivery {
    inner: bridge::HostDelivery,
}

impl HostDelivery {
    pub(crate) fn new(inner: bridge::HostDelivery) -> Self {
        Self { inner }
    }
}

/// What there is to know of a delivery.
#[napi(object, object_from_js = false)]
pub struct HostDeliveryFacts {
    /// Its own id.
    pub id: String,
    /// The firing's id.
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
    pub body: Buffer,
}

#[napi]
impl HostDelivery {
    /// What there is to know of it.
    #[napi]
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
            body: delivery.body.clone().into(),
        }
    }

    /// The JSON-RPC notification that a route of type `message` sends.
    #[napi]
    pub fn frame(&self) -> Result<Buffer> {
        entry("HostDelivery.frame", || Ok(self.inner.frame())).map(Buffer::from)
    }

    /// The host has it.
    #[napi]
    pub fn confirm(&self) -> Result<bool> {
        entry("HostDelivery.confirm", || Ok(self.inner.confirm()))
    }

    /// The host does not take it: `failed`, `refused`, `unreachable` or `not_ready`.
    #[napi]
    pub fn refuse(&self, why: String) -> Result<bool> {
        entry("HostDelivery.refuse", || self.inner.refuse(&why))
    }
}
