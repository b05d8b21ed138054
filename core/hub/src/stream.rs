//! Streams: appending, claiming, reading.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tidings_proto::stream::{Cursor, Gap, MAX_SEQ, Resume, StreamId, StreamView, check, check_bare};
use tidings_store::{
    AppendShared, Commit, Done, Durability, Event, Identity, NewEvent, Op, ReadLimits, StreamInfo, StreamKey,
};
use tokio::sync::oneshot;

use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::export::Export;
use crate::owned::{End, MAX_LABEL_BYTES, Owned, too_large};
use crate::tail::Tail;

/// Answers when the end of a writer is committed, or why it was not.
pub(crate) type EndReply = oneshot::Receiver<Result<(), tidings_store::CommitError>>;

/// The longest key of an append that is made once.
pub const MAX_ONCE_BYTES: usize = 255;

/// Scope and name are at most this long each.
pub const MAX_KEY_BYTES: usize = 1_024;

/// Where to start reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// At the earliest event that is retained.
    #[default]
    Earliest,
    /// After the event of that number (SEP-2694's exclusive `after`), which the reader saw committed.
    Seq(u64),
    /// Where a cursor says.
    Cursor(Cursor),
}

impl After {
    /// The number of the event that is read first, unless there is a gap.
    fn next(self) -> u64 {
        match self {
            Self::Earliest => 0,
            Self::Seq(seq) => seq.saturating_add(1),
            Self::Cursor(cursor) => cursor.next,
        }
    }
}

/// Events of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Tell this first: the read could not be complete.
    pub gap: Option<Gap>,
    /// In order, without holes but those the gap tells.
    pub events: Vec<Event>,
    /// Where the reader stands after these events.
    pub cursor: Cursor,
    /// The newest event's number; `None` if there never was one.
    pub head_seq: Option<u64>,
    /// The stream is closed and the events reach its end.
    pub ended: bool,
}

/// A stream, by its key (scope and name, at most 1,024 bytes each). Cheap; touches the store only when used. The stream
/// itself comes to be with its first append or claim.
#[derive(Clone)]
pub struct Stream {
    pub(crate) core: Arc<Core>,
    pub(crate) key: StreamKey,
}

pub(crate) fn check_key(key: &StreamKey) -> Result<()> {
    for (field, text) in [("scope", &key.scope), ("name", &key.name)] {
        if text.len() > MAX_KEY_BYTES {
            return Err(Error::new(ErrorCode::InvalidArgument, format!("{field}: at most {MAX_KEY_BYTES} bytes")));
        }
    }
    Ok(())
}

impl Stream {
    /// The key.
    pub fn key(&self) -> &StreamKey {
        &self.key
    }

    /// Appends at least one event, numbered inside the commit, so that any process may (shared). Returns the number of
    /// the first once they are committed. On a stream that a writer has claimed, the writer is fenced.
    ///
    /// A future that is dropped before it is done may still append: what it gave to the writer thread is not taken back.
    pub async fn append(&self, events: Vec<NewEvent>, durability: Durability) -> Result<u64> {
        if events.is_empty() {
            return Err(none_given());
        }
        self.commit_shared(events, false, durability, Op::AppendShared).await
    }

    /// Appends at least one event once: whoever names the same key again, in any process and also after a restart, gets the
    /// number that the first append answered, and appends nothing, whatever it brings. Waits for the commit. `close`
    /// closes the stream in the same step; the key is known all the same.
    ///
    /// A key is 1 to [`MAX_ONCE_BYTES`] bytes, of this stream only, and known as long as the first event that was appended
    /// with it is retained. So what it answers can be read, and keys take no more room than retention leaves to events; an
    /// append that is repeated after its event was evicted is made again.
    pub async fn append_once(
        &self,
        key: &str,
        events: Vec<NewEvent>,
        close: bool,
        durability: Durability,
    ) -> Result<u64> {
        if key.is_empty() || key.len() > MAX_ONCE_BYTES {
            let rule = format!("key: 1 to {MAX_ONCE_BYTES} bytes");
            return Err(Error::new(ErrorCode::InvalidArgument, rule));
        }
        if events.is_empty() {
            return Err(none_given());
        }
        self.commit_shared(events, close, durability, |append| Op::AppendOnce { once: key.to_owned(), append }).await
    }

    /// Appends events and closes the stream, in one step. With no events it only closes.
    pub async fn close(&self, events: Vec<NewEvent>, durability: Durability) -> Result<()> {
        self.append_and_close(events, durability).await.map(drop)
    }

    /// The same; answers the number of the first event, or the one it would have had.
    pub async fn append_and_close(&self, events: Vec<NewEvent>, durability: Durability) -> Result<u64> {
        self.commit_shared(events, true, durability, Op::AppendShared).await
    }

    async fn commit_shared(
        &self,
        mut events: Vec<NewEvent>,
        close: bool,
        durability: Durability,
        op: impl FnOnce(AppendShared) -> Op,
    ) -> Result<u64> {
        for event in &mut events {
            let redacted = match self.core.options.redact.apply_bytes(&event.payload) {
                Cow::Owned(payload) => Some(payload),
                Cow::Borrowed(same) => (same != event.payload).then(|| same.to_vec()),
            };
            if let Some(payload) = redacted {
                event.payload = payload.into();
            }
        }
        if !events.iter().all(fits) {
            return Err(too_large());
        }
        let new_id = StreamId(self.core.random()?);
        let now = self.core.timeline.now();
        let op = op(AppendShared { key: self.key.clone(), new_id, events, close, now });
        match self.core.commit(Commit::new(durability, vec![op])).await?.pop() {
            Some(Done::Appended { first_seq, .. }) => Ok(first_seq),
            _ => Err(Error::new(ErrorCode::Internal, "the store did not number the events")),
        }
    }

    /// Takes the right to number the stream in memory; every other writer is fenced.
    pub async fn claim(&self) -> Result<Writer> {
        let new_id = StreamId(self.core.random()?);
        let op = Op::Claim { new_id, key: self.key.clone(), worker: self.core.worker };
        match self.core.commit(Commit::new(Durability::Process, vec![op])).await?.pop() {
            Some(Done::Claimed(claimed)) => {
                let owned = Owned::new(self.key.clone(), self.core.worker, claimed, false);
                Ok(Writer { core: Arc::clone(&self.core), owned: Arc::new(owned) })
            }
            _ => Err(Error::new(ErrorCode::Internal, "the store did not answer the claim")),
        }
    }

    /// What the store knows of the stream; `None` before its first commit.
    pub fn info(&self) -> Result<Option<StreamInfo>> {
        self.core.alive()?;
        Ok(self.core.store.stream(&self.key)?)
    }

    /// Reads committed events, at most `limits.events`. A stream that does not exist reads as empty from the start, and its cursor
    /// is [`Cursor::ORIGIN`], from which a later read goes on, whether or not the stream has come to be by then; from
    /// anywhere else it is an error of code `unknown_cursor`.
    pub fn read(&self, after: After, limits: ReadLimits) -> Result<Read> {
        self.core.alive()?;
        let page = self.core.store.read_key(&self.key, after.next(), limits)?;
        let Some(page) = page else {
            return match after {
                After::Earliest | After::Cursor(Cursor::ORIGIN) => {
                    Ok(Read { gap: None, events: Vec::new(), cursor: Cursor::ORIGIN, head_seq: None, ended: false })
                }
                _ => Err(Error::new(ErrorCode::UnknownCursor, "no such stream in this scope")),
            };
        };
        let mut tail = Tail::start(Arc::clone(&self.core), page.info.clone(), after)?;
        tail.read_exactly(limits, page)
    }

    /// What is committed now, after that place, as JSON Lines; see [`Export`].
    pub fn export(&self, after: After) -> Result<Export> {
        self.core.alive()?;
        match self.core.store.stream(&self.key)? {
            Some(info) => Export::start(Arc::clone(&self.core), info, after),
            None if matches!(after, After::Earliest | After::Cursor(Cursor::ORIGIN)) => Ok(Export::default()),
            None => Err(Error::new(ErrorCode::UnknownCursor, "no such stream in this scope")),
        }
    }

    /// Reads committed events and goes on live. The stream must exist.
    pub fn tail(&self, after: After) -> Result<Tail> {
        self.core.alive()?;
        let info = self.core.store.stream(&self.key)?;
        let info = info.ok_or_else(|| Error::new(ErrorCode::UnknownCursor, "no such stream in this scope"))?;
        Tail::start(Arc::clone(&self.core), info, after)
    }
}

/// Decides where a reader starts, as the gap rules say.
pub(crate) fn resume(core: &Core, info: &StreamInfo, after: After) -> Result<Resume> {
    let next_claim_first = match after {
        After::Cursor(cursor) if cursor.claim < info.claim => core.store.next_claim_first(info.id, cursor.claim)?,
        _ => None,
    };
    let view = StreamView {
        epoch: info.epoch,
        claim: info.claim,
        earliest: info.earliest,
        next_seq: info.next_seq,
        next_claim_first,
        owner_alive: info.owned && !info.owner_gone && info.closed_at.is_none(),
    };
    match after {
        // It has nothing: what retention took meanwhile is a gap, unlike for one that starts at the earliest.
        After::Cursor(Cursor::ORIGIN) => {
            let start = Cursor { stream: info.id, epoch: info.epoch, claim: info.claim, next: 0 };
            Ok(check(&start, &view))
        }
        After::Cursor(cursor) if cursor.stream != info.id => {
            Err(Error::new(ErrorCode::UnknownCursor, "the cursor is of another stream"))
        }
        After::Cursor(cursor) => Ok(check(&cursor, &view)),
        After::Earliest => Ok(Resume::From(info.earliest)),
        After::Seq(seq) if seq > MAX_SEQ => Err(Error::new(ErrorCode::InvalidArgument, "after: at most 2^53 - 1")),
        After::Seq(seq) => check_bare(Some(seq), &view).map_err(|head| {
            let head = head.map_or_else(|| "it has no events".to_owned(), |head| format!("the newest is {head}"));
            Error::new(ErrorCode::Ahead, format!("after: lies beyond the newest event ({head})"))
        }),
    }
}

/// The right of one writer to number a stream in memory (owned).
///
/// [`append`](Self::append) returns at once with the number; the writer thread commits soon after, in order. Cloning
/// gives another handle on the same writer.
#[derive(Clone)]
pub struct Writer {
    pub(crate) core: Arc<Core>,
    pub(crate) owned: Arc<Owned>,
}

impl Writer {
    /// The stream's identity.
    pub fn stream_id(&self) -> StreamId {
        self.owned.id
    }

    /// The stream's key.
    pub fn key(&self) -> &StreamKey {
        &self.owned.key
    }

    /// Numbers one event and returns its number, without waiting for anything. `payload` is JSON text, kept byte for
    /// byte; it is not checked here.
    ///
    /// While the store is down events stay in memory up to the hub's bound; past it the oldest become a tombstone (gap
    /// `lost`). While the store works, more than it can take is refused as `congested`.
    pub fn append(&self, kind: &str, payload: &[u8], identity: Option<&Identity>) -> Result<u64> {
        self.make_room()?;
        let time = self.core.timeline.wall();
        let payload = &*self.core.options.redact.apply_bytes(payload);
        self.owned.append(&self.core.committer, kind, payload, time, identity)
    }

    /// Numbers events of one type, all of them or none, and returns their numbers without waiting; they become visible
    /// together. `close` closes the stream after them, in the same step; what closes a stream is never `congested`.
    pub fn append_all<'a>(
        &self,
        kind: &str,
        payloads: impl IntoIterator<Item = &'a [u8]>,
        identity: Option<&Identity>,
        close: bool,
    ) -> Result<Range<u64>> {
        let redact = &self.core.options.redact;
        let payloads: Vec<Cow<'_, [u8]>> = payloads.into_iter().map(|payload| redact.apply_bytes(payload)).collect();
        let payloads: Vec<&[u8]> = payloads.iter().map(|payload| &**payload).collect();
        let identity_len = identity.map_or(0, Bytes::len);
        if !payloads.iter().all(|payload| fits_stored(kind, payload.len(), identity_len)) {
            return Err(too_large());
        }
        if close {
            self.core.alive()?;
        } else {
            self.make_room()?;
        }
        if close && self.owned.of_call {
            return Err(ends_with_its_call());
        }
        let time = self.core.timeline.wall();
        let end = close.then(|| End::alone().0);
        self.owned.append_all(&self.core.committer, kind, &payloads, time, identity, end)
    }

    /// Like [`append`](Self::append), for one who can wait no longer: where that answers `congested`, the oldest buffered
    /// events become a tombstone (gap `lost`).
    pub fn append_giving_up(&self, kind: &str, payload: &[u8], identity: Option<&Identity>) -> Result<u64> {
        self.core.alive()?;
        if self.core.committer.full() {
            self.core.committer.give_up();
        }
        let time = self.core.timeline.wall();
        let payload = &*self.core.options.redact.apply_bytes(payload);
        self.owned.append(&self.core.committer, kind, payload, time, identity)
    }

    /// The text of the cursor of a reader that has the event `seq` and all before it.
    pub fn cursor_after(&self, seq: u64) -> String {
        self.owned.prefix.cursor(seq.saturating_add(1))
    }

    /// The text of the cursor of a reader that has everything numbered so far.
    pub fn cursor(&self) -> String {
        self.owned.prefix.cursor(self.owned.next_seq())
    }

    /// More is buffered than is good: whoever can should wait for [`flush`](Self::flush).
    pub fn congested(&self) -> bool {
        self.core.committer.congested()
    }

    /// Whether the stream takes no more events from this writer.
    pub fn closed(&self) -> bool {
        self.owned.closed()
    }

    /// Closes the stream after the last event, without waiting. Closing twice is an error of code `closed`. The stream of
    /// a call ends with the call only.
    pub fn close(&self) -> Result<()> {
        self.end(None).map(drop)
    }

    /// Appends one last event and closes the stream, in one commit; returns its number without waiting.
    pub fn append_and_close(&self, kind: &str, payload: &[u8]) -> Result<u64> {
        let payload = &*self.core.options.redact.apply_bytes(payload);
        if !fits_stored(kind, payload.len(), 0) {
            return Err(too_large());
        }
        self.end(Some((kind, payload)))
    }

    fn end(&self, last: Option<(&str, &[u8])>) -> Result<u64> {
        self.core.alive()?;
        if self.owned.of_call {
            return Err(ends_with_its_call());
        }
        self.owned.seal()?;
        Ok(self.end_sealed(last, Vec::new(), Durability::Process).0)
    }

    /// Closes a stream that is sealed, with an optional last event; `ops` are committed in the same step. The receiver
    /// answers when that is done.
    pub(crate) fn end_sealed(
        &self,
        last: Option<(&str, &[u8])>,
        ops: Vec<Op>,
        durability: Durability,
    ) -> (u64, EndReply) {
        let (reply, receiver) = oneshot::channel();
        let wall = self.core.timeline.wall();
        let last = last.map(|(kind, payload)| (kind, payload, wall));
        (self.owned.finish(&self.core.committer, last, End { ops, durability, reply }), receiver)
    }

    /// Appends one event, whose payload is redacted already; `ops`, asked with its number, are committed with it or not at
    /// all.
    pub(crate) fn append_with(&self, kind: &str, payload: &[u8], ops: impl FnOnce(u64) -> Vec<Op>) -> Result<u64> {
        self.make_room()?;
        self.owned.append_with(&self.core.committer, kind, payload, self.core.timeline.wall(), ops)
    }

    /// Whether one more event may be buffered; gives up old ones for it when the store is down.
    fn make_room(&self) -> Result<()> {
        self.core.alive()?;
        let committer = &self.core.committer;
        if committer.full() {
            if !committer.failing() {
                return Err(Error::new(ErrorCode::Congested, "more events are buffered than the hub may hold"));
            }
            committer.give_up();
        }
        Ok(())
    }

    /// Waits until everything appended before, and a close, is committed, and with [`Durability::Disk`] until it survives power loss.
    /// What was given up meanwhile is committed as a gap.
    ///
    /// While the store fails this answers `unavailable` within about a second, and the events stay buffered.
    pub async fn flush(&self, durability: Durability) -> Result<()> {
        self.core.alive()?;
        let target = self.owned.target();
        if durability == Durability::Process && self.owned.reached(target) {
            return Ok(());
        }
        self.core.committer.flush(durability).await.map_err(|_| Error::closed("hub"))??;
        if self.owned.reached(target) {
            return Ok(());
        }
        match self.owned.refused() {
            Some(refused) => Err(refused.into()),
            None => Err(Error::new(ErrorCode::Unavailable, "the store took a later commit but not these events")),
        }
    }
}

fn none_given() -> Error {
    Error::new(ErrorCode::InvalidArgument, "events: at least one")
}

fn ends_with_its_call() -> Error {
    Error::new(ErrorCode::InvalidArgument, "close: the stream of a call ends with the call")
}

/// Whether an event fits into its stored form.
fn fits(event: &NewEvent) -> bool {
    fits_stored(&event.kind, event.payload.len(), event.identity.as_ref().map_or(0, Bytes::len))
}

fn fits_stored(kind: &str, payload: usize, identity: usize) -> bool {
    kind.len() <= MAX_LABEL_BYTES && identity <= MAX_LABEL_BYTES && u32::try_from(payload).is_ok()
}

/// A new event for [`Stream::append`], timed now by `core`'s clock.
pub(crate) fn new_event(core: &Core, kind: &str, payload: impl Into<Bytes>) -> NewEvent {
    NewEvent { kind: kind.to_owned(), payload: payload.into(), time: core.timeline.wall(), identity: None }
}
