//! Where a host takes frames.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tidings_proto::fanout::{About, Filter, MethodSet, NoFrame, Profile, Tag};
use tidings_proto::id::RequestId;
use tidings_proto::time::StoreMillis;

use super::board::Board;
use super::handle::{ListenerId, Parcel, SinkId};
use super::{Fanout, Ready, deadline_ms, others, task};
use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::notify::{Signal, lock};

/// A host that never asks which sinks have failed is told of the newest so many only.
const FAILED_KEPT: usize = 4_096;

pub(super) struct Shared {
    number: u32,
    board: Mutex<Board>,
    pub(super) signal: Signal,
    failed: Arc<Mutex<Vec<SinkId>>>,
    /// A sink has failed since the host was last told so.
    has_failed: AtomicBool,
    listeners: AtomicUsize,
}

impl Shared {
    pub(super) fn new(board: Board, failed: Arc<Mutex<Vec<SinkId>>>) -> Self {
        Self {
            number: board.number(),
            board: Mutex::new(board),
            signal: Signal::default(),
            failed,
            has_failed: AtomicBool::new(false),
            listeners: AtomicUsize::new(0),
        }
    }

    pub(super) fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Acquire)
    }

    /// Changes the board, and tells the host if there is something for it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Board) -> T) -> T {
        let (done, wakes) = self.change_quietly(change);
        if wakes {
            self.signal.raise();
        }
        done
    }

    /// The same, for who holds a lock: whether the host has to be told, which may call anything of ours.
    pub(super) fn change_quietly<T>(&self, change: impl FnOnce(&mut Board) -> T) -> (T, bool) {
        let mut board = lock(&self.board);
        let was_ready = board.is_ready();
        let done = change(&mut board);
        let is_ready = board.is_ready();
        self.listeners.store(board.listeners(), Ordering::Release);
        drop(board);
        (done, is_ready && !was_ready)
    }

    /// Whether the host has to be told stands beside the counts.
    pub(super) fn publish_quietly(&self, ready: &Ready<'_>, now: StoreMillis) -> (Fanout, bool) {
        let mut failed = 0;
        let ((fanout, gone), wakes) = self.change_quietly(|board| {
            let mut gone = Vec::new();
            let methods = ready.lists.and(ready.named.as_ref().map_or(MethodSet::EMPTY, |n| MethodSet::one(n.method)));
            board.expire(now, |sink, filters| {
                gone.push(sink);
                failed += filters.iter().filter(|filter| !filter.methods().common(methods).is_empty()).count() as u64;
            });
            (board.publish(ready), gone)
        });
        let wakes = self.report_quietly(gone) || wakes;
        (Fanout { failed, ..fanout }, wakes)
    }

    pub(super) fn expire(&self, now: StoreMillis) {
        let mut gone = Vec::new();
        self.change(|board| board.expire(now, |sink, _| gone.push(sink)));
        self.report(gone);
    }

    /// Sinks have failed: the host is told.
    fn report(&self, gone: Vec<SinkId>) {
        if self.report_quietly(gone) {
            self.signal.raise();
        }
    }

    fn report_quietly(&self, gone: Vec<SinkId>) -> bool {
        if gone.is_empty() {
            return false;
        }
        let mut failed = lock(&self.failed);
        failed.extend(gone);
        let over = failed.len().saturating_sub(FAILED_KEPT);
        failed.drain(..over);
        self.has_failed.store(true, Ordering::Release);
        true
    }

    pub(super) fn next_late(&self) -> Option<StoreMillis> {
        lock(&self.board).next_late()
    }

    pub(super) fn names(&self, method: usize) -> Vec<String> {
        lock(&self.board).names(method)
    }
}

/// Options of a sink.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinkOptions<'a> {
    /// Whose it is, for publishes with an audience.
    pub principal: Option<&'a str>,
    /// How long the host may take for what it was handed; `None`: as the hub's options say.
    pub deadline: Option<Duration>,
}

/// Where the host of one event loop (or thread) takes frames for its connections, the sinks.
///
/// It [takes](Self::take) parcels, writes their frames in order, and says what came of it. Nothing more is handed out for
/// a sink before all it was handed is written; what is published meanwhile coalesces. A sink that takes longer
/// than its deadline has failed. Dropping the outbox drops its sinks.
pub struct Outbox {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

impl Outbox {
    pub(crate) fn new(core: Arc<Core>) -> Result<Self> {
        core.alive()?;
        let shared = core.fanouts.add_outbox(core.timeline.now());
        Ok(Self { core, shared })
    }

    /// Its number, which is part of its sinks' ids.
    pub fn number(&self) -> u32 {
        self.shared.number
    }

    /// A connection to write to.
    pub fn add_sink(&self, options: SinkOptions<'_>) -> Result<SinkId> {
        self.core.alive()?;
        Ok(self.shared.change(|board| {
            let deadline = deadline_ms(options.deadline, board.limits());
            board.add_sink(options.principal, deadline)
        }))
    }

    /// In a forked child the lock may be held by a thread that is not there: nothing is changed.
    fn change<T: Default>(&self, change: impl FnOnce(&mut Board) -> T) -> T {
        if self.core.is_ours() { self.shared.change(change) } else { T::default() }
    }

    /// The one listener of a peer that sends no filters: of every list that its profile offers, and of what it
    /// [subscribes](Self::subscribe) to. What is published before it is [open](Self::open) is kept for then.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] for a profile whose peers send filters, and for a sink that is gone.
    pub fn attend(&self, sink: SinkId, profile: &Profile) -> Result<ListenerId> {
        if profile.listens() {
            return Err(bad("profile: peers of this version are told within their filters only; use listen"));
        }
        self.add(sink, Filter::implied(profile), None, true)
    }

    /// A listener that the request of that id opened, for what of its filter is honoured. Its acknowledgement is the first
    /// parcel; what is published before that is written is kept for then.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] for a profile whose peers send no filters, and for a sink that is gone.
    pub fn listen(&self, sink: SinkId, profile: &Profile, id: &RequestId, honoured: Filter) -> Result<ListenerId> {
        if !profile.listens() {
            return Err(bad("profile: peers of this version send no filters; use attend"));
        }
        self.add(sink, honoured, Some(Tag::new(profile.protocol(), id)), false)
    }

    fn add(&self, sink: SinkId, filter: Filter, tag: Option<Tag>, below: bool) -> Result<ListenerId> {
        self.core.alive()?;
        let first = !self.core.fanouts.any();
        if first {
            // What others published before concerns nobody here.
            others::begin(&self.core);
        }
        // What became of them by now will not be told again. In this order: what happens meanwhile is told twice at most,
        // and what waits twice is sent once.
        let tasks: Vec<_> = filter.names().map(|(method, name)| (method, name.to_owned())).collect();
        let added = self.shared.change(|board| board.add_listener(sink, filter, tag, below));
        if first {
            self.core.watched.notify_one(); // from now on it is looked for
        }
        if let Some(listener) = added {
            for (method, name) in tasks {
                task::tell_new(&self.core, &self.shared, listener, method, &name);
            }
        }
        added.ok_or_else(|| bad("sink: is gone or has failed"))
    }

    /// A peer without filters is ready to be told: for MCP, `notifications/initialized` has come.
    pub fn open(&self, listener: ListenerId) {
        self.change(|board| board.opened(listener));
    }

    /// Such a peer asks to be told of one thing, and of what lies below it.
    ///
    /// # Errors
    /// [`NoFrame`] as [`ErrorCode::InvalidArgument`], when its profile does not allow it, and beyond
    /// [`Filter::MAX_NAMES`].
    pub fn subscribe(&self, listener: ListenerId, profile: &Profile, name: &str) -> Result<()> {
        let method = single(profile).map_err(|why| bad(format!("subscribe: {why}")))?;
        match self.change(|board| board.subscribe(listener, method, name)) {
            Some(true) => Ok(()),
            Some(false) => Err(bad(format!("subscribe: at most {} subscriptions", Filter::MAX_NAMES))),
            None => Err(bad("listener: is gone")),
        }
    }

    /// And no longer.
    pub fn unsubscribe(&self, listener: ListenerId, profile: &Profile, name: &str) {
        if let Ok(method) = single(profile) {
            self.change(|board| board.unsubscribe(listener, method, name));
        }
    }

    /// Whose the sink is, for a host that learns it after the listener has to be there. Until then no publish with an audience
    /// is for it.
    pub fn set_principal(&self, sink: SinkId, principal: Option<&str>) {
        self.change(|board| board.set_principal(sink, principal));
    }

    /// Whether the sink's peer can be told anything at the moment. One that cannot is skipped.
    pub fn set_reachable(&self, sink: SinkId, reachable: bool) {
        self.change(|board| board.set_reachable(sink, reachable));
    }

    /// Ends a listener in order: what waits for it is written, then comes [`Parcel::Finish`].
    pub fn end(&self, listener: ListenerId) {
        self.change(|board| board.end_listener(listener));
    }

    /// Ends every listener with a filter in order; sinks without one stay.
    pub fn end_all(&self) {
        self.change(|board| {
            for listener in board.with_filters() {
                board.end_listener(listener);
            }
        });
    }

    /// The listener was cancelled: nothing more is written for it. `false`: it had ended.
    pub fn cancel(&self, listener: ListenerId) -> bool {
        self.change(|board| board.drop_listener(listener))
    }

    /// Lets go of a sink. Says how many listeners went with it.
    pub fn drop_sink(&self, sink: SinkId) -> usize {
        self.change(|board| board.drop_sink(sink))
    }

    /// The sinks there are.
    pub fn sinks(&self) -> Vec<SinkId> {
        self.change(|board| board.sinks())
    }

    /// How many listeners there are.
    pub fn listeners(&self) -> usize {
        self.shared.listeners()
    }

    /// Parcels for the host, in order: about `max` at most, all that waits for one listener together.
    pub fn take(&self, max: usize) -> Vec<Parcel> {
        // Whoever takes until there is nothing left asks once more than there is something: that needs no clock.
        self.change(|board| if board.is_ready() { board.take(max, self.core.timeline.now()) } else { Vec::new() })
    }

    /// The host has written so many of the frames it was handed for a sink. `false`: too late, the sink has failed or gone.
    pub fn written(&self, sink: SinkId, frames: u32) -> bool {
        self.change(|board| board.written(sink, frames))
    }

    /// The host has written one frame for each of these sinks.
    pub fn all_written(&self, sinks: impl IntoIterator<Item = SinkId>) {
        self.change(|board| {
            for sink in sinks {
                board.written(sink, 1);
            }
        });
    }

    /// A sink did not take a frame: its listeners end, and [`failed_sinks`](crate::Hub::failed_sinks) tells of it. Says how
    /// many listeners went; 0 if it had failed before.
    pub fn broke(&self, sink: SinkId) -> usize {
        let ended = self.change(|board| board.broke(sink));
        if ended.is_some() {
            self.shared.report(vec![sink]);
        }
        ended.unwrap_or(0)
    }

    /// Ready when there is something to [take](Self::take), once after a sink has failed, and when the hub has closed (which
    /// is then the error).
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if let Err(error) = self.core.alive() {
                return Poll::Ready(Err(error));
            }
            self.shared.signal.reset();
            if self.shared.has_failed.swap(false, Ordering::AcqRel) || lock(&self.shared.board).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if self.shared.signal.register(cx.waker()) {
                return Poll::Pending;
            }
        }
    }

    /// Waits for it.
    pub async fn ready(&self) -> Result<()> {
        poll_fn(|cx| self.poll_ready(cx)).await
    }
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, text)
}

/// The place of the method that tells a peer without filters of single things.
fn single(profile: &Profile) -> std::result::Result<usize, NoFrame> {
    let methods = profile.protocol().methods.iter().enumerate();
    let mut why = NoFrame::NotInVersion;
    for (place, method) in methods.filter(|(_, method)| matches!(method.about, About::Named(_))) {
        match profile.gate(method) {
            Ok(()) => return Ok(place),
            Err(reason) => why = reason,
        }
    }
    Err(why)
}
