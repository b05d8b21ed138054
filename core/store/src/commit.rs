//! The one way to change a store.

use std::fmt;

use bytes::Bytes;
use tidings_proto::delivery::{EndpointKey, EndpointPolicy, Learned};
use tidings_proto::group::Verdict;
use tidings_proto::stream::{Retention, StreamId};
use tidings_proto::time::{StoreMillis, UnixMillis};

use crate::chunk::{Chunk, NewEvent};
use crate::error::StoreError;
use crate::flow::Flow;
use crate::publish::Publish;
use crate::record::{
    AggregateId, CallId, CallOutcome, CallRecord, Delivery, DeliveryId, DeliveryState, EndpointOwner, EndpointRecord,
    GroupKey, NewAggregate, NewDelivery, OriginProof, StreamKey, TaskTerms, TimerKind, WorkerId,
};

/// What a commit survives once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Durability {
    /// The end of the process, kill -9 included.
    #[default]
    Process,
    /// Loss of power. Makes everything committed before it survive that as well.
    Disk,
}

/// Operations that become visible together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// In this order.
    pub ops: Vec<Op>,
    /// What the whole survives.
    pub durability: Durability,
}

impl Commit {
    /// A commit of these operations.
    pub fn new(durability: Durability, ops: Vec<Op>) -> Self {
        Self { ops, durability }
    }
}

/// One operation. Each says what refuses the whole commit, and what it answers.
#[derive(Clone, Debug)]
pub enum Op {
    /// Creates an owned stream with claim 1 that starts at 0, for a writer that numbers before the store knows of it.
    /// Refused: `Exists`. Answers `Done::Nothing`.
    Create {
        /// Drawn by the caller.
        id: StreamId,
        /// Must be new.
        key: StreamKey,
        /// The writer's worker.
        worker: WorkerId,
    },
    /// Takes the right to number the stream, creating the stream if it is new; every older claim is fenced.
    /// Refused: `Closed`. Answers `Done::Claimed`.
    Claim {
        /// Used if the stream is new.
        new_id: StreamId,
        /// The stream.
        key: StreamKey,
        /// The writer's worker.
        worker: WorkerId,
    },
    /// Appends events that their writer has numbered.
    /// Refused: `Unknown`, `Fenced` (another claim is newer, or the numbers do not follow), `Closed`. Answers `Done::Nothing`.
    Append {
        /// The stream.
        stream: StreamId,
        /// The writer's claim.
        claim: u32,
        /// One or more chunks whose numbers follow on each other.
        chunks: Vec<Chunk>,
        /// Closes the stream after them; the chunks may then be none.
        close: bool,
        /// The time now, for `closed_at`.
        now: StoreMillis,
    },
    /// Appends events numbered here, creating the stream if it is new. On an owned stream it takes a shared claim first,
    /// which fences the writer. Refused: `Closed`. Answers `Done::Appended`.
    AppendShared(AppendShared),
    /// The same, once: a key that an earlier append of this stream named is answered as that one was, and nothing is
    /// appended, also when the stream is closed by now. At least one event. A stream knows a key as long as it retains the
    /// first event that was appended with it. Refused: `Closed`. Answers `Done::Appended`.
    AppendOnce {
        /// The key, of this stream only.
        once: String,
        /// What is appended with it.
        append: AppendShared,
    },
    /// Records a call that runs: `outcome`, `ended_at` and `task.end` are not looked at. Refused: `Exists`. Answers `Done::Nothing`.
    BeginCall(Box<CallRecord>),
    /// Ends a call that has not ended; clears its timers; brings the aggregates of its group to where they stand by now,
    /// and those that came to their end are due at once. Refused: `Unknown`, `Ended`. Answers `Done::Nothing`.
    EndCall {
        /// The call.
        id: CallId,
        /// How it ended.
        outcome: CallOutcome,
        /// When.
        at: StoreMillis,
        /// The payload of the outcome's event. Kept with the row if the call is a task, else not.
        payload: Option<Bytes>,
    },
    /// Makes a call that has not ended a task, or gives the task other terms. Refused: `Unknown`, `Ended`. Answers
    /// `Done::Nothing`.
    BecomeTask {
        /// The call.
        call: CallId,
        /// The terms.
        terms: TaskTerms,
    },
    /// Enqueues a delivery as `pending`. One with a `fifo_key` that others of its endpoint have waits until they are
    /// finished; those of one batch go together. An endpoint that the store does not know is taken for one that the operator
    /// trusts. Refused: `Exists`.
    /// Answers `Done::Nothing`.
    Enqueue(Box<NewDelivery>),
    /// Leases deliveries that are due and whose endpoint may be tried now, see [`flow`](crate::flow). Those bound to an
    /// [`Outlet`](crate::Outlet) wait for it until its time has run out, whatever their endpoint. Never refused. Answers
    /// `Done::Leased`.
    Lease(Lease),
    /// Leases deliveries that are due and wait for one outlet, which the worker offers. Never refused. Answers
    /// `Done::Leased`.
    LeaseOutlet {
        /// Who takes them, and how many.
        lease: Lease,
        /// The outlet's name.
        outlet: String,
    },
    /// Says that a worker offers an outlet, or no longer does; a worker that leaves or is forgotten offers none. Never refused.
    /// Answers `Done::Nothing`.
    Offer {
        /// The worker.
        worker: WorkerId,
        /// The outlet's name.
        outlet: String,
        /// Whether it does.
        offered: bool,
    },
    /// Ends the lease of one delivery. Refused: `LostLease`. Answers `Done::Nothing`.
    Settle(Box<Settle>),
    /// Forgets finished deliveries before their time. Never refused. Answers `Done::Purged`.
    Purge(Purge),
    /// Notes what was learned of an endpoint; one that is not known comes to be when it is named, and otherwise nothing
    /// happens. Never refused. Answers `Done::Nothing`.
    Endpoint(Box<EndpointNews>),
    /// Takes endpoints that have to be verified: they come up again at `until` if nothing was learned by then. Never
    /// refused. Answers `Done::Verify`.
    TakeUnverified {
        /// The time now.
        now: StoreMillis,
        /// See above.
        until: StoreMillis,
        /// At most so many.
        limit: u32,
    },
    /// Keeps what an origin published; what was kept of it for that principal goes. Forgotten by
    /// [`Trim`](Self::Trim) once it does not count any more. Never refused. Answers `Done::Nothing`.
    ProveOrigin(Box<OriginProof>),
    /// Sets a timer of a call; one of each kind, the last one set counts. Refused: `Unknown`, `Ended`. Answers `Done::Nothing`.
    SetTimer {
        /// The call.
        call: CallId,
        /// What it does.
        kind: TimerKind,
        /// When.
        due: StoreMillis,
    },
    /// A timer of a call fires: it is set anew, or ends. Refused: `Unknown` (the call, or a timer that is due at another
    /// time: somebody else has fired it), `Ended`. Answers `Done::Nothing`.
    FireTimer {
        /// The call.
        call: CallId,
        /// Which of its timers.
        kind: TimerKind,
        /// When it was due.
        due: StoreMillis,
        /// When it is due next, if it is.
        next: Option<StoreMillis>,
    },
    /// Makes a running call one of a group, which begins with its first call or aggregate. Refused: `Unknown` and `Ended`
    /// (the call), `Full`. Answers `Done::Nothing`.
    JoinGroup(Box<JoinGroup>),
    /// Begins to watch an aggregate. Nothing happens if the group has the same one already, even if that has ended.
    /// Refused: `Unknown` (the call). Answers `Done::Nothing`.
    Watch(Box<Watch>),
    /// Ends an aggregate, if it still stands at `verdict`. Refused: `Unknown`: it ended, or stands elsewhere by now. Answers
    /// `Done::Nothing`.
    EndAggregate {
        /// The aggregate.
        id: AggregateId,
        /// As it was found due.
        verdict: Verdict,
    },
    /// Registers a worker or renews its lease. Never refused. Answers `Done::Nothing`.
    Heartbeat {
        /// The worker.
        worker: WorkerId,
        /// It counts as gone after this.
        until: StoreMillis,
    },
    /// A worker leaves in order: its leases on deliveries end at once. Never refused. Answers `Done::Nothing`.
    Leave {
        /// The worker.
        worker: WorkerId,
    },
    /// Adds to the publishes log, which keeps the newest [`PUBLISHES_KEPT`](crate::PUBLISHES_KEPT) and at
    /// most as many more. Never refused.
    /// Answers `Done::Nothing`.
    Publish(Publish),
    /// Applies retention to the streams that need it, a bounded amount of work a call, and forgets finished deliveries,
    /// ended calls and dead workers that are older than `keep_finished_ms`. Never refused. Answers `Done::Trimmed`.
    Trim {
        /// The time now.
        now: StoreMillis,
        /// The wall time now, for the age of events.
        wall: UnixMillis,
        /// What each stream keeps.
        retention: Retention,
        /// How long finished deliveries and ended calls stay readable.
        keep_finished_ms: i64,
    },
}

/// See [`Op::AppendShared`].
#[derive(Clone, Debug)]
pub struct AppendShared {
    /// The stream.
    pub key: StreamKey,
    /// Used if the stream is new.
    pub new_id: StreamId,
    /// In order.
    pub events: Vec<NewEvent>,
    /// Closes the stream after them.
    pub close: bool,
    /// The time now, for `closed_at`.
    pub now: StoreMillis,
}

/// See [`Op::Purge`]: finished deliveries for which everything that is named holds.
#[derive(Clone, Debug)]
pub struct Purge {
    /// This one.
    pub id: Option<DeliveryId>,
    /// Of this principal.
    pub principal: Option<String>,
    /// In this state, which is a final one.
    pub state: Option<DeliveryState>,
    /// At most so many.
    pub limit: u32,
}

/// See [`Op::Endpoint`].
#[derive(Clone, Debug)]
pub struct EndpointNews {
    /// The endpoint.
    pub key: EndpointKey,
    /// Whose it is and where; looked at only where the endpoint is named.
    pub owner: EndpointOwner,
    /// What was learned.
    pub learned: Learned,
    /// How endpoints are judged.
    pub policy: EndpointPolicy,
    /// When.
    pub now: StoreMillis,
}

/// See [`Op::JoinGroup`].
#[derive(Clone, Debug)]
pub struct JoinGroup {
    /// The group.
    pub group: GroupKey,
    /// The call.
    pub call: CallId,
    /// The most calls that the group may have.
    pub max_calls: u64,
    /// A group that begins with this and that nobody watches is forgotten after this.
    pub until: StoreMillis,
    /// The time now.
    pub now: StoreMillis,
}

/// See [`Op::Watch`].
#[derive(Clone, Debug)]
pub struct Watch {
    /// What is watched.
    pub new: NewAggregate,
    /// The time now.
    pub now: StoreMillis,
}

/// See [`Op::Lease`].
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// Who takes them.
    pub worker: WorkerId,
    /// The time now: `pending` and `retrying` deliveries due at or before it are taken. `leased` ones whose lease ran out
    /// by then or whose worker is gone are first made `retrying`, and the attempt that was begun counts.
    pub now: StoreMillis,
    /// The lease ends at this.
    pub until: StoreMillis,
    /// At most so many, a batch counted as one; of one endpoint the oldest due first. None: nothing happens.
    pub limit: u32,
    /// How much may go where.
    pub flow: Flow,
}

/// See [`Op::Settle`].
#[derive(Clone, Debug)]
pub struct Settle {
    /// The delivery.
    pub id: DeliveryId,
    /// From the lease; another token is refused.
    pub token: u64,
    /// Where it goes: `retrying` or a final state.
    pub state: DeliveryState,
    /// Not before this, for `retrying`.
    pub due: StoreMillis,
    /// Whether the attempt counts. It does not when the delivery only waited for a rate limit.
    pub counts: bool,
    /// The category of the failure.
    pub error: Option<String>,
    /// When.
    pub at: StoreMillis,
}

/// What an operation answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing to say.
    Nothing,
    /// A claim was taken.
    Claimed(Claimed),
    /// Events were numbered.
    Appended {
        /// The stream.
        stream: StreamId,
        /// Its history.
        epoch: u32,
        /// The claim they were numbered under.
        claim: u32,
        /// The number of the first.
        first_seq: u64,
    },
    /// Deliveries were leased.
    Leased(Vec<Delivery>),
    /// Endpoints are to be verified.
    Verify(Vec<EndpointRecord>),
    /// So many finished deliveries were forgotten.
    Purged(u32),
    /// Retention was applied.
    Trimmed {
        /// Events evicted.
        events: u64,
        /// Whether there is more to do now.
        more: bool,
    },
}

/// A claim that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The stream.
    pub stream: StreamId,
    /// Its history.
    pub epoch: u32,
    /// The claim.
    pub claim: u32,
    /// The number the first event under it gets.
    pub next_seq: u64,
}

/// Why a commit was refused. Nothing of it took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The thing to create is there already.
    Exists,
    /// The thing named is not there.
    Unknown,
    /// A newer claim fenced the writer, or its numbers do not follow on what is committed.
    Fenced {
        /// The newest claim.
        claim: u32,
        /// The number the next event gets.
        next_seq: u64,
    },
    /// The stream is closed.
    Closed,
    /// The call has ended.
    Ended(CallOutcome),
    /// The group has as many calls as it may have.
    Full,
    /// The lease ran out and somebody else has the delivery, or it is finished.
    LostLease,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str("it exists already"),
            Self::Unknown => f.write_str("it does not exist"),
            Self::Fenced { claim, next_seq } => write!(f, "fenced: claim {claim} goes on at {next_seq}"),
            Self::Closed => f.write_str("the stream is closed"),
            Self::Ended(outcome) => write!(f, "the call has ended: {}", outcome.status),
            Self::Full => f.write_str("the group is full"),
            Self::LostLease => f.write_str("the lease was lost"),
        }
    }
}

/// Why a commit did not happen.
#[derive(Clone, Debug)]
pub enum CommitError {
    /// Its own conditions did not hold.
    Refused(Refused),
    /// The store failed.
    Store(StoreError),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Refused> for CommitError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommitError {}
