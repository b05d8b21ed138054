//! What was committed since the last look.

use std::collections::BTreeSet;

use rusqlite::Connection;
use tidings_proto::stream::StreamId;
use tidings_proto::time::StoreMillis;
use tidings_store::{Changes, StoreError};

use crate::Core;
use crate::connection::Role;
use crate::rows::Id;

/// More new chunks, or more streams closed at a time, than this are not gone through.
const MANY: i64 = 1_024;

/// A connection of its own, whose `PRAGMA data_version` tells of every commit by anybody else (1.8 µs, `delivery-systems.md` 4.2).
///
/// To it this store's own writer is somebody else as well. Which streams have grown is seen by their new chunks, which stand in
/// the order of their commits, and by when they were closed.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    conn: Option<Connection>,
    /// SQLite's number at the last look.
    version: i64,
    /// The newest chunk.
    chunk: i64,
    /// When a stream was closed last, and which were told to be closed then.
    closed_at: StoreMillis,
    closed: Vec<StreamId>,
}

impl Watch {
    pub(crate) fn ask(&mut self, core: &Core) -> Result<Changes, StoreError> {
        let fresh = self.conn.is_none();
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => core.connect(Role::Read)?,
        };
        let found = self.look(&conn, fresh).map_err(core.sql("ask for commits of others"))?;
        self.conn = Some(conn);
        Ok(found)
    }

    fn look(&mut self, conn: &Connection, fresh: bool) -> rusqlite::Result<Changes> {
        let version: i64 = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        // SQLite's number starts anew with each connection.
        if !fresh && version == self.version {
            return Ok(Changes::Nothing);
        }
        self.version = version;
        let mut ids = BTreeSet::new();
        // Both, also when the first has not found all: what is told now need not be told again.
        let all = [self.grown(conn, &mut ids)?, self.closed(conn, &mut ids)?];
        Ok(if fresh || all.contains(&false) { Changes::Anything } else { Changes::Streams(ids.into_iter().collect()) })
    }

    /// Streams that have new chunks. `false`: there may be more of them.
    fn grown(&mut self, conn: &Connection, ids: &mut BTreeSet<StreamId>) -> rusqlite::Result<bool> {
        let newest: Option<i64> = conn.prepare_cached("SELECT max(n) FROM chunks")?.query_row([], |row| row.get(0))?;
        let newest = newest.unwrap_or_default();
        let before = std::mem::replace(&mut self.chunk, newest);
        // A number that went back was taken away, and is given out again.
        if newest < before || newest - before > MANY {
            return Ok(false);
        }
        let mut grown = conn.prepare_cached(
            "SELECT uid FROM streams WHERE n IN (SELECT stream FROM chunks WHERE n > ?1 AND n <= ?2)",
        )?;
        let found = grown.query_map((before, newest), |row| Ok(StreamId(row.get::<_, Id>(0)?.0)))?;
        for id in found {
            ids.insert(id?);
        }
        Ok(true)
    }

    /// Streams that were closed. `false`: there may be more of them.
    fn closed(&mut self, conn: &Connection, ids: &mut BTreeSet<StreamId>) -> rusqlite::Result<bool> {
        let mut closed = conn.prepare_cached(
            "SELECT uid, closed_at FROM streams WHERE closed_at IS NOT NULL AND closed_at >= ?1
             ORDER BY closed_at DESC LIMIT ?2",
        )?;
        let found = closed.query_map((self.closed_at, MANY), |row| {
            Ok((StreamId(row.get::<_, Id>(0)?.0), row.get::<_, StoreMillis>(1)?))
        })?;
        let found: Vec<_> = found.collect::<Result<_, _>>()?;
        ids.extend(found.iter().map(|(id, _)| *id).filter(|id| !self.closed.contains(id)));
        if let Some((_, last)) = found.first().copied() {
            self.closed_at = last;
            self.closed = found.iter().filter(|(_, at)| *at == last).map(|(id, _)| *id).collect();
        }
        Ok((found.len() as i64) < MANY)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.conn.is_some()
    }

    pub(crate) fn close(&mut self) {
        self.conn = None;
    }
}
