//! Reading.

use std::sync::Arc;

use tidings::Read;
use tidings::proto::stream::CursorPrefix;
use tokio::sync::Mutex;

use crate::error::TidingsError;

/// One event of a stream.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Event {
    /// Its number, from 0, without holes.
    pub seq: u64,
    /// What it is.
    pub kind: String,
    /// JSON text as it was given.
    pub payload: Vec<u8>,
    /// Wall time in milliseconds.
    pub time_ms: i64,
    /// Where a reader stands that has it.
    pub cursor: String,
}

/// Why a resume cannot be complete.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Gap {
    /// `evicted`, `regressed`, `lost` or `unknown`.
    pub reason: String,
    /// From where a reader can go on.
    pub earliest_seq: Option<u64>,
    /// The newest event's number.
    pub head_seq: Option<u64>,
}

/// At least one event, or a gap, which comes before them.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Batch {
    /// Tell this first.
    pub gap: Option<Gap>,
    /// In order.
    pub events: Vec<Event>,
    /// Where the reader stands after these.
    pub cursor: String,
}

impl From<Read> for Batch {
    fn from(read: Read) -> Self {
        let cursors = CursorPrefix::new(read.cursor.stream, read.cursor.epoch, read.cursor.claim);
        let gap = read.gap.map(|gap| Gap {
            reason: gap.reason.as_str().to_owned(),
            earliest_seq: gap.earliest_seq,
            head_seq: gap.head_seq,
        });
        let events = read.events.into_iter().map(|event| Event {
            seq: event.seq,
            kind: event.kind,
            payload: event.payload.to_vec(),
            time_ms: event.time,
            cursor: cursors.cursor(event.seq.saturating_add(1)),
        });
        Self { gap, events: events.collect(), cursor: read.cursor.to_string() }
    }
}

/// A reader that replays and goes on live.
#[derive(uniffi::Object)]
pub struct Tail {
    tail: Mutex<tidings::Tail>,
}

impl Tail {
    pub(crate) fn new(tail: tidings::Tail) -> Arc<Self> {
        Arc::new(Self { tail: Mutex::new(tail) })
    }
}

#[uniffi::export]
impl Tail {
    /// What comes next; null once the stream is closed and everything was read.
    pub async fn next(&self) -> Result<Option<Batch>, TidingsError> {
        match self.tail.lock().await.next().await {
            Some(read) => Ok(Some(read?.into())),
            None => Ok(None),
        }
    }
}
