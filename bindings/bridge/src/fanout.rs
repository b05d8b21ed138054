//! Fan-out, as a host holds it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidings::proto::fanout::mcp::MCP;
use tidings::proto::fanout::{self, Filter};
use tidings::proto::id::RequestId;
use tidings::proto::notice::{self, LogLevel, NoProgress, ProgressRules};
use tidings::{ListenerId, Parcel, SinkId, SinkOptions};

use crate::answer::Answer;
use crate::error::{Error, ErrorCode, Result};
use crate::fork::Own;
use crate::hub::Hub;
use crate::pending::{Cancel, Started, start};

pub use tidings::Fanout;

/// What a peer and its server negotiated.
#[derive(Clone, Debug)]
pub struct Profile {
    inner: Arc<fanout::Profile>,
}

impl Profile {
    /// An MCP peer's: its version, and both sides' capabilities as JSON text.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field.
    pub fn new(version: &str, server: &str, client: &str) -> Result<Self> {
        let profile = fanout::Profile::new(&MCP, version, server, client);
        Ok(Self {
            inner: Arc::new(profile.map_err(|error| Error::new(ErrorCode::InvalidArgument, error.to_string()))?),
        })
    }

    /// Whether peers of this version are told only within acknowledged filters.
    pub fn listens(&self) -> bool {
        self.inner.listens()
    }

    /// The part of a listener's filter (JSON text) that is honoured, as JSON text.
    ///
    /// # Errors
    /// `invalid_argument` for what MCP answers with -32602, and for what needs a capability that the client did not
    /// declare.
    pub fn honoured(&self, filter: &str) -> Result<String> {
        Ok(self.filter(filter)?.to_json(&MCP))
    }

    fn filter(&self, filter: &str) -> Result<Filter> {
        let honoured = Filter::parse(&MCP, filter).and_then(|filter| filter.honoured(&self.inner));
        honoured.map_err(|error| Error::new(ErrorCode::InvalidArgument, error.to_string()))
    }
}

/// Something for the host to do about one of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The connection.
    pub sink: u64,
    /// The listener.
    pub listener: u64,
    /// The notification to write; `None`: the listener has ended, and its request may have its result.
    pub method: Option<&'static str>,
    /// Its parameters as JSON text, if it has any.
    pub params: Option<String>,
}

/// Where the host of one event loop takes frames.
#[derive(Clone)]
pub struct Outbox {
    hub: Hub,
    number: u32,
    inner: Arc<Own<tidings::Outbox>>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Outbox {
    pub(crate) fn new(hub: Hub, outbox: tidings::Outbox) -> Self {
        Self { hub, number: outbox.number(), inner: Arc::new(Own::new(outbox)) }
    }

    /// Its number among the hub's.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The hub that it is of.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    fn sink(&self, sink: u64) -> Result<SinkId> {
        SinkId::from_numbers(self.number, sink).ok_or_else(|| Error::argument("sink", "is of another outbox"))
    }

    fn listener(&self, listener: u64) -> Result<ListenerId> {
        let found = ListenerId::from_numbers(self.number, listener);
        found.ok_or_else(|| Error::argument("listener", "is of another outbox"))
    }

    /// A connection to write to.
    pub fn add_sink(&self, principal: Option<&str>, deadline: Option<Duration>) -> Result<u64> {
        let sink = self.inner.get()?.add_sink(SinkOptions { principal, deadline })?;
        Ok(sink.to_numbers().1)
    }

    /// The listener of a peer without filters.
    pub fn attend(&self, sink: u64, profile: &Profile) -> Result<u64> {
        Ok(self.inner.get()?.attend(self.sink(sink)?, &profile.inner)?.to_number())
    }

    /// A listener with a filter, of which only what is honoured counts.
    pub fn listen(&self, sink: u64, profile: &Profile, id: &RequestId, filter: &str) -> Result<u64> {
        let honoured = profile.filter(filter)?;
        Ok(self.inner.get()?.listen(self.sink(sink)?, &profile.inner, id, honoured)?.to_number())
    }

    /// A peer without filters is ready to be told.
    pub fn open(&self, listener: u64) -> Result<()> {
        self.inner.get()?.open(self.listener(listener)?);
        Ok(())
    }

    /// Such a peer subscribes to one thing.
    pub fn subscribe(&self, listener: u64, profile: &Profile, name: &str) -> Result<()> {
        Ok(self.inner.get()?.subscribe(self.listener(listener)?, &profile.inner, name)?)
    }

    /// And no longer.
    pub fn unsubscribe(&self, listener: u64, profile: &Profile, name: &str) -> Result<()> {
        self.inner.get()?.unsubscribe(self.listener(listener)?, &profile.inner, name);
        Ok(())
    }

    /// Whether the connection's peer can be told anything at the moment.
    pub fn set_reachable(&self, sink: u64, reachable: bool) -> Result<()> {
        self.inner.get()?.set_reachable(self.sink(sink)?, reachable);
        Ok(())
    }

    /// Ends a listener in order.
    pub fn end(&self, listener: u64) -> Result<()> {
        self.inner.get()?.end(self.listener(listener)?);
        Ok(())
    }

    /// Ends every listener with a filter in order.
    pub fn end_all(&self) -> Result<()> {
        self.inner.get()?.end_all();
        Ok(())
    }

    /// The listener was cancelled. `false`: it had ended.
    pub fn cancel(&self, listener: u64) -> Result<bool> {
        Ok(self.inner.get()?.cancel(self.listener(listener)?))
    }

    /// Lets go of a connection. Says how many listeners went with it.
    pub fn drop_sink(&self, sink: u64) -> Result<usize> {
        Ok(self.inner.get()?.drop_sink(self.sink(sink)?))
    }

    /// How many listeners there are.
    pub fn listeners(&self) -> usize {
        self.inner.get().map_or(0, tidings::Outbox::listeners)
    }

    /// What there is to do, about `max` at most.
    pub fn take(&self, max: u32) -> Result<Vec<Task>> {
        let parcels = self.inner.get()?.take(max as usize);
        Ok(parcels.into_iter().map(task).collect())
    }

    /// So many of a connection's frames were written. `false`: too late, it has failed or gone.
    pub fn written(&self, sink: u64, frames: u32) -> Result<bool> {
        Ok(self.inner.get()?.written(self.sink(sink)?, frames))
    }

    /// A connection did not take a frame. Says how many listeners went with it.
    pub fn broke(&self, sink: u64) -> Result<usize> {
        Ok(self.inner.get()?.broke(self.sink(sink)?))
    }

    /// Waits until there is something to take; answers [`Answer::Done`]. One at a time.
    pub fn ready(&self) -> Started {
        if let Err(error) = self.inner.get() {
            return Started::Ready(Err(error));
        }
        let outbox = Arc::clone(&self.inner);
        start(Cancel::Drop, async move {
            outbox.ready().await?;
            Ok(Answer::Done)
        })
    }
}

fn task(parcel: Parcel) -> Task {
    match parcel {
        Parcel::Frame { sink, listener, frame, tag } => Task {
            sink: sink.to_numbers().1,
            listener: listener.to_number(),
            method: Some(frame.method()),
            params: frame.params(tag.as_ref()),
        },
        Parcel::Finish { sink, listener } => {
            Task { sink: sink.to_numbers().1, listener: listener.to_number(), method: None, params: None }
        }
    }
}

/// The progress of one request.
#[derive(Debug)]
pub struct Progress {
    inner: notice::Progress,
}

impl Progress {
    /// For a request that brought that token, or none.
    pub fn new(token: Option<RequestId>, min_interval: Duration) -> Self {
        let min_interval_ms = u64::try_from(min_interval.as_millis()).unwrap_or(u64::MAX);
        Self { inner: notice::Progress::new(token, ProgressRules { min_interval_ms }) }
    }

    /// The parameters of the notification, as JSON text; or why there is none, as a name.
    pub fn report(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
        now: Duration,
    ) -> Result<String, &'static str> {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let frame = self.inner.report(progress, total, message, now_ms).map_err(NoProgress::as_str)?;
        Ok(frame.params(None).unwrap_or_default())
    }

    /// The request has its answer.
    pub fn end(&mut self) {
        self.inner.end();
    }
}

/// Whether a log message of that level is sent; see the core's rule.
///
/// # Errors
/// `invalid_argument` for what is no level.
pub fn log_passes(per_request: bool, asked: Option<&str>, level: &str) -> Result<bool> {
    let parse = |name| LogLevel::parse(name).map_err(|error| Error::new(ErrorCode::InvalidArgument, error.to_string()));
    Ok(notice::log_passes(per_request, asked.map(parse).transpose()?, parse(level)?))
}
