//! Fan-out.

use napi_derive::napi;
use tidings_bridge::{self as bridge};

use crate::call::request_id;
use crate::convert::{Result, Told, begin, entry, number};

/// What a peer and its server negotiated.
#[napi]
pub struct Profile {
    inner: bridge::Profile,
}

#[napi]
impl Profile {
    /// A peer's: its version, and both sides' capabilities as JSON text.
    #[napi(constructor)]
    pub fn new(version: String, server: String, client: String) -> Result<Self> {
        entry("Profile", || Ok(Self { inner: bridge::Profile::new(&version, &server, &client)? }))
    }

    /// Whether peers of this version are told only within acknowledged filters.
    #[napi(getter)]
    pub fn listens(&self) -> bool {
        self.inner.listens()
    }

    /// The part of a listener's filter that is honoured; both are JSON text.
    #[napi]
    pub fn honoured(&self, filter: String) -> Result<String> {
        entry("Profile.honoured", || self.inner.honoured(&filter))
    }
}

/// What a publish came to, in this process, in listeners.
#[napi(object, object_from_js = false)]
pub struct Fanout {
    /// It is queued for them, or coalesced with what was.
    pub told: f64,
    /// They did not ask for it, or may not hear of it, or cannot be reached.
    pub skipped: f64,
    /// They asked for it, and their connections were found not to have taken a frame in time.
    pub failed: f64,
}

impl From<bridge::Fanout> for Fanout {
    fn from(fanout: bridge::Fanout) -> Self {
        let bridge::Fanout { told, skipped, failed } = fanout;
        Self { told: number(told), skipped: number(skipped), failed: number(failed) }
    }
}

/// A connection that has failed.
#[napi(object, object_from_js = false)]
pub struct FailedSink {
    /// The number of its outbox.
    pub outbox: u32,
    /// Its own there.
    pub sink: f64,
}

/// Something to do about a connection.
#[napi(object, object_from_js = false)]
pub struct OutboxTask {
    /// The connection.
    pub sink: f64,
    /// The listener.
    pub listener: f64,
    /// The notification to write; none: the listener has ended.
    pub method: Option<&'static str>,
    /// Its parameters as JSON text, if it has any.
    pub params: Option<String>,
}

/// Where this thread takes frames for its connections.
#[napi]
pub struct Outbox {
    inner: bridge::Outbox,
}

impl Outbox {
    pub(crate) fn new(inner: bridge::Outbox) -> Self {
        Self { inner }
    }
}

fn sink_number(value: f64) -> bridge::Result<u64> {
    bridge::whole_number("sink", value)
}

fn listener_number(value: f64) -> bridge::Result<u64> {
    bridge::whole_number("listener", value)
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[napi]
impl Outbox {
    /// Its number among the hub's.
    #[napi(getter)]
    pub fn number(&self) -> u32 {
        self.inner.number()
    }

    /// How many listeners there are.
    #[napi(getter)]
    pub fn listeners(&self) -> u32 {
        small(self.inner.listeners())
    }

    /// A connection to write to.
    #[napi]
    pub fn add_sink(&self, principal: Option<String>, deadline_ms: Option<f64>) -> Result<f64> {
        entry("Outbox.addSink", || {
            let deadline = deadline_ms.map(|ms| bridge::milliseconds("deadlineMs", ms)).transpose()?;
            self.inner.add_sink(principal.as_deref(), deadline).map(number)
        })
    }

    /// The listener of a peer without filters.
    #[napi]
    pub fn attend(&self, sink: f64, profile: &Profile) -> Result<f64> {
        entry("Outbox.attend", || self.inner.attend(sink_number(sink)?, &profile.inner).map(number))
    }

    /// A listener with a filter, opened by the request of that id (JSON text).
    #[napi]
    pub fn listen(&self, sink: f64, profile: &Profile, id: String, filter: String) -> Result<f64> {
        entry("Outbox.listen", || {
            self.inner.listen(sink_number(sink)?, &profile.inner, &request_id(&id)?, &filter).map(number)
        })
    }

    /// A peer without filters is ready to be told.
    #[napi]
    pub fn open(&self, listener: f64) -> Result<()> {
        entry("Outbox.open", || self.inner.open(listener_number(listener)?))
    }

    /// Such a peer subscribes to one thing.
    #[napi]
    pub fn subscribe(&self, listener: f64, profile: &Profile, name: String) -> Result<()> {
        entry("Outbox.subscribe", || self.inner.subscribe(listener_number(listener)?, &profile.inner, &name))
    }

    /// And no longer.
    #[napi]
    pub fn unsubscribe(&self, listener: f64, profile: &Profile, name: String) -> Result<()> {
        entry("Outbox.unsubscribe", || self.inner.unsubscribe(listener_number(listener)?, &profile.inner, &name))
    }

    /// Whether the connection's peer can be told anything at the moment.
    #[napi]
    pub fn set_reachable(&self, sink: f64, reachable: bool) -> Result<()> {
        entry("Outbox.setReachable", || self.inner.set_reachable(sink_number(sink)?, reachable))
    }

    /// Ends a listener in order.
    #[napi]
    pub fn end(&self, listener: f64) -> Result<()> {
        entry("Outbox.end", || self.inner.end(listener_number(listener)?))
    }

    /// Ends every listener with a filter in order.
    #[napi]
    pub fn end_all(&self) -> Result<()> {
        entry("Outbox.endAll", || self.inner.end_all())
    }

    /// The listener was cancelled; `false`: it had ended.
    #[napi]
    pub fn cancel(&self, listener: f64) -> Result<bool> {
        entry("Outbox.cancel", || self.inner.cancel(listener_number(listener)?))
    }

    /// Lets go of a connection; how many listeners went with it.
    #[napi]
    pub fn drop_sink(&self, sink: f64) -> Result<u32> {
        entry("Outbox.dropSink", || self.inner.drop_sink(sink_number(sink)?)).map(small)
    }

    /// What there is to do, about `max` at most.
    #[napi]
    pub fn take(&self, max: u32) -> Result<Vec<OutboxTask>> {
        let tasks = entry("Outbox.take", || self.inner.take(max))?;
        let told = |task: bridge::OutboxTask| OutboxTask {
            sink: number(task.sink),
            listener: number(task.listener),
            method: task.method,
            params: task.params,
        };
        Ok(tasks.into_iter().map(told).collect())
    }

    /// So many of a connection's frames were written; `false`: too late, it has failed or gone.
    #[napi]
    pub fn written(&self, sink: f64, frames: u32) -> Result<bool> {
        entry("Outbox.written", || self.inner.written(sink_number(sink)?, frames))
    }

    /// A connection did not take a frame; how many listeners went with it.
    #[napi]
    pub fn broke(&self, sink: f64) -> Result<u32> {
        entry("Outbox.broke", || self.inner.broke(sink_number(sink)?)).map(small)
    }

    /// Waits until there is something to take.
    #[napi(ts_return_type = "undefined | Pending")]
    pub fn ready(&self) -> Result<Told> {
        begin("Outbox.ready", || Ok(self.inner.ready()))
    }
}
