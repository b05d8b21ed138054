//! How this store sets up a connection to SQLite.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tidings_store::{StoreError, StoreErrorKind};

use crate::error::{self, Fail};

/// Pages in the log before a commit also checkpoints: rarer, longer checkpoints keep most commits short.
const CHECKPOINT_PAGES: u32 = 4_000;
/// A log that grew beyond this, under a long reader or a big commit, is cut back when it starts anew.
const KEEP_LOG_BYTES: u32 = 64 << 20;
/// More than all the statements of this crate.
const STATEMENTS: usize = 128;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Looks at a file that may be anything, and changes nothing.
    Look,
    /// Commits.
    Write,
    /// Reads snapshots.
    Read,
}

/// Opens the database file, which must exist.
pub(crate) fn open(db: &Path, role: Role, busy_timeout: Duration) -> Result<Connection, StoreError> {
    connect(db, role, busy_timeout).map_err(|error| match error {
        Fail::Sql(error) => error::sql(&error, &format!("open {}", db.display()), db),
        other => other.of_the_group(db),
    })
}

fn connect(db: &Path, role: Role, busy_timeout: Duration) -> Result<Connection, Fail> {
    let access = match role {
        Role::Look | Role::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Role::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    // No CREATE: a file that is gone must not come back empty. No mutex: each connection has one user at a time.
    let mut conn = Connection::open_with_flags(db, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_handler(Some(busy_handler(busy_timeout)))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // Else SQLite plans a prepared statement anew whenever a value is bound that could have changed its plan: measured, a
    // quarter of what the writer does while deliveries go out.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Sorted rows and statement journals hold what is stored: they stay out of /tmp.
    conn.execute_batch(
        "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF;",
    )?;
    if role != Role::Read && conn.is_readonly(c"main")? {
        let why = format!("{} cannot be written by this process", db.display());
        return Err(StoreError::new(StoreErrorKind::ReadOnly, why).into());
    }
    if role == Role::Write {
        conn.execute_batch(&format!(
            "PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
             PRAGMA journal_size_limit = {KEEP_LOG_BYTES};
             PRAGMA cell_size_check = ON;
             PRAGMA cache_size = -16000;
             PRAGMA fullfsync = ON;
             PRAGMA checkpoint_fullfsync = ON;"
        ))?;
    }
    Ok(conn)
}

/// Turns the database to a write-ahead log, unless it has one. SQLite does not wait for others here, so we do.
pub(crate) fn use_log(conn: &Connection, db: &Path, busy_timeout: Duration) -> Result<(), Fail> {
    let mut busy = busy_handler(busy_timeout);
    let mut tries = 0;
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let why = format!(
                    "{}: SQLite keeps journal mode \"{mode}\", the file system has no memory shared between processes",
                    db.display()
                );
                return Err(StoreError::new(StoreErrorKind::Unsupported, why).into());
            }
            Err(error) if error::sql(&error, "", db).kind() == StoreErrorKind::Busy && busy(tries) => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits in short steps: SQLite's own handler sleeps up to 100 ms at a time and lets one process starve for seconds
/// (measured in `delivery-systems.md` 4.2: worst commit of four processes 1.9 s against 0.2 s).
fn busy_handler(timeout: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut since = Instant::now();
    move |tries| {
        if tries == 0 {
            since = Instant::now();
        }
        if since.elapsed() >= timeout {
            return false;
        }
        sleep(Duration::from_micros(if tries < 10 { 50 } else { 500 }));
        true
    }
}
