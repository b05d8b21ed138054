//! Readers that replay and go on live.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidings_proto::stream::{Cursor, Gap, GapReason, Resume, StreamId};
use tidings_store::{Chunk, Event, Page, ReadLimits, StreamInfo};

use crate::core::Core;
use crate::error::Result;
use crate::notify::Signal;
use crate::owned::Owned;
use crate::stream::{After, Read, resume};

/// A reader that replays after a place and goes on live: no hole and no double at the join, for both come from the
/// committed stream. It keeps nothing in memory but its place, so a slow reader costs nothing; one that retention
/// overtakes gets a gap.
pub struct Tail {
    core: Arc<Core>,
    id: StreamId,
    epoch: u32,
    /// The newest claim the reader knows of: events before `next` were numbered under it or an older one.
    claim: u32,
    next: u64,
    gap: Option<Gap>,
    ended: bool,
    /// Of what was read no more than so many events are answered; the rest is read again.
    limit: usize,
    /// The stream's writer, while no commit has reached the stream.
    unborn: Option<Arc<Owned>>,
    signal: Option<Arc<Signal>>,
}

impl Tail {
    pub(crate) fn start(core: Arc<Core>, info: StreamInfo, after: After) -> Result<Self> {
        let (next, gap) = match resume(&core, &info, after)? {
            Resume::From(next) => (next, None),
            Resume::Gap(gap) => (gap.earliest_seq.unwrap_or(info.earliest), Some(gap)),
        };
        let claim = match after {
            After::Cursor(cursor) if gap.is_none() => cursor.claim,
            _ => info.claim,
        };
        let (id, epoch) = (info.id, info.epoch);
        Ok(Self { core, id, epoch, claim, next, gap, ended: false, limit: usize::MAX, unborn: None, signal: None })
    }

    /// A tail of a stream that no commit has reached.
    pub(crate) fn start_unborn(core: Arc<Core>, owned: Arc<Owned>, info: StreamInfo, after: After) -> Result<Self> {
        let mut tail = Self::start(core, info, after)?;
        tail.unborn = Some(owned);
        Ok(tail)
    }

    /// Where the reader stands.
    pub fn cursor(&self) -> Cursor {
        Cursor { stream: self.id, epoch: self.epoch, claim: self.claim, next: self.next }
    }

    /// The stream's identity.
    pub fn stream_id(&self) -> StreamId {
        self.id
    }

    /// Whether the stream is open and yet nothing more is to come: it is one writer's, and that writer's process is gone.
    /// Only a new claim continues such a stream. What is committed may still have to be read. Blocks for a read.
    pub fn abandoned(&self) -> Result<bool> {
        self.core.alive()?;
        let info = self.core.store.stream_by_id(self.id)?;
        Ok(info.is_some_and(|info| info.owned && info.owner_gone && info.closed_at.is_none()))
    }

    /// Reads what is committed, at most `limits.events`, and about `limits.bytes`. The page is what the store has with
    /// these limits from the place on that the reader began at, unless a gap moves it.
    pub(crate) fn read_exactly(&mut self, limits: ReadLimits, page: Page) -> Result<Read> {
        self.limit = limits.events.max(1) as usize;
        if self.gap.is_some() {
            return self.read(limits);
        }
        Ok(self.read_page(page))
    }

    /// Reads what is committed, about `limits` (whole stored chunks, see [`ReadLimits`]), without waiting. At most one
    /// gap, which comes before the events.
    pub fn read(&mut self, limits: ReadLimits) -> Result<Read> {
        self.core.alive()?;
        if self.ended {
            return Ok(self.answer(None, Vec::new(), None));
        }
        if let Some(read) = self.read_recent(limits) {
            return Ok(read);
        }
        let Some(mut page) = self.page(limits)? else {
            if self.unborn.is_some() {
                return Ok(self.answer(None, Vec::new(), None));
            }
            // Retention took the whole stream, or it never came to be; what was told already stays told.
            self.ended = true;
            let gap = self.gap.take().unwrap_or(Gap::UNKNOWN);
            return Ok(self.answer(Some(gap), Vec::new(), None));
        };
        if self.claim != page.info.claim {
            // A newer claim numbers the stream: if it began before the reader's place, events the reader has were taken back.
            let first = self.core.store.next_claim_first(self.id, self.claim)?;
            if first.is_some_and(|first| self.next > first) {
                let earliest = page.info.earliest;
                let Some(again) = self.core.store.read(self.id, earliest, limits)? else {
                    self.ended = true;
                    return Ok(self.answer(Some(Gap::UNKNOWN), Vec::new(), None));
                };
                page = again;
                self.next = page.info.earliest;
                self.gap = Some(told(GapReason::Regressed, self.next, &page.info));
            }
        }
        Ok(self.read_page(page))
    }

    /// What of a page is the reader's. Does not fail, so a gap that is taken is told.
    fn read_page(&mut self, page: Page) -> Read {
        let info = &page.info;
        self.claim = info.claim;
        let mut gap = self.gap.take();
        if self.next < info.earliest {
            let reason = gap.map_or(GapReason::Evicted, |gap| gap.reason);
            gap = Some(told(reason, info.earliest, info));
            self.next = info.earliest;
        }
        let events = self.take(&page.chunks, info, &mut gap);
        self.ended = info.closed_at.is_some() && self.next >= info.next_seq;
        self.answer(gap, events, info.next_seq.checked_sub(1))
    }

    /// What this process has just committed need not be read back.
    fn read_recent(&mut self, limits: ReadLimits) -> Option<Read> {
        if self.signal.is_none() || self.gap.is_some() || self.unborn.is_some() {
            return None;
        }
        let found = self.core.notifier.recent(self.id, self.claim, self.next, limits)?;
        let mut events = Vec::new();
        for chunk in &found.chunks {
            events.extend(chunk.events_from(self.next).take(chunk.count as usize));
        }
        self.next = events.last()?.seq + 1;
        self.ended = found.closed && self.next >= found.end;
        Some(self.answer(None, events, Some(found.end - 1)))
    }

    fn page(&mut self, limits: ReadLimits) -> Result<Option<Page>> {
        let mut page = self.core.store.read(self.id, self.next, limits)?;
        if page.is_none()
            && let Some(owned) = &self.unborn
        {
            if owned.is_unborn() {
                return Ok(None);
            }
            // Born since, or refused.
            page = self.core.store.read(self.id, self.next, limits)?;
        }
        self.unborn = None;
        Ok(page)
    }

    /// The events of the chunks from the reader's place on. Where some are missing the reader is told once: what comes
    /// after that belongs to the next read, unless nothing was read before it.
    fn take(&mut self, chunks: &[Chunk], info: &StreamInfo, gap: &mut Option<Gap>) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        for chunk in chunks.iter().filter(|chunk| chunk.end() > info.earliest) {
            if chunk.end() <= self.next {
                continue;
            }
            let from = self.next;
            let wanted = self.limit.saturating_sub(events.len());
            events.reserve(wanted.min(chunk.holds(from)));
            events.extend(chunk.events_from(from).take_while(|event| event.seq < chunk.end()).take(wanted));
            self.next = events.last().map_or(from, |event| event.seq + 1).max(from);
            if self.next == chunk.end() {
                continue;
            }
            if events.len() == self.limit {
                break;
            }
            // A tombstone, or bytes that do not hold the events they should.
            let goes_on = gap.is_some_and(|gap| gap.reason == GapReason::Lost && gap.earliest_seq == Some(self.next));
            if !events.is_empty() || (gap.is_some() && !goes_on) {
                break;
            }
            if chunk.data.is_some() {
                tracing::error!(stream = %self.id, first = self.next, end = chunk.end(), "a stored chunk is damaged");
            }
            self.next = chunk.end();
            *gap = Some(told(GapReason::Lost, self.next, info));
        }
        events
    }

    fn answer(&self, gap: Option<Gap>, events: Vec<Event>, head_seq: Option<u64>) -> Read {
        Read { gap, events, cursor: self.cursor(), head_seq, ended: self.ended }
    }

    /// The next batch: at least one event or a gap. `Ready(None)`: the stream is closed and everything was read.
    /// The waker is woken when there is more, and when the hub closes.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, limits: ReadLimits) -> Poll<Option<Result<Read>>> {
        self.poll_batch(cx.waker(), limits)
    }

    fn poll_batch(&mut self, waker: &Waker, limits: ReadLimits) -> Poll<Option<Result<Read>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            if let Err(error) = self.core.alive() {
                return Poll::Ready(Some(Err(error)));
            }
            let signal = self.signal.get_or_insert_with(|| self.core.watch(self.id)).clone();
            signal.reset();
            match self.read(limits) {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(read) if !read.events.is_empty() || read.gap.is_some() => return Poll::Ready(Some(Ok(read))),
                Ok(read) if read.ended => return Poll::Ready(None),
                Ok(_) if signal.register(waker) => return Poll::Pending,
                Ok(_) => {}
            }
        }
    }

    /// Waits for the next batch; `None` when the stream is closed and everything was read.
    pub async fn next(&mut self) -> Option<Result<Read>> {
        poll_fn(|cx| self.poll_next(cx, ReadLimits::default())).await
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that is not there.
        if let Some(signal) = self.signal.take()
            && self.core.is_ours()
        {
            self.core.notifier.unwatch(self.id, &signal);
        }
    }
}

fn told(reason: GapReason, earliest: u64, info: &StreamInfo) -> Gap {
    Gap { reason, earliest_seq: Some(earliest), head_seq: info.next_seq.checked_sub(1) }
}

/// Events as a plain list, for tests and small reads.
impl Read {
    /// The payloads, in order.
    pub fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        self.events.iter().map(|event: &Event| &event.payload[..])
    }
}
