//! Streams, writers and tails.

use std::cell::RefCell;

use napi::bindgen_prelude::{Either, Either3, Null};
use napi_derive::napi;
use tidings_bridge::{self as bridge, Append, Place, ReadLimits, Taken};

use crate::convert::{Result, Text, Told, Value, begin, bytes, entry};
use crate::event::{Batch, Page};

/// A cursor, a sequence number, or the earliest event.
type After = Either3<String, f64, Null>;

fn place(after: After) -> bridge::Result<Place> {
    Ok(match after {
        Either3::A(cursor) => Place::Cursor(cursor),
        Either3::B(seq) => Place::Seq(bridge::whole_number("after", seq)?),
        Either3::C(Null) => Place::Earliest,
    })
}

/// How events are appended to a stream.
#[napi(object, object_to_js = false)]
pub struct AppendOptions {
    /// The type of each.
    pub kind: String,
    /// `process` or `disk`.
    pub durability: String,
    /// Who and what they belong to, as pairs.
    pub identity: Vec<(String, String)>,
    /// Closes the stream in the same step.
    pub close: bool,
    /// The key under which this is appended once.
    pub key: Option<String>,
}

/// A stream's committed events as JSON Lines, a page at a time.
#[napi]
pub struct Export {
    inner: bridge::Export,
}

#[napi]
impl Export {
    /// The next lines, each with its line break; `null` at the end.
    #[napi]
    pub fn lines(&self) -> Result<Option<Vec<String>>> {
        let lines = entry("Export.lines", || self.inner.lines())?;
        let text = |line: Vec<u8>| match String::from_utf8(line) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Ok(lines.map(|lines| lines.into_iter().map(text).collect()))
    }
}

/// A stream, by its key.
#[napi]
pub struct Stream {
    inner: bridge::Stream,
}

impl Stream {
    pub(crate) fn new(inner: bridge::Stream) -> Self {
        Self { inner }
    }
}

#[napi]
impl Stream {
    /// Appends events, numbered inside the commit.
    #[napi(ts_return_type = "number | Pending")]
    pub fn append(&self, payloads: Vec<Text>, options: AppendOptions) -> Result<Told> {
        begin("Stream.append", || {
            let AppendOptions { kind, durability, identity, close, key } = options;
            if payloads.is_empty() {
                return Err(bridge::Error::argument("payload", "must be at least one"));
            }
            Ok(self.inner.append(Append {
                kind,
                payloads: payloads.into_iter().map(|payload| bytes(payload).into()).collect(),
                identity: bridge::identity(&identity)?,
                close,
                once: key,
                durability: bridge::durability(&durability)?,
            }))
        })
    }

    /// What is committed after that place, as JSON Lines.
    #[napi]
    pub fn export(&self, after: After) -> Result<Export> {
        entry("Stream.export", || self.inner.export(&place(after)?)).map(|inner| Export { inner })
    }

    /// Takes the right to number the stream.
    #[napi(ts_return_type = "Writer | Pending")]
    pub fn claim(&self) -> Result<Told> {
        begin("Stream.claim", || Ok(self.inner.claim()))
    }

    /// Closes the stream.
    #[napi(ts_return_type = "undefined | Pending")]
    pub fn close(&self) -> Result<Told> {
        begin("Stream.close", || Ok(self.inner.close()))
    }

    /// Reads committed events.
    #[napi]
    pub fn read(&self, after: After, limit: f64) -> Result<Page> {
        let page = entry("Stream.read", || {
            let limit = bridge::whole_number("limit", limit)?;
            self.inner.read(&place(after)?, bridge::limit(i64::try_from(limit).unwrap_or(i64::MAX))?)
        })?;
        Ok(Page::from(page))
    }

    /// Reads and goes on live.
    #[napi]
    pub fn tail(&self, after: After) -> Result<Tail> {
        entry("Stream.tail", || self.inner.tail(&place(after)?)).map(Tail::new)
    }
}

thread_local! {
    /// The writers of this thread, by handle. A free function on a number is quicker than a method of a class.
    static WRITERS: RefCell<Slots> = const { RefCell::new(Slots { slots: Vec::new(), free: Vec::new() }) };
}

struct Slots {
    slots: Vec<Option<bridge::Writer>>,
    free: Vec<u32>,
}

impl Slots {
    fn insert(&mut self, writer: bridge::Writer) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.slots[handle as usize] = Some(writer);
            return handle;
        }
        self.slots.push(Some(writer));
        u32::try_from(self.slots.len() - 1).expect("a thread has fewer than 2^32 writers")
    }

    fn remove(&mut self, handle: u32) -> Option<bridge::Writer> {
        let writer = self.slots.get_mut(handle as usize)?.take();
        self.free.push(handle);
        writer
    }
}

/// The right of one writer to number a stream in memory. It holds the handle, which goes when it does.
#[napi]
pub struct Writer {
    inner: bridge::Writer,
    handle: u32,
}

impl Writer {
    pub(crate) fn new(inner: bridge::Writer) -> Self {
        let handle = WRITERS.with_borrow_mut(|writers| writers.insert(inner.clone()));
        Self { inner, handle }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // At the end of the thread the list may have gone before.
        let _ = WRITERS.try_with(|writers| drop(writers.borrow_mut().remove(self.handle)));
    }
}

#[napi]
impl Writer {
    /// Names the writer for `append`.
    #[napi(getter)]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The stream's random id.
    #[napi(getter)]
    pub fn stream(&self) -> Result<String> {
        entry("Writer.stream", || Ok(self.inner.stream()))
    }

    /// The cursor of a reader that has everything appended so far.
    #[napi]
    pub fn cursor(&self) -> Result<String> {
        entry("Writer.cursor", || self.inner.cursor())
    }

    /// More is buffered than is good.
    #[napi(getter)]
    pub fn congested(&self) -> Result<bool> {
        entry("Writer.congested", || Ok(self.inner.congested()))
    }

    /// Whether the stream takes no more events from this writer.
    #[napi(getter)]
    pub fn closed(&self) -> Result<bool> {
        entry("Writer.closed", || Ok(self.inner.closed()))
    }

    /// Closes the stream after the last event, without waiting.
    #[napi]
    pub fn close(&self) -> Result<()> {
        entry("Writer.close", || self.inner.close())
    }

    /// Waits until everything appended before is committed.
    #[napi(ts_return_type = "undefined | Pending")]
    pub fn flush(&self, durability: String) -> Result<Told> {
        begin("Writer.flush", || Ok(self.inner.flush(bridge::durability(&durability)?)))
    }
}

/// How an event is appended.
const CLOSE: u32 = 1;
const GIVE_UP: u32 = 2;

/// Appends one event by the writer of that handle and answers its cursor, without waiting. `flags`: 1 closes the stream
/// after it, 2 gives up the oldest buffered events where it would be `congested`.
#[napi]
pub fn append(
    handle: u32,
    kind: String,
    payload: Text,
    flags: u32,
    identity: Option<Vec<(String, String)>>,
) -> Result<String> {
    entry("Writer.append", || {
        WRITERS.with_borrow(|writers| {
            let writer = writers.slots.get(handle as usize).and_then(Option::as_ref);
            let writer = writer.ok_or_else(|| bridge::Error::argument("handle", "names no writer"))?;
            let payload = match &payload {
                Either::A(text) => text.as_bytes(),
                Either::B(buffer) => buffer,
            };
            let identity = identity.map_or(Ok(None), |members| bridge::identity(&members))?;
            // What closes a stream is never refused for want of room.
            let seq = if flags & CLOSE != 0 {
                writer.append_all(&kind, &[payload], identity.as_ref(), true)?.start
            } else if flags & GIVE_UP != 0 {
                writer.append_giving_up(&kind, payload, identity.as_ref())?
            } else {
                writer.append(&kind, payload, identity.as_ref())?
            };
            Ok(writer.cursor_after(seq))
        })
    })
}

/// A reader that replays and goes on live.
#[napi]
pub struct Tail {
    inner: bridge::Tail,
}

impl Tail {
    pub(crate) fn new(inner: bridge::Tail) -> Self {
        Self { inner }
    }
}

#[napi]
impl Tail {
    /// The stream's random id.
    #[napi(getter)]
    pub fn stream(&self) -> String {
        self.inner.stream().to_owned()
    }

    /// Where the reader stands after all that was taken.
    #[napi]
    pub fn cursor(&self) -> Result<String> {
        entry("Tail.cursor", || self.inner.cursor())
    }

    /// The next batch, `null` at the end, `undefined` to ask again; or a wait for that.
    #[napi(ts_return_type = "Batch | null | undefined | Pending")]
    pub fn next(&self) -> Result<Told> {
        begin("Tail.next", || Ok(self.inner.next(ReadLimits::default())))
    }

    /// Whether the stream is open and its writer's process is gone.
    #[napi]
    pub fn abandoned(&self) -> Result<bool> {
        entry("Tail.abandoned", || self.inner.abandoned())
    }

    /// Ends the reader; whoever waits for it is told.
    #[napi]
    pub fn close(&self) -> Result<()> {
        entry("Tail.close", || {
            self.inner.close();
            Ok(())
        })
    }
}

/// What a tail has for its reader.
pub(crate) fn take(tail: &bridge::Tail) -> Result<Value> {
    Ok(match entry("Tail.next", || tail.take())? {
        Taken::Batch(page) => Value::E(Batch::from(page)),
        Taken::End => Value::B(Null),
        Taken::Nothing => Value::A(()),
    })
}
