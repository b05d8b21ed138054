//! Telling connections what has changed: one outbox of the hub's, and a task that has its frames written.
//!
//! The core decides who is told what and how often. Here is only who writes it, and what becomes of a connection that does
//! not take it: it loses its place, and the others do not notice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ServerNotification;
use rmcp::service::Peer;
use serde_json::{Value, json};
use tidings::proto::fanout::{Frame, Tag};
use tidings::{Hub, Outbox, Parcel, SinkId, SinkOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::call::custom;
use crate::session_peer::SessionPeer;

/// How long a connection may take for what was handed out for it; then it has failed. The same in every language.
const DEADLINE: Duration = Duration::from_secs(10);

/// Parcels that are taken at once.
const BATCH: usize = 1_024;

/// The desk of one server, from the first connection that may be told something.
pub(crate) struct FanOut {
    hub: Hub,
    desk: Mutex<Option<Desk>>,
}

struct Desk {
    place: Place,
    pump: JoinHandle<()>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// Where connections are registered.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) outbox: Arc<Outbox>,
    writers: Arc<Mutex<HashMap<SinkId, Writer>>>,
}

/// Who writes to a connection.
#[derive(Clone)]
pub(crate) enum Writer {
    /// A session, up to 2025-11-25.
    Session(Arc<SessionPeer>),
    /// A listener whose acknowledgement rmcp has yet to send; its own was handed out, if `handed`.
    Opening { handed: bool },
    /// A listener whose acknowledgement rmcp has sent before ours was handed out.
    Acknowledged(Listener),
    /// A listener.
    Listener(Listener),
}

/// The stream of a `subscriptions/listen` request.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) peer: Peer<RoleServer>,
    /// With the request's own id.
    pub(crate) tag: Tag,
    /// Cancelled when something was written, the first of which is its acknowledgement.
    pub(crate) told: CancellationToken,
    /// Cancelled when it is told nothing more.
    pub(crate) ended: CancellationToken,
}

impl FanOut {
    pub(crate) fn new(hub: Hub) -> Self {
        Self { hub, desk: Mutex::default() }
    }

    /// Needs a tokio runtime, whose task does the writing.
    pub(crate) fn place(&self) -> tidings::Result<Place> {
        let mut desk = lock(&self.desk);
        if let Some(desk) = desk.as_ref().filter(|desk| !desk.pump.is_finished()) {
            return Ok(desk.place.clone());
        }
        let place = Place { outbox: Arc::new(self.hub.outbox()?), writers: Arc::default() };
        let pump = tokio::spawn(pump(place.clone()));
        *desk = Some(Desk { place: place.clone(), pump });
        Ok(place)
    }

    /// Ends the listeners in order.
    pub(crate) fn end_listeners(&self) {
        if let Some(desk) = &*lock(&self.desk) {
            desk.place.outbox.end_all();
        }
    }
}

impl Place {
    /// A place for a connection.
    pub(crate) fn add(&self, principal: Option<&str>, writer: Writer) -> tidings::Result<SinkId> {
        let options = SinkOptions { principal, deadline: Some(DEADLINE) };
        // Held, so that nothing is taken for a sink whose writer is not known yet.
        let mut writers = lock(&self.writers);
        let sink = self.outbox.add_sink(options)?;
        writers.insert(sink, writer);
        Ok(sink)
    }

    /// The connection is gone, or wants no more. Twice is no error.
    pub(crate) fn drop_sink(&self, sink: SinkId) {
        lock(&self.writers).remove(&sink);
        self.outbox.drop_sink(sink);
    }

    /// rmcp has acknowledged the listener. `false`: it took too long.
    pub(crate) fn acknowledged(&self, sink: SinkId, listener: Listener) -> bool {
        let mut writers = lock(&self.writers);
        match writers.get_mut(&sink) {
            Some(writer @ Writer::Opening { handed: true }) => {
                *writer = Writer::Listener(listener);
                drop(writers);
                self.outbox.written(sink, 1)
            }
            Some(writer) => {
                *writer = Writer::Acknowledged(listener);
                true
            }
            None => false,
        }
    }

    /// Has what is ready written.
    fn hand_out(&self) {
        loop {
            let parcels = self.outbox.take(BATCH);
            if parcels.is_empty() {
                return;
            }
            let mut by_sink: HashMap<SinkId, Vec<Frame>> = HashMap::new();
            for parcel in parcels {
                match parcel {
                    Parcel::Frame { sink, frame, .. } => by_sink.entry(sink).or_default().push(frame),
                    Parcel::Finish { sink, .. } => self.finished(sink),
                }
            }
            for (sink, frames) in by_sink {
                self.write(sink, frames);
            }
        }
    }

    fn finished(&self, sink: SinkId) {
        let writer = lock(&self.writers).get(&sink).cloned();
        if let Some(Writer::Listener(listener) | Writer::Acknowledged(listener)) = writer {
            listener.ended.cancel();
        }
    }

    fn write(&self, sink: SinkId, frames: Vec<Frame>) {
        let mut writers = lock(&self.writers);
        match writers.get_mut(&sink) {
            // What is handed out first is an acknowledgement, which rmcp sends itself.
            Some(Writer::Opening { handed }) => *handed = true,
            Some(writer @ Writer::Acknowledged(_)) => {
                if let Writer::Acknowledged(listener) = writer.clone() {
                    *writer = Writer::Listener(listener);
                }
                drop(writers);
                self.outbox.written(sink, 1);
            }
            Some(Writer::Session(session)) => {
                let session = Arc::clone(session);
                tokio::spawn(self.clone().write_to_session(sink, session, frames));
            }
            Some(Writer::Listener(listener)) => {
                tokio::spawn(self.clone().write_to_listener(sink, listener.clone(), frames));
            }
            None => {
                drop(writers);
                self.outbox.drop_sink(sink);
            }
        }
    }

    async fn write_to_session(self, sink: SinkId, session: Arc<SessionPeer>, frames: Vec<Frame>) {
        // One that has taken what it was told too late is told again.
        if self.write_all(sink, &session.peer, None, frames, || {}).await == Some(false) {
            session.come_back(&self).await;
        }
    }

    async fn write_to_listener(self, sink: SinkId, listener: Listener, frames: Vec<Frame>) {
        let Listener { peer, tag, told, .. } = &listener;
        self.write_all(sink, peer, Some(tag), frames, || told.cancel()).await;
    }

    /// `None`: the connection is gone. `false`: it has taken longer than it may; either way it has failed.
    async fn write_all(
        &self,
        sink: SinkId,
        peer: &Peer<RoleServer>,
        tag: Option<&Tag>,
        frames: Vec<Frame>,
        written: impl Fn(),
    ) -> Option<bool> {
        let mut in_time = true;
        for frame in frames {
            if !send(peer, &frame, tag).await {
                self.outbox.broke(sink);
                self.failed(sink);
                return None;
            }
            written();
            in_time &= self.outbox.written(sink, 1);
        }
        if !in_time {
            self.failed(sink);
        }
        Some(in_time)
    }

    fn failed(&self, sink: SinkId) {
        let writer = lock(&self.writers).remove(&sink);
        if let Some(Writer::Listener(listener)) = writer {
            listener.ended.cancel();
        }
    }
}

/// `false`: the connection is gone.
pub(crate) async fn send(peer: &Peer<RoleServer>, frame: &Frame, tag: Option<&Tag>) -> bool {
    let Some(notification) = notification(frame, tag) else { return true };
    peer.send_notification(notification).await.is_ok()
}

/// `None` for a method that rmcp cannot send.
fn notification(frame: &Frame, tag: Option<&Tag>) -> Option<ServerNotification> {
    match frame.params(tag) {
        Some(params) => Some(custom(frame.method(), serde_json::from_str::<Value>(&params).ok()?)),
        // A custom one without parameters is written with `null`, which is none.
        None => serde_json::from_value(json!({"method": frame.method()})).ok(),
    }
}

/// Until the hub closes.
async fn pump(place: Place) {
    while place.outbox.ready().await.is_ok() {
        place.hand_out();
    }
}

/// A lock that a panic elsewhere has not spoilt: nothing here is left half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
