//! Deliveries: enqueued, leased, settled. `queue` is 0 while one waits, 1 in a worker's hands, 2 when it is finished, 3
//! while it waits for its outlet (then `at` is when any worker may take it all the same), 4 while it waits behind another one
//! of its key.
//!
//! What every delivery goes through is read and then updated, without `RETURNING`: with it SQLite runs the update as one
//! that may have to be taken back alone, and copies each page that it changes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use tidings_proto::delivery::EndpointKey;
use tidings_proto::firing::lower_cursor;
use tidings_proto::time::StoreMillis;
use tidings_store::flow::{self, HostRow, Line, Shelf};
use tidings_store::{
    AttemptRecord, Batch, Delivery, DeliveryId, DeliveryState, Done, Lease, NewDelivery, Outlet, Purge, Refused,
    Sealed, Settle, Taken, WorkerId,
};

use crate::Core;
use crate::error::Fail;
use crate::rows::{self, Id, subject_columns};
use crate::seal::Field;
use crate::sum;
use crate::writer::Tx;

/// What an operator is told of a delivery whose sealed route no longer opens.
const UNREADABLE: &str = "unreadable";

/// What [`without_contents`] reads, and two counts.
const COLUMNS: &str =
    "uid, event_id, subject_kind, subject, principal, trigger_name, route_id, due, deadline, created_at,
     attempts, token, fifo, wait_until, (SELECT uid FROM endpoints WHERE n = endpoint), outlet, outlet_until, seq";

/// A delivery as far as its row goes.
fn without_contents(row: &rusqlite::Row<'_>) -> rusqlite::Result<NewDelivery> {
    let endpoint: Option<[u8; 32]> = row.get(14)?;
    Ok(NewDelivery {
        id: DeliveryId(row.get::<_, Id>(0)?.0),
        event_id: row.get(1)?,
        subject: rows::subject(row, 2, 3)?,
        principal: row.get(4)?,
        trigger: row.get(5)?,
        route_id: row.get(6)?,
        route: Sealed::default(),
        fallback: Sealed::default(),
        body: Bytes::new(),
        whole: Sealed::default(),
        route_at: (0, 0),
        due: row.get(7)?,
        outlet: match (row.get(15)?, row.get(16)?) {
            (Some(name), Some(until)) => Some(Outlet { name, until }),
            _ => None,
        },
        deadline: row.get(8)?,
        created_at: row.get(9)?,
        endpoint: EndpointKey(endpoint.unwrap_or_default()),
        fifo_key: row.get(12)?,
        wait_until: row.get(13)?,
        seq: row.get::<_, Option<i64>>(17)?.map(i64::cast_unsigned),
        batch: None,
    })
}

/// Reads what a delivery carries. `false`: it is lost, or does not open.
fn contents(conn: &Connection, core: &Core, n: i64, new: &mut NewDelivery) -> Result<bool, Fail> {
    let mut contents = conn.prepare_cached(
        "SELECT route, fallback, route_start, route_end, body, whole, body_crc FROM delivery_contents WHERE n = ?1",
    )?;
    let found = contents
        .query_row([n], |row| {
            let (route, fallback, body): (Vec<u8>, Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(4)?);
            let whole: Option<Vec<u8>> = row.get(5)?;
            let route_at = (row.get(2)?, row.get(3)?);
            let damaged = sum::differs(row, 6, || sum::of_body(n, route_at, &body))?;
            Ok((route, fallback, route_at, (!damaged).then_some(body), whole))
        })
        .optional()?;
    let id = new.id;
    let Some((route, fallback, route_at, body, whole)) = found else {
        tracing::error!(delivery = %id, "the delivery has lost its contents: it is dead");
        return Ok(false);
    };
    let Some(body) = body else {
        tracing::error!(delivery = %id, "the delivery's body is damaged: it is dead");
        return Ok(false);
    };
    let route = core.sealer.open(&route, Field::DeliveryRoute, &id.0);
    let fallback = core.sealer.open(&fallback, Field::DeliveryFallback, &id.0);
    let whole = whole.map_or(Ok(Bytes::new()), |whole| core.sealer.open(&whole, Field::DeliveryWhole, &id.0));
    let (Ok(route), Ok(fallback), Ok(whole)) = (route, fallback, whole) else {
        tracing::error!(delivery = %id, "the delivery's sealed route does not open: damaged or replaced, it is dead");
        return Ok(false);
    };
    (new.route, new.fallback, new.whole) = (Sealed(route), Sealed(fallback), Sealed(whole));
    (new.route_at, new.body) = (route_at, body.into());
    Ok(true)
}

/// What was enqueued as that delivery, whatever became of it.
pub(crate) fn stored(conn: &Connection, core: &Core, id: DeliveryId) -> Result<Option<NewDelivery>, Fail> {
    let found = conn
        .prepare_cached(&format!("SELECT {COLUMNS}, n FROM deliveries WHERE uid = ?1"))?
        .query_row([id.0], |row| Ok((without_contents(row)?, row.get(18)?)))
        .optional()?;
    let Some((mut new, n)) = found else { return Ok(None) };
    Ok(contents(conn, core, n, &mut new)?.then_some(new))
}

/// The attempts of a delivery that were settled, in order.
pub(crate) fn attempts(conn: &Connection, id: DeliveryId) -> Result<Vec<AttemptRecord>, Fail> {
    let mut select = conn.prepare_cached(
        "SELECT attempts.at, error FROM attempts JOIN deliveries ON deliveries.n = attempts.delivery WHERE uid = ?1 ORDER BY nth",
    )?;
    let rows = select.query_map([id.0], |row| Ok(AttemptRecord { at: row.get(0)?, error: row.get(1)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Tx<'_> {
    pub(crate) fn enqueue(&mut self, new: &NewDelivery) -> Result<Done, Fail> {
        self.saw(new.created_at);
        let route = self.core.sealer.seal(&new.route.0, Field::DeliveryRoute, &new.id.0)?;
        let fallback = self.core.sealer.seal(&new.fallback.0, Field::DeliveryFallback, &new.id.0)?;
        let undelivered = self.first_undelivered(new)?;
        let lowered =
            |body| undelivered.and_then(|next| lower_cursor(body, next)).map_or(Cow::Borrowed(body), Cow::Owned);
        let (body, whole) = (lowered(&new.body), lowered(&new.whole.0));
        let whole = match whole.is_empty() {
            true => None,
            false => Some(self.core.sealer.seal(&whole, Field::DeliveryWhole, &new.id.0)?),
        };
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
                     outlet_until, seq, batch)
                 VALUES (?1, ?11, max(?2, coalesce(?16, ?2)), 'pending', ?2, ?3, ?4, 0, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?12, ?13, ?14,
                     ?15, ?16, ?17, ?18)
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
            ])?;
        if made == 0 {
            return Err(Refused::Exists.into());
        }
        let n = self.conn.last_insert_rowid();
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

    /// The number of the first event before this delivery's that its subject has not delivered.
    fn first_undelivered(&self, new: &NewDelivery) -> Result<Option<u64>, Fail> {
        let Some(seq) = new.seq else { return Ok(None) };
        let subject = subject_columns(&new.subject);
        let first: Option<i64> = self
            .conn
            .prepare_cached(
                "SELECT min(seq) FROM deliveries
                 WHERE subject_kind = ?1 AND subject = ?2 AND seq IS NOT NULL AND seq < ?3 AND queue <> 2",
            )?
            .query_row((subject.kind, subject.value, seq.cast_signed()), |row| row.get(0))?;
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
                "SELECT batch FROM deliveries WHERE endpoint = ?1 AND fifo = ?2 AND queue <> 2 ORDER BY n DESC LIMIT 1",
            )?
            .query_row((endpoint, key), |row| row.get(0))
            .optional()?)
    }

    /// Has all of a batch that was never leased due at that moment.
    fn put_due(&self, batch: i64, due: StoreMillis) -> Result<(), Fail> {
        self.conn
            .prepare_cached("UPDATE deliveries SET due = ?2, at = ?2 WHERE batch = ?1 AND queue <> 2 AND due <> ?2")?
            .execute((batch, due))?;
        Ok(())
    }

    /// Nothing joins the batch any more.
    fn close_batch(&self, n: i64) -> Result<(), Fail> {
        self.conn.prepare_cached("DELETE FROM batches WHERE n = ?1")?.execute([n])?;
        Ok(())
    }

    /// Whether a key has a delivery that is not finished and does not go out with the batch.
    fn has_unfinished(&self, endpoint: i64, key: &str, batch: Option<i64>) -> Result<bool, Fail> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM deliveries WHERE endpoint = ?1 AND fifo = ?2 AND queue <> 2
                     AND (?3 IS NULL OR batch IS NOT ?3))",
            )?
            .query_row((endpoint, key, batch), |row| row.get(0))?)
    }

    pub(crate) fn lease(&mut self, lease: &Lease) -> Result<Done, Fail> {
        self.saw(lease.now);
        if lease.limit == 0 {
            return Ok(Done::Leased(Vec::new()));
        }
        self.take_back_abandoned(lease.now)?;
        let mut bench = Bench { tx: self, lease, leased: Vec::new() };
        flow::lease(&mut bench, lease)?;
        Ok(Done::Leased(bench.leased))
    }

    pub(crate) fn offer(&self, worker: WorkerId, outlet: &str, offered: bool) -> Result<Done, Fail> {
        let sql = if offered {
            "INSERT INTO offers (outlet, worker) VALUES (?1, ?2) ON CONFLICT DO NOTHING"
        } else {
            "DELETE FROM offers WHERE outlet = ?1 AND worker = ?2"
        };
        self.conn.prepare_cached(sql)?.execute((outlet, worker.0))?;
        Ok(Done::Nothing)
    }

    pub(crate) fn lease_outlet(&mut self, lease: &Lease, outlet: &str) -> Result<Done, Fail> {
        self.saw(lease.now);
        let found: Vec<i64> = {
            let mut select = self.conn.prepare_cached(
                "SELECT n FROM deliveries WHERE queue = 3 AND outlet = ?1 AND due <= ?2 ORDER BY due, n LIMIT ?3",
            )?;
            select.query_map((outlet, lease.now, lease.limit), |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        let mut bench = Bench { tx: self, lease, leased: Vec::new() };
        bench.take_all(found, Taken::Ready, false)?;
        Ok(Done::Leased(bench.leased))
    }

    /// Leased deliveries that nobody will settle any more wait again; the attempts that were begun count.
    fn take_back_abandoned(&self, now: StoreMillis) -> Result<(), Fail> {
        let ran_out: Vec<i64> = {
            let mut select = self.conn.prepare_cached("SELECT n FROM deliveries WHERE queue = 1 AND at <= ?1")?;
            select.query_map([now], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        for n in ran_out {
            self.give_back_one(n)?;
        }
        for worker in self.holders()? {
            if rows::gone(self.conn, self.core, worker, now)? {
                self.give_back(worker)?;
            }
        }
        Ok(())
    }

    fn give_back_one(&self, n: i64) -> Result<(), Fail> {
        let (endpoint, due, in_line) = self
            .conn
            .prepare_cached(
                "UPDATE deliveries SET queue = iif(outlet IS NULL, 0, 3), at = max(due, coalesce(outlet_until, due)),
                 state = 'retrying', attempts = attempts + 1, worker = NULL
                 WHERE n = ?1 RETURNING endpoint, due, outlet IS NULL",
            )?
            .query_row([n], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, bool>(2)?)))?;
        if in_line { self.wake_at(endpoint, due) } else { Ok(()) }
    }

    fn holders(&self) -> Result<Vec<WorkerId>, Fail> {
        let mut holders = self
            .conn
            .prepare_cached("SELECT DISTINCT worker FROM deliveries INDEXED BY deliveries_held WHERE queue = 1")?;
        let rows = holders.query_map([], |row| Ok(WorkerId(row.get::<_, Id>(0)?.0)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Puts one delivery into the worker's hands. A sealed route that does not open is damage that no attempt mends: the
    /// delivery dies instead of standing in the way of the others.
    fn take(
        &self,
        n: i64,
        lease: &Lease,
        taken: Taken,
        suspect: bool,
        batch: Option<i64>,
    ) -> Result<Option<Delivery>, Fail> {
        let mut delivery = self
            .conn
            .prepare_cached(&format!("SELECT {COLUMNS} FROM deliveries WHERE n = ?1"))?
            .query_row([n], |row| {
                Ok(Delivery {
                    new: without_contents(row)?,
                    attempts: rows::small(row, 10)?,
                    token: rows::count(row, 11)? + 1,
                    taken,
                    suspect,
                    batch: batch.map(i64::cast_unsigned),
                })
            })?;
        self.conn
            .prepare_cached(
                "UPDATE deliveries SET queue = 1, at = ?2, state = 'leased', token = token + 1, worker = ?3 WHERE n = ?1",
            )?
            .execute((n, lease.until, lease.worker.0))?;
        let whole = contents(self.conn, self.core, n, &mut delivery.new)?;
        let delivery = whole.then_some(delivery);
        if delivery.is_none() {
            self.finish(n, DeliveryState::Dead, false, Some(UNREADABLE), lease.now)?;
        }
        Ok(delivery)
    }

    pub(crate) fn settle(&mut self, settle: &Settle) -> Result<Done, Fail> {
        self.saw(settle.at);
        let held = self
            .conn
            .prepare_cached("SELECT n, token FROM deliveries WHERE uid = ?1 AND queue = 1")?
            .query_row([settle.id.0], |row| Ok((row.get::<_, i64>(0)?, rows::count(row, 1)?)))
            .optional()?;
        let n = match held {
            Some((n, token)) if token == settle.token => n,
            _ => return Err(Refused::LostLease.into()),
        };
        if settle.counts {
            self.conn
                .prepare_cached(
                    "INSERT INTO attempts (delivery, nth, at, error)
                     SELECT ?1, 1 + coalesce(max(nth), 0), ?2, ?3 FROM attempts WHERE delivery = ?1",
                )?
                .execute((n, settle.at, &settle.error))?;
        }
        if settle.state.is_final() {
            self.finish(n, settle.state, settle.counts, settle.error.as_deref(), settle.at)?;
        } else {
            // Anything that is not final means another attempt.
            let endpoint = self
                .conn
                .prepare_cached(
                    "UPDATE deliveries SET queue = iif(outlet IS NULL, 0, 3), at = max(?2, coalesce(outlet_until, ?2)), due = ?2,
                     state = 'retrying', attempts = attempts + ?3, last_error = ?4, worker = NULL
                     WHERE n = ?1 RETURNING endpoint",
                )?
                .query_row((n, settle.due, settle.counts, &settle.error), |row| row.get(0))?;
            self.wake(endpoint)?;
        }
        Ok(Done::Nothing)
    }

    fn finish(
        &self,
        n: i64,
        state: DeliveryState,
        counts: bool,
        error: Option<&str>,
        at: StoreMillis,
    ) -> Result<(), Fail> {
        let (endpoint, key): (i64, Option<String>) = self
            .conn
            .prepare_cached("SELECT endpoint, fifo FROM deliveries WHERE n = ?1")?
            .query_row([n], |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.conn
            .prepare_cached(
                "UPDATE deliveries SET queue = 2, at = ?2, state = ?3, attempts = attempts + ?4, last_error = ?5, worker = NULL
                 WHERE n = ?1",
            )?
            .execute((n, at, state.as_str(), counts, error))?;
        if let Some(key) = key {
            self.next_of_key(endpoint, &key)?;
        }
        self.wake(endpoint)
    }

    /// Forgets a delivery with all that belongs to it.
    pub(crate) fn forget_delivery(&self, n: i64) -> Result<(), Fail> {
        self.conn.prepare_cached("DELETE FROM attempts WHERE delivery = ?1")?.execute([n])?;
        self.conn.prepare_cached("DELETE FROM delivery_contents WHERE n = ?1")?.execute([n])?;
        self.conn.prepare_cached("DELETE FROM deliveries WHERE n = ?1")?.execute([n])?;
        Ok(())
    }

    pub(crate) fn purge(&self, purge: &Purge) -> Result<Done, Fail> {
        let found: Vec<i64> = {
            let mut select = self.conn.prepare_cached(
                "SELECT n FROM deliveries WHERE queue = 2 AND uid = coalesce(?1, uid) AND principal = coalesce(?2, principal)
                     AND state = coalesce(?3, state) ORDER BY at, n LIMIT ?4",
            )?;
            let id = purge.id.map(|id| id.0);
            let state = purge.state.map(DeliveryState::as_str);
            select.query_map((id, &purge.principal, state, purge.limit), |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        found.iter().try_for_each(|n| self.forget_delivery(*n))?;
        Ok(Done::Purged(u32::try_from(found.len()).unwrap_or(u32::MAX)))
    }

    /// Lets the next delivery of a key come forward, unless one is there.
    fn next_of_key(&self, endpoint: i64, key: &str) -> Result<(), Fail> {
        let first: Option<(i64, Option<i64>)> = self
            .conn
            .prepare_cached(
                "SELECT n, batch FROM deliveries WHERE endpoint = ?1 AND fifo = ?2 AND queue <> 2 ORDER BY n LIMIT 1",
            )?
            .query_row((endpoint, key), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let forward =
            "UPDATE deliveries SET queue = iif(outlet IS NULL, 0, 3), at = max(due, coalesce(outlet_until, due))
             WHERE queue = 4 AND";
        match first {
            None => {}
            Some((n, None)) => {
                self.conn.prepare_cached(&format!("{forward} n = ?1"))?.execute([n])?;
            }
            Some((_, Some(batch))) => {
                self.conn.prepare_cached(&format!("{forward} batch = ?1 AND queue <> 2"))?.execute([batch])?;
            }
        }
        Ok(())
    }

    /// Ends the leases of a worker that leaves; the attempts it had begun count.
    pub(crate) fn give_back(&self, worker: WorkerId) -> Result<(), Fail> {
        let theirs: Vec<i64> = {
            let mut select = self.conn.prepare_cached(
                "SELECT n FROM deliveries INDEXED BY deliveries_held WHERE queue = 1 AND worker = ?1",
            )?;
            select.query_map([worker.0], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        theirs.into_iter().try_for_each(|n| self.give_back_one(n))
    }
}

/// One lease on its way.
struct Bench<'a, 'c> {
    tx: &'a mut Tx<'c>,
    lease: &'a Lease,
    leased: Vec<Delivery>,
}

impl Bench<'_, '_> {
    fn take_all(&mut self, rows: Vec<i64>, taken: Taken, suspect: bool) -> Result<u32, Fail> {
        let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        for n in rows {
            self.close_batch_of(n)?;
            self.leased.extend(self.tx.take(n, self.lease, taken, suspect, None)?);
        }
        Ok(count)
    }

    fn close_batch_of(&self, n: i64) -> Result<(), Fail> {
        let batch: Option<i64> = self
            .tx
            .conn
            .prepare_cached("SELECT batch FROM deliveries WHERE n = ?1")?
            .query_row([n], |row| row.get(0))?;
        batch.map_or(Ok(()), |batch| self.tx.close_batch(batch))
    }

    /// Takes what waits of one batch.
    fn take_batch(&mut self, batch: i64, suspect: bool) -> Result<(), Fail> {
        self.tx.close_batch(batch)?;
        let members: Vec<i64> = {
            let mut select = self
                .tx
                .conn
                .prepare_cached("SELECT n FROM deliveries WHERE batch = ?1 AND queue = 0 AND queue <> 2 ORDER BY n")?;
            select.query_map([batch], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        for n in members {
            self.leased.extend(self.tx.take(n, self.lease, Taken::Ready, suspect, Some(batch))?);
        }
        Ok(())
    }
}

impl Shelf for Bench<'_, '_> {
    type Error = Fail;
    type Place = i64;

    fn first_ready(&mut self, now: StoreMillis, suspects: bool) -> Result<Option<i64>, Fail> {
        self.tx.first_line(now, suspects)
    }

    fn line(&mut self, n: i64) -> Result<Line, Fail> {
        self.tx.read_line(n)
    }

    fn put_line(&mut self, n: i64, line: &Line) -> Result<(), Fail> {
        self.tx.write_line(n, line)
    }

    fn in_flight(&mut self, n: i64) -> Result<u32, Fail> {
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "SELECT count(*) FILTER (WHERE batch IS NULL) + count(DISTINCT batch) FROM deliveries
                 WHERE endpoint = ?1 AND queue = 1",
            )?
            .query_row([n], |row| rows::small(row, 0))?)
    }

    fn next_waiting(&mut self, n: i64) -> Result<Option<StoreMillis>, Fail> {
        self.tx.next_waiting_of(n)
    }

    fn take(&mut self, n: i64, due_by: StoreMillis, limit: u32, taken: Taken, suspect: bool) -> Result<u32, Fail> {
        let due: Vec<(i64, Option<i64>)> = {
            let mut select = self.tx.conn.prepare_cached(
                "SELECT n, batch FROM deliveries WHERE endpoint = ?1 AND queue = 0 AND at <= ?2 ORDER BY at, n LIMIT ?3",
            )?;
            select.query_map((n, due_by, limit), |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?
        };
        if taken != Taken::Ready {
            return self.take_all(due.into_iter().map(|(n, _)| n).collect(), taken, suspect);
        }
        let (mut count, mut together) = (0, BTreeSet::new());
        for (n, batch) in due {
            match batch {
                None => self.leased.extend(self.tx.take(n, self.lease, taken, suspect, None)?),
                Some(batch) if together.insert(batch) => self.take_batch(batch, suspect)?,
                Some(_) => continue,
            }
            count += 1;
        }
        Ok(count)
    }

    fn take_let_go(&mut self, now: StoreMillis, limit: u32) -> Result<u32, Fail> {
        let free: Vec<i64> = {
            let mut select = self
                .tx
                .conn
                .prepare_cached("SELECT n FROM deliveries WHERE queue = 3 AND at <= ?1 ORDER BY at, n LIMIT ?2")?;
            select.query_map((now, limit), |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        self.take_all(free, Taken::Ready, false)
    }

    fn take_late(&mut self, now: StoreMillis, limit: u32) -> Result<u32, Fail> {
        let late: Vec<i64> = {
            let mut select = self.tx.conn.prepare_cached(
                "SELECT n FROM deliveries INDEXED BY deliveries_late WHERE queue IN (0, 4) AND wait_until <= ?1
                 ORDER BY wait_until, n LIMIT ?2",
            )?;
            select.query_map((now, limit), |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        self.take_all(late, Taken::Late, false)
    }

    fn host(&mut self, host: &str) -> Result<HostRow, Fail> {
        self.tx.host_row(host)
    }

    fn put_host(&mut self, host: &str, row: HostRow) -> Result<(), Fail> {
        self.tx.write_host(host, row)
    }

    fn share(&mut self, host: &str, principal: &str) -> Result<i64, Fail> {
        self.tx.host_share(host, principal)
    }

    fn put_share(&mut self, host: &str, principal: &str, tag: i64) -> Result<(), Fail> {
        self.tx.write_share(host, principal, tag)
    }
}
