//! rmcp's `EventStore` on a hub.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage,
};
use tidings::proto::stream::{Cursor, Gap, StreamId};
use tidings::{Durability, ErrorCode, Hub, Tail, Writer};
use tokio::time::sleep;

use crate::fan_out::lock;
use crate::lost::{OPENED, Opening};
use crate::message;
use crate::replay::{Ending, Replay, Unknown};

/// The type of an event that is a message of the protocol.
pub(crate) const MESSAGE: &str = "message";

/// How rmcp's name of a session's own stream ends, the one that is read by GET.
const COMMON_SUFFIX: &str = ":common";
/// That stream's name in the session's scope.
const COMMON: &str = "common";

/// The scope of streams of requests that belong to no session.
const STATELESS: &str = "rmcp:stateless";

/// Streams that are open at once; one more closes the oldest. A request that was cancelled never gets its final response.
const MAX_OPEN: usize = 4_096;

/// An event goes out before it is committed: a client may be at another process before the commit is.
const PAUSES: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(200)];

/// The scope of a session's streams; the same in every language.
pub(crate) fn scope_of(session: &str) -> String {
    format!("session:{session}")
}

/// An event store for rmcp: durable, shared by the processes of one store, and resumable without a hole or a double.
///
/// [`Sessions`](crate::Sessions) brings one for each session, whose event ids mean nothing in any other. One made by
/// [`stateless`](Self::stateless) is for a session manager of another make and for servers without sessions: there an
/// event id opens its stream to whoever knows it, and holds 128 random bits.
///
/// What is stored is handed on at once and committed in groups, within milliseconds. After a crash that took events back, a
/// client that has seen them is told so (`regressed`); see [`committed`](Self::committed).
///
/// It never answers an error, unless the session was ended: rmcp would lose the message. What could not be stored is counted by
/// [`failures`](Self::failures), goes out with the event id of the message before it, and cannot be replayed.
pub struct EventLog {
    hub: Hub,
    scope: OnceLock<String>,
    committed: bool,
    open: Mutex<Open>,
    /// The request that a stream is being opened for.
    asked: Mutex<Option<RequestId>>,
    failures: AtomicU64,
    /// The session was ended: nobody reads its own stream any more.
    over: AtomicBool,
}

/// Why a message is not taken for a session that was ended.
#[derive(Debug)]
pub(crate) struct SessionOver;

impl std::fmt::Display for SessionOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the session was ended")
    }
}

impl std::error::Error for SessionOver {}

/// The streams that messages are being stored in, by rmcp's names.
#[derive(Default)]
struct Open {
    by_name: HashMap<String, Opened>,
    /// Their names, oldest first.
    by_age: BTreeMap<u64, String>,
    next: u64,
}

struct Opened {
    writer: Writer,
    age: u64,
}

impl Open {
    fn insert(&mut self, name: &str, writer: Writer) {
        if self.by_name.len() >= MAX_OPEN
            && let Some((_, oldest)) = self.by_age.pop_first()
            && let Some(opened) = self.by_name.remove(&oldest)
        {
            close(&opened.writer);
        }
        let age = self.next;
        self.next += 1;
        self.by_age.insert(age, name.to_owned());
        self.by_name.insert(name.to_owned(), Opened { writer, age });
    }

    fn remove(&mut self, name: &str) -> Option<Writer> {
        let opened = self.by_name.remove(name)?;
        self.by_age.remove(&opened.age);
        Some(opened.writer)
    }
}

impl EventLog {
    /// For requests that belong to no session.
    pub fn stateless(hub: Hub) -> Self {
        let log = Self::unscoped(hub);
        log.belongs_to(STATELESS.to_owned());
        log
    }

    /// For a session whose id is yet to be drawn.
    pub(crate) fn unscoped(hub: Hub) -> Self {
        let (open, asked) = (Mutex::default(), Mutex::default());
        let (failures, over) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { hub, scope: OnceLock::new(), committed: false, open, asked, failures, over }
    }

    /// Hands a message on only once it is committed, as the documentation of rmcp's trait asks: an event id that a client
    /// has seen then survives `kill -9`. It costs each message the wait for its commit, about a millisecond; without it a
    /// client is told what a crash took back.
    #[must_use]
    pub fn committed(mut self, committed: bool) -> Self {
        self.committed = committed;
        self
    }

    /// Only the first time counts.
    pub(crate) fn belongs_to(&self, scope: String) {
        drop(self.scope.set(scope));
    }

    /// Until the answer is dropped, a stream that is opened is that request's, whose id is kept with it. One at a time.
    pub(crate) fn opening_for(&self, request: RequestId) -> OpeningFor<'_> {
        *lock(&self.asked) = Some(request);
        OpeningFor(self)
    }

    /// How many messages could not be stored, and how many streams could not be read because the store failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Its client ends the session. rmcp may still have something to send on the session's own stream, which it would say it
    /// has sent, although nobody can read it: from now on that fails.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The session is over here: the streams of its requests end. Its own goes on where the session is restored.
    pub(crate) fn close_requests(&self) {
        let mut open = self.open();
        for (name, opened) in std::mem::take(&mut *open).by_name {
            if !name.ends_with(COMMON_SUFFIX) {
                close(&opened.writer);
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        lock(&self.open)
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) {
        if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(%error, "{what}");
        }
    }

    fn scope(&self) -> &str {
        // No message is stored before `initialize` was answered, by when the session has its id.
        self.scope.get().map_or(STATELESS, String::as_str)
    }

    async fn store(&self, stream_id: &str, event: &ServerSseMessage) -> Result<String, EventStoreError> {
        let found = self.open().by_name.get(stream_id).map(|opened| opened.writer.clone());
        let is_new = found.is_none();
        let common = stream_id.ends_with(COMMON_SUFFIX);
        let writer = match found {
            Some(writer) => writer,
            None => self.open_stream(stream_id, common).await?,
        };
        let Some(message) = &event.message else {
            // It makes the stream exist for whoever comes back with its first place, however long the tool says nothing.
            if is_new && !common {
                // One that rmcp opened for a client that left meanwhile may get the next request's; nobody knows its event ids.
                let opening = Opening::of(lock(&self.asked).clone(), stream_id);
                append(&writer, OPENED, &serde_json::to_vec(&opening)?, false)?;
            }
            return Ok(writer.cursor());
        };
        let text = serde_json::to_vec(message)?;
        let ends = !common && message::is_answer(message);
        let cursor = match append(&writer, MESSAGE, &text, ends) {
            Err(error) if common && matches!(error.code(), ErrorCode::Fenced | ErrorCode::Closed) => {
                // The session has been at another process since.
                let writer = self.open_stream(stream_id, common).await?;
                append(&writer, MESSAGE, &text, ends)?
            }
            appended => appended?,
        };
        if ends {
            drop(self.open().remove(stream_id));
        }
        Ok(cursor)
    }

    async fn open_stream(&self, stream_id: &str, common: bool) -> tidings::Result<Writer> {
        let scope = self.scope();
        let writer = if common {
            // Numbered on from where the process before this one stopped, so that its cursors stay good.
            self.hub.stream(scope, COMMON)?.claim().await?
        } else {
            self.hub.new_writer(scope, stream_id)?
        };
        self.open().insert(stream_id, writer.clone());
        Ok(writer)
    }

    async fn tail(&self, event_id: &str) -> tidings::Result<Option<(Tail, bool)>> {
        let Ok(cursor) = Cursor::parse(event_id) else { return Ok(None) };
        let scope = self.scope();
        for pause in PAUSES.into_iter().map(Some).chain([None]) {
            match self.hub.resume(scope, event_id) {
                Ok(tail) => return Ok(Some((tail, self.is_common(scope, cursor.stream)?))),
                Err(error) if error.code() != ErrorCode::UnknownCursor => return Err(error),
                Err(_) => {}
            }
            if let Some(pause) = pause {
                sleep(pause).await;
            }
        }
        Ok(None)
    }

    fn is_common(&self, scope: &str, stream: StreamId) -> tidings::Result<bool> {
        let common = self.hub.stream(scope, COMMON)?.info()?;
        Ok(common.is_some_and(|common| common.id == stream))
    }
}

/// See [`EventLog::opening_for`].
pub(crate) struct OpeningFor<'a>(&'a EventLog);

impl Drop for OpeningFor<'_> {
    fn drop(&mut self) {
        *lock(&self.0.asked) = None;
    }
}

/// A stream of which nobody is told anything any more.
fn close(writer: &Writer) {
    // It may have been closed by its final response, or with its hub.
    drop(writer.close());
}

/// The cursor after the event.
fn append(writer: &Writer, kind: &str, payload: &[u8], ends: bool) -> tidings::Result<String> {
    let seq = if ends {
        writer.append_and_close(kind, payload)?
    } else {
        match writer.append(kind, payload, None) {
            // The store is as good as down, and what has to go is told as a gap.
            Err(error) if error.code() == ErrorCode::Congested => writer.append_giving_up(kind, payload, None)?,
            appended => appended?,
        }
    };
    Ok(writer.cursor_after(seq))
}

#[async_trait::async_trait]
impl EventStore for EventLog {
    async fn store_event(&self, stream_id: &str, event: &ServerSseMessage) -> Result<EventId, EventStoreError> {
        if self.over.load(Ordering::Acquire) && stream_id.ends_with(COMMON_SUFFIX) {
            return Err(Box::new(SessionOver));
        }
        match self.store(stream_id, event).await {
            Ok(event_id) => {
                if self.committed
                    && let Err(error) = self.hub.flush(Durability::Process).await
                {
                    self.failed("a message went out that is not committed", &error);
                }
                Ok(event_id)
            }
            Err(error) => {
                self.failed("a message could not be stored; it cannot be replayed", &error);
                let open = self.open();
                let last = open.by_name.get(stream_id).map(|opened| opened.writer.cursor());
                Ok(last.unwrap_or_default())
            }
        }
    }

    async fn replay_events_after(&self, last_event_id: &str) -> Result<EventStream, EventStoreError> {
        Ok(match self.tail(last_event_id).await {
            Ok(Some((tail, goes_on))) => {
                let ending = if goes_on { Ending::None } else { Ending::of(&self.hub, self.scope()) };
                Box::pin(Replay::new(tail, ending))
            }
            // rmcp would answer an error with a stream of nothing, as if nothing had been missed.
            Ok(None) => Box::pin(Unknown(Some(message::frame(None, message::of_gap(Gap::UNKNOWN))))),
            Err(error) => {
                self.failed("a stream could not be read", &error);
                return Err(Box::new(error));
            }
        })
    }
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").field("failures", &self.failures()).finish_non_exhaustive()
    }
}
