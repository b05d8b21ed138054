//! Streams: appending, reading, following.

use std::collections::HashMap;
use std::sync::Arc;

use tidings_bridge::{self as bridge, Answer, Bytes, ReadLimits};

use crate::entry::{answer, done, entry};
use crate::error::TidingsError;

/// What a commit survives once it is done.
pub type Durability = bridge::Durability;

/// What a commit survives once it is done.
#[uniffi::remote(Enum)]
pub enum Durability {
    /// The end of the process, kill -9 included.
    Process,
    /// Loss of power.
    Disk,
}

/// Where a reader starts.
pub type Place = bridge::Place;

/// Where a reader starts.
#[uniffi::remote(Enum)]
pub enum Place {
    /// At the earliest event that is retained.
    Earliest,
    /// After the event of that number.
    Seq(u64),
    /// Where a cursor's text says.
    Cursor(String),
}

/// Why a read could not be complete.
pub type GapReason = bridge::GapReason;

/// Why a read could not be complete.
#[uniffi::remote(Enum)]
pub enum GapReason {
    /// Events after the cursor were dropped by retention.
    Evicted,
    /// The cursor names events that a crash took back; the same numbers may since name other events.
    Regressed,
    /// Events were given up while the store was down.
    Lost,
    /// No such stream in this scope, or no cursor of ours.
    Unknown,
}

/// The truthful answer when a resume cannot be complete.
pub type Gap = bridge::Gap;

/// The truthful answer when a resume cannot be complete.
#[uniffi::remote(Record)]
pub struct Gap {
    /// Why.
    pub reason: GapReason,
    /// The number from which a reader can go on without another gap; none for `unknown`.
    pub earliest_seq: Option<u64>,
    /// The newest event's number; none for `unknown` and where there never was one.
    pub head_seq: Option<u64>,
}

/// One event of a stream.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Event {
    /// Its number, from 0, without holes.
    pub seq: u64,
    /// What it is.
    pub kind: String,
    /// JSON text as it was given.
    pub payload: Vec<u8>,
    /// Wall time of the append, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who and what it belongs to, as JSON text.
    pub identity: Option<String>,
    /// Where a reader stands that has it.
    pub cursor: String,
}

/// What a read found. Of a tail: at least one event, or a gap.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Page {
    /// Tell this first.
    pub gap: Option<Gap>,
    /// In order.
    pub events: Vec<Event>,
    /// Where the reader stands after these.
    pub cursor: String,
    /// The newest event's number; none if there never was one.
    pub head_seq: Option<u64>,
    /// The stream is closed and the events reach its end.
    pub ended: bool,
}

impl From<bridge::Page> for Page {
    fn from(page: bridge::Page) -> Self {
        let cursors = page.cursors();
        let bridge::Page { gap, events, cursor, head_seq, ended } = page;
        let events = events.into_iter().map(|event| Event {
            seq: event.seq,
            kind: event.kind,
            payload: event.payload.to_vec(),
            time_ms: event.time,
            identity: event.identity.map(|json| String::from_utf8_lossy(&json).into_owned()),
            cursor: cursors.cursor(event.seq.saturating_add(1)),
        });
        Self { gap, events: events.collect(), cursor: cursor.to_string(), head_seq, ended }
    }
}

/// What a tail has for its host.
#[derive(Clone, Debug, uniffi::Enum)]
pub enum Taken {
    /// At least one event, or a gap.
    Batch {
        /// They.
        page: Page,
    },
    /// The stream is closed and everything was read, or the tail was stopped.
    End,
    /// Nothing: another taker was quicker. Wait again.
    Nothing,
}

impl From<bridge::Taken> for Taken {
    fn from(taken: bridge::Taken) -> Self {
        match taken {
            bridge::Taken::Batch(page) => Self::Batch { page: page.into() },
            bridge::Taken::End => Self::End,
            bridge::Taken::Nothing => Self::Nothing,
        }
    }
}

fn identity(members: HashMap<String, String>) -> bridge::Result<Option<Bytes>> {
    bridge::identity(&members.into_iter().collect::<Vec<_>>())
}

/// A stream, by its key.
#[derive(uniffi::Object)]
pub struct Stream {
    inner: bridge::Stream,
}

impl Stream {
    pub(crate) fn new(inner: bridge::Stream) -> Arc<Self> {
        Arc::new(Self { inner })
    }
}

#[uniffi::export]
impl Stream {
    /// Appends events of one type and answers the number of the first once they are committed. Payloads are JSON texts, kept
    /// byte for byte. With a key they are appended once, however often this is called with it; `close` closes the stream in the
    /// same step. Without a durability they survive the end of the process.
    #[uniffi::method(default(key = None, close = false, durability = None, identity))]
    pub async fn append(
        &self,
        kind: String,
        payloads: Vec<Vec<u8>>,
        key: Option<String>,
        close: bool,
        identity: HashMap<String, String>,
        durability: Option<Durability>,
    ) -> Result<u64, TidingsError> {
        let begin = || {
            Ok(self.inner.append(bridge::Append {
                kind,
                payloads: payloads.into_iter().map(Bytes::from).collect(),
                identity: self::identity(identity)?,
                close,
                once: key,
                durability: durability.unwrap_or_default(),
            }))
        };
        let seq = |answer| match answer {
            Answer::Seq(seq) => Some(seq),
            _ => None,
        };
        answer("Stream.append", begin, seq).await
    }

    /// Closes the stream: its readers end after its last event.
    pub async fn close_stream(&self) -> Result<(), TidingsError> {
        answer("Stream.closeStream", || Ok(self.inner.close()), done).await
    }

    /// Takes the right to number the stream in memory. Every older writer is fenced.
    pub async fn claim(&self) -> Result<Arc<Writer>, TidingsError> {
        let writer = |answer| match answer {
            Answer::Writer(inner) => Some(Writer::new(inner)),
            _ => None,
        };
        answer("Stream.claim", || Ok(self.inner.claim()), writer).await
    }

    /// Reads committed events, from the earliest where no place is given. Blocks for the read.
    #[uniffi::method(default(after = None, limit = 1024))]
    pub fn read(&self, after: Option<Place>, limit: u32) -> Result<Page, TidingsError> {
        entry("Stream.read", || Ok(self.inner.read(&after.unwrap_or_default(), bridge::limit(limit.into())?)?.into()))
    }

    /// Reads and goes on live, from the earliest where no place is given. Blocks for a read.
    #[uniffi::method(default(after = None))]
    pub fn tail(&self, after: Option<Place>) -> Result<Arc<Tail>, TidingsError> {
        entry("Stream.tail", || Ok(Tail::new(self.inner.tail(&after.unwrap_or_default())?)))
    }
}

/// The right of one writer to number a stream in memory.
#[derive(uniffi::Object)]
pub struct Writer {
    inner: bridge::Writer,
}

impl Writer {
    pub(crate) fn new(inner: bridge::Writer) -> Arc<Self> {
        Arc::new(Self { inner })
    }
}

#[uniffi::export]
impl Writer {
    /// Numbers one event, without waiting for its commit; the cursor of a reader that has it.
    #[uniffi::method(default(identity))]
    pub fn append(
        &self,
        kind: &str,
        payload: Vec<u8>,
        identity: HashMap<String, String>,
    ) -> Result<String, TidingsError> {
        entry("Writer.append", || {
            let seq = self.inner.append(kind, &payload, self::identity(identity)?.as_ref())?;
            Ok(self.inner.cursor_after(seq))
        })
    }

    /// The cursor of a reader that has everything numbered so far.
    pub fn cursor(&self) -> Result<String, TidingsError> {
        entry("Writer.cursor", || self.inner.cursor())
    }

    /// More is buffered than is good.
    pub fn congested(&self) -> bool {
        self.inner.congested()
    }

    /// The stream takes no more events from this writer.
    pub fn closed(&self) -> bool {
        self.inner.closed()
    }

    /// Closes the stream after the last event, without waiting.
    pub fn close_stream(&self) -> Result<(), TidingsError> {
        entry("Writer.closeStream", || self.inner.close())
    }

    /// Waits until everything appended before is committed.
    #[uniffi::method(default(durability = None))]
    pub async fn flush(&self, durability: Option<Durability>) -> Result<(), TidingsError> {
        answer("Writer.flush", || Ok(self.inner.flush(durability.unwrap_or_default())), done).await
    }
}

/// A reader that replays and goes on live.
#[derive(uniffi::Object)]
pub struct Tail {
    inner: bridge::Tail,
}

impl Tail {
    pub(crate) fn new(inner: bridge::Tail) -> Arc<Self> {
        Arc::new(Self { inner })
    }
}

#[uniffi::export]
impl Tail {
    /// Waits until there is something to take. One at a time. May block for a read.
    pub async fn ready(&self) -> Result<(), TidingsError> {
        let readable = |answer| matches!(answer, Answer::Readable(_)).then_some(());
        answer("Tail.ready", || Ok(self.inner.next(ReadLimits::default())), readable).await
    }

    /// Takes what `ready` found. Apart from the waiting, so that a coroutine that is cancelled takes nothing along: uniffi drops
    /// an answer that comes in that moment.
    pub fn take(&self) -> Result<Taken, TidingsError> {
        entry("Tail.take", || Ok(self.inner.take()?.into()))
    }

    /// Where the reader stands after all that was taken.
    pub fn cursor(&self) -> Result<String, TidingsError> {
        entry("Tail.cursor", || self.inner.cursor())
    }

    /// Whether the stream is open and its writer's process is gone. Blocks for a read.
    pub fn abandoned(&self) -> Result<bool, TidingsError> {
        entry("Tail.abandoned", || self.inner.abandoned())
    }

    /// Ends the reader; whoever waits for it is told.
    pub fn stop(&self) -> Result<(), TidingsError> {
        entry("Tail.stop", || {
            self.inner.close();
            Ok(())
        })
    }
}
