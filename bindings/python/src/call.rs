//! Watched calls.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use tidings_bridge::{self as bridge, RequestId, TaskTerms, seconds};

use crate::convert::{Detached, begin, blocking, entry, is_int, text, to_python, type_name};

/// How a call ended.
#[pyclass(frozen, get_all, module = "tidings")]
pub(crate) struct Ended {
    /// `completed`, `failed`, `cancelled` or `timeout`.
    outcome: &'static str,
    /// Why, where the outcome alone does not say.
    reason: Option<String>,
    /// It was this very request to end the call that won; otherwise the call had ended before.
    ours: bool,
    /// The outcome is on disk. If not, the store did not take it in time; it is tried again while the process lives.
    committed: bool,
    /// The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered.
    undelivered: Option<String>,
}

#[pymethods]
impl Ended {
    fn __repr__(&self) -> String {
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(", reason='{reason}'"));
        let ours = if self.ours { "True" } else { "False" };
        format!("Ended(outcome='{}'{reason}, ours={ours})", self.outcome)
    }
}

impl From<bridge::Ended> for Ended {
    fn from(ended: bridge::Ended) -> Self {
        let bridge::Ended { outcome, reason, ours, committed, undelivered } = ended;
        Self { outcome, reason, ours, committed, undelivered }
    }
}

/// A watched call.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Call {
    inner: Detached<bridge::Call>,
}

impl Call {
    pub(crate) fn new(call: bridge::Call) -> Self {
        Self { inner: Detached::new(call) }
    }
}

#[pymethods]
impl Call {
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<String> {
        entry(py, "Call.id", || Ok(self.inner.id()))
    }

    #[getter]
    fn accepted_routes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        entry(py, "Call.accepted_routes", || Ok(self.inner.accepted_routes()))
    }

    #[getter]
    fn ignored_triggers(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        entry(py, "Call.ignored_triggers", || Ok(self.inner.ignored_triggers()))
    }

    fn acknowledgement<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let json = entry(py, "Call.acknowledgement", || Ok(self.inner.acknowledgement()))?;
        Ok(PyBytes::new(py, json.as_bytes()))
    }

    fn emit(&self, py: Python<'_>, r#type: &str, payload: &Bound<'_, PyAny>) -> PyResult<u64> {
        // The event's deliveries may read the store, so that other threads go on meanwhile.
        let payload = text("payload", payload)?;
        blocking(py, "Call.emit", || self.inner.emit(r#type, payload))
    }

    fn fire(&self, py: Python<'_>, name: &str, payload: &Bound<'_, PyAny>) -> PyResult<u64> {
        let payload = text("payload", payload)?;
        blocking(py, "Call.fire", || self.inner.fire(name, payload))
    }

    fn become_task<'py>(&self, py: Python<'py>, ttl: f64, bound: bool) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Call.become_task", || Ok(self.inner.become_task(task_terms(ttl, bound)?)))
    }

    fn ask<'py>(&self, py: Python<'py>, requests: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let requests = text("requests", requests)?.to_vec();
        begin(py, "Call.ask", || Ok(self.inner.ask(requests)))
    }

    fn detach(&self, py: Python<'_>, counted_as: &str, calls: i64, time: f64) -> PyResult<bool> {
        blocking(py, "Call.detach", || {
            let calls = u32::try_from(bridge::number("calls", calls)?).unwrap_or(u32::MAX);
            self.inner.detach(counted_as, calls, seconds("time", time)?)
        })
    }

    fn disconnected(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, "Call.disconnected", || self.inner.disconnected())
    }

    fn complete<'py>(&self, py: Python<'py>, result: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let result = text("result", result)?.to_vec();
        begin(py, "Call.complete", || Ok(self.inner.complete(result)))
    }

    fn fail<'py>(
        &self,
        py: Python<'py>,
        error: Option<&Bound<'py, PyAny>>,
        reason: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let error = error.map(|error| Ok::<_, PyErr>(text("error", error)?.to_vec())).transpose()?;
        begin(py, "Call.fail", || Ok(self.inner.fail(error, reason)))
    }

    fn cancel<'py>(&self, py: Python<'py>, reason: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Call.cancel", || Ok(self.inner.cancel(reason)))
    }

    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Call.ended", || Ok(self.inner.ended()))
    }
}

/// Room for one call that goes on without its request.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Room {
    inner: bridge::Room,
}

impl Room {
    pub(crate) fn new(inner: bridge::Room) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl Room {
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, "Room.release", || {
            self.inner.release();
            Ok(())
        })
    }
}

/// Checks an event that a tool's author emits.
#[pyfunction]
#[pyo3(signature = (r#type, payload))]
pub(crate) fn check_event(py: Python<'_>, r#type: &str, payload: &Bound<'_, PyAny>) -> PyResult<()> {
    let payload = text("payload", payload)?;
    entry(py, "check_event", || bridge::check_event(r#type, payload))
}

/// Checks what a tool's author fires.
#[pyfunction]
#[pyo3(signature = (name, payload))]
pub(crate) fn check_fire(py: Python<'_>, name: &str, payload: &Bound<'_, PyAny>) -> PyResult<()> {
    let payload = text("payload", payload)?;
    entry(py, "check_fire", || bridge::check_fire(name, payload))
}

/// A task's terms; `ttl` in seconds.
pub(crate) fn task_terms(ttl: f64, bound: bool) -> bridge::Result<TaskTerms> {
    let ttl_ms = u64::try_from(seconds("ttl", ttl)?.as_millis()).unwrap_or(u64::MAX);
    Ok(TaskTerms { ttl_ms, bound })
}

/// A JSON-RPC request id: `int` or `str`, and the type counts.
pub(crate) fn request_id(value: &Bound<'_, PyAny>) -> PyResult<RequestId> {
    let py = value.py();
    let refuse = |rule: String| to_python(py, &bridge::Error::argument("request_id", rule));
    if let Ok(string) = value.cast::<PyString>() {
        let string = string.to_str().map_err(|_| refuse("must have a UTF-8 form".to_owned()))?;
        return RequestId::string(string).map_err(|error| refuse(error.to_string()));
    }
    if is_int(value) {
        if let Ok(number) = value.extract::<i64>() {
            return Ok(number.into());
        }
        if let Ok(number) = value.extract::<u64>() {
            return Ok(number.into());
        }
        return Err(refuse("must be within -2^63 and 2^64 - 1".to_owned()));
    }
    Err(pyo3::exceptions::PyTypeError::new_err(format!("request_id: must be int or str, not {}", type_name(value))))
}
