//! The connection of a session as a place that deliveries go through: routes of type `message` and `signal`.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use http::request::Parts;
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tidings::proto::route::OutletName;
use tidings::proto::wire::sep992::{ROUTE_MESSAGE, ROUTE_SIGNAL};
use tidings::proto::wire::tidings::TRIGGERED;
use tidings::{HostDelivery, Outlet, OutletOptions, Refusal, StdioPeer};
use tokio::task::JoinHandle;

use crate::adapter::Adapter;
use crate::call::custom;
use crate::fan_out::lock;
use crate::principal::{Asker, is_modern};
use crate::random::random;

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
                self.serving.push(tokio::spawn(serve(outlet, self.peer.clone(), doorbell)));
            }
            Err(error) => tracing::warn!(%error, kind, "a session could not be offered as a place"),
        }
    }
}

async fn serve(outlet: Outlet, peer: Peer<RoleServer>, doorbell: Option<Arc<StdioPeer>>) {
    while let Some(delivery) = outlet.next().await {
        // Whether it came too late shows in the store.
        let _ = match &doorbell {
            Some(doorbell) => ring(delivery, doorbell),
            None => tell(delivery, &peer).await,
        };
    }
}

async fn tell(delivery: HostDelivery, peer: &Peer<RoleServer>) -> bool {
    let body: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
    match peer.send_notification(custom(TRIGGERED, body)).await {
        Ok(()) => delivery.confirm(),
        Err(_) if peer.is_transport_closed() => delivery.refuse(Refusal::Unreachable),
        Err(_) => delivery.refuse(Refusal::Failed),
    }
}

fn ring(delivery: HostDelivery, doorbell: &StdioPeer) -> bool {
    match delivery.signal.map(|bell| doorbell.ring(bell)) {
        Some(Ok(())) => delivery.confirm(),
        Some(Err(why)) => delivery.refuse(why),
        None => delivery.refuse(Refusal::Refused),
    }
}
