//! Standard Webhooks for receivers.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidings_bridge as bridge;

use crate::convert::{entry, raise};

/// The answer to a sender's challenge; `None` for any other body.
#[pyfunction]
pub(crate) fn challenge_answer<'py>(py: Python<'py>, body: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let answer = entry(py, "challenge_answer", || Ok(bridge::challenge_answer(body)))?;
    Ok(answer.map(|text| PyBytes::new(py, text.as_bytes())))
}

/// The document that says which paths of a host receive webhooks.
#[pyfunction]
pub(crate) fn receiver_document(py: Python<'_>, paths: Vec<String>) -> PyResult<Bound<'_, PyBytes>> {
    let text = entry(py, "receiver_document", || Ok(bridge::receiver_document(&paths)))?;
    Ok(PyBytes::new(py, text.as_bytes()))
}

/// The secrets of a sender.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Webhook {
    inner: bridge::Webhook,
}

#[pymethods]
impl Webhook {
    #[new]
    fn new(py: Python<'_>, secrets: Vec<String>) -> PyResult<Self> {
        entry(py, "Webhook", || Ok(Self { inner: bridge::Webhook::new(&secrets)? }))
    }

    fn verify(
        &self,
        py: Python<'_>,
        body: &[u8],
        headers: Vec<(String, String)>,
        now: i64,
        tolerance: u64,
    ) -> PyResult<()> {
        entry(py, "Webhook.verify", || Ok(self.inner.verify(body, &headers, now, tolerance)))?
            .map_err(|error| refused(py, &error))
    }

    fn sign(&self, py: Python<'_>, body: &[u8], id: &str, timestamp: i64) -> PyResult<Vec<(&'static str, String)>> {
        entry(py, "Webhook.sign", || Ok(self.inner.sign(id, timestamp, body)))?
            .map(Vec::from)
            .map_err(|error| refused(py, &error))
    }
}

/// The private keys of a receiver.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct DecryptionKeys {
    inner: bridge::DecryptionKeys,
}

#[pymethods]
impl DecryptionKeys {
    #[new]
    fn new(py: Python<'_>, keys: Vec<String>) -> PyResult<Self> {
        entry(py, "DecryptionKeys", || Ok(Self { inner: bridge::DecryptionKeys::new(&keys)? }))
    }

    fn decrypt<'py>(&self, py: Python<'py>, body: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let plain = entry(py, "DecryptionKeys.decrypt", || Ok(self.inner.decrypt(body)))?;
        plain.map(|plain| PyBytes::new(py, &plain)).map_err(|error| refused(py, &error))
    }
}

fn refused(py: Python<'_>, error: &bridge::WebhookError) -> PyErr {
    raise(py, "webhook_exception", (error.code, error.message.as_str()))
}
