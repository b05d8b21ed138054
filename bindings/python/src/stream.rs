//! Streams, writers and tails.

use std::sync::Mutex;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyMapping, PyString};
use tidings_bridge::{self as bridge, Append, Bytes, Place, ReadLimits, Taken};

use crate::convert::{Detached, begin, blocking, entry, is_int, text, to_python, type_name};
use crate::event::{Page, batch};

/// A stream, by its key.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Stream {
    inner: Detached<bridge::Stream>,
}

impl Stream {
    pub(crate) fn new(stream: bridge::Stream) -> Self {
        Self { inner: Detached::new(stream) }
    }
}

#[pymethods]
impl Stream {
    #[getter]
    fn scope(&self) -> &str {
        self.inner.scope()
    }

    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    #[pyo3(signature = (payloads, *, r#type, identity, close, key, durability))]
    #[allow(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn append<'py>(
        &self,
        py: Python<'py>,
        payloads: Vec<Bound<'py, PyAny>>,
        r#type: &str,
        identity: Option<&Bound<'py, PyAny>>,
        close: bool,
        key: Option<String>,
        durability: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let copies = payloads.iter().map(|payload| Ok(text("payload", payload)?.to_vec().into()));
        let copies: Vec<_> = copies.collect::<PyResult<_>>()?;
        let identity = self::identity(identity)?;
        begin(py, "Stream.append", || {
            if copies.is_empty() {
                return Err(bridge::Error::argument("payload", "must be at least one"));
            }
            Ok(self.inner.append(Append {
                kind: r#type.to_owned(),
                payloads: copies,
                identity,
                close,
                once: key,
                durability: bridge::durability(durability)?,
            }))
        })
    }

    fn export(&self, py: Python<'_>, after: &Bound<'_, PyAny>) -> PyResult<Export> {
        let after = place(after)?;
        let export = blocking(py, "Stream.export", || self.inner.export(&after))?;
        Ok(Export { inner: Detached::new(export) })
    }

    fn claim<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Stream.claim", || Ok(self.inner.claim()))
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Stream.close", || Ok(self.inner.close()))
    }

    fn read(&self, py: Python<'_>, after: &Bound<'_, PyAny>, limit: i64) -> PyResult<Page> {
        let after = place(after)?;
        let page = blocking(py, "Stream.read", || self.inner.read(&after, bridge::limit(limit)?))?;
        Page::new(py, page)
    }

    fn tail(&self, py: Python<'_>, after: &Bound<'_, PyAny>) -> PyResult<Tail> {
        let after = place(after)?;
        blocking(py, "Stream.tail", || self.inner.tail(&after)).map(Tail::new)
    }
}

fn place(after: &Bound<'_, PyAny>) -> PyResult<Place> {
    if after.is_none() {
        return Ok(Place::Earliest);
    }
    if let Ok(cursor) = after.cast::<PyString>() {
        return Ok(Place::Cursor(cursor.to_string_lossy().into_owned()));
    }
    if is_int(after) {
        let seq = after.cast::<PyInt>()?.extract::<u64>().map_err(|_| {
            to_python(after.py(), &bridge::Error::argument("after", "must be a sequence number, 0 to 2^53 - 1"))
        })?;
        return Ok(Place::Seq(seq));
    }
    Err(PyTypeError::new_err(format!(
        "after: must be a cursor (str), a sequence number (int) or None, not {}",
        type_name(after)
    )))
}

/// Who and what an event belongs to, from a mapping of texts.
#[inline]
fn identity(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Bytes>> {
    given.map_or(Ok(None), identity_of)
}

fn identity_of(given: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    let Ok(mapping) = given.cast::<PyMapping>() else {
        return Err(PyTypeError::new_err(format!("identity: must be a mapping or None, not {}", type_name(given))));
    };
    let mut members = Vec::new();
    for item in mapping.items()?.iter() {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let (Ok(name), Ok(value)) = (name.extract::<String>(), value.extract::<String>()) else {
            return Err(PyTypeError::new_err("identity: names and values must be str, with a UTF-8 form"));
        };
        members.push((name, value));
    }
    bridge::identity(&members).map_err(|error| to_python(given.py(), &error))
}

/// A stream as JSON Lines, a page at a time.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Export {
    inner: Detached<bridge::Export>,
}

#[pymethods]
impl Export {
    /// The next lines, or `None` at the end.
    fn lines(&self, py: Python<'_>) -> PyResult<Option<Vec<Py<PyBytes>>>> {
        let lines = blocking(py, "Export.lines", || self.inner.lines())?;
        Ok(lines.map(|lines| lines.iter().map(|line| PyBytes::new(py, line).unbind()).collect()))
    }
}

/// A writer on its way to its Python class, which takes it once.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct WriterHandle {
    inner: Mutex<Option<bridge::Writer>>,
}

impl WriterHandle {
    pub(crate) fn new(writer: bridge::Writer) -> Self {
        Self { inner: Mutex::new(Some(writer)) }
    }
}

/// The right of one writer to number a stream in memory.
#[pyclass(frozen, subclass, module = "tidings._native")]
pub(crate) struct Writer {
    inner: Detached<bridge::Writer>,
}

#[pymethods]
impl Writer {
    #[new]
    fn new(handle: &WriterHandle) -> PyResult<Self> {
        let taken = handle.inner.lock().ok().and_then(|mut handle| handle.take());
        let writer = taken.ok_or_else(|| PyRuntimeError::new_err("a writer comes from a hub or a stream"))?;
        Ok(Self { inner: Detached::new(writer) })
    }

    /// The stream's random id.
    #[getter]
    fn stream(&self, py: Python<'_>) -> PyResult<String> {
        entry(py, "Writer.stream", || Ok(self.inner.stream()))
    }

    /// Appends one event and returns its cursor, without waiting for anything.
    ///
    /// `payload` is JSON text, kept byte for byte and not checked. `close` closes the stream after it. `identity` says who
    /// and what it belongs to: `task`, `session`, `turn`, `toolCall`, `sourceType`. Raises `ClosedError`, `FencedError`,
    /// `CongestedError`, `TooLargeError` or `ForkedError`. With `give_up` the oldest buffered events go, and are told as a
    /// gap, where it would raise `CongestedError`.
    #[pyo3(signature = (payload, *, r#type = "message", close = false, give_up = false, identity = None))]
    fn append(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        r#type: &str,
        close: bool,
        give_up: bool,
        identity: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let payload = text("payload", payload)?;
        let identity = self::identity(identity)?;
        let cursor = entry(py, "Writer.append", || {
            let identity = identity.as_ref();
            // What closes a stream is never refused for want of room.
            let seq = if close {
                self.inner.append_all(r#type, &[payload], identity, true)?.start
            } else if give_up {
                self.inner.append_giving_up(r#type, payload, identity)?
            } else {
                self.inner.append(r#type, payload, identity)?
            };
            Ok(self.inner.cursor_after(seq))
        });
        if bridge::log_waits() {
            flush_log(py);
        }
        cursor
    }

    /// Appends events of one type, all of them or none, and returns their cursors. They become visible together; `close`
    /// closes the stream after them in the same step.
    #[pyo3(signature = (payloads, *, r#type = "message", close = false, identity = None))]
    fn append_many(
        &self,
        py: Python<'_>,
        payloads: Vec<Bound<'_, PyAny>>,
        r#type: &str,
        close: bool,
        identity: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        let texts: Vec<_> = payloads.iter().map(|payload| text("payloads", payload)).collect::<PyResult<_>>()?;
        let identity = self::identity(identity)?;
        entry(py, "Writer.append_many", || {
            let seqs = self.inner.append_all(r#type, &texts, identity.as_ref(), close)?;
            Ok(seqs.map(|seq| self.inner.cursor_after(seq)).collect())
        })
    }

    /// The cursor of a reader that has everything appended so far.
    fn cursor(&self, py: Python<'_>) -> PyResult<String> {
        entry(py, "Writer.cursor", || self.inner.cursor())
    }

    /// More is buffered than is good: whoever can should wait for `flush`.
    #[getter]
    fn congested(&self, py: Python<'_>) -> PyResult<bool> {
        entry(py, "Writer.congested", || Ok(self.inner.congested()))
    }

    /// Whether the stream takes no more events from this writer.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        entry(py, "Writer.closed", || Ok(self.inner.closed()))
    }

    /// Closes the stream after the last event, without waiting. Raises `ClosedError` when it is closed already.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        entry(py, "Writer.close", || self.inner.close())
    }

    fn _flush<'py>(&self, py: Python<'py>, durability: &str) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Writer.flush", || Ok(self.inner.flush(bridge::durability(durability)?)))
    }
}

/// Python's log gets what waits for it. A logger that raises does not fail the append.
#[cold]
fn flush_log(py: Python<'_>) {
    let flushed = py.import("tidings._log").and_then(|module| module.call_method0("flush"));
    if let Err(error) = flushed {
        error.write_unraisable(py, None);
    }
}

/// A reader that replays and goes on live.
#[pyclass(frozen, module = "tidings._native")]
pub(crate) struct Tail {
    inner: Detached<bridge::Tail>,
}

impl Tail {
    pub(crate) fn new(tail: bridge::Tail) -> Self {
        Self { inner: Detached::new(tail) }
    }
}

#[pymethods]
impl Tail {
    #[getter]
    fn stream(&self) -> &str {
        self.inner.stream()
    }

    fn cursor(&self, py: Python<'_>) -> PyResult<String> {
        entry(py, "Tail.cursor", || self.inner.cursor())
    }

    /// The next batch, `None` at the end, an empty list to ask again; or a `Pending` of that.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        begin(py, "Tail.next", || Ok(self.inner.next(ReadLimits::default())))
    }

    fn abandoned(&self, py: Python<'_>) -> PyResult<bool> {
        blocking(py, "Tail.abandoned", || self.inner.abandoned())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, "Tail.close", || {
            self.inner.close();
            Ok(())
        })
    }
}

/// What a tail has for its reader.
pub(crate) fn take<'py>(py: Python<'py>, tail: &bridge::Tail) -> PyResult<Bound<'py, PyAny>> {
    match entry(py, "Tail.next", || tail.take())? {
        Taken::Batch(page) => Ok(batch(py, page)?.into_any()),
        Taken::End => Ok(py.None().into_bound(py)),
        Taken::Nothing => Ok(pyo3::types::PyList::empty(py).into_any()),
    }
}
