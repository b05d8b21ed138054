//! Places in the host that deliveries go through.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidings::proto::firing;
use tidings::proto::route::OutletName;
use tidings::proto::wire::sep992::{ROUTE_MESSAGE, ROUTE_SIGNAL};
use tidings::proto::wire::tidings::ROUTE_CALLBACK;
use tidings::store::Subject;
use tidings::{OutletOptions, Refusal};

use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::fork::{Own, lock};
use crate::hub::Hub;
use crate::pending::{Cancel, Started, start};

/// Which place it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// `message`, `callback`, or a type of the host's own.
    pub route_type: String,
    /// The name of a handler or a sink, for `message` and `callback`.
    pub name: Option<String>,
    /// The host's name for a session's connection, for `message` and `signal`.
    pub peer: Option<String>,
    /// Deliveries in the host's hands or queued for it; `None` leaves the core's default.
    pub limit: Option<u32>,
    /// How long one attempt may take; `None` leaves the core's default.
    pub timeout: Option<Duration>,
}

impl Offer {
    fn name(&self) -> Result<OutletName> {
        match (self.route_type.as_str(), self.name.as_deref(), self.peer.as_deref()) {
            (ROUTE_MESSAGE, Some(name), None) if !name.is_empty() => Ok(OutletName::message(name)),
            (kind @ (ROUTE_MESSAGE | ROUTE_SIGNAL), None, Some(peer)) if !peer.is_empty() => {
                Ok(OutletName::peer(kind, peer))
            }
            (ROUTE_CALLBACK, Some(name), None) if !name.is_empty() => Ok(OutletName::callback(name)),
            (ROUTE_MESSAGE | ROUTE_CALLBACK | ROUTE_SIGNAL, ..)
                if self.route_type != ROUTE_SIGNAL || self.peer.is_some() =>
            {
                Err(Error::argument("name", "must be a text that is not empty"))
            }
            (other, None, None) => OutletName::route_type(other).map_err(|rule| Error::argument("route_type", rule)),
            _ => Err(Error::argument("name", "a route type of your own has none: its handler gets every endpoint")),
        }
    }

    /// Whether there can be such a place.
    ///
    /// # Errors
    /// `invalid_argument`, naming the argument and the rule.
    pub fn check(&self) -> Result<()> {
        self.name().map(drop)
    }

    pub(crate) fn is_open(&self, core: &tidings::Hub) -> Result<bool> {
        Ok(core.offers(&self.name()?)?)
    }

    pub(crate) fn open(self, hub: &Hub, core: &tidings::Hub) -> Result<Outlet> {
        let defaults = OutletOptions::default();
        let options = OutletOptions {
            limit: self.limit.unwrap_or(defaults.limit),
            timeout: self.timeout.unwrap_or(defaults.timeout),
        };
        let outlet = core.outlet(self.name()?, options)?;
        Ok(Outlet { hub: hub.clone(), outlet: Arc::new(Own::new(outlet)) })
    }
}

/// A place that takes deliveries, until it is closed or dropped.
#[derive(Clone)]
pub struct Outlet {
    hub: Hub,
    outlet: Arc<Own<tidings::Outlet>>,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

impl Outlet {
    /// The next delivery; answers [`Answer::Delivery`], with none once the outlet or the hub is closed.
    pub fn next(&self) -> Started {
        if let Err(error) = self.outlet.get() {
            return Started::Ready(Err(error));
        }
        let (outlet, hub) = (Arc::clone(&self.outlet), self.hub.clone());
        start(Cancel::Drop, async move {
            let _hub = hub;
            Ok(Answer::Delivery(outlet.next().await.map(|delivery| Box::new(delivery.into()))))
        })
    }

    /// Offers it no longer.
    pub fn close(&self) {
        if let Ok(outlet) = self.outlet.get() {
            outlet.close();
        }
    }
}

/// A delivery in the host's hands, to be answered once. Dropped without an answer, its attempt failed.
pub struct HostDelivery {
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
    answer: Own<Mutex<Option<tidings::HostDelivery>>>,
}

impl fmt::Debug for HostDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostDelivery").field("id", &self.id).finish_non_exhaustive()
    }
}

impl From<tidings::HostDelivery> for HostDelivery {
    fn from(delivery: tidings::HostDelivery) -> Self {
        Self {
            id: delivery.id.to_string(),
            event_id: delivery.event_id.clone(),
            call_id: match &delivery.subject {
                Subject::Call(id) => Some(id.to_string()),
                Subject::Subscription(_) => None,
            },
            principal: delivery.principal.clone(),
            trigger: delivery.trigger.clone(),
            route: delivery.route_id.clone(),
            route_type: delivery.route_type.clone(),
            endpoint: delivery.endpoint.clone(),
            signal: delivery.signal.map(|signal| signal.to_string()),
            attempt: delivery.attempt,
            body: delivery.body.to_vec(),
            answer: Own::new(Mutex::new(Some(delivery))),
        }
    }
}

impl HostDelivery {
    /// The JSON-RPC notification that a route of type `message` sends.
    pub fn frame(&self) -> Vec<u8> {
        firing::message_frame(&self.body)
    }

    /// The host has it. `false`: too late, or answered before, or this is a forked child: the parent has it.
    pub fn confirm(&self) -> bool {
        self.take().is_some_and(tidings::HostDelivery::confirm)
    }

    fn take(&self) -> Option<tidings::HostDelivery> {
        self.answer.get().ok().and_then(|answer| lock(answer).take())
    }

    /// The host does not take it: `failed` (it may go better another time), `refused`, `unreachable` or `not_ready` (the
    /// next route has its turn). `false`: too late, or answered before.
    pub fn refuse(&self, why: &str) -> Result<bool> {
        let why = match why {
            "failed" => Refusal::Failed,
            "refused" => Refusal::Refused,
            "unreachable" => Refusal::Unreachable,
            "not_ready" => Refusal::NotReady,
            _ => return Err(Error::argument("why", "must be one of failed, refused, unreachable, not_ready")),
        };
        Ok(self.take().is_some_and(|delivery| delivery.refuse(why)))
    }
}
