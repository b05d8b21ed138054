//! Fan-out.

use std::sync::Mutex;

use pyo3::prelude::*;
use tidings_bridge::{self as bridge, seconds};

use crate::call::request_id;
use crate::convert::{Detached, begin, blocking, entry};

/// What a peer and its server negotiated.
#[pyclass(frozen, module = "tidings")]
pub(crate) struct Profile {
    inner: bridge::Profile,
}

#[pymethods]
impl Profile {
    #[new]
    fn new(py: Python<'_>, version: &str, server: &str, client: &str) -> PyResult<Self> {
        entry(py, "Profile", || Ok(Self { inner: bridge::Profile::new(version, server, client)? }))
    }

    /// Whether peers of this version are told only within acknowledged filters.
    #[getter]
    fn listens(&self) -> bool {
        self.inner.listens()
    }

    /// The part of a listener's filter that is honoured; both are JSON text.
    fn honoured(&self, py: Python<'_>, filter: &str) -> PyResult<String> {
        entry(py, "Profile.honoured", || self.inner.honoured(filter))
    }
}

/// What a publish came to, in this process, in listeners.
#[pyclass(frozen, get_all, eq, module = "tidings")]
#[derive(PartialEq, Eq)]
pub(crate) struct Fanout {
    /// It is queued for them, or coalesced with what was.
    told: u64,
    /// They did not ask for it, or may not hear of it, or cannot be reached.
    skipped: u64,
    /// They asked for it, and their connections were found not to have taken a frame in time.
    failed: u64,
}

impl From<bridge::Fanout> for Fanout {
    fn from(fanout: bridge::Fanout) -> Self {
        let bridge::Fanout { told, skipped, failed } = fanout;
        Self { told, skipped, failed }
    }
}

#[pymethods]
impl Fanout {
    fn __repr__(&self) -> String {
        let Self { told, skipped, failed } = self;
        format!("Fanout(told={told}, skipped={skipped}, failed={failed})")
    }
}

/// Where the host of one event loop takes frames for its connections.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Outbox {
    inner: Detached<bridge::Outbox>,
}

impl Outbox {
    pub(crate) fn new(outbox: bridge::Outbox) -> Self {
        Self { inner: Detached::new(outbox) }
    }
}

/// A connection, a listener, a method (`None`: the listener has ended) and its parameters as JSON text.
type Task = (u64, u64, Option<&'static str>, Option<String>);

#[pymethods]
impl Outbox {
    #[getter]
    fn number(&self) -> u32 {
        self.inner.number()
    }

    fn add_sink(&self, py: Python<'_>, principal: Option<&str>, deadline: Option<f64>) -> PyResult<u64> {
        entry(py, "Outbox.add_sink", || {
            let deadline = deadline.map(|deadline| seconds("deadline", deadline)).transpose()?;
            self.inner.add_sink(principal, deadline)
        })
    }

    fn attend(&self, py: Python<'_>, sink: u64, profile: &Profile) -> PyResult<u64> {
        blocking(py, "Outbox.attend", || self.inner.attend(sink, &profile.inner))
    }

    fn listen(
        &self,
        py: Python<'_>,
        sink: u64,
        profile: &Profile,
        id: &Bound<'_, PyAny>,
        filter: &str,
    ) -> PyResult<u64> {
        let id = request_id(id)?;
        blocking(py, "Outbox.listen", || self.inner.listen(sink, &profile.inner, &id, filter))
    }

    fn open(&self, py: Python<'_>, listener: u64) -> PyResult<()> {
        entry(py, "Outbox.open", || self.inner.open(listener))
    }

    fn subscribe(&self, py: Python<'_>, listener: u64, profile: &Profile, name: &str) -> PyResult<()> {
        entry(py, "Outbox.subscribe", || self.inner.subscribe(listener, &profile.inner, name))
    }

    fn unsubscribe(&self, py: Python<'_>, listener: u64, profile: &Profile, name: &str) -> PyResult<()> {
        entry(py, "Outbox.unsubscribe", || self.inner.unsubscribe(listener, &profile.inner, name))
    }

    fn set_reachable(&self, py: Python<'_>, sink: u64, reachable: bool) -> PyResult<()> {
        entry(py, "Outbox.set_reachable", || self.inner.set_reachable(sink, reachable))
    }

    fn end(&self, py: Python<'_>, listener: u64) -> PyResult<()> {
        entry(py, "Outbox.end", || self.inner.end(listener))
    }

    fn end_all(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, "Outbox.end_all", || self.inner.end_all())
    }

    fn cancel(&self, py: Python<'_>, listener: u64) -> PyResult<bool> {
        entry(py, "Outbox.cancel", || self.inner.cancel(listener))
    }

    fn drop_sink(&self, py: Python<'_>, sink: u64) -> PyResult<usize> {
        entry(py, "Outbox.drop_sink", || self.inner.drop_sink(sink))
    }

    fn take(&self, py: Python<'_>, limit: i64) -> PyResult<Vec<Task>> {
        let tasks = entry(py, "Outbox.take", || self.inner.take(bridge::limit(limit)?))?;
        Ok(tasks.into_iter().map(|task| (task.sink, task.listener, task.method, task.params)).collect())
    }

    fn written(&self, py: Python<'_>, sink: u64, frames: u32) -> PyResult<bool> {
        entry(py, "Outbox.written", || self.inner.written(sink, frames))
    }

    fn broke(&self, py: Python<'_>, sink: u64) -> PyResult<usize> {
        entry(py, "Outbox.broke", || self.inner.broke(sink))
    }

    fn ready<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Outbox.ready", || Ok(self.inner.ready()))
    }

    fn __len__(&self) -> usize {
        self.inner.listeners()
    }
}

/// The progress of one request.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Progress {
    inner: Mutex<bridge::Progress>,
}

#[pymethods]
impl Progress {
    #[new]
    fn new(py: Python<'_>, token: Option<&Bound<'_, PyAny>>, min_interval: f64) -> PyResult<Self> {
        let token = token.map(request_id).transpose()?;
        entry(py, "Progress", || {
            let progress = bridge::Progress::new(token, seconds("min_interval", min_interval)?);
            Ok(Self { inner: Mutex::new(progress) })
        })
    }

    /// The parameters of the notification as JSON text and `None`, or `None` and why there is none.
    fn report(
        &self,
        py: Python<'_>,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
        now: f64,
    ) -> PyResult<(Option<String>, Option<&'static str>)> {
        entry(py, "Progress.report", || {
            let now = seconds("now", now)?;
            let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            Ok(match inner.report(progress, total, message, now) {
                Ok(params) => (Some(params), None),
                Err(why) => (None, Some(why)),
            })
        })
    }

    fn end(&self) {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner).end();
    }
}

/// Whether a log message of that level is sent.
#[pyfunction]
pub(crate) fn log_passes(py: Python<'_>, per_request: bool, asked: Option<&str>, level: &str) -> PyResult<bool> {
    entry(py, "log_passes", || bridge::log_passes(per_request, asked, level))
}
