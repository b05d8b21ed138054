//! What cases are written with.

use std::ops::Deref;

use bytes::Bytes;
use tidings_proto::delivery::EndpointKey;
use tidings_proto::stream::StreamId;
use tidings_proto::time::StoreMillis;

use super::{Harness, Make};
use crate::chunk::{Chunk, ChunkBuilder, Event, NewEvent};
use crate::commit::{AppendShared, Commit, CommitError, Done, Durability, Lease, Op, Refused, Settle};
use crate::flow::Flow;
use crate::record::{
    CallId, CallOutcome, CallRecord, Delivery, DeliveryId, DeliveryState, DeliverySummary, DueAggregate,
    EndpointRecord, NewDelivery, Sealed, StreamInfo, StreamKey, Subject, TimerKind, WorkerId,
};
use crate::store::{DueTimer, ReadLimits, Store};

/// When most cases play.
pub(super) const NOW: StoreMillis = 1_790_000_000_000;
/// After everything that any case sets.
pub(super) const FAR: StoreMillis = NOW + 1_000_000_000;
pub(super) const ALL: u32 = 1_000_000;
pub(super) const W1: WorkerId = WorkerId([0xa1; 16]);
pub(super) const W2: WorkerId = WorkerId([0xa2; 16]);
pub(super) const NO_LIMITS: ReadLimits = ReadLimits { events: u32::MAX, bytes: 1 << 40 };

/// A store over a place of its own, which lives as long as the store.
pub(super) struct Fresh {
    store: Box<dyn Store>,
    _place: Box<dyn Harness>,
}

impl Fresh {
    pub(super) fn open(make: Make<'_>) -> Self {
        let place = make();
        Self { store: place.open(), _place: place }
    }

    /// Opens a store in which `W1` and `W2` are alive until `FAR`.
    pub(super) fn with_workers(make: Make<'_>) -> Self {
        let fresh = Self::open(make);
        done(&*fresh, [heartbeat(W1, FAR), heartbeat(W2, FAR)]);
        fresh
    }
}

impl Deref for Fresh {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

pub(super) fn stream_id(n: u8) -> StreamId {
    StreamId([n; 16])
}

pub(super) fn key(name: &str) -> StreamKey {
    StreamKey::new("session 1", name)
}

pub(super) fn call_id(n: u8) -> CallId {
    CallId::from_bytes([n; 16])
}

pub(super) fn delivery_id(n: u8) -> DeliveryId {
    DeliveryId([n; 16])
}

pub(super) fn outcome(status: &str, reason: Option<&str>) -> CallOutcome {
    CallOutcome { status: status.to_owned(), reason: reason.map(str::to_owned) }
}

/// A chunk of events with these payloads.
#[track_caller]
pub(super) fn chunk(first_seq: u64, payloads: &[&str]) -> Chunk {
    chunk_at(first_seq, payloads, NOW)
}

#[track_caller]
pub(super) fn chunk_at(first_seq: u64, payloads: &[&str], time: i64) -> Chunk {
    let mut builder = ChunkBuilder::default();
    for payload in payloads {
        assert!(builder.push("message", payload.as_bytes(), time, None));
    }
    builder.take(first_seq)
}

pub(super) fn new_event(payload: &str) -> NewEvent {
    NewEvent {
        kind: "message".to_owned(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        time: NOW,
        identity: None,
    }
}

pub(super) fn create(id: StreamId, key: &StreamKey, worker: WorkerId) -> Op {
    Op::Create { id, key: key.clone(), worker }
}

pub(super) fn claim(new_id: StreamId, key: &StreamKey, worker: WorkerId) -> Op {
    Op::Claim { new_id, key: key.clone(), worker }
}

pub(super) fn append(stream: StreamId, claim: u32, chunks: Vec<Chunk>) -> Op {
    Op::Append { stream, claim, chunks, close: false, now: NOW }
}

pub(super) fn append_and_close(stream: StreamId, claim: u32, chunks: Vec<Chunk>, now: StoreMillis) -> Op {
    Op::Append { stream, claim, chunks, close: true, now }
}

pub(super) fn shared(new_id: StreamId, key: &StreamKey, payloads: &[&str]) -> Op {
    let events = payloads.iter().map(|payload| new_event(payload)).collect();
    Op::AppendShared(AppendShared { key: key.clone(), new_id, events, close: false, now: NOW })
}

pub(super) fn shared_and_close(new_id: StreamId, key: &StreamKey, payloads: &[&str], now: StoreMillis) -> Op {
    let events = payloads.iter().map(|payload| new_event(payload)).collect();
    Op::AppendShared(AppendShared { key: key.clone(), new_id, events, close: true, now })
}

pub(super) fn once(new_id: StreamId, key: &StreamKey, once: &str, payloads: &[&str]) -> Op {
    once_of(shared(new_id, key, payloads), once)
}

pub(super) fn once_and_close(new_id: StreamId, key: &StreamKey, once: &str, payloads: &[&str], now: StoreMillis) -> Op {
    once_of(shared_and_close(new_id, key, payloads, now), once)
}

/// A shared append, made once.
fn once_of(op: Op, once: &str) -> Op {
    match op {
        Op::AppendShared(append) => Op::AppendOnce { once: once.to_owned(), append },
        other => other,
    }
}

pub(super) fn record(id: CallId, worker: WorkerId) -> CallRecord {
    CallRecord {
        id,
        principal: "issuer|subject|client".to_owned(),
        session: Some("session 1".to_owned()),
        request_id: "\"7\"".to_owned(),
        tool: "résumé/build".to_owned(),
        config: Sealed(Bytes::from_static(b"{\"routes\":[]}\0\xff")),
        stream: key("call"),
        worker,
        began_at: NOW,
        began_time: NOW - 5,
        outcome: None,
        ended_at: None,
        task: None,
    }
}

pub(super) fn begin(id: CallId, worker: WorkerId) -> Op {
    Op::BeginCall(Box::new(record(id, worker)))
}

pub(super) fn end(id: CallId, status: &str) -> Op {
    Op::EndCall { id, outcome: outcome(status, None), at: NOW, payload: None }
}

pub(super) fn timer(call: CallId, due: StoreMillis) -> Op {
    Op::SetTimer { call, kind: TimerKind::Timeout, due }
}

/// A delivery about call 1 that is due at `due`, created at `NOW + n`.
pub(super) fn new_delivery(n: u8, due: StoreMillis) -> NewDelivery {
    NewDelivery {
        id: delivery_id(n),
        event_id: format!("msg_{n}"),
        subject: Subject::Call(call_id(1)),
        principal: "issuer|subject|client".to_owned(),
        trigger: "completed".to_owned(),
        route_id: "a".to_owned(),
        route: Sealed(Bytes::from_static(b"{\"type\":\"webhook\"}")),
        fallback: Sealed::default(),
        body: Bytes::from_static(b"{\"route\":\"a\",\"n\":1.0}"),
        whole: Sealed::default(),
        route_at: (9, 12),
        due,
        outlet: None,
        deadline: FAR,
        created_at: NOW + StoreMillis::from(n),
        endpoint: endpoint_key(1),
        fifo_key: None,
        wait_until: FAR,
        seq: None,
        batch: None,
    }
}

pub(super) fn endpoint_key(n: u8) -> EndpointKey {
    EndpointKey([n; 32])
}

pub(super) fn enqueue(n: u8, due: StoreMillis) -> Op {
    Op::Enqueue(Box::new(new_delivery(n, due)))
}

pub(super) fn lease_op(worker: WorkerId, now: StoreMillis, until: StoreMillis, limit: u32) -> Op {
    Op::Lease(Lease { worker, now, until, limit, flow: Flow::unlimited() })
}

/// Leases in a commit of its own.
#[track_caller]
pub(super) fn lease(
    store: &dyn Store,
    worker: WorkerId,
    now: StoreMillis,
    until: StoreMillis,
    limit: u32,
) -> Vec<Delivery> {
    match done(store, [lease_op(worker, now, until, limit)]).remove(0) {
        Done::Leased(leased) => leased,
        other => panic!("a lease answers `Leased`, not {other:?}"),
    }
}

/// Leases the only delivery that is due.
#[track_caller]
pub(super) fn lease_one(store: &dyn Store, worker: WorkerId, now: StoreMillis, until: StoreMillis) -> Delivery {
    let mut leased = lease(store, worker, now, until, 10);
    assert_eq!(leased.len(), 1, "one delivery is due: {leased:?}");
    leased.remove(0)
}

/// Settles an attempt that failed or succeeded; it counts, and is due again a second later.
pub(super) fn settle(delivery: &Delivery, state: DeliveryState, at: StoreMillis) -> Settle {
    let error = (state != DeliveryState::Delivered).then(|| "timeout".to_owned());
    Settle { id: delivery.new.id, token: delivery.token, state, due: at + 1_000, counts: true, error, at }
}

pub(super) fn settle_op(settle: Settle) -> Op {
    Op::Settle(Box::new(settle))
}

pub(super) fn heartbeat(worker: WorkerId, until: StoreMillis) -> Op {
    Op::Heartbeat { worker, until }
}

/// Does one commit that must succeed, and answers what it answered.
#[track_caller]
pub(super) fn done(store: &dyn Store, ops: impl IntoIterator<Item = Op>) -> Vec<Done> {
    match one(store, ops) {
        Ok(done) => done,
        Err(error) => panic!("the commit must succeed: {error} ({error:?})"),
    }
}

/// Does one commit that must be refused, and answers why it was. That nothing changed is checked as well.
#[track_caller]
pub(super) fn refused(store: &dyn Store, ops: impl IntoIterator<Item = Op>) -> Refused {
    let before = World::of(store);
    let refused = match one(store, ops) {
        Ok(done) => panic!("the commit must be refused: {done:?}"),
        Err(CommitError::Refused(refused)) => refused,
        Err(CommitError::Store(error)) => panic!("refused by the rules, not by a failure: {error}"),
    };
    assert_eq!(World::of(store), before, "a refused commit leaves everything as it was");
    refused
}

#[track_caller]
fn one(store: &dyn Store, ops: impl IntoIterator<Item = Op>) -> Result<Vec<Done>, CommitError> {
    let commit = Commit::new(Durability::Process, ops.into_iter().collect());
    let asked = commit.ops.len();
    let mut answers = store.commit(&[commit]);
    assert_eq!(answers.len(), 1, "one answer for each commit");
    let answer = answers.remove(0);
    if let Ok(done) = &answer {
        assert_eq!(done.len(), asked, "one `Done` for each operation");
    }
    answer
}

/// Does a group of commits.
#[track_caller]
pub(super) fn group(store: &dyn Store, commits: Vec<Vec<Op>>) -> Vec<Result<Vec<Done>, Refused>> {
    let group: Vec<_> = commits.into_iter().map(|ops| Commit::new(Durability::Process, ops)).collect();
    let answers = store.commit(&group);
    assert_eq!(answers.len(), group.len(), "one answer for each commit");
    let told = |answer: Result<Vec<Done>, CommitError>| {
        answer.map_err(|error| match error {
            CommitError::Refused(refused) => refused,
            CommitError::Store(error) => panic!("the store must not fail: {error}"),
        })
    };
    answers.into_iter().map(told).collect()
}

/// What stands under one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Event(Event),
    /// Under a tombstone.
    Lost(u64),
}

/// What stands in these chunks, number by number, after checking that they follow on each other.
#[track_caller]
pub(super) fn slots(chunks: &[Chunk]) -> Vec<Slot> {
    let mut slots = Vec::new();
    let mut next = chunks.first().map_or(0, |chunk| chunk.first_seq);
    for chunk in chunks {
        assert_eq!(chunk.first_seq, next, "chunks follow on each other");
        next = chunk.end();
        match &chunk.data {
            None => slots.extend((chunk.first_seq..chunk.end()).map(Slot::Lost)),
            Some(_) => {
                let events: Vec<_> = chunk.events().collect();
                assert_eq!(events.len() as u64, u64::from(chunk.count), "a chunk holds as many events as it says");
                slots.extend(events.into_iter().map(Slot::Event));
            }
        }
    }
    slots
}

/// All that is retained of a stream, number by number, and its info.
#[track_caller]
pub(super) fn retained(store: &dyn Store, id: StreamId) -> Option<(StreamInfo, Vec<Slot>)> {
    let page = store.read(id, 0, NO_LIMITS).expect("reads")?;
    let skip = match page.chunks.first() {
        Some(first) => {
            assert!(first.first_seq <= page.info.earliest && page.info.earliest < first.end());
            usize::try_from(page.info.earliest - first.first_seq).expect("small")
        }
        None => 0,
    };
    let slots = slots(&page.chunks).split_off(skip);
    assert_eq!(slots.len() as u64, page.info.next_seq - page.info.earliest, "everything retained is read");
    Some((page.info, slots))
}

/// The payloads of all retained events, as text; a lost one as `<lost>`.
#[track_caller]
pub(super) fn payloads(store: &dyn Store, id: StreamId) -> Vec<String> {
    let (_, slots) = retained(store, id).expect("the stream is there");
    let text = |slot: &Slot| match slot {
        Slot::Event(event) => String::from_utf8_lossy(&event.payload).into_owned(),
        Slot::Lost(_) => "<lost>".to_owned(),
    };
    slots.iter().map(text).collect()
}

#[track_caller]
pub(super) fn info(store: &dyn Store, key: &StreamKey) -> StreamInfo {
    store.stream(key).expect("reads").expect("the stream is there")
}

#[track_caller]
pub(super) fn summaries(store: &dyn Store) -> Vec<DeliverySummary> {
    store.deliveries(None, None, None, ALL).expect("reads")
}

type Seen = (StreamInfo, Vec<Slot>, Vec<Option<u64>>);

/// Everything the cases put into a store, as its reads tell it. Cases use the streams `call`, `a` and `b` of session 1,
/// and the calls 1 to 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct World {
    /// Info, what is retained, and where each claim began.
    streams: Vec<Option<Seen>>,
    calls: Vec<Option<CallRecord>>,
    lost: Vec<CallId>,
    timers: Vec<DueTimer>,
    aggregates: Vec<DueAggregate>,
    deliveries: Vec<DeliverySummary>,
    endpoints: Vec<EndpointRecord>,
    next_due: Option<StoreMillis>,
}

impl World {
    #[track_caller]
    pub(super) fn of(store: &dyn Store) -> Self {
        let stream = |name: &&str| {
            let found = store.stream(&key(name)).expect("reads")?;
            let (info, slots) = retained(store, found.id).expect("found by key, found by id");
            assert_eq!(info, found, "the same by key and by id");
            let claims = (0..found.claim + 1).map(|claim| store.next_claim_first(found.id, claim).expect("reads"));
            Some((info, slots, claims.collect()))
        };
        let mut lost: Vec<_> = store.lost_calls(NOW, ALL).expect("reads").iter().map(|call| call.id).collect();
        lost.sort_unstable();
        Self {
            streams: ["call", "a", "b"].iter().map(stream).collect(),
            calls: (1..=4).map(|n| store.call(call_id(n)).expect("reads")).collect(),
            lost,
            timers: store.due_timers(FAR, ALL).expect("reads"),
            aggregates: store.due_aggregates(FAR, ALL).expect("reads"),
            deliveries: summaries(store),
            endpoints: store.endpoints(None, ALL).expect("reads"),
            next_due: store.next_due().expect("reads"),
        }
    }

    /// Without what it says of workers: a store may know that a process let go of it.
    pub(super) fn without_workers(mut self) -> Self {
        self.lost.clear();
        for (info, ..) in self.streams.iter_mut().flatten() {
            info.owner_gone = false;
        }
        self
    }
}
