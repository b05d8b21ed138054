//! What every store does.

use tidings_proto::delivery::EndpointKey;
use tidings_proto::stream::StreamId;
use tidings_proto::time::{StoreMillis, UnixMillis};

use crate::chunk::Chunk;
use crate::commit::{Commit, CommitError, Done};
use crate::error::StoreError;
use crate::publish::Publishes;
use crate::record::{
    AttemptRecord, CallId, CallRecord, DeliveryId, DeliveryState, DeliverySummary, DueAggregate, EndpointRecord,
    NewDelivery, OriginProof, StreamInfo, StreamKey, Subject, TimerKind,
};

/// The host's boot, as the caller read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Differs from boot to boot.
    pub id: String,
    /// Milliseconds since that boot, suspend included; never goes backward.
    pub now_ms: i64,
}

/// Bounds of one read, counted from its first event on and not from the beginning of the chunk that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Stop after the chunk with which at least this many events were read.
    pub events: u32,
    /// Stop after the chunk with which at least this many bytes were read.
    pub bytes: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { events: 1_024, bytes: 1 << 20 }
    }
}

/// What one read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The chunks that hold `from` and what follows, in order. The first may begin before `from`.
    pub chunks: Vec<Chunk>,
    /// The stream at the moment of reading: chunks and info are of one snapshot.
    pub info: StreamInfo,
}

/// A timer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTimer {
    /// The call.
    pub call: CallId,
    /// What it does.
    pub kind: TimerKind,
    /// When it was due.
    pub due: StoreMillis,
}

/// What was committed since a last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Nothing at all.
    Nothing,
    /// Something. Streams have grown or were closed: these only, as far as the store could tell; in rare cases (a stream
    /// whose newest events were evicted at once) one is missing. Everything but streams may have changed as well.
    Streams(Vec<StreamId>),
    /// Anything may have changed.
    Anything,
}

/// Tells of commits by other processes, see [`Store::wake`]: its descriptor is readable when there were some.
#[cfg(unix)]
pub trait Wake: std::os::fd::AsFd + Send + Sync + 'static {
    /// Takes back what the descriptor tells, so that it tells of later commits only. Says whether there may have been
    /// commits.
    fn clear(&self) -> bool;
}

/// A place that keeps streams, calls, deliveries and timers.
///
/// Methods may block on the medium. [`commit`](Self::commit) is called by one thread at a time; reads come from any
/// thread, beside it and beside each other, and see committed state only. A store that returns an error has changed
/// nothing, and goes on to work once the cause is gone. A store never panics.
pub trait Store: Send + Sync + 'static {
    /// Does a group of commits in order, each wholly or not at all, and makes them as durable as the most demanding one
    /// asks. A commit sees those before it. Answers one result for each, in order; the `Done`s of one commit are one for
    /// each operation, in order. If the medium fails, none of the group took effect and each answers that failure.
    fn commit(&self, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>>;

    /// The number to add to `boot.now_ms` to stand on the store's timeline: the same for every process of one boot, and
    /// such that the timeline never runs backward over reboots. `wall` anchors a boot that the store has not seen.
    fn timeline(&self, boot: &Boot, wall: UnixMillis) -> Result<i64, StoreError>;

    /// The stream of that key.
    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>, StoreError>;

    /// The stream of that id.
    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>, StoreError>;

    /// The first sequence number of the first claim after `claim`, if there is a newer claim.
    fn next_claim_first(&self, id: StreamId, claim: u32) -> Result<Option<u64>, StoreError>;

    /// Events from `from` on (from the earliest retained one, if that is later), with the stream's info of the same
    /// snapshot. `None`: no such stream.
    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError>;

    /// The same of the stream of that key. Stores for which two looks cost more than one have a way of their own.
    fn read_key(&self, key: &StreamKey, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        match self.stream(key)? {
            Some(info) => self.read(info.id, from, limits),
            None => Ok(None),
        }
    }

    /// The call of that id.
    fn call(&self, id: CallId) -> Result<Option<CallRecord>, StoreError>;

    /// Calls that have not ended and whose worker is gone: its lease ran out by `now`, or the store knows that its
    /// process died.
    fn lost_calls(&self, now: StoreMillis, limit: u32) -> Result<Vec<CallRecord>, StoreError>;

    /// Timers due at or before `now`, oldest first.
    fn due_timers(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueTimer>, StoreError>;

    /// Aggregates that were met, or cannot be met any more, or whose deadline is at or before `now`, and that have not ended
    /// yet; oldest due first.
    fn due_aggregates(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueAggregate>, StoreError>;

    /// The earliest moment at which there is something to do: a timer or an aggregate is due, a delivery that nobody holds may go or has
    /// waited long enough, or an endpoint has to be verified.
    fn next_due(&self) -> Result<Option<StoreMillis>, StoreError>;

    /// Whether some worker that is not gone `now` has said that it offers that outlet.
    fn offered(&self, outlet: &str, now: StoreMillis) -> Result<bool, StoreError>;

    /// The outlets that deliveries wait for, each once and in order, with the moment at which the first of
    /// them is due.
    fn waiting_outlets(&self) -> Result<Vec<(String, StoreMillis)>, StoreError>;

    /// Deliveries of a principal, about a subject, in a state, each only where it is named; oldest first.
    fn deliveries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, StoreError>;

    /// What was enqueued as that delivery, whatever became of it.
    fn stored_delivery(&self, id: DeliveryId) -> Result<Option<NewDelivery>, StoreError>;

    /// The attempts of a delivery that were settled, in order. Those that a worker began and did not live to settle are
    /// counted by the delivery, and are not here.
    fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>, StoreError>;

    /// What was published after the publish of that number, in order, and how far the log reaches.
    fn publishes(&self, after: u64, limit: u32) -> Result<Publishes, StoreError>;

    /// The endpoint of that key.
    fn endpoint(&self, key: EndpointKey) -> Result<Option<EndpointRecord>, StoreError>;

    /// Endpoints of a principal, or all, in the order in which they came to be.
    fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<EndpointRecord>, StoreError>;

    /// What is kept of what an origin publishes, for that principal, whether or not it still counts.
    fn origin_proof(&self, principal: &str, origin: &str) -> Result<Option<OriginProof>, StoreError>;

    /// The earliest moment at which an endpoint has to be verified.
    fn next_verification(&self) -> Result<Option<StoreMillis>, StoreError>;

    /// How many deliveries of a principal are not finished, counted no further than `most`.
    fn pending(&self, principal: &str, most: u32) -> Result<u32, StoreError>;

    /// What was committed since the last time this was asked, by other processes or by this one. Cheap enough to ask
    /// every few milliseconds; for one caller. A store of one process only answers `Nothing`.
    fn changes(&self) -> Result<Changes, StoreError>;

    /// Whether other processes may use the same store at the same time.
    fn is_shared(&self) -> bool;

    /// Tells at once of commits by other processes, where the store and the system can; [`changes`](Self::changes) is to
    /// be asked now and then all the same. Each call makes a new one.
    #[cfg(unix)]
    fn wake(&self) -> Option<Box<dyn Wake>> {
        None
    }

    /// Flushes and lets go of the medium. Later calls answer `Closed`.
    fn close(&self) -> Result<(), StoreError>;
}
