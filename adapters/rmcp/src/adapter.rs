//! The one place where a server says what it wants of Tidings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::{IntoTransport, Transport};
use rmcp::{RoleServer, ServerHandler, service::RequestContext};
use serde_json::Value;
use tidings::proto::wire::sep992::ROUTE_SIGNAL;
use tidings::{DetachLimits, Hub, StdioPeer};

use crate::fan_out::FanOut;
use crate::front::Front;
use crate::overheard::Overheard;
use crate::own_routes::{OwnRoutes, checked};
use crate::principal::{Authenticate, Principal};
use crate::session_record::SessionRecords;
use crate::sessions::Sessions;
use crate::stdio_front::StdioFront;
use crate::task_stream::StreamLimits;
use crate::tasks::Tasks;
use crate::watched::Watched;

/// What a server wants of Tidings: which routes its clients may have, whether calls become tasks, who asks. Cheap to clone;
/// clones share their limits.
///
/// Nothing of the drafts is on unless it is named.
#[derive(Clone)]
pub struct Adapter {
    pub(crate) hub: Hub,
    pub(crate) routes: Vec<String>,
    pub(crate) open: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) detach: DetachLimits,
    pub(crate) authenticate: Option<Authenticate>,
    pub(crate) tasks: Option<Arc<Tasks>>,
    pub(crate) streams: Option<Arc<StreamLimits>>,
    pub(crate) own: OwnRoutes,
    pub(crate) fan_out: Arc<FanOut>,
    /// Whether peers are told of changes by us.
    pub(crate) tells: bool,
    signal_as_root: bool,
    /// The process at the other end of stdio, once it was looked for.
    doorbell: Arc<OnceLock<Option<Arc<StdioPeer>>>>,
    /// An event store of ours keeps what a session is sent while nobody listens.
    pub(crate) recorded: Arc<AtomicBool>,
    /// Sessions may be restored by another process.
    restores: Arc<AtomicBool>,
}

impl Adapter {
    /// Over that hub, with everything off.
    pub fn new(hub: Hub) -> Self {
        Self {
            fan_out: Arc::new(FanOut::new(hub.clone())),
            hub,
            routes: Vec::new(),
            open: Vec::new(),
            timeout: None,
            detach: DetachLimits::default(),
            authenticate: None,
            tasks: None,
            streams: None,
            own: OwnRoutes::default(),
            tells: true,
            signal_as_root: false,
            doorbell: Arc::default(),
            recorded: Arc::default(),
            restores: Arc::default(),
        }
    }

    /// The route types that clients may use: `webhook`, `message`, `callback`, `signal`. The server then offers the capability,
    /// takes a `notificationConfig` with every tool call, and acknowledges it.
    ///
    /// `callback` leads to [`Outlet`](tidings::Outlet)s that the program offers by name, and `message` into the calling
    /// session; other names are refused unless [`open`](Self::open), or the hub's [policy](tidings::Policy), opens them.
    /// `signal` (Linux, stdio) rings the process at the other end of stdin; what a session cannot have is not in its
    /// capabilities.
    #[must_use]
    pub fn routes<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.routes = types.into_iter().map(Into::into).collect();
        self
    }

    /// Names that routes of type `message` and `callback` may have.
    #[must_use]
    pub fn open<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.open = names.into_iter().map(Into::into).collect();
        self
    }

    /// Routes of the server's own, a JSON list as in a `notificationConfig`, for calls whose client brings no config; a
    /// client that brings one is told by its own routes only. Nobody has to allow them, the hub's policy included, and nobody is told
    /// of them. Routes into the calling session are left out where it cannot have them.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidConfig`](tidings::ErrorCode::InvalidConfig) for routes that a client could not have either, with their
    /// [`faults`](tidings::Error::faults).
    pub fn default_routes(mut self, routes: &Value) -> tidings::Result<Self> {
        self.own.all = checked(&self.hub, routes)?;
        Ok(self)
    }

    /// The same for one tool, which then has these and not those of [`default_routes`](Self::default_routes).
    ///
    /// # Errors
    /// As of [`default_routes`](Self::default_routes).
    pub fn default_routes_of(mut self, tool: impl Into<String>, routes: &Value) -> tidings::Result<Self> {
        self.own.by_tool.insert(tool.into(), checked(&self.hub, routes)?);
        Ok(self)
    }

    /// Lets a process of root's ring its client's; without it routes of type `signal` are not offered there.
    #[must_use]
    pub fn signal_as_root(mut self, may: bool) -> Self {
        self.signal_as_root = may;
        self
    }

    /// Whether sessions and listeners are registered, so that [`Hub::notify`](tidings::Hub::notify) tells them of what has
    /// changed, here and in other processes on the store. On unless it is said otherwise. They are told what the
    /// handler's capabilities advertise (`listChanged`, `subscribe`) and what they asked for.
    #[must_use]
    pub fn fan_out(mut self, tells: bool) -> Self {
        self.tells = tells;
        self
    }

    /// Ends the listeners of `subscriptions/listen` in order: each gets what it was promised, then the result of its
    /// request. Does not wait for that. For a server that is about to stop.
    pub fn end_listeners(&self) {
        self.fan_out.end_listeners();
    }

    /// How long a tool may run. A client may ask for less.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many calls of one principal may go on without their request, and for how long.
    #[must_use]
    pub fn detach(mut self, limits: DetachLimits) -> Self {
        self.detach = limits;
        self
    }

    /// Who has sent a request, from what the server's own authentication left in it: an HTTP request's `Parts` are in
    /// `context.extensions`, with what a middleware put there. `None`: nobody in particular; then the session stands for its
    /// client.
    #[must_use]
    pub fn principal(
        mut self,
        of: impl Fn(&RequestContext<RoleServer>) -> Option<Principal> + Send + Sync + 'static,
    ) -> Self {
        self.authenticate = Some(Arc::new(of));
        self
    }

    /// Tool calls of clients that declare the Tasks extension become tasks (SEP-2663), for 2026-07-28 and later. A server
    /// that advertises the extension itself keeps its own.
    #[must_use]
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        if self.streams.is_some() {
            self.streams = Some(Arc::new(StreamLimits::of(&tasks)));
        }
        self.tasks = Some(Arc::new(tasks));
        self
    }

    /// Serves `tasks/stream` (SEP-2694, a draft); with default [`Tasks`] where none were given.
    #[must_use]
    pub fn tasks_stream(mut self) -> Self {
        let tasks = self.tasks.get_or_insert_default();
        self.streams = Some(Arc::new(StreamLimits::of(tasks)));
        self
    }

    /// A handler around the server's own. Make one for each connection, where rmcp asks for a service.
    pub fn watch<H: ServerHandler>(&self, handler: H) -> Watched<H> {
        Watched::new(self.clone(), handler)
    }

    /// The session manager for `StreamableHttpService`. It keeps what a session is told while nobody listens, so that routes
    /// of type `message` into a session over HTTP are accepted only with it.
    pub fn sessions(&self) -> Sessions {
        self.recorded.store(true, Ordering::Relaxed);
        Sessions::new(self.hub.clone())
    }

    /// That configuration with a session store: sessions survive a restart.
    pub fn config(&self, mut config: StreamableHttpServerConfig) -> StreamableHttpServerConfig {
        self.restores.store(true, Ordering::Relaxed);
        config.session_store = Some(Arc::new(SessionRecords::new(self.hub.clone())));
        config
    }

    pub(crate) fn restores(&self) -> bool {
        self.restores.load(Ordering::Relaxed)
    }

    /// The process at the other end of stdin, where routes of type `signal` are named and it can be rung.
    pub(crate) fn doorbell(&self) -> Option<Arc<StdioPeer>> {
        if !self.rings() {
            return None;
        }
        let find = || match StdioPeer::of_stdin(self.signal_as_root) {
            Ok(peer) => Some(Arc::new(peer)),
            Err(why) => {
                tracing::warn!("routes of type 'signal' are not offered: {why}");
                None
            }
        };
        self.doorbell.get_or_init(find).clone()
    }

    fn rings(&self) -> bool {
        let own = self.own.all.iter().chain(self.own.by_tool.values().flat_map(|routes| routes.iter()));
        self.routes.iter().any(|kind| kind == ROUTE_SIGNAL)
            || own.into_iter().any(|route| route["type"] == ROUTE_SIGNAL)
    }

    /// The route types that a session may use.
    pub(crate) fn types(&self, over_http: bool) -> Vec<String> {
        let can = |kind: &&String| *kind != ROUTE_SIGNAL || (!over_http && self.doorbell().is_some());
        self.routes.iter().filter(can).cloned().collect()
    }

    /// What stands before that service, whose handlers have to be those of [`watch`](Self::watch); see [`Front`].
    pub fn front<S>(&self, service: S) -> Front<S> {
        Front::new(service).listening(self.tells)
    }

    /// That transport, by which progress that a tool sends with rmcp's `Peer` becomes events of its call. For connections that are
    /// no session of [`sessions`](Self::sessions), which have it already: pipes, sockets.
    pub fn transport<T, E, A>(&self, transport: T) -> Overheard<impl Transport<RoleServer, Error = E> + use<T, E, A>>
    where
        T: IntoTransport<RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        Overheard::new(transport.into_transport())
    }

    /// What stands before stdin where a server speaks over stdio, and its handler is one of [`watch`](Self::watch); see
    /// [`StdioFront`].
    pub fn stdio_front<R>(&self, reader: R) -> StdioFront<R> {
        StdioFront::new(reader).listening(self.tells)
    }
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapter").field("hub", &self.hub).field("routes", &self.routes).finish_non_exhaustive()
    }
}
