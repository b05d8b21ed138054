//! The end of a lease: waiting again or finished, and what comes forward then.

use rusqlite::OptionalExtension;
use tidings_proto::time::StoreMillis;
use tidings_store::{DeliveryState, Done, Purge, Refused, Settle};

use crate::error::Fail;
use crate::rows;
use crate::writer::Tx;

/// A delivery that is in a worker's hands.
pub(super) struct Held {
    pub(super) n: i64,
    /// `endpoints.n`.
    pub(super) endpoint: i64,
    pub(super) fifo: Option<String>,
}

impl Tx<'_> {
    pub(crate) fn settle(&mut self, settle: &Settle) -> Result<Done, Fail> {
        self.saw(settle.at);
        let found = self
            .conn
            .prepare_cached("SELECT n, endpoint, fifo, token FROM deliveries WHERE uid = ?1 AND queue = 1")?
            .query_row([settle.id.0], |row| {
                Ok((Held { n: row.get(0)?, endpoint: row.get(1)?, fifo: row.get(2)? }, rows::count(row, 3)?))
            })
            .optional()?;
        let held = match found {
            Some((held, token)) if token == settle.token => held,
            _ => return Err(Refused::LostLease.into()),
        };
        if settle.counts {
            self.conn
                .prepare_cached(
                    "INSERT INTO attempts (delivery, nth, at, error)
                     SELECT ?1, 1 + coalesce(max(nth), 0), ?2, ?3 FROM attempts WHERE delivery = ?1",
                )?
                .execute((held.n, settle.at, &settle.error))?;
        }
        if settle.state.is_final() {
            self.finish(held, settle.state, settle.counts, settle.error.as_deref(), settle.at)?;
        } else {
            // Anything that is not final means another attempt.
            self.conn
                .prepare_cached(
                    "UPDATE deliveries SET queue = iif(outlet IS NULL, 0, 3), at = max(?2, coalesce(outlet_until, ?2)), due = ?2,
                     state = 'retrying', attempts = attempts + ?3, last_error = ?4, worker = NULL
                     WHERE n = ?1",
                )?
                .execute((held.n, settle.due, settle.counts, &settle.error))?;
            self.wake_later(held.endpoint);
        }
        Ok(Done::Nothing)
    }

    pub(super) fn finish(
        &mut self,
        held: Held,
        state: DeliveryState,
        counts: bool,
        error: Option<&str>,
        at: StoreMillis,
    ) -> Result<(), Fail> {
        // While its row says so: what is finished is taken off the count once.
        for count in [
            "UPDATE unfinished SET count = count - 1 WHERE principal = (SELECT principal FROM deliveries WHERE n = ?1 AND over = 0)",
            "DELETE FROM unfinished WHERE principal = (SELECT principal FROM deliveries WHERE n = ?1) AND count <= 0",
        ] {
            self.conn.prepare_cached(count)?.execute([held.n])?;
        }
        self.conn
            .prepare_cached(
                "UPDATE deliveries SET queue = 2, over = 1, at = ?2, state = ?3, attempts = attempts + ?4, last_error = ?5,
                     worker = NULL WHERE n = ?1",
            )?
            .execute((held.n, at, state.as_str(), counts, error))?;
        if let Some(key) = held.fifo {
            self.next_of_key(held.endpoint, &key)?;
        }
        self.wake_later(held.endpoint);
        Ok(())
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
                "SELECT n FROM deliveries INDEXED BY deliveries_finished WHERE queue = 2 AND uid = coalesce(?1, uid) AND principal = coalesce(?2, principal)
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
                "SELECT n, batch FROM deliveries WHERE endpoint = ?1 AND fifo = ?2 AND over = 0 ORDER BY n LIMIT 1",
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
                self.conn.prepare_cached(&format!("{forward} batch = ?1 AND over = 0"))?.execute([batch])?;
            }
        }
        Ok(())
    }
}
