//! I6 to I8: what becomes of deliveries, who may say so, and what a receiver may keep of them.

use bytes::Bytes;
use tidings::store::{
    Commit, DeliveryState, Done, Lease, MemoryStore, NewDelivery, Op, Settle, Store, Subject, Taken, WorkerId,
};

use super::Model;

/// A route with another one after it is tried at most so often, the last one at most so often (DESIGN section 5).
const MOST_ATTEMPTS: (u32, u32) = (4, 12);

/// One delivery.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryModel {
    pub(crate) event_id: String,
    pub(crate) trigger: String,
    pub(crate) route_id: String,
    subject: Subject,
    /// The number of the event that it tells of.
    seq: Option<u64>,
    pub(crate) body: Bytes,
    pub(crate) state: DeliveryState,
    has_successor: bool,
    /// Attempts that began.
    begun: u32,
    /// The newest lease: its token, its worker, its end, and whether an attempt begins with it.
    lease: Option<(u64, WorkerId, i64, bool)>,
}

impl DeliveryModel {
    /// It is being tried more often than it may be.
    pub(crate) fn is_overdone(&self) -> bool {
        let most = if self.has_successor { MOST_ATTEMPTS.0 } else { MOST_ATTEMPTS.1 };
        self.state == DeliveryState::Leased && self.begun > most
    }

    /// Whether the newest lease has that token and was not settled.
    pub(crate) fn is_held(&self, token: u64) -> bool {
        self.state == DeliveryState::Leased && self.lease.is_some_and(|(newest, ..)| newest == token)
    }
}

impl Model {
    /// Whether a lease no longer holds: its time is over, or its worker gone.
    pub(super) fn let_go(&self, delivery: &DeliveryModel, now: i64) -> bool {
        delivery.lease.is_none_or(|(_, worker, until, _)| until <= now || self.is_gone(worker, now))
    }

    pub(super) fn worker_left(&mut self, worker: WorkerId) {
        for delivery in self.deliveries.values_mut().filter(|delivery| delivery.state == DeliveryState::Leased) {
            if delivery.lease.is_some_and(|(_, holder, ..)| holder == worker) {
                delivery.state = DeliveryState::Retrying;
            }
        }
    }

    /// I8: the body that has to be sent. Its cursor does not pass the first event of its call that is still undelivered.
    fn watermarked(&self, new: &NewDelivery) -> Bytes {
        let of_subject =
            self.deliveries.values().filter(|other| other.subject == new.subject && !other.state.is_final());
        let least = of_subject.filter_map(|other| other.seq).filter(|seq| new.seq.is_some_and(|own| *seq < own)).min();
        let lowered = least.and_then(|least| {
            let text = std::str::from_utf8(&new.body).ok()?.strip_suffix("\"}")?;
            let (head, next) = text.rsplit_once('.')?;
            (head.contains(",\"cursor\":\"") && next.parse::<u64>().ok()? > least)
                .then(|| format!("{head}.{least}\"}}"))
        });
        lowered.map_or_else(|| new.body.clone(), Bytes::from)
    }

    pub(super) fn enqueued(&mut self, new: &NewDelivery, commit: &Commit, store: &MemoryStore) {
        let body = self.watermarked(new);
        let stored = store.stored_delivery(new.id).ok().flatten().map(|stored| stored.body);
        self.record.hold("I8", stored.as_ref() == Some(&body), || {
            format!("delivery {}: is to send {stored:?} instead of {body:?}", new.id)
        });
        let delivery = DeliveryModel {
            event_id: new.event_id.clone(),
            trigger: new.trigger.clone(),
            route_id: new.route_id.clone(),
            subject: new.subject.clone(),
            seq: new.seq,
            body,
            state: DeliveryState::Pending,
            has_successor: !new.fallback.0.is_empty(),
            begun: 0,
            lease: None,
        };
        let caused = self.has_cause(new, commit);
        self.record.hold("I5", caused, || format!("delivery {} of {} without its event", new.id, new.trigger));
        let before = self.deliveries.insert(new.id, delivery);
        self.record.hold("I6", before.is_none(), || format!("delivery {} was enqueued twice", new.id));
    }

    pub(super) fn leased(&mut self, lease: &Lease, done: &Done) {
        let Done::Leased(leased) = done else {
            return self.record.violated("I7", format!("a lease was answered {done:?}"));
        };
        let record = self.record.clone();
        for taken in leased {
            let id = taken.new.id;
            let Some(before) = self.deliveries.get(&id) else {
                record.violated("I7", format!("delivery {id} was leased and never enqueued"));
                continue;
            };
            let free = match before.state {
                DeliveryState::Pending | DeliveryState::Retrying => true,
                DeliveryState::Leased => self.let_go(before, lease.now),
                _ => false,
            };
            record.hold("I7", free, || format!("delivery {id} was leased while it is {:?}", before.state));
            let rises = before.lease.is_none_or(|(token, ..)| token < taken.token);
            record.hold("I7", rises, || format!("delivery {id}: token {} does not rise", taken.token));
            let ready = taken.taken == Taken::Ready && lease.now < taken.new.deadline;
            // Where it is too many, the worker has to give it up instead: see `is_overdone`.
            let begun = before.begun + u32::from(ready);
            if let Some(delivery) = self.deliveries.get_mut(&id) {
                delivery.state = DeliveryState::Leased;
                delivery.begun = begun;
                delivery.lease = Some((taken.token, lease.worker, lease.until, ready));
            }
        }
    }

    pub(super) fn settled(&mut self, settle: &Settle, commit: &Commit) {
        let record = self.record.clone();
        let Some(delivery) = self.deliveries.get_mut(&settle.id) else {
            return record.violated("I7", format!("delivery {} was settled and never enqueued", settle.id));
        };
        record.hold("I7", delivery.is_held(settle.token), || {
            format!("delivery {} was settled by token {}: {delivery:?}", settle.id, settle.token)
        });
        if !settle.counts && delivery.lease.is_some_and(|(.., ready)| ready) {
            delivery.begun = delivery.begun.saturating_sub(1);
        }
        record.hold("I6", !delivery.state.is_final() && delivery.state != settle.state, || {
            format!("delivery {} went from {:?} to {:?}", settle.id, delivery.state, settle.state)
        });
        delivery.state = settle.state;
        let successor = commit.ops.iter().any(|op| match op {
            Op::Enqueue(new) => new.event_id == delivery.event_id && new.route_id != delivery.route_id,
            _ => false,
        });
        record.hold("I6", successor == (settle.state == DeliveryState::Superseded), || {
            format!("delivery {} is {:?}; its successor was enqueued: {successor}", settle.id, settle.state)
        });
    }

    /// I5 and I6, once there was time: every call and every delivery came to its end.
    pub(crate) fn all_finished(&self) {
        for (id, call) in self.calls.iter().filter(|(_, call)| call.outcome.is_none()) {
            self.record.violated("I5", format!("call {id} never ends: {call:?}"));
        }
        for (id, delivery) in self.deliveries.iter().filter(|(_, delivery)| !delivery.state.is_final()) {
            self.record.violated("I6", format!("delivery {id} never ends: {delivery:?}"));
        }
    }
}
