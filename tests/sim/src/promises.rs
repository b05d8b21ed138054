//! What the hubs have answered for, and whether it holds.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidings::Durability;
use tidings::store::{CallId, DeliveryState, StreamKey};

use crate::client::Client;
use crate::model::Model;
use crate::net::Hit;
use crate::record::Record;

/// Something that a hub has acknowledged.
#[derive(Clone, Debug)]
pub(crate) enum Promise {
    /// An event stands under that number.
    Event(StreamKey, u64, Bytes),
    /// The stream is closed.
    Closed(StreamKey),
    /// The call is watched.
    Call(CallId),
    /// The call ended so.
    Outcome(CallId, String),
}

/// Values that must not be told, logged or kept in the clear where somebody reads them.
pub(crate) const SECRETS: [&str; 3] =
    ["AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "sim-bearer-token", "4111-sim-card"];

/// What the outside knows.
#[derive(Default)]
pub(crate) struct Promises {
    made: Vec<(Promise, Durability)>,
    /// The readers.
    pub(crate) clients: Vec<Client>,
    /// Firings that an endpoint has seen, and whether one has taken them.
    hits: BTreeMap<String, bool>,
    /// Those of them that tell of an outcome.
    outcomes: Vec<String>,
    /// Requests that came.
    pub(crate) posts: u64,
}

impl Promises {
    /// A hub has answered for it.
    pub(crate) fn make(&mut self, promise: Promise, durability: Durability) {
        self.made.push((promise, durability));
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.made.len()
    }

    fn holds(promise: &Promise, model: &Model) -> bool {
        match promise {
            Promise::Event(key, seq, payload) => {
                model.of_key(key).is_some_and(|stream| stream.events.get(seq) == Some(&Some(payload.clone())))
            }
            Promise::Closed(key) => model.of_key(key).is_some_and(|stream| stream.is_closed()),
            Promise::Call(id) => model.calls.contains_key(id),
            Promise::Outcome(id, status) => {
                model.calls.get(id).and_then(|call| call.outcome.as_ref()).is_some_and(|had| had.status == *status)
            }
        }
    }

    /// I1, I4, I5: everything holds. A loss of power may have taken what was to survive a process only.
    pub(crate) fn check(&mut self, model: &Model, record: &Record, power_lost: bool) {
        self.made.retain(|(promise, durability)| {
            let holds = Self::holds(promise, model);
            let may_go = power_lost && *durability == Durability::Process;
            let rule = match promise {
                Promise::Event(..) => "I1",
                Promise::Closed(_) => "I4",
                Promise::Call(_) | Promise::Outcome(..) => "I5",
            };
            record.hold(rule, holds || may_go, || format!("acknowledged ({durability:?}) and gone: {promise:?}"));
            holds
        });
        for event_id in &self.outcomes {
            let there = model.deliveries.values().any(|delivery| delivery.event_id == *event_id);
            record.hold("I5", there, || format!("{event_id} was told to an endpoint, and its outcome is gone"));
        }
    }

    /// An endpoint was sent something.
    pub(crate) fn heard(&mut self, hit: &Hit, model: &Model, record: &Record) {
        self.posts += 1;
        let body = String::from_utf8_lossy(&hit.body);
        record.hold("I12", !body.contains(SECRETS[2]) && !body.contains(SECRETS[1]), || {
            format!("a body holds what was to be taken out of it: {body}")
        });
        record.hold("I12", SECRETS.iter().all(|secret| *secret == SECRETS[1] || !hit.head.contains(secret)), || {
            format!("a head holds a secret: {}", hit.head)
        });
        if hit.event_id.is_empty() {
            return;
        }
        let mut of_event = model.deliveries.values().filter(|delivery| delivery.event_id == hit.event_id).peekable();
        record.hold("I5", of_event.peek().is_some(), || format!("{} was sent and never committed", hit.event_id));
        let outcome = of_event
            .peek()
            .is_some_and(|delivery| ["completed", "failed", "cancelled", "timeout"].contains(&&*delivery.trigger));
        record.hold("I2", of_event.any(|delivery| delivery.body == hit.body), || {
            format!("{} was sent with other bytes than are stored", hit.event_id)
        });
        let overdone = model
            .deliveries
            .values()
            .find(|delivery| delivery.event_id == hit.event_id && delivery.body == hit.body && delivery.is_overdone());
        record.hold("I6", overdone.is_none(), || format!("one attempt too many: {overdone:?}"));
        if self.hits.insert(hit.event_id.clone(), hit.taken || self.hits.get(&hit.event_id) == Some(&true)).is_none()
            && outcome
        {
            self.outcomes.push(hit.event_id.clone());
        }
    }

    /// I6: what is `delivered` was taken by somebody.
    pub(crate) fn all_taken(&self, model: &Model, record: &Record) {
        for (id, delivery) in &model.deliveries {
            let taken = self.hits.get(&delivery.event_id) == Some(&true);
            record.hold("I6", delivery.state != DeliveryState::Delivered || taken, || {
                format!("delivery {id} is delivered, and nobody has taken it")
            });
        }
    }
}
