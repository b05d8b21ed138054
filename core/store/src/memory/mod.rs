//! A store that keeps everything in memory, for tests and for servers whose streams need not outlive the process.

mod calls;
mod deliveries;
mod groups;
mod keys;
mod lines;
mod publishes;
mod streams;
mod trim;
mod workers;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidings_proto::delivery::EndpointKey;
use tidings_proto::stream::StreamId;
use tidings_proto::time::{StoreMillis, UnixMillis};

use self::calls::Calls;
use self::deliveries::Deliveries;
use self::groups::Groups;
use self::streams::Streams;
use self::workers::Workers;
use crate::commit::{Commit, CommitError, Done, Op, Refused};
use crate::error::{StoreError, StoreErrorKind};
use crate::publish::Publishes;
use crate::record::{
    AttemptRecord, CallId, CallRecord, DeliveryId, DeliveryState, DeliverySummary, DueAggregate, EndpointRecord,
    NewDelivery, OriginProof, StreamInfo, StreamKey, Subject,
};
use crate::store::{Boot, Changes, DueTimer, Page, ReadLimits, Store};

/// Keeps everything in memory, behind one lock. Both durabilities mean "until the process ends".
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        // Nothing in here panics between two changes that belong together, so what a poisoned lock guards is whole.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(StoreError::new(StoreErrorKind::Closed, "the memory store was closed"));
        }
        Ok(state)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    streams: Streams,
    calls: Calls,
    deliveries: Deliveries,
    groups: Groups,
    workers: Workers,
    publishes: publishes::Log,
    sweep: trim::Sweep,
    clock: Clock,
    closed: bool,
}

/// How to take back what an operation of a commit did, if a later one is refused. Taken back in reverse order.
enum Undo {
    Stream(streams::Undo),
    Call(calls::Undo),
    Delivery(deliveries::Undo),
    Line(lines::Undo),
    Worker(workers::Undo),
    Publish(publishes::Undo),
    Group(groups::Undo),
}

impl State {
    /// Each operation checks all its conditions before it changes anything, so only the operations before a refused one
    /// have to be taken back.
    fn commit(&mut self, commit: &Commit) -> Result<Vec<Done>, CommitError> {
        let mut undo = Vec::new();
        let mut done = Vec::with_capacity(commit.ops.len());
        for op in &commit.ops {
            match self.apply(op, &mut undo) {
                Ok(answer) => done.push(answer),
                Err(refused) => {
                    while let Some(step) = undo.pop() {
                        self.take_back(step);
                    }
                    return Err(refused);
                }
            }
        }
        Ok(done)
    }

    fn apply(&mut self, op: &Op, undo: &mut Vec<Undo>) -> Result<Done, CommitError> {
        match op {
            Op::Create { id, key, worker } => self.streams.create(*id, key, *worker, undo),
            Op::Claim { new_id, key, worker } => self.streams.claim(*new_id, key, *worker, undo),
            Op::Append { stream, claim, chunks, close, now } => {
                self.clock.saw(*now);
                self.streams.append(*stream, *claim, chunks, close.then_some(*now), undo)
            }
            Op::AppendShared(append) => {
                self.clock.saw(append.now);
                self.streams.append_shared(append, undo)
            }
            Op::AppendOnce { once, append } => {
                self.clock.saw(append.now);
                self.streams.append_once(once, append, undo)
            }
            Op::BeginCall(record) => self.calls.begin(record, undo),
            Op::EndCall { id, outcome, at, payload } => {
                self.clock.saw(*at);
                let done = self.calls.end(*id, outcome, *at, payload.as_ref(), undo)?;
                self.groups.call_ended(*id, outcome, *at, undo);
                Ok(done)
            }
            Op::BecomeTask { call, terms } => self.calls.become_task(*call, *terms, undo),
            Op::SetTimer { call, kind, due } => self.calls.set_timer(*call, *kind, *due, undo),
            Op::FireTimer { call, kind, due, next } => self.calls.fire_timer(*call, *kind, *due, *next, undo),
            Op::JoinGroup(join) => {
                self.clock.saw(join.now);
                self.calls.check_running(join.call)?;
                self.groups.join(join, undo)
            }
            Op::Watch(watch) => {
                self.clock.saw(watch.now);
                self.calls.get(watch.new.call).ok_or(Refused::Unknown)?;
                self.groups.watch(watch, undo)
            }
            Op::EndAggregate { id, verdict } => self.groups.end(*id, *verdict, undo),
            Op::Enqueue(new) => self.deliveries.enqueue(new, undo),
            Op::Lease(lease) => {
                self.clock.saw(lease.now);
                Ok(Done::Leased(self.deliveries.lease(lease, &self.workers, undo)))
            }
            Op::LeaseOutlet { lease, outlet } => {
                self.clock.saw(lease.now);
                Ok(Done::Leased(self.deliveries.lease_outlet(lease, outlet, undo)))
            }
            Op::Settle(settle) => {
                self.clock.saw(settle.at);
                self.deliveries.settle(settle, undo)
            }
            Op::Purge(purge) => Ok(Done::Purged(self.deliveries.purge(purge, undo))),
            Op::Endpoint(news) => {
                self.clock.saw(news.now);
                self.deliveries.learn(news, undo);
                Ok(Done::Nothing)
            }
            Op::TakeUnverified { now, until, limit } => {
                self.clock.saw(*now);
                Ok(Done::Verify(self.deliveries.lines.take_unverified(*now, *until, *limit, undo)))
            }
            Op::ProveOrigin(proof) => {
                self.deliveries.lines.prove_origin(proof, undo);
                Ok(Done::Nothing)
            }
            Op::Heartbeat { worker, until } => {
                self.workers.heartbeat(*worker, *until, undo);
                Ok(Done::Nothing)
            }
            Op::Offer { worker, outlet, offered } => {
                self.workers.offer(*worker, outlet, *offered, undo);
                Ok(Done::Nothing)
            }
            Op::Leave { worker } => {
                self.workers.leave(*worker, undo);
                self.deliveries.release(*worker, undo);
                Ok(Done::Nothing)
            }
            Op::Publish(publish) => {
                self.publishes.publish(publish, undo);
                Ok(Done::Nothing)
            }
            Op::Trim { now, wall, retention, keep_finished_ms } => {
                self.clock.saw(*now);
                Ok(self.trim(*now, *wall, retention, *keep_finished_ms, undo))
            }
        }
    }

    fn take_back(&mut self, step: Undo) {
        match step {
            Undo::Stream(step) => self.streams.take_back(step),
            Undo::Call(step) => self.calls.take_back(step),
            Undo::Delivery(step) => self.deliveries.take_back(step),
            Undo::Line(step) => self.deliveries.lines.take_back(step),
            Undo::Worker(step) => self.workers.take_back(step),
            Undo::Publish(step) => self.publishes.take_back(step),
            Undo::Group(step) => self.groups.take_back(step),
        }
    }
}

/// The store's timeline.
#[derive(Default)]
struct Clock {
    offsets: BTreeMap<String, i64>,
    /// The latest moment anybody has stood at.
    latest: Option<StoreMillis>,
}

impl Clock {
    fn saw(&mut self, now: StoreMillis) {
        self.latest = self.latest.max(Some(now));
    }

    fn offset(&mut self, boot: &Boot, wall: UnixMillis) -> i64 {
        let latest = self.latest;
        let offset = *self.offsets.entry(boot.id.clone()).or_insert_with(|| {
            let start = latest.map_or(wall, |latest| latest.max(wall));
            start.saturating_sub(boot.now_ms)
        });
        self.saw(offset.saturating_add(boot.now_ms));
        offset
    }
}

impl Store for MemoryStore {
    fn commit(&self, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>> {
        match self.open() {
            Ok(mut state) => group.iter().map(|commit| state.commit(commit)).collect(),
            Err(error) => group.iter().map(|_| Err(CommitError::Store(error.clone()))).collect(),
        }
    }

    fn timeline(&self, boot: &Boot, wall: UnixMillis) -> Result<i64, StoreError> {
        Ok(self.open()?.clock.offset(boot, wall))
    }

    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>, StoreError> {
        let state = self.open()?;
        Ok(state.streams.by_key(key).map(|stream| stream.info(&state.workers)))
    }

    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>, StoreError> {
        let state = self.open()?;
        Ok(state.streams.by_id(id).map(|stream| stream.info(&state.workers)))
    }

    fn next_claim_first(&self, id: StreamId, claim: u32) -> Result<Option<u64>, StoreError> {
        Ok(self.open()?.streams.by_id(id).and_then(|stream| stream.next_claim_first(claim)))
    }

    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        let state = self.open()?;
        let page =
            |stream: &streams::Stream| Page { chunks: stream.read(from, limits), info: stream.info(&state.workers) };
        Ok(state.streams.by_id(id).map(page))
    }

    fn call(&self, id: CallId) -> Result<Option<CallRecord>, StoreError> {
        Ok(self.open()?.calls.get(id).cloned())
    }

    fn lost_calls(&self, now: StoreMillis, limit: u32) -> Result<Vec<CallRecord>, StoreError> {
        let state = self.open()?;
        Ok(state.calls.running_of(|worker| state.workers.gone(worker, now), limit))
    }

    fn due_timers(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueTimer>, StoreError> {
        Ok(self.open()?.calls.due_timers(now, limit))
    }

    fn due_aggregates(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueAggregate>, StoreError> {
        Ok(self.open()?.groups.due(now, limit))
    }

    fn next_due(&self) -> Result<Option<StoreMillis>, StoreError> {
        let state = self.open()?;
        let due = [state.calls.next_timer(), state.deliveries.next_due(), state.groups.next_due()];
        Ok(due.into_iter().flatten().min())
    }

    fn offered(&self, outlet: &str, now: StoreMillis) -> Result<bool, StoreError> {
        Ok(self.open()?.workers.offered(outlet, now))
    }

    fn waiting_outlets(&self) -> Result<Vec<(String, StoreMillis)>, StoreError> {
        Ok(self.open()?.deliveries.waiting_outlets())
    }

    fn deliveries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, StoreError> {
        Ok(self.open()?.deliveries.summaries(principal, subject, state, limit))
    }

    fn stored_delivery(&self, id: DeliveryId) -> Result<Option<NewDelivery>, StoreError> {
        Ok(self.open()?.deliveries.stored(id))
    }

    fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(self.open()?.deliveries.attempts(id))
    }

    fn publishes(&self, after: u64, limit: u32) -> Result<Publishes, StoreError> {
        Ok(self.open()?.publishes.read(after, limit))
    }

    fn endpoint(&self, key: EndpointKey) -> Result<Option<EndpointRecord>, StoreError> {
        Ok(self.open()?.deliveries.lines.record(key))
    }

    fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<EndpointRecord>, StoreError> {
        Ok(self.open()?.deliveries.endpoints(principal, limit))
    }

    fn origin_proof(&self, principal: &str, origin: &str) -> Result<Option<OriginProof>, StoreError> {
        Ok(self.open()?.deliveries.lines.origin_proof(principal, origin))
    }

    fn next_verification(&self) -> Result<Option<StoreMillis>, StoreError> {
        Ok(self.open()?.deliveries.lines.next_verification())
    }

    fn pending(&self, principal: &str, most: u32) -> Result<u32, StoreError> {
        Ok(self.open()?.deliveries.pending(principal, most))
    }

    fn changes(&self) -> Result<Changes, StoreError> {
        self.open().map(|_| Changes::Nothing)
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn close(&self) -> Result<(), StoreError> {
        let mut state = self.open()?;
        *state = State { closed: true, ..State::default() };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::commit::Durability;
    use crate::record::WorkerId;

    /// Everything an operation before the refused one can do is taken back, evicted chunks and removed streams included.
    #[test]
    fn a_refused_commit_brings_back_what_it_trimmed() {
        let store = MemoryStore::new();
        let (long, old, worker) = (StreamId([1; 16]), StreamId([2; 16]), WorkerId([3; 16]));
        let create = |id, name| Op::Create { id, key: StreamKey::new("s", name), worker };
        let append = |stream, chunks, close| Op::Append { stream, claim: 1, chunks, close, now: 5 };
        let chunks = vec![Chunk::lost(0, 10, 0), Chunk::lost(10, 10, 0)];
        let ops =
            vec![create(long, "long"), create(old, "old"), append(long, chunks, false), append(old, vec![], true)];
        assert!(store.commit(&[Commit::new(Durability::Process, ops)]).remove(0).is_ok());

        let read = |id| store.read(id, 0, ReadLimits::default()).expect("open");
        let (long_before, old_before) = (read(long), read(old));
        let retention = tidings_proto::stream::Retention {
            max_events: Some(5),
            after_close_ms: Some(1),
            ..tidings_proto::stream::Retention::UNLIMITED
        };
        let trim = Op::Trim { now: 100, wall: 100, retention, keep_finished_ms: 0 };
        let refused = append(StreamId([9; 16]), vec![], false);
        let commits = [
            Commit::new(
                Durability::Process,
                vec![trim.clone(), append(long, vec![Chunk::lost(20, 1, 0)], false), refused],
            ),
            Commit::new(Durability::Process, vec![trim]),
        ];
        let mut answers = store.commit(&commits).into_iter();
        assert!(matches!(answers.next(), Some(Err(CommitError::Refused(Refused::Unknown)))));
        let trimmed = answers.next().expect("two").expect("never refused");
        assert_eq!(trimmed, [Done::Trimmed { events: 15, more: false }], "the same work was there to do again");
        assert!(old_before.is_some() && read(old).is_none());
        let (before, after) = (long_before.expect("there"), read(long).expect("there"));
        assert_eq!((before.info.earliest, before.info.next_seq, before.chunks.len()), (0, 20, 2));
        assert_eq!((after.info.earliest, after.info.next_seq, after.chunks.len()), (15, 20, 1));
    }
}
