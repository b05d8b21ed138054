//! Readers that replay and go on live.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidings_proto::stream::{Cursor, Gap, GapReason, Resume, StreamId};
use tidings_store::{Event, ReadLimits, StreamInfo};

use crate::core::Core;
use crate::error::Result;
use crate::notify::Signal;
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
        Ok(Self { core, id: info.id, epoch: info.epoch, claim, next, gap, ended: false, signal: None })
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

    /// Reads what is committed, at most `limits`, without waiting.
    pub fn read(&mut self, limits: ReadLimits) -> Result<Read> {
        self.core.alive()?;
        let mut gap = self.gap.take();
        let mut events = Vec::new();
        let Some(page) = self.core.store.read(self.id, self.next, limits)? else {
            // Retention took the whole stream; what was told already stays told.
            self.ended = true;
            let gap = gap.or(Some(Gap::UNKNOWN));
            return Ok(Read { gap, events, cursor: self.cursor(), head_seq: None, ended: true });
        };
        let info = &page.info;
        if self.claim != info.claim {
            self.follow(info, &mut gap)?;
        }
        if self.next < info.earliest {
            gap.get_or_insert(told(GapReason::Evicted, info.earliest, info));
            self.next = info.earliest;
        }
        for chunk in &page.chunks {
            if chunk.end() <= self.next {
                continue;
            }
            if chunk.data.is_none() {
                if gap.is_some() || !events.is_empty() {
                    break; // one gap a read: this one is told by the next
                }
                gap = Some(told(GapReason::Lost, chunk.end(), info));
                self.next = chunk.end();
                continue;
            }
            let before = self.next;
            events.extend(chunk.events().filter(|event| event.seq >= before));
            self.next = chunk.end();
        }
        self.ended = info.closed_at.is_some() && self.next >= info.next_seq;
        let head_seq = info.next_seq.checked_sub(1);
        Ok(Read { gap, events, cursor: self.cursor(), head_seq, ended: self.ended })
    }

    /// A newer claim numbers the stream: if it began before the reader's place, the events the reader has were taken back.
    fn follow(&mut self, info: &StreamInfo, gap: &mut Option<Gap>) -> Result<()> {
        if self.core.store.next_claim_first(self.id, self.claim)?.is_some_and(|first| self.next > first) {
            *gap = Some(told(GapReason::Regressed, info.earliest, info));
            self.next = info.earliest;
        }
        self.claim = info.claim;
        Ok(())
    }

    /// The next batch: at least one event or a gap. `Ready(None)`: the stream is closed and everything was read.
    /// The waker is woken when there is more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, limits: ReadLimits) -> Poll<Option<Result<Read>>> {
        self.poll_batch(cx.waker(), limits)
    }

    pub(crate) fn poll_batch(&mut self, waker: &Waker, limits: ReadLimits) -> Poll<Option<Result<Read>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let signal = self.signal.get_or_insert_with(|| self.core.notifier.watch(self.id)).clone();
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
        if self.signal.take().is_some() {
            self.core.notifier.unwatch(self.id);
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
