//! Streams: creating, claiming, appending.
//!
//! What the writer knows of a stream it keeps between groups, as long as nobody else has committed: an append then reads
//! nothing, and however many commits of a group touch a stream, its row is written once, and what they append to a shared
//! stream is one chunk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, OptionalExtension, params};
use tidings_proto::stream::{MAX_SEQ, StreamId};
use tidings_proto::time::StoreMillis;
use tidings_store::{AppendShared, Chunk, ChunkBuilder, Claimed, Done, Refused, StreamKey, WorkerId};

use crate::error::Fail;
use crate::rows::{self, StreamRow, int};
use crate::sum;
use crate::writer::{Hot, Tx, cannot_hold};

/// More streams than this are not remembered beyond a group.
const REMEMBERED: usize = 4_096;
/// A chunk of shared appends is written when it weighs this much.
const CHUNK_BYTES: usize = 64 << 10;

/// The stream rows that the writer knows.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    table: Table,
    /// Streams whose rows are newer than in the database.
    dirty: Vec<StreamId>,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<StreamId, Known>,
    by_key: HashMap<StreamKey, StreamId>,
}

#[derive(Debug)]
struct Known {
    row: StreamRow,
    dirty: Dirty,
    /// The last events of shared appends of this group: numbered, and not written yet.
    pending: ChunkBuilder,
}

/// What of a row is newer than in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dirty {
    Nothing,
    /// What every append changes; no index stands on it.
    Head,
    All,
}

impl Streams {
    /// Forgets everything, also what was not flushed: the transaction was rolled back, or others have committed.
    pub(crate) fn forget(&mut self) {
        self.table.by_id.clear();
        self.table.by_key.clear();
        self.dirty.clear();
    }

    /// The group is committed.
    pub(crate) fn committed(&mut self) {
        if self.table.by_id.len() > REMEMBERED {
            self.forget();
        }
    }
}

impl Table {
    fn by_id(&mut self, conn: &Connection, id: StreamId) -> rusqlite::Result<Option<&mut Known>> {
        Ok(match self.by_id.entry(id) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => rows::stream_by_id(conn, id)?.map(|row| {
                self.by_key.insert(row.key.clone(), id);
                place.insert(Known::new(row))
            }),
        })
    }

    fn by_key(&mut self, conn: &Connection, key: &StreamKey) -> rusqlite::Result<Option<&mut Known>> {
        match self.by_key.get(key) {
            Some(id) => self.by_id(conn, *id),
            None => Ok(rows::stream_by_key(conn, key)?.map(|row| self.keep(row))),
        }
    }

    fn keep(&mut self, row: StreamRow) -> &mut Known {
        self.by_key.insert(row.key.clone(), row.id);
        self.by_id.entry(row.id).or_insert_with(|| Known::new(row))
    }
}

impl Known {
    fn new(row: StreamRow) -> Self {
        Self { row, dirty: Dirty::Nothing, pending: ChunkBuilder::default() }
    }

    /// Writes the events that are not.
    fn write_pending<'c>(&mut self, hot: &mut Hot<'c>, conn: &'c Connection) -> Result<(), Fail> {
        let count = u64::from(self.pending.count());
        if count == 0 {
            return Ok(());
        }
        let chunk = self.pending.take(self.row.next_seq.saturating_sub(count));
        insert_chunk(hot, conn, &self.row, &chunk)
    }

    /// Appends to the head.
    fn advance(&mut self, all: &mut Vec<StreamId>, next_seq: u64, bytes: u64, closed_at: Option<StoreMillis>) {
        self.row.next_seq = next_seq;
        self.row.bytes += bytes;
        self.row.closed_at = closed_at;
        self.mark(all, if closed_at.is_some() { Dirty::All } else { Dirty::Head });
    }

    fn mark(&mut self, all: &mut Vec<StreamId>, dirty: Dirty) {
        if self.dirty == Dirty::Nothing {
            all.push(self.row.id);
        }
        self.dirty = self.dirty.max(dirty);
    }
}

impl Tx<'_> {
    /// Writes what the group changed of streams.
    pub(crate) fn flush_streams(&mut self) -> Result<(), Fail> {
        let Streams { table, dirty } = &mut *self.streams;
        for id in dirty.drain(..) {
            let Some(known) = table.by_id.get_mut(&id) else { continue };
            known.write_pending(&mut self.hot, self.conn)?;
            let row = &known.row;
            match known.dirty {
                Dirty::Nothing => {}
                Dirty::Head => {
                    let update = match &mut self.hot.move_head {
                        Some(update) => update,
                        none => none.insert(
                            self.conn.prepare_cached("UPDATE streams SET next_seq = ?2, bytes = ?3 WHERE n = ?1")?,
                        ),
                    };
                    update.execute((row.n, int(row.next_seq), int(row.bytes)))?;
                }
                Dirty::All => {
                    self.conn
                        .prepare_cached(
                            "UPDATE streams SET next_seq = ?2, bytes = ?3, boot = ?4, claim = ?5, owned = ?6, closed_at = ?7,
                             worker = ?8 WHERE n = ?1",
                        )?
                        .execute(params![
                            row.n,
                            int(row.next_seq),
                            int(row.bytes),
                            row.boot,
                            row.claim,
                            row.owned,
                            row.closed_at,
                            row.worker.map(|worker| worker.0),
                        ])?;
                }
            }
            known.dirty = Dirty::Nothing;
            self.sweep.touch(row.n);
        }
        Ok(())
    }

    pub(crate) fn create(&mut self, id: StreamId, key: &StreamKey, worker: WorkerId) -> Result<Done, Fail> {
        self.new_stream(id, key, Some(worker))?;
        Ok(Done::Nothing)
    }

    pub(crate) fn claim(&mut self, new_id: StreamId, key: &StreamKey, worker: WorkerId) -> Result<Done, Fail> {
        let Some(known) = self.streams.table.by_key(self.conn, key)? else {
            self.new_stream(new_id, key, Some(worker))?;
            return Ok(Done::Claimed(Claimed { stream: new_id, epoch: 1, claim: 1, next_seq: 0 }));
        };
        let row = &known.row;
        if row.closed_at.is_some() {
            return Err(Refused::Closed.into());
        }
        let (id, epoch, next_seq) = (row.id, row.epoch, row.next_seq);
        let claim = self.new_claim(id, Some(worker))?;
        Ok(Done::Claimed(Claimed { stream: id, epoch, claim, next_seq }))
    }

    pub(crate) fn append(
        &mut self,
        id: StreamId,
        claim: u32,
        chunks: &[Chunk],
        close: bool,
        now: StoreMillis,
    ) -> Result<Done, Fail> {
        self.saw(now);
        let known = self.streams.table.by_id(self.conn, id)?.ok_or(Refused::Unknown)?;
        let row = &known.row;
        let fenced = Refused::Fenced { claim: row.claim, next_seq: row.next_seq };
        if row.closed_at.is_some() {
            return Err(Refused::Closed.into());
        }
        // A shared claim is nobody's: who names it did not get it from `Claim`.
        if claim != row.claim || !row.owned {
            return Err(fenced.into());
        }
        let mut next_seq = row.next_seq;
        for chunk in chunks.iter().filter(|chunk| chunk.count > 0) {
            if chunk.first_seq != next_seq {
                return Err(fenced.into());
            }
            next_seq = after(next_seq, chunk.count)?;
        }
        known.write_pending(&mut self.hot, self.conn)?;
        let row = &known.row;
        let mut bytes = 0;
        for chunk in chunks.iter().filter(|chunk| chunk.count > 0) {
            insert_chunk(&mut self.hot, self.conn, row, chunk)?;
            bytes += chunk.weight();
        }
        known.advance(&mut self.streams.dirty, next_seq, bytes, close.then_some(now));
        Ok(Done::Nothing)
    }

    pub(crate) fn append_shared(&mut self, append: &AppendShared) -> Result<Done, Fail> {
        self.saw(append.now);
        for (at, event) in append.events.iter().enumerate() {
            if !ChunkBuilder::can_take(&event.kind, &event.payload, event.identity.as_ref()) {
                let rule = "type and identity are at most 65,535 bytes, the payload less than 4 GiB";
                return Err(cannot_hold(format!("event {at} of the append: {rule}")));
            }
        }
        let count = u32::try_from(append.events.len()).map_err(|_| cannot_hold("an append has at most 2^32 events"))?;
        let here = self.core.boot();
        let found = self.streams.table.by_key(self.conn, &append.key)?.map(|known| &known.row);
        let (id, must_claim) = match found {
            Some(row) if row.closed_at.is_some() => return Err(Refused::Closed.into()),
            // Numbers given out before this boot may have been seen and taken back by a loss of power.
            Some(row) => (row.id, row.owned || (here.is_some() && row.boot != here)),
            None => (append.new_id, false),
        };
        let first_seq = found.map_or(0, |row| row.next_seq);
        let next_seq = after(first_seq, count)?;
        if found.is_none() {
            self.new_stream(id, &append.key, None)?;
        }
        if must_claim {
            self.new_claim(id, None)?;
        }
        let known = self.streams.table.by_id(self.conn, id)?.ok_or(Refused::Unknown)?;
        if known.pending.weight() >= CHUNK_BYTES {
            known.write_pending(&mut self.hot, self.conn)?;
        }
        let before = known.pending.weight();
        for event in &append.events {
            if !known.pending.push(&event.kind, &event.payload, event.time, event.identity.as_ref()) {
                return Err(cannot_hold("an event of the append cannot be packed"));
            }
        }
        let bytes = (known.pending.weight() - before) as u64;
        known.advance(&mut self.streams.dirty, next_seq, bytes, append.close.then_some(append.now));
        Ok(Done::Appended { stream: id, epoch: known.row.epoch, claim: known.row.claim, first_seq })
    }

    pub(crate) fn append_once(&mut self, once: &str, append: &AppendShared) -> Result<Done, Fail> {
        if let Some(known) = self.streams.table.by_key(self.conn, &append.key)? {
            let row = &known.row;
            // What is evicted is taken away a little later than it is gone.
            let found = self
                .conn
                .prepare_cached("SELECT first_seq FROM append_keys WHERE stream = ?1 AND key = ?2 AND first_seq >= ?3")?
                .query_row((row.n, once, int(row.earliest)), |found| rows::count(found, 0))
                .optional()?;
            if let Some(first_seq) = found {
                return Ok(Done::Appended { stream: row.id, epoch: row.epoch, claim: row.claim, first_seq });
            }
        }
        let done = self.append_shared(append)?;
        if let Done::Appended { stream, first_seq, .. } = done
            && let Some(known) = self.streams.table.by_id(self.conn, stream)?
        {
            self.conn
                .prepare_cached("INSERT OR REPLACE INTO append_keys (stream, key, first_seq) VALUES (?1, ?2, ?3)")?
                .execute((known.row.n, once, int(first_seq)))?;
        }
        Ok(done)
    }

    /// Makes a stream with claim 1, one writer's or everybody's.
    fn new_stream(&mut self, id: StreamId, key: &StreamKey, worker: Option<WorkerId>) -> Result<(), Fail> {
        let boot = self.core.boot();
        let made = self
            .conn
            .prepare_cached(
                "INSERT INTO streams (next_seq, bytes, earliest, epoch, claim, owned, boot, worker, uid, scope, name)
                 VALUES (0, 0, 0, 1, 1, ?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            )?
            .execute(params![worker.is_some(), boot, worker.map(|worker| worker.0), id.0, key.scope, key.name])?;
        if made == 0 {
            return Err(Refused::Exists.into());
        }
        self.streams.table.keep(StreamRow {
            n: self.conn.last_insert_rowid(),
            next_seq: 0,
            bytes: 0,
            earliest: 0,
            epoch: 1,
            claim: 1,
            owned: worker.is_some(),
            boot,
            closed_at: None,
            worker,
            id,
            key: key.clone(),
        });
        Ok(())
    }

    /// Fences the claim before it.
    fn new_claim(&mut self, id: StreamId, worker: Option<WorkerId>) -> Result<u32, Fail> {
        let known = self.streams.table.by_id(self.conn, id)?.ok_or(Refused::Unknown)?;
        known.write_pending(&mut self.hot, self.conn)?;
        let row = &mut known.row;
        let claim = row.claim.checked_add(1).ok_or_else(|| cannot_hold("the stream has used up its claims"))?;
        self.conn.prepare_cached("INSERT INTO claims (stream, claim, first_seq) VALUES (?1, ?2, ?3)")?.execute((
            row.n,
            claim,
            int(row.next_seq),
        ))?;
        row.claim = claim;
        row.owned = worker.is_some();
        row.worker = worker;
        row.boot = self.core.boot();
        known.mark(&mut self.streams.dirty, Dirty::All);
        self.took_claim = true;
        Ok(claim)
    }
}

fn insert_chunk<'c>(hot: &mut Hot<'c>, conn: &'c Connection, stream: &StreamRow, chunk: &Chunk) -> Result<(), Fail> {
    let insert = match &mut hot.insert_chunk {
        Some(insert) => insert,
        none => none.insert(conn.prepare_cached(
            "INSERT INTO chunks (stream, first_seq, count, last_time, data, crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?),
    };
    let data = chunk.data.as_deref();
    let crc = sum::of_chunk(stream.id, chunk.first_seq, chunk.count, chunk.last_time, data);
    insert.execute((stream.n, int(chunk.first_seq), chunk.count, chunk.last_time, data, crc))?;
    Ok(())
}

fn after(next_seq: u64, count: u32) -> Result<u64, Fail> {
    let next = next_seq + u64::from(count);
    if next > MAX_SEQ + 1 { Err(cannot_hold("the stream has used up its sequence numbers")) } else { Ok(next) }
}
