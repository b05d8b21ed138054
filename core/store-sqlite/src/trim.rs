//! Retention, and forgetting what is finished.
//!
//! Finding the streams that need it must not cost a walk over all of them. Three things find them: the streams this
//! process has appended to since the last call (count and bytes grow by appends only), the oldest chunk of the whole store
//! (chunks stand in the order of their commits, so what is too old comes first), and a slow round over all streams, for what
//! another process left untrimmed when it died and for clocks that jumped. Closed streams and finished records have indexes.
//!
//! Retention in total comes last, so that each stream's own limits cut first; see [`total`](crate::total).
//!
//! All of a call happens in the transaction of its group: a reader sees a stream before or after it, never between.

use std::collections::HashSet;

use rusqlite::OptionalExtension;
use tidings_proto::stream::{Amount, ChunkView, Retention, first_kept};
use tidings_proto::time::{StoreMillis, UnixMillis};
use tidings_store::{Done, WorkerId};

use crate::error::Fail;
use crate::rows::{self, Id, count, int};
use crate::writer::Tx;

/// Rows that one call takes away at most, so that others wait a few milliseconds at most (300,000 rows/s, `delivery-systems.md` 4.3).
const ROWS: usize = 2_000;
/// Streams that one call looks at on its slow round.
const ROUND: usize = 500;
/// More streams than this are left to the slow round.
const TOUCHED: usize = 100_000;
/// Free pages that stay in the file for what comes next, and how many beyond that one call gives back.
const SPARE_PAGES: i64 = 4_096;
const PAGES_BACK: i64 = 256;

/// What the writer remembers for the next call.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Streams appended to since the last call.
    touched: HashSet<i64>,
    /// Where the slow round stands.
    at: i64,
    /// The last closed stream from which retention in total has taken all it takes first.
    pub(crate) closed: (StoreMillis, i64),
}

impl Sweep {
    pub(crate) fn touch(&mut self, n: i64) {
        if self.touched.len() < TOUCHED {
            self.touched.insert(n);
        }
    }
}

/// What one call may still do, and what it did.
pub(crate) struct Work<'a> {
    pub(crate) retention: &'a Retention,
    wall: UnixMillis,
    pub(crate) left: usize,
    pub(crate) gone: Amount,
}

pub(crate) struct Head {
    pub(crate) n: i64,
    pub(crate) earliest: u64,
    pub(crate) next_seq: u64,
    bytes: u64,
}

pub(crate) fn head(row: &rusqlite::Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head { n: row.get(0)?, earliest: count(row, 1)?, next_seq: count(row, 2)?, bytes: count(row, 3)? })
}

impl Tx<'_> {
    pub(crate) fn trim(
        &mut self,
        now: StoreMillis,
        wall: UnixMillis,
        retention: &Retention,
        keep_finished_ms: i64,
    ) -> Result<Done, Fail> {
        self.saw(now);
        // From here on the rows in the database count.
        self.flush_streams()?;
        self.streams.forget();
        let mut work = Work { retention, wall, left: ROWS, gone: Amount::NONE };
        let mut total = self.count_total()?;
        self.trim_closed(now, &mut work)?;
        self.trim_oldest(&mut work)?;
        self.trim_touched(&mut work)?;
        self.trim_round(&mut work)?;
        self.trim_total(&total, &mut work)?;
        self.keep_total(&mut total, work.gone)?;
        self.forget_finished(now.saturating_sub(keep_finished_ms), now, &mut work)?;
        if work.left < ROWS {
            self.give_space_back()?;
        }
        Ok(Done::Trimmed { events: work.gone.events, more: work.left == 0 })
    }

    /// Streams whose time after close is over go entirely: their events first, then what is known of them.
    fn trim_closed(&mut self, now: StoreMillis, work: &mut Work<'_>) -> Result<(), Fail> {
        let Some(after_close) = work.retention.after_close_ms else { return Ok(()) };
        let latest = now.saturating_sub(i64::try_from(after_close).unwrap_or(i64::MAX));
        while work.left > 0 {
            let next = self
                .conn
                .prepare_cached(
                    "SELECT n, earliest, next_seq, bytes FROM streams WHERE closed_at IS NOT NULL AND closed_at <= ?1
                     ORDER BY closed_at LIMIT 1",
                )?
                .query_row([latest], head)
                .optional()?;
            let Some(stream) = next else { break };
            if self.evict(&stream, stream.next_seq, work)? < stream.next_seq || work.left == 0 {
                break;
            }
            self.conn.prepare_cached("DELETE FROM claims WHERE stream = ?1")?.execute([stream.n])?;
            self.conn.prepare_cached("DELETE FROM append_keys WHERE stream = ?1")?.execute([stream.n])?;
            self.conn.prepare_cached("DELETE FROM streams WHERE n = ?1")?.execute([stream.n])?;
            self.sweep.touched.remove(&stream.n);
            work.left -= 1;
        }
        Ok(())
    }

    fn trim_oldest(&mut self, work: &mut Work<'_>) -> Result<(), Fail> {
        let Some(max_age) = work.retention.max_age_ms else { return Ok(()) };
        let max_age = i64::try_from(max_age).unwrap_or(i64::MAX);
        while work.left > 0 {
            let oldest = self
                .conn
                .prepare_cached("SELECT stream, last_time FROM chunks ORDER BY n LIMIT 1")?
                .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, UnixMillis>(1)?)))
                .optional()?;
            let Some((stream, time)) = oldest else { break };
            let before = work.left;
            if work.wall.saturating_sub(time) > max_age {
                self.trim_stream(stream, work)?;
            }
            if work.left == before {
                break;
            }
        }
        Ok(())
    }

    fn trim_touched(&mut self, work: &mut Work<'_>) -> Result<(), Fail> {
        while work.left > 0 {
            let Some(n) = self.sweep.touched.iter().next().copied() else { break };
            self.trim_stream(n, work)?;
            if work.left > 0 {
                self.sweep.touched.remove(&n);
            }
        }
        Ok(())
    }

    fn trim_round(&mut self, work: &mut Work<'_>) -> Result<(), Fail> {
        let mut looked = 0;
        while looked < ROUND && work.left > 0 {
            let next = self
                .conn
                .prepare_cached("SELECT n, earliest, next_seq, bytes FROM streams WHERE n > ?1 ORDER BY n LIMIT 1")?
                .query_row([self.sweep.at], head)
                .optional()?;
            looked += 1;
            match next {
                Some(stream) => {
                    self.trim_to_retention(&stream, work)?;
                    self.sweep.at = stream.n;
                }
                None if self.sweep.at == 0 => break,
                // Round: what is left of this call goes to the beginning, at most to where it started.
                None => {
                    self.sweep.at = 0;
                    break;
                }
            }
        }
        Ok(())
    }

    fn trim_stream(&mut self, n: i64, work: &mut Work<'_>) -> Result<(), Fail> {
        let stream = self
            .conn
            .prepare_cached("SELECT n, earliest, next_seq, bytes FROM streams WHERE n = ?1")?
            .query_row([n], head)
            .optional()?;
        match stream {
            Some(stream) => self.trim_to_retention(&stream, work),
            None => Ok(()),
        }
    }

    fn trim_to_retention(&mut self, stream: &Head, work: &mut Work<'_>) -> Result<(), Fail> {
        let keep = {
            let mut chunks = self.conn.prepare_cached(
                "SELECT first_seq, count, length(data), last_time FROM chunks WHERE stream = ?1 ORDER BY first_seq LIMIT ?2",
            )?;
            let mut rows = chunks.query((stream.n, int(work.left as u64)))?;
            let mut failed = None;
            let views = std::iter::from_fn(|| match rows.next() {
                Ok(Some(row)) => view(row).map_err(|error| failed = Some(error)).ok(),
                Ok(None) => None,
                Err(error) => {
                    failed = Some(error);
                    None
                }
            });
            let keep = first_kept(work.retention, work.wall, stream.earliest, stream.next_seq, stream.bytes, views);
            match failed {
                Some(error) => return Err(error.into()),
                None => keep,
            }
        };
        self.evict(stream, keep, work)?;
        Ok(())
    }

    /// Takes away the events before `keep`, as far as the work that is left reaches. Answers the new earliest.
    pub(crate) fn evict(&mut self, stream: &Head, keep: u64, work: &mut Work<'_>) -> Result<u64, Fail> {
        if keep <= stream.earliest {
            return Ok(stream.earliest);
        }
        let mut last = None;
        let (mut gone, mut bytes, mut all) = (0, 0, true);
        {
            let mut chunks = self.conn.prepare_cached(
                "SELECT first_seq, count, length(data), last_time FROM chunks WHERE stream = ?1 AND first_seq < ?2 ORDER BY first_seq",
            )?;
            let mut rows = chunks.query((stream.n, int(keep)))?;
            while let Some(row) = rows.next()? {
                let chunk = view(row)?;
                if chunk.first_seq + chunk.count > keep {
                    break; // It holds the first event that stays.
                }
                if gone == work.left {
                    all = false;
                    break;
                }
                gone += 1;
                bytes += chunk.bytes;
                last = Some(chunk);
            }
        }
        let reached = match last {
            Some(chunk) if !all => chunk.first_seq + chunk.count,
            None if !all => stream.earliest,
            _ => keep,
        };
        if let Some(chunk) = last {
            self.conn
                .prepare_cached("DELETE FROM chunks WHERE stream = ?1 AND first_seq <= ?2")?
                .execute((stream.n, int(chunk.first_seq)))?;
        }
        self.conn.prepare_cached("UPDATE streams SET earliest = ?2, bytes = ?3 WHERE n = ?1")?.execute((
            stream.n,
            int(reached),
            int(stream.bytes.saturating_sub(bytes)),
        ))?;
        self.conn
            .prepare_cached("DELETE FROM append_keys WHERE stream = ?1 AND first_seq < ?2")?
            .execute((stream.n, int(reached)))?;
        work.left -= gone;
        work.gone.events += reached - stream.earliest;
        work.gone.bytes += bytes;
        Ok(reached)
    }

    /// Forgets deliveries, calls and workers that were finished by `latest`.
    fn forget_finished(&mut self, latest: StoreMillis, now: StoreMillis, work: &mut Work<'_>) -> Result<(), Fail> {
        let rows = |sql: &str, left: usize| -> Result<Vec<i64>, Fail> {
            let mut finished = self.conn.prepare_cached(sql)?;
            let rows = finished.query_map((latest, int(left as u64)), |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        for n in rows("SELECT n FROM deliveries WHERE queue = 2 AND at <= ?1 ORDER BY at LIMIT ?2", work.left)? {
            self.forget_delivery(n)?;
            work.left -= 1;
        }
        for n in rows(
            "SELECT n FROM calls WHERE status IS NOT NULL AND ended_at <= ?1
               AND NOT EXISTS (SELECT 1 FROM aggregates WHERE call = calls.uid AND ended = 0)
             ORDER BY ended_at LIMIT ?2",
            work.left,
        )? {
            self.conn.prepare_cached("DELETE FROM timers WHERE call = ?1")?.execute([n])?;
            self.conn.prepare_cached("DELETE FROM calls WHERE n = ?1")?.execute([n])?;
            work.left -= 1;
        }
        work.left -= self.forget_endpoints(latest, work.left)?.min(work.left);
        work.left -= self.forget_proofs(now, work.left)?.min(work.left);
        work.left -= self.forget_groups(now, work.left)?;
        let old: Vec<WorkerId> = {
            let mut old =
                self.conn.prepare_cached("SELECT uid FROM workers WHERE until <= ?1 ORDER BY until LIMIT ?2")?;
            let rows = old.query_map((latest, int(work.left as u64)), |row| Ok(WorkerId(row.get::<_, Id>(0)?.0)))?;
            rows.collect::<Result<_, _>>()?
        };
        for worker in old {
            if rows::gone(self.conn, self.core, worker, now)? {
                self.conn.prepare_cached("DELETE FROM workers WHERE uid = ?1")?.execute([worker.0])?;
                self.conn.prepare_cached("DELETE FROM offers WHERE worker = ?1")?.execute([worker.0])?;
                self.after.forgotten.push(worker);
                work.left -= 1;
            }
        }
        Ok(())
    }

    /// Shrinks the file a little when much of it is free.
    fn give_space_back(&self) -> Result<(), Fail> {
        let free: i64 = self.conn.prepare_cached("PRAGMA freelist_count")?.query_row([], |row| row.get(0))?;
        if free > SPARE_PAGES {
            let pages = (free - SPARE_PAGES).min(PAGES_BACK);
            let mut vacuum = self.conn.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
            let mut steps = vacuum.query([])?;
            while steps.next()?.is_some() {}
        }
        Ok(())
    }
}

pub(crate) fn view(row: &rusqlite::Row<'_>) -> rusqlite::Result<ChunkView> {
    Ok(ChunkView {
        first_seq: count(row, 0)?,
        count: count(row, 1)?,
        bytes: row.get::<_, Option<i64>>(2)?.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0)),
        last_time: row.get(3)?,
    })
}
