//! Telling everybody who asked for it that something has changed.

use std::sync::Arc;
use std::time::Duration;

use tidings_bridge::{self as bridge, RequestId};

use crate::entry::{answer, done, entry};
use crate::error::TidingsError;
use crate::hub::Hub;

/// What a publish came to, in this process, in listeners.
pub type Fanout = bridge::Fanout;

/// What a publish came to, in this process, in listeners.
#[uniffi::remote(Record)]
pub struct Fanout {
    /// It is queued for them, or coalesced with what was.
    pub told: u64,
    /// They did not ask for it, or may not hear of it, or cannot be reached.
    pub skipped: u64,
    /// They asked for it, and their connections were found not to have taken a frame in time.
    pub failed: u64,
}

/// A connection that has failed.
#[derive(Clone, Debug, PartialEq, Eq, uniffi::Record)]
pub struct FailedSink {
    /// The number of its outbox.
    pub outbox: u32,
    /// Its own there.
    pub sink: u64,
}

/// Something to do about a connection.
#[derive(Clone, Debug, uniffi::Record)]
pub struct OutboxTask {
    /// The connection.
    pub sink: u64,
    /// The listener.
    pub listener: u64,
    /// The notification to write; none: the listener has ended, and its request may have its result.
    pub method: Option<String>,
    /// Its parameters as JSON text, if it has any.
    pub params: Option<String>,
}

impl From<bridge::OutboxTask> for OutboxTask {
    fn from(task: bridge::OutboxTask) -> Self {
        let bridge::OutboxTask { sink, listener, method, params } = task;
        Self { sink, listener, method: method.map(str::to_owned), params }
    }
}

/// What a peer and its server negotiated.
#[derive(uniffi::Object)]
pub struct Profile {
    inner: bridge::Profile,
}

#[uniffi::export]
impl Profile {
    /// An MCP peer's: its version, and both sides' capabilities as JSON text.
    #[uniffi::constructor]
    pub fn new(version: &str, server: &str, client: &str) -> Result<Arc<Self>, TidingsError> {
        entry("Profile", || Ok(Arc::new(Self { inner: bridge::Profile::new(version, server, client)? })))
    }

    /// Whether peers of this version are told only within acknowledged filters.
    pub fn listens(&self) -> bool {
        self.inner.listens()
    }

    /// The part of a listener's filter that is honoured; both are JSON text.
    pub fn honoured(&self, filter: &str) -> Result<String, TidingsError> {
        entry("Profile.honoured", || self.inner.honoured(filter))
    }
}

/// Where a host takes frames for its connections.
#[derive(uniffi::Object)]
pub struct Outbox {
    inner: bridge::Outbox,
}

#[uniffi::export]
impl Outbox {
    /// Its number among the hub's.
    pub fn number(&self) -> u32 {
        self.inner.number()
    }

    /// How many listeners there are.
    pub fn listeners(&self) -> u64 {
        self.inner.listeners() as u64
    }

    /// A connection to write to.
    #[uniffi::method(default(principal = None, deadline = None))]
    pub fn add_sink(&self, principal: Option<String>, deadline: Option<Duration>) -> Result<u64, TidingsError> {
        entry("Outbox.addSink", || self.inner.add_sink(principal.as_deref(), deadline))
    }

    /// The listener of a peer without filters.
    pub fn attend(&self, sink: u64, profile: &Profile) -> Result<u64, TidingsError> {
        entry("Outbox.attend", || self.inner.attend(sink, &profile.inner))
    }

    /// A listener with a filter (JSON text), opened by the request of that id.
    pub fn listen(&self, sink: u64, profile: &Profile, id: RequestId, filter: &str) -> Result<u64, TidingsError> {
        entry("Outbox.listen", || self.inner.listen(sink, &profile.inner, &id, filter))
    }

    /// A peer without filters is ready to be told.
    pub fn open(&self, listener: u64) -> Result<(), TidingsError> {
        entry("Outbox.open", || self.inner.open(listener))
    }

    /// Such a peer subscribes to one thing.
    pub fn subscribe(&self, listener: u64, profile: &Profile, name: &str) -> Result<(), TidingsError> {
        entry("Outbox.subscribe", || self.inner.subscribe(listener, &profile.inner, name))
    }

    /// And no longer.
    pub fn unsubscribe(&self, listener: u64, profile: &Profile, name: &str) -> Result<(), TidingsError> {
        entry("Outbox.unsubscribe", || self.inner.unsubscribe(listener, &profile.inner, name))
    }

    /// Whether the connection's peer can be told anything at the moment.
    pub fn set_reachable(&self, sink: u64, reachable: bool) -> Result<(), TidingsError> {
        entry("Outbox.setReachable", || self.inner.set_reachable(sink, reachable))
    }

    /// Ends a listener in order.
    pub fn end(&self, listener: u64) -> Result<(), TidingsError> {
        entry("Outbox.end", || self.inner.end(listener))
    }

    /// Ends every listener with a filter in order.
    pub fn end_all(&self) -> Result<(), TidingsError> {
        entry("Outbox.endAll", || self.inner.end_all())
    }

    /// The listener was cancelled. False: it had ended.
    pub fn cancel(&self, listener: u64) -> Result<bool, TidingsError> {
        entry("Outbox.cancel", || self.inner.cancel(listener))
    }

    /// Lets go of a connection; how many listeners went with it.
    pub fn drop_sink(&self, sink: u64) -> Result<u64, TidingsError> {
        entry("Outbox.dropSink", || Ok(self.inner.drop_sink(sink)? as u64))
    }

    /// What there is to do, about `max` at most.
    pub fn take(&self, max: u32) -> Result<Vec<OutboxTask>, TidingsError> {
        entry("Outbox.take", || Ok(self.inner.take(max)?.into_iter().map(OutboxTask::from).collect()))
    }

    /// So many of a connection's frames were written. False: too late, it has failed or gone.
    pub fn written(&self, sink: u64, frames: u32) -> Result<bool, TidingsError> {
        entry("Outbox.written", || self.inner.written(sink, frames))
    }

    /// A connection did not take a frame; how many listeners went with it.
    pub fn broke(&self, sink: u64) -> Result<u64, TidingsError> {
        entry("Outbox.broke", || Ok(self.inner.broke(sink)? as u64))
    }

    /// Waits until there is something to take. One at a time.
    pub async fn ready(&self) -> Result<(), TidingsError> {
        answer("Outbox.ready", || Ok(self.inner.ready()), done).await
    }
}

#[uniffi::export]
impl Hub {
    /// A place to take frames for connections.
    pub fn outbox(&self) -> Result<Arc<Outbox>, TidingsError> {
        entry("Hub.outbox", || Ok(Arc::new(Outbox { inner: self.inner.outbox()? })))
    }

    /// Tells everybody who asked for it that something has changed.
    #[uniffi::method(default(name = None, audience = None))]
    pub fn notify(
        &self,
        kinds: Vec<String>,
        name: Option<String>,
        audience: Option<String>,
    ) -> Result<Fanout, TidingsError> {
        entry("Hub.notify", || self.inner.notify(&kinds, name.as_deref(), audience.as_deref()))
    }

    /// The connections that have failed since this was last asked.
    pub fn failed_sinks(&self) -> Result<Vec<FailedSink>, TidingsError> {
        let failed = entry("Hub.failedSinks", || self.inner.failed_sinks())?;
        Ok(failed.into_iter().map(|(outbox, sink)| FailedSink { outbox, sink }).collect())
    }
}
