//! Events, gaps and pages.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use tidings_bridge::{self as bridge, CursorPrefix};

/// One event of a stream.
#[pyclass(frozen, module = "tidings")]
pub(crate) struct Event {
    /// Its number in the stream, from 0, without holes.
    #[pyo3(get)]
    seq: u64,
    /// What it is.
    #[pyo3(get)]
    r#type: Py<PyString>,
    /// JSON text as it was given.
    #[pyo3(get)]
    payload: Py<PyBytes>,
    /// When it was appended, in seconds since the epoch.
    #[pyo3(get)]
    time: f64,
    /// Who and what it belongs to, as JSON text of an object, if it was said.
    #[pyo3(get)]
    identity: Option<Py<PyBytes>>,
    cursors: Arc<CursorPrefix>,
}

#[pymethods]
impl Event {
    /// The cursor of a reader that has this event and all before it.
    #[getter]
    fn cursor(&self) -> String {
        self.cursors.cursor(self.seq + 1)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (kind, payload) = (self.r#type.bind(py).repr()?, self.payload.as_bytes(py));
        Ok(format!("Event(seq={}, type={kind}, {} bytes)", self.seq, payload.len()))
    }
}

/// Why a read could not be complete. What follows it goes on after the hole.
#[pyclass(frozen, get_all, module = "tidings")]
pub(crate) struct Gap {
    /// `evicted`, `regressed`, `lost` or `unknown`.
    reason: &'static str,
    /// The first event that is there.
    earliest_seq: Option<u64>,
    /// The newest event.
    head_seq: Option<u64>,
    /// The cursor of a reader that was told this gap.
    cursor: String,
}

#[pymethods]
impl Gap {
    fn __repr__(&self) -> String {
        let number = |seq: Option<u64>| seq.map_or_else(|| "None".to_owned(), |seq| seq.to_string());
        let (earliest, head) = (number(self.earliest_seq), number(self.head_seq));
        format!("Gap(reason='{}', earliest_seq={earliest}, head_seq={head})", self.reason)
    }
}

/// Events of one read.
#[pyclass(frozen, get_all, module = "tidings")]
pub(crate) struct Page {
    /// In order.
    events: Py<PyList>,
    /// Tell this first: the read could not be complete.
    gap: Option<Py<Gap>>,
    /// Where the reader stands after these events.
    cursor: String,
    /// The newest event's number; `None` if there never was one.
    head_seq: Option<u64>,
    /// The stream is closed and the events reach its end.
    ended: bool,
}

#[pymethods]
impl Page {
    fn __repr__(&self, py: Python<'_>) -> String {
        let gap = if self.gap.is_some() { ", with a gap" } else { "" };
        let ended = if self.ended { ", ended" } else { "" };
        format!("Page({} events{gap}{ended})", self.events.bind(py).len())
    }
}

impl Page {
    pub(crate) fn new(py: Python<'_>, page: bridge::Page) -> PyResult<Self> {
        let cursors = Arc::new(page.cursors());
        let gap = page.gap.map(|gap| Py::new(py, self::gap(&gap, &cursors, page.first()))).transpose()?;
        Ok(Self {
            cursor: cursors.cursor(page.cursor.next),
            head_seq: page.head_seq,
            ended: page.ended,
            gap,
            events: PyList::new(py, Events { py, cursors, events: page.events.into_iter(), last_type: None })?.unbind(),
        })
    }
}

fn gap(gap: &bridge::Gap, cursors: &CursorPrefix, first: u64) -> Gap {
    Gap {
        reason: gap.reason.as_str(),
        earliest_seq: gap.earliest_seq,
        head_seq: gap.head_seq,
        cursor: cursors.cursor(first),
    }
}

/// A batch as a list: the gap, if there is one, and the events.
pub(crate) fn batch<'py>(py: Python<'py>, page: bridge::Page) -> PyResult<Bound<'py, PyList>> {
    let cursors = Arc::new(page.cursors());
    let first = page.first();
    let gap = page.gap.map(|gap| self::gap(&gap, &cursors, first));
    let list = PyList::new(py, Events { py, cursors, events: page.events.into_iter(), last_type: None })?;
    if let Some(gap) = gap {
        list.insert(0, Bound::new(py, gap)?)?;
    }
    Ok(list)
}

/// Makes Python's events of the bridge's. Types repeat, so that neighbours share one text.
struct Events<'py> {
    py: Python<'py>,
    cursors: Arc<CursorPrefix>,
    events: std::vec::IntoIter<bridge::Event>,
    last_type: Option<(String, Py<PyString>)>,
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let event = self.events.next()?;
        let py = self.py;
        let r#type = match &self.last_type {
            Some((name, text)) if *name == event.kind => text.clone_ref(py),
            _ => {
                let text = PyString::new(py, &event.kind).unbind();
                self.last_type = Some((event.kind, text.clone_ref(py)));
                text
            }
        };
        Some(Event {
            seq: event.seq,
            r#type,
            payload: PyBytes::new(py, &event.payload).unbind(),
            time: seconds(event.time),
            identity: event.identity.map(|identity| PyBytes::new(py, &identity).unbind()),
            cursors: Arc::clone(&self.cursors),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.events.size_hint()
    }
}

impl ExactSizeIterator for Events<'_> {}

/// Milliseconds since the epoch as Python's seconds.
#[allow(clippy::cast_precision_loss, reason = "a float has the milliseconds of every year that people write")]
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1_000.0
}
