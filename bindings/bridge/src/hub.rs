//! The hub, as a host holds it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tidings::Durability;
use tidings::store::{CallId, DeliveryState, Subject};

use crate::answer::Answer;
use crate::call::{Begin, Call, Room};
use crate::error::{Error, Result};
use crate::fanout::{Fanout, Outbox};
use crate::fork::{Own, lock, lock_global};
use crate::outlet::{Offer, Outlet};
use crate::pending::{Cancel, Started, start, start_blocking};
use crate::settings::Settings;
use crate::stream::{Stream, Tail, Writer};

pub use tidings::Stats;

/// A hub. Clones are the same hub; each object made from it keeps it open.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

/// Outside [`Own`]: a hub works on in a forked child, where the core opens it anew.
struct Inner {
    hub: tidings::Hub,
    made: Own<()>,
}

/// How long the end of a hub may take that nobody closed.
const EXIT_FLUSH: Duration = Duration::from_secs(2);

/// Every hub of this process, to close what is open when it ends.
static HUBS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Keeps everybody off that list, over a fork.
pub(crate) fn hold() -> Box<dyn Any> {
    Box::new(lock(&HUBS))
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.hub.fmt(f)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.made.is_ours() {
            // It may hold what the parent opened, or what this process opened since; closing tells them apart.
            self.hub.close(EXIT_FLUSH);
        }
    }
}

/// A task as it was when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// `working`, `input_required`, `completed`, `failed` or `cancelled`.
    pub status: &'static str,
    /// SEP-2663's `DetailedTask` as JSON text.
    pub json: String,
    /// The scope of the stream of its events.
    pub scope: String,
    /// The stream's name there.
    pub name: String,
}

/// One delivery, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its own id.
    pub id: String,
    /// The firing's id: the `webhook-id`.
    pub event_id: String,
    /// The call it is about, if it is about one.
    pub call_id: Option<String>,
    /// On whose behalf.
    pub principal: String,
    /// The trigger that fired.
    pub trigger: String,
    /// The route's id.
    pub route: String,
    /// `pending`, `leased`, `retrying`, `delivered`, `dead`, `expired` or `superseded`.
    pub state: &'static str,
    /// Attempts begun.
    pub attempts: u32,
    /// The category of the last failure.
    pub last_error: Option<String>,
}

impl Hub {
    /// A hub at `url`; nothing is opened yet.
    pub fn new(url: &str, settings: Settings) -> Result<Self> {
        let hub = tidings::Hub::with(url, settings.options()?)?;
        let inner = Arc::new(Inner { hub, made: Own::new(()) });
        if let Some(mut hubs) = lock_global(&HUBS) {
            hubs.retain(|hub| hub.strong_count() > 0);
            hubs.push(Arc::downgrade(&inner));
        }
        Ok(Self { inner })
    }

    pub(crate) fn core(&self) -> &tidings::Hub {
        &self.inner.hub
    }

    /// Opens the store now. Blocks.
    pub fn open(&self) -> Result<()> {
        Ok(self.inner.hub.ensure_open()?)
    }

    /// A writer of a new stream, at once. The first use of the hub opens it, which blocks.
    pub fn new_writer(&self, scope: &str, name: &str) -> Result<Writer> {
        Ok(Writer::new(self.clone(), self.inner.hub.new_writer(scope, name)?))
    }

    /// A tail after a cursor. Blocks for a read.
    pub fn resume(&self, scope: &str, cursor: &str) -> Result<Tail> {
        Ok(Tail::new(self.clone(), self.inner.hub.resume(scope, cursor)?))
    }

    /// The stream (scope, name).
    pub fn stream(&self, scope: &str, name: &str) -> Result<Stream> {
        Ok(Stream::new(self.clone(), self.inner.hub.stream(scope, name)?))
    }

    /// Begins a watched call; answers [`Answer::Call`].
    pub fn begin_call(&self, begin: Begin) -> Started {
        let hub = self.clone();
        start(Cancel::EndCall, async move {
            let call = begin.run(&hub.inner.hub).await?;
            Ok(Answer::Call(Call::new(hub, call)))
        })
    }

    /// Cancels the call of that id, unless it has ended; answers [`Answer::Complete`], false if there is none that is the
    /// asker's.
    pub fn cancel_call(&self, id: String, asker: String) -> Started {
        let hub = self.clone();
        start(Cancel::Finish, async move { Ok(Answer::Complete(hub.inner.hub.cancel_call(&id, &asker).await?)) })
    }

    /// Judges a config without a call and without opening the hub; answers the triggers that nothing here fires.
    pub fn check_config(&self, begin: &Begin) -> Result<Vec<String>> {
        begin.check(&self.inner.hub)
    }

    /// Whether this process offers that place now.
    pub fn offers(&self, offer: &Offer) -> Result<bool> {
        offer.is_open(&self.inner.hub)
    }

    /// Offers a place that takes deliveries.
    pub fn outlet(&self, offer: Offer) -> Result<Outlet> {
        offer.open(self, &self.inner.hub)
    }

    /// The task of that id, for the principal who asks. Blocks for a read.
    pub fn task(&self, id: &str, asker: &str) -> Result<Option<Task>> {
        let found = self.inner.hub.task(id, asker)?;
        Ok(found.map(|task| Task {
            status: task.status,
            json: task.json,
            scope: task.stream.scope,
            name: task.stream.name,
        }))
    }

    /// Cancels the task of that id, unless it has ended; answers [`Answer::Complete`], false if there is none.
    pub fn cancel_task(&self, id: String, asker: String) -> Started {
        let hub = self.clone();
        start(Cancel::Finish, async move { Ok(Answer::Complete(hub.inner.hub.cancel_task(&id, &asker).await?)) })
    }

    /// Gives a running task its client's answers, JSON text of an object; answers [`Answer::Complete`], false if there is
    /// none.
    pub fn answer_task(&self, id: String, asker: String, responses: Vec<u8>) -> Started {
        let hub = self.clone();
        start(
            Cancel::Finish,
            async move { Ok(Answer::Complete(hub.inner.hub.answer_task(&id, &asker, &responses).await?)) },
        )
    }

    /// A new outbox.
    pub fn outbox(&self) -> Result<Outbox> {
        Ok(Outbox::new(self.clone(), self.inner.hub.outbox()?))
    }

    /// Tells everybody who asked for it that something has changed. The first use of the hub opens it, which blocks.
    pub fn notify(&self, kinds: &[String], name: Option<&str>, audience: Option<&str>) -> Result<Fanout> {
        let kinds: Vec<_> = kinds.iter().map(String::as_str).collect();
        Ok(self.inner.hub.notify(tidings::Publish { kinds: &kinds, name, audience })?)
    }

    /// The outboxes' numbers and the sinks that have failed since this was last asked.
    pub fn failed_sinks(&self) -> Result<Vec<(u32, u64)>> {
        Ok(self.inner.hub.failed_sinks()?.into_iter().map(tidings::SinkId::to_numbers).collect())
    }

    /// Deliveries of a principal, about a call, in a state, each only where it is named; oldest first. Blocks for a read.
    pub fn deliveries(
        &self,
        principal: Option<&str>,
        call_id: Option<&str>,
        state: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Delivery>> {
        let subject = match call_id {
            Some(text) => Some(Subject::Call(call_id_of(text)?)),
            None => None,
        };
        let state = state.map(state_of).transpose()?;
        let found = self.inner.hub.deliveries(principal, subject.as_ref(), state, limit)?;
        let plain = found.into_iter().map(|delivery| Delivery {
            id: delivery.id.to_string(),
            event_id: delivery.event_id,
            call_id: match delivery.subject {
                Subject::Call(id) => Some(id.to_string()),
                Subject::Subscription(_) => None,
            },
            principal: delivery.principal,
            trigger: delivery.trigger,
            route: delivery.route_id,
            state: delivery.state.as_str(),
            attempts: delivery.attempts,
            last_error: delivery.last_error,
        });
        Ok(plain.collect())
    }

    /// Room for one more call that goes on without its request, counted under that name with those that were detached; none
    /// where there are `calls` of them. Opens nothing.
    pub fn room(&self, counted_as: &str, calls: u32) -> Option<Room> {
        self.inner.hub.room(counted_as, calls).map(Room::new)
    }

    /// How many calls of this process go on without their request.
    pub fn detached(&self) -> u32 {
        self.inner.hub.detached()
    }

    /// What the hub has done and holds.
    pub fn stats(&self) -> Stats {
        self.inner.hub.stats()
    }

    /// Waits until everything that was appended before is committed; answers [`Answer::Done`].
    pub fn flush(&self, durability: Durability) -> Started {
        let hub = self.clone();
        start(Cancel::Drop, async move {
            hub.inner.hub.flush(durability).await?;
            Ok(Answer::Done)
        })
    }

    /// Ends calls, commits what is buffered and closes the store, in a thread of its own; answers [`Answer::Complete`].
    pub fn close(&self, deadline: Duration) -> Started {
        let hub = self.clone();
        start_blocking("tidings-close", move || Ok(Answer::Complete(hub.inner.hub.close(deadline))))
    }
}

/// A delivery's state by its name.
pub(crate) fn state_of(name: &str) -> Result<DeliveryState> {
    DeliveryState::from_text(name).ok_or_else(|| {
        let names: Vec<_> = DeliveryState::ALL.into_iter().map(DeliveryState::as_str).collect();
        Error::argument("state", format!("must be one of {}", names.join(", ")))
    })
}

fn call_id_of(text: &str) -> Result<CallId> {
    text.parse().map_err(|fault| Error::argument("call_id", fault))
}

/// Closes every hub of this process, for when it ends. Blocks at most about `deadline` in all; says whether all was done.
#[allow(clippy::disallowed_methods, reason = "this tier owns the deadline of the host's end")]
pub fn close_all(deadline: Duration) -> bool {
    let end = Instant::now() + deadline;
    let hubs = lock_global(&HUBS).map(|mut hubs| std::mem::take(&mut *hubs)).unwrap_or_default();
    let mut all = true;
    for hub in hubs.iter().filter_map(Weak::upgrade) {
        all &= hub.hub.close(end.saturating_duration_since(Instant::now()));
    }
    all
}
