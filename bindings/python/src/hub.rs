//! The hub.

use std::time::Duration;

use pyo3::prelude::*;
use tidings_bridge::{self as bridge, Begin, Keep, Offer, Retention, Settings, seconds};

use crate::call::{Room, request_id, task_terms};
use crate::convert::{Detached, begin, blocking, entry, text};
use crate::fanout::{Fanout, Outbox};
use crate::outlet::Outlet;
use crate::stream::{Stream, Tail, WriterHandle};

/// The hub.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Hub {
    inner: Detached<bridge::Hub>,
}

/// What is kept, as Python gives it: of each stream events, bytes, seconds, seconds after close; of all events, bytes.
type PlainRetention = (Option<i64>, Option<i64>, Option<f64>, Option<f64>, Option<i64>, Option<i64>);

#[pymethods]
impl Hub {
    #[new]
    #[pyo3(signature = (url, *, allow_networks, allow_hosts, allow_http, allow_ports, proxy, default_secret, previous_secret,
        require_secret, verify, concurrency, endpoint_concurrency, endpoint_rate, host_rate, max_pending, undeliverable, secret_key, retention, header_names, redact, attempt_timeout, worker_lease, max_body_bytes, buffer_bytes))]
    #[allow(clippy::too_many_arguments, reason = "they are Python's keywords, each one setting")]
    fn new(
        py: Python<'_>,
        url: &str,
        allow_networks: Vec<String>,
        allow_hosts: Vec<String>,
        allow_http: bool,
        allow_ports: Vec<i64>,
        proxy: Option<String>,
        default_secret: Option<String>,
        previous_secret: Option<String>,
        require_secret: bool,
        verify: Option<String>,
        concurrency: Option<i64>,
        endpoint_concurrency: Option<i64>,
        endpoint_rate: Option<i64>,
        host_rate: Option<i64>,
        max_pending: Option<i64>,
        undeliverable: Option<String>,
        secret_key: Option<Vec<u8>>,
        retention: Option<PlainRetention>,
        header_names: Vec<String>,
        redact: Vec<String>,
        attempt_timeout: Option<f64>,
        worker_lease: Option<f64>,
        max_body_bytes: Option<i64>,
        buffer_bytes: Option<i64>,
    ) -> PyResult<Self> {
        entry(py, "Hub", || {
            let time = |name, value: Option<f64>| value.map(|value| seconds(name, value)).transpose();
            let number = |name, value: Option<i64>| value.map(|value| bridge::number(name, value)).transpose();
            let count = |name, value: Option<i64>| value.map(|value| bridge::count(name, value)).transpose();
            let retention = match retention {
                Some((max_events, max_bytes, max_age, after_close, max_total_events, max_total_bytes)) => Some(Keep {
                    max_events: number("retention.max_events", max_events)?,
                    max_bytes: number("retention.max_bytes", max_bytes)?,
                    max_age: time("retention.max_age", max_age)?,
                    after_close: time("retention.after_close", after_close)?,
                    max_total_events: number("retention.max_total_events", max_total_events)?,
                    max_total_bytes: number("retention.max_total_bytes", max_total_bytes)?,
                }),
                None => None,
            };
            let settings = Settings {
                allow_networks,
                allow_hosts,
                allow_http,
                allow_ports: allow_ports
                    .into_iter()
                    .map(|port| bridge::port("allow_ports", port))
                    .collect::<Result<_, _>>()?,
                proxy,
                default_secret,
                previous_secret,
                require_secret,
                verify,
                concurrency: count("concurrency", concurrency)?,
                endpoint_concurrency: count("endpoint_concurrency", endpoint_concurrency)?,
                endpoint_rate: count("endpoint_rate", endpoint_rate)?,
                host_rate: count("host_rate", host_rate)?,
                max_pending: count("max_pending", max_pending)?,
                undeliverable,
                secret_key,
                retention,
                header_names,
                redact,
                attempt_timeout: time("attempt_timeout", attempt_timeout)?,
                worker_lease: time("worker_lease", worker_lease)?,
                max_body_bytes: number("max_body_bytes", max_body_bytes)?,
                buffer_bytes: number("buffer_bytes", buffer_bytes)?,
            };
            Ok(Self { inner: Detached::new(bridge::Hub::new(url, settings)?) })
        })
    }

    fn open(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, "Hub.open", || self.inner.open())
    }

    fn new_writer(&self, py: Python<'_>, scope: &str, name: &str) -> PyResult<WriterHandle> {
        blocking(py, "Hub.new_writer", || self.inner.new_writer(scope, name)).map(WriterHandle::new)
    }

    fn resume(&self, py: Python<'_>, scope: &str, cursor: &str) -> PyResult<Tail> {
        blocking(py, "Hub.resume", || self.inner.resume(scope, cursor)).map(Tail::new)
    }

    fn stream(&self, py: Python<'_>, scope: &str, name: &str) -> PyResult<Stream> {
        blocking(py, "Hub.stream", || self.inner.stream(scope, name)).map(Stream::new)
    }

    #[allow(clippy::too_many_arguments, reason = "they are Python's keywords")]
    #[pyo3(signature = (*, config, route_types, principal, session, peer, open, request_id, tool, timeout, task, traceparent))]
    fn begin_call<'py>(
        &self,
        py: Python<'py>,
        config: Option<&Bound<'py, PyAny>>,
        route_types: Vec<String>,
        principal: String,
        session: Option<String>,
        peer: Option<String>,
        open: Vec<String>,
        request_id: &Bound<'py, PyAny>,
        tool: String,
        timeout: Option<f64>,
        task: Option<(f64, bool)>,
        traceparent: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let config = config.map(|config| Ok::<_, PyErr>(text("config", config)?.to_vec())).transpose()?;
        let request_id = self::request_id(request_id)?;
        begin(py, "Hub.begin_call", || {
            let timeout = timeout.map(|timeout| seconds("timeout", timeout)).transpose()?;
            let task = task.map(|(ttl, bound)| task_terms(ttl, bound)).transpose()?;
            let begin = Begin {
                config,
                route_types,
                principal,
                session,
                peer,
                open,
                request_id,
                tool,
                timeout,
                task,
                traceparent,
            };
            Ok(self.inner.begin_call(begin))
        })
    }

    fn cancel_call<'py>(&self, py: Python<'py>, id: String, asker: String) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Hub.cancel_call", || Ok(self.inner.cancel_call(id, asker)))
    }

    fn check_config(
        &self,
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        route_types: Vec<String>,
        open: Vec<String>,
        has_peer: bool,
    ) -> PyResult<Vec<String>> {
        let begin = Begin {
            config: Some(text("config", config)?.to_vec()),
            route_types,
            principal: String::new(),
            session: None,
            peer: has_peer.then(String::new),
            open,
            request_id: 0_i64.into(),
            tool: String::new(),
            timeout: None,
            task: None,
            traceparent: None,
        };
        entry(py, "Hub.check_config", || self.inner.check_config(&begin))
    }

    fn offers(&self, py: Python<'_>, route_type: String, name: Option<String>) -> PyResult<bool> {
        let offer = Offer { route_type, name, peer: None, limit: None, timeout: None };
        blocking(py, "Hub.offers", || self.inner.offers(&offer))
    }

    fn outlet(
        &self,
        py: Python<'_>,
        route_type: String,
        name: Option<String>,
        peer: Option<String>,
        limit: Option<i64>,
        timeout: Option<f64>,
    ) -> PyResult<Outlet> {
        let outlet = blocking(py, "Hub.outlet", || {
            let limit = limit.map(bridge::limit).transpose()?;
            let timeout = timeout.map(|timeout| seconds("timeout", timeout)).transpose()?;
            self.inner.outlet(Offer { route_type, name, peer, limit, timeout })
        })?;
        Ok(Outlet::new(outlet))
    }

    fn task(&self, py: Python<'_>, id: &str, asker: &str) -> PyResult<Option<Task>> {
        Ok(blocking(py, "Hub.task", || self.inner.task(id, asker))?.map(Task::from))
    }

    fn cancel_task<'py>(&self, py: Python<'py>, id: String, asker: String) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Hub.cancel_task", || Ok(self.inner.cancel_task(id, asker)))
    }

    fn answer_task<'py>(
        &self,
        py: Python<'py>,
        id: String,
        asker: String,
        responses: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let responses = text("responses", responses)?.to_vec();
        begin(py, "Hub.answer_task", || Ok(self.inner.answer_task(id, asker, responses)))
    }

    fn outbox(&self, py: Python<'_>) -> PyResult<Outbox> {
        blocking(py, "Hub.outbox", || self.inner.outbox()).map(Outbox::new)
    }

    fn notify(
        &self,
        py: Python<'_>,
        kinds: Vec<String>,
        name: Option<&str>,
        audience: Option<&str>,
    ) -> PyResult<Fanout> {
        blocking(py, "Hub.notify", || self.inner.notify(&kinds, name, audience)).map(Fanout::from)
    }

    fn failed_sinks(&self, py: Python<'_>) -> PyResult<Vec<(u32, u64)>> {
        blocking(py, "Hub.failed_sinks", || self.inner.failed_sinks())
    }

    fn deliveries(
        &self,
        py: Python<'_>,
        principal: Option<&str>,
        call_id: Option<&str>,
        state: Option<&str>,
        limit: i64,
    ) -> PyResult<Vec<Delivery>> {
        let found =
            blocking(py, "Hub.deliveries", || self.inner.deliveries(principal, call_id, state, bridge::limit(limit)?))?;
        Ok(found.into_iter().map(Delivery::from).collect())
    }

    fn room(&self, py: Python<'_>, counted_as: &str, calls: u32) -> PyResult<Option<Room>> {
        entry(py, "Hub.room", || Ok(self.inner.room(counted_as, calls).map(Room::new)))
    }

    fn detached(&self, py: Python<'_>) -> PyResult<u32> {
        entry(py, "Hub.detached", || Ok(self.inner.detached()))
    }

    fn stats(&self, py: Python<'_>) -> PyResult<Stats> {
        blocking(py, "Hub.stats", || Ok(self.inner.stats())).map(Stats::from)
    }

    fn flush<'py>(&self, py: Python<'py>, durability: &str) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Hub.flush", || Ok(self.inner.flush(bridge::durability(durability)?)))
    }

    fn attempts(&self, py: Python<'_>, id: String) -> PyResult<Vec<Option<String>>> {
        blocking(py, "Hub.attempts", || self.inner.attempts(&id))
    }

    fn delivery_body(&self, py: Python<'_>, id: String) -> PyResult<Option<Vec<u8>>> {
        blocking(py, "Hub.delivery_body", || self.inner.delivery_body(&id))
    }

    fn send_again(&self, py: Python<'_>, id: String) -> PyResult<String> {
        blocking(py, "Hub.send_again", || self.inner.send_again(&id))
    }

    fn purge(
        &self,
        py: Python<'_>,
        id: Option<String>,
        principal: Option<String>,
        state: Option<String>,
    ) -> PyResult<u64> {
        blocking(py, "Hub.purge", || self.inner.purge(id.as_deref(), principal.as_deref(), state.as_deref()))
    }

    fn endpoints(&self, py: Python<'_>, principal: Option<String>, limit: i64) -> PyResult<Vec<Endpoint>> {
        let found =
            blocking(py, "Hub.endpoints", || self.inner.endpoints(principal.as_deref(), bridge::limit(limit)?))?;
        Ok(found.into_iter().map(Endpoint::from).collect())
    }

    fn set_endpoint(&self, py: Python<'_>, key: String, enabled: bool) -> PyResult<()> {
        blocking(py, "Hub.set_endpoint", || self.inner.set_endpoint(&key, enabled))
    }

    fn set_paused(&self, py: Python<'_>, paused: bool) -> PyResult<()> {
        blocking(py, "Hub.set_paused", || self.inner.set_paused(paused))
    }

    fn drain<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Hub.drain", || Ok(self.inner.drain(seconds("timeout", timeout)?)))
    }

    fn prometheus(&self, py: Python<'_>) -> PyResult<String> {
        blocking(py, "Hub.prometheus", || Ok(self.inner.prometheus()))
    }

    fn close<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Hub.close", || Ok(self.inner.close(seconds("timeout", timeout)?)))
    }
}

/// Closes every hub of this process; blocks at most about `timeout` seconds.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>, timeout: f64) -> PyResult<bool> {
    blocking(py, "close_all", || Ok(bridge::close_all(seconds("timeout", timeout)?)))
}

/// What is kept unless the hub says otherwise.
#[pyfunction]
pub(crate) fn default_retention() -> PlainRetention {
    let keep = Keep::from(Retention::default());
    let number = |count: Option<u64>| count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    (
        number(keep.max_events),
        number(keep.max_bytes),
        seconds(keep.max_age),
        seconds(keep.after_close),
        number(keep.max_total_events),
        number(keep.max_total_bytes),
    )
}

/// A task as it was when it was asked for.
#[pyclass(frozen, get_all, module = "tidings")]
pub(crate) struct Task {
    /// `working`, `input_required`, `completed`, `failed` or `cancelled`.
    status: &'static str,
    /// SEP-2663's `DetailedTask`, as JSON text.
    json: String,
    /// The scope of the stream of its events.
    scope: String,
    /// The stream's name there.
    name: String,
}

impl From<bridge::Task> for Task {
    fn from(task: bridge::Task) -> Self {
        let bridge::Task { status, json, scope, name } = task;
        Self { status, json, scope, name }
    }
}

#[pymethods]
impl Task {
    fn __repr__(&self) -> String {
        format!("Task(status='{}')", self.status)
    }
}

/// One delivery, for people.
#[pyclass(frozen, get_all, module = "tidings")]
pub(crate) struct Delivery {
    /// Its own id.
    id: String,
    /// The firing's id: the `webhook-id`, the same on every attempt and route.
    event_id: String,
    /// The call it is about, if it is about one.
    call_id: Option<String>,
    /// On whose behalf.
    principal: String,
    /// The trigger that fired.
    trigger: String,
    /// The route's id.
    route: String,
    /// `pending`, `leased`, `retrying`, `delivered`, `dead`, `expired` or `superseded`.
    state: &'static str,
    /// Attempts begun.
    attempts: u32,
    /// The category of the last failure, never the receiver's own text.
    last_error: Option<String>,
}

impl From<bridge::Delivery> for Delivery {
    fn from(delivery: bridge::Delivery) -> Self {
        let bridge::Delivery { id, event_id, call_id, principal, trigger, route, state, attempts, last_error } =
            delivery;
        Self { id, event_id, call_id, principal, trigger, route, state, attempts, last_error }
    }
}

#[pymethods]
impl Delivery {
    fn __repr__(&self) -> String {
        let Self { id, trigger, state, attempts, .. } = self;
        format!("Delivery(id='{id}', trigger='{trigger}', state='{state}', attempts={attempts})")
    }
}

/// An endpoint: a URL of one principal.
#[pyclass(frozen, get_all, module = "tidings")]
pub(crate) struct Endpoint {
    /// Its key, in hex.
    key: String,
    /// Whose it is.
    principal: String,
    /// Its host.
    host: String,
    /// `unverified`, `verified` or `disabled`.
    state: &'static str,
    /// `challenge`, `well_known`, `allow_list` or `address`.
    proof: Option<&'static str>,
    /// Why it is disabled.
    disabled: Option<&'static str>,
    /// Failures in a row.
    failures: u32,
    /// Its breaker has opened since the last success.
    tripped: bool,
    /// The category of the last failure.
    last_error: Option<&'static str>,
}

impl From<bridge::Endpoint> for Endpoint {
    fn from(endpoint: bridge::Endpoint) -> Self {
        let bridge::Endpoint { key, principal, host, state, proof, disabled, failures, tripped, last_error } = endpoint;
        Self { key, principal, host, state, proof, disabled, failures, tripped, last_error }
    }
}

#[pymethods]
impl Endpoint {
    fn __repr__(&self) -> String {
        let Self { key, state, failures, .. } = self;
        format!("Endpoint(key='{key}', state='{state}', failures={failures})")
    }
}

/// What a hub has done and holds, at one moment.
#[pyclass(frozen, get_all, module = "tidings")]
pub(crate) struct Stats {
    /// Groups committed by this process.
    groups: u64,
    /// Events of this process's writers committed.
    events: u64,
    /// Events given up while the store was down.
    lost: u64,
    /// Events dropped because another writer had claimed the stream or it was closed.
    refused: u64,
    /// Groups that failed.
    failures: u64,
    /// The last group failed: events wait in memory.
    failing: bool,
    /// Attempts at deliveries that ended.
    attempts: u64,
    /// Deliveries that ended here as `delivered`.
    delivered: u64,
    /// The same as `dead`.
    dead: u64,
    /// The same as `expired`.
    expired: u64,
    /// The same as `superseded`: the next route took over.
    superseded: u64,
    /// Attempts at webhooks under way.
    in_flight: u64,
}

impl From<bridge::Stats> for Stats {
    fn from(stats: bridge::Stats) -> Self {
        let bridge::Stats { groups, events, lost, refused, failures, failing, .. } = stats;
        let bridge::Stats { attempts, delivered, dead, expired, superseded, in_flight, .. } = stats;
        Self {
            groups,
            events,
            lost,
            refused,
            failures,
            failing,
            attempts,
            delivered,
            dead,
            expired,
            superseded,
            in_flight,
        }
    }
}

#[pymethods]
impl Stats {
    fn __repr__(&self) -> String {
        let Self { groups, events, lost, refused, failures, failing, attempts, delivered, dead, .. } = self;
        let failing = if *failing { "True" } else { "False" };
        format!(
            "Stats(groups={groups}, events={events}, lost={lost}, refused={refused}, failures={failures}, failing={failing}, attempts={attempts}, delivered={delivered}, dead={dead})"
        )
    }
}
