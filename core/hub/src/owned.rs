//! One writer's numbering of one stream, in memory, ahead of the store.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tidings_proto::stream::{CursorPrefix, MAX_SEQ, StreamId};
use tidings_proto::time::{StoreMillis, UnixMillis};
use tidings_store::{Chunk, ChunkBuilder, CommitError, Durability, Identity, Op, Refused, StreamKey, WorkerId};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorCode, Result};
use crate::notify::lock;

/// A chunk is sealed when it holds this many events: reading from inside one skips at most this many.
const CHUNK_EVENTS: u32 = 1_024;
/// A chunk is sealed when it weighs this much.
const CHUNK_BYTES: usize = 256 << 10;

/// The end of a writer: what is committed in the same atomic step as its last events.
pub(crate) struct End {
    /// After the append and the close.
    pub(crate) ops: Vec<Op>,
    pub(crate) durability: Durability,
    /// Tried again while the store fails, even when nobody waits any more.
    pub(crate) reply: oneshot::Sender<Result<(), CommitError>>,
}

/// What the committer takes from a writer for one commit.
pub(crate) struct Taken {
    pub(crate) create: bool,
    pub(crate) chunks: Vec<Chunk>,
    /// Committed with the chunks or not at all.
    pub(crate) ops: Vec<Op>,
    pub(crate) end: Option<End>,
}

pub(crate) struct Owned {
    pub(crate) id: StreamId,
    pub(crate) key: StreamKey,
    pub(crate) worker: WorkerId,
    pub(crate) claim: u32,
    pub(crate) prefix: CursorPrefix,
    numbering: Mutex<Numbering>,
    /// The number after the last committed event.
    committed: AtomicU64,
}

struct Numbering {
    next_seq: u64,
    /// The store does not know the stream yet.
    create: bool,
    /// Given up while the store was down: stands before everything in `sealed`.
    lost: Option<(u64, u32)>,
    sealed: VecDeque<Chunk>,
    open: ChunkBuilder,
    open_first: u64,
    /// In the committer's list of writers with work.
    queued: bool,
    /// Committed in the same step as the events appended so far.
    ops: Vec<Op>,
    end: Option<End>,
    /// No more appends: closed, or closing.
    closed: bool,
    /// The store refused this writer for good.
    dead: Option<Refused>,
}

/// What an append came to.
pub(crate) struct Appended {
    pub(crate) seq: u64,
    /// Bytes it added to what is buffered.
    pub(crate) bytes: usize,
    /// The committer has to be told.
    pub(crate) enqueue: bool,
}

impl Owned {
    pub(crate) fn new(key: StreamKey, worker: WorkerId, claimed: tidings_store::Claimed, create: bool) -> Self {
        Self {
            id: claimed.stream,
            key,
            worker,
            claim: claimed.claim,
            prefix: CursorPrefix::new(claimed.stream, claimed.epoch, claimed.claim),
            numbering: Mutex::new(Numbering {
                next_seq: claimed.next_seq,
                create,
                lost: None,
                sealed: VecDeque::new(),
                open: ChunkBuilder::default(),
                open_first: claimed.next_seq,
                queued: false,
                ops: Vec::new(),
                end: None,
                closed: false,
                dead: None,
            }),
            committed: AtomicU64::new(claimed.next_seq),
        }
    }

    /// Numbers one event and keeps it for the committer. Copies the payload once, into the chunk that will be stored.
    pub(crate) fn append(
        &self,
        kind: &str,
        payload: &[u8],
        time: UnixMillis,
        identity: Option<&Identity>,
    ) -> Result<Appended> {
        lock(&self.numbering).append(kind, payload, time, identity)
    }

    /// Numbers one event whose commit carries operations that depend on it. `ops` is asked with the event's number.
    pub(crate) fn append_with(
        &self,
        kind: &str,
        payload: &[u8],
        time: UnixMillis,
        ops: impl FnOnce(u64) -> Vec<Op>,
    ) -> Result<Appended> {
        let mut n = lock(&self.numbering);
        let appended = n.append(kind, payload, time, None)?;
        n.ops.extend(ops(appended.seq));
        Ok(appended)
    }

    /// Closes the stream for appending and answers the number that the last event will get, if there is to be one.
    /// [`finish`](Self::finish) must follow. Of several callers one gets through.
    pub(crate) fn seal(&self) -> Result<u64> {
        let mut n = lock(&self.numbering);
        n.writable()?;
        n.closed = true;
        Ok(n.next_seq)
    }

    /// Ends a sealed stream: `last` is appended, and `end` committed, in the same step as the close.
    pub(crate) fn finish(&self, last: Option<(&str, &[u8], UnixMillis)>, end: End) -> Appended {
        let mut n = lock(&self.numbering);
        let before = n.open.weight();
        let mut seq = n.next_seq;
        if let Some((kind, payload, time)) = last {
            // Only a payload of over 4 GiB does not fit; the stream then ends without it rather than not at all.
            if n.open.push(kind, payload, time, None) {
                n.next_seq += 1;
            } else {
                seq = n.next_seq;
            }
        }
        let bytes = n.open.weight() - before;
        n.closed = true;
        n.end = Some(end);
        let enqueue = !std::mem::replace(&mut n.queued, true);
        Appended { seq, bytes, enqueue }
    }

    /// The number the next event gets.
    pub(crate) fn next_seq(&self) -> u64 {
        lock(&self.numbering).next_seq
    }

    pub(crate) fn closed(&self) -> bool {
        let n = lock(&self.numbering);
        n.closed || n.dead.is_some()
    }

    /// The number after the last committed event.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Why the store refused this writer for good, if it did.
    pub(crate) fn refused(&self) -> Option<Refused> {
        lock(&self.numbering).dead.clone()
    }

    /// Everything not yet committed, for one commit. The committer gives it back on failure.
    pub(crate) fn take(&self, wall: UnixMillis) -> Taken {
        let mut n = lock(&self.numbering);
        n.queued = false;
        n.pack();
        let lost = n.lost.take().map(|(first, count)| Chunk::lost(first, count, wall));
        let chunks = lost.into_iter().chain(n.sealed.drain(..)).collect();
        Taken { create: n.create, chunks, ops: std::mem::take(&mut n.ops), end: n.end.take() }
    }

    /// The commit of what was taken is done.
    pub(crate) fn done(&self, taken: &Taken) {
        if taken.create {
            lock(&self.numbering).create = false;
        }
        if let Some(last) = taken.chunks.last() {
            self.committed.store(last.end(), Ordering::Release);
        }
    }

    /// The store failed: what was taken stands first again.
    pub(crate) fn give_back(&self, taken: Taken) -> bool {
        let mut n = lock(&self.numbering);
        for chunk in taken.chunks.into_iter().rev() {
            match chunk.data {
                Some(_) => n.sealed.push_front(chunk),
                None => n.lost = Some((chunk.first_seq, chunk.count)),
            }
        }
        n.ops.splice(0..0, taken.ops);
        if n.end.is_none() {
            n.end = taken.end;
        }
        !std::mem::replace(&mut n.queued, true)
    }

    /// The store refused this writer for good. Answers the bytes and events that are dropped with it.
    pub(crate) fn refuse(&self, refused: Refused) -> (usize, u64) {
        let mut n = lock(&self.numbering);
        n.dead = Some(refused);
        n.pack();
        let dropped = n
            .sealed
            .drain(..)
            .fold((0, 0), |(bytes, events), chunk| (bytes + chunk.weight() as usize, events + u64::from(chunk.count)));
        n.lost = None;
        dropped
    }

    /// Gives up the oldest buffered events, so that a failing store does not take all memory: a tombstone stands for
    /// them. Answers bytes and events given up.
    pub(crate) fn give_up_oldest(&self) -> (usize, u64) {
        let mut n = lock(&self.numbering);
        if n.sealed.is_empty() {
            n.pack();
        }
        let Some(chunk) = n.sealed.pop_front() else { return (0, 0) };
        let (first, count) = n.lost.unwrap_or((chunk.first_seq, 0));
        n.lost = Some((first, count.saturating_add(chunk.count)));
        (chunk.weight() as usize, u64::from(chunk.count))
    }
}

impl Numbering {
    fn append(
        &mut self,
        kind: &str,
        payload: &[u8],
        time: UnixMillis,
        identity: Option<&Identity>,
    ) -> Result<Appended> {
        self.writable()?;
        if self.next_seq > MAX_SEQ {
            return Err(Error::new(ErrorCode::TooLarge, "the stream has used up its sequence numbers"));
        }
        let before = self.open.weight();
        if !self.open.push(kind, payload, time, identity) {
            return Err(Error::new(ErrorCode::TooLarge, "type and identity are at most 65,535 bytes, a payload 4 GiB"));
        }
        let bytes = self.open.weight() - before;
        let seq = self.next_seq;
        self.next_seq += 1;
        if self.open.count() >= CHUNK_EVENTS || self.open.weight() >= CHUNK_BYTES {
            self.pack();
        }
        let enqueue = !std::mem::replace(&mut self.queued, true);
        Ok(Appended { seq, bytes, enqueue })
    }

    fn writable(&self) -> Result<()> {
        match &self.dead {
            Some(refused) => Err(refused.clone().into()),
            None if self.closed => Err(Error::closed("stream")),
            None => Ok(()),
        }
    }

    /// Closes the chunk being filled.
    fn pack(&mut self) {
        if self.open.count() > 0 {
            let chunk = self.open.take(self.open_first);
            self.open_first = chunk.end();
            self.sealed.push_back(chunk);
        }
    }
}

/// The operations that commit what was taken.
pub(crate) fn ops(owned: &Owned, taken: &Taken, now: StoreMillis) -> Vec<Op> {
    let mut ops = Vec::with_capacity(2 + taken.ops.len() + taken.end.as_ref().map_or(0, |end| end.ops.len()));
    if taken.create {
        ops.push(Op::Create { id: owned.id, key: owned.key.clone(), worker: owned.worker });
    }
    if !taken.chunks.is_empty() || taken.end.is_some() {
        ops.push(Op::Append {
            stream: owned.id,
            claim: owned.claim,
            chunks: taken.chunks.clone(),
            close: taken.end.is_some(),
            now,
        });
    }
    ops.extend(taken.ops.iter().cloned());
    if let Some(end) = &taken.end {
        ops.extend(end.ops.iter().cloned());
    }
    ops
}
