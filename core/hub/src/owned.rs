//! One writer's numbering of one stream, in memory, ahead of the store.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidings_proto::stream::{CursorPrefix, MAX_SEQ, StreamId};
use tidings_proto::time::{StoreMillis, UnixMillis};
use tidings_store::{Chunk, ChunkBuilder, CommitError, Durability, Identity, Op, Refused, StreamKey, WorkerId};
use tokio::sync::oneshot;

use crate::committer::Committer;
use crate::error::{Error, ErrorCode, Result};
use crate::notify::lock;
use crate::unborn::Unborn;

/// A chunk is sealed when it holds this many events. Who wants the last ones of a chunk has the whole of it read and its sum
/// taken, so they are not large; a row of the store for so many events costs each next to nothing.
const CHUNK_EVENTS: u32 = 256;
/// The longest type and identity of an event, in bytes.
pub(crate) const MAX_LABEL_BYTES: usize = 65_535;

/// The end of a writer: what is committed in the same atomic step as its last events.
pub(crate) struct End {
    /// After the append and the close.
    pub(crate) ops: Vec<Op>,
    pub(crate) durability: Durability,
    /// Tried again while the store fails, even when nobody waits any more.
    pub(crate) reply: oneshot::Sender<Result<(), CommitError>>,
}

impl End {
    /// Nothing but the close.
    pub(crate) fn alone() -> (Self, oneshot::Receiver<Result<(), CommitError>>) {
        let (reply, receiver) = oneshot::channel();
        (Self { ops: Vec::new(), durability: Durability::Process, reply }, receiver)
    }
}

/// What the committer takes from a writer for one commit.
pub(crate) struct Taken {
    pub(crate) create: bool,
    /// Events and tombstones, in order and without holes.
    pub(crate) chunks: Vec<Chunk>,
    /// Committed with the chunks or not at all.
    pub(crate) ops: Vec<Op>,
    pub(crate) end: Option<End>,
}

impl Taken {
    /// How many events it holds; those that were given up are none.
    pub(crate) fn events(&self) -> u64 {
        self.chunks.iter().filter(|chunk| chunk.data.is_some()).map(|chunk| u64::from(chunk.count)).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(weight).sum()
    }
}

/// A place in a writer's work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    next_seq: u64,
    /// The end belongs to it.
    end: bool,
}

pub(crate) struct Owned {
    pub(crate) id: StreamId,
    pub(crate) key: StreamKey,
    pub(crate) worker: WorkerId,
    pub(crate) claim: u32,
    pub(crate) prefix: CursorPrefix,
    /// The stream is a call's: it ends with the call and in no other way.
    pub(crate) of_call: bool,
    numbering: Mutex<Numbering>,
    /// The number after the last committed event.
    committed: AtomicU64,
    /// Where the stream is known until its first commit.
    unborn: Option<Arc<Unborn>>,
}

struct Numbering {
    next_seq: u64,
    /// The store does not know the stream yet.
    create: bool,
    /// Waiting for the store, oldest first: packed events, and tombstones over those that were given up.
    sealed: VecDeque<Chunk>,
    open: ChunkBuilder,
    open_first: u64,
    /// In the committer's list of writers with work.
    queued: bool,
    /// Committed in the same step as the events appended so far.
    ops: Vec<Op>,
    end: Option<End>,
    /// An end was handed over, and is committed.
    ends: bool,
    ended: bool,
    /// No more appends: closed, or closing.
    closed: bool,
    /// The store refused this writer for good.
    dead: Option<Refused>,
}

impl Owned {
    /// A writer of a stream that the store knows.
    pub(crate) fn new(key: StreamKey, worker: WorkerId, claimed: tidings_store::Claimed, of_call: bool) -> Self {
        Self::with(key, worker, claimed, of_call, None)
    }

    /// A writer of a stream that its first commit creates; until then it is found in `unborn`.
    pub(crate) fn unborn(key: StreamKey, worker: WorkerId, id: StreamId, unborn: Arc<Unborn>) -> Arc<Self> {
        let claimed = tidings_store::Claimed { stream: id, epoch: 1, claim: 1, next_seq: 0 };
        let owned = Arc::new(Self::with(key, worker, claimed, false, Some(Arc::clone(&unborn))));
        unborn.add(&owned);
        owned
    }

    fn with(
        key: StreamKey,
        worker: WorkerId,
        claimed: tidings_store::Claimed,
        of_call: bool,
        unborn: Option<Arc<Unborn>>,
    ) -> Self {
        Self {
            id: claimed.stream,
            key,
            worker,
            claim: claimed.claim,
            prefix: CursorPrefix::new(claimed.stream, claimed.epoch, claimed.claim),
            of_call,
            numbering: Mutex::new(Numbering {
                next_seq: claimed.next_seq,
                create: unborn.is_some(),
                sealed: VecDeque::new(),
                open: ChunkBuilder::default(),
                open_first: claimed.next_seq,
                queued: false,
                ops: Vec::new(),
                end: None,
                ends: false,
                ended: false,
                closed: false,
                dead: None,
            }),
            committed: AtomicU64::new(claimed.next_seq),
            unborn,
        }
    }

    /// Numbers one event and hands it to the committer. Copies the payload once, into the chunk that will be stored.
    pub(crate) fn append(
        self: &Arc<Self>,
        committer: &Committer,
        kind: &str,
        payload: &[u8],
        time: UnixMillis,
        identity: Option<&Identity>,
    ) -> Result<u64> {
        let mut n = lock(&self.numbering);
        let seq = n.append(committer, kind, payload, time, identity)?;
        self.hand_over(&mut n, committer);
        Ok(seq)
    }

    /// Numbers events that are committed together, with an end if there is one. The caller has checked that each fits.
    pub(crate) fn append_all(
        self: &Arc<Self>,
        committer: &Committer,
        kind: &str,
        payloads: &[&[u8]],
        time: UnixMillis,
        identity: Option<&Identity>,
        end: Option<End>,
    ) -> Result<Range<u64>> {
        let mut n = lock(&self.numbering);
        n.writable()?;
        let first = n.next_seq;
        if MAX_SEQ + 1 - first.min(MAX_SEQ + 1) < payloads.len() as u64 {
            return Err(used_up());
        }
        for payload in payloads {
            n.append(committer, kind, payload, time, identity)?;
        }
        if end.is_some() {
            n.closed = true;
            n.ends = true;
            n.end = end;
        }
        if !payloads.is_empty() || n.end.is_some() {
            self.hand_over(&mut n, committer);
        }
        Ok(first..n.next_seq)
    }

    /// Numbers one event whose commit carries operations that depend on it. `ops` is asked with the event's number.
    pub(crate) fn append_with(
        self: &Arc<Self>,
        committer: &Committer,
        kind: &str,
        payload: &[u8],
        time: UnixMillis,
        ops: impl FnOnce(u64) -> Vec<Op>,
    ) -> Result<u64> {
        let mut n = lock(&self.numbering);
        let seq = n.append(committer, kind, payload, time, None)?;
        n.ops.extend(ops(seq));
        self.hand_over(&mut n, committer);
        Ok(seq)
    }

    /// Closes the stream for appending and answers the number that the last event will get, if there is to be one.
    /// [`finish`](Self::finish) must follow. Of several callers one gets through.
    pub(crate) fn seal(&self) -> Result<u64> {
        let mut n = lock(&self.numbering);
        n.writable()?;
        n.closed = true;
        Ok(n.next_seq)
    }

    /// Ends a sealed stream: `last` is appended, and `end` committed, in the same step as the close. Answers the number
    /// of `last`.
    pub(crate) fn finish(
        self: &Arc<Self>,
        committer: &Committer,
        last: Option<(&str, &[u8], UnixMillis)>,
        end: End,
    ) -> u64 {
        let mut n = lock(&self.numbering);
        let (before, seq) = (n.open.weight(), n.next_seq);
        if let Some((kind, payload, time)) = last {
            // Only a payload of over 4 GiB does not fit; the stream then ends without it rather than not at all.
            if n.open.push(kind, payload, time, None) {
                n.next_seq += 1;
            } else {
                tracing::error!(stream = %self.id, "the last event is too large; the stream ends without it");
            }
        }
        committer.added(n.open.weight() - before);
        n.closed = true;
        n.end = Some(end);
        n.ends = true;
        self.hand_over(&mut n, committer);
        seq
    }

    /// Tells the committer that there is work. Under the lock, so that whoever sees an event's number and then asks for
    /// a commit gets one that holds the event.
    fn hand_over(self: &Arc<Self>, n: &mut Numbering, committer: &Committer) {
        if !std::mem::replace(&mut n.queued, true) {
            committer.enqueue(self);
        }
    }

    /// The number the next event gets.
    pub(crate) fn next_seq(&self) -> u64 {
        lock(&self.numbering).next_seq
    }

    pub(crate) fn closed(&self) -> bool {
        let n = lock(&self.numbering);
        n.closed || n.dead.is_some()
    }

    /// What a flush has to wait for.
    pub(crate) fn target(&self) -> Target {
        let n = lock(&self.numbering);
        Target { next_seq: n.next_seq, end: n.ends }
    }

    /// Whether everything up to there is committed.
    pub(crate) fn reached(&self, target: Target) -> bool {
        self.committed.load(Ordering::Acquire) >= target.next_seq && (!target.end || lock(&self.numbering).ended)
    }

    /// Why the store refused this writer for good, if it did.
    pub(crate) fn refused(&self) -> Option<Refused> {
        lock(&self.numbering).dead.clone()
    }

    /// Whether the store does not know the stream yet and may still come to.
    pub(crate) fn is_unborn(&self) -> bool {
        let n = lock(&self.numbering);
        n.create && n.dead.is_none()
    }

    /// Everything not yet committed, for one commit. The committer gives it back on failure.
    pub(crate) fn take(&self) -> Taken {
        let mut n = lock(&self.numbering);
        n.queued = false;
        n.pack();
        Taken {
            create: n.create,
            chunks: std::mem::take(&mut n.sealed).into(),
            ops: std::mem::take(&mut n.ops),
            end: n.end.take(),
        }
    }

    /// The commit of what was taken is done.
    pub(crate) fn done(&self, taken: &Taken) {
        if taken.create || taken.end.is_some() {
            let mut n = lock(&self.numbering);
            n.create = false;
            n.ended |= taken.end.is_some();
        }
        if taken.create {
            self.known();
        }
        if let Some(last) = taken.chunks.last() {
            self.committed.store(last.end(), Ordering::Release);
        }
    }

    /// Whether there is such a stream is the store's to say from here on.
    fn known(&self) {
        if let Some(unborn) = &self.unborn {
            unborn.remove(self.id);
        }
    }

    /// The store failed: what was taken stands first again, before what was appended or given up since.
    pub(crate) fn give_back(self: &Arc<Self>, committer: &Committer, taken: Taken) {
        let mut n = lock(&self.numbering);
        let mut sealed: VecDeque<Chunk> = taken.chunks.into();
        sealed.append(&mut n.sealed);
        n.sealed = sealed;
        n.ops.splice(0..0, taken.ops);
        if n.end.is_none() {
            n.end = taken.end;
        }
        self.hand_over(&mut n, committer);
    }

    /// The store refused this writer for good. Answers the bytes and events that are dropped with it.
    pub(crate) fn refuse(&self, refused: Refused) -> (usize, u64) {
        self.known();
        let mut n = lock(&self.numbering);
        n.dead = Some(refused);
        n.pack();
        let dropped = n.sealed.drain(..).filter(|chunk| chunk.data.is_some());
        dropped.fold((0, 0), |(bytes, events), chunk| (bytes + weight(&chunk), events + u64::from(chunk.count)))
    }

    /// The time of the oldest events that may be given up, if there are some.
    pub(crate) fn oldest(&self) -> Option<UnixMillis> {
        let mut n = lock(&self.numbering);
        n.oldest().and_then(|at| n.sealed.get(at)).map(|chunk| chunk.last_time)
    }

    /// Gives up the oldest events that wait for the store, so that one that fails does not take all memory: one tombstone
    /// stands for them and those given up before. Answers bytes and events given up.
    pub(crate) fn give_up_oldest(&self) -> (usize, u64) {
        let mut n = lock(&self.numbering);
        let Some(at) = n.oldest() else { return (0, 0) };
        let Some(chunk) = n.sealed.remove(at) else { return (0, 0) };
        let mut lost = Chunk::lost(chunk.first_seq, chunk.count, chunk.last_time);
        // What is before it is a tombstone, or it would have been the oldest; what is after it may be one.
        for neighbour in [at.checked_sub(1), Some(at)].into_iter().flatten().rev() {
            let Some(other) = n.sealed.get(neighbour).filter(|other| other.data.is_none()) else { continue };
            if let Some(count) = lost.count.checked_add(other.count) {
                lost = Chunk::lost(lost.first_seq.min(other.first_seq), count, lost.last_time.max(other.last_time));
                n.sealed.remove(neighbour);
            }
        }
        let at = n.sealed.partition_point(|other| other.first_seq < lost.first_seq);
        n.sealed.insert(at, lost);
        (weight(&chunk), u64::from(chunk.count))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.numbering.get_mut().is_ok_and(|n| n.create) {
            self.known();
        }
    }
}

impl Numbering {
    fn append(
        &mut self,
        committer: &Committer,
        kind: &str,
        payload: &[u8],
        time: UnixMillis,
        identity: Option<&Identity>,
    ) -> Result<u64> {
        self.writable()?;
        if self.next_seq > MAX_SEQ {
            return Err(used_up());
        }
        let before = self.open.weight();
        if !self.open.push(kind, payload, time, identity) {
            return Err(too_large());
        }
        committer.added(self.open.weight() - before);
        let seq = self.next_seq;
        self.next_seq += 1;
        if self.open.count() >= CHUNK_EVENTS || self.open.weight() >= committer.chunk_bytes() {
            self.pack();
        }
        Ok(seq)
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

    /// Where the oldest events stand that may be given up. What a stream ends with is kept: it is what readers wait for,
    /// and no more of them come while the store fails than there were open streams.
    fn oldest(&mut self) -> Option<usize> {
        if self.sealed.iter().all(|chunk| chunk.data.is_none()) {
            self.pack();
        }
        let last = self.end.is_some().then_some(self.next_seq);
        self.sealed.iter().position(|chunk| chunk.data.is_some() && Some(chunk.end()) != last)
    }
}

fn used_up() -> Error {
    Error::new(ErrorCode::TooLarge, "the stream has used up its sequence numbers")
}

/// What is wrong with an event that does not fit into its stored form.
pub(crate) fn too_large() -> Error {
    let rule = format!("type and identity are at most {MAX_LABEL_BYTES} bytes, a payload less than 4 GiB");
    Error::new(ErrorCode::TooLarge, rule)
}

fn weight(chunk: &Chunk) -> usize {
    usize::try_from(chunk.weight()).unwrap_or(usize::MAX)
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
