//! rmcp's `SessionStore` on a hub: what a process has to know of a session that another one began.

use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError};
use tidings::{After, Durability, Hub, NewEvent, ReadLimits};

use crate::event_log::scope_of;

/// The stream in a session's scope that has its record: the newest event is what holds.
const NAME: &str = "rmcp";
/// The type of an event that is the client's `initialize`.
const BEGUN: &str = "io.tidings.session.initialize";
/// The type of the event that ends the record.
const DELETED: &str = "io.tidings.session.deleted";

/// A session store for rmcp: sessions survive restarts, `kill -9` included, and move between processes on one store.
///
/// rmcp answers for a session of another process as soon as it finds its record here, and does not ask who it is that
/// names the session: its id is all there is to know, as everywhere in rmcp. A record goes with the hub's retention of
/// its stream, at the latest.
#[derive(Debug)]
pub struct SessionRecords {
    hub: Hub,
}

impl SessionRecords {
    /// On the hub's store.
    pub fn new(hub: Hub) -> Self {
        Self { hub }
    }

    async fn append(&self, session: &str, kind: &str, payload: Vec<u8>, close: bool) -> tidings::Result<()> {
        let event = event(kind, payload);
        let stream = self.hub.stream(scope_of(session), NAME)?;
        if close {
            return stream.close(vec![event], Durability::Process).await;
        }
        stream.append(vec![event], Durability::Process).await.map(drop)
    }
}

/// An event of now.
pub(crate) fn event(kind: &str, payload: Vec<u8>) -> NewEvent {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    NewEvent { kind: kind.to_owned(), payload: payload.into(), time, identity: None }
}

/// Whether a session on record was ended by its client, at any process on the store.
pub(crate) fn is_ended(hub: &Hub, session: &str) -> tidings::Result<bool> {
    let record = hub.stream(scope_of(session), NAME)?.info()?;
    Ok(record.is_some_and(|record| record.closed_at.is_some()))
}

#[async_trait::async_trait]
impl SessionStore for SessionRecords {
    async fn load(&self, session_id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let stream = self.hub.stream(scope_of(session_id), NAME)?;
        let read = stream.read(After::Earliest, ReadLimits::default())?;
        match read.events.last() {
            Some(event) if event.kind == BEGUN => Ok(Some(serde_json::from_slice(&event.payload)?)),
            _ => Ok(None),
        }
    }

    async fn store(&self, session_id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        Ok(self.append(session_id, BEGUN, serde_json::to_vec(state)?, false).await?)
    }

    async fn delete(&self, session_id: &str) -> Result<(), SessionStoreError> {
        let stream = self.hub.stream(scope_of(session_id), NAME)?;
        // Of a session that was never on record there is nothing to end.
        if stream.info()?.is_some_and(|info| info.closed_at.is_none()) {
            self.append(session_id, DELETED, b"{}".to_vec(), true).await?;
        }
        Ok(())
    }
}
