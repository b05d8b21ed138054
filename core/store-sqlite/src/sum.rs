//! Sums over what neither SQLite nor a seal has one of.
//!
//! The log has sums of SQLite's, the database file has none: a bit that a disk flips there would be handed out as what was
//! written. So rows that hold somebody's bytes as they are carry a CRC-32 of them and of the place they belong to: some
//! 50 ns for a chunk of 250 bytes, 4 µs for one of 64 KiB. It tells of a medium's faults; whoever may write to the file can also write sums.
//!
//! Rows of a library that did not write sums (before schema version 13) have none, and are taken as they are.

use rusqlite::Row;
use tidings_proto::stream::StreamId;
use tidings_store::CallId;

/// As it stands in a column.
type Stored = i64;

/// Of a chunk: whose it is, where it stands in its stream, and its packed events or that there are none.
pub(crate) fn of_chunk(stream: StreamId, first_seq: u64, count: u32, last_time: i64, data: Option<&[u8]>) -> Stored {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&stream.0);
    sum.update(&first_seq.to_le_bytes());
    sum.update(&count.to_le_bytes());
    sum.update(&last_time.to_le_bytes());
    sum.update(&[u8::from(data.is_some())]);
    sum.update(data.unwrap_or_default());
    sum.finalize().into()
}

/// Of what a delivery sends, and where its sealed part goes.
pub(crate) fn of_body(delivery: i64, route_at: (u32, u32), body: &[u8]) -> Stored {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&delivery.to_le_bytes());
    sum.update(&route_at.0.to_le_bytes());
    sum.update(&route_at.1.to_le_bytes());
    sum.update(body);
    sum.finalize().into()
}

/// Of how a task ended.
pub(crate) fn of_task_end(call: CallId, end: &[u8]) -> Stored {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&call.to_bytes());
    sum.update(end);
    sum.finalize().into()
}

/// Whether the sum in that column says anything else.
pub(crate) fn differs(row: &Row<'_>, column: usize, found: impl FnOnce() -> Stored) -> rusqlite::Result<bool> {
    Ok(row.get::<_, Option<Stored>>(column)?.is_some_and(|stored| stored != found()))
}
