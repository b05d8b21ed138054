//! How records stand in rows.

use bytes::Bytes;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, named_params};
use tidings_proto::stream::StreamId;
use tidings_proto::time::StoreMillis;
use tidings_store::{
    CallId, CallOutcome, CallRecord, Chunk, DeliveryState, DeliverySummary, Sealed, StoreError, StreamInfo, StreamKey,
    Subject, TaskRecord, TaskTerms, WorkerId,
};

use crate::Core;
use crate::error::{Fail, corrupt};
use crate::seal::Field;
use crate::sum;
use crate::workers::Lock;

/// A value as SQLite keeps it. Numbers of ours that do not fit 63 bits do not occur: sequence numbers end at 2^53.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count that was stored by [`int`]; a negative one is damage.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// Same, for numbers of 32 bits.
pub(crate) fn small(row: &Row<'_>, column: usize) -> rusqlite::Result<u32> {
    row.get(column)
}

/// An id of 16 bytes.
pub(crate) struct Id(pub(crate) [u8; 16]);

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?;
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| FromSqlError::InvalidBlobSize { expected_size: 16, blob_size: bytes.len() })
    }
}

/// A delivery's state by its name.
pub(crate) struct State(pub(crate) DeliveryState);

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        DeliveryState::from_text(value.as_str()?).map(Self).ok_or(FromSqlError::InvalidType)
    }
}

/// A subject's two columns.
pub(crate) struct SubjectColumns<'a> {
    pub(crate) kind: i64,
    pub(crate) value: SubjectValue<'a>,
}

/// The second of them: the id of a call, or the name of a subscription.
pub(crate) enum SubjectValue<'a> {
    Call([u8; 16]),
    Subscription(&'a str),
}

impl ToSql for SubjectValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Call(id) => Ok(id.to_vec().into()),
            Self::Subscription(name) => name.to_sql(),
        }
    }
}

pub(crate) fn subject_columns(subject: &Subject) -> SubjectColumns<'_> {
    match subject {
        Subject::Call(id) => SubjectColumns { kind: 0, value: SubjectValue::Call(id.to_bytes()) },
        Subject::Subscription(name) => SubjectColumns { kind: 1, value: SubjectValue::Subscription(name) },
    }
}

pub(crate) fn subject(row: &Row<'_>, kind: usize, value: usize) -> rusqlite::Result<Subject> {
    Ok(match row.get::<_, i64>(kind)? {
        0 => Subject::Call(CallId::from_bytes(row.get::<_, Id>(value)?.0)),
        1 => Subject::Subscription(row.get(value)?),
        other => return Err(rusqlite::Error::IntegralValueOutOfRange(kind, other)),
    })
}

/// A row of `streams`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamRow {
    pub(crate) n: i64,
    pub(crate) next_seq: u64,
    pub(crate) bytes: u64,
    pub(crate) earliest: u64,
    pub(crate) epoch: u32,
    pub(crate) claim: u32,
    pub(crate) owned: bool,
    pub(crate) boot: Option<i64>,
    pub(crate) closed_at: Option<StoreMillis>,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) id: StreamId,
    pub(crate) key: StreamKey,
}

const STREAM_BY_KEY: &str =
    "SELECT n, next_seq, bytes, earliest, epoch, claim, owned, boot, closed_at, worker, uid, scope, name
    FROM streams WHERE scope = ?1 AND name = ?2";
const STREAM_BY_ID: &str =
    "SELECT n, next_seq, bytes, earliest, epoch, claim, owned, boot, closed_at, worker, uid, scope, name
    FROM streams WHERE uid = ?1";

pub(crate) fn stream_row(row: &Row<'_>) -> rusqlite::Result<StreamRow> {
    Ok(StreamRow {
        n: row.get(0)?,
        next_seq: count(row, 1)?,
        bytes: count(row, 2)?,
        earliest: count(row, 3)?,
        epoch: small(row, 4)?,
        claim: small(row, 5)?,
        owned: row.get(6)?,
        boot: row.get(7)?,
        closed_at: row.get(8)?,
        worker: row.get::<_, Option<Id>>(9)?.map(|id| WorkerId(id.0)),
        id: StreamId(row.get::<_, Id>(10)?.0),
        key: StreamKey { scope: row.get(11)?, name: row.get(12)? },
    })
}

pub(crate) fn stream_by_key(conn: &Connection, key: &StreamKey) -> rusqlite::Result<Option<StreamRow>> {
    conn.prepare_cached(STREAM_BY_KEY)?.query_row((&key.scope, &key.name), stream_row).optional()
}

pub(crate) fn stream_by_id(conn: &Connection, id: StreamId) -> rusqlite::Result<Option<StreamRow>> {
    conn.prepare_cached(STREAM_BY_ID)?.query_row([&id.0], stream_row).optional()
}

/// What the store tells of a stream.
pub(crate) fn stream_info(conn: &Connection, core: &Core, row: StreamRow) -> rusqlite::Result<StreamInfo> {
    let owner_gone = match row.worker {
        Some(worker) => known_gone(conn, core, worker)?,
        None => false,
    };
    Ok(StreamInfo {
        id: row.id,
        key: row.key,
        epoch: row.epoch,
        claim: row.claim,
        owned: row.owned,
        owner_gone,
        earliest: row.earliest,
        next_seq: row.next_seq,
        closed_at: row.closed_at,
    })
}

/// Whether a worker is gone at `now`; the rule stands in [`workers`](crate::workers).
pub(crate) fn gone(conn: &Connection, core: &Core, worker: WorkerId, now: StoreMillis) -> rusqlite::Result<bool> {
    Ok(match worker_row(conn, worker)? {
        Some((until, boot)) => until < now || died(core, worker, boot),
        None => true,
    })
}

/// Whether a worker is gone whatever the time is. One whose lease ran out may live, and what it numbered may still come
/// to the store, until another claim fences it.
fn known_gone(conn: &Connection, core: &Core, worker: WorkerId) -> rusqlite::Result<bool> {
    Ok(worker_row(conn, worker)?.is_none_or(|(_, boot)| died(core, worker, boot)))
}

fn worker_row(conn: &Connection, worker: WorkerId) -> rusqlite::Result<Option<(StoreMillis, Option<i64>)>> {
    conn.prepare_cached("SELECT until, boot FROM workers WHERE uid = ?1")?
        .query_row([&worker.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

fn died(core: &Core, worker: WorkerId, boot: Option<i64>) -> bool {
    boot.zip(core.boot()).is_some_and(|(its, ours)| its != ours) || core.workers.ask(worker) == Lock::Free
}

/// A chunk of that stream from `first_seq, count, last_time, data, crc`. `None`: it is not as it was written.
pub(crate) fn chunk(row: &Row<'_>, stream: StreamId) -> Option<Chunk> {
    let read = || {
        let data: Option<Vec<u8>> = row.get(3)?;
        let (first_seq, count, last_time) = (count(row, 0)?, small(row, 1)?, row.get(2)?);
        let found = || sum::of_chunk(stream, first_seq, count, last_time, data.as_deref());
        let damaged = sum::differs(row, 4, found)?;
        Ok::<_, rusqlite::Error>((!damaged).then(|| Chunk { first_seq, count, last_time, data: data.map(Bytes::from) }))
    };
    // A value that is of another type than we write is damage as well.
    read().ok().flatten()
}

/// The columns of [`call`], in its order.
pub(crate) const CALL: &str = "uid, status, reason, worker, began_at, began_time, principal, session, request_id, tool, scope, name, config, ended_at, task_ttl, task_bound, task_end, task_end_crc";

/// A row of `calls`; its config still sealed.
pub(crate) fn call(row: &Row<'_>) -> rusqlite::Result<CallRecord> {
    let status: Option<String> = row.get(1)?;
    let reason: Option<String> = row.get(2)?;
    let sealed: Vec<u8> = row.get(12)?;
    Ok(CallRecord {
        id: CallId::from_bytes(row.get::<_, Id>(0)?.0),
        outcome: status.map(|status| CallOutcome { status, reason }),
        worker: WorkerId(row.get::<_, Id>(3)?.0),
        began_at: row.get(4)?,
        began_time: row.get(5)?,
        principal: row.get(6)?,
        session: row.get(7)?,
        request_id: row.get(8)?,
        tool: row.get(9)?,
        stream: StreamKey { scope: row.get(10)?, name: row.get(11)? },
        config: Sealed(sealed.into()),
        ended_at: row.get(13)?,
        task: task(row)?,
    })
}

fn task(row: &Row<'_>) -> rusqlite::Result<Option<TaskRecord>> {
    if row.get::<_, Option<i64>>(14)?.is_none() {
        return Ok(None);
    }
    let terms = TaskTerms { ttl_ms: count(row, 14)?, bound: row.get(15)? };
    let end: Option<Vec<u8>> = row.get(16)?;
    let id = CallId::from_bytes(row.get::<_, Id>(0)?.0);
    if sum::differs(row, 17, || sum::of_task_end(id, end.as_deref().unwrap_or_default()))? {
        let damaged = format!("how task {id} ended is damaged");
        return Err(rusqlite::Error::FromSqlConversionFailure(16, Type::Blob, damaged.into()));
    }
    Ok(Some(TaskRecord { terms, end: end.map(Bytes::from) }))
}

/// Opens the config of a call that [`call`] read.
pub(crate) fn open_call(core: &Core, mut record: CallRecord) -> Result<CallRecord, StoreError> {
    record.config = Sealed(
        core.sealer
            .open(&record.config.0, Field::CallConfig, &record.id.to_bytes())
            .map_err(|_| corrupt(format!("the config of call {} does not open: damaged or replaced", record.id)))?,
    );
    Ok(record)
}

/// The columns of [`summary`], in its order.
pub(crate) const SUMMARY: &str = "uid, event_id, subject_kind, subject, principal, trigger_name, route_id, state, attempts, last_error, due, deadline";

/// A row of `deliveries` as an operator sees it.
pub(crate) fn summary(row: &Row<'_>) -> rusqlite::Result<DeliverySummary> {
    let state = row.get::<_, State>(7)?.0;
    Ok(DeliverySummary {
        id: tidings_store::DeliveryId(row.get::<_, Id>(0)?.0),
        event_id: row.get(1)?,
        subject: subject(row, 2, 3)?,
        principal: row.get(4)?,
        trigger: row.get(5)?,
        route_id: row.get(6)?,
        state,
        // The row counts ended attempts; one in a worker's hands has begun.
        attempts: small(row, 8)?.saturating_add(u32::from(state == DeliveryState::Leased)),
        last_error: row.get(9)?,
        due: row.get(10)?,
        deadline: row.get(11)?,
    })
}

/// The row number of a call and how it ended, if it did.
pub(crate) fn call_state(conn: &Connection, id: CallId) -> Result<Option<(i64, Option<CallOutcome>)>, Fail> {
    let found = conn
        .prepare_cached("SELECT n, status, reason FROM calls WHERE uid = :uid")?
        .query_row(named_params! { ":uid": id.to_bytes() }, |row| {
            let (status, reason): (Option<String>, _) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, status.map(|status| CallOutcome { status, reason })))
        })
        .optional()?;
    Ok(found)
}
