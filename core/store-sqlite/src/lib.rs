//! The SQLite store of Tidings: one file, several processes of one host, durable.
//!
//! A [`SqliteStore`] is the [`Store`] over one SQLite database with a write-ahead log. Each process has one writer at a time and
//! a few readers that it never blocks; processes take turns at writing.
//!
//! - **Durability.** A group of `Process` commits survives `kill -9`; one with a `Disk` commit is synced, and everything
//!   before it with it. Taking a claim on a stream that exists is always synced, whatever the commit asks: else a loss of
//!   power could take the claim back and the same claim number would later stand for other events.
//! - **A new boot is a new claim.** A loss of power may take back shared events of `Process` commits that readers have
//!   seen, and their numbers would be given out again. So the first shared append of a boot other than the stream's last
//!   one starts a new claim; a cursor beyond it is then answered `regressed` (the gap rule, `tidings_proto::stream::check`)
//!   and never with another event under the same number. The store learns the boot from [`Store::timeline`]: call it before
//!   anything is committed.
//! - **Secrets** ([`Sealed`](tidings_store::Sealed) fields) are sealed with the operator's key or one from a key file.
//! - **Files**, all made with mode 0600: the database, `-wal` and `-shm` (SQLite's), `-key`, `-gate` and `-next` (at which
//!   processes that want to write queue), and one `-w-…` per worker, whose
//!   lock tells other processes that the worker lives, and by which they hear of its commits.
//! - **Fork.** A store belongs to the process that opened it. In a forked child every method answers an error of kind
//!   `Closed`, and dropping the store leaves everything open, because closing it would write to memory shared with the parent.
//!   A process that forks while it has stores open calls [`before_fork`] and [`after_fork`] around that; then the child can
//!   open them anew. Without, the child is refused, because SQLite would damage the file.
//! - **Unix only**, for now: modes, `fcntl` locks.
//! - **One SQLite per process.** Do not open the file with another copy of SQLite in the same process (Python's
//!   `sqlite3`, better-sqlite3): POSIX locks drop when any descriptor of the file is closed
//!   (<https://sqlite.org/howtocorrupt.html>, 2.2.1). Other processes may read it with any tool.
//! - **What a medium changes behind our back.** The log has sums, so a torn or changed tail of it ends at its last whole
//!   commit. SQLite keeps none over the database file, so events, the bodies of deliveries and the ends of tasks carry sums
//!   of ours: a reader gets a tombstone in the place of damaged events (gap `lost`), a delivery with a damaged body is dead as
//!   `unreadable`, a task whose end is damaged is answered as `Corrupt`. So is damage to the structure of the file and to
//!   anything sealed. Not noticed is a changed number or name in another row (the head of a stream, a timer), and what an
//!   older library wrote.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a store waits for its medium and measures that")]

mod calls;
mod changes;
mod connection;
mod deliveries;
mod endpoints;
mod error;
mod fork;
mod gate;
mod groups;
mod keyfile;
#[cfg(test)]
mod migration_tests;
mod open;
mod publishes;
mod read;
mod rows;
mod schema;
mod seal;
mod streams;
mod sum;
#[cfg(test)]
mod tests;
mod timeline;
mod total;
mod trim;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod wake;
mod workers;
mod writer;

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tidings_proto::delivery::EndpointKey;
use tidings_proto::stream::StreamId;
use tidings_proto::time::{StoreMillis, UnixMillis};
use tidings_store::{
    AttemptRecord, Boot, CallId, CallRecord, Changes, Commit, CommitError, DeliveryId, DeliveryState, DeliverySummary,
    Done, DueAggregate, DueTimer, EndpointRecord, NewDelivery, OriginProof, Page, Publishes, ReadLimits, Store,
    StoreError, StoreErrorKind, StreamInfo, StreamKey, Subject, WorkerId,
};

use crate::changes::Watch;
use crate::connection::Role;
use crate::error::Fail;
use crate::open::Place;
use crate::read::Readers;
use crate::seal::Sealer;
use crate::workers::{Lock, Workers};
use crate::writer::Writer;

pub use crate::fork::{after_fork, before_fork};

/// How to open a [`SqliteStore`].
#[derive(Clone)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The database file; its directory must exist, on a local disk.
    pub path: PathBuf,
    /// Seals secrets. `None`: a key file `<path>-key` is used, and made with the store.
    pub secret_key: Option<[u8; 32]>,
    /// How long a commit waits for other processes before it answers `Busy`. Default: 5 s.
    pub busy_timeout: Duration,
}

impl SqliteOptions {
    /// The database at `path`, everything else as the defaults say.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), secret_key: None, busy_timeout: Duration::from_secs(5) }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("path", &self.path)
            .field("secret_key", &self.secret_key.map(|_| "…"))
            .field("busy_timeout", &self.busy_timeout)
            .finish()
    }
}

/// What the parts of a store share.
struct Core {
    place: Place,
    busy_timeout: Duration,
    sealer: Sealer,
    workers: Workers,
    /// `boots.n` of the boot this host is in; 0 while nobody told.
    boot: AtomicI64,
    closed: AtomicBool,
    /// The process that opened the store. Never changes but in a test, which cannot fork.
    pid: AtomicU32,
    /// Device and inode of the database file that was opened.
    identity: (u64, u64),
}

impl Core {
    fn boot(&self) -> Option<i64> {
        Some(self.boot.load(Ordering::Acquire)).filter(|boot| *boot != 0)
    }

    /// Whether this process is a fork of the one that opened the store.
    fn is_inherited(&self) -> bool {
        self.pid.load(Ordering::Acquire) != std::process::id()
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_inherited() {
            return Err(error::forked());
        }
        if self.closed.load(Ordering::Acquire) { Err(error::closed()) } else { Ok(()) }
    }

    fn connect(&self, role: Role) -> Result<Connection, StoreError> {
        connection::open(&self.place.db, role, self.busy_timeout)
    }

    fn sql(&self, what: &str) -> impl Fn(rusqlite::Error) -> StoreError {
        move |error| error::sql(&error, what, &self.place.db)
    }
}

struct Inner {
    core: Core,
    writer: Mutex<Writer>,
    readers: Readers,
    watch: Mutex<Watch>,
}

impl Inner {
    /// Lets go of all connections; they come back when needed.
    fn suspend(&self) {
        self.readers.close();
        lock(&self.watch).close();
        lock(&self.writer).disconnect();
    }

    /// Whether there are connections, or somebody is at them.
    fn has_connections(&self) -> bool {
        let writer = self.writer.try_lock().map_or(true, |writer| writer.connection().is_some());
        let watch = self.watch.try_lock().map_or(true, |watch| watch.is_connected());
        writer || watch || self.readers.any()
    }
}

/// A store that somebody is in.
struct Entered<'a> {
    inner: &'a Inner,
    _inside: fork::Inside,
}

impl Deref for Entered<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        self.inner
    }
}

/// A [`Store`] in one SQLite file.
///
/// See the [crate] for what it promises. Dropping it closes it; [`close`](Store::close) does so with an answer.
pub struct SqliteStore {
    /// `Some` until it is dropped.
    inner: Option<Arc<Inner>>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store at `options.path`, making or migrating it if need be.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an SQLite older than 3.51.3 or a network file system; `Corrupt` for a file that is no store or is
    /// damaged; `NewerSchema`; `WrongKey`, also when the store's key file is missing; `ReadOnly`, `Full`, `Busy` and `Io`
    /// as the system says. A store that cannot be opened is left as it is.
    pub fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        let SqliteOptions { path, secret_key, busy_timeout } = options;
        open::check_engine(rusqlite::version_number())?;
        let place = Place::resolve(&path)?;
        place.check_file_system()?;
        place.create()?;
        let identity =
            place.identity().map_err(|error| error::system(&error, format_args!("look at {}", place.db.display())))?;
        let _inside = fork::enter();
        fork::check_inherited(identity)?;
        let sealer = prepare(&place, secret_key, busy_timeout)?;
        let core = Core {
            workers: Workers::new(&place.db),
            place,
            busy_timeout,
            sealer,
            boot: AtomicI64::new(0),
            closed: AtomicBool::new(false),
            pid: AtomicU32::new(std::process::id()),
            identity,
        };
        let writer = Writer::open(&core)?;
        core.workers.sweep(&|worker| stays(writer.connection(), &core.workers, worker));
        let inner =
            Arc::new(Inner { core, writer: Mutex::new(writer), readers: Readers::default(), watch: Mutex::default() });
        fork::register(&inner);
        Ok(Self { inner: Some(inner) })
    }

    /// The database file, absolute.
    pub fn path(&self) -> Option<&std::path::Path> {
        self.inner.as_ref().map(|inner| inner.core.place.db.as_path())
    }

    fn inner(&self) -> Result<Entered<'_>, StoreError> {
        let inner = self.inner.as_deref().ok_or_else(error::closed)?;
        // First, because in a forked child the gate may be as a thread that is not there left it.
        inner.core.check_open()?;
        Ok(Entered { inner, _inside: fork::enter() })
    }

    /// Runs `look` on a connection for reading; all it reads is of one snapshot.
    fn read_with<T>(
        &self,
        what: &str,
        look: impl FnOnce(&Connection, &Core) -> Result<T, Fail>,
    ) -> Result<T, StoreError> {
        let inner = self.inner()?;
        inner.readers.snapshot(&inner.core, |conn| look(conn, &inner.core)).map_err(|fail| match fail {
            Fail::Sql(error) => error::sql(&error, what, &inner.core.place.db),
            other => other.of_the_group(&inner.core.place.db),
        })
    }
}

/// Looks at what is there and makes it a store of this version, with a key that opens it.
fn prepare(place: &Place, secret_key: Option<[u8; 32]>, busy_timeout: Duration) -> Result<Sealer, StoreError> {
    let conn = connection::open(&place.db, Role::Look, busy_timeout)?;
    let failed = |fail: Fail| match fail {
        Fail::Sql(error) => error::sql(&error, &format!("open {}", place.db.display()), &place.db),
        other => other.of_the_group(&place.db),
    };
    let found = schema::look(&conn).map_err(failed)?;
    let sealer = match (secret_key, found) {
        (Some(key), _) => Sealer::new(&key),
        (None, schema::Found::Empty) => Sealer::new(&keyfile::load_or_create(&place.key_file())?),
        (None, schema::Found::Store(_)) => {
            let key = keyfile::load(&place.key_file())?.ok_or_else(|| {
                let why =
                    format!("the store's key file {} is missing and no key was given", place.key_file().display());
                StoreError::new(StoreErrorKind::WrongKey, why)
            })?;
            Sealer::new(&key)
        }
    };
    match found {
        schema::Found::Empty => {
            // Only an empty file takes this, so it comes before the first page is written.
            conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(|error| failed(error.into()))?;
        }
        schema::Found::Store(_) => schema::check_key(&conn, &sealer).map_err(failed)?,
    }
    connection::use_log(&conn, &place.db, busy_timeout).map_err(failed)?;
    schema::migrate(&conn, &sealer).map_err(failed)?;
    // Another process may have made the store in between, with another key.
    schema::check_key(&conn, &sealer).map_err(failed)?;
    Ok(sealer)
}

/// Whether a worker's lock file has to stay, and when in doubt it does. That of a worker whose process died goes, and its row
/// before it, without which it is as gone as with it: a server that is restarted again and again leaves no more than one.
fn stays(conn: Option<&Connection>, workers: &Workers, worker: WorkerId) -> bool {
    conn.is_none_or(|conn| {
        if workers.ask(worker) == Lock::Free {
            return conn.execute("DELETE FROM workers WHERE uid = ?1", [&worker.0]).is_err();
        }
        conn.query_row("SELECT count(*) FROM workers WHERE uid = ?1", [&worker.0], |row| row.get(0))
            .map_or(true, |rows: i64| rows > 0)
    })
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        if inner.core.is_inherited() {
            // Closing would write to memory that is the parent's as well.
            std::mem::forget(inner);
        } else {
            let _inside = fork::enter();
            drop(inner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for SqliteStore {
    fn commit(&self, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>> {
        match self.inner() {
            Ok(inner) => lock(&inner.writer).commit(&inner.core, group),
            Err(error) => group.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }

    fn timeline(&self, boot: &Boot, wall: UnixMillis) -> Result<i64, StoreError> {
        let inner = self.inner()?;
        lock(&inner.writer).timeline(&inner.core, boot, wall)
    }

    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>, StoreError> {
        self.read_with("look up a stream", |conn, core| read::info(conn, core, rows::stream_by_key(conn, key)?))
    }

    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>, StoreError> {
        self.read_with("look up a stream", |conn, core| read::info(conn, core, rows::stream_by_id(conn, id)?))
    }

    fn next_claim_first(&self, id: StreamId, claim: u32) -> Result<Option<u64>, StoreError> {
        self.read_with("look up a claim", |conn, _| read::next_claim_first(conn, id, claim))
    }

    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        let row = |conn: &Connection| rows::stream_by_id(conn, id);
        self.read_with("read a stream", |conn, core| read::page(conn, core, row(conn)?, from, limits))
    }

    fn read_key(&self, key: &StreamKey, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        let row = |conn: &Connection| rows::stream_by_key(conn, key);
        self.read_with("read a stream", |conn, core| read::page(conn, core, row(conn)?, from, limits))
    }

    fn call(&self, id: CallId) -> Result<Option<CallRecord>, StoreError> {
        self.read_with("look up a call", |conn, core| read::call(conn, core, id))
    }

    fn lost_calls(&self, now: StoreMillis, limit: u32) -> Result<Vec<CallRecord>, StoreError> {
        self.read_with("look for lost calls", |conn, core| read::lost_calls(conn, core, now, limit))
    }

    fn due_timers(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueTimer>, StoreError> {
        self.read_with("look for due timers", |conn, _| read::due_timers(conn, now, limit))
    }

    fn due_aggregates(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueAggregate>, StoreError> {
        self.read_with("look for due aggregates", |conn, _| groups::due_aggregates(conn, now, limit))
    }

    fn next_due(&self) -> Result<Option<StoreMillis>, StoreError> {
        self.read_with("look for what is due next", |conn, _| read::next_due(conn))
    }

    fn offered(&self, outlet: &str, now: StoreMillis) -> Result<bool, StoreError> {
        self.read_with("look who offers an outlet", |conn, core| read::offered(conn, core, outlet, now))
    }

    fn waiting_outlets(&self) -> Result<Vec<(String, StoreMillis)>, StoreError> {
        self.read_with("look for outlets", |conn, _| read::waiting_outlets(conn))
    }

    fn deliveries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, StoreError> {
        self.read_with("list deliveries", |conn, _| read::deliveries(conn, principal, subject, state, limit))
    }

    fn publishes(&self, after: u64, limit: u32) -> Result<Publishes, StoreError> {
        self.read_with("read what was published", |conn, _| publishes::read(conn, after, limit))
    }

    fn stored_delivery(&self, id: DeliveryId) -> Result<Option<NewDelivery>, StoreError> {
        self.read_with("look up a delivery", |conn, core| deliveries::stored(conn, core, id))
    }

    fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.read_with("list the attempts of a delivery", |conn, _| deliveries::attempts(conn, id))
    }

    fn endpoint(&self, key: EndpointKey) -> Result<Option<EndpointRecord>, StoreError> {
        self.read_with("look up an endpoint", |conn, core| endpoints::by_key(conn, core, key))
    }

    fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<EndpointRecord>, StoreError> {
        self.read_with("list endpoints", |conn, core| endpoints::list(conn, core, principal, limit))
    }

    fn origin_proof(&self, principal: &str, origin: &str) -> Result<Option<OriginProof>, StoreError> {
        self.read_with("look up what an origin publishes", |conn, _| endpoints::origin_proof(conn, principal, origin))
    }

    fn next_verification(&self) -> Result<Option<StoreMillis>, StoreError> {
        self.read_with("look for endpoints to verify", |conn, _| endpoints::next_verification(conn))
    }

    fn pending(&self, principal: &str, most: u32) -> Result<u32, StoreError> {
        self.read_with("count deliveries", |conn, _| endpoints::pending(conn, principal, most))
    }

    fn changes(&self) -> Result<Changes, StoreError> {
        let inner = self.inner()?;
        lock(&inner.watch).ask(&inner.core)
    }

    fn is_shared(&self) -> bool {
        true
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn wake(&self) -> Option<Box<dyn tidings_store::Wake>> {
        match wake::Wake::new(self.inner().ok()?.core.workers.clone()) {
            Ok(wake) => Some(Box::new(wake)),
            Err(error) => {
                tracing::info!(%error, "commits of other processes are polled for");
                None
            }
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        let inner = self.inner()?;
        if inner.core.closed.swap(true, Ordering::AcqRel) {
            return Err(error::closed());
        }
        inner.readers.close();
        lock(&inner.watch).close();
        let flushed = lock(&inner.writer).close(&inner.core);
        inner.core.workers.let_go();
        flushed
    }
}
