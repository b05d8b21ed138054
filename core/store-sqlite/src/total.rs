//! Retention in total: what all streams keep together.
//!
//! An append must not pay for it, so nothing is counted when events come. Retention counts the chunks that came since its
//! last look, whoever committed them: chunks are numbered in the order of their commits. What it takes away it subtracts.

use std::collections::BTreeMap;

use rusqlite::OptionalExtension;
use tidings_proto::stream::{Amount, ChunkView, first_kept_of_all};

use crate::error::Fail;
use crate::rows::{count, int};
use crate::trim::{Head, Work, head, view};
use crate::writer::Tx;

/// Of the oldest chunks of all so many are looked at together.
const OLDEST: i64 = 500;

/// What all streams retained before this look, with what came since the last one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Total {
    all: Amount,
    /// As it stands in the database.
    stored: Option<(i64, Amount)>,
}

impl Tx<'_> {
    pub(crate) fn count_total(&mut self) -> Result<Total, Fail> {
        let stored = self
            .conn
            .prepare_cached("SELECT chunk, events, bytes FROM total")?
            .query_row([], |row| Ok((row.get(0)?, Amount { events: count(row, 1)?, bytes: count(row, 2)? })))
            .optional()?;
        let amount = |row: &rusqlite::Row<'_>| Ok(Amount { events: count(row, 0)?, bytes: count(row, 1)? });
        let all = match stored {
            Some((chunk, known)) => {
                let new = self
                    .conn
                    .prepare_cached(
                        "SELECT coalesce(sum(count), 0), coalesce(sum(length(data)), 0) FROM chunks WHERE n > ?1",
                    )?
                    .query_row([chunk], amount)?;
                Amount { events: known.events + new.events, bytes: known.bytes + new.bytes }
            }
            None => self
                .conn
                .prepare_cached("SELECT coalesce(sum(next_seq - earliest), 0), coalesce(sum(bytes), 0) FROM streams")?
                .query_row([], amount)?,
        };
        Ok(Total { all, stored })
    }

    /// Remembers what is retained once `gone` is gone.
    pub(crate) fn keep_total(&mut self, total: &mut Total, gone: Amount) -> Result<(), Fail> {
        let Amount { events, bytes } = total.all.less(gone);
        // The newest chunk that is there: the number of one that went is given out again.
        let chunk = self.newest_chunk()?.unwrap_or_default();
        if total.stored != Some((chunk, Amount { events, bytes })) {
            self.conn
                .prepare_cached("INSERT OR REPLACE INTO total (one, chunk, events, bytes) VALUES (1, ?1, ?2, ?3)")?
                .execute((chunk, int(events), int(bytes)))?;
        }
        Ok(())
    }

    fn newest_chunk(&self) -> Result<Option<i64>, Fail> {
        Ok(self.conn.prepare_cached("SELECT max(n) FROM chunks")?.query_row([], |row| row.get(0))?)
    }

    pub(crate) fn trim_total(&mut self, total: &Total, work: &mut Work<'_>) -> Result<(), Fail> {
        let excess = |work: &Work<'_>| work.retention.excess(total.all.less(work.gone));
        while work.left > 0 && excess(work) != Amount::NONE {
            if !self.trim_closed_first(excess(work), work)? {
                break;
            }
        }
        while work.left > 0 && excess(work) != Amount::NONE {
            if !self.trim_oldest_of_all(excess(work), work)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes from the stream that was closed longest ago all but its last event. `false`: there is none of which there is
    /// more.
    fn trim_closed_first(&mut self, excess: Amount, work: &mut Work<'_>) -> Result<bool, Fail> {
        let (at, n) = self.sweep.closed;
        let next = self
            .conn
            .prepare_cached(
                "SELECT n, earliest, next_seq, bytes, closed_at FROM streams
                 WHERE closed_at IS NOT NULL AND (closed_at, n) > (?1, ?2) AND earliest + 1 < next_seq
                 ORDER BY closed_at, n LIMIT 1",
            )?
            .query_row((at, n), |row| Ok((head(row)?, row.get(4)?)))
            .optional()?;
        let Some((stream, closed_at)) = next else { return Ok(false) };
        let last = stream.next_seq - 1;
        let keep = self.kept_of_all(&stream, excess, last, work.left)?;
        if self.evict(&stream, keep, work)? >= last {
            self.sweep.closed = (closed_at, stream.n);
        }
        Ok(keep > stream.earliest)
    }

    fn kept_of_all(&self, stream: &Head, excess: Amount, last: u64, chunks: usize) -> Result<u64, Fail> {
        let mut select = self.conn.prepare_cached(
            "SELECT first_seq, count, length(data), last_time FROM chunks WHERE stream = ?1 ORDER BY first_seq LIMIT ?2",
        )?;
        let found = select.query_map((stream.n, int(chunks as u64)), view)?;
        let chunks: Vec<_> = found.collect::<Result<_, _>>()?;
        Ok(first_kept_of_all(excess, stream.earliest, last, chunks).0)
    }

    /// Takes what was committed first, of whatever stream. `false`: nothing more may go.
    fn trim_oldest_of_all(&mut self, excess: Amount, work: &mut Work<'_>) -> Result<bool, Fail> {
        let Some(newest) = self.newest_chunk()? else { return Ok(false) };
        let oldest: Vec<(i64, i64, ChunkView)> = {
            let mut select = self.conn.prepare_cached(
                "SELECT first_seq, count, length(data), last_time, n, stream FROM chunks ORDER BY n LIMIT ?1",
            )?;
            let found = select
                .query_map([OLDEST.min(int(work.left as u64))], |row| Ok((row.get(4)?, row.get(5)?, view(row)?)))?;
            found.collect::<Result<_, _>>()?
        };
        let mut streams: BTreeMap<i64, (Head, u64)> = BTreeMap::new();
        let mut left = excess;
        for (n, stream, chunk) in oldest {
            if n == newest {
                // The newest chunk of all goes by count only.
                left.bytes = 0;
            }
            if left == Amount::NONE {
                break;
            }
            let (_, keep) = match streams.entry(stream) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    let found = self
                        .conn
                        .prepare_cached("SELECT n, earliest, next_seq, bytes FROM streams WHERE n = ?1")?
                        .query_row([stream], head)
                        .optional()?;
                    let Some(found) = found else { continue };
                    let earliest = found.earliest;
                    place.insert((found, earliest))
                }
            };
            let (kept, gone) = first_kept_of_all(left, *keep, chunk.first_seq + chunk.count, [chunk]);
            *keep = kept;
            left = left.less(gone);
        }
        let before = work.gone;
        for (stream, keep) in streams.into_values() {
            self.evict(&stream, keep, work)?;
        }
        Ok(work.gone != before)
    }
}
