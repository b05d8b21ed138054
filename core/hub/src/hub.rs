//! The entry point.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidings_proto::delivery::Category;
use tidings_proto::route::OutletName;
use tidings_proto::stream::{Cursor, StreamId};
use tidings_proto::webhook::is_traceparent;
use tidings_store::{DeliveryState, DeliverySummary, Durability, MemoryStore, Store, StreamInfo, StreamKey, Subject};
use tidings_store_sqlite::{SqliteOptions, SqliteStore};

use crate::call::{BeginCall, Call, Room, Rooms};
use crate::clock::{Clock, SystemClock};
use crate::core::{Core, Guard};
use crate::error::{Error, ErrorCode, Result};
use crate::fanout::{self, Fanout, Outbox, Publish, SinkId};
use crate::fork::Shared;
use crate::notify::lock;
use crate::options::Options;
use crate::outlet::{Outlet, OutletOptions};
use crate::owned::Owned;
use crate::policy::Decided;
use crate::stream::{After, Stream, Writer, check_key};
use crate::tail::Tail;
use crate::task::Task;

/// Where a hub keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Memory,
    Sqlite(std::path::PathBuf),
    /// In a store that the caller brought.
    Given,
}

/// The entry point: one store, and the threads that serve it.
///
/// Cheap to construct; opens at first use, in the process that uses it. A forked child opens anew. Clones share one
/// hub; when the last one goes away it flushes for at most two seconds, [`close`](Self::close) does better.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<HubInner>,
}

struct HubInner {
    place: Place,
    options: Options,
    clock: Arc<dyn Clock>,
    rooms: Arc<Rooms>,
    state: Shared<State>,
}

enum State {
    New,
    Open(Guard),
    Closed,
}

/// What a hub has done and holds, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Groups committed by this process.
    pub groups: u64,
    /// Events of this process's writers committed.
    pub events: u64,
    /// Events given up while the store was down.
    pub lost: u64,
    /// Events dropped because another writer had claimed the stream or it was closed.
    pub refused: u64,
    /// Groups that failed.
    pub failures: u64,
    /// Ends of calls that came after another end and were dropped: the first one wins.
    pub late: u64,
    /// The last group failed: events wait in memory.
    pub failing: bool,
    /// Bytes of events that wait for the store.
    pub buffered: u64,
    /// Attempts at deliveries that ended.
    pub attempts: u64,
    /// Deliveries that ended here as `delivered`.
    pub delivered: u64,
    /// The same as `dead`.
    pub dead: u64,
    /// The same as `expired`.
    pub expired: u64,
    /// The same as `superseded`: the next route took over.
    pub superseded: u64,
    /// Attempts at webhooks under way.
    pub in_flight: u64,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("place", &self.inner.place).finish_non_exhaustive()
    }
}

impl Hub {
    /// A hub at `url` with default options: `memory:`, `sqlite:PATH` or `sqlite:///PATH`.
    pub fn open(url: &str) -> Result<Self> {
        Self::with(url, Options::default())
    }

    /// A hub at `url`.
    pub fn with(url: &str, options: Options) -> Result<Self> {
        Self::with_clock(url, options, Arc::new(SystemClock))
    }

    /// A hub at `url` that reads time from `clock`.
    ///
    /// Nothing is touched before the first use: no file, no thread. An error is about the arguments.
    pub fn with_clock(url: &str, options: Options, clock: Arc<dyn Clock>) -> Result<Self> {
        let place = parse_url(url)?;
        options.validate()?;
        let inner = HubInner { place, options, clock, rooms: Arc::default(), state: Shared::new(State::New) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A hub over a store of the caller's, open at once. In a forked child it answers
    /// [`Forked`](ErrorCode::Forked): the store is the parent's.
    pub fn over(store: Arc<dyn Store>, options: Options, clock: Arc<dyn Clock>) -> Result<Self> {
        options.validate()?;
        let rooms = Arc::default();
        let core = Core::start(store, options.clone(), Arc::clone(&clock), Arc::clone(&rooms))?;
        let state = Shared::new(State::Open(Guard(core)));
        Ok(Self { inner: Arc::new(HubInner { place: Place::Given, options, clock, rooms, state }) })
    }

    /// A hub over what is open already.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn of(core: Arc<Core>, options: Options, clock: Arc<dyn Clock>) -> Self {
        let rooms = Arc::clone(&core.rooms);
        let state = Shared::new(State::Open(Guard(core)));
        Self { inner: Arc::new(HubInner { place: Place::Given, options, clock, rooms, state }) }
    }

    /// Opens the store now, so that what is wrong with it is told here and not at first use.
    pub fn ensure_open(&self) -> Result<()> {
        self.core().map(drop)
    }

    pub(crate) fn core(&self) -> Result<Arc<Core>> {
        let mut state = self.inner.state.lock();
        match &*state {
            State::Open(guard) if guard.0.is_ours() => return Ok(Arc::clone(&guard.0)),
            State::Closed => return Err(Error::closed("hub")),
            State::Open(_) | State::New => {}
        }
        let store: Arc<dyn Store> = match &self.inner.place {
            Place::Given => return Err(Error::forked()),
            Place::Memory => Arc::new(MemoryStore::new()),
            Place::Sqlite(path) => {
                let mut options = SqliteOptions::new(path);
                options.secret_key = self.inner.options.secret_key;
                Arc::new(SqliteStore::open(options)?)
            }
        };
        let (options, clock) = (self.inner.options.clone(), Arc::clone(&self.inner.clock));
        let core = Core::start(store, options, clock, Arc::clone(&self.inner.rooms))?;
        if let State::Open(inherited) = std::mem::replace(&mut *state, State::Open(Guard(Arc::clone(&core)))) {
            // From before a fork: its threads do not exist here, and closing its files would drop the parent's locks.
            std::mem::forget(inherited);
        }
        Ok(core)
    }

    /// The stream (scope, name).
    pub fn stream(&self, scope: impl Into<String>, name: impl Into<String>) -> Result<Stream> {
        let key = StreamKey::new(scope, name);
        check_key(&key)?;
        Ok(Stream { core: self.core()?, key })
    }

    /// A writer of a new stream (scope, name), at once: the stream comes to be with its first event's commit. If the key
    /// turns out to be taken, the writer is refused and its events are dropped and counted; for keys that nobody else
    /// uses, such as a session's own.
    pub fn new_writer(&self, scope: impl Into<String>, name: impl Into<String>) -> Result<Writer> {
        let key = StreamKey::new(scope, name);
        check_key(&key)?;
        let core = self.core()?;
        let owned = Owned::unborn(key, core.worker, StreamId(core.random()?), Arc::clone(&core.unborn));
        Ok(Writer { core, owned })
    }

    /// A tail after a cursor's text, whatever the stream's name, if the stream belongs to `scope`. Malformed, unknown
    /// and foreign cursors are all the same error, `unknown_cursor`.
    ///
    /// The stream of a writer of this process is known from [`new_writer`](Self::new_writer) on, before its first commit:
    /// a client may come back with a cursor that was sent at once.
    pub fn resume(&self, scope: &str, cursor: &str) -> Result<Tail> {
        let unknown = || Error::new(ErrorCode::UnknownCursor, "no such place in this scope");
        let cursor = Cursor::parse(cursor).map_err(|_| unknown())?;
        let core = self.core()?;
        let find = || core.store.stream_by_id(cursor.stream).map(|info| info.filter(|info| info.key.scope == scope));
        if let Some(info) = find()? {
            return Tail::start(core, info, After::Cursor(cursor));
        }
        if let Some(owned) = core.unborn.find(cursor.stream).filter(|owned| owned.key.scope == scope) {
            let info = StreamInfo {
                id: owned.id,
                key: owned.key.clone(),
                epoch: 1,
                claim: owned.claim,
                owned: true,
                owner_gone: false,
                earliest: 0,
                next_seq: 0,
                closed_at: None,
            };
            return Tail::start_unborn(core, owned, info, After::Cursor(cursor));
        }
        // It may have been born in between.
        let info = find()?.ok_or_else(unknown)?;
        Tail::start(core, info, After::Cursor(cursor))
    }

    /// Waits until everything that was appended before, by every writer of this process, is committed; with
    /// [`Durability::Disk`] until it, and all that was committed before it, survives a loss of power. A hub that was never
    /// used has nothing to wait for.
    ///
    /// While the store fails this answers `unavailable` within about a second, and the events stay buffered.
    pub async fn flush(&self, durability: Durability) -> Result<()> {
        let core = match &*self.inner.state.lock() {
            State::New => return Ok(()),
            State::Closed => return Err(Error::closed("hub")),
            // What a forked child inherited is the parent's to flush, or whoever's store was given.
            State::Open(guard) if !guard.0.is_ours() && self.inner.place != Place::Given => return Ok(()),
            State::Open(guard) => Arc::clone(&guard.0),
        };
        core.alive()?;
        Ok(core.committer.flush(durability).await.map_err(|_| Error::closed("hub"))??)
    }

    /// Begins a watched call; see [`BeginCall`].
    pub async fn begin_call(&self, begin: BeginCall<'_>) -> Result<Call> {
        Call::begin(self.core()?, begin, None).await
    }

    /// The same for a request that came with a W3C trace context (`_meta.traceparent`): its webhooks carry it on as the
    /// header `traceparent`. A malformed one is ignored, as the standard asks.
    pub async fn begin_call_traced(&self, begin: BeginCall<'_>, traceparent: Option<&str>) -> Result<Call> {
        Call::begin(self.core()?, begin, traceparent.filter(|text| is_traceparent(text))).await
    }

    /// The same for a config of the server's own, for a client that brought none: the policy judges what clients want, and is
    /// not asked.
    ///
    /// # Errors
    /// As of [`begin_call`](Self::begin_call), but for what a policy says.
    pub async fn begin_own_call(&self, begin: BeginCall<'_>, traceparent: Option<&str>) -> Result<Call> {
        Call::begin_judged(self.core()?, begin, traceparent.filter(|text| is_traceparent(text)), Decided::default())
            .await
    }

    /// The task of that id. `asker` is the principal who asks. `None`: there is none, it is not theirs, or its time is over;
    /// which of them is not told. This is the one place where a task's time ends; that its row goes later frees space only.
    pub fn task(&self, id: &str, asker: &str) -> Result<Option<Task>> {
        let core = self.core()?;
        Task::find(&core, id, asker)
    }

    /// Ends the task of that id as `cancelled`, wherever it runs, unless it has ended. `false`: [`task`](Self::task) does
    /// not find it.
    pub async fn cancel_task(&self, id: &str, asker: &str) -> Result<bool> {
        Task::cancel(&self.core()?, id, asker).await
    }

    /// Gives a task's client's answers to whoever runs it: `responses` is the JSON text of an object, `{key: response}`.
    /// They are on disk when this returns; those to what is not outstanding are ignored. `false`: [`task`](Self::task) does
    /// not find it. See [`Call::ask`].
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] for what is no such object.
    pub async fn answer_task(&self, id: &str, asker: &str, responses: &[u8]) -> Result<bool> {
        Task::answer(&self.core()?, id, asker, responses).await
    }

    /// Ends the call of that id as `cancelled`, wherever it runs, unless it has ended. `asker` is the principal who asks.
    /// `false`: there is none, or it is not theirs; which of them is not told.
    pub async fn cancel_call(&self, id: &str, asker: &str) -> Result<bool> {
        crate::call::cancel_by_id(&self.core()?, id, asker).await
    }

    /// Judges a config as [`begin_call`](Self::begin_call) would, without a call and without opening the hub; `begin` says
    /// who asks. Answers the triggers that nothing here fires.
    pub fn check_config(&self, begin: &BeginCall<'_>) -> Result<Vec<String>> {
        let config = crate::call::read_config(&self.inner.options, begin)?;
        Ok(config.ignored_triggers().into_iter().map(str::to_owned).collect())
    }

    /// Offers a place that takes deliveries of routes which are not webhooks, until the [`Outlet`] is dropped. Without one
    /// such a route counts as not deliverable, and the next route of the trigger has its turn.
    pub fn outlet(&self, name: OutletName, options: OutletOptions) -> Result<Outlet> {
        Outlet::offer(self.core()?, name, options)
    }

    /// Whether this process offers that place now.
    pub fn offers(&self, name: &OutletName) -> Result<bool> {
        Ok(self.core()?.outlets.offers(name))
    }

    /// A new outbox: where one event loop or thread takes frames for the connections it writes to.
    pub fn outbox(&self) -> Result<Outbox> {
        Outbox::new(self.core()?)
    }

    /// Tells everybody who asked for it that something has changed: the listeners of this process now, those of other
    /// processes on the same store as soon as they look. Never waits.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] for a kind that there is not, and for a name where none belongs or none is.
    pub fn notify(&self, publish: Publish<'_>) -> Result<Fanout> {
        fanout::notify(&self.core()?, publish)
    }

    /// The sinks that have failed since the last time this was asked: they did not take a frame, or not in time. Their
    /// listeners have ended. At most the newest 4,096.
    pub fn failed_sinks(&self) -> Result<Vec<SinkId>> {
        let core = self.core()?;
        Ok(std::mem::take(&mut *lock(&core.fanouts.failed)))
    }

    /// Deliveries of a principal, about a subject, in a state, each only where it is named; oldest first, at most `limit`.
    /// Without a principal these are everybody's, for the operator. With one they are what may be shown to a client: its own,
    /// and the last failure as it may know it ([`Category::public`]), so that a denied address looks like one that refuses.
    pub fn deliveries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>> {
        let mut found = self.core()?.store.deliveries(principal, subject, state, limit)?;
        if principal.is_some() {
            let public =
                |text: String| Category::from_text(&text).map_or(text, |category| category.public().as_str().into());
            found.iter_mut().for_each(|one| one.last_error = one.last_error.take().map(public));
        }
        Ok(found)
    }

    /// What the hub has done and holds. All zero before its first use.
    pub fn stats(&self) -> Stats {
        use std::sync::atomic::Ordering::Relaxed;
        let state = self.inner.state.lock();
        let State::Open(guard) = &*state else { return Stats::default() };
        if !guard.0.is_ours() {
            return Stats::default();
        }
        let (committer, counters) = (&guard.0.committer, &guard.0.committer.counters);
        Stats {
            groups: counters.groups.load(Relaxed),
            events: counters.events.load(Relaxed),
            lost: counters.lost.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            failures: counters.failures.load(Relaxed),
            late: guard.0.late.load(Relaxed),
            failing: committer.failing(),
            buffered: committer.buffered() as u64,
            attempts: guard.0.counters.attempts(),
            delivered: guard.0.counters.of(DeliveryState::Delivered),
            dead: guard.0.counters.of(DeliveryState::Dead),
            expired: guard.0.counters.of(DeliveryState::Expired),
            superseded: guard.0.counters.of(DeliveryState::Superseded),
            in_flight: u64::from(guard.0.load.all()),
        }
    }

    /// Room for one call that is to go on without its request by an adapter's own doing, such as a task: counted under that
    /// name together with what [`Call::detach`] let go on, until it is dropped. `None`: `calls` of them do so already, in this
    /// process. Opens nothing.
    pub fn room(&self, counted_as: &str, calls: u32) -> Option<Room> {
        self.inner.rooms.take(counted_as, calls)
    }

    /// How many calls of this process go on without their request.
    pub fn detached(&self) -> u32 {
        self.inner.rooms.all()
    }

    /// What is open in this process, without opening it.
    pub(crate) fn opened(&self) -> Option<Arc<Core>> {
        match &*self.inner.state.lock() {
            State::Open(guard) if guard.0.is_ours() => Some(Arc::clone(&guard.0)),
            State::Open(_) | State::New | State::Closed => None,
        }
    }

    /// Ends calls of this process as `failed`, reason `shutdown`, commits what is buffered, lets attempts in flight end,
    /// and closes the store. Takes at most about `deadline`, blocking; says whether all was done by then. Attempts that
    /// are not done after three quarters of it are cut, and come up again at the next start, as do the deliveries of the
    /// calls just ended. Tails and whoever waits for a call's end get an error of code `closed`, as does any later use. A
    /// hub that was never used closes at once.
    ///
    /// Called by a waker on a thread of the hub's own, it only starts the closing, and answers `false`.
    pub fn close(&self, deadline: Duration) -> bool {
        let state = std::mem::replace(&mut *self.inner.state.lock(), State::Closed);
        match state {
            State::Open(guard) if guard.0.is_ours() => {
                guard.0.close_door();
                crate::call::shut_down(&guard.0);
                guard.0.stop(deadline)
            }
            State::Open(inherited) => {
                std::mem::forget(inherited);
                true
            }
            State::New | State::Closed => true,
        }
    }
}

fn parse_url(url: &str) -> Result<Place> {
    let bad = |why: &str| Err(Error::new(ErrorCode::InvalidArgument, format!("url: {why}")));
    if url == "memory:" {
        return Ok(Place::Memory);
    }
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return bad("is memory:, sqlite:PATH or sqlite:///PATH");
    };
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => return bad("a host is not supported; write sqlite:PATH or sqlite:///PATH"),
        None => rest,
    };
    if path.is_empty() || path.contains('\0') {
        return bad("sqlite: needs a path");
    }
    if path == ":memory:" {
        return bad("a SQLite database in memory is not durable; use memory:");
    }
    Ok(Place::Sqlite(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let path = |p: &str| Ok(Place::Sqlite(p.into()));
        let parse = |url: &str| parse_url(url).map_err(|error| error.code());
        assert_eq!(parse("memory:"), Ok(Place::Memory));
        assert_eq!(parse("sqlite:tidings.db"), path("tidings.db"));
        assert_eq!(parse("sqlite:/var/lib/t.db"), path("/var/lib/t.db"));
        assert_eq!(parse("sqlite:///var/lib/t.db"), path("/var/lib/t.db"));
        for bad in
            ["", "redis://x", "sqlite:", "sqlite://host/x", "sqlite::memory:", "memory:x", "/tmp/x", "sqlite:a\0b"]
        {
            assert_eq!(parse(bad), Err(ErrorCode::InvalidArgument), "{bad:?}");
        }
    }
}
