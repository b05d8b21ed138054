//! The connection of a session as a place that deliveries go through: routes of type `message`.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use http::request::Parts;
use rmcp::RoleServer;
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;
use tidings::proto::route::OutletName;
use tidings::proto::wire::sep992::ROUTE_MESSAGE;
use tidings::proto::wire::tidings::TRIGGERED;
use tidings::{HostDelivery, Outlet, OutletOptions, Refusal};
use tokio::task::JoinHandle;

use crate::adapter::Adapter;
use crate::call::custom;
use crate::principal::{Asker, is_modern};

/// The places of the connections that one handler serves: one, unless a program shares the handler among sessions.
#[derive(Default)]
pub(crate) struct SessionPlaces {
    by_session: Mutex<HashMap<Option<String>, Place>>,
}

/// Offered from the first call that may need it until the connection ends. Its name is random and never on the wire: a client
/// reaches its own connection by naming none.
struct Place {
    name: String,
    peer: Peer<RoleServer>,
    serving: JoinHandle<()>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl SessionPlaces {
    /// The calling connection's place. `None` where nothing can be sent once the request is over: requests without a
    /// session; and over HTTP where no event store of ours keeps what is sent until the client listens.
    pub(crate) fn of(&self, terms: &Adapter, context: &RequestContext<RoleServer>, asker: &Asker) -> Option<String> {
        let over_http = context.extensions.get::<Parts>().is_some();
        let reachable = !over_http || (terms.recorded.load(Ordering::Relaxed) && asker.session.is_some());
        if !reachable || is_modern(context) && over_http || !terms.routes.iter().any(|kind| kind == ROUTE_MESSAGE) {
            return None;
        }
        let mut places = self.by_session.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|_, place| !place.peer.is_transport_closed());
        if let Some(place) = places.get(&asker.session) {
            return Some(place.name.clone());
        }
        let name = random();
        let outlet = terms.hub.outlet(OutletName::peer(ROUTE_MESSAGE, &name), OutletOptions::default());
        let outlet =
            outlet.inspect_err(|error| tracing::warn!(%error, "a session could not be offered as a place")).ok()?;
        let peer = context.peer.clone();
        let serving = tokio::spawn(serve(outlet, peer.clone()));
        places.insert(asker.session.clone(), Place { name: name.clone(), peer, serving });
        Some(name)
    }
}

async fn serve(outlet: Outlet, peer: Peer<RoleServer>) {
    while let Some(delivery) = outlet.next().await {
        deliver(delivery, &peer).await;
    }
}

async fn deliver(delivery: HostDelivery, peer: &Peer<RoleServer>) {
    let body: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
    // Whether it came too late shows in the store.
    let _ = match peer.send_notification(custom(TRIGGERED, body)).await {
        Ok(()) => delivery.confirm(),
        Err(_) if peer.is_transport_closed() => delivery.refuse(Refusal::Unreachable),
        Err(_) => delivery.refuse(Refusal::Failed),
    };
}

/// 128 random bits.
pub(crate) fn random() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // The system has none: the keys of a hash map are as good as what is left.
        let number = || RandomState::new().build_hasher().finish().to_le_bytes();
        bytes = [number(), number()].concat().try_into().unwrap_or(bytes);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
