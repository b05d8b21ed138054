//! What a store does, said as plainly as possible: lists that are searched from the front, and a copy of everything for
//! each commit. Slow, and right at a glance.

use tidings_proto::stream::{Retention, StreamId};
use tidings_proto::time::StoreMillis;

use super::fixtures::Slot;
use crate::chunk::{Event, NewEvent};
use crate::commit::{Claimed, Done, Lease, Op, Refused, Settle};
use crate::record::{
    CallRecord, Delivery, DeliveryId, DeliveryState, DeliverySummary, NewDelivery, StreamInfo, StreamKey, Taken,
    TimerKind, WorkerId,
};
use crate::store::DueTimer;

/// A store's whole state. Epochs and tokens are the store's own to choose: epochs are 0 in here, tokens are told.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) streams: Vec<Stream>,
    pub(super) calls: Vec<Call>,
    pub(super) deliveries: Vec<Row>,
    pub(super) workers: Vec<(WorkerId, StoreMillis)>,
    /// Those that left and have not come back.
    left: Vec<WorkerId>,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) key: StreamKey,
    /// The writer of the newest claim, if it is owned.
    pub(super) owner: Option<WorkerId>,
    /// The first number of each claim.
    pub(super) claims: Vec<u64>,
    /// All that ever was; number `n` at `n`.
    pub(super) slots: Vec<Slot>,
    pub(super) earliest: u64,
    pub(super) closed_at: Option<StoreMillis>,
    /// Every key of an append that was made once, and its first number.
    keys: Vec<(String, u64)>,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) record: CallRecord,
    pub(super) timer: Option<StoreMillis>,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) new: NewDelivery,
    pub(super) state: DeliveryState,
    pub(super) begun: u32,
    /// `None` while the store has not told it.
    pub(super) token: Option<u64>,
    holder: WorkerId,
    until: StoreMillis,
    error: Option<String>,
    settled_at: StoreMillis,
}

impl Stream {
    pub(super) fn claim(&self) -> u32 {
        self.claims.len() as u32
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.slots.len() as u64
    }

    pub(super) fn retained(&self) -> &[Slot] {
        &self.slots[self.earliest as usize..]
    }
}

impl Row {
    pub(super) fn waits(&self) -> bool {
        self.state == DeliveryState::Pending || self.state == DeliveryState::Retrying
    }

    fn free_at(&self) -> StoreMillis {
        self.new.outlet.as_ref().map_or(self.new.due, |outlet| outlet.until.max(self.new.due))
    }

    pub(super) fn summary(&self) -> DeliverySummary {
        let NewDelivery { id, event_id, subject, principal, trigger, route_id, due, deadline, .. } = self.new.clone();
        let (state, attempts, last_error) = (self.state, self.begun, self.error.clone());
        DeliverySummary {
            id,
            event_id,
            subject,
            principal,
            trigger,
            route_id,
            state,
            attempts,
            last_error,
            due,
            deadline,
        }
    }
}

impl Model {
    pub(super) fn stream(&self, key: &StreamKey) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.key == *key)
    }

    pub(super) fn gone(&self, worker: WorkerId, now: StoreMillis) -> bool {
        !self.workers.iter().any(|(id, until)| *id == worker && *until >= now)
    }

    /// Whether the owner of a stream is gone; `None` where a store that has no clock may say either.
    pub(super) fn owner_gone(&self, stream: &Stream, now: StoreMillis) -> Option<bool> {
        let Some(owner) = stream.owner else { return Some(false) };
        if self.left.contains(&owner) {
            return Some(true);
        }
        (!self.gone(owner, now)).then_some(false)
    }

    pub(super) fn info(&self, stream: &Stream, owner_gone: bool) -> StreamInfo {
        StreamInfo {
            id: stream.id,
            key: stream.key.clone(),
            epoch: 0,
            claim: stream.claim(),
            owned: stream.owner.is_some(),
            owner_gone,
            earliest: stream.earliest,
            next_seq: stream.next_seq(),
            closed_at: stream.closed_at,
        }
    }

    pub(super) fn lost_calls(&self, now: StoreMillis) -> Vec<CallRecord> {
        let lost = |call: &&Call| call.record.outcome.is_none() && self.gone(call.record.worker, now);
        self.calls.iter().filter(lost).map(|call| call.record.clone()).collect()
    }

    pub(super) fn due_timers(&self, now: StoreMillis) -> Vec<DueTimer> {
        let timer = |call: &Call| {
            let due = call.timer.filter(|due| *due <= now)?;
            Some(DueTimer { call: call.record.id, kind: TimerKind::Timeout, due })
        };
        let mut timers: Vec<_> = self.calls.iter().filter_map(timer).collect();
        timers.sort_by_key(|timer| timer.due);
        timers
    }

    pub(super) fn next_due(&self) -> Option<StoreMillis> {
        let timers = self.calls.iter().filter_map(|call| call.timer);
        let waiting = self.deliveries.iter().filter(|row| row.waits()).map(Row::free_at);
        timers.chain(waiting).min()
    }

    pub(super) fn waiting_outlets(&self) -> Vec<(String, StoreMillis)> {
        let mut first = std::collections::BTreeMap::new();
        for row in self.deliveries.iter().filter(|row| row.waits()) {
            if let Some(outlet) = &row.new.outlet {
                let due = first.entry(outlet.name.clone()).or_insert(row.new.due);
                *due = row.new.due.min(*due);
            }
        }
        first.into_iter().collect()
    }

    /// Does one operation. A refused one may leave things half done: commits work on a copy.
    pub(super) fn apply(&mut self, op: &Op) -> Result<Done, Refused> {
        match op {
            Op::Create { id, key, worker } => {
                if self.stream(key).is_some() {
                    return Err(Refused::Exists);
                }
                self.add_stream(*id, key, Some(*worker));
                Ok(Done::Nothing)
            }
            Op::Claim { new_id, key, worker } => {
                match self.streams.iter_mut().find(|stream| stream.key == *key) {
                    Some(stream) if stream.closed_at.is_some() => return Err(Refused::Closed),
                    Some(stream) => {
                        stream.claims.push(stream.next_seq());
                        stream.owner = Some(*worker);
                    }
                    None => self.add_stream(*new_id, key, Some(*worker)),
                }
                let stream = self.stream(key).expect("added");
                let (claim, next_seq) = (stream.claim(), stream.next_seq());
                Ok(Done::Claimed(Claimed { stream: stream.id, epoch: 0, claim, next_seq }))
            }
            Op::Append { stream, claim, chunks, close, now } => {
                let stream = self.streams.iter_mut().find(|found| found.id == *stream).ok_or(Refused::Unknown)?;
                if stream.closed_at.is_some() {
                    return Err(Refused::Closed);
                }
                let fenced = Refused::Fenced { claim: stream.claim(), next_seq: stream.next_seq() };
                if stream.owner.is_none() || stream.claim() != *claim {
                    return Err(fenced);
                }
                for chunk in chunks {
                    if chunk.first_seq != stream.next_seq() {
                        return Err(fenced);
                    }
                    match chunk.data {
                        Some(_) => stream.slots.extend(chunk.events().map(Slot::Event)),
                        None => stream.slots.extend((chunk.first_seq..chunk.end()).map(Slot::Lost)),
                    }
                }
                stream.closed_at = close.then_some(*now);
                Ok(Done::Nothing)
            }
            Op::AppendOnce { once, append } => {
                if let Some(stream) = self.stream(&append.key)
                    && let Some((_, first_seq)) =
                        stream.keys.iter().find(|(key, seq)| key == once && *seq >= stream.earliest)
                {
                    let (claim, first_seq) = (stream.claim(), *first_seq);
                    return Ok(Done::Appended { stream: stream.id, epoch: 0, claim, first_seq });
                }
                let done = self.apply(&Op::AppendShared(append.clone()))?;
                if let Done::Appended { stream, first_seq, .. } = done {
                    let stream = self.streams.iter_mut().find(|found| found.id == stream).expect("appended to");
                    stream.keys.push((once.clone(), first_seq));
                }
                Ok(done)
            }
            Op::AppendShared(append) => {
                if self.stream(&append.key).is_none() {
                    self.add_stream(append.new_id, &append.key, None);
                }
                let stream = self.streams.iter_mut().find(|stream| stream.key == append.key).expect("added");
                if stream.closed_at.is_some() {
                    return Err(Refused::Closed);
                }
                let first_seq = stream.next_seq();
                if stream.owner.take().is_some() {
                    stream.claims.push(first_seq);
                }
                for (seq, event) in (first_seq..).zip(append.events.clone()) {
                    let NewEvent { kind, payload, time, identity } = event;
                    stream.slots.push(Slot::Event(Event { seq, kind, payload, time, identity }));
                }
                stream.closed_at = append.close.then_some(append.now);
                Ok(Done::Appended { stream: stream.id, epoch: 0, claim: stream.claim(), first_seq })
            }
            Op::BeginCall(record) => {
                if self.calls.iter().any(|call| call.record.id == record.id) {
                    return Err(Refused::Exists);
                }
                self.calls.push(Call { record: CallRecord::clone(record), timer: None });
                Ok(Done::Nothing)
            }
            Op::EndCall { id, outcome, at, payload } => {
                let call = self.running(*id)?;
                call.record.outcome = Some(outcome.clone());
                call.record.ended_at = Some(*at);
                if let Some(task) = &mut call.record.task {
                    task.end = payload.clone();
                }
                call.timer = None;
                Ok(Done::Nothing)
            }
            Op::BecomeTask { call, terms } => {
                self.running(*call)?.record.task = Some((*terms).into());
                Ok(Done::Nothing)
            }
            Op::SetTimer { call, kind: TimerKind::Timeout, due } => {
                self.running(*call)?.timer = Some(*due);
                Ok(Done::Nothing)
            }
            // Scripts draw none of these; the cases of calls and groups do.
            Op::SetTimer { .. } | Op::FireTimer { .. } | Op::EndAggregate { .. } => Err(Refused::Unknown),
            Op::JoinGroup(_) | Op::Watch(_) => Err(Refused::Unknown),
            Op::Enqueue(new) => self.enqueue(new),
            Op::Lease(lease) => Ok(Done::Leased(self.lease(lease))),
            Op::LeaseOutlet { lease, outlet } => {
                let bound = |row: &Row| row.new.outlet.as_ref().is_some_and(|bound| bound.name == *outlet);
                let free = |row: &Row| row.waits() && row.new.due <= lease.now && bound(row);
                Ok(Done::Leased(self.take(lease, free, |row| row.new.due)))
            }
            Op::Settle(settle) => self.settle(settle),
            Op::Heartbeat { worker, until } => {
                self.workers.retain(|(id, _)| id != worker);
                self.workers.push((*worker, *until));
                self.left.retain(|id| id != worker);
                Ok(Done::Nothing)
            }
            Op::Leave { worker } => {
                self.workers.retain(|(id, _)| id != worker);
                self.left.push(*worker);
                for row in &mut self.deliveries {
                    if row.state == DeliveryState::Leased && row.holder == *worker {
                        row.state = DeliveryState::Retrying;
                    }
                }
                Ok(Done::Nothing)
            }
            // Endpoints have cases of their own.
            Op::Endpoint(_) | Op::ProveOrigin(_) => Ok(Done::Nothing),
            Op::TakeUnverified { .. } => Ok(Done::Verify(Vec::new())),
            Op::Purge(_) => Ok(Done::Purged(0)),
            // Done to its end, so that there is never more to do.
            // The log has cases of its own.
            Op::Publish(_) => Ok(Done::Nothing),
            // So have the offers.
            Op::Offer { .. } => Ok(Done::Nothing),
            Op::Trim { now, retention, keep_finished_ms, .. } => {
                self.trim(*now, retention, *keep_finished_ms);
                Ok(Done::Trimmed { events: 0, more: false })
            }
        }
    }

    fn add_stream(&mut self, id: StreamId, key: &StreamKey, owner: Option<WorkerId>) {
        let (claims, slots, keys) = (vec![0], Vec::new(), Vec::new());
        self.streams.push(Stream { id, key: key.clone(), owner, claims, slots, earliest: 0, closed_at: None, keys });
    }

    fn running(&mut self, id: crate::CallId) -> Result<&mut Call, Refused> {
        let call = self.calls.iter_mut().find(|call| call.record.id == id).ok_or(Refused::Unknown)?;
        match &call.record.outcome {
            Some(outcome) => Err(Refused::Ended(outcome.clone())),
            None => Ok(call),
        }
    }

    pub(super) fn delivery(&self, id: DeliveryId) -> Option<&Row> {
        self.deliveries.iter().find(|row| row.new.id == id)
    }

    fn enqueue(&mut self, new: &NewDelivery) -> Result<Done, Refused> {
        if self.delivery(new.id).is_some() {
            return Err(Refused::Exists);
        }
        self.deliveries.push(Row {
            new: new.clone(),
            state: DeliveryState::Pending,
            begun: 0,
            token: None,
            holder: WorkerId([0; 16]),
            until: 0,
            error: None,
            settled_at: 0,
        });
        Ok(Done::Nothing)
    }

    fn lease(&mut self, lease: &Lease) -> Vec<Delivery> {
        if lease.limit == 0 {
            return Vec::new();
        }
        let gone: Vec<_> = self.deliveries.iter().map(|row| self.gone(row.holder, lease.now)).collect();
        for (row, gone) in self.deliveries.iter_mut().zip(gone) {
            if row.state == DeliveryState::Leased && (row.until <= lease.now || gone) {
                row.state = DeliveryState::Retrying;
            }
        }
        // All stand in the line of one endpoint, which takes everything; what outlets let go of comes after it.
        let in_line = |row: &Row| row.waits() && row.new.outlet.is_none() && row.new.due <= lease.now;
        let mut leased = self.take(lease, in_line, |row| row.new.due);
        let left = lease.limit - u32::try_from(leased.len()).expect("few");
        let let_go = |row: &Row| row.waits() && row.new.outlet.is_some() && row.free_at() <= lease.now;
        leased.extend(self.take(&Lease { limit: left, ..*lease }, let_go, Row::free_at));
        leased
    }

    fn take(
        &mut self,
        lease: &Lease,
        free: impl Fn(&Row) -> bool,
        order: impl Fn(&Row) -> StoreMillis,
    ) -> Vec<Delivery> {
        let mut free: Vec<_> = (0..self.deliveries.len()).filter(|at| free(&self.deliveries[*at])).collect();
        free.sort_by_key(|at| order(&self.deliveries[*at]));
        free.truncate(lease.limit as usize);
        let take = |at: usize| {
            let row = &mut self.deliveries[at];
            let attempts = row.begun;
            row.state = DeliveryState::Leased;
            row.begun += 1;
            row.token = None;
            row.holder = lease.worker;
            row.until = lease.until;
            Delivery {
                batch: None,
                new: row.new.clone(),
                attempts,
                token: 0,
                taken: Taken::Ready,
                suspect: row.new.outlet.is_none(),
            }
        };
        free.into_iter().map(take).collect()
    }

    fn settle(&mut self, settle: &Settle) -> Result<Done, Refused> {
        let row = self.deliveries.iter_mut().find(|row| row.new.id == settle.id).ok_or(Refused::LostLease)?;
        if row.state != DeliveryState::Leased || row.token != Some(settle.token) {
            return Err(Refused::LostLease);
        }
        row.state = settle.state;
        if settle.state == DeliveryState::Retrying {
            row.new.due = settle.due;
        }
        if !settle.counts {
            row.begun -= 1;
        }
        row.error.clone_from(&settle.error);
        row.settled_at = settle.at;
        Ok(Done::Nothing)
    }

    /// By count and after close; what the rest of retention takes depends on how a store packs its chunks.
    fn trim(&mut self, now: StoreMillis, retention: &Retention, keep_finished_ms: i64) {
        self.streams.retain(|stream| !retention.stream_expired(stream.closed_at, now));
        for stream in &mut self.streams {
            if let Some(max) = retention.max_events {
                stream.earliest = stream.earliest.max(stream.next_seq().saturating_sub(max));
            }
        }
        let old = now - keep_finished_ms;
        self.calls.retain(|call| call.record.ended_at.is_none_or(|at| at > old));
        self.deliveries.retain(|row| !row.state.is_final() || row.settled_at > old);
        self.workers.retain(|(_, until)| *until > old);
    }
}
