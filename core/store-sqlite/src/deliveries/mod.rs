//! Deliveries: enqueued, leased, settled. `queue` is 0 while one waits, 1 in a worker's hands, 2 when it is finished, 3
//! while it waits for its outlet (then `at` is when any worker may take it all the same), 4 while it waits behind another one
//! of its key. `over` is whether it is finished, once more: an index whose condition names `queue` is written by every lease,
//! also where its entry stays as it is.
//!
//! What every delivery goes through is read and then updated, without `RETURNING`: with it SQLite runs the update as one
//! that may have to be taken back alone, and copies each page that it changes.

mod enqueue;
mod lease;
mod settle;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row};
use tidings_proto::delivery::EndpointKey;
use tidings_store::{AttemptRecord, DeliveryId, NewDelivery, Outlet, Sealed};

use crate::Core;
use crate::error::Fail;
use crate::rows::{self, Id};
use crate::seal::Field;
use crate::sum;

/// Reads what [`delivery`] takes, where the condition holds.
macro_rules! select {
    ($where:literal) => {
        concat!(
            "SELECT deliveries.n, uid, event_id, subject_kind, subject, principal, trigger_name, route_id, due, deadline,
                 created_at, attempts, token, fifo, wait_until, endpoint, (SELECT uid FROM endpoints WHERE n = endpoint), outlet,
                 outlet_until, seq, route, fallback, route_start, route_end, body, whole, body_crc
             FROM deliveries LEFT JOIN delivery_contents USING (n) WHERE ",
            $where
        )
    };
}
use select;

/// A delivery as it was read.
struct Read {
    /// `endpoints.n`.
    endpoint: i64,
    attempts: u32,
    /// That of its last lease.
    token: u64,
    new: NewDelivery,
    /// What it carries is there and opens. Else only its row can be trusted.
    whole: bool,
}

/// A row of [`select`].
fn delivery(row: &Row<'_>, core: &Core) -> rusqlite::Result<Read> {
    let endpoint: Option<[u8; 32]> = row.get(16)?;
    let mut new = NewDelivery {
        id: DeliveryId(row.get::<_, Id>(1)?.0),
        event_id: row.get(2)?,
        subject: rows::subject(row, 3, 4)?,
        principal: row.get(5)?,
        trigger: row.get(6)?,
        route_id: row.get(7)?,
        route: Sealed::default(),
        fallback: Sealed::default(),
        body: Bytes::new(),
        whole: Sealed::default(),
        route_at: (0, 0),
        due: row.get(8)?,
        outlet: match (row.get(17)?, row.get(18)?) {
            (Some(name), Some(until)) => Some(Outlet { name, until }),
            _ => None,
        },
        deadline: row.get(9)?,
        created_at: row.get(10)?,
        endpoint: EndpointKey(endpoint.unwrap_or_default()),
        fifo_key: row.get(13)?,
        wait_until: row.get(14)?,
        seq: row.get::<_, Option<i64>>(19)?.map(i64::cast_unsigned),
        batch: None,
    };
    let (n, attempts, token, endpoint) = (row.get(0)?, rows::small(row, 11)?, rows::count(row, 12)?, row.get(15)?);
    let whole = contents(row, core, n, &mut new)?;
    Ok(Read { endpoint, attempts, token, new, whole })
}

/// Reads what a delivery carries. `false`: it is lost, damaged or does not open.
fn contents(row: &Row<'_>, core: &Core, n: i64, new: &mut NewDelivery) -> rusqlite::Result<bool> {
    let id = new.id;
    let Some(route) = row.get_ref(20)?.as_blob_or_null()? else {
        tracing::error!(delivery = %id, "the delivery has lost its contents: it is dead");
        return Ok(false);
    };
    let (fallback, body) = (row.get_ref(21)?.as_blob()?, row.get_ref(24)?.as_blob()?);
    let whole = row.get_ref(25)?.as_blob_or_null()?.unwrap_or_default();
    let route_at = (row.get(22)?, row.get(23)?);
    if sum::differs(row, 26, || sum::of_body(n, route_at, body))? {
        tracing::error!(delivery = %id, "the delivery's body is damaged: it is dead");
        return Ok(false);
    }
    let open = |sealed: &[u8], field| match sealed.is_empty() {
        true => Ok(Sealed::default()),
        false => core.sealer.open(sealed, field, &id.0).map(Sealed),
    };
    let route = core.sealer.open(route, Field::DeliveryRoute, &id.0).map(Sealed);
    let (fallback, whole) = (open(fallback, Field::DeliveryFallback), open(whole, Field::DeliveryWhole));
    let (Ok(route), Ok(fallback), Ok(whole)) = (route, fallback, whole) else {
        tracing::error!(delivery = %id, "the delivery's sealed route does not open: damaged or replaced, it is dead");
        return Ok(false);
    };
    (new.route, new.fallback, new.whole) = (route, fallback, whole);
    (new.route_at, new.body) = (route_at, Bytes::copy_from_slice(body));
    Ok(true)
}

/// What was enqueued as that delivery, whatever became of it.
pub(crate) fn stored(conn: &Connection, core: &Core, id: DeliveryId) -> Result<Option<NewDelivery>, Fail> {
    let found = conn.prepare_cached(select!("uid = ?1"))?.query_row([id.0], |row| delivery(row, core)).optional()?;
    Ok(found.filter(|read| read.whole).map(|read| read.new))
}

/// The attempts of a delivery that were settled, in order.
pub(crate) fn attempts(conn: &Connection, id: DeliveryId) -> Result<Vec<AttemptRecord>, Fail> {
    let mut select = conn.prepare_cached(
        "SELECT attempts.at, error FROM attempts JOIN deliveries ON deliveries.n = attempts.delivery WHERE uid = ?1 ORDER BY nth",
    )?;
    let rows = select.query_map([id.0], |row| Ok(AttemptRecord { at: row.get(0)?, error: row.get(1)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
