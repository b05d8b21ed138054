//! What a store keeps besides events.

use std::fmt;

use bytes::Bytes;
pub use tidings_proto::delivery::DeliveryState;
use tidings_proto::delivery::{EndpointKey, Standing};
use tidings_proto::group::{Aggregate, Verdict};
pub use tidings_proto::id::CallId;
use tidings_proto::stream::{StreamId, encode_id};
use tidings_proto::time::{StoreMillis, UnixMillis};
use tidings_proto::trigger::Outcome;

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&encode_id(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

random_id!(
    /// One firing on its way over one route.
    DeliveryId
);
random_id!(
    /// One trigger over a group of calls.
    AggregateId
);
random_id!(
    /// One hub of one process, from its opening to its end.
    WorkerId
);

/// Bytes that a store must seal at rest: secrets, and addresses that may hold some. `Debug` never shows them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Sealed(pub Bytes);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// Whose a stream is and what it is called there. Every read names the scope and is checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey {
    /// MCP session, task or principal; opaque text.
    pub scope: String,
    /// The stream's name within the scope.
    pub name: String,
}

impl StreamKey {
    /// The key (scope, name).
    pub fn new(scope: impl Into<String>, name: impl Into<String>) -> Self {
        Self { scope: scope.into(), name: name.into() }
    }
}

/// A stream as the store knows it, committed state only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its random identity.
    pub id: StreamId,
    /// Whose it is.
    pub key: StreamKey,
    /// Its history.
    pub epoch: u32,
    /// The newest claim.
    pub claim: u32,
    /// Whether the newest claim is one writer's (owned), or everybody's (shared).
    pub owned: bool,
    /// The newest claim's worker is known to be gone.
    pub owner_gone: bool,
    /// First retained sequence number; `next_seq` when nothing is retained.
    pub earliest: u64,
    /// The number the next event gets.
    pub next_seq: u64,
    /// When it was closed.
    pub closed_at: Option<StoreMillis>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    /// `completed`, `failed`, `cancelled` or `timeout`.
    pub status: String,
    /// Why, where the status alone does not say (`server_lost`, `shutdown`, `disconnected` …).
    pub reason: Option<String>,
}

/// On which terms a call is a task (SEP-2663): it can be asked for by the call's id, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTerms {
    /// How long it can be asked for after its end, in milliseconds.
    pub ttl_ms: u64,
    /// Only the call's principal may ask. Otherwise whoever knows the id may, for where nobody is authenticated.
    pub bound: bool,
}

/// A call as a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its terms.
    pub terms: TaskTerms,
    /// How it ended, as JSON text: the payload of the outcome's event. Stands here as well, because events may be evicted
    /// while the task can still be asked for. Set only by [`Op::EndCall`](crate::Op::EndCall).
    pub end: Option<Bytes>,
}

impl From<TaskTerms> for TaskRecord {
    fn from(terms: TaskTerms) -> Self {
        Self { terms, end: None }
    }
}

/// A watched call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Our id of it.
    pub id: CallId,
    /// Who asked.
    pub principal: String,
    /// The MCP session it came in on, if there is one.
    pub session: Option<String>,
    /// The JSON-RPC id as JSON text, its type kept.
    pub request_id: String,
    /// The tool's name.
    pub tool: String,
    /// The accepted notificationConfig as JSON text; holds secrets.
    pub config: Sealed,
    /// The stream of its events.
    pub stream: StreamKey,
    /// The worker that runs it.
    pub worker: WorkerId,
    /// When it began.
    pub began_at: StoreMillis,
    /// When it began by the wall clock.
    pub began_time: UnixMillis,
    /// How it ended; `None` while it runs. Set only by [`Op::EndCall`](crate::Op::EndCall).
    pub outcome: Option<CallOutcome>,
    /// When it ended. Set only by [`Op::EndCall`](crate::Op::EndCall).
    pub ended_at: Option<StoreMillis>,
    /// The call is a task, or was one.
    pub task: Option<TaskRecord>,
}

/// What a delivery is about. Room for subscriptions (SEP-3415) beside calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A watched call.
    Call(CallId),
    /// A standing subscription, by its id.
    Subscription(String),
}

/// The place in a host process through which a delivery has to go: a session's own connection, a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlet {
    /// The name under which a worker offers it.
    pub name: String,
    /// Whoever offers it has until this; from then on any worker may take the delivery, to give it up or hand it on.
    pub until: StoreMillis,
}

/// A delivery to enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    /// Its own id.
    pub id: DeliveryId,
    /// The firing's id: the `webhook-id`, the same on every attempt and every route.
    pub event_id: String,
    /// What it is about.
    pub subject: Subject,
    /// On whose behalf.
    pub principal: String,
    /// The trigger that fired.
    pub trigger: String,
    /// The route's id.
    pub route_id: String,
    /// The route as JSON text; holds secrets.
    pub route: Sealed,
    /// The routes to try after this one, as a JSON array of such texts; empty when there is none.
    pub fallback: Sealed,
    /// The body: what is signed, sent and stored, the same bytes.
    pub body: Bytes,
    /// The body before the route's redaction; empty where nothing was taken out or no other route follows.
    pub whole: Sealed,
    /// Where the JSON text of the route's id stands in `whole`, or in `body` where that is empty, as start and end, so that
    /// a fallback's body differs in nothing else but its redaction.
    pub route_at: (u32, u32),
    /// Not before this.
    pub due: StoreMillis,
    /// `None`: any worker can make its attempts.
    pub outlet: Option<Outlet>,
    /// Given up at this.
    pub deadline: StoreMillis,
    /// When it was enqueued.
    pub created_at: StoreMillis,
    /// Where it goes.
    pub endpoint: EndpointKey,
    /// Deliveries of one endpoint with the same key go out one after the other, in the order of enqueueing.
    pub fifo_key: Option<String>,
    /// When it no longer waits for its endpoint: it is then leased whatever the endpoint's standing, to be given up or
    /// handed over to the next route.
    pub wait_until: StoreMillis,
    /// The number of the event that it tells of, in the stream that the cursor of its body is of. While deliveries of the
    /// same subject with a lower number are unfinished, that cursor is lowered to the least of them when it is enqueued
    /// ([`lower_cursor`](tidings_proto::firing::lower_cursor)), in `body` and `whole`.
    pub seq: Option<u64>,
    /// What it may go out with. Looked at when it is enqueued; a delivery that is read back has none.
    pub batch: Option<Batch>,
}

/// Deliveries of one endpoint that go out in one request.
///
/// A delivery joins the batch of its settings that is still open at its endpoint, or opens one: its `due` is then that of
/// the batch. A batch closes when it is full, and is due at once then, or when it is leased; from then on its deliveries
/// stay together as long as they are unfinished. In a batch deliveries have the order in which they were enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Deliveries with equal settings may go together. Holds secrets.
    pub settings: Sealed,
    /// At most so many.
    pub max_events: u32,
    /// Bodies of at most so many bytes, a comma between two of them counted; one that is longer goes alone.
    pub max_bytes: u64,
}

/// Why a delivery was leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is due and its endpoint may be tried.
    Ready,
    /// Its wait has ended; its endpoint may not be tried now, or there was no room before.
    Late,
    /// Its endpoint is disabled.
    Disabled,
}

/// Whose an endpoint is and where.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EndpointOwner {
    /// On whose behalf it is sent to.
    pub principal: String,
    /// The host whose limits it shares; empty: none.
    pub host: String,
    /// A route that leads there, as a config of its own (`tidings_proto::config`): its URL, and what signs a challenge. The
    /// store takes the newest one when the endpoint has to be verified.
    pub route: Sealed,
}

/// An endpoint as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRecord {
    /// Its key.
    pub key: EndpointKey,
    /// Whose it is and where.
    pub owner: EndpointOwner,
    /// What is known of it.
    pub standing: Standing,
}

/// What an origin publishes about where it takes webhooks, as it was found on behalf of one principal. It proves every
/// endpoint of that principal that it names, as long as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginProof {
    /// On whose behalf it was asked for: it serves nobody else.
    pub principal: String,
    /// Scheme, host and port.
    pub origin: String,
    /// What is kept of the document, as JSON text (`tidings_proto::webhook::Receivers`).
    pub document: String,
    /// It counts until this.
    pub until: StoreMillis,
}

/// An attempt that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// When it was settled.
    pub at: StoreMillis,
    /// The category of its failure; none: it was taken.
    pub error: Option<String>,
}

/// A delivery in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// What was enqueued; `due` as last set.
    pub new: NewDelivery,
    /// Attempts ended before this lease, counting those a dead worker began.
    pub attempts: u32,
    /// The fence: [`Op::Settle`](crate::Op::Settle) must name it.
    pub token: u64,
    /// Why it was leased.
    pub taken: Taken,
    /// Nothing speaks for its endpoint: it fails, or never took anything yet.
    pub suspect: bool,
    /// The batch it goes out with: the others of it were leased together with it and stand beside it, in their order.
    /// `None`: it goes alone.
    pub batch: Option<u64>,
}

/// A delivery as an operator sees it; holds no body, no address and no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliverySummary {
    /// Its id.
    pub id: DeliveryId,
    /// The firing's id.
    pub event_id: String,
    /// What it is about.
    pub subject: Subject,
    /// On whose behalf.
    pub principal: String,
    /// The trigger that fired.
    pub trigger: String,
    /// The route's id.
    pub route_id: String,
    /// Where it stands.
    pub state: DeliveryState,
    /// Attempts begun.
    pub attempts: u32,
    /// The category of the last failure, never the receiver's own text.
    pub last_error: Option<String>,
    /// Not before this.
    pub due: StoreMillis,
    /// Given up at this.
    pub deadline: StoreMillis,
}

/// What a timer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerKind {
    /// Ends the call with outcome `timeout`.
    Timeout,
    /// Fires a trigger once, this many milliseconds after the call began.
    Elapsed(u64),
    /// Fires a trigger at each multiple of this many milliseconds after the call began.
    Every(u64),
}

impl fmt::Display for TimerKind {
    /// The kind's name in a store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("timeout"),
            Self::Elapsed(ms) => write!(f, "elapsed:{ms}"),
            Self::Every(ms) => write!(f, "every:{ms}"),
        }
    }
}

impl TimerKind {
    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        match name.split_once(':') {
            None => (name == "timeout").then_some(Self::Timeout),
            Some(("elapsed", ms)) => ms.parse().ok().map(Self::Elapsed),
            Some(("every", ms)) => ms.parse().ok().map(Self::Every),
            Some(_) => None,
        }
    }
}

/// A group of calls: its name, within its principal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// Whose it is.
    pub principal: String,
    /// What it is called there.
    pub name: String,
}

/// A trigger over a group of calls, to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAggregate {
    /// Its own id.
    pub id: AggregateId,
    /// The group; its name is the aggregate's.
    pub group: GroupKey,
    /// The call that asks for it, over whose routes it is told.
    pub call: CallId,
    /// What it waits for.
    pub aggregate: Aggregate,
    /// It ends at this, met or not.
    pub deadline: StoreMillis,
}

/// An aggregate that has come to its end and was not told yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueAggregate {
    /// What was asked for.
    pub new: NewAggregate,
    /// How it ended; never `Open`.
    pub verdict: Verdict,
    /// The group's calls in the order in which they joined, and how they ended.
    pub calls: Vec<(CallId, Option<Outcome>)>,
}
