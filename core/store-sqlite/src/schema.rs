//! The tables, their version, and how an older file becomes a newer one.
//!
//! Chunks stand in the order of their commits, whatever stream they belong to, so that a commit touches few pages; a
//! unique index finds them by stream. `streams` carries the head and the weight of each stream, so that an append reads
//! one row and writes two. What a delivery carries stands apart from where it stands, because the latter changes often.

use rusqlite::Connection;
use tidings_store::{StoreError, StoreErrorKind};

use crate::error::{Fail, corrupt};
use crate::seal::{Field, Sealer};

/// Says in the file's header that it is ours: "Tdng".
pub(crate) const APPLICATION_ID: i32 = 0x5464_6e67;

/// What the key check seals. Its length is no secret.
pub(crate) const KEY_CHECK: &[u8] = b"tidings key check";

/// Each step makes version `n` (its place, from 1) out of version `n - 1`.
pub(crate) const STEPS: &[&str] = &[V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11, V12, V13, V14, V15, V16];

const V1: &str = "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) WITHOUT ROWID, STRICT;

    CREATE TABLE streams (
        n INTEGER PRIMARY KEY,
        next_seq INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        earliest INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        claim INTEGER NOT NULL,
        owned INTEGER NOT NULL,
        boot INTEGER,               -- boots.n in which the newest claim began
        closed_at INTEGER,
        worker BLOB,                -- the writer of the newest claim, if it is one writer's
        uid BLOB NOT NULL,
        scope TEXT NOT NULL,
        name TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX streams_uid ON streams (uid);
    CREATE UNIQUE INDEX streams_key ON streams (scope, name);
    CREATE INDEX streams_closed ON streams (closed_at) WHERE closed_at IS NOT NULL;

    -- Claims after the first, which began at 0.
    CREATE TABLE claims (
        stream INTEGER NOT NULL,
        claim INTEGER NOT NULL,
        first_seq INTEGER NOT NULL,
        PRIMARY KEY (stream, claim)
    ) WITHOUT ROWID, STRICT;

    CREATE TABLE chunks (
        n INTEGER PRIMARY KEY,
        stream INTEGER NOT NULL,
        first_seq INTEGER NOT NULL,
        count INTEGER NOT NULL,
        last_time INTEGER NOT NULL,
        data BLOB                   -- NULL: a tombstone
    ) STRICT;
    CREATE UNIQUE INDEX chunks_seq ON chunks (stream, first_seq);

    CREATE TABLE workers (uid BLOB PRIMARY KEY, until INTEGER NOT NULL, boot INTEGER) WITHOUT ROWID, STRICT;

    CREATE TABLE boots (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        offset INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE calls (
        n INTEGER PRIMARY KEY,
        uid BLOB NOT NULL,
        status TEXT,                -- NULL while it runs
        reason TEXT,
        ended_at INTEGER,
        worker BLOB NOT NULL,
        began_at INTEGER NOT NULL,
        began_time INTEGER NOT NULL,
        principal TEXT NOT NULL,
        session TEXT,
        request_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        scope TEXT NOT NULL,
        name TEXT NOT NULL,
        config BLOB NOT NULL        -- sealed
    ) STRICT;
    CREATE UNIQUE INDEX calls_uid ON calls (uid);
    CREATE INDEX calls_running ON calls (worker) WHERE status IS NULL;
    CREATE INDEX calls_ended ON calls (ended_at) WHERE status IS NOT NULL;

    CREATE TABLE timers (
        call INTEGER NOT NULL,      -- calls.n
        kind TEXT NOT NULL,
        due INTEGER NOT NULL,
        PRIMARY KEY (call, kind)
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX timers_due ON timers (due);

    -- `at` is what its queue is ordered by: due while it waits (0), the end of the lease (1), when it ended (2).
    CREATE TABLE deliveries (
        n INTEGER PRIMARY KEY,
        uid BLOB NOT NULL,
        queue INTEGER NOT NULL,
        at INTEGER NOT NULL,
        state TEXT NOT NULL,
        due INTEGER NOT NULL,
        deadline INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        attempts INTEGER NOT NULL,  -- ended ones
        token INTEGER NOT NULL,
        worker BLOB,
        last_error TEXT,
        subject_kind INTEGER NOT NULL,
        subject ANY NOT NULL,
        event_id TEXT NOT NULL,
        principal TEXT NOT NULL,
        trigger_name TEXT NOT NULL,
        route_id TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX deliveries_uid ON deliveries (uid);
    CREATE INDEX deliveries_queue ON deliveries (queue, at);
    CREATE INDEX deliveries_held ON deliveries (worker) WHERE queue = 1;
    CREATE INDEX deliveries_subject ON deliveries (subject_kind, subject, created_at);

    CREATE TABLE delivery_contents (
        n INTEGER PRIMARY KEY,      -- deliveries.n
        route BLOB NOT NULL,        -- sealed
        fallback BLOB NOT NULL,     -- sealed
        route_start INTEGER NOT NULL,
        route_end INTEGER NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
";

/// Calls that are tasks.
const V2: &str = "
    ALTER TABLE calls ADD COLUMN task_ttl INTEGER;      -- NULL: no task
    ALTER TABLE calls ADD COLUMN task_bound INTEGER;    -- only its principal may ask for it
    ALTER TABLE calls ADD COLUMN task_end BLOB;         -- how it ended, once it has
";

/// Deliveries that go through one process of the host. `queue` is 3 while they wait for it.
const V3: &str = "
    ALTER TABLE deliveries ADD COLUMN outlet TEXT;              -- NULL: any worker can make its attempts
    ALTER TABLE deliveries ADD COLUMN outlet_until INTEGER;     -- from then on any worker may take it
    CREATE INDEX deliveries_outlet ON deliveries (outlet, due) WHERE queue = 3;
";

/// Keys of appends that are made once.
const V4: &str = "
    CREATE TABLE append_keys (
        stream INTEGER NOT NULL,
        key TEXT NOT NULL,
        first_seq INTEGER NOT NULL, -- of the first event that was appended with it, and with which it goes
        PRIMARY KEY (stream, key)
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX append_keys_seq ON append_keys (stream, first_seq);
";

/// What the processes tell each other to tell their listeners.
const V5: &str = "
    CREATE TABLE publishes (
        n INTEGER PRIMARY KEY AUTOINCREMENT,    -- never used twice: readers remember it
        worker BLOB NOT NULL,
        kinds TEXT NOT NULL,
        name TEXT,
        audience TEXT
    ) STRICT;
";

/// Deliveries wait in lines, one for each endpoint. What an older library enqueued stands in a line of its own, which asks
/// for no proof.
const V6: &str = "
    CREATE TABLE endpoints (
        n INTEGER PRIMARY KEY,
        at INTEGER,                 -- when its line is looked at; NULL: nothing in it may go
        turn INTEGER NOT NULL,      -- its order among lines of one moment
        tat INTEGER NOT NULL,       -- its bucket
        named_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        proof TEXT,
        proven_at INTEGER,
        proven_until INTEGER,
        disabled TEXT,
        disabled_at INTEGER,
        verify_at INTEGER,
        refusals INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        failing_since INTEGER,
        open_until INTEGER NOT NULL,
        good INTEGER NOT NULL,
        last_error TEXT,
        uid BLOB NOT NULL,
        principal TEXT NOT NULL,
        host TEXT NOT NULL,
        route BLOB NOT NULL         -- sealed
    ) STRICT;
    CREATE UNIQUE INDEX endpoints_uid ON endpoints (uid);
    CREATE INDEX endpoints_ready ON endpoints (at, turn) WHERE at IS NOT NULL;
    CREATE INDEX endpoints_unverified ON endpoints (verify_at) WHERE verify_at IS NOT NULL;
    CREATE INDEX endpoints_principal ON endpoints (principal);
    CREATE INDEX endpoints_host ON endpoints (host);
    CREATE INDEX endpoints_named ON endpoints (named_at);

    CREATE TABLE hosts (host TEXT PRIMARY KEY, tat INTEGER NOT NULL, clock INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE host_shares (
        host TEXT NOT NULL,
        principal TEXT NOT NULL,
        tag INTEGER NOT NULL,
        PRIMARY KEY (host, principal)
    ) WITHOUT ROWID, STRICT;

    ALTER TABLE deliveries ADD COLUMN endpoint INTEGER NOT NULL DEFAULT 0;      -- endpoints.n
    ALTER TABLE deliveries ADD COLUMN fifo TEXT;
    ALTER TABLE deliveries ADD COLUMN wait_until INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX deliveries_line ON deliveries (endpoint, queue, at);
    CREATE INDEX deliveries_late ON deliveries (wait_until) WHERE queue IN (0, 4);
    CREATE INDEX deliveries_fifo ON deliveries (endpoint, fifo) WHERE fifo IS NOT NULL AND queue <> 2;
    CREATE INDEX deliveries_principal ON deliveries (principal) WHERE queue <> 2;

    INSERT INTO endpoints (n, at, turn, tat, named_at, state, proof, refusals, failures, open_until, good, uid, principal, host, route)
        SELECT 1, min(at), 0, 0, 0, 'verified', 'address', 0, 0, 0, 0, zeroblob(32), '', '', x'' FROM deliveries
        WHERE queue <> 2 HAVING count(*) > 0;
    UPDATE deliveries SET endpoint = 1, wait_until = deadline;
";

/// What all streams retain, as of the last look of retention: chunks beyond `chunk` came later.
const V7: &str = "
    CREATE TABLE total (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        chunk INTEGER NOT NULL,     -- chunks.n
        events INTEGER NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
";

/// Groups of calls, what watches them, and bodies before a route's redaction.
const V8: &str = "
    CREATE TABLE groups (
        n INTEGER PRIMARY KEY AUTOINCREMENT,    -- never that of a group that is over
        principal TEXT NOT NULL,
        name TEXT NOT NULL,
        until INTEGER NOT NULL      -- forgotten after this if nobody watches it
    ) STRICT;
    CREATE UNIQUE INDEX groups_key ON groups (principal, name);
    CREATE INDEX groups_until ON groups (until);

    CREATE TABLE group_calls (
        n INTEGER PRIMARY KEY,      -- in the order in which they joined
        grp INTEGER NOT NULL,       -- groups.n
        call BLOB NOT NULL,         -- calls.uid, whose row may be gone
        status TEXT                 -- NULL while it runs
    ) STRICT;
    CREATE UNIQUE INDEX group_calls_key ON group_calls (grp, call);

    CREATE TABLE aggregates (
        n INTEGER PRIMARY KEY,
        uid BLOB NOT NULL,
        grp INTEGER NOT NULL,       -- groups.n
        call BLOB NOT NULL,         -- calls.uid: over its routes it is told
        asked TEXT NOT NULL,        -- canonical text: the same one is watched once
        rule TEXT NOT NULL,
        wanted INTEGER NOT NULL,
        outcome TEXT,
        deadline_ms INTEGER,
        deadline INTEGER NOT NULL,
        verdict TEXT NOT NULL,
        due INTEGER NOT NULL,       -- the deadline, or when it came to its end
        ended INTEGER NOT NULL      -- it was told
    ) STRICT;
    CREATE UNIQUE INDEX aggregates_uid ON aggregates (uid);
    CREATE UNIQUE INDEX aggregates_asked ON aggregates (grp, asked);
    CREATE INDEX aggregates_due ON aggregates (due) WHERE ended = 0;
    CREATE INDEX aggregates_call ON aggregates (call) WHERE ended = 0;

    ALTER TABLE calls ADD COLUMN grp INTEGER;               -- groups.n, while it runs in one
    ALTER TABLE delivery_contents ADD COLUMN whole BLOB;    -- sealed; NULL: the body is whole
";

/// What workers offer to take deliveries.
const V9: &str = "
    CREATE TABLE offers (
        outlet TEXT NOT NULL,
        worker BLOB NOT NULL,
        PRIMARY KEY (outlet, worker)
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX offers_worker ON offers (worker);
";

/// What attempts came to.
const V10: &str = "
    CREATE TABLE attempts (
        delivery INTEGER NOT NULL,  -- deliveries.n
        nth INTEGER NOT NULL,
        at INTEGER NOT NULL,
        error TEXT,                 -- NULL: it was taken
        PRIMARY KEY (delivery, nth)
    ) WITHOUT ROWID, STRICT;
";

/// What origins publish about where they take webhooks, and deliveries by principal.
const V11: &str = "
    CREATE TABLE origin_proofs (
        principal TEXT NOT NULL,
        origin TEXT NOT NULL,
        document TEXT NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (principal, origin)
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX origin_proofs_until ON origin_proofs (until);

    CREATE INDEX deliveries_whose ON deliveries (principal, created_at);
";

/// Of which event a delivery tells, and what it goes out with. A row of `batches` is a batch that may still be joined.
const V12: &str = "
    ALTER TABLE deliveries ADD COLUMN seq INTEGER;
    ALTER TABLE deliveries ADD COLUMN batch INTEGER;    -- a number of `batches`, whose row may be gone
    CREATE INDEX deliveries_undelivered ON deliveries (subject_kind, subject, seq) WHERE seq IS NOT NULL AND queue <> 2;
    CREATE INDEX deliveries_batch ON deliveries (batch) WHERE batch IS NOT NULL AND queue <> 2;

    CREATE TABLE batches (
        n INTEGER PRIMARY KEY AUTOINCREMENT,    -- never used twice: deliveries keep it
        endpoint INTEGER NOT NULL,  -- endpoints.n
        settings BLOB NOT NULL,     -- a keyed hash: equal for equal settings, and tells nothing of them
        events INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        due INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX batches_settings ON batches (endpoint, settings);
";

/// Sums over what is kept as it is (`sum`). NULL: the row is of an older library.
const V13: &str = "
    ALTER TABLE chunks ADD COLUMN crc INTEGER;
    ALTER TABLE delivery_contents ADD COLUMN body_crc INTEGER;
    ALTER TABLE calls ADD COLUMN task_end_crc INTEGER;
";

/// Lines of endpoints for which nothing speaks are found apart from the others; `Standing::is_suspect` is the rule.
const V14: &str = "
    ALTER TABLE endpoints ADD COLUMN suspect INTEGER
        GENERATED ALWAYS AS (state = 'verified' AND (failures > 0 OR good = 0)) VIRTUAL;
    DROP INDEX endpoints_ready;
    CREATE INDEX endpoints_ready ON endpoints (suspect, at, turn) WHERE at IS NOT NULL;
";

/// Indexes that a lease or a settle writes only where its entry changes, and that have together what goes together: `over` is
/// `queue = 2`, which a lease leaves alone; `thread` stands for the subject, by whose random id each settle found a page of its
/// own.
const V15: &str = "
    ALTER TABLE deliveries ADD COLUMN over INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE deliveries ADD COLUMN thread INTEGER NOT NULL DEFAULT 0;    -- equal for equal subjects
    DROP INDEX deliveries_queue;
    DROP INDEX deliveries_held;
    DROP INDEX deliveries_line;
    DROP INDEX deliveries_fifo;
    DROP INDEX deliveries_principal;
    DROP INDEX deliveries_undelivered;
    DROP INDEX deliveries_batch;
    UPDATE deliveries SET over = queue = 2, thread = first.n
        FROM (SELECT subject_kind AS kind, subject AS about, min(n) AS n FROM deliveries GROUP BY 1, 2) AS first
        WHERE subject_kind = first.kind AND subject = first.about;
    CREATE INDEX deliveries_waiting ON deliveries (endpoint, at) WHERE queue = 0;
    CREATE INDEX deliveries_leased ON deliveries (endpoint, worker, at, batch) WHERE queue = 1;
    CREATE INDEX deliveries_finished ON deliveries (at) WHERE queue = 2;
    CREATE INDEX deliveries_let_go ON deliveries (at) WHERE queue = 3;
    CREATE INDEX deliveries_endpoint ON deliveries (endpoint);
    CREATE INDEX deliveries_fifo ON deliveries (endpoint, fifo) WHERE fifo IS NOT NULL AND over = 0;
    CREATE INDEX deliveries_principal ON deliveries (principal) WHERE over = 0;
    CREATE INDEX deliveries_undelivered ON deliveries (thread, seq) WHERE seq IS NOT NULL AND over = 0;
    CREATE INDEX deliveries_batch ON deliveries (batch) WHERE batch IS NOT NULL AND over = 0;
";

/// How many deliveries of a principal are not finished is counted, where an index was walked over them at each firing. No row: none.
const V16: &str = "
    CREATE TABLE unfinished (principal TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    INSERT INTO unfinished SELECT principal, count(*) FROM deliveries WHERE over = 0 GROUP BY principal;
    DROP INDEX deliveries_principal;
";

/// What stands in a database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing at all.
    Empty,
    /// A store of this version, ours or older.
    Store(usize),
}

/// The version this library writes.
pub(crate) const fn newest() -> usize {
    STEPS.len()
}

/// Looks without changing anything. A file of somebody else, or of a newer schema, is an error.
pub(crate) fn look(conn: &Connection) -> Result<Found, Fail> {
    if !conn.is_autocommit() {
        return look_within(conn);
    }
    // One snapshot: half of what was there before another process made the store, and half of what it made, is nobody's.
    let snapshot = conn.unchecked_transaction()?;
    look_within(&snapshot)
}

fn look_within(conn: &Connection) -> Result<Found, Fail> {
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(Found::Empty);
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(corrupt("the file is a SQLite database but not a Tidings store").into());
    }
    check_version(version)?;
    match usize::try_from(version) {
        Ok(version) if version > 0 && tables > 0 => Ok(Found::Store(version)),
        _ => {
            Err(corrupt(format!("the store's header names schema version {version}, but it has {tables} tables"))
                .into())
        }
    }
}

/// Refuses a version that this library does not know.
pub(crate) fn check_version(version: i64) -> Result<(), StoreError> {
    if version <= newest() as i64 {
        return Ok(());
    }
    let why = format!(
        "the store has schema version {version}, written by a newer library; this one knows up to {}",
        newest()
    );
    Err(StoreError::new(StoreErrorKind::NewerSchema, why))
}

/// Brings an empty file or an older store to the newest version, in one transaction: a process that is killed half-way
/// leaves the old version. Several processes may try at once.
pub(crate) fn migrate(conn: &Connection, sealer: &Sealer) -> Result<(), Fail> {
    if look(conn)? == Found::Store(newest()) {
        return Ok(());
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = step_up(conn, sealer).and_then(|()| Ok(conn.execute_batch("COMMIT")?));
    if done.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    done
}

fn step_up(conn: &Connection, sealer: &Sealer) -> Result<(), Fail> {
    let from = match look(conn)? {
        Found::Empty => 0,
        Found::Store(version) => version,
    };
    for (_at, step) in STEPS.iter().enumerate().skip(from) {
        #[cfg(test)]
        crate::migration_tests::reached(conn, _at);
        conn.execute_batch(step)?;
    }
    if from == 0 {
        let check = sealer.seal(KEY_CHECK, Field::KeyCheck, b"")?;
        conn.execute("INSERT INTO meta (name, value) VALUES ('key_check', ?1)", [check])?;
        conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    conn.pragma_update(None, "user_version", newest() as i64)?;
    #[cfg(test)]
    crate::migration_tests::reached(conn, newest());
    Ok(())
}

/// Tells a key that is not the one this store was made with.
pub(crate) fn check_key(conn: &Connection, sealer: &Sealer) -> Result<(), Fail> {
    let sealed: Vec<u8> = match conn.query_row("SELECT value FROM meta WHERE name = 'key_check'", [], |row| row.get(0))
    {
        Ok(sealed) => sealed,
        Err(rusqlite::Error::QueryReturnedNoRows) => return Err(corrupt("the store has lost its key check").into()),
        Err(error) => return Err(error.into()),
    };
    match sealer.open(&sealed, Field::KeyCheck, b"") {
        Ok(found) if found == KEY_CHECK => Ok(()),
        _ => {
            Err(StoreError::new(StoreErrorKind::WrongKey, "the key does not open what is sealed in this store").into())
        }
    }
}

#[cfg(test)]
mod tests;
