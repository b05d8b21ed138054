//! What a tool has of the call it runs in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ProgressNotification, ProgressNotificationParam, ProgressToken, ServerNotification};
use rmcp::service::{Peer, RequestContext};
use serde_json::json;
use tidings::proto::id::CallId;
use tidings::proto::wire::tidings::EVENT_PROGRESS;
use tidings::{Call, ErrorCode};
use tokio::sync::Notify;

use crate::overheard::Recorded;

/// Bytes of events after which waiting for a tool is over: they have to go somewhere.
const BUFFER: usize = 256 << 10;

/// The call that a tool runs in: what it says becomes events of the call, which `tasks/stream` reads and triggers fire on.
///
/// In a tool, [`of`](Self::of) finds it, or rmcp's extractor `Extension(call): Extension<RunningCall>`. It is there for
/// every call of a [`Watched`](crate::Watched) server. Of a call that nobody asked to be watched, and that is no task, nothing
/// is kept.
#[derive(Clone)]
pub struct RunningCall {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    full: Notify,
    progress: Option<(Peer<RoleServer>, ProgressToken)>,
}

enum State {
    /// Nobody reads it.
    Plain,
    /// It may become a task, which begins with these.
    Waiting {
        said: Vec<(String, Vec<u8>)>,
        bytes: usize,
    },
    Begun(Call),
}

impl RunningCall {
    pub(crate) fn plain(context: &RequestContext<RoleServer>) -> Self {
        Self::new(State::Plain, progress_of(context))
    }

    /// What is said waits until the call begins, if it ever does.
    pub(crate) fn waiting(context: &RequestContext<RoleServer>) -> Self {
        Self::new(State::Waiting { said: Vec::new(), bytes: 0 }, progress_of(context))
    }

    pub(crate) fn begun(call: Call, context: &RequestContext<RoleServer>) -> Self {
        Self::new(State::Begun(call), progress_of(context))
    }

    fn new(state: State, progress: Option<(Peer<RoleServer>, ProgressToken)>) -> Self {
        Self { inner: Arc::new(Inner { state: Mutex::new(state), full: Notify::new(), progress }) }
    }

    /// The call of a request, as its handler was given it; of a server that is not watched, one of which nothing is kept.
    pub fn of(context: &RequestContext<RoleServer>) -> Self {
        context.extensions.get::<Self>().cloned().unwrap_or_else(|| Self::plain(context))
    }

    /// Whether they are of the same call.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Our id of the call; `None` for one that the store does not know.
    pub fn id(&self) -> Option<CallId> {
        match &*self.state() {
            State::Begun(call) => Some(call.id()),
            State::Plain | State::Waiting { .. } => None,
        }
    }

    /// An event of the tool's own: `payload` is JSON text, kept byte for byte. Fires `streaming` where asked. What a tool says
    /// that was stopped already is dropped.
    ///
    /// # Errors
    /// As of [`Call::emit`].
    pub fn emit(&self, kind: &str, payload: &[u8]) -> tidings::Result<()> {
        self.say(false, kind, payload)
    }

    /// A vendor's trigger, `com.example/done`, with the JSON text of an object; see [`Call::fire`].
    ///
    /// # Errors
    /// As of [`Call::fire`].
    pub fn fire(&self, name: &str, payload: &[u8]) -> tidings::Result<()> {
        self.say(true, name, payload)
    }

    /// Progress: told to the client, if it gave a token, and kept as an event of the call, which that of rmcp's `notify_progress`
    /// is only with the client's token. A client that is gone is no error.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let mut payload = json!({"progress": progress});
        if let Some(total) = total {
            payload["total"] = total.into();
        }
        if let Some(message) = message {
            payload["message"] = message.into();
        }
        if let Err(error) = self.emit(EVENT_PROGRESS, payload.to_string().as_bytes()) {
            tracing::warn!(%error, "progress of a call could not be recorded");
        }
        let Some((peer, token)) = &self.inner.progress else { return };
        let mut params = ProgressNotificationParam::new(token.clone(), progress);
        params.total = total;
        params.message = message.map(str::to_owned);
        let mut told = ProgressNotification::new(params);
        told.extensions.insert(Recorded);
        drop(peer.send_notification(ServerNotification::ProgressNotification(told)).await);
    }

    fn say(&self, fires: bool, kind: &str, payload: &[u8]) -> tidings::Result<()> {
        let mut state = self.state();
        match &mut *state {
            State::Plain => Ok(()),
            State::Waiting { said, bytes } => {
                // There are no routes to tell, so what is left of a trigger is its event.
                said.push((kind.to_owned(), payload.to_vec()));
                *bytes += kind.len() + payload.len();
                if *bytes > BUFFER {
                    self.inner.full.notify_one();
                }
                Ok(())
            }
            State::Begun(call) => {
                let said = if fires { call.fire(kind, payload) } else { call.emit(kind, payload) };
                match said {
                    Err(error) if matches!(error.code(), ErrorCode::Ended | ErrorCode::Closed) => Ok(()),
                    said => said.map(drop),
                }
            }
        }
    }

    /// From now on it is this call, which begins with everything that waited.
    pub(crate) fn become_call(&self, call: Call) {
        let mut state = self.state();
        if let State::Waiting { said, .. } = std::mem::replace(&mut *state, State::Begun(call.clone())) {
            for (kind, payload) in said {
                if let Err(error) = call.emit(&kind, &payload) {
                    tracing::warn!(%error, "an event of a call could not be recorded");
                }
            }
        }
    }

    /// Waits until more has been said than should wait.
    pub(crate) async fn full(&self) {
        self.inner.full.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn progress_of(context: &RequestContext<RoleServer>) -> Option<(Peer<RoleServer>, ProgressToken)> {
    Some((context.peer.clone(), context.meta.get_progress_token()?))
}

impl std::fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningCall").field("id", &self.id()).finish_non_exhaustive()
    }
}
