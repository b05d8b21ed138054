//! Errors, texts and answers, between Python and the bridge.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyType};
use tidings_bridge::{self as bridge, Answer, Started};

use crate::call::{Call, Ended};
use crate::event::Page;
use crate::outlet::HostDelivery;
use crate::port::Pending;
use crate::stream::{WriterHandle, take};

/// Runs an entry point that does not block.
#[inline]
pub(crate) fn entry<T>(py: Python<'_>, name: &'static str, body: impl FnOnce() -> bridge::Result<T>) -> PyResult<T> {
    bridge::guard(name, body).map_err(|error| to_python(py, &error))
}

/// Runs an entry point that may block, without the GIL.
pub(crate) fn blocking<T: Send>(
    py: Python<'_>,
    name: &'static str,
    body: impl FnOnce() -> bridge::Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| bridge::guard(name, body)).map_err(|error| to_python(py, &error))
}

/// Begins an operation, without the GIL. Answers its value, or a [`Pending`].
pub(crate) fn begin<'py>(
    py: Python<'py>,
    name: &'static str,
    body: impl FnOnce() -> bridge::Result<Started> + Send,
) -> PyResult<Bound<'py, PyAny>> {
    match blocking(py, name, body)? {
        Started::Ready(answer) => finish(py, answer),
        Started::Pending(pending) => Ok(Bound::new(py, Pending::new(pending))?.into_any()),
    }
}

/// An operation's answer as Python's value or exception.
pub(crate) fn finish(py: Python<'_>, answer: bridge::Result<Answer>) -> PyResult<Bound<'_, PyAny>> {
    match answer.map_err(|error| to_python(py, &error))? {
        Answer::Done => Ok(py.None().into_bound(py)),
        Answer::Complete(all) => Ok(all.into_pyobject(py)?.to_owned().into_any()),
        Answer::Seq(seq) => Ok(seq.into_pyobject(py)?.into_any()),
        Answer::Page(page) => Ok(Bound::new(py, Page::new(py, page)?)?.into_any()),
        Answer::Readable(tail) => take(py, &tail),
        Answer::Writer(writer) => Ok(Bound::new(py, WriterHandle::new(writer))?.into_any()),
        Answer::Call(call) => Ok(Bound::new(py, Call::new(call))?.into_any()),
        Answer::Delivery(None) => Ok(py.None().into_bound(py)),
        Answer::Delivery(Some(delivery)) => Ok(Bound::new(py, HostDelivery::new(*delivery))?.into_any()),
        Answer::Ended(ended) => Ok(Bound::new(py, Ended::from(ended))?.into_any()),
        Answer::Json(json) => Ok(PyBytes::new(py, json.as_bytes()).into_any()),
    }
}

/// The exception for an error. Its class comes from `tidings._errors`, by the error's name.
pub(crate) fn to_python(py: Python<'_>, error: &bridge::Error) -> PyErr {
    let faults = error.faults().map(|faults| {
        let listed: Vec<_> =
            faults.listed.iter().map(|f| (f.path.as_str(), f.rule.as_str(), f.message.as_str())).collect();
        (listed, faults.total, faults.data_json.as_str())
    });
    raise(py, "exception", (error.code().as_str(), error.to_string(), faults))
}

/// The exception that a function of `tidings._errors` makes of its arguments.
pub(crate) fn raise<'py>(py: Python<'py>, function: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = py.import("tidings._errors").and_then(|module| module.getattr(function)?.call1(arguments));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// JSON text as Python gives it: `bytes` as they are, or `str` as UTF-8.
#[inline]
pub(crate) fn text<'a>(name: &str, value: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    if let Ok(string) = value.cast::<PyString>() {
        return string.to_str().map(str::as_bytes).map_err(|_| {
            let rule = "must have a UTF-8 form; write a lone surrogate as an escape (\\udxxx)";
            to_python(value.py(), &bridge::Error::argument(name, rule))
        });
    }
    Err(PyTypeError::new_err(format!("{name}: must be bytes or str, not {}", type_name(value))))
}

pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string())
}

/// A whole number that is not a `bool`.
pub(crate) fn is_int(value: &Bound<'_, PyAny>) -> bool {
    static BOOL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let bool_type = BOOL.get_or_init(value.py(), || value.py().get_type::<pyo3::types::PyBool>().unbind());
    value.is_instance_of::<pyo3::types::PyInt>() && !value.get_type().is(bool_type)
}

/// Drops without the GIL: the last reference to a hub flushes it, which may take up to two seconds.
pub(crate) struct Detached<T: Send>(Option<T>);

impl<T: Send> Detached<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send> std::ops::Deref for Detached<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("only drop takes the value")
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // An interpreter that is ending has closed its hubs already.
        Python::try_attach(|py| {
            py.detach(|| {
                // The guard logs a defect; nobody could be told here.
                let _ = bridge::guard("drop", || {
                    drop(value);
                    Ok(())
                });
            });
        });
    }
}
