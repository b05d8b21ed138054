//! Random sequences of commits. A step names things by small numbers and by what is true of them ("the right claim", "an
//! old token"); the model says what that means at the moment.

use proptest::collection::vec;
use proptest::prelude::*;
use tidings_proto::stream::{Retention, StreamId};
use tidings_proto::time::StoreMillis;

use super::fixtures::{NOW, chunk, new_delivery, new_event, outcome, record};
use super::model::Model;
use crate::chunk::Chunk;
use crate::commit::{AppendShared, Lease, Op, Settle};
use crate::flow::Flow;
use crate::record::{
    CallId, DeliveryId, DeliveryState, NewDelivery, Outlet, StreamKey, Subject, TaskTerms, TimerKind, WorkerId,
};

/// What happens at one moment.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// Seconds since the turn before.
    pub(super) advance: i64,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// A group of commits.
    Group(Vec<Vec<Step>>),
    /// Retention, until there is no more to do: events, seconds after close, seconds after the end.
    Trim(u64, u64, i64),
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Create { key: u8, worker: u8 },
    Claim { key: u8, worker: u8 },
    Append { key: u8, claim: Aim, number: Aim, chunks: Vec<u8>, close: bool },
    AppendShared { key: u8, events: u8, close: bool },
    AppendOnce { key: u8, once: u8, events: u8, close: bool },
    Begin { again: Option<u8>, worker: u8 },
    End { call: u8 },
    BecomeTask { call: u8, bound: bool },
    Timer { call: u8, after: i64 },
    Enqueue { again: Option<u8>, call: bool, after: i64, outlet: Option<(u8, i64)> },
    Lease { worker: u8, limit: u32, secs: i64, outlet: Option<u8> },
    Settle { delivery: u8, token: Aim, state: DeliveryState, after: i64, counts: bool },
    Heartbeat { worker: u8, secs: i64 },
    Leave { worker: u8 },
}

/// Whether a step names what is true.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    Exact,
    TooLow,
    TooHigh,
}

impl Aim {
    fn number(self, right: u64) -> u64 {
        match self {
            Self::Exact => right,
            Self::TooLow => right.saturating_sub(1),
            Self::TooHigh => right + 1,
        }
    }
}

pub(super) const KEYS: u8 = 4;
const WORKERS: u8 = 3;

pub(super) fn key(n: u8) -> StreamKey {
    match n {
        0 => StreamKey::new("", ""),
        1 => StreamKey::new("a", "b_c"),
        2 => StreamKey::new("a_b", "c"),
        _ => StreamKey::new("a", "b c"),
    }
}

pub(super) fn worker(n: u8) -> WorkerId {
    WorkerId([0xa0 + n; 16])
}

pub(super) fn workers() -> impl Iterator<Item = WorkerId> {
    (0..WORKERS).map(worker)
}

/// Mostly exact.
fn aim() -> impl Strategy<Value = Aim> + Clone {
    prop_oneof![10 => Just(Aim::Exact), 1 => Just(Aim::TooLow), 1 => Just(Aim::TooHigh)]
}

fn again() -> impl Strategy<Value = Option<u8>> + Clone {
    prop_oneof![6 => Just(None), 1 => any::<u8>().prop_map(Some)]
}

fn seldom() -> impl Strategy<Value = bool> + Clone {
    prop::bool::weighted(0.1)
}

fn step() -> impl Strategy<Value = Step> {
    use DeliveryState::{Dead, Delivered, Expired, Retrying, Superseded};
    let key = 0..KEYS;
    let worker = 0..WORKERS;
    let state = prop_oneof![
        4 => Just(Retrying), 1 => Just(Delivered), 1 => Just(Dead), 1 => Just(Expired), 1 => Just(Superseded)
    ];
    prop_oneof![
        1 => (key.clone(), worker.clone()).prop_map(|(key, worker)| Step::Create { key, worker }),
        2 => (key.clone(), worker.clone()).prop_map(|(key, worker)| Step::Claim { key, worker }),
        6 => (key.clone(), aim(), aim(), vec(0..4_u8, 0..3), seldom())
            .prop_map(|(key, claim, number, chunks, close)| Step::Append { key, claim, number, chunks, close }),
        3 => (key.clone(), 0..4_u8, seldom())
            .prop_map(|(key, events, close)| Step::AppendShared { key, events, close }),
        3 => (key, 0..4_u8, 1..4_u8, seldom())
            .prop_map(|(key, once, events, close)| Step::AppendOnce { key, once, events, close }),
        2 => (again(), worker.clone()).prop_map(|(again, worker)| Step::Begin { again, worker }),
        2 => any::<u8>().prop_map(|call| Step::End { call }),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(call, bound)| Step::BecomeTask { call, bound }),
        2 => (any::<u8>(), 0..20_i64).prop_map(|(call, after)| Step::Timer { call, after }),
        4 => (again(), any::<bool>(), 0..5_i64, prop::option::weighted(0.4, (0..2_u8, 0..9_i64)))
            .prop_map(|(again, call, after, outlet)| Step::Enqueue { again, call, after, outlet }),
        4 => (worker.clone(), 0..4_u32, 0..8_i64, prop::option::weighted(0.4, 0..2_u8))
            .prop_map(|(worker, limit, secs, outlet)| Step::Lease { worker, limit, secs, outlet }),
        5 => (any::<u8>(), aim(), state, 0..5_i64, prop::bool::weighted(0.7)).prop_map(
            |(delivery, token, state, after, counts)| Step::Settle { delivery, token, state, after, counts }
        ),
        2 => (worker.clone(), 0..20_i64).prop_map(|(worker, secs)| Step::Heartbeat { worker, secs }),
        1 => worker.prop_map(|worker| Step::Leave { worker }),
    ]
}

pub(super) fn script() -> impl Strategy<Value = Vec<Turn>> {
    let what = prop_oneof![
        8 => vec(vec(step(), 1..4), 1..4).prop_map(What::Group),
        1 => (0..6_u64, 0..20_u64, 0..20_i64).prop_map(|(events, close, end)| What::Trim(events, close, end)),
    ];
    vec((0..4_i64, what).prop_map(|(advance, what)| Turn { advance, what }), 1..30)
}

/// Gives out ids and moments of which no two are the same.
///
/// It is always a whole second; leases end a quarter past, retention reaches to the half, and no two things are due at
/// the same moment, so that nothing is left open.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) now: StoreMillis,
    given: u32,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { now: NOW, given: 0 }
    }

    fn unique(&mut self) -> i64 {
        self.given += 1;
        self.given.into()
    }

    fn id(&mut self) -> [u8; 16] {
        // Not in the order of giving out, so that no store's order by id is taken for the order of time.
        (u128::try_from(self.unique()).unwrap_or(1))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
            .to_be_bytes()
    }

    fn due(&mut self, after: i64) -> StoreMillis {
        self.now + after * 1_000 + self.unique()
    }

    fn end(&self, secs: i64) -> StoreMillis {
        self.now + secs * 1_000 + 250
    }
}

fn pick<T>(list: &[T], n: u8) -> Option<&T> {
    list.get(usize::from(n) % list.len().max(1))
}

pub(super) fn trim(clock: &Clock, max_events: u64, close: u64, end: i64) -> Op {
    let retention =
        Retention { max_events: Some(max_events), after_close_ms: Some(close * 1_000 + 500), ..Retention::UNLIMITED };
    Op::Trim { now: clock.now, wall: clock.now, retention, keep_finished_ms: end * 1_000 + 500 }
}

/// What a step means in a store of that state.
pub(super) fn resolve(step: &Step, model: &Model, clock: &mut Clock) -> Op {
    let now = clock.now;
    match step {
        Step::Create { key: k, worker: w } => Op::Create { id: StreamId(clock.id()), key: key(*k), worker: worker(*w) },
        Step::Claim { key: k, worker: w } => {
            Op::Claim { new_id: StreamId(clock.id()), key: key(*k), worker: worker(*w) }
        }
        Step::Append { key: k, claim, number, chunks, close } => {
            let found = model.stream(&key(*k));
            let (id, newest, next) =
                found.map_or((StreamId([0; 16]), 1, 0), |stream| (stream.id, stream.claim(), stream.next_seq()));
            let mut next = number.number(next);
            let mut packed = Vec::new();
            for count in chunks {
                let chunk = match count {
                    0 => Chunk::lost(next, 2, now),
                    _ => chunk(next, &["1.0", "", "\"\\ud800\""][..usize::from(*count)]),
                };
                next = chunk.end();
                packed.push(chunk);
            }
            let claim = u32::try_from(claim.number(newest.into())).unwrap_or(u32::MAX);
            Op::Append { stream: id, claim, chunks: packed, close: *close, now }
        }
        Step::AppendShared { key: k, events, close } => Op::AppendShared(append_shared(*k, *events, *close, clock)),
        Step::AppendOnce { key: k, once, events, close } => {
            Op::AppendOnce { once: format!("key {once}"), append: append_shared(*k, *events, *close, clock) }
        }
        Step::Begin { again, worker: w } => {
            let again = again.and_then(|n| pick(&model.calls, n)).map(|call| call.record.id);
            Op::BeginCall(Box::new(record(again.unwrap_or_else(|| CallId::from_bytes(clock.id())), worker(*w))))
        }
        Step::End { call } => {
            let id = call_of(model, *call);
            let number = format!("{}", clock.unique());
            Op::EndCall { id, outcome: outcome("failed", Some(&number)), at: now, payload: Some(number.into()) }
        }
        Step::BecomeTask { call, bound } => {
            let ttl_ms = u64::try_from(clock.unique()).unwrap_or_default();
            Op::BecomeTask { call: call_of(model, *call), terms: TaskTerms { ttl_ms, bound: *bound } }
        }
        Step::Timer { call, after } => {
            Op::SetTimer { call: call_of(model, *call), kind: TimerKind::Timeout, due: clock.due(*after) }
        }
        Step::Enqueue { again, call, after, outlet } => {
            let again = again.and_then(|n| pick(&model.deliveries, n)).map(|row| row.new.id);
            let id = again.unwrap_or_else(|| DeliveryId(clock.id()));
            let subject = if *call { subjects()[0].clone() } else { subjects()[1].clone() };
            let due = clock.due(*after);
            let outlet = outlet.as_ref().map(|(name, secs)| Outlet { name: name.to_string(), until: clock.end(*secs) });
            let created_at = now + clock.unique();
            Op::Enqueue(Box::new(NewDelivery { id, subject, created_at, outlet, ..new_delivery(1, due) }))
        }
        Step::Lease { worker: w, limit, secs, outlet } => {
            let (worker, until, flow) = (worker(*w), clock.end(*secs), Flow::unlimited());
            let lease = Lease { worker, now, until, limit: *limit, flow };
            match outlet {
                Some(name) => Op::LeaseOutlet { lease, outlet: name.to_string() },
                None => Op::Lease(lease),
            }
        }
        Step::Settle { delivery, token, state, after, counts } => {
            // Where it can be, one that is leased.
            let leased: Vec<_> = model.deliveries.iter().filter(|row| row.state == DeliveryState::Leased).collect();
            let row = pick(&leased, *delivery).copied().or_else(|| pick(&model.deliveries, *delivery));
            let (id, right) = row.map_or((DeliveryId([0; 16]), 1), |row| (row.new.id, row.token.unwrap_or(1 << 62)));
            let (token, error) = (token.number(right), Some(format!("error {}", clock.unique())));
            let due = clock.due(*after);
            Op::Settle(Box::new(Settle { id, token, state: *state, due, counts: *counts, error, at: now }))
        }
        Step::Heartbeat { worker: w, secs } => Op::Heartbeat { worker: worker(*w), until: clock.end(*secs) },
        Step::Leave { worker: w } => Op::Leave { worker: worker(*w) },
    }
}

fn append_shared(k: u8, events: u8, close: bool, clock: &mut Clock) -> AppendShared {
    let events = (0..events).map(|n| new_event(&format!("{n}.0"))).collect();
    AppendShared { key: key(k), new_id: StreamId(clock.id()), events, close, now: clock.now }
}

fn call_of(model: &Model, n: u8) -> CallId {
    pick(&model.calls, n).map_or(CallId::from_bytes([0; 16]), |call| call.record.id)
}

pub(super) fn subjects() -> [Subject; 2] {
    [Subject::Call(CallId::from_bytes([1; 16])), Subject::Subscription(CallId::from_bytes([1; 16]).to_string())]
}
