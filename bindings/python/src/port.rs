//! Ports: where the operations of one event loop wait.

use std::os::fd::AsRawFd;
use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tidings_bridge as bridge;

use crate::convert::{Detached, blocking, entry, finish};

/// An operation that waits, until a port takes it.
#[pyclass(frozen, generic, module = "tidings._native")]
pub(crate) struct Pending {
    inner: Mutex<Option<bridge::Pending>>,
}

impl Pending {
    pub(crate) fn new(pending: bridge::Pending) -> Self {
        Self { inner: Mutex::new(Some(pending)) }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(pending) = self.inner.get_mut().ok().and_then(Option::take) {
            pending.abandon();
        }
    }
}

/// Where the operations of one event loop wait.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Port {
    inner: Detached<bridge::Port>,
}

#[pymethods]
impl Port {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        entry(py, "Port", || Ok(Self { inner: Detached::new(bridge::Port::new()?) }))
    }

    /// The descriptor that is readable when there is something to drain.
    fn fileno(&self) -> i32 {
        self.inner.fd().expect("it was made with a descriptor").as_raw_fd()
    }

    /// Lets an operation wait here; answers its token.
    fn park(&self, py: Python<'_>, pending: &Pending) -> PyResult<u64> {
        let pending = pending.inner.lock().ok().and_then(|mut pending| pending.take());
        let pending = pending.ok_or_else(|| PyRuntimeError::new_err("the operation waits elsewhere already"))?;
        entry(py, "Port.park", || self.inner.park(pending))
    }

    /// Goes on with what was woken; answers the tokens of what is done.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        blocking(py, "Port.drain", || Ok(self.inner.drain()))
    }

    /// The value of an operation that is done, or its exception.
    fn take<'py>(&self, py: Python<'py>, token: u64) -> PyResult<Bound<'py, PyAny>> {
        match entry(py, "Port.take", || Ok(self.inner.take(token)))? {
            Some(answer) => finish(py, answer),
            None => Err(PyRuntimeError::new_err("the operation is not done")),
        }
    }

    /// Nobody waits for the operation any longer.
    fn cancel(&self, py: Python<'_>, token: u64) -> PyResult<()> {
        blocking(py, "Port.cancel", || {
            self.inner.cancel(token);
            Ok(())
        })
    }

    /// Waits until there is something to drain, at most `timeout` seconds, without the GIL; then looks for signals.
    fn wait(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let ready = blocking(py, "Port.wait", || Ok(self.inner.wait(bridge::seconds("timeout", timeout)?)))?;
        py.check_signals()?;
        Ok(ready)
    }

    /// Cancels what waits and refuses more.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, "Port.close", || {
            self.inner.close();
            Ok(())
        })
    }

    /// Operations that wait or whose values were not taken.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        entry(py, "Port.__len__", || Ok(self.inner.len()))
    }
}
