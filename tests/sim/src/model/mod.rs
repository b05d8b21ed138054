//! What a store must hold, worked out from the operations alone: written from the documentation of the operations, and
//! sharing no code with any store. Every commit passes it, so that what is wrong shows at the commit that did it.

mod calls;
mod deliveries;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidings::proto::stream::StreamId;
use tidings::store::{CallId, Commit, CommitError, DeliveryId, Done, MemoryStore, Op, StreamKey, WorkerId};

pub(crate) use self::calls::CallModel;
pub(crate) use self::deliveries::DeliveryModel;
pub(crate) use self::streams::StreamModel;
use crate::record::Record;

/// The model of everything on the disk.
pub(crate) struct Model {
    record: Arc<Record>,
    pub(crate) streams: BTreeMap<StreamId, StreamModel>,
    pub(crate) by_key: BTreeMap<StreamKey, StreamId>,
    pub(crate) calls: BTreeMap<CallId, CallModel>,
    pub(crate) deliveries: BTreeMap<DeliveryId, DeliveryModel>,
    /// Until when each worker counts as alive.
    workers: BTreeMap<WorkerId, i64>,
    /// Streams to be compared with the store.
    changed: BTreeSet<StreamId>,
}

type Answer = Result<Vec<Done>, CommitError>;

impl Model {
    /// Of an empty disk.
    pub(crate) fn new(record: Arc<Record>) -> Self {
        Self {
            record,
            streams: BTreeMap::new(),
            by_key: BTreeMap::new(),
            calls: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            workers: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// The same, empty: what is left of the disk is put into it again.
    pub(crate) fn reborn(&self) -> Self {
        Self::new(Arc::clone(&self.record))
    }

    /// A commit was answered.
    pub(crate) fn committed(&mut self, commit: &Commit, answer: &Answer, store: &MemoryStore) {
        match answer {
            Err(CommitError::Store(error)) => self.record.violated("I1", format!("the memory store fails: {error}")),
            Err(CommitError::Refused(refused)) => {
                let born = |op: &Op, id| matches!(op, Op::Create { id: created, .. } if created == id);
                let why = commit.ops.iter().any(|op| match op {
                    Op::Append { stream, .. } if commit.ops.iter().any(|other| born(other, stream)) => false,
                    op => self.refuses(op),
                });
                self.record.hold("I1", why, || format!("{refused:?} for no reason: {:?}", commit.ops));
            }
            Ok(done) => {
                self.record.hold("I1", done.len() == commit.ops.len(), || "not one answer an operation".to_owned());
                for (op, done) in commit.ops.iter().zip(done) {
                    self.apply(op, done, commit, store);
                }
            }
        }
    }

    /// Whether the operation alone is one to refuse.
    fn refuses(&self, op: &Op) -> bool {
        match op {
            Op::Create { id, key, .. } => self.by_key.contains_key(key) || self.streams.contains_key(id),
            Op::Claim { key, .. } => self.of_key(key).is_some_and(StreamModel::is_closed),
            Op::AppendShared(append) => self.of_key(&append.key).is_some_and(StreamModel::is_closed),
            Op::AppendOnce { once, append } => {
                self.of_key(&append.key).is_some_and(|stream| stream.is_closed() && stream.known(once).is_none())
            }
            Op::Append { stream, claim, chunks, .. } => {
                self.streams.get(stream).is_none_or(|stream| stream.refuses(*claim, chunks))
            }
            Op::BeginCall(record) => self.calls.contains_key(&record.id),
            Op::EndCall { id, .. } => self.calls.get(id).is_none_or(|call| call.outcome.is_some()),
            Op::BecomeTask { call, .. } | Op::SetTimer { call, .. } => {
                self.calls.get(call).is_none_or(|call| call.outcome.is_some())
            }
            // Which timers and aggregates there are is not modelled.
            Op::FireTimer { .. } | Op::EndAggregate { .. } | Op::JoinGroup(_) | Op::Watch(_) => true,
            Op::Enqueue(new) => self.deliveries.contains_key(&new.id),
            Op::Settle(settle) => self
                .deliveries
                .get(&settle.id)
                .is_none_or(|delivery| !delivery.is_held(settle.token) || self.let_go(delivery, settle.at)),
            Op::Lease(_)
            | Op::LeaseOutlet { .. }
            | Op::Offer { .. }
            | Op::Purge(_)
            | Op::Endpoint(_)
            | Op::TakeUnverified { .. }
            | Op::ProveOrigin(_)
            | Op::Heartbeat { .. }
            | Op::Leave { .. }
            | Op::Publish(_)
            | Op::Trim { .. } => false,
        }
    }

    fn apply(&mut self, op: &Op, done: &Done, commit: &Commit, store: &MemoryStore) {
        match op {
            Op::Heartbeat { worker, until } => _ = self.workers.insert(*worker, *until),
            Op::Leave { worker } => {
                self.workers.remove(worker);
                self.worker_left(*worker);
            }
            Op::BeginCall(record) => self.call_begun(record),
            Op::EndCall { id, outcome, .. } => self.call_ended(*id, outcome, commit, store),
            Op::BecomeTask { call, .. } | Op::SetTimer { call, .. } | Op::FireTimer { call, .. } => {
                let runs = self.calls.get(call).is_some_and(|call| call.outcome.is_none());
                self.record.hold("I5", runs, || format!("something of call {call}, which does not run"));
            }
            Op::Enqueue(new) => self.enqueued(new, commit, store),
            Op::Lease(lease) | Op::LeaseOutlet { lease, .. } => self.leased(lease, done),
            Op::Settle(settle) => self.settled(settle, commit),
            Op::Trim { retention, .. } => self.trimmed(retention.max_events, done, store),
            Op::Create { .. } | Op::Claim { .. } | Op::Append { .. } | Op::AppendShared(_) | Op::AppendOnce { .. } => {
                self.written(op, done)
            }
            Op::Offer { .. }
            | Op::Purge(_)
            | Op::Endpoint(_)
            | Op::TakeUnverified { .. }
            | Op::ProveOrigin(_)
            | Op::Publish(_)
            | Op::JoinGroup(_)
            | Op::Watch(_)
            | Op::EndAggregate { .. } => {}
        }
    }

    /// Whether something is to come to an end yet.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.deliveries.values().any(|delivery| !delivery.state.is_final())
            || self.calls.values().any(|call| call.outcome.is_none())
    }

    /// Whether a worker counts as gone.
    fn is_gone(&self, worker: WorkerId, now: i64) -> bool {
        self.workers.get(&worker).is_none_or(|until| *until <= now)
    }
}
