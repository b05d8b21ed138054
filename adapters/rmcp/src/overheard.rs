//! What a tool tells its client by rmcp's own `Peer`, which becomes events of its call like what it says by its `RunningCall`.
//!
//! Over HTTP a request of 2026-07-28 has a peer of its own, which is gone once the request is answered. Its tool is given
//! another one that lasts as long as its call: what it sends is recorded, and goes on to the client while there is one.
//!
//! A session and a pipe have one peer for all requests. What goes out there passes an [`Overheard`] transport, and a progress
//! notification has the token by which its call is found. A log message says nothing of which request it is about.
#![allow(deprecated, reason = "log messages are still sent to older clients")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::request::Parts;
use rmcp::ServerHandler;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, ProgressToken, ServerJsonRpcMessage, ServerNotification};
use rmcp::service::{Peer, RequestContext, RoleServer, RunningService, serve_directly};
use rmcp::transport::Transport;
use serde_json::Value;
use tidings::proto::wire::tidings::{EVENT_LOG, EVENT_PROGRESS};

use crate::fan_out::lock;
use crate::principal::is_modern;
use crate::running::RunningCall;

/// A notification that is an event of its call already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded;

/// A transport whose progress notifications become events of the calls they are about.
///
/// [`Sessions`](crate::Sessions) bring it for each session; for other connections [`Adapter::transport`](crate::Adapter::transport)
/// makes one.
#[derive(Debug)]
pub struct Overheard<T> {
    inner: T,
    calls: Calls,
}

/// The calls of one connection that run, by the tokens of their progress; with every request that comes in by it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<HashMap<ProgressToken, RunningCall>>>);

impl<T> Overheard<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, calls: Calls::default() }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Overheard<T> {
    type Error = T::Error;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        if let ServerJsonRpcMessage::Notification(message) = &item
            && let ServerNotification::ProgressNotification(progress) = &message.notification
        {
            let call = lock(&self.calls.0).get(&progress.params.progress_token).cloned();
            if let Some(call) = call {
                record(&call, &message.notification);
            }
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = self.inner.receive().await?;
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(self.calls.clone());
        }
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

/// Until it is dropped, what the tool of a call says by its peer is heard.
pub(crate) enum Hearing {
    /// Nothing can be told from what others say.
    Nothing,
    ByToken {
        calls: Calls,
        token: ProgressToken,
        call: RunningCall,
    },
    ByPeer {
        _peer: RunningService<RoleServer, Silent>,
    },
}

impl Hearing {
    /// Gives the tool of that request a peer to be heard by, where it has to have another one.
    pub(crate) fn of(context: &mut RequestContext<RoleServer>, call: &RunningCall) -> Self {
        let token = context.meta.get_progress_token();
        if is_modern(context) && context.extensions.get::<Parts>().is_some() {
            let client = context.peer.peer_info().map(|client| {
                let mut client = (*client).clone();
                client.protocol_version = context.protocol_version().unwrap_or(client.protocol_version);
                client
            });
            let passing = Passing { call: call.clone(), token, client: context.peer.clone() };
            let peer = serve_directly(Silent, passing, client);
            context.peer = peer.peer().clone();
            return Self::ByPeer { _peer: peer };
        }
        let (Some(calls), Some(token)) = (context.extensions.get::<Calls>(), token) else { return Self::Nothing };
        lock(&calls.0).insert(token.clone(), call.clone());
        Self::ByToken { calls: calls.clone(), token, call: call.clone() }
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        if let Self::ByToken { calls, token, call } = self {
            let mut calls = lock(&calls.0);
            // A client that uses a token twice has the later call heard.
            if calls.get(token).is_some_and(|other| other.is(call)) {
                calls.remove(token);
            }
        }
    }
}

/// Serves nothing: a peer needs a service.
pub(crate) struct Silent;

impl ServerHandler for Silent {}

/// What stands between a tool's own peer and its client's.
struct Passing {
    call: RunningCall,
    token: Option<ProgressToken>,
    client: Peer<RoleServer>,
}

impl Passing {
    fn is_its_own(&self, said: &ServerNotification) -> bool {
        match said {
            ServerNotification::ProgressNotification(progress) => {
                self.token.as_ref() == Some(&progress.params.progress_token)
            }
            _ => true,
        }
    }
}

impl Transport<RoleServer> for Passing {
    type Error = Infallible;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let said = match item {
            ServerJsonRpcMessage::Notification(message) => Some(message.notification),
            // rmcp lets no server of 2026-07-28 ask its client anything.
            _ => None,
        };
        if let Some(said) = said.as_ref().filter(|said| self.is_its_own(said)) {
            record(&self.call, said);
        }
        let client = self.client.clone();
        async move {
            // That a client is gone is no error: the call has it as an event.
            if let Some(said) = said {
                drop(client.send_notification(said).await);
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        std::future::pending().await
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Makes it an event of the call, without what only its receiver needs.
fn record(call: &RunningCall, said: &ServerNotification) {
    let (kind, params, extensions) = match said {
        ServerNotification::ProgressNotification(said) => {
            (EVENT_PROGRESS, serde_json::to_value(&said.params), &said.extensions)
        }
        ServerNotification::LoggingMessageNotification(said) => {
            (EVENT_LOG, serde_json::to_value(&said.params), &said.extensions)
        }
        _ => return,
    };
    if extensions.get::<Recorded>().is_some() {
        return;
    }
    let Ok(Value::Object(mut params)) = params else { return };
    params.remove("progressToken");
    if let Err(error) = call.emit(kind, Value::Object(params).to_string().as_bytes()) {
        tracing::warn!(%error, "what a tool said could not be recorded");
    }
}
