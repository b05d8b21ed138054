//! A session, up to 2025-11-25, that is told of changes: what it subscribed to, and its place at the fan-out.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::service::Peer;
use tidings::proto::fanout::mcp::UPDATED;
use tidings::proto::fanout::{About, Filter, Frame, Profile};
use tidings::{Error, ListenerId, SinkId};

use crate::fan_out::{Place, Writer, send};

/// One session's place.
pub(crate) struct SessionPeer {
    pub(crate) peer: Peer<RoleServer>,
    profile: Profile,
    principal: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Its handshake is complete.
    initialized: bool,
    uris: BTreeSet<String>,
    at: Option<(SinkId, ListenerId)>,
    /// The session is over.
    gone: bool,
}

impl SessionPeer {
    /// What changes from now on is told once the session is [`initialized`](Self::initialized).
    pub(crate) fn attend(
        place: &Place,
        peer: Peer<RoleServer>,
        profile: Profile,
        principal: String,
    ) -> tidings::Result<Arc<Self>> {
        let this = Arc::new(Self { peer, profile, principal, state: Mutex::default() });
        this.register(place, &mut this.state())?;
        Ok(this)
    }

    fn register(self: &Arc<Self>, place: &Place, state: &mut State) -> tidings::Result<()> {
        let sink = place.add(Some(&self.principal), Writer::Session(Arc::clone(self)))?;
        let attended = place.outbox.attend(sink, &self.profile).and_then(|listener| {
            for uri in &state.uris {
                place.outbox.subscribe(listener, &self.profile, uri)?;
            }
            Ok(listener)
        });
        match attended {
            Ok(listener) => {
                if state.initialized {
                    place.outbox.open(listener);
                }
                state.at = Some((sink, listener));
                Ok(())
            }
            Err(error) => {
                place.drop_sink(sink);
                Err(error)
            }
        }
    }

    pub(crate) fn initialized(&self, place: &Place) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.initialized, true)
            && let Some((_, listener)) = state.at
        {
            place.outbox.open(listener);
        }
    }

    /// Whether the server advertises that resources can be subscribed to.
    pub(crate) fn may_subscribe(&self) -> bool {
        self.profile.offered().has(UPDATED)
    }

    /// An error beyond as many subscriptions as one session may have.
    pub(crate) fn subscribe(&self, place: &Place, uri: &str) -> Result<(), Error> {
        let mut state = self.state();
        if let Some((_, listener)) = state.at {
            place.outbox.subscribe(listener, &self.profile, uri)?;
        }
        state.uris.insert(uri.to_owned());
        Ok(())
    }

    pub(crate) fn unsubscribe(&self, place: &Place, uri: &str) {
        let mut state = self.state();
        state.uris.remove(uri);
        if let Some((_, listener)) = state.at {
            place.outbox.unsubscribe(listener, &self.profile, uri);
        }
    }

    /// It has lost its place because it was slow, and now it is not: it is registered again, and told of everything it asked
    /// for, since nobody noted what changed in between.
    pub(crate) async fn come_back(self: Arc<Self>, place: &Place) {
        let missed = {
            let mut state = self.state();
            state.at = None;
            if state.gone {
                return;
            }
            if let Err(error) = self.register(place, &mut state) {
                tracing::warn!(%error, "a session could not be registered for notifications again");
                return;
            }
            self.everything(&state)
        };
        for frame in missed {
            if !send(&self.peer, &frame, None).await {
                return;
            }
        }
    }

    fn everything(&self, state: &State) -> Vec<Frame> {
        let asked = Filter::implied(&self.profile).methods();
        let methods = self.profile.protocol().methods;
        let lists = methods.iter().enumerate().filter(|(at, row)| asked.has(*at) && matches!(row.about, About::List));
        let updated = methods.get(UPDATED);
        let uris = state.uris.iter().filter_map(|uri| Frame::named(updated?, uri).ok());
        lists.map(|(_, row)| Frame::list(row)).chain(uris).collect()
    }

    /// The session is over.
    pub(crate) fn leave(&self, place: &Place) {
        let mut state = self.state();
        state.gone = true;
        if let Some((sink, _)) = state.at.take() {
            place.drop_sink(sink);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
