//! The store's timeline over boots of the host.

use std::sync::atomic::Ordering;

use rusqlite::{Connection, OptionalExtension};
use tidings_proto::time::{StoreMillis, UnixMillis};
use tidings_store::{Boot, StoreError};

use crate::Core;
use crate::error::Fail;
use crate::writer::{Tx, Writer};

/// How far ahead of the times that commits name the newest one is written down, so that few commits have to do it. A boot
/// that follows on another within so short a time begins by so much too late, and nothing else.
const AHEAD: i64 = 10_000;

/// What the store knows of its newest time.
#[derive(Debug)]
pub(crate) struct Newest {
    /// Named by a commit of this process.
    named: StoreMillis,
    /// Written down: every boot to come begins no earlier.
    written: StoreMillis,
}

impl Default for Newest {
    fn default() -> Self {
        Self { named: StoreMillis::MIN, written: StoreMillis::MIN }
    }
}

impl Tx<'_> {
    /// A commit names a time.
    pub(crate) fn saw(&mut self, now: StoreMillis) {
        self.newest.named = self.newest.named.max(now);
    }

    /// Writes the newest time down when it has passed what is written. Answers what is written if the group succeeds.
    pub(crate) fn write_newest(&self) -> Result<StoreMillis, Fail> {
        if self.newest.named <= self.newest.written {
            return Ok(self.newest.written);
        }
        let ahead = self.newest.named.saturating_add(AHEAD);
        write(self.conn, ahead)?;
        Ok(ahead)
    }
}

impl Newest {
    pub(crate) fn written(&mut self, written: StoreMillis) {
        self.written = self.written.max(written);
    }
}

impl Writer {
    /// The offset of a boot: written down when the boot is first seen, so that all its processes have the same. It begins at
    /// the wall time, or at the newest time the store knows if the wall clock lies behind that.
    pub(crate) fn timeline(&mut self, core: &Core, boot: &Boot, wall: UnixMillis) -> Result<i64, StoreError> {
        let (n, offset) = self.change(core, "anchor the timeline", |conn| {
            let (n, offset) = match known(conn, &boot.id)? {
                Some(known) => known,
                None => {
                    let begins = newest(conn)?.map_or(wall, |newest| newest.max(wall));
                    let offset = begins.saturating_sub(boot.now_ms);
                    conn.execute("INSERT INTO boots (id, offset) VALUES (?1, ?2)", (&boot.id, offset))?;
                    (conn.last_insert_rowid(), offset)
                }
            };
            write(conn, offset.saturating_add(boot.now_ms))?;
            Ok((n, offset))
        })?;
        core.boot.store(n, Ordering::Release);
        Ok(offset)
    }
}

fn known(conn: &Connection, id: &str) -> rusqlite::Result<Option<(i64, i64)>> {
    conn.query_row("SELECT n, offset FROM boots WHERE id = ?1", [id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

fn newest(conn: &Connection) -> rusqlite::Result<Option<StoreMillis>> {
    conn.query_row("SELECT value FROM meta WHERE name = 'newest'", [], |row| row.get(0)).optional()
}

fn write(conn: &Connection, time: StoreMillis) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO meta (name, value) VALUES ('newest', ?1)
         ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value > value",
    )?
    .execute([time])?;
    Ok(())
}
