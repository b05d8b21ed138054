//! Who is told of changes by one handler: the sessions it serves, and the listeners of `subscriptions/listen`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use rmcp::model::{ClientCapabilities, ErrorCode, RequestId, ServerCapabilities, SubscriptionFilter};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, transport::streamable_http_server::SessionRestoreMarker};
use tidings::SinkId;
use tidings::proto::fanout::mcp::{FIRST_MODERN, LATEST_LEGACY, MCP};
use tidings::proto::fanout::{Filter, Profile, Tag};
use tidings::proto::id;
use tokio_util::sync::CancellationToken;

use crate::adapter::Adapter;
use crate::fan_out::{Listener, Place, Writer, lock};
use crate::principal::Asker;
use crate::session_peer::SessionPeer;
use crate::{subscribed, wire};

/// The peers of one handler: those of one connection, unless a program shares the handler among sessions.
#[derive(Default)]
pub(crate) struct Peers {
    sessions: Mutex<HashMap<Option<String>, Session>>,
    /// Listeners that rmcp is about to acknowledge, in order. It has named the filter by then and not the request.
    opening: Mutex<VecDeque<Opening>>,
}

/// A session, told until this is dropped.
struct Session {
    peer: Arc<SessionPeer>,
    place: Place,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.peer.leave(&self.place);
    }
}

struct Opening {
    requested: SubscriptionFilter,
    sink: Sink,
}

/// A listener's sink, until it is dropped.
pub(crate) struct Sink {
    pub(crate) place: Place,
    pub(crate) id: SinkId,
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.place.drop_sink(self.id);
    }
}

/// A listener that is told of what it asked for until this is dropped.
pub(crate) struct Listening {
    _sink: Sink,
    ended: CancellationToken,
}

impl Listening {
    /// It is told nothing more: it ended in order, or its connection was too slow.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Peers {
    /// Registers the session of a request, if it is one that can be told and is not known yet. What changes from then on is
    /// told once it is initialized.
    pub(crate) fn attend(
        &self,
        terms: &Adapter,
        context: &RequestContext<RoleServer>,
        asker: &Asker,
        server: &ServerCapabilities,
    ) {
        let mut sessions = lock(&self.sessions);
        if sessions.contains_key(&asker.session) {
            return;
        }
        sessions.retain(|_, session| !session.peer.peer.is_transport_closed());
        let version = context.protocol_version();
        // To all of them the same rules apply, also to a version that we do not know.
        let version = version.as_ref().map(|version| version.as_str()).filter(|version| *version < FIRST_MODERN);
        let version =
            version.filter(|version| MCP.versions.iter().any(|known| known.name == *version)).unwrap_or(LATEST_LEGACY);
        match register(terms, context, asker, server, version) {
            Ok(session) => drop(sessions.insert(asker.session.clone(), session)),
            // The session goes on without.
            Err(error) => tracing::warn!(%error, "a session could not be registered for notifications"),
        }
    }

    /// Its handshake is complete.
    pub(crate) fn initialized(&self, session: &Option<String>) {
        if let Some(session) = lock(&self.sessions).get(session) {
            session.peer.initialized(&session.place);
        }
    }

    /// Makes a request to subscribe ours as well. `served`: what the handler made of it.
    pub(crate) async fn subscribe(
        &self,
        terms: &Adapter,
        session: &Option<String>,
        uri: &str,
        served: Result<(), ErrorData>,
    ) -> Result<(), ErrorData> {
        if !self.takes_subscriptions(session) {
            return served;
        }
        ours(served)?;
        if let Some(session) = lock(&self.sessions).get(session) {
            session
                .peer
                .subscribe(&session.place, uri)
                .map_err(|error| wire::invalid_params(error.to_string(), None))?;
        }
        keep(terms, session, uri, true).await;
        Ok(())
    }

    /// The same for the opposite.
    pub(crate) async fn unsubscribe(
        &self,
        terms: &Adapter,
        session: &Option<String>,
        uri: &str,
        served: Result<(), ErrorData>,
    ) -> Result<(), ErrorData> {
        if !self.takes_subscriptions(session) {
            return served;
        }
        if let Some(session) = lock(&self.sessions).get(session) {
            session.peer.unsubscribe(&session.place, uri);
        }
        keep(terms, session, uri, false).await;
        ours(served)
    }

    fn takes_subscriptions(&self, session: &Option<String>) -> bool {
        lock(&self.sessions).get(session).is_some_and(|session| session.peer.may_subscribe())
    }

    /// Registers a listener that rmcp is about to acknowledge, so that no change falls between.
    pub(crate) fn opening(
        &self,
        terms: &Adapter,
        requested: &SubscriptionFilter,
        accepted: &SubscriptionFilter,
        server: &ServerCapabilities,
    ) {
        match open(terms, accepted, server) {
            Ok(sink) => lock(&self.opening).push_back(Opening { requested: requested.clone(), sink }),
            Err(error) => tracing::warn!(%error, "a listener could not be registered"),
        }
    }

    /// The listener of a request that rmcp has acknowledged.
    pub(crate) fn listen(
        &self,
        requested: &SubscriptionFilter,
        context: &RequestContext<RoleServer>,
        asker: &Asker,
    ) -> Option<Listening> {
        let sink = {
            let mut opening = lock(&self.opening);
            let at = opening.iter().position(|opening| opening.requested == *requested)?;
            opening.remove(at)?.sink
        };
        let listener = Listener {
            peer: context.peer.clone(),
            tag: tag(&request_id(&context.id)?),
            told: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        let ended = listener.ended.clone();
        sink.place.outbox.set_principal(sink.id, Some(&asker.name));
        sink.place.acknowledged(sink.id, listener).then_some(Listening { _sink: sink, ended })
    }
}

fn register(
    terms: &Adapter,
    context: &RequestContext<RoleServer>,
    asker: &Asker,
    server: &ServerCapabilities,
    version: &str,
) -> Result<Session, Box<dyn std::error::Error>> {
    let client = context.client_capabilities().unwrap_or_default();
    let profile = profile(version, server, &client)?;
    let place = terms.fan_out.place()?;
    let peer = SessionPeer::attend(&place, context.peer.clone(), profile, asker.name.clone())?;
    let session = Session { peer, place };
    if context.extensions.get::<SessionRestoreMarker>().is_some()
        && let Some(id) = &asker.session
    {
        for uri in subscribed::of(&terms.hub, id)? {
            session.peer.subscribe(&session.place, &uri)?;
        }
    }
    Ok(session)
}

fn open(
    terms: &Adapter,
    accepted: &SubscriptionFilter,
    server: &ServerCapabilities,
) -> Result<Sink, Box<dyn std::error::Error>> {
    // Of the client's capabilities none matters for what rmcp's filters can ask for.
    let profile = profile(FIRST_MODERN, server, &ClientCapabilities::default())?;
    let honoured = Filter::parse(&MCP, &serde_json::to_string(accepted)?)?.honoured(&profile)?;
    let place = terms.fan_out.place()?;
    let sink = Sink { id: place.add(None, Writer::Opening { handed: false })?, place };
    // Which request it is shows later; the tag is put on when something is written.
    sink.place.outbox.listen(sink.id, &profile, &id::RequestId::from(0_i64), honoured)?;
    Ok(sink)
}

pub(crate) fn profile(
    version: &str,
    server: &ServerCapabilities,
    client: &ClientCapabilities,
) -> Result<Profile, Box<dyn std::error::Error>> {
    Ok(Profile::new(&MCP, version, &serde_json::to_string(server)?, &serde_json::to_string(client)?)?)
}

/// What marks what a listener is told.
pub(crate) fn tag(id: &id::RequestId) -> Tag {
    Tag::new(&MCP, id)
}

pub(crate) fn request_id(id: &RequestId) -> Option<id::RequestId> {
    id::RequestId::parse(&serde_json::to_vec(id).ok()?).ok()
}

/// Whether a server says that it tells of changes.
pub(crate) fn advertises_changes(server: &ServerCapabilities) -> bool {
    let everything = SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed()
        .resource_subscription("")
        .build();
    everything.supported_by(server) != SubscriptionFilter::new()
}

/// What a handler does not know is ours alone.
fn ours(served: Result<(), ErrorData>) -> Result<(), ErrorData> {
    match served {
        Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => Ok(()),
        served => served,
    }
}

/// A process that restores the session has to know, if any may.
async fn keep(terms: &Adapter, session: &Option<String>, uri: &str, subscribed: bool) {
    let Some(session) = session.as_ref().filter(|_| terms.restores()) else { return };
    if let Err(error) = subscribed::note(&terms.hub, session, uri, subscribed).await {
        tracing::warn!(%error, "a subscription could not be kept; it ends with this process");
    }
}
