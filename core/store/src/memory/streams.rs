//! Streams: claims, numbering, chunks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use tidings_proto::stream::{Amount, ChunkView, Retention, StreamId, first_kept, first_kept_of_all};
use tidings_proto::time::{StoreMillis, UnixMillis};

use super::keys::Keys;
use super::workers::Workers;
use crate::chunk::{Chunk, ChunkBuilder};
use crate::commit::{AppendShared, Claimed, CommitError, Done, Refused};
use crate::error::{StoreError, StoreErrorKind};
use crate::record::{StreamInfo, StreamKey, WorkerId};
use crate::store::ReadLimits;

/// The only history a memory store knows: nothing a reader has seen is ever lost while the process lives.
const EPOCH: u32 = 1;

#[derive(Default)]
pub(super) struct Streams {
    /// Boxed, because the places of a tree are up to half empty, and an idle stream should cost little.
    by_id: BTreeMap<StreamId, Box<Stream>>,
    by_key: HashMap<Arc<StreamKey>, StreamId>,
    /// The place of the next chunk among those of all streams.
    next_chunk: u64,
}

/// One stream.
pub(super) struct Stream {
    id: StreamId,
    key: Arc<StreamKey>,
    head: Head,
    /// First sequence number of claim `i + 1`.
    claims: Vec<u64>,
    /// In order and without holes; the first may begin before `earliest`. Each with its place among the chunks of all streams.
    chunks: VecDeque<(u64, Chunk)>,
    earliest: u64,
    /// What `chunks` weigh.
    bytes: u64,
    /// Keys of appends that are made once; few streams have some.
    keys: Option<Box<Keys>>,
}

/// What appending, claiming and closing change.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// The writer of the newest claim; `None` when it is shared.
    owner: Option<WorkerId>,
    next_seq: u64,
    closed_at: Option<StoreMillis>,
}

pub(super) enum Undo {
    /// The stream was created.
    Created(StreamId),
    /// Its head moved; how many claims and chunks it had.
    Moved { id: StreamId, head: Head, claims: usize, chunks: usize },
    /// Chunks were dropped from its front.
    Evicted { id: StreamId, earliest: u64, chunks: Vec<(u64, Chunk)>, keys: Vec<(u64, Arc<str>)> },
    /// It was removed.
    Removed(Box<Stream>),
}

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Stream(undo)
    }
}

impl Stream {
    fn new(id: StreamId, key: StreamKey, owner: Option<WorkerId>) -> Self {
        let head = Head { owner, next_seq: 0, closed_at: None };
        Self {
            id,
            key: Arc::new(key),
            head,
            claims: vec![0],
            chunks: VecDeque::new(),
            earliest: 0,
            bytes: 0,
            keys: None,
        }
    }

    /// The number of the newest claim. Claims number from 1.
    fn claim(&self) -> u32 {
        u32::try_from(self.claims.len()).unwrap_or(u32::MAX)
    }

    fn moved(&self) -> Undo {
        Undo::Moved { id: self.id, head: self.head, claims: self.claims.len(), chunks: self.chunks.len() }
    }

    /// `place` is the chunk's among those of all streams.
    fn push(&mut self, place: u64, chunk: Chunk) {
        self.head.next_seq = chunk.end();
        self.bytes += chunk.weight();
        self.chunks.push_back((place, chunk));
    }

    /// What of it is retained.
    fn amount(&self) -> Amount {
        Amount { events: self.head.next_seq - self.earliest, bytes: self.bytes }
    }

    fn views(&self) -> impl Iterator<Item = ChunkView> {
        self.chunks.iter().map(|(_, chunk)| ChunkView {
            first_seq: chunk.first_seq,
            count: u64::from(chunk.count),
            bytes: chunk.weight(),
            last_time: chunk.last_time,
        })
    }

    /// Takes away the events before `keep`.
    fn evict(&mut self, keep: u64, undo: &mut Vec<super::Undo>) {
        let (id, earliest) = (self.id, self.earliest);
        let whole = self.chunks.partition_point(|(_, chunk)| chunk.end() <= keep);
        let chunks: Vec<_> = self.chunks.drain(..whole).collect();
        if self.chunks.is_empty() {
            self.chunks = VecDeque::new(); // its room goes as well
        }
        self.bytes -= chunks.iter().map(|(_, chunk)| chunk.weight()).sum::<u64>();
        let keys = self.keys.as_mut().map(|keys| keys.evict(keep)).unwrap_or_default();
        undo.push(Undo::Evicted { id, earliest, chunks, keys }.into());
        self.earliest = keep;
    }

    fn check_open(&self) -> Result<(), Refused> {
        if self.head.closed_at.is_some() { Err(Refused::Closed) } else { Ok(()) }
    }

    /// The chunks must follow on the head and on each other.
    fn check_follows(&self, claim: u32, chunks: &[Chunk]) -> Result<(), Refused> {
        let mut next = self.head.next_seq;
        // `end` only of a chunk that follows: what a caller names may lie beyond all numbers.
        let follow = chunks.iter().all(|chunk| {
            let follows = chunk.first_seq == next;
            if follows {
                next = chunk.end();
            }
            follows
        });
        if self.head.owner.is_none() || claim != self.claim() || !follow {
            return Err(Refused::Fenced { claim: self.claim(), next_seq: self.head.next_seq });
        }
        Ok(())
    }

    pub(super) fn info(&self, workers: &Workers) -> StreamInfo {
        StreamInfo {
            id: self.id,
            key: StreamKey::clone(&self.key),
            epoch: EPOCH,
            claim: self.claim(),
            owned: self.head.owner.is_some(),
            owner_gone: self.head.owner.is_some_and(|owner| workers.left(owner)),
            earliest: self.earliest,
            next_seq: self.head.next_seq,
            closed_at: self.head.closed_at,
        }
    }

    pub(super) fn next_claim_first(&self, claim: u32) -> Option<u64> {
        self.claims.get(usize::try_from(claim).ok()?).copied()
    }

    pub(super) fn read(&self, from: u64, limits: ReadLimits) -> Vec<Chunk> {
        let from = from.max(self.earliest);
        let start = self.chunks.partition_point(|(_, chunk)| chunk.end() <= from);
        let (mut events, mut bytes) = (0, 0);
        let mut page = Vec::new();
        for (_, chunk) in self.chunks.range(start..) {
            let rest = chunk.rest(from);
            events += rest.0;
            bytes += rest.1;
            page.push(chunk.clone());
            if events >= u64::from(limits.events) || bytes >= limits.bytes {
                break;
            }
        }
        page
    }
}

impl Streams {
    pub(super) fn by_id(&self, id: StreamId) -> Option<&Stream> {
        self.by_id.get(&id).map(|stream| &**stream)
    }

    pub(super) fn by_key(&self, key: &StreamKey) -> Option<&Stream> {
        self.by_id(*self.by_key.get(key)?)
    }

    fn by_key_mut(&mut self, key: &StreamKey) -> Option<&mut Stream> {
        self.by_id.get_mut(self.by_key.get(key)?).map(|stream| &mut **stream)
    }

    fn add(&mut self, stream: Stream, undo: &mut Vec<super::Undo>) -> Result<&mut Stream, Refused> {
        let id = stream.id;
        if self.by_id.contains_key(&id) {
            return Err(Refused::Exists);
        }
        undo.push(Undo::Created(id).into());
        self.by_key.insert(Arc::clone(&stream.key), id);
        Ok(self.by_id.entry(id).or_insert(Box::new(stream)))
    }

    pub(super) fn create(
        &mut self,
        id: StreamId,
        key: &StreamKey,
        worker: WorkerId,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        if self.by_key.contains_key(key) {
            return Err(Refused::Exists.into());
        }
        self.add(Stream::new(id, key.clone(), Some(worker)), undo)?;
        Ok(Done::Nothing)
    }

    pub(super) fn claim(
        &mut self,
        new_id: StreamId,
        key: &StreamKey,
        worker: WorkerId,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        let stream = match self.by_key_mut(key) {
            Some(stream) => {
                stream.check_open()?;
                undo.push(stream.moved().into());
                stream.claims.push(stream.head.next_seq);
                stream.head.owner = Some(worker);
                stream
            }
            None => self.add(Stream::new(new_id, key.clone(), Some(worker)), undo)?,
        };
        let (claim, next_seq) = (stream.claim(), stream.head.next_seq);
        Ok(Done::Claimed(Claimed { stream: stream.id, epoch: EPOCH, claim, next_seq }))
    }

    pub(super) fn append(
        &mut self,
        id: StreamId,
        claim: u32,
        chunks: &[Chunk],
        closed_at: Option<StoreMillis>,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        let stream = self.by_id.get_mut(&id).ok_or(Refused::Unknown)?;
        // Closed tells a fenced writer more than fenced: its stream has ended (DESIGN section 4).
        stream.check_open()?;
        stream.check_follows(claim, chunks)?;
        undo.push(stream.moved().into());
        for chunk in chunks.iter().filter(|chunk| chunk.count > 0) {
            stream.push(self.next_chunk, chunk.clone());
            self.next_chunk += 1;
        }
        stream.head.closed_at = closed_at;
        Ok(Done::Nothing)
    }

    pub(super) fn append_shared(
        &mut self,
        append: &AppendShared,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        if let Some(stream) = self.by_key(&append.key) {
            stream.check_open()?;
        }
        let mut builder = ChunkBuilder::default();
        for event in &append.events {
            if !builder.push(&event.kind, &event.payload, event.time, event.identity.as_ref()) {
                let rule = "an event's type and identity are at most 65,535 bytes, its payload less than 4 GiB";
                return Err(StoreError::new(StoreErrorKind::Unsupported, rule).into());
            }
        }
        let place = self.next_chunk;
        let stream = match self.by_key_mut(&append.key) {
            Some(stream) => {
                undo.push(stream.moved().into());
                if stream.head.owner.take().is_some() {
                    stream.claims.push(stream.head.next_seq);
                }
                stream
            }
            None => self.add(Stream::new(append.new_id, append.key.clone(), None), undo)?,
        };
        let first_seq = stream.head.next_seq;
        if builder.count() > 0 {
            stream.push(place, builder.take(first_seq));
        }
        stream.head.closed_at = append.close.then_some(append.now);
        let done = Done::Appended { stream: stream.id, epoch: EPOCH, claim: stream.claim(), first_seq };
        self.next_chunk += 1;
        Ok(done)
    }

    pub(super) fn append_once(
        &mut self,
        once: &str,
        append: &AppendShared,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        if let Some(stream) = self.by_key(&append.key)
            && let Some(first_seq) = stream.keys.as_ref().and_then(|keys| keys.find(once))
        {
            return Ok(Done::Appended { stream: stream.id, epoch: EPOCH, claim: stream.claim(), first_seq });
        }
        let done = self.append_shared(append, undo)?;
        if let Done::Appended { first_seq, .. } = done
            && let Some(stream) = self.by_key_mut(&append.key)
        {
            stream.keys.get_or_insert_default().add(once, first_seq);
        }
        Ok(done)
    }

    /// Up to `limit` ids of streams after `after`, in the order of ids.
    pub(super) fn ids_after(&self, after: Option<StreamId>, limit: usize) -> Vec<StreamId> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.by_id.range((from, Unbounded)).take(limit).map(|(id, _)| *id).collect()
    }

    /// Applies retention to one stream. Answers how many events went.
    pub(super) fn trim(
        &mut self,
        id: StreamId,
        now: StoreMillis,
        wall: UnixMillis,
        retention: &Retention,
        undo: &mut Vec<super::Undo>,
    ) -> u64 {
        let Some(stream) = self.by_id.get_mut(&id) else { return 0 };
        if retention.stream_expired(stream.head.closed_at, now) {
            let events = stream.head.next_seq - stream.earliest;
            self.remove(id, undo);
            return events;
        }
        let (next_seq, bytes) = (stream.head.next_seq, stream.bytes);
        let keep = first_kept(retention, wall, stream.earliest, next_seq, bytes, stream.views());
        let gone = keep - stream.earliest;
        if gone > 0 {
            stream.evict(keep, undo);
        }
        gone
    }

    /// Applies retention in total: takes from at most `streams` streams. Answers how many events went, and whether more
    /// have to.
    pub(super) fn trim_all(
        &mut self,
        retention: &Retention,
        streams: usize,
        undo: &mut Vec<super::Undo>,
    ) -> (u64, bool) {
        let all = self.by_id.values().fold(Amount::NONE, |sum, stream| {
            let Amount { events, bytes } = stream.amount();
            Amount { events: sum.events + events, bytes: sum.bytes + bytes }
        });
        let mut excess = retention.excess(all);
        let before = undo.len();
        let mut events = 0;
        let mut take = |stream: &mut Stream, excess: &mut Amount, last: u64, undo: &mut Vec<super::Undo>| {
            let (keep, gone) = first_kept_of_all(*excess, stream.earliest, last, stream.views());
            if keep > stream.earliest {
                stream.evict(keep, undo);
                events += gone.events;
                *excess = excess.less(gone);
            }
        };
        if excess != Amount::NONE {
            let mut closed: Vec<_> = self
                .by_id
                .values()
                .filter(|stream| stream.earliest + 1 < stream.head.next_seq)
                .filter_map(|stream| Some((stream.head.closed_at?, stream.id)))
                .collect();
            closed.sort_unstable();
            for (_, id) in closed {
                if excess == Amount::NONE || undo.len() - before >= streams {
                    break;
                }
                if let Some(stream) = self.by_id.get_mut(&id) {
                    let last = stream.head.next_seq - 1;
                    take(stream, &mut excess, last, undo);
                }
            }
        }
        let mut oldest: BinaryHeap<_> = if excess == Amount::NONE {
            BinaryHeap::new()
        } else {
            self.by_id.values().filter_map(|stream| Some(Reverse((stream.chunks.front()?.0, stream.id)))).collect()
        };
        while excess != Amount::NONE
            && undo.len() - before < streams
            && let Some(Reverse((chunk, id))) = oldest.pop()
        {
            let Some(stream) = self.by_id.get_mut(&id) else { continue };
            // The newest chunk of all goes by count only.
            if chunk + 1 == self.next_chunk {
                excess.bytes = 0;
            }
            let Some(last) = stream.chunks.front().map(|(_, chunk)| chunk.end()) else { continue };
            take(stream, &mut excess, last, undo);
            if let Some((next, _)) = stream.chunks.front().filter(|(next, _)| *next != chunk) {
                oldest.push(Reverse((*next, id)));
            }
        }
        (events, undo.len() - before >= streams)
    }

    fn remove(&mut self, id: StreamId, undo: &mut Vec<super::Undo>) {
        if let Some(stream) = self.by_id.remove(&id) {
            self.by_key.remove(&stream.key);
            undo.push(Undo::Removed(stream).into());
        }
    }

    pub(super) fn take_back(&mut self, step: Undo) {
        match step {
            Undo::Created(id) => self.remove(id, &mut Vec::new()),
            Undo::Moved { id, head, claims, chunks } => {
                if let Some(stream) = self.by_id.get_mut(&id) {
                    if let Some(keys) = &mut stream.keys {
                        keys.take_back(head.next_seq);
                    }
                    stream.head = head;
                    stream.claims.truncate(claims);
                    stream.bytes -= stream.chunks.range(chunks..).map(|(_, chunk)| chunk.weight()).sum::<u64>();
                    stream.chunks.truncate(chunks);
                }
            }
            Undo::Evicted { id, earliest, chunks, keys: gone } => {
                if let Some(stream) = self.by_id.get_mut(&id) {
                    if let Some(keys) = &mut stream.keys {
                        keys.bring_back(gone);
                    }
                    stream.earliest = earliest;
                    stream.bytes += chunks.iter().map(|(_, chunk)| chunk.weight()).sum::<u64>();
                    for chunk in chunks.into_iter().rev() {
                        stream.chunks.push_front(chunk);
                    }
                }
            }
            Undo::Removed(stream) => {
                self.by_key.insert(Arc::clone(&stream.key), stream.id);
                self.by_id.insert(stream.id, stream);
            }
        }
    }
}
