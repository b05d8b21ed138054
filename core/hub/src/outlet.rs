//! Places in the host that deliveries go through: handlers, and the connections of sessions.
//!
//! A delivery that needs one waits in the store for a worker that offers it. Here it stands in a bounded queue until the
//! host takes it, and the attempt ends with the host's answer or its deadline. No thread of ours calls the host: it asks
//! for the [`next`](Outlet::next) delivery.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidings_proto::config::Route;
use tidings_proto::delivery::Category;
use tidings_proto::doorbell::Doorbell;
use tidings_proto::route::OutletName;
use tidings_proto::time::StoreMillis;
use tidings_store::{Delivery, DeliveryId, Durability, Op, Subject};
use tokio::sync::{Notify, oneshot};

use crate::background::commit;
use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::notify::lock;

/// How much of what waits for a connection that is gone is given up at a time.
const GIVE_UP: u32 = 64;

/// How long a peer that went is remembered: longer than an attempt and the commit of a firing take.
const REMEMBER_MS: i64 = 5 * 60_000;

/// How an outlet takes deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutletOptions {
    /// Deliveries that are in the host's hands or queued for it; the others wait in the store.
    pub limit: u32,
    /// How long one attempt may take, from the moment it is queued.
    pub timeout: Duration,
}

impl Default for OutletOptions {
    fn default() -> Self {
        Self { limit: 64, timeout: Duration::from_secs(10) }
    }
}

/// The host's end of a place that takes deliveries, offered until it is dropped or closed. Several for one name share what
/// comes.
pub struct Outlet {
    core: Arc<Core>,
    queue: Arc<Queue>,
    options: OutletOptions,
    open: Mutex<bool>,
}

/// A delivery in the host's hands. Dropped without an answer, its attempt failed.
pub struct HostDelivery {
    /// Its own id.
    pub id: DeliveryId,
    /// The firing's id, the same on every attempt and every route.
    pub event_id: String,
    /// What it is about.
    pub subject: Subject,
    /// On whose behalf.
    pub principal: String,
    /// The trigger that fired.
    pub trigger: String,
    /// The route's id in the client's config.
    pub route_id: String,
    /// The route's type.
    pub route_type: String,
    /// What the client named, if it did.
    pub endpoint: Option<String>,
    /// The signal to ring with, for a route of type `signal`.
    pub signal: Option<Doorbell>,
    /// Attempts begun, this one included.
    pub attempt: u32,
    /// The JSON text that a webhook would carry.
    pub body: Bytes,
    reply: Option<oneshot::Sender<Handed>>,
}

/// Why a host does not take a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Something failed; it may go better another time.
    Failed,
    /// It will not take it: the route is given up, and the next one has its turn.
    Refused,
    /// The peer is gone, or was never there: the same.
    Unreachable,
    /// The peer would not survive the signal: the same.
    NotReady,
}

/// What one attempt through an outlet came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handed {
    Confirmed,
    Failed(Category),
    /// The outlet closed before the host had it in hands: no attempt was made.
    NotTaken,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("name", &self.queue.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for HostDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A peer's results are its own, and an endpoint may hold a secret.
        let Self { id, route_type, trigger, attempt, .. } = self;
        f.debug_struct("HostDelivery")
            .field("id", id)
            .field("route_type", route_type)
            .field("trigger", trigger)
            .field("attempt", attempt)
            .finish_non_exhaustive()
    }
}

impl HostDelivery {
    /// The host has it. `false`: too late, the attempt has ended.
    pub fn confirm(mut self) -> bool {
        self.answer(Handed::Confirmed)
    }

    /// The host does not take it. `false`: too late, the attempt has ended.
    pub fn refuse(mut self, why: Refusal) -> bool {
        self.answer(Handed::Failed(match why {
            Refusal::Failed => Category::HandlerFailed,
            Refusal::Refused => Category::Refused,
            Refusal::Unreachable => Category::Unreachable,
            Refusal::NotReady => Category::PeerNotReady,
        }))
    }

    fn answer(&mut self, answer: Handed) -> bool {
        self.reply.take().is_some_and(|reply| reply.send(answer).is_ok())
    }
}

impl Outlet {
    pub(crate) fn offer(core: Arc<Core>, name: OutletName, options: OutletOptions) -> Result<Self> {
        core.alive()?;
        if options.limit == 0 || options.timeout.is_zero() {
            return Err(Error::new(ErrorCode::InvalidArgument, "outlet: limit and timeout must be more than nothing"));
        }
        let (queue, first) = core.outlets.open(name, options);
        if first {
            tell_others(&core, &queue.name, true);
        }
        core.work.notify_one(); // something may wait for it already
        Ok(Self { core, queue, options, open: Mutex::new(true) })
    }

    /// The next delivery for the host. `None`: the outlet was closed, or the hub.
    ///
    /// Needs no runtime: any waker does.
    pub async fn next(&self) -> Option<HostDelivery> {
        loop {
            let notified = self.queue.added.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            if !self.core.is_ours() || self.core.is_closed() || !*lock(&self.open) {
                return None;
            }
            if let Some(delivery) = self.queue.take() {
                return Some(delivery);
            }
            notified.await;
        }
    }

    /// Offers it no longer. What is queued waits in the store again; of a peer's it is given up, as a connection does not
    /// come back.
    pub fn close(&self) {
        if std::mem::replace(&mut *lock(&self.open), false) && self.core.is_ours() {
            let now = self.core.timeline.now();
            if self.core.outlets.close(&self.queue, self.options, now) {
                tell_others(&self.core, &self.queue.name, false);
            }
            self.core.work.notify_one();
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.close();
    }
}

/// The outlets that this process offers.
#[derive(Default)]
pub(crate) struct Outlets {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<OutletName, Arc<Queue>>,
    /// Peers that were here, and when they went. What waits for them has to be given up, also what is still on its way to
    /// the store.
    gone: HashMap<OutletName, StoreMillis>,
}

struct Queue {
    name: OutletName,
    added: Notify,
    state: Mutex<QueueState>,
}

struct QueueState {
    waiting: VecDeque<HostDelivery>,
    /// Attempts under way, those that wait here included.
    outstanding: u32,
    handles: u32,
    limit: u32,
    timeout: Duration,
}

/// How much an outlet takes now, and how long one attempt may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) free: u32,
    pub(crate) timeout: Duration,
}

impl Queue {
    fn take(&self) -> Option<HostDelivery> {
        let mut state = lock(&self.state);
        loop {
            let next = state.waiting.pop_front()?;
            // One whose time is over was given up while it waited.
            if next.reply.as_ref().is_some_and(|reply| !reply.is_closed()) {
                let more = !state.waiting.is_empty();
                drop(state);
                if more {
                    self.added.notify_one();
                }
                return Some(next);
            }
        }
    }
}

impl Outlets {
    pub(crate) fn offers(&self, name: &OutletName) -> bool {
        lock(&self.state).open.contains_key(name)
    }

    /// Answers whether it was not offered here before, too.
    fn open(&self, name: OutletName, options: OutletOptions) -> (Arc<Queue>, bool) {
        let mut state = lock(&self.state);
        state.gone.remove(&name);
        let queue = state.open.entry(name).or_insert_with_key(|name| {
            let (waiting, timeout) = (VecDeque::new(), options.timeout);
            let empty = QueueState { waiting, outstanding: 0, handles: 0, limit: 0, timeout };
            Arc::new(Queue { name: name.clone(), added: Notify::new(), state: Mutex::new(empty) })
        });
        let mut inner = lock(&queue.state);
        inner.handles += 1;
        inner.limit = inner.limit.saturating_add(options.limit);
        inner.timeout = inner.timeout.max(options.timeout);
        let first = inner.handles == 1;
        drop(inner);
        (Arc::clone(queue), first)
    }

    /// Answers whether it is not offered here any more.
    fn close(&self, queue: &Arc<Queue>, options: OutletOptions, now: StoreMillis) -> bool {
        let mut state = lock(&self.state);
        let mut inner = lock(&queue.state);
        inner.handles -= 1;
        inner.limit = inner.limit.saturating_sub(options.limit);
        let last = inner.handles == 0;
        let dropped = if inner.handles == 0 { std::mem::take(&mut inner.waiting) } else { VecDeque::new() };
        if inner.handles == 0 {
            state.open.remove(&queue.name);
            if queue.name.is_peer() {
                state.gone.insert(queue.name.clone(), now);
            }
        }
        drop((inner, state));
        queue.added.notify_waiters();
        // Nobody had them in hands.
        for mut delivery in dropped {
            delivery.answer(no_longer_offered(&queue.name));
        }
        last
    }

    /// Whoever waits for a delivery looks again: the hub closes.
    pub(crate) fn wake_all(&self) {
        let mut queues: Vec<_> = lock(&self.state).open.values().cloned().collect();
        queues.sort_unstable_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        for queue in queues {
            queue.added.notify_waiters();
        }
    }

    /// What may be leased now of what waits, and when the next of it is due.
    pub(crate) fn room(
        &self,
        waiting: &[(String, StoreMillis)],
        now: StoreMillis,
    ) -> (Vec<(String, Room)>, Option<StoreMillis>) {
        let mut state = lock(&self.state);
        state.gone.retain(|_, closed_at| now.saturating_sub(*closed_at) < REMEMBER_MS);
        let mut ready = Vec::new();
        let mut next: Option<StoreMillis> = None;
        for (name, due) in waiting {
            let room = match state.open.get(name.as_str()) {
                Some(queue) => {
                    let queue = lock(&queue.state);
                    Room { free: queue.limit.saturating_sub(queue.outstanding), timeout: queue.timeout }
                }
                None if state.gone.contains_key(name.as_str()) => Room { free: GIVE_UP, timeout: Duration::ZERO },
                None => continue,
            };
            if room.free == 0 {
                continue; // the end of an attempt makes room, and is noticed
            }
            if *due <= now {
                ready.push((name.clone(), room));
            } else {
                next = Some(next.map_or(*due, |next| next.min(*due)));
            }
        }
        (ready, next)
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = lock(&self.state);
        state.open.is_empty() && state.gone.is_empty()
    }

    /// Hands one delivery to the host and waits for its answer.
    pub(crate) async fn hand(&self, name: &OutletName, delivery: &Delivery, route: Route) -> Handed {
        let queue = lock(&self.state).open.get(name).cloned();
        let Some(queue) = queue else {
            return no_longer_offered(name);
        };
        let (reply, answer) = oneshot::channel();
        let new = &delivery.new;
        let handed = HostDelivery {
            id: new.id,
            event_id: new.event_id.clone(),
            subject: new.subject.clone(),
            principal: new.principal.clone(),
            trigger: new.trigger.clone(),
            route_id: new.route_id.clone(),
            route_type: route.kind,
            endpoint: route.endpoint,
            signal: route.signal,
            attempt: delivery.attempts.saturating_add(1),
            body: new.body.clone(),
            reply: Some(reply),
        };
        let _outstanding = Outstanding::begin(&queue, handed);
        let timeout = lock(&queue.state).timeout;
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Handed::Failed(Category::HandlerFailed), // dropped by the host
            Err(_) => Handed::Failed(Category::Timeout),
        }
    }
}

/// Other processes on the store learn what is offered here. Not of a peer's: only the process of its calls tells it anything.
fn tell_others(core: &Arc<Core>, name: &OutletName, offered: bool) {
    if name.is_peer() || !core.store.is_shared() {
        return;
    }
    let op = Op::Offer { worker: core.worker, outlet: name.as_str().to_owned(), offered };
    let told = Arc::clone(core);
    core.spawn(async move {
        if commit(&told, Durability::Process, vec![op]).await.is_none() && !told.is_closed() {
            tracing::warn!("other processes do not know what handlers this one has: the store failed");
        }
    });
}

/// A connection does not come back; a handler may, here or in another process.
fn no_longer_offered(name: &OutletName) -> Handed {
    if name.is_peer() { Handed::Failed(Category::Unreachable) } else { Handed::NotTaken }
}

/// Counts one attempt as long as it lasts.
struct Outstanding(Arc<Queue>);

impl Outstanding {
    fn begin(queue: &Arc<Queue>, mut delivery: HostDelivery) -> Self {
        let mut state = lock(&queue.state);
        state.outstanding += 1;
        if state.handles > 0 {
            state.waiting.push_back(delivery);
        } else {
            delivery.answer(no_longer_offered(&queue.name)); // closed meanwhile
        }
        drop(state);
        queue.added.notify_one();
        Self(Arc::clone(queue))
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        lock(&self.0.state).outstanding -= 1;
    }
}
