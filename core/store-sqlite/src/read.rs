//! Reading: a few connections, each read one snapshot, none of them in the writer's way.

use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension};
use tidings_proto::stream::StreamId;
use tidings_proto::time::StoreMillis;
use tidings_store::{
    CallId, CallRecord, Chunk, DeliveryState, DeliverySummary, DueTimer, Page, ReadLimits, StreamInfo, Subject,
    TimerKind, WorkerId,
};

use crate::connection::Role;
use crate::error::Fail;
use crate::rows::{self, CALL, Id, SUMMARY, StreamRow, count, int, subject_columns};
use crate::{Core, endpoints, lock};

/// Idle connections that are kept.
const KEPT: usize = 4;

/// Connections for reading that nobody uses at the moment.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Runs `look` in one read transaction.
    pub(crate) fn snapshot<T>(
        &self,
        core: &Core,
        look: impl FnOnce(&Connection) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let idle = lock(&self.idle).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => core.connect(Role::Read)?,
        };
        conn.prepare_cached("BEGIN")?.execute([])?;
        let found = look(&conn);
        let ended = conn.prepare_cached("COMMIT").and_then(|mut end| end.execute([]));
        // A connection that failed is not used again: its state is in doubt.
        if !matches!(found, Err(Fail::Sql(_))) && ended.is_ok() && core.check_open().is_ok() {
            let mut idle = lock(&self.idle);
            if idle.len() < KEPT {
                idle.push(conn);
            }
        }
        found
    }

    pub(crate) fn any(&self) -> bool {
        self.idle.try_lock().map_or(true, |idle| !idle.is_empty())
    }

    pub(crate) fn close(&self) {
        lock(&self.idle).clear();
    }
}

pub(crate) fn info(conn: &Connection, core: &Core, row: Option<StreamRow>) -> Result<Option<StreamInfo>, Fail> {
    Ok(row.map(|row| rows::stream_info(conn, core, row)).transpose()?)
}

pub(crate) fn next_claim_first(conn: &Connection, id: StreamId, claim: u32) -> Result<Option<u64>, Fail> {
    let Some(row) = rows::stream_by_id(conn, id)? else { return Ok(None) };
    if claim == 0 {
        return Ok(Some(0)); // Claim 1 has no row of its own.
    }
    Ok(conn
        .prepare_cached("SELECT first_seq FROM claims WHERE stream = ?1 AND claim > ?2 ORDER BY claim LIMIT 1")?
        .query_row((row.n, claim), |row| count(row, 0))
        .optional()?)
}

pub(crate) fn page(
    conn: &Connection,
    core: &Core,
    stream: Option<StreamRow>,
    from: u64,
    limits: ReadLimits,
) -> Result<Option<Page>, Fail> {
    let Some(row) = stream else { return Ok(None) };
    let from = from.max(row.earliest);
    let mut chunks = Vec::new();
    if from < row.next_seq {
        let mut select = conn.prepare_cached(
            "SELECT first_seq, count, last_time, data, crc FROM chunks
             WHERE stream = ?1
               AND first_seq >= (SELECT max(first_seq) FROM chunks WHERE stream = ?1 AND first_seq <= ?2)
             ORDER BY first_seq",
        )?;
        let mut found = select.query((row.n, int(from)))?;
        let (mut events, mut bytes) = (0, 0);
        while events < u64::from(limits.events.max(1)) && bytes < limits.bytes.max(1) {
            let Some(next) = found.next()? else { break };
            let chunk = match rows::chunk(next, row.id) {
                Some(chunk) => chunk,
                None => in_place_of_damage(conn, &row, count(next, 0)?)?,
            };
            let rest = chunk.rest(from);
            events += rest.0;
            bytes += rest.1;
            chunks.push(chunk);
        }
    }
    Ok(Some(Page { chunks, info: rows::stream_info(conn, core, row)? }))
}

/// A tombstone over the events of a damaged chunk. How many they were is taken from what comes after them.
fn in_place_of_damage(conn: &Connection, stream: &StreamRow, first_seq: u64) -> Result<Chunk, Fail> {
    let after: Option<i64> = conn
        .prepare_cached("SELECT min(first_seq) FROM chunks WHERE stream = ?1 AND first_seq > ?2")?
        .query_row((stream.n, int(first_seq)), |row| row.get(0))?;
    let end = after.map_or(stream.next_seq, i64::cast_unsigned);
    tracing::error!(stream = %stream.id, first = first_seq, end, "stored events are damaged: readers are told that they are lost");
    let events = u32::try_from(end.saturating_sub(first_seq)).unwrap_or(u32::MAX);
    Ok(Chunk::lost(first_seq, events, 0))
}

pub(crate) fn call(conn: &Connection, core: &Core, id: CallId) -> Result<Option<CallRecord>, Fail> {
    let found = conn
        .prepare_cached(&format!("SELECT {CALL} FROM calls WHERE uid = ?1"))?
        .query_row([id.to_bytes()], rows::call)
        .optional()?;
    Ok(found.map(|record| rows::open_call(core, record)).transpose()?)
}

pub(crate) fn lost_calls(
    conn: &Connection,
    core: &Core,
    now: StoreMillis,
    limit: u32,
) -> Result<Vec<CallRecord>, Fail> {
    let mut lost = Vec::new();
    for worker in workers(conn, "SELECT DISTINCT worker FROM calls WHERE status IS NULL")? {
        let left = limit.saturating_sub(u32::try_from(lost.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        if !rows::gone(conn, core, worker, now)? {
            continue;
        }
        let mut theirs = conn.prepare_cached(&format!(
            "SELECT {CALL} FROM calls WHERE status IS NULL AND worker = ?1 ORDER BY n LIMIT ?2"
        ))?;
        for record in theirs.query_map((worker.0, left), rows::call)? {
            let record = record?;
            let id = record.id;
            match rows::open_call(core, record) {
                Ok(record) => lost.push(record),
                // One damaged row must not keep all other lost calls waiting.
                Err(error) => tracing::error!(call = %id, %error, "a lost call cannot be ended"),
            }
        }
    }
    Ok(lost)
}

fn workers(conn: &Connection, sql: &str) -> Result<Vec<WorkerId>, Fail> {
    let mut select = conn.prepare_cached(sql)?;
    let found = select.query_map([], |row| Ok(WorkerId(row.get::<_, Id>(0)?.0)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(crate) fn due_timers(conn: &Connection, now: StoreMillis, limit: u32) -> Result<Vec<DueTimer>, Fail> {
    let mut select = conn.prepare_cached(
        "SELECT calls.uid, timers.kind, timers.due FROM timers JOIN calls ON calls.n = timers.call
         WHERE timers.due <= ?1 ORDER BY timers.due, timers.call LIMIT ?2",
    )?;
    let mut due = Vec::new();
    let mut found = select.query((now, limit))?;
    while let Some(row) = found.next()? {
        // A kind this library does not know belongs to a newer one, which will see to it.
        if let Some(kind) = TimerKind::parse(&row.get::<_, String>(1)?) {
            due.push(DueTimer { call: CallId::from_bytes(row.get::<_, Id>(0)?.0), kind, due: row.get(2)? });
        }
    }
    Ok(due)
}

pub(crate) fn next_due(conn: &Connection) -> Result<Option<StoreMillis>, Fail> {
    let first = |sql: &str| conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, Option<StoreMillis>>(0));
    let timer = first("SELECT min(due) FROM timers")?;
    let aggregate = first("SELECT min(due) FROM aggregates WHERE ended = 0")?;
    Ok([timer, aggregate, endpoints::next_due(conn)?].into_iter().flatten().min())
}

/// Whether a worker that lives offers it.
pub(crate) fn offered(conn: &Connection, core: &Core, outlet: &str, now: StoreMillis) -> Result<bool, Fail> {
    let mut offers = conn.prepare_cached("SELECT worker FROM offers WHERE outlet = ?1")?;
    for worker in offers.query_map([outlet], |row| Ok(WorkerId(row.get::<_, Id>(0)?.0)))? {
        if !rows::gone(conn, core, worker?, now)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One step of the index for each outlet, however much waits there.
pub(crate) fn waiting_outlets(conn: &Connection) -> Result<Vec<(String, StoreMillis)>, Fail> {
    let mut first = conn.prepare_cached(
        "SELECT outlet, due FROM deliveries INDEXED BY deliveries_outlet WHERE queue = 3 AND outlet > ?1 ORDER BY outlet, due LIMIT 1",
    )?;
    let mut found: Vec<(String, StoreMillis)> = Vec::new();
    loop {
        let last = found.last().map_or("", |(name, _)| name.as_str());
        match first.query_row([last], |row| Ok((row.get(0)?, row.get(1)?))).optional()? {
            Some(next) => found.push(next),
            None => return Ok(found),
        }
    }
}

pub(crate) fn deliveries(
    conn: &Connection,
    principal: Option<&str>,
    subject: Option<&Subject>,
    state: Option<DeliveryState>,
    limit: u32,
) -> Result<Vec<DeliverySummary>, Fail> {
    let state = state.map(DeliveryState::as_str);
    let found: Result<Vec<_>, _> = match (subject.map(subject_columns), principal) {
        (Some(subject), _) => conn
            .prepare_cached(&format!(
                "SELECT {SUMMARY} FROM deliveries WHERE subject_kind = ?1 AND subject = ?2
                     AND state = coalesce(?3, state) AND principal = coalesce(?4, principal)
                 ORDER BY created_at, n LIMIT ?5"
            ))?
            .query_map((subject.kind, subject.value, state, principal, limit), rows::summary)?
            .collect(),
        (None, Some(principal)) => conn
            .prepare_cached(&format!(
                "SELECT {SUMMARY} FROM deliveries WHERE principal = ?1 AND state = coalesce(?2, state)
                 ORDER BY created_at, n LIMIT ?3"
            ))?
            .query_map((principal, state, limit), rows::summary)?
            .collect(),
        (None, None) => conn
            .prepare_cached(&format!(
                "SELECT {SUMMARY} FROM deliveries WHERE state = coalesce(?1, state) ORDER BY created_at, n LIMIT ?2"
            ))?
            .query_map((state, limit), rows::summary)?
            .collect(),
    };
    Ok(found?)
}
