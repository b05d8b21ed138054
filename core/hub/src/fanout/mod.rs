//! Fan-out: one publish, and everybody who asked for it is told, once.
//!
//! A host takes frames from an [`Outbox`], one for each event loop; the sinks in it are the connections it writes to, and
//! each has listeners. A publish makes one pass over the listeners that asked for its kinds, under the outbox's lock: it
//! sets a bit for each list, or notes the one name, so that whatever comes before the host is ready for more coalesces.
//! Nothing is handed out for a sink that the host is still writing to; so a slow one holds nobody up, and holds no
//! more than one state of everything it asked for.
//!
//! Tables, gates and frames are `tidings_proto::fanout`'s.

mod below;
mod board;
mod handle;
mod listener;
pub(crate) mod others;
mod outbox;
mod set;
mod task;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tidings_proto::fanout::{About, Frame, KindSet, MethodSet, Protocol};
use tidings_proto::time::StoreMillis;

pub use self::handle::{ListenerId, Parcel, SinkId};
pub(crate) use self::others::Others;
pub use self::outbox::{Outbox, SinkOptions};
pub(crate) use self::task::{task_changed, task_op};
use crate::core::{Core, millis};
use crate::error::{Error, ErrorCode, Result};
use crate::notify::lock;
use crate::options::Options;

/// Something that changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Publish<'a> {
    /// Names of kinds, of the protocol's table: for MCP `tools`, `prompts`, `resources`, `resource_templates`, `events`
    /// and, for one thing, `resource` or `task`.
    pub kinds: &'a [&'a str],
    /// The one thing: a resource's URI, a task's id. Needed by the kinds that are about one, and only by them.
    pub name: Option<&'a str>,
    /// Only sinks of this principal.
    pub audience: Option<&'a str>,
}

/// What a publish came to, in this process, in listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fanout {
    /// It is queued for them, or coalesced with what was.
    pub told: u64,
    /// They did not ask for it, or may not hear of it, or cannot be reached.
    pub skipped: u64,
    /// They asked for it, and their sinks were found not to have taken a frame in time. What fails later is told by
    /// [`failed_sinks`](crate::Hub::failed_sinks).
    pub failed: u64,
}

/// The fan-out of one hub.
pub(crate) struct Fanouts {
    pub(super) protocol: &'static Protocol,
    /// The frame of each method that is about a list, by its place.
    lists: Arc<[Option<Frame>]>,
    /// Listeners of single things that may be told of what lies below them, in protocols without filters.
    outboxes: Mutex<Arc<Vec<Weak<outbox::Shared>>>>,
    last_outbox: AtomicU32,
    pub(super) failed: Arc<Mutex<Vec<SinkId>>>,
    pub(super) limits: Limits,
    pub(crate) others: Others,
    /// Held while somebody looks at the state of one thing and marks who is to be told; never while a host is woken.
    pub(super) telling: Mutex<()>,
}

/// What an operator may set, as the boards need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long a sink may take for what it was handed, in milliseconds.
    pub(super) deadline: i64,
    /// Single things that may wait for one listener by name.
    pub(super) lag: usize,
}

/// A publish, checked and encoded.
pub(super) struct Ready<'a> {
    /// Methods about lists.
    pub(super) lists: MethodSet,
    /// The one thing.
    pub(super) named: Option<Named<'a>>,
    pub(super) audience: Option<&'a str>,
}

pub(super) struct Named<'a> {
    pub(super) method: usize,
    pub(super) name: &'a str,
    pub(super) frame: Frame,
}

impl Fanouts {
    pub(crate) fn new(protocol: &'static Protocol, options: &Options) -> Self {
        let frame =
            |method: &'static tidings_proto::fanout::Method| (method.about == About::List).then(|| Frame::list(method));
        Self {
            protocol,
            lists: protocol.methods.iter().map(frame).collect(),
            outboxes: Mutex::default(),
            last_outbox: AtomicU32::new(0),
            failed: Arc::default(),
            limits: Limits { deadline: millis(options.sink_deadline), lag: options.sink_lag as usize },
            others: Others::default(),
            telling: Mutex::default(),
        }
    }

    fn outboxes(&self) -> Arc<Vec<Weak<outbox::Shared>>> {
        Arc::clone(&lock(&self.outboxes))
    }

    fn add_outbox(&self, now: StoreMillis) -> Arc<outbox::Shared> {
        let number = self.last_outbox.fetch_add(1, Ordering::Relaxed) + 1;
        let board = board::Board::new(number, self.protocol, Arc::clone(&self.lists), self.limits, now);
        let shared = Arc::new(outbox::Shared::new(board, Arc::clone(&self.failed)));
        let mut outboxes = lock(&self.outboxes);
        let mut all: Vec<_> = outboxes.iter().filter(|one| one.strong_count() > 0).cloned().collect();
        all.push(Arc::downgrade(&shared));
        *outboxes = Arc::new(all);
        shared
    }

    /// Whether anybody listens here.
    pub(crate) fn any(&self) -> bool {
        self.outboxes().iter().filter_map(Weak::upgrade).any(|outbox| outbox.listeners() > 0)
    }

    /// Wakes whoever waits for frames: the hub closes.
    pub(crate) fn wake(&self) {
        for outbox in self.outboxes().iter().filter_map(Weak::upgrade) {
            outbox.signal.raise();
        }
    }

    /// Ends the sinks that are late.
    pub(crate) fn expire(&self, now: StoreMillis) {
        for outbox in self.outboxes().iter().filter_map(Weak::upgrade) {
            outbox.expire(now);
        }
    }

    /// When the next sink is late, if one is being written to.
    pub(crate) fn next_late(&self) -> Option<StoreMillis> {
        self.outboxes().iter().filter_map(Weak::upgrade).filter_map(|outbox| outbox.next_late()).min()
    }

    pub(super) fn local(&self, ready: &Ready<'_>, now: StoreMillis) -> Fanout {
        let (all, wakes) = self.local_quietly(ready, now);
        for outbox in wakes {
            outbox.signal.raise();
        }
        all
    }

    /// The same, for who holds a lock: the outboxes whose signals are to be raised without it.
    fn local_quietly(&self, ready: &Ready<'_>, now: StoreMillis) -> (Fanout, Vec<Arc<outbox::Shared>>) {
        let (mut all, mut wakes) = (Fanout::default(), Vec::new());
        for outbox in self.outboxes().iter().filter_map(Weak::upgrade) {
            let (one, wake) = outbox.publish_quietly(ready, now);
            all.told += one.told;
            all.skipped += one.skipped;
            all.failed += one.failed;
            if wake {
                wakes.push(outbox);
            }
        }
        (all, wakes)
    }

    /// The listeners' names under a method.
    pub(super) fn names(&self, method: usize) -> Vec<String> {
        let mut names: Vec<_> =
            self.outboxes().iter().filter_map(Weak::upgrade).flat_map(|outbox| outbox.names(method)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Checks a publish of a host's.
    pub(super) fn check<'a>(&self, publish: &Publish<'a>) -> Result<(KindSet, Ready<'a>)> {
        let bad = |text: String| Error::new(ErrorCode::InvalidArgument, text);
        let kinds = self.protocol.kinds(publish.kinds).map_err(|error| bad(error.to_string()))?;
        if kinds.is_empty() {
            return Err(bad("kinds: must name one at least".to_owned()));
        }
        let methods = self.protocol.methods(kinds);
        let single = methods.without(self.protocol.lists());
        let mut named = None;
        for method in single.places() {
            let Some(row) = self.protocol.methods.get(method) else { continue };
            let kind = self.protocol.names(kinds).last().unwrap_or_default();
            let (None, Some(name)) = (&named, publish.name) else {
                return Err(bad(format!("name: the kind {kind} is about one thing, which must be named")));
            };
            let frame = Frame::named(row, name)
                .map_err(|_| bad(format!("kinds: {kind} is told by the hub itself when it changes")))?;
            named = Some(Named { method, name, frame });
        }
        if named.is_none() && publish.name.is_some() {
            return Err(bad("name: none of the kinds is about one thing".to_owned()));
        }
        let lists = methods.common(self.protocol.lists());
        Ok((kinds, Ready { lists, named, audience: publish.audience }))
    }
}

/// Tells the listeners of this process, and the other processes.
pub(crate) fn notify(core: &Arc<Core>, publish: Publish<'_>) -> Result<Fanout> {
    core.alive()?;
    let (kinds, ready) = core.fanouts.check(&publish)?;
    let fanout = core.fanouts.local(&ready, core.timeline.now());
    if core.store.is_shared() {
        let names: Vec<_> = core.fanouts.protocol.names(kinds).collect();
        others::tell(core, names.join(" "), publish.name, publish.audience);
    }
    Ok(fanout)
}

/// The deadline that a sink has unless its options say otherwise.
pub(super) fn deadline_ms(given: Option<Duration>, limits: &Limits) -> i64 {
    given.map_or(limits.deadline, millis)
}
