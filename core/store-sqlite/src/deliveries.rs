//! Deliveries: enqueued, leased, settled. `queue` is 0 while one waits, 1 in a worker's hands, 2 when it is finished, 3 while
//! it waits for its outlet (then `at` is when any worker may take it all the same).

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use tidings_proto::time::StoreMillis;
use tidings_store::{
    Delivery, DeliveryId, DeliveryState, Done, Lease, NewDelivery, Outlet, Refused, Sealed, Settle, WorkerId,
};

use crate::error::Fail;
use crate::rows::{self, Id, subject_columns};
use crate::seal::Field;
use crate::writer::Tx;

/// What an operator is told of a delivery whose sealed route no longer opens.
const UNREADABLE: &str = "unreadable";

/// A delivery that may be leased.
struct Candidate {
    due: StoreMillis,
    n: i64,
    /// A worker that is gone, or whose lease ran out, had it: its attempt counts as begun.
    begun: bool,
}

impl Tx<'_> {
    pub(crate) fn enqueue(&mut self, new: &NewDelivery) -> Result<Done, Fail> {
        self.saw(new.created_at);
        let route = self.core.sealer.seal(&new.route.0, Field::DeliveryRoute, &new.id.0)?;
        let fallback = self.core.sealer.seal(&new.fallback.0, Field::DeliveryFallback, &new.id.0)?;
        let subject = subject_columns(&new.subject);
        let made = self
            .conn
            .prepare_cached(
                "INSERT INTO deliveries (uid, queue, at, state, due, deadline, created_at, attempts, token, subject_kind, subject,
                     event_id, principal, trigger_name, route_id, outlet, outlet_until)
                 VALUES (?1, iif(?11 IS NULL, 0, 3), max(?2, coalesce(?12, ?2)), 'pending', ?2, ?3, ?4, 0, 0, ?5, ?6, ?7, ?8, ?9, ?10,
                     ?11, ?12)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                new.id.0,
                new.due,
                new.deadline,
                new.created_at,
                subject.kind,
                subject.value,
                new.event_id,
                new.principal,
                new.trigger,
                new.route_id,
                new.outlet.as_ref().map(|outlet| &outlet.name),
                new.outlet.as_ref().map(|outlet| outlet.until),
            ])?;
        if made == 0 {
            return Err(Refused::Exists.into());
        }
        self.conn
            .prepare_cached(
                "INSERT INTO delivery_contents (n, route, fallback, route_start, route_end, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                self.conn.last_insert_rowid(),
                route,
                fallback,
                new.route_at.0,
                new.route_at.1,
                &new.body[..]
            ])?;
        Ok(Done::Nothing)
    }

    pub(crate) fn lease(&mut self, lease: &Lease) -> Result<Done, Fail> {
        self.saw(lease.now);
        self.rebind(lease.now)?;
        let mut found = self.waiting(lease)?;
        found.extend(self.abandoned(lease)?);
        found.sort_by_key(|candidate| (candidate.due, candidate.n));
        found.dedup_by_key(|candidate| candidate.n);
        found.truncate(lease.limit as usize);
        self.take_all(found, lease)
    }

    pub(crate) fn lease_outlet(&mut self, lease: &Lease, outlet: &str) -> Result<Done, Fail> {
        self.saw(lease.now);
        let found = self
            .conn
            .prepare_cached(
                "SELECT due, n FROM deliveries WHERE queue = 3 AND outlet = ?1 AND due <= ?2 ORDER BY due, n LIMIT ?3",
            )?
            .query_map((outlet, lease.now, lease.limit), |row| {
                Ok(Candidate { due: row.get(0)?, n: row.get(1)?, begun: false })
            })?
            .collect::<Result<_, _>>()?;
        self.take_all(found, lease)
    }

    /// Those of an outlet whose worker does not settle them any more wait for the outlet again; their attempts count.
    fn rebind(&self, now: StoreMillis) -> Result<(), Fail> {
        const AGAIN: &str = "UPDATE deliveries SET queue = 3, at = max(due, outlet_until), state = 'retrying',
            attempts = attempts + 1, worker = NULL WHERE queue = 1 AND outlet_until > ?1";
        self.conn.prepare_cached(&format!("{AGAIN} AND at <= ?1"))?.execute([now])?;
        for worker in self.holders()? {
            if rows::gone(self.conn, self.core, worker, now)? {
                self.conn.prepare_cached(&format!("{AGAIN} AND worker = ?2"))?.execute((now, worker.0))?;
            }
        }
        Ok(())
    }

    fn take_all(&self, found: Vec<Candidate>, lease: &Lease) -> Result<Done, Fail> {
        let mut leased = Vec::with_capacity(found.len());
        for candidate in found {
            leased.extend(self.take(&candidate, lease)?);
        }
        Ok(Done::Leased(leased))
    }

    fn waiting(&self, lease: &Lease) -> Result<Vec<Candidate>, Fail> {
        let mut due = self
            .conn
            .prepare_cached("SELECT at, n FROM deliveries WHERE queue = ?3 AND at <= ?1 ORDER BY at, n LIMIT ?2")?;
        let mut found = Vec::new();
        for queue in [0, 3] {
            let rows = due.query_map((lease.now, lease.limit, queue), |row| {
                Ok(Candidate { due: row.get(0)?, n: row.get(1)?, begun: false })
            })?;
            for candidate in rows {
                found.push(candidate?);
            }
        }
        Ok(found)
    }

    /// Leased deliveries that nobody will settle any more. They count by their own due time, like the others.
    fn abandoned(&self, lease: &Lease) -> Result<Vec<Candidate>, Fail> {
        let begun = |row: &rusqlite::Row<'_>| Ok(Candidate { due: row.get(0)?, n: row.get(1)?, begun: true });
        let mut ran_out = self
            .conn
            .prepare_cached("SELECT due, n FROM deliveries WHERE queue = 1 AND at <= ?1 ORDER BY due, n LIMIT ?2")?;
        let mut found: Vec<_> = ran_out.query_map((lease.now, lease.limit), begun)?.collect::<Result<_, _>>()?;
        for worker in self.holders()? {
            if rows::gone(self.conn, self.core, worker, lease.now)? {
                let mut theirs = self.conn.prepare_cached(
                    "SELECT due, n FROM deliveries WHERE queue = 1 AND worker = ?1 ORDER BY due, n LIMIT ?2",
                )?;
                for candidate in theirs.query_map((worker.0, lease.limit), begun)? {
                    found.push(candidate?);
                }
            }
        }
        Ok(found)
    }

    fn holders(&self) -> Result<Vec<WorkerId>, Fail> {
        let mut holders = self.conn.prepare_cached("SELECT DISTINCT worker FROM deliveries WHERE queue = 1")?;
        let rows = holders.query_map([], |row| Ok(WorkerId(row.get::<_, Id>(0)?.0)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Puts one delivery into the worker's hands. A sealed route that does not open is damage that no attempt mends: the
    /// delivery dies instead of standing in the way of the others.
    fn take(&self, candidate: &Candidate, lease: &Lease) -> Result<Option<Delivery>, Fail> {
        let delivery = self
            .conn
            .prepare_cached(
                "UPDATE deliveries SET queue = 1, at = ?2, state = 'leased', token = token + 1, attempts = attempts + ?3, worker = ?4
                 WHERE n = ?1
                 RETURNING uid, event_id, subject_kind, subject, principal, trigger_name, route_id, due, deadline, created_at,
                     attempts, token, outlet, outlet_until",
            )?
            .query_row((candidate.n, lease.until, candidate.begun, lease.worker.0), |row| {
                Ok(Delivery {
                    new: NewDelivery {
                        id: DeliveryId(row.get::<_, Id>(0)?.0),
                        event_id: row.get(1)?,
                        subject: rows::subject(row, 2, 3)?,
                        principal: row.get(4)?,
                        trigger: row.get(5)?,
                        route_id: row.get(6)?,
                        route: Sealed::default(),
                        fallback: Sealed::default(),
                        body: Bytes::new(),
                        route_at: (0, 0),
                        due: row.get(7)?,
                        outlet: match (row.get(12)?, row.get(13)?) {
                            (Some(name), Some(until)) => Some(Outlet { name, until }),
                            _ => None,
                        },
                        deadline: row.get(8)?,
                        created_at: row.get(9)?,
                    },
                    attempts: rows::small(row, 10)?,
                    token: rows::count(row, 11)?,
                })
            })?;
        let delivery = self.with_contents(candidate.n, delivery)?;
        if delivery.is_none() {
            self.finish(candidate.n, DeliveryState::Dead, false, Some(UNREADABLE), lease.now)?;
        }
        Ok(delivery)
    }

    fn with_contents(&self, n: i64, mut delivery: Delivery) -> Result<Option<Delivery>, Fail> {
        let mut contents = self.conn.prepare_cached(
            "SELECT route, fallback, route_start, route_end, body FROM delivery_contents WHERE n = ?1",
        )?;
        let found = contents
            .query_row([n], |row| {
                let (route, fallback, body): (Vec<u8>, Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(4)?);
                Ok((route, fallback, (row.get(2)?, row.get(3)?), body))
            })
            .optional()?;
        let id = delivery.new.id;
        let Some((route, fallback, route_at, body)) = found else {
            tracing::error!(delivery = %id, "the delivery has lost its contents: it is dead");
            return Ok(None);
        };
        let route = self.core.sealer.open(&route, Field::DeliveryRoute, &id.0);
        let fallback = self.core.sealer.open(&fallback, Field::DeliveryFallback, &id.0);
        let (Ok(route), Ok(fallback)) = (route, fallback) else {
            tracing::error!(delivery = %id, "the delivery's sealed route does not open: damaged or replaced, it is dead");
            return Ok(None);
        };
        delivery.new.route = Sealed(route);
        delivery.new.fallback = Sealed(fallback);
        delivery.new.route_at = route_at;
        delivery.new.body = body.into();
        Ok(Some(delivery))
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
        if settle.state.is_final() {
            self.finish(n, settle.state, settle.counts, settle.error.as_deref(), settle.at)?;
        } else {
            // Anything that is not final means another attempt.
            self.conn
                .prepare_cached(
                    "UPDATE deliveries SET queue = iif(outlet IS NULL, 0, 3), at = max(?2, coalesce(outlet_until, ?2)), due = ?2, state = 'retrying', attempts = attempts + ?3,
                     last_error = ?4, worker = NULL WHERE n = ?1",
                )?
                .execute((n, settle.due, settle.counts, &settle.error))?;
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
        self.conn
            .prepare_cached(
                "UPDATE deliveries SET queue = 2, at = ?2, state = ?3, attempts = attempts + ?4,
                 last_error = ?5, worker = NULL WHERE n = ?1",
            )?
            .execute((n, at, state.as_str(), counts, error))?;
        Ok(())
    }

    /// Ends the leases of a worker that leaves; the attempts it had begun count.
    pub(crate) fn give_back(&self, worker: WorkerId) -> Result<(), Fail> {
        self.conn
            .prepare_cached(
                "UPDATE deliveries SET queue = iif(outlet IS NULL, 0, 3), at = max(due, coalesce(outlet_until, due)), state = 'retrying', attempts = attempts + 1, worker = NULL
                 WHERE queue = 1 AND worker = ?1",
            )?
            .execute([worker.0])?;
        Ok(())
    }
}
