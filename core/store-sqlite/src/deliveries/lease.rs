//! Leases: what may go is put into a worker's hands, and taken out of those of workers that are gone.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tidings_proto::time::StoreMillis;
use tidings_store::flow::{self, HostRow, InFlight, Line, Shelf};
use tidings_store::{Delivery, DeliveryState, Done, Lease, Taken, WorkerId};

use super::settle::Held;
use super::{Read, delivery, select};
use crate::error::Fail;
use crate::rows::{self, Id};
use crate::writer::Tx;

/// What an operator is told of a delivery whose sealed route no longer opens.
const UNREADABLE: &str = "unreadable";

impl Tx<'_> {
    pub(crate) fn lease(&mut self, lease: &Lease) -> Result<Done, Fail> {
        self.saw(lease.now);
        if lease.limit == 0 {
            return Ok(Done::Leased(Vec::new()));
        }
        self.wake_woken()?;
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
        let held: Vec<(i64, WorkerId, StoreMillis)> = {
            let mut select = self
                .conn
                .prepare_cached("SELECT n, worker, at FROM deliveries INDEXED BY deliveries_leased WHERE queue = 1")?;
            let rows = select.query_map([], |row| Ok((row.get(0)?, WorkerId(row.get::<_, Id>(1)?.0), row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut gone = BTreeMap::new();
        for (n, worker, until) in held {
            let abandoned = until <= now
                || match gone.entry(worker) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(place) => *place.insert(rows::gone(self.conn, self.core, worker, now)?),
                };
            if abandoned {
                self.give_back_one(n)?;
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

    /// Puts one delivery into the worker's hands. A sealed route that does not open is damage that no attempt mends: the
    /// delivery dies instead of standing in the way of the others.
    fn take(
        &mut self,
        n: i64,
        lease: &Lease,
        taken: Taken,
        suspect: bool,
        batch: Option<i64>,
    ) -> Result<Option<Delivery>, Fail> {
        let found =
            self.conn.prepare_cached(select!("deliveries.n = ?1"))?.query_row([n], |row| delivery(row, self.core))?;
        let token = found.token + 1;
        self.conn
            .prepare_cached(
                "UPDATE deliveries SET queue = 1, at = ?2, state = 'leased', token = ?4, worker = ?3 WHERE n = ?1",
            )?
            .execute((n, lease.until, lease.worker.0, token.cast_signed()))?;
        let Read { endpoint, attempts, new, whole, .. } = found;
        if !whole {
            let held = Held { n, endpoint, fifo: new.fifo_key };
            self.finish(held, DeliveryState::Dead, false, Some(UNREADABLE), lease.now)?;
            return Ok(None);
        }
        Ok(Some(Delivery { new, attempts, token, taken, suspect, batch: batch.map(i64::cast_unsigned) }))
    }

    /// Ends the leases of a worker that leaves; the attempts it had begun count.
    pub(crate) fn give_back(&self, worker: WorkerId) -> Result<(), Fail> {
        let theirs: Vec<i64> = {
            let mut select = self.conn.prepare_cached(
                "SELECT n FROM deliveries INDEXED BY deliveries_leased WHERE queue = 1 AND worker = ?1",
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
                .prepare_cached("SELECT n FROM deliveries WHERE batch = ?1 AND queue = 0 AND over = 0 ORDER BY n")?;
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

    fn in_flight(&mut self, n: i64) -> Result<InFlight, Fail> {
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "SELECT count(*) FILTER (WHERE batch IS NULL) + count(DISTINCT batch), min(at)
                 FROM deliveries INDEXED BY deliveries_leased WHERE endpoint = ?1 AND queue = 1",
            )?
            .query_row([n], |row| Ok(InFlight { count: rows::small(row, 0)?, until: row.get(1)? }))?)
    }

    fn next_waiting(&mut self, n: i64) -> Result<Option<StoreMillis>, Fail> {
        self.tx.next_waiting_of(n)
    }

    fn take(&mut self, n: i64, due_by: StoreMillis, limit: u32, taken: Taken, suspect: bool) -> Result<u32, Fail> {
        let due: Vec<(i64, Option<i64>)> = {
            let mut select = self.tx.conn.prepare_cached(
                "SELECT n, batch FROM deliveries INDEXED BY deliveries_waiting WHERE endpoint = ?1 AND queue = 0 AND at <= ?2
                 ORDER BY at, n LIMIT ?3",
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
