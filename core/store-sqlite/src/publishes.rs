//! The publishes log: a table whose numbers are never used twice, from whose end old rows go.

use rusqlite::{Connection, OptionalExtension};
use tidings_store::{Done, PUBLISHES_KEPT, Publish, Publishes, WorkerId};

use crate::error::Fail;
use crate::rows::{Id, count, int};
use crate::writer::Tx;

/// Rows go that many at a time, so that not every publish deletes one.
const SLACK: i64 = 64;

impl Tx<'_> {
    pub(crate) fn publish(&mut self, publish: &Publish) -> Result<Done, Fail> {
        let Publish { worker, kinds, name, audience } = publish;
        self.conn
            .prepare_cached("INSERT INTO publishes (worker, kinds, name, audience) VALUES (?1, ?2, ?3, ?4)")?
            .execute((worker.0, kinds, name, audience))?;
        let n = self.conn.last_insert_rowid();
        if n % SLACK == 0 {
            self.conn.prepare_cached("DELETE FROM publishes WHERE n <= ?1")?.execute([n - int(PUBLISHES_KEPT)])?;
        }
        Ok(Done::Nothing)
    }
}

pub(crate) fn read(conn: &Connection, after: u64, limit: u32) -> Result<Publishes, Fail> {
    let head = conn
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'publishes'")?
        .query_row([], |row| count(row, 0))
        .optional()?
        .unwrap_or(0);
    let earliest = conn
        .prepare_cached("SELECT min(n) FROM publishes")?
        .query_row([], |row| row.get::<_, Option<i64>>(0))?
        .and_then(|n| u64::try_from(n).ok())
        .unwrap_or(head + 1);
    let mut select =
        conn.prepare_cached("SELECT n, worker, kinds, name, audience FROM publishes WHERE n > ?1 ORDER BY n LIMIT ?2")?;
    let entries = select.query_map((int(after), limit), |row| {
        let publish = Publish {
            worker: WorkerId(row.get::<_, Id>(1)?.0),
            kinds: row.get(2)?,
            name: row.get(3)?,
            audience: row.get(4)?,
        };
        Ok((count(row, 0)?, publish))
    })?;
    Ok(Publishes { entries: entries.collect::<Result<_, _>>()?, earliest, head })
}
