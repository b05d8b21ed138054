//! The hub.

use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use tidings_bridge::{self as bridge, Begin};

use crate::call::{Room, request_id, task_terms};
use crate::convert::{Result, Text, Told, begin, bytes, entry, number};
use crate::fanout::{FailedSink, Fanout, Outbox};
use crate::outlet::{Offer, Outlet};
use crate::stream::{Stream, Tail, Writer};

/// What is kept, of each stream and of all.
#[napi(object, object_to_js = false)]
pub struct Retention {
    /// Events.
    pub max_events: Option<f64>,
    /// Bytes.
    pub max_bytes: Option<f64>,
    /// Milliseconds since the append.
    pub max_age_ms: Option<f64>,
    /// Milliseconds since the close.
    pub after_close_ms: Option<f64>,
    /// Events of all streams.
    pub max_total_events: Option<f64>,
    /// Bytes of all streams.
    pub max_total_bytes: Option<f64>,
}

/// Options of a hub; what is absent leaves the core's default.
#[napi(object, object_to_js = false)]
pub struct Settings {
    /// Blocks of addresses (CIDR) that webhooks may go to although they are not public.
    pub allow_networks: Option<Vec<String>>,
    /// Host names that the operator vouches for.
    pub allow_hosts: Option<Vec<String>>,
    /// Accepts `http` endpoints too.
    pub allow_http: Option<bool>,
    /// Ports besides 443.
    pub allow_ports: Option<Vec<f64>>,
    /// `http://[user:password@]host:port`: the proxy through which webhooks leave.
    pub proxy: Option<String>,
    /// `whsec_…`: signs webhooks of routes that bring no secret.
    pub default_secret: Option<String>,
    /// The one before it; webhooks are signed with both while receivers change over.
    pub previous_secret: Option<String>,
    /// Refuses routes that would go unsigned.
    pub require_secret: Option<bool>,
    /// `challenge`, `always` or `address`: what an endpoint has to show before its first delivery.
    pub verify: Option<String>,
    /// Attempts in flight at a time.
    pub concurrency: Option<f64>,
    /// The same at one endpoint.
    pub endpoint_concurrency: Option<f64>,
    /// Attempts a second at one endpoint; 0 sets no limit.
    pub endpoint_rate: Option<f64>,
    /// Attempts a second at one host; 0 sets no limit.
    pub host_rate: Option<f64>,
    /// Unfinished deliveries of one principal.
    pub max_pending: Option<f64>,
    /// `drop` or `annotate`.
    pub undeliverable: Option<String>,
    /// 32 bytes that seal secrets at rest.
    pub secret_key: Option<Buffer>,
    /// What each stream keeps.
    pub retention: Option<Retention>,
    /// Header names that routes may set besides `authorization` and `x-*`.
    pub header_names: Option<Vec<String>>,
    /// JSON Pointers and names of members: what is taken out of every event and outcome before anything is kept.
    pub redact: Option<Vec<String>>,
    /// How long one attempt may take.
    pub attempt_timeout_ms: Option<f64>,
    /// After how long a silent worker counts as gone.
    pub worker_lease_ms: Option<f64>,
    /// The largest webhook body that carries the whole outcome.
    pub max_body_bytes: Option<f64>,
    /// Bytes of events that may wait for the store.
    pub buffer_bytes: Option<f64>,
}

impl Settings {
    fn plain(self) -> bridge::Result<bridge::Settings> {
        let time = |name, value: Option<f64>| value.map(|value| bridge::milliseconds(name, value)).transpose();
        let count = |name, value: Option<f64>| value.map(|value| bridge::whole_number(name, value)).transpose();
        let small = |name: &'static str, value: Option<f64>| {
            let number = count(name, value)?.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
            number.map(|number| bridge::count(name, number)).transpose()
        };
        let port = |value| {
            let port = bridge::whole_number("allowPorts", value)?;
            bridge::port("allowPorts", i64::try_from(port).unwrap_or(i64::MAX))
        };
        let retention = match self.retention {
            Some(keep) => Some(bridge::Keep {
                max_events: count("retention.maxEvents", keep.max_events)?,
                max_bytes: count("retention.maxBytes", keep.max_bytes)?,
                max_age: time("retention.maxAgeMs", keep.max_age_ms)?,
                after_close: time("retention.afterCloseMs", keep.after_close_ms)?,
                max_total_events: count("retention.maxTotalEvents", keep.max_total_events)?,
                max_total_bytes: count("retention.maxTotalBytes", keep.max_total_bytes)?,
            }),
            None => None,
        };
        Ok(bridge::Settings {
            allow_networks: self.allow_networks.unwrap_or_default(),
            allow_hosts: self.allow_hosts.unwrap_or_default(),
            allow_http: self.allow_http.unwrap_or_default(),
            allow_ports: self.allow_ports.unwrap_or_default().into_iter().map(port).collect::<bridge::Result<_>>()?,
            proxy: self.proxy,
            default_secret: self.default_secret,
            previous_secret: self.previous_secret,
            require_secret: self.require_secret.unwrap_or_default(),
            verify: self.verify,
            concurrency: small("concurrency", self.concurrency)?,
            endpoint_concurrency: small("endpointConcurrency", self.endpoint_concurrency)?,
            endpoint_rate: small("endpointRate", self.endpoint_rate)?,
            host_rate: small("hostRate", self.host_rate)?,
            max_pending: small("maxPending", self.max_pending)?,
            undeliverable: self.undeliverable,
            secret_key: self.secret_key.map(|key| key.to_vec()),
            retention,
            header_names: self.header_names.unwrap_or_default(),
            redact: self.redact.unwrap_or_default(),
            attempt_timeout: time("attemptTimeoutMs", self.attempt_timeout_ms)?,
            worker_lease: time("workerLeaseMs", self.worker_lease_ms)?,
            max_body_bytes: count("maxBodyBytes", self.max_body_bytes)?,
            buffer_bytes: count("bufferBytes", self.buffer_bytes)?,
        })
    }
}

/// A tool call that asks to be watched.
#[napi(object, object_to_js = false)]
pub struct BeginCall {
    /// The raw JSON text of `notificationConfig`, if it has one.
    pub config: Option<Text>,
    /// The route types that this server offers.
    pub route_types: Vec<String>,
    /// Who asks.
    pub principal: String,
    /// The MCP session, where there is one.
    pub session: Option<String>,
    /// The host's own name for the connection of the calling session.
    pub peer: Option<String>,
    /// The names that routes of type `message` and `callback` may have.
    pub open: Vec<String>,
    /// The JSON-RPC id of the request, as JSON text.
    pub request_id: String,
    /// The tool's name.
    pub tool: String,
    /// The server's time limit.
    pub timeout_ms: Option<f64>,
    /// It is a task from the start, for so long after its end.
    pub task_ttl_ms: Option<f64>,
    /// Only its principal may ask for the task.
    pub task_bound: bool,
    /// The trace that the call belongs to (W3C).
    pub traceparent: Option<String>,
}

/// A config to be judged as that of a call would be.
#[napi(object, object_to_js = false)]
pub struct CheckConfig {
    /// The raw JSON text.
    pub config: Text,
    /// The route types that the server offers.
    pub route_types: Vec<String>,
    /// The names that routes of type `message` and `callback` may have.
    pub open: Vec<String>,
    /// The calling session has a connection that outlives the request.
    pub peer: bool,
}

/// The hub.
#[napi]
pub struct Hub {
    pub(crate) inner: bridge::Hub,
}

#[napi]
impl Hub {
    /// A hub at `url`; nothing is opened yet.
    #[napi(constructor)]
    pub fn new(url: String, settings: Settings) -> Result<Self> {
        entry("Hub", || Ok(Self { inner: bridge::Hub::new(&url, settings.plain()?)? }))
    }

    /// Opens the store now.
    #[napi]
    pub fn open(&self) -> Result<()> {
        entry("Hub.open", || self.inner.open())
    }

    /// A writer of a new stream.
    #[napi]
    pub fn new_writer(&self, scope: String, name: String) -> Result<Writer> {
        entry("Hub.newWriter", || self.inner.new_writer(&scope, &name)).map(Writer::new)
    }

    /// A tail after a cursor.
    #[napi]
    pub fn resume(&self, scope: String, cursor: String) -> Result<Tail> {
        entry("Hub.resume", || self.inner.resume(&scope, &cursor)).map(Tail::new)
    }

    /// The stream of that key.
    #[napi]
    pub fn stream(&self, scope: String, name: String) -> Result<Stream> {
        entry("Hub.stream", || self.inner.stream(&scope, &name)).map(Stream::new)
    }

    /// Begins a watched call.
    #[napi(ts_return_type = "Call | Pending")]
    pub fn begin_call(&self, call: BeginCall) -> Result<Told> {
        begin("Hub.beginCall", || {
            let timeout = call.timeout_ms.map(|value| bridge::milliseconds("timeoutMs", value)).transpose()?;
            let task = call.task_ttl_ms.map(|ttl| task_terms(ttl, call.task_bound)).transpose()?;
            Ok(self.inner.begin_call(Begin {
                config: call.config.map(bytes),
                route_types: call.route_types,
                principal: call.principal,
                session: call.session,
                peer: call.peer,
                open: call.open,
                request_id: request_id(&call.request_id)?,
                tool: call.tool,
                timeout,
                task,
                traceparent: call.traceparent,
            }))
        })
    }

    /// Judges a config without a call; the triggers that nothing here fires.
    #[napi]
    pub fn check_config(&self, check: CheckConfig) -> Result<Vec<String>> {
        let begin = Begin {
            config: Some(bytes(check.config)),
            route_types: check.route_types,
            principal: String::new(),
            session: None,
            peer: check.peer.then(String::new),
            open: check.open,
            request_id: 0_i64.into(),
            tool: String::new(),
            timeout: None,
            task: None,
            traceparent: None,
        };
        entry("Hub.checkConfig", || self.inner.check_config(&begin))
    }

    /// The task of that id, for the principal who asks.
    #[napi]
    pub fn task(&self, id: String, asker: String) -> Result<Option<Task>> {
        let found = entry("Hub.task", || self.inner.task(&id, &asker))?;
        Ok(found.map(|bridge::Task { status, json, scope, name }| Task {
            status: status.to_owned(),
            json,
            scope,
            name,
        }))
    }

    /// Cancels the task of that id.
    #[napi(ts_return_type = "boolean | Pending")]
    pub fn cancel_task(&self, id: String, asker: String) -> Result<Told> {
        begin("Hub.cancelTask", || Ok(self.inner.cancel_task(id, asker)))
    }

    /// Gives a task its client's answers.
    #[napi(ts_return_type = "boolean | Pending")]
    pub fn answer_task(&self, id: String, asker: String, responses: Text) -> Result<Told> {
        begin("Hub.answerTask", || Ok(self.inner.answer_task(id, asker, bytes(responses))))
    }

    /// Cancels the call of that id.
    #[napi(ts_return_type = "boolean | Pending")]
    pub fn cancel_call(&self, id: String, asker: String) -> Result<Told> {
        begin("Hub.cancelCall", || Ok(self.inner.cancel_call(id, asker)))
    }

    /// Whether this process offers that place now.
    #[napi]
    pub fn offers(&self, offer: Offer) -> Result<bool> {
        entry("Hub.offers", || self.inner.offers(&offer.plain()?))
    }

    /// Offers a place that takes deliveries.
    #[napi]
    pub fn outlet(&self, offer: Offer) -> Result<Outlet> {
        entry("Hub.outlet", || self.inner.outlet(offer.plain()?)).map(Outlet::new)
    }

    /// A place where this thread takes frames for its connections.
    #[napi]
    pub fn outbox(&self) -> Result<Outbox> {
        entry("Hub.outbox", || self.inner.outbox()).map(Outbox::new)
    }

    /// Tells everybody who asked for it that something has changed.
    #[napi]
    pub fn notify(&self, kinds: Vec<String>, name: Option<String>, audience: Option<String>) -> Result<Fanout> {
        entry("Hub.notify", || self.inner.notify(&kinds, name.as_deref(), audience.as_deref())).map(Fanout::from)
    }

    /// The connections that have failed since this was last asked.
    #[napi]
    pub fn failed_sinks(&self) -> Result<Vec<FailedSink>> {
        let failed = entry("Hub.failedSinks", || self.inner.failed_sinks())?;
        Ok(failed.into_iter().map(|(outbox, sink)| FailedSink { outbox, sink: number(sink) }).collect())
    }

    /// Deliveries of one principal or all, of one call or all, in one state or any.
    #[napi]
    pub fn deliveries(
        &self,
        principal: Option<String>,
        call_id: Option<String>,
        state: Option<String>,
        most: f64,
    ) -> Result<Vec<Delivery>> {
        let found = entry("Hub.deliveries", || {
            self.inner.deliveries(principal.as_deref(), call_id.as_deref(), state.as_deref(), limit(most)?)
        })?;
        Ok(found.into_iter().map(Delivery::from).collect())
    }

    /// Waits until everything that was appended before is committed.
    #[napi(ts_return_type = "undefined | Pending")]
    pub fn flush(&self, durability: String) -> Result<Told> {
        begin("Hub.flush", || Ok(self.inner.flush(bridge::durability(&durability)?)))
    }

    /// Room for one call that goes on without its request.
    #[napi]
    pub fn room(&self, counted_as: String, calls: u32) -> Result<Option<Room>> {
        entry("Hub.room", || Ok(self.inner.room(&counted_as, calls).map(Room::new)))
    }

    /// What the hub has done and holds.
    #[napi]
    pub fn stats(&self) -> Result<Stats> {
        let stats = entry("Hub.stats", || Ok(self.inner.stats()))?;
        let bridge::Stats { groups, events, lost, refused, failures, failing, .. } = stats;
        let bridge::Stats { attempts, delivered, dead, expired, superseded, in_flight, .. } = stats;
        Ok(Stats {
            groups: number(groups),
            events: number(events),
            lost: number(lost),
            refused: number(refused),
            failures: number(failures),
            failing,
            attempts: number(attempts),
            delivered: number(delivered),
            dead: number(dead),
            expired: number(expired),
            superseded: number(superseded),
            in_flight: number(in_flight),
        })
    }

    /// Ends calls, commits what is buffered, closes the store.
    #[napi(ts_return_type = "boolean | Pending")]
    pub fn close(&self, timeout_ms: f64) -> Result<Told> {
        begin("Hub.close", || Ok(self.inner.close(bridge::milliseconds("timeoutMs", timeout_ms)?)))
    }
}

/// Closes every hub of this process; blocks at most about so long.
#[napi]
pub fn close_all(timeout_ms: f64) -> Result<bool> {
    entry("closeAll", || Ok(bridge::close_all(bridge::milliseconds("timeoutMs", timeout_ms)?)))
}

/// A task as it was when it was asked for.
#[napi(object, object_from_js = false)]
pub struct Task {
    /// `working`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// SEP-2663's `DetailedTask`, as JSON text.
    pub json: String,
    /// The scope of the stream of its events.
    pub scope: String,
    /// The stream's name there.
    pub name: String,
}

/// One delivery, for people.
#[napi(object, object_from_js = false)]
pub struct Delivery {
    /// Its own id.
    pub id: String,
    /// The firing's id: the `webhook-id`.
    pub event_id: String,
    /// The call it is about, if it is about one.
    pub call_id: Option<String>,
    /// On whose behalf.
    pub principal: String,
    /// The trigger that fired.
    pub trigger: String,
    /// The route's id.
    pub route: String,
    /// `pending`, `leased`, `retrying`, `delivered`, `dead`, `expired` or `superseded`.
    pub state: String,
    /// Attempts begun.
    pub attempts: u32,
    /// The category of the last failure, never the receiver's own text.
    pub last_error: Option<String>,
}

impl From<bridge::Delivery> for Delivery {
    fn from(delivery: bridge::Delivery) -> Self {
        let bridge::Delivery { id, event_id, call_id, principal, trigger, route, state, attempts, last_error } =
            delivery;
        Self { id, event_id, call_id, principal, trigger, route, state: state.to_owned(), attempts, last_error }
    }
}

/// What a hub has done and holds, at one moment.
#[napi(object, object_from_js = false)]
pub struct Stats {
    /// Groups committed by this process.
    pub groups: f64,
    /// Events of this process's writers committed.
    pub events: f64,
    /// Events given up while the store was down.
    pub lost: f64,
    /// Events dropped because another writer had claimed the stream or it was closed.
    pub refused: f64,
    /// Groups that failed.
    pub failures: f64,
    /// The last group failed: events wait in memory.
    pub failing: bool,
    /// Attempts at deliveries that ended.
    pub attempts: f64,
    /// Deliveries that ended here as `delivered`.
    pub delivered: f64,
    /// The same as `dead`.
    pub dead: f64,
    /// The same as `expired`.
    pub expired: f64,
    /// The same as `superseded`.
    pub superseded: f64,
    /// Attempts at webhooks under way.
    pub in_flight: f64,
}

/// How many are asked for.
pub(crate) fn limit(most: f64) -> bridge::Result<u32> {
    bridge::limit(i64::try_from(bridge::whole_number("limit", most)?).unwrap_or(i64::MAX))
}
