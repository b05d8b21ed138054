//! Streams, writers and tails, as a host holds them.

use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidings::proto::stream::{Cursor, CursorPrefix, Gap, identity_json};
use tidings::{After, Clock, Durability, Event, NewEvent, Read, ReadLimits, SystemClock};

use crate::answer::Answer;
use crate::error::{Error, ErrorCode, Result};
use crate::fork::{Own, lock};
use crate::hub::Hub;
use crate::pending::{Cancel, Started, start};

/// Where a host's reader starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// At the earliest event that is retained.
    #[default]
    Earliest,
    /// After the event of that number.
    Seq(u64),
    /// Where a cursor's text says.
    Cursor(String),
}

impl Place {
    fn parse(&self) -> Result<After> {
        match self {
            Self::Earliest => Ok(After::Earliest),
            Self::Seq(seq) => Ok(After::Seq(*seq)),
            Self::Cursor(text) => match Cursor::parse(text) {
                Ok(cursor) => Ok(After::Cursor(cursor)),
                Err(error) => Err(Error::new(ErrorCode::UnknownCursor, format!("after: {error}"))),
            },
        }
    }
}

/// How long an append must last: `process` survives kill -9, `disk` survives power loss.
///
/// # Errors
/// `invalid_argument` for any other name.
pub fn durability(name: &str) -> Result<Durability> {
    match name {
        "process" => Ok(Durability::Process),
        "disk" => Ok(Durability::Disk),
        _ => Err(Error::argument("durability", "must be 'process' or 'disk'")),
    }
}

/// Events of one read.
#[derive(Clone, Debug)]
pub struct Page {
    /// Tell this first: the read could not be complete.
    pub gap: Option<Gap>,
    /// In order.
    pub events: Vec<Event>,
    /// Where the reader stands after them.
    pub cursor: Cursor,
    /// The newest event's number; `None` if there never was one.
    pub head_seq: Option<u64>,
    /// The stream is closed and the events reach its end.
    pub ended: bool,
}

impl From<Read> for Page {
    fn from(read: Read) -> Self {
        let Read { gap, events, cursor, head_seq, ended } = read;
        Self { gap, events, cursor, head_seq, ended }
    }
}

impl Page {
    /// Writes cursors of this page's places.
    pub fn cursors(&self) -> CursorPrefix {
        CursorPrefix::new(self.cursor.stream, self.cursor.epoch, self.cursor.claim)
    }

    /// The first event that a reader who was told the gap does not have.
    pub fn first(&self) -> u64 {
        self.events.first().map_or(self.cursor.next, |event| event.seq)
    }

    fn cut(mut self, limit: usize) -> Self {
        if self.events.len() > limit {
            self.events.truncate(limit);
            self.cursor.next = self.events.last().map_or(self.cursor.next, |event| event.seq + 1);
            self.ended = false;
        }
        self
    }
}

/// What [`Stream::append`] appends.
#[derive(Clone, Debug)]
pub struct Append {
    /// The type of each.
    pub kind: String,
    /// JSON texts.
    pub payloads: Vec<Bytes>,
    /// From [`identity`].
    pub identity: Option<Bytes>,
    /// Closes the stream in the same step.
    pub close: bool,
    /// The key under which this is appended once.
    pub once: Option<String>,
    /// How long it must last.
    pub durability: Durability,
}

/// Who and what events belong to, as it is stored.
///
/// # Errors
/// `invalid_argument` for a member that none has, one that is there twice, and more than 65,535 bytes.
pub fn identity(members: &[(String, String)]) -> Result<Option<Bytes>> {
    let members = members.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let text = identity_json(members).map_err(|fault| Error::argument("identity", fault))?;
    Ok(text.map(Bytes::from))
}

/// A stream's committed events as JSON Lines, a page at a time.
pub struct Export {
    _hub: Hub,
    export: Own<Mutex<tidings::Export>>,
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").finish_non_exhaustive()
    }
}

impl Export {
    /// The next lines, each with its `\n`; `None` at the end. Blocks for a read.
    pub fn lines(&self) -> Result<Option<Vec<Vec<u8>>>> {
        Ok(lock(self.export.get()?).next().transpose()?)
    }
}

/// A stream, by its key.
#[derive(Clone)]
pub struct Stream {
    hub: Hub,
    stream: Arc<Own<tidings::Stream>>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Stream {
    pub(crate) fn new(hub: Hub, stream: tidings::Stream) -> Self {
        Self { hub, stream: Arc::new(Own::new(stream)) }
    }

    /// Whose it is.
    pub fn scope(&self) -> &str {
        &self.stream.key().scope
    }

    /// Its name there.
    pub fn name(&self) -> &str {
        &self.stream.key().name
    }

    /// Appends events, numbered inside the commit; answers [`Answer::Seq`].
    pub fn append(&self, append: Append) -> Started {
        let Append { kind, payloads, identity, close, once, durability } = append;
        let time = SystemClock.wall();
        let event = |payload| NewEvent { kind: kind.clone(), payload, time, identity: identity.clone() };
        let events: Vec<_> = payloads.into_iter().map(event).collect();
        self.start(async move |stream, _| {
            let seq = match once {
                Some(key) => stream.append_once(&key, events, close, durability).await,
                None if close => stream.append_and_close(events, durability).await,
                None => stream.append(events, durability).await,
            };
            Ok(Answer::Seq(seq?))
        })
    }

    /// What is committed after that place, as JSON Lines. Blocks for a read.
    pub fn export(&self, after: &Place) -> Result<Export> {
        let export = self.stream.get()?.export(after.parse()?)?;
        Ok(Export { _hub: self.hub.clone(), export: Own::new(Mutex::new(export)) })
    }

    /// Closes the stream; answers [`Answer::Done`].
    pub fn close(&self) -> Started {
        self.start(async |stream, _| {
            stream.close(Vec::new(), Durability::Process).await?;
            Ok(Answer::Done)
        })
    }

    /// Takes the right to number the stream in memory; answers [`Answer::Writer`].
    pub fn claim(&self) -> Started {
        self.start(async |stream, hub| Ok(Answer::Writer(Writer::new(hub, stream.claim().await?))))
    }

    fn start<F>(&self, work: impl FnOnce(Arc<Own<tidings::Stream>>, Hub) -> F) -> Started
    where
        F: Future<Output = Result<Answer>> + Send + 'static,
    {
        if let Err(error) = self.stream.get() {
            return Started::Ready(Err(error));
        }
        start(Cancel::Drop, work(Arc::clone(&self.stream), self.hub.clone()))
    }

    /// Reads committed events, at most `limit`. Blocks for the read.
    pub fn read(&self, after: &Place, limit: u32) -> Result<Page> {
        let stream = self.stream.get()?;
        let limits = ReadLimits { events: limit, ..ReadLimits::default() };
        Ok(Page::from(stream.read(after.parse()?, limits)?).cut(limit as usize))
    }

    /// Reads and goes on live. Blocks for a read.
    pub fn tail(&self, after: &Place) -> Result<Tail> {
        Ok(Tail::new(self.hub.clone(), self.stream.get()?.tail(after.parse()?)?))
    }
}

/// The right of one writer to number a stream in memory.
#[derive(Clone)]
pub struct Writer {
    hub: Hub,
    writer: Arc<Own<tidings::Writer>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("stream", &self.writer.stream_id()).finish_non_exhaustive()
    }
}

impl Writer {
    pub(crate) fn new(hub: Hub, writer: tidings::Writer) -> Self {
        Self { hub, writer: Arc::new(Own::new(writer)) }
    }

    /// The stream's random id.
    pub fn stream(&self) -> String {
        self.writer.stream_id().to_string()
    }

    /// Numbers one event, without waiting.
    #[inline]
    pub fn append(&self, kind: &str, payload: &[u8], identity: Option<&Bytes>) -> Result<u64> {
        // The core checks the fork itself.
        Ok(self.writer.append(kind, payload, identity)?)
    }

    /// Numbers events, all or none, without waiting; they are committed together. `close` closes the stream after them.
    pub fn append_all(
        &self,
        kind: &str,
        payloads: &[&[u8]],
        identity: Option<&Bytes>,
        close: bool,
    ) -> Result<Range<u64>> {
        Ok(self.writer.append_all(kind, payloads.iter().copied(), identity, close)?)
    }

    /// Like [`append`](Self::append), but gives up the oldest buffered events where that answers `congested`.
    pub fn append_giving_up(&self, kind: &str, payload: &[u8], identity: Option<&Bytes>) -> Result<u64> {
        Ok(self.writer.append_giving_up(kind, payload, identity)?)
    }

    /// The cursor of a reader that has the event `seq`.
    #[inline]
    pub fn cursor_after(&self, seq: u64) -> String {
        self.writer.cursor_after(seq)
    }

    /// The cursor of a reader that has everything numbered so far.
    pub fn cursor(&self) -> Result<String> {
        Ok(self.writer.get()?.cursor())
    }

    /// More is buffered than is good.
    pub fn congested(&self) -> bool {
        self.writer.get().is_ok_and(tidings::Writer::congested)
    }

    /// The stream takes no more events from this writer.
    pub fn closed(&self) -> bool {
        self.writer.get().map_or(true, tidings::Writer::closed)
    }

    /// Closes the stream after the last event, without waiting.
    pub fn close(&self) -> Result<()> {
        Ok(self.writer.get()?.close()?)
    }

    /// Waits until everything appended before is committed; answers [`Answer::Done`].
    pub fn flush(&self, durability: Durability) -> Started {
        if let Err(error) = self.writer.get() {
            return Started::Ready(Err(error));
        }
        let (writer, hub) = (Arc::clone(&self.writer), self.hub.clone());
        start(Cancel::Drop, async move {
            let _hub = hub;
            writer.flush(durability).await?;
            Ok(Answer::Done)
        })
    }
}

/// A reader that replays and goes on live. Clones are the same reader.
#[derive(Clone)]
pub struct Tail {
    hub: Hub,
    id: Arc<str>,
    inner: Arc<Own<Mutex<Reader>>>,
}

struct Reader {
    /// `None` once it is closed.
    tail: Option<tidings::Tail>,
    cursor: Cursor,
    /// A batch that was read and not taken: cancelling the one who waits for it loses nothing.
    batch: Option<Result<Page>>,
    ended: bool,
    /// Somebody waits.
    waits: bool,
    waker: Option<Waker>,
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("stream", &self.id).finish_non_exhaustive()
    }
}

/// What a tail has for its host.
#[derive(Debug)]
pub enum Taken {
    /// At least one event or a gap.
    Batch(Page),
    /// The stream is closed and everything was read, or the tail was closed.
    End,
    /// Nothing: another taker was quicker. Wait again.
    Nothing,
}

impl Tail {
    pub(crate) fn new(hub: Hub, tail: tidings::Tail) -> Self {
        let (id, cursor) = (tail.stream_id().to_string().into(), tail.cursor());
        let reader = Reader { tail: Some(tail), cursor, batch: None, ended: false, waits: false, waker: None };
        Self { hub, id, inner: Arc::new(Own::new(Mutex::new(reader))) }
    }

    /// The stream's random id.
    pub fn stream(&self) -> &str {
        &self.id
    }

    /// Where the reader stands after all that was taken.
    pub fn cursor(&self) -> Result<String> {
        Ok(lock(self.inner.get()?).cursor.to_string())
    }

    /// Waits for a batch; answers [`Answer::Readable`]. One at a time. May block for a read.
    pub fn next(&self, limits: ReadLimits) -> Started {
        let reader = match self.inner.get() {
            Ok(reader) => reader,
            Err(error) => return Started::Ready(Err(error)),
        };
        if std::mem::replace(&mut lock(reader).waits, true) {
            return Started::Ready(Err(Error::new(
                ErrorCode::InvalidArgument,
                "tail: somebody else waits for it already",
            )));
        }
        let waiting = Waiting(self.clone());
        start(Cancel::Drop, async move {
            let waiting = waiting;
            poll_fn(|cx| waiting.0.poll(cx, limits)).await;
            Ok(Answer::Readable(waiting.0.clone()))
        })
    }

    fn poll(&self, cx: &mut Context<'_>, limits: ReadLimits) -> Poll<()> {
        let mut reader = lock(&self.inner);
        if reader.batch.is_some() || reader.ended {
            return Poll::Ready(());
        }
        let Some(tail) = &mut reader.tail else { return Poll::Ready(()) };
        match tail.poll_next(cx, limits) {
            Poll::Ready(Some(read)) => {
                reader.batch = Some(read.map(Page::from).map_err(Error::from));
                Poll::Ready(())
            }
            Poll::Ready(None) => {
                reader.ended = true;
                Poll::Ready(())
            }
            Poll::Pending => {
                reader.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Takes what [`next`](Self::next) found.
    pub fn take(&self) -> Result<Taken> {
        let mut reader = lock(self.inner.get()?);
        match reader.batch.take() {
            Some(Ok(page)) => {
                reader.cursor = page.cursor;
                Ok(Taken::Batch(page))
            }
            Some(Err(error)) => Err(error),
            None if reader.ended || reader.tail.is_none() => Ok(Taken::End),
            None => Ok(Taken::Nothing),
        }
    }

    /// Whether the stream is open and its writer's process is gone. `false` once the reader is closed. Blocks for a read.
    pub fn abandoned(&self) -> Result<bool> {
        let reader = lock(self.inner.get()?);
        Ok(match &reader.tail {
            Some(tail) => tail.abandoned()?,
            None => false,
        })
    }

    /// Ends the reader; whoever waits for it is told.
    pub fn close(&self) {
        let Ok(reader) = self.inner.get() else { return };
        let mut reader = lock(reader);
        let (tail, waker) = (reader.tail.take(), reader.waker.take());
        reader.batch = None;
        drop(reader);
        drop(tail);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The hub it reads from.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }
}

/// Somebody waits for the tail, until this goes.
struct Waiting(Tail);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Ok(reader) = self.0.inner.get() {
            let mut reader = lock(reader);
            reader.waits = false;
            reader.waker = None;
        }
    }
}
