//! The connection of a session as a place that deliveries go through: routes of type `message` and `signal`.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use http::request::Parts;
use rmcp::service::{Peer, RequestContext, ServiceError};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionWorkerError, SessionError};
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tidings::proto::route::OutletName;
use tidings::proto::wire::sep992::{ROUTE_MESSAGE, ROUTE_SIGNAL};
use tidings::proto::wire::tidings::TRIGGERED;
use tidings::{HostDelivery, Hub, Outlet, OutletOptions, Refusal, StdioPeer};
use tokio::task::JoinHandle;

use crate::adapter::Adapter;
use crate::call::custom;
use crate::event_log::SessionOver;
use crate::fan_out::lock;
use crate::principal::{Asker, is_modern};
use crate::random::random;
use crate::session_record;

/// The places of the connections that one handler serves: one, unless a program shares the handler among sessions.
#[derive(Default)]
pub(crate) struct SessionPlaces {
    by_session: Mutex<HashMap<Option<String>, Place>>,
}

/// Offered from the first call that may need it until the connection ends. Its name is random and never on the wire: a client
/// reaches its own connection by naming none.
struct Place {
    callers: CallersPlace,
    peer: Peer<RoleServer>,
    /// The id of a session over HTTP that has a record, which every process on the store may end.
    session: Option<String>,
    serving: Vec<JoinHandle<()>>,
}

/// What a call has of its connection's place.
#[derive(Clone)]
pub(crate) struct CallersPlace {
    pub(crate) name: String,
    types: Vec<&'static str>,
}

impl CallersPlace {
    /// Whether routes of that type can go there.
    pub(crate) fn takes(&self, kind: &str) -> bool {
        self.types.contains(&kind)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for serving in &self.serving {
            serving.abort();
        }
    }
}

impl SessionPlaces {
    /// The calling connection's place. `None` where nothing can be sent once the request is over: requests without a
    /// session; and over HTTP where no event store of ours keeps what is sent until the client listens.
    pub(crate) fn of(
        &self,
        terms: &Adapter,
        context: &RequestContext<RoleServer>,
        asker: &Asker,
    ) -> Result<Option<CallersPlace>, ErrorData> {
        let over_http = context.extensions.get::<Parts>().is_some();
        let reachable = !over_http || (terms.recorded.load(Ordering::Relaxed) && asker.session.is_some());
        if !reachable || is_modern(context) && over_http {
            return Ok(None);
        }
        let mut places = lock(&self.by_session);
        places.retain(|_, place| !place.peer.is_transport_closed());
        if let Some(place) = places.get(&asker.session) {
            return Ok(Some(place.callers.clone()));
        }
        let mut place = Place {
            callers: CallersPlace { name: random()?, types: Vec::new() },
            peer: context.peer.clone(),
            session: asker.session.clone().filter(|_| terms.restores()),
            serving: Vec::new(),
        };
        // The process at the other end of stdin is the client's only where stdin is the connection.
        let doorbell = if over_http { None } else { terms.doorbell() };
        place.offer(terms, ROUTE_MESSAGE, None);
        if let Some(doorbell) = doorbell {
            place.offer(terms, ROUTE_SIGNAL, Some(doorbell));
        }
        let callers = place.callers.clone();
        places.insert(asker.session.clone(), place);
        Ok(Some(callers))
    }
}

impl Place {
    /// Takes deliveries of that type from now on.
    fn offer(&mut self, terms: &Adapter, kind: &'static str, doorbell: Option<Arc<StdioPeer>>) {
        match terms.hub.outlet(OutletName::peer(kind, &self.callers.name), OutletOptions::default()) {
            Ok(outlet) => {
                self.callers.types.push(kind);
                let teller = Teller { peer: self.peer.clone(), session: self.session.clone(), hub: terms.hub.clone() };
                self.serving.push(tokio::spawn(serve(outlet, teller, doorbell)));
            }
            Err(error) => tracing::warn!(%error, kind, "a session could not be offered as a place"),
        }
    }
}

async fn serve(outlet: Outlet, teller: Teller, doorbell: Option<Arc<StdioPeer>>) {
    while let Some(delivery) = outlet.next().await {
        // Whether it came too late shows in the store.
        let _ = match &doorbell {
            Some(doorbell) => ring(delivery, doorbell),
            None => teller.tell(delivery).await,
        };
    }
}

/// Writes into a session.
struct Teller {
    peer: Peer<RoleServer>,
    session: Option<String>,
    hub: Hub,
}

impl Teller {
    async fn tell(&self, delivery: HostDelivery) -> bool {
        let body: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
        match self.peer.send_notification(custom(TRIGGERED, body)).await {
            // Its client has ended it at another process, and can read nothing of it any more.
            Ok(()) if self.is_ended() => delivery.refuse(Refusal::Unreachable),
            Ok(()) => delivery.confirm(),
            Err(error) if is_over(&error) || self.peer.is_transport_closed() => delivery.refuse(Refusal::Unreachable),
            Err(_) => delivery.refuse(Refusal::Failed),
        }
    }

    fn is_ended(&self) -> bool {
        let Some(session) = &self.session else { return false };
        session_record::is_ended(&self.hub, session).unwrap_or_else(|error| {
            tracing::warn!(%error, "it could not be looked whether a session was ended");
            false
        })
    }
}

/// Whether a message was not sent because its session is over, and not for what may pass.
pub(crate) fn is_over(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return matches!(error, ServiceError::TransportClosed) };
    match error.error.downcast_ref() {
        Some(LocalSessionWorkerError::TransportClosed) => true,
        Some(LocalSessionWorkerError::FailToHandleMessage(SessionError::EventStore(why))) => why.is::<SessionOver>(),
        _ => false,
    }
}

fn ring(delivery: HostDelivery, doorbell: &StdioPeer) -> bool {
    match delivery.signal.map(|bell| doorbell.ring(bell)) {
        Some(Ok(())) => delivery.confirm(),
        Some(Err(why)) => delivery.refuse(why),
        None => delivery.refuse(Refusal::Refused),
    }
}
