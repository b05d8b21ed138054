//! The entry point.

use std::sync::Arc;
use std::time::Duration;

use tidings_bridge as bridge;

use crate::entry::{answer, complete, done, entry};
use crate::error::TidingsError;
use crate::stream::{Durability, Stream, Tail, Writer};

/// What is kept, of each stream and of all; none sets no limit.
pub type Retention = bridge::Keep;

/// What is kept, of each stream and of all; none sets no limit.
#[uniffi::remote(Record)]
pub struct Retention {
    /// Events of each stream.
    #[uniffi(default = None)]
    pub max_events: Option<u64>,
    /// Bytes of each stream.
    #[uniffi(default = None)]
    pub max_bytes: Option<u64>,
    /// The age of an event.
    #[uniffi(default = None)]
    pub max_age: Option<Duration>,
    /// How long a stream stays after its close.
    #[uniffi(default = None)]
    pub after_close: Option<Duration>,
    /// Events of all streams.
    #[uniffi(default = None)]
    pub max_total_events: Option<u64>,
    /// Bytes of all streams.
    #[uniffi(default = None)]
    pub max_total_bytes: Option<u64>,
}

/// Options of a hub; what is not given leaves the core's default.
pub type HubOptions = bridge::Settings;

/// Options of a hub; what is not given leaves the core's default.
#[uniffi::remote(Record)]
pub struct HubOptions {
    /// Blocks of addresses (`127.0.0.0/8`) that webhooks may go to although they are not public.
    #[uniffi(default = [])]
    pub allow_networks: Vec<String>,
    /// Host names that the operator vouches for.
    #[uniffi(default = [])]
    pub allow_hosts: Vec<String>,
    /// Accepts `http` endpoints too.
    #[uniffi(default = false)]
    pub allow_http: bool,
    /// Ports besides 443.
    #[uniffi(default = [])]
    pub allow_ports: Vec<u16>,
    /// `http://[user:password@]host:port`: the proxy through which webhooks leave.
    #[uniffi(default = None)]
    pub proxy: Option<String>,
    /// `whsec_…`: signs webhooks of routes that bring no secret.
    #[uniffi(default = None)]
    pub default_secret: Option<String>,
    /// The one before it; webhooks are signed with both while receivers change over.
    #[uniffi(default = None)]
    pub previous_secret: Option<String>,
    /// Refuses routes that would go unsigned.
    #[uniffi(default = false)]
    pub require_secret: bool,
    /// `challenge`, `always` or `address`: what an endpoint has to show before its first delivery.
    #[uniffi(default = None)]
    pub verify: Option<String>,
    /// Attempts in flight at a time. One that takes longer than half a second counts no more where it would keep others
    /// waiting; of those there are at most as many again.
    #[uniffi(default = None)]
    pub concurrency: Option<u32>,
    /// The same at one endpoint.
    #[uniffi(default = None)]
    pub endpoint_concurrency: Option<u32>,
    /// Attempts a second at one endpoint; 0 sets no limit.
    #[uniffi(default = None)]
    pub endpoint_rate: Option<u32>,
    /// Attempts a second at one host; 0 sets no limit.
    #[uniffi(default = None)]
    pub host_rate: Option<u32>,
    /// Unfinished deliveries of one principal.
    #[uniffi(default = None)]
    pub max_pending: Option<u32>,
    /// `drop` or `annotate`: what becomes of a firing that nobody could be told of.
    #[uniffi(default = None)]
    pub undeliverable: Option<String>,
    /// 32 bytes that seal secrets at rest.
    #[uniffi(default = None)]
    pub secret_key: Option<Vec<u8>>,
    /// What is kept, of each stream and of all.
    #[uniffi(default = None)]
    pub retention: Option<Retention>,
    /// Header names that routes may set besides `authorization` and `x-*`.
    #[uniffi(default = [])]
    pub header_names: Vec<String>,
    /// JSON Pointers and names of members: what is taken out of every event and outcome before anything is kept.
    #[uniffi(default = [])]
    pub redact: Vec<String>,
    /// How long one attempt may take.
    #[uniffi(default = None)]
    pub attempt_timeout: Option<Duration>,
    /// After how long a silent worker counts as gone.
    #[uniffi(default = None)]
    pub worker_lease: Option<Duration>,
    /// The largest webhook body that carries the whole outcome.
    #[uniffi(default = None)]
    pub max_body_bytes: Option<u64>,
    /// Bytes of events that may wait for the store.
    #[uniffi(default = None)]
    pub buffer_bytes: Option<u64>,
}

/// What a hub has done and holds, at one moment.
#[derive(Clone, Copy, Debug, uniffi::Record)]
pub struct Stats {
    /// Groups committed by this process.
    pub groups: u64,
    /// Events of this process's writers committed.
    pub events: u64,
    /// Events given up while the store was down.
    pub lost: u64,
    /// Events dropped because another writer had claimed the stream or it was closed.
    pub refused: u64,
    /// Groups that failed.
    pub failures: u64,
    /// Ends of calls that came after another end and were dropped.
    pub late: u64,
    /// The last group failed: events wait in memory.
    pub failing: bool,
    /// Bytes of events that wait for the store.
    pub buffered: u64,
    /// Attempts at deliveries that ended.
    pub attempts: u64,
    /// Deliveries that ended here as `delivered`.
    pub delivered: u64,
    /// The same as `dead`.
    pub dead: u64,
    /// The same as `expired`.
    pub expired: u64,
    /// The same as `superseded`: the next route took over.
    pub superseded: u64,
    /// Attempts at webhooks under way.
    pub in_flight: u64,
}

impl From<bridge::Stats> for Stats {
    fn from(stats: bridge::Stats) -> Self {
        let bridge::Stats { groups, events, lost, refused, failures, late, failing, buffered, .. } = stats;
        let bridge::Stats { attempts, delivered, dead, expired, superseded, in_flight, .. } = stats;
        Self {
            groups,
            events,
            lost,
            refused,
            failures,
            late,
            failing,
            buffered,
            attempts,
            delivered,
            dead,
            expired,
            superseded,
            in_flight,
        }
    }
}

/// One store, and the threads that serve it.
#[derive(uniffi::Object)]
pub struct Hub {
    pub(crate) inner: bridge::Hub,
}

#[uniffi::export]
impl Hub {
    /// A hub at `memory:`, `sqlite:PATH` or `sqlite:///PATH`. Nothing is opened before the first use.
    #[uniffi::constructor(default(options = None))]
    pub fn new(url: &str, options: Option<HubOptions>) -> Result<Arc<Self>, TidingsError> {
        entry("Hub", || Ok(Arc::new(Self { inner: bridge::Hub::new(url, options.unwrap_or_default())? })))
    }

    /// Opens the store now. Blocks.
    pub fn open(&self) -> Result<(), TidingsError> {
        entry("Hub.open", || self.inner.open())
    }

    /// The stream (scope, name).
    pub fn stream(&self, scope: &str, name: &str) -> Result<Arc<Stream>, TidingsError> {
        entry("Hub.stream", || Ok(Stream::new(self.inner.stream(scope, name)?)))
    }

    /// A writer of a new stream, at once. The first use of the hub opens it, which blocks.
    pub fn new_writer(&self, scope: &str, name: &str) -> Result<Arc<Writer>, TidingsError> {
        entry("Hub.newWriter", || Ok(Writer::new(self.inner.new_writer(scope, name)?)))
    }

    /// A tail after a cursor, if its stream belongs to `scope`. Blocks for a read.
    pub fn resume(&self, scope: &str, cursor: &str) -> Result<Arc<Tail>, TidingsError> {
        entry("Hub.resume", || Ok(Tail::new(self.inner.resume(scope, cursor)?)))
    }

    /// Waits until everything that was appended before is committed.
    #[uniffi::method(default(durability = None))]
    pub async fn flush(&self, durability: Option<Durability>) -> Result<(), TidingsError> {
        answer("Hub.flush", || Ok(self.inner.flush(durability.unwrap_or_default())), done).await
    }

    /// What the hub has done and holds.
    pub fn stats(&self) -> Result<Stats, TidingsError> {
        entry("Hub.stats", || Ok(self.inner.stats().into()))
    }

    /// Ends calls, commits what is buffered and closes the store, within about that time; whether all was done.
    pub async fn shut_down(&self, timeout: Duration) -> Result<bool, TidingsError> {
        answer("Hub.shutDown", || Ok(self.inner.close(timeout)), complete).await
    }
}
