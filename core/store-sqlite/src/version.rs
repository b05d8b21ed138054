//! Whether another process has committed since the last look.

use rusqlite::Connection;
use tidings_store::StoreError;

use crate::Core;
use crate::connection::Role;

/// A connection of its own, whose `PRAGMA data_version` tells of every commit by anybody else (1.8 µs, `delivery-systems.md` 4.2).
///
/// To it this store's own writer is somebody else as well, so the number also changes with our own commits.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    conn: Option<Connection>,
    seen: i64,
    /// What is told. SQLite's number starts anew with each connection; this one does not.
    told: u64,
}

impl Watch {
    pub(crate) fn ask(&mut self, core: &Core) -> Result<u64, StoreError> {
        let fresh = self.conn.is_none();
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => core.connect(Role::Read)?,
        };
        let now: i64 = conn
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut ask| ask.query_row([], |row| row.get(0)))
            .map_err(core.sql("ask for commits of others"))?;
        self.conn = Some(conn);
        if fresh || now != self.seen {
            self.seen = now;
            self.told += 1;
        }
        Ok(self.told)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.conn.is_some()
    }

    pub(crate) fn close(&mut self) {
        self.conn = None;
    }
}
