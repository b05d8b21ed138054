//! The store's timeline over boots of the host.

use std::sync::atomic::Ordering;

use rusqlite::{Connection, OptionalExtension};
use tidings_proto::time::{StoreMillis, UnixMillis};
use tidings_store::{Boot, StoreError};

use crate::Core;
use crate::writer::Writer;

impl Writer {
    /// The offset of a boot: written down when the boot is first seen, so that all its processes have the same. It begins at
    /// the wall time, or at the newest time the store knows if the wall clock lies behind that.
    pub(crate) fn timeline(&mut self, core: &Core, boot: &Boot, wall: UnixMillis) -> Result<i64, StoreError> {
        let (n, offset) = self.change(core, "anchor the timeline", |conn| {
            if let Some(known) = known(conn, &boot.id)? {
                return Ok(known);
            }
            let begins = newest(conn)?.map_or(wall, |newest| newest.max(wall));
            let offset = begins.saturating_sub(boot.now_ms);
            conn.execute("INSERT INTO boots (id, offset, seen_at) VALUES (?1, ?2, ?3)", (&boot.id, offset, begins))?;
            Ok((conn.last_insert_rowid(), offset))
        })?;
        core.boot.store(n, Ordering::Release);
        core.saw(offset.saturating_add(boot.now_ms));
        Ok(offset)
    }
}

fn known(conn: &Connection, id: &str) -> rusqlite::Result<Option<(i64, i64)>> {
    conn.query_row("SELECT n, offset FROM boots WHERE id = ?1", [id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// The newest time written anywhere. Asked once a boot, so it may look through everything.
fn newest(conn: &Connection) -> rusqlite::Result<Option<StoreMillis>> {
    conn.query_row(
        "SELECT max(t) FROM (
             SELECT max(value) AS t FROM meta WHERE name = 'newest'
             UNION ALL SELECT max(seen_at) FROM boots
             UNION ALL SELECT max(until) FROM workers
             UNION ALL SELECT max(max(began_at, coalesce(ended_at, began_at))) FROM calls
             UNION ALL SELECT max(closed_at) FROM streams
             UNION ALL SELECT max(created_at) FROM deliveries
             UNION ALL SELECT max(at) FROM deliveries WHERE queue = 2)",
        [],
        |row| row.get(0),
    )
}
