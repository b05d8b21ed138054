//! Enqueueing: what a delivery joins, what it stands behind, and how far its cursor may reach.

use std::borrow::Cow;

use rusqlite::{OptionalExtension, params};
use tidings_proto::firing::lower_cursor;
use tidings_proto::time::StoreMillis;
use tidings_store::{Batch, Done, NewDelivery, Refused};

use crate::error::Fail;
use crate::rows::{self, subject_columns};
use crate::seal::Field;
use crate::sum;
use crate::writer::Tx;

impl Tx<'_> {
    pub(crate) fn enqueue(&mut self, new: &NewDelivery) -> Result<Done, Fail> {
        self.saw(new.created_at);
        let route = self.core.sealer.seal(&new.route.0, Field::DeliveryRoute, &new.id.0)?;
        let unless_empty = |plain: &[u8], field| match plain.is_empty() {
            true => Ok(Vec::new()),
            false => self.core.sealer.seal(plain, field, &new.id.0),
        };
        let fallback = unless_empty(&new.fallback.0, Field::DeliveryFallback)?;
        let thread = self.thread_of(new)?;
        let undelivered = self.first_undelivered(thread, new.seq)?;
        let lowered =
            |body| undelivered.and_then(|next| lower_cursor(body, next)).map_or(Cow::Borrowed(body), Cow::Owned);
        let (body, whole) = (lowered(&new.body), lowered(&new.whole.0));
        let whole = Some(unless_empty(&whole, Field::DeliveryWhole)?).filter(|whole| !whole.is_empty());
        let subject = subject_columns(&new.subject);
        let line = self.line_of(new.endpoint, &new.principal, new.created_at)?;
        let (batch, due) = match &new.batch {
            Some(batch) if new.outlet.is_none() => self.join(line.n, new, body.len() as u64, batch)?,
            _ => (None, new.due),
        };
        let behind = match &new.fifo_key {
            Some(key) => self.has_unfinished(line.n, key, batch)?,
            None => false,
        };
        let made = self
            .conn
            .prepare_cached(
                "INSERT INTO deliveries (uid, queue, at, state, due, deadline, created_at, attempts, token, subject_kind, subject,
                     event_id, principal, trigger_name, route_id, endpoint, fifo, wait_until, outlet,
                     outlet_until, seq, batch, thread)
                 VALUES (?1, ?11, max(?2, coalesce(?16, ?2)), 'pending', ?2, ?3, ?4, 0, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?12, ?13, ?14,
                     ?15, ?16, ?17, ?18, coalesce(?19, (SELECT coalesce(max(n), 0) + 1 FROM deliveries)))
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                new.id.0,
                due,
                new.deadline,
                new.created_at,
                subject.kind,
                subject.value,
                new.event_id,
                new.principal,
                new.trigger,
                new.route_id,
                match (behind, &new.outlet) {
                    (true, _) => 4,
                    (false, Some(_)) => 3,
                    (false, None) => 0,
                },
                line.n,
                new.fifo_key,
                new.wait_until,
                new.outlet.as_ref().map(|outlet| &outlet.name),
                new.outlet.as_ref().map(|outlet| outlet.until),
                new.seq.map(u64::cast_signed),
                batch,
                thread,
            ])?;
        if made == 0 {
            return Err(Refused::Exists.into());
        }
        let n = self.conn.last_insert_rowid();
        self.conn
            .prepare_cached(
                "INSERT INTO unfinished (principal, count) VALUES (?1, 1) ON CONFLICT (principal) DO UPDATE SET count = count + 1",
            )?
            .execute([&new.principal])?;
        self.conn
            .prepare_cached(
                "INSERT INTO delivery_contents (n, route, fallback, route_start, route_end, body, whole, body_crc)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                n,
                route,
                fallback,
                new.route_at.0,
                new.route_at.1,
                &body[..],
                whole,
                sum::of_body(n, new.route_at, &body),
            ])?;
        if !behind && new.outlet.is_none() && line.at.is_none_or(|at| at > due) {
            self.wake_at(line.n, due)?;
        }
        Ok(Done::Nothing)
    }

    /// What all deliveries about one subject have in common: a number that was that of the first one. Numbers are given
    /// out in order, so that what is enqueued together stands together, where ids of calls are spread.
    fn thread_of(&self, new: &NewDelivery) -> Result<Option<i64>, Fail> {
        let subject = subject_columns(&new.subject);
        Ok(self
            .conn
            .prepare_cached("SELECT thread FROM deliveries WHERE subject_kind = ?1 AND subject = ?2 LIMIT 1")?
            .query_row((subject.kind, subject.value), |row| row.get(0))
            .optional()?)
    }

    /// The number of the first event before `seq` that the thread has not delivered.
    fn first_undelivered(&self, thread: Option<i64>, seq: Option<u64>) -> Result<Option<u64>, Fail> {
        let (Some(thread), Some(seq)) = (thread, seq) else { return Ok(None) };
        let first: Option<i64> = self
            .conn
            .prepare_cached(
                "SELECT min(seq) FROM deliveries WHERE thread = ?1 AND seq IS NOT NULL AND seq < ?2 AND over = 0",
            )?
            .query_row((thread, seq.cast_signed()), |row| row.get(0))?;
        Ok(first.map(i64::cast_unsigned))
    }

    /// Puts a delivery into the open batch of its settings, or opens one. Answers the batch and when it is due.
    fn join(
        &self,
        line: i64,
        new: &NewDelivery,
        bytes: u64,
        batch: &Batch,
    ) -> Result<(Option<i64>, StoreMillis), Fail> {
        let settings = self.core.sealer.equality(&batch.settings.0);
        let open = self
            .conn
            .prepare_cached("SELECT n, events, bytes, due FROM batches WHERE endpoint = ?1 AND settings = ?2")?
            .query_row((line, settings), |row| {
                Ok((row.get::<_, i64>(0)?, rows::small(row, 1)?, rows::count(row, 2)?, row.get::<_, StoreMillis>(3)?))
            })
            .optional()?;
        let in_order = match (&open, &new.fifo_key) {
            (Some((n, ..)), Some(key)) => self.last_of_key(line, key)?.is_none_or(|last| last == Some(*n)),
            _ => true,
        };
        let fits = |all: &u64| in_order && all.saturating_add(bytes).saturating_add(1) <= batch.max_bytes;
        let (n, events, bytes, due) = match open {
            Some((n, events, all, due)) if fits(&all) => {
                (n, events.saturating_add(1), all + bytes + 1, due.min(new.due))
            }
            open => {
                if let Some((n, ..)) = open {
                    self.close_batch(n)?;
                    self.put_due(n, new.created_at)?;
                    self.wake_at(line, new.created_at)?;
                }
                self.conn
                    .prepare_cached(
                        "INSERT INTO batches (endpoint, settings, events, bytes, due) VALUES (?1, ?2, 0, 0, 0)",
                    )?
                    .execute((line, settings))?;
                (self.conn.last_insert_rowid(), 1, bytes, new.due)
            }
        };
        if events >= batch.max_events || bytes >= batch.max_bytes {
            self.close_batch(n)?;
            let due = due.min(new.created_at);
            self.put_due(n, due)?;
            return Ok((Some(n), due));
        }
        self.conn.prepare_cached("UPDATE batches SET events = ?2, bytes = ?3, due = ?4 WHERE n = ?1")?.execute((
            n,
            events,
            bytes.cast_signed(),
            due,
        ))?;
        self.put_due(n, due)?;
        Ok((Some(n), due))
    }

    /// The batch of the delivery that was enqueued last of a key's unfinished ones; `None` without one.
    fn last_of_key(&self, endpoint: i64, key: &str) -> Result<Option<Option<i64>>, Fail> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT batch FROM deliveries WHERE endpoint = ?1 AND fifo = ?2 AND over = 0 ORDER BY n DESC LIMIT 1",
            )?
            .query_row((endpoint, key), |row| row.get(0))
            .optional()?)
    }

    /// Has all of a batch that was never leased due at that moment.
    fn put_due(&self, batch: i64, due: StoreMillis) -> Result<(), Fail> {
        self.conn
            .prepare_cached("UPDATE deliveries SET due = ?2, at = ?2 WHERE batch = ?1 AND over = 0 AND due <> ?2")?
            .execute((batch, due))?;
        Ok(())
    }

    /// Nothing joins the batch any more.
    pub(super) fn close_batch(&self, n: i64) -> Result<(), Fail> {
        self.conn.prepare_cached("DELETE FROM batches WHERE n = ?1")?.execute([n])?;
        Ok(())
    }

    /// Whether a key has a delivery that is not finished and does not go out with the batch.
    fn has_unfinished(&self, endpoint: i64, key: &str, batch: Option<i64>) -> Result<bool, Fail> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM deliveries WHERE endpoint = ?1 AND fifo = ?2 AND over = 0
                     AND (?3 IS NULL OR batch IS NOT ?3))",
            )?
            .query_row((endpoint, key, batch), |row| row.get(0))?)
    }
}
