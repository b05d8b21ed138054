//! rmcp's sessions, each with an event store of its own.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{
    EventStore, RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};
use tidings::Hub;
use tokio::sync::{Mutex, RwLock};

use crate::event_log::{EventLog, scope_of};
use crate::overheard::Overheard;
use crate::session_record;

/// rmcp's own sessions on streams that survive: each session stores its messages in a scope of its own, so that an event id
/// of one opens nothing in another. (rmcp gives an event store no session to check by: with
/// `LocalSessionManager::with_event_store` whoever knows an event id reads its stream.)
///
/// Requests without a session, those of 2026-07-28 among them, share one [`EventLog`].
pub struct Sessions {
    hub: Hub,
    config: SessionConfig,
    committed: bool,
    sessions: RwLock<HashMap<SessionId, Arc<Session>>>,
    stateless: Arc<EventLog>,
}

struct Session {
    manager: LocalSessionManager,
    events: Arc<EventLog>,
    /// Held while rmcp opens a request's stream: its event store is not told whose the stream is.
    opening: Mutex<()>,
}

type Error = LocalSessionManagerError;
type Transport = Overheard<<LocalSessionManager as SessionManager>::Transport>;
/// Written out, so that it borrows nothing.
type Frames = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

impl Sessions {
    /// On the hub's store, with rmcp's defaults.
    pub fn new(hub: Hub) -> Self {
        let stateless = Arc::new(EventLog::stateless(hub.clone()));
        Self { hub, config: SessionConfig::default(), committed: false, sessions: RwLock::default(), stateless }
    }

    /// With rmcp's settings of a session.
    #[must_use]
    pub fn with_config(mut self, config: SessionConfig) -> Self {
        self.config = config;
        self
    }

    /// See [`EventLog::committed`].
    #[must_use]
    pub fn committed(mut self, committed: bool) -> Self {
        self.committed = committed;
        self.stateless = Arc::new(EventLog::stateless(self.hub.clone()).committed(committed));
        self
    }

    fn session(&self) -> Session {
        let events = Arc::new(EventLog::unscoped(self.hub.clone()).committed(self.committed));
        let store: Arc<dyn EventStore> = Arc::clone(&events) as _;
        let mut manager = LocalSessionManager::default().with_event_store(store);
        manager.session_config = self.config.clone();
        Session { manager, events, opening: Mutex::default() }
    }

    async fn find(&self, id: &SessionId) -> Result<Arc<Session>, Error> {
        let found = self.sessions.read().await.get(id).cloned();
        found.ok_or_else(|| Error::SessionNotFound(id.clone()))
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("config", &self.config).finish_non_exhaustive()
    }
}

impl SessionManager for Sessions {
    type Error = Error;
    type Transport = Transport;

    async fn create_session(&self) -> Result<(SessionId, Transport), Error> {
        let session = self.session();
        let (id, transport) = session.manager.create_session().await?;
        session.events.belongs_to(scope_of(&id));
        self.sessions.write().await.insert(id.clone(), Arc::new(session));
        Ok((id, Overheard::new(transport)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Error> {
        self.find(id).await?.manager.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Error> {
        if !self.sessions.read().await.contains_key(id) {
            return Ok(false);
        }
        match session_record::is_ended(&self.hub, id) {
            // At another process: then it is over here too.
            Ok(true) => {
                self.close_session(id).await?;
                Ok(false)
            }
            Ok(false) => Ok(true),
            Err(error) => {
                tracing::warn!(%error, "it could not be looked whether a session was ended elsewhere");
                Ok(true)
            }
        }
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        let Some(session) = self.sessions.write().await.remove(id) else { return Ok(()) };
        session.events.end();
        let closed = session.manager.close_session(id).await;
        session.events.close_requests();
        closed
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let session = self.find(id).await?;
        let _turn = session.opening.lock().await;
        let _opening = match &message {
            ClientJsonRpcMessage::Request(request) => Some(session.events.opening_for(request.id.clone())),
            _ => None,
        };
        let frames: Frames = Box::pin(session.manager.create_stream(id, message).await?);
        Ok(frames)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Error> {
        self.find(id).await?.manager.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let session = self.find(id).await?;
        let frames: Frames = Box::pin(session.manager.create_standalone_stream(id).await?);
        Ok(frames)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let session = self.find(id).await?;
        let frames: Frames = Box::pin(session.manager.resume(id, last_event_id).await?);
        Ok(frames)
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Transport>, Error> {
        let mut sessions = self.sessions.write().await;
        if sessions.contains_key(&id) {
            return Ok(RestoreOutcome::AlreadyPresent);
        }
        let session = self.session();
        session.events.belongs_to(scope_of(&id));
        let restored = session.manager.restore_session(id.clone()).await?;
        sessions.insert(id, Arc::new(session));
        Ok(match restored {
            RestoreOutcome::Restored(transport) => RestoreOutcome::Restored(Overheard::new(transport)),
            RestoreOutcome::AlreadyPresent => RestoreOutcome::AlreadyPresent,
            _ => RestoreOutcome::NotSupported,
        })
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        Some(Arc::clone(&self.stateless) as _)
    }
}

#[cfg(test)]
mod tests {
    use rmcp::RoleServer;
    use rmcp::service::ServiceError;
    use rmcp::transport::{DynamicTransportError, Transport as _};
    use serde_json::{Value, json};

    use super::*;
    use crate::session_place::is_over;

    fn message<T: serde::de::DeserializeOwned>(message: Value) -> T {
        serde_json::from_value(message).expect("a message")
    }

    /// rmcp's worker may send what waits before it sees that the session was ended, which it draws: as often as not.
    #[tokio::test]
    async fn what_is_sent_into_a_session_that_was_ended_is_not_told_as_sent() {
        let sessions = Sessions::new(Hub::open("memory:").expect("a hub"));
        for _ in 0..32 {
            let (id, mut transport) = sessions.create_session().await.expect("a session");
            let begin = message(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}));
            let answer = async {
                transport.receive().await.expect("initialize");
                let answer = message(json!({"jsonrpc": "2.0", "id": 0, "result": {}}));
                transport.send(answer).await.expect("it is sent");
            };
            tokio::join!(sessions.initialize_session(&id, begin), answer).0.expect("initialized");
            let triggered =
                || message(json!({"jsonrpc": "2.0", "method": "notifications/io.tidings/triggered", "params": {}}));
            transport.send(triggered()).await.expect("it is kept, whether somebody listens or not");
            // Neither waits, so that the worker finds both.
            let sending = transport.send(triggered());
            let closing = sessions.close_session(&id);
            let (closed, sent) = tokio::join!(biased; closing, sending);
            closed.expect("it is closed");
            let failed = sent.expect_err("nobody can read it");
            let failed = DynamicTransportError::new::<Transport, RoleServer>(failed);
            assert!(is_over(&ServiceError::TransportSend(failed)));
        }
    }
}
