//! The one place where a server says what it wants of Tidings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::{RoleServer, ServerHandler, service::RequestContext};
use tidings::{DetachLimits, Hub};

use crate::front::Front;
use crate::principal::{Authenticate, Principal};
use crate::session_record::SessionRecords;
use crate::sessions::Sessions;
use crate::task_stream::StreamLimits;
use crate::tasks::{Running, Tasks};
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
    pub(crate) running_tasks: Running,
    /// An event store of ours keeps what a session is sent while nobody listens.
    pub(crate) recorded: Arc<AtomicBool>,
}

impl Adapter {
    /// Over that hub, with everything off.
    pub fn new(hub: Hub) -> Self {
        Self {
            hub,
            routes: Vec::new(),
            open: Vec::new(),
            timeout: None,
            detach: DetachLimits::default(),
            authenticate: None,
            tasks: None,
            streams: None,
            running_tasks: Running::default(),
            recorded: Arc::default(),
        }
    }

    /// The route types that clients may use: `webhook`, `message`, `callback`. The server then offers the capability, takes a
    /// `notificationConfig` with every tool call, and acknowledges it.
    ///
    /// `callback` leads to [`Outlet`](tidings::Outlet)s that the program offers by name, and `message` into the calling
    /// session; other names are refused unless [`open`](Self::open), or the hub's policy, opens them.
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
        config.session_store = Some(Arc::new(SessionRecords::new(self.hub.clone())));
        config
    }

    /// What stands before that service; see [`Front`].
    pub fn front<S>(&self, service: S) -> Front<S> {
        Front::new(service)
    }
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapter").field("hub", &self.hub).field("routes", &self.routes).finish_non_exhaustive()
    }
}
