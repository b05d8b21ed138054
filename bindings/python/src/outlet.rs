//! Places in the host that deliveries go through.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidings_bridge::{self as bridge, Offer};

use crate::convert::{Detached, begin, blocking, entry};

/// Checks the name of a route type, or of a place of a type.
#[pyfunction]
pub(crate) fn check_route(py: Python<'_>, route_type: String, name: Option<String>) -> PyResult<()> {
    let offer = Offer { route_type, name, peer: None, limit: None, timeout: None };
    entry(py, "check_route", || offer.check())
}

/// A place that takes deliveries.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Outlet {
    inner: Detached<bridge::Outlet>,
}

impl Outlet {
    pub(crate) fn new(outlet: bridge::Outlet) -> Self {
        Self { inner: Detached::new(outlet) }
    }
}

#[pymethods]
impl Outlet {
    /// The next delivery, `None` once no more come; or a `Pending` of that.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Outlet.next", || Ok(self.inner.next()))
    }

    /// Offers it no longer.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, "Outlet.close", || {
            self.inner.close();
            Ok(())
        })
    }
}

/// A delivery in a handler's hands.
#[pyclass(frozen, module = "tidings")]
pub(crate) struct HostDelivery {
    inner: bridge::HostDelivery,
}

impl HostDelivery {
    pub(crate) fn new(delivery: bridge::HostDelivery) -> Self {
        Self { inner: delivery }
    }
}

#[pymethods]
impl HostDelivery {
    /// Its own id.
    #[getter]
    fn id(&self) -> &str {
        &self.inner.id
    }

    /// The firing's id: the same on every attempt and route.
    #[getter]
    fn event_id(&self) -> &str {
        &self.inner.event_id
    }

    /// The call it is about, if it is about one.
    #[getter]
    fn call_id(&self) -> Option<&str> {
        self.inner.call_id.as_deref()
    }

    /// On whose behalf.
    #[getter]
    fn principal(&self) -> &str {
        &self.inner.principal
    }

    /// The trigger that fired.
    #[getter]
    fn trigger(&self) -> &str {
        &self.inner.trigger
    }

    /// The route's id.
    #[getter]
    fn route(&self) -> &str {
        &self.inner.route
    }

    /// The route's type.
    #[getter]
    fn route_type(&self) -> &str {
        &self.inner.route_type
    }

    /// What the client named, if it did.
    #[getter]
    fn endpoint(&self) -> Option<&str> {
        self.inner.endpoint.as_deref()
    }

    /// The signal to ring with, for a route of type `signal`.
    #[getter]
    fn signal(&self) -> Option<&str> {
        self.inner.signal.as_deref()
    }

    /// Attempts begun, this one included.
    #[getter]
    fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// The JSON text that a webhook would carry.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.body)
    }

    /// The JSON-RPC notification `notifications/io.tidings/triggered` that carries it.
    fn frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let frame = entry(py, "HostDelivery.frame", || Ok(self.inner.frame()))?;
        Ok(PyBytes::new(py, &frame))
    }

    fn _confirm(&self, py: Python<'_>) -> PyResult<bool> {
        entry(py, "HostDelivery.confirm", || Ok(self.inner.confirm()))
    }

    fn _refuse(&self, py: Python<'_>, why: &str) -> PyResult<bool> {
        entry(py, "HostDelivery.refuse", || self.inner.refuse(why))
    }

    fn __repr__(&self) -> String {
        let bridge::HostDelivery { id, route_type, trigger, attempt, .. } = &self.inner;
        format!("HostDelivery(id='{id}', route_type='{route_type}', trigger='{trigger}', attempt={attempt})")
    }
}
