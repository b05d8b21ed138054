//! Deliveries, their leases and their order.

mod enqueue;
mod lease;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use tidings_proto::delivery::EndpointKey;
use tidings_proto::time::StoreMillis;

use super::lines::Lines;
use crate::commit::{CommitError, Done, EndpointNews, Purge, Refused, Settle};
use crate::record::{
    AttemptRecord, DeliveryId, DeliveryState, DeliverySummary, EndpointRecord, NewDelivery, Subject, WorkerId,
};

/// A delivery's place in the order of enqueueing.
pub(super) type Place = u64;

#[derive(Default)]
pub(super) struct Deliveries {
    rows: BTreeMap<Place, Row>,
    places: HashMap<DeliveryId, Place>,
    subjects: BTreeMap<Subject, BTreeSet<Place>>,
    /// What stands in the line of each endpoint.
    queues: HashMap<EndpointKey, Queue>,
    /// `leased`, by due.
    leased: BTreeSet<(StoreMillis, Place)>,
    /// `pending` and `retrying`, by the end of their wait; without those that wait for an outlet.
    late: BTreeSet<(StoreMillis, Place)>,
    /// Those that wait for an outlet: by outlet and due, and by when any worker may take them.
    bound: BTreeMap<String, BTreeSet<(StoreMillis, Place)>>,
    let_go: BTreeSet<(StoreMillis, Place)>,
    /// Final, by when.
    finished: BTreeSet<(StoreMillis, Place)>,
    /// Unfinished ones that tell of an event, by its number.
    undelivered: HashMap<Subject, BTreeSet<(u64, Place)>>,
    /// Batches that may still be joined.
    open: HashMap<BatchKey, Open>,
    /// Unfinished ones of each batch.
    batches: HashMap<u64, BTreeSet<Place>>,
    /// The last batch's number. Never taken back, as tokens are not.
    last_batch: u64,
    /// Unfinished ones of each principal.
    unfinished: HashMap<String, u32>,
    pub(super) lines: Lines,
    next_place: Place,
    /// The last token given out. Never taken back, so that no token is ever given out twice.
    last_token: u64,
}

/// Whose batch, and with which settings.
pub(super) type BatchKey = (EndpointKey, Bytes);

/// A batch that may still be joined.
#[derive(Clone)]
pub(super) struct Open {
    n: u64,
    events: u32,
    bytes: u64,
    due: StoreMillis,
}

/// Deliveries of one endpoint.
#[derive(Default)]
struct Queue {
    /// `pending` and `retrying`, by due; without those that are behind another one of their key.
    waiting: BTreeSet<(StoreMillis, Place)>,
    leased: BTreeSet<Place>,
    /// Unfinished ones that have a key.
    keyed: HashMap<String, BTreeSet<Place>>,
    /// In any state.
    all: usize,
}

#[derive(Clone)]
pub(super) struct Row {
    new: Arc<NewDelivery>,
    state: DeliveryState,
    due: StoreMillis,
    /// Attempts begun.
    attempts: u32,
    token: u64,
    holder: WorkerId,
    until: StoreMillis,
    last_error: Option<String>,
    settled_at: StoreMillis,
    /// Waits behind another one of the same key.
    behind: bool,
    /// Goes out with the others of this batch.
    batch: Option<u64>,
    attempts_log: Vec<AttemptRecord>,
}

/// What stood there before the change.
pub(super) enum Undo {
    Row(Place, Option<Box<Row>>),
    Open(BatchKey, Option<Open>),
}

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Delivery(undo)
    }
}

impl Row {
    fn new(new: NewDelivery, behind: bool) -> Self {
        Self {
            due: new.due,
            new: Arc::new(new),
            state: DeliveryState::Pending,
            attempts: 0,
            token: 0,
            holder: WorkerId([0; 16]),
            until: 0,
            last_error: None,
            settled_at: 0,
            behind,
            batch: None,
            attempts_log: Vec::new(),
        }
    }

    /// From when on any worker may take it.
    fn free_at(&self) -> StoreMillis {
        self.new.outlet.as_ref().map_or(self.due, |outlet| outlet.until.max(self.due))
    }

    /// The outlet it waits for.
    fn waits_for(&self) -> Option<&str> {
        self.new.outlet.as_ref().filter(|_| self.waits() && !self.behind).map(|outlet| outlet.name.as_str())
    }

    /// What was enqueued, as it is read back.
    fn given(&self) -> NewDelivery {
        NewDelivery { due: self.due, batch: None, ..NewDelivery::clone(&self.new) }
    }

    fn waits(&self) -> bool {
        matches!(self.state, DeliveryState::Pending | DeliveryState::Retrying)
    }

    fn summary(&self) -> DeliverySummary {
        DeliverySummary {
            id: self.new.id,
            event_id: self.new.event_id.clone(),
            subject: self.new.subject.clone(),
            principal: self.new.principal.clone(),
            trigger: self.new.trigger.clone(),
            route_id: self.new.route_id.clone(),
            state: self.state,
            attempts: self.attempts,
            last_error: self.last_error.clone(),
            due: self.due,
            deadline: self.new.deadline,
        }
    }
}

impl Deliveries {
    /// Enters a row into every index, or takes it out.
    fn index(&mut self, row: &Row, place: Place, enter: bool) {
        fn set<T: Ord>(index: &mut BTreeSet<T>, key: T, enter: bool) {
            if enter {
                index.insert(key);
            } else {
                index.remove(&key);
            }
        }
        let queue = self.queues.entry(row.new.endpoint).or_default();
        queue.all = if enter { queue.all + 1 } else { queue.all.saturating_sub(1) };
        if row.state.is_final() {
            set(&mut self.finished, (row.settled_at, place), enter);
        } else {
            if let Some(key) = &row.new.fifo_key {
                let keyed = queue.keyed.entry(key.clone()).or_default();
                set(keyed, place, enter);
                if keyed.is_empty() {
                    queue.keyed.remove(key);
                }
            }
            if let Some(n) = row.batch {
                let members = self.batches.entry(n).or_default();
                set(members, place, enter);
                if members.is_empty() {
                    self.batches.remove(&n);
                }
            }
            if let Some(seq) = row.new.seq {
                let undelivered = self.undelivered.entry(row.new.subject.clone()).or_default();
                set(undelivered, (seq, place), enter);
                if undelivered.is_empty() {
                    self.undelivered.remove(&row.new.subject);
                }
            }
            if let Some(outlet) = row.waits_for() {
                let bound = self.bound.entry(outlet.to_owned()).or_default();
                set(bound, (row.due, place), enter);
                if bound.is_empty() {
                    self.bound.remove(outlet);
                }
                set(&mut self.let_go, (row.free_at(), place), enter);
            } else if row.waits() {
                if !row.behind {
                    set(&mut queue.waiting, (row.due, place), enter);
                }
                set(&mut self.late, (row.new.wait_until, place), enter);
            } else {
                set(&mut queue.leased, place, enter);
                set(&mut self.leased, (row.due, place), enter);
            }
            let count = self.unfinished.entry(row.new.principal.clone()).or_default();
            *count = if enter { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.unfinished.remove(&row.new.principal);
            }
        }
        if queue.all == 0 {
            self.queues.remove(&row.new.endpoint);
        }
    }

    /// Replaces a row and keeps every index true. Answers the row before.
    fn put(&mut self, place: Place, row: Option<Row>) -> Option<Row> {
        let before = self.rows.remove(&place);
        if let Some(row) = &before {
            self.index(row, place, false);
        }
        match (&before, &row) {
            (None, Some(row)) => {
                self.places.insert(row.new.id, place);
                self.subjects.entry(row.new.subject.clone()).or_default().insert(place);
            }
            (Some(row), None) => {
                self.places.remove(&row.new.id);
                if let Some(places) = self.subjects.get_mut(&row.new.subject) {
                    places.remove(&place);
                    if places.is_empty() {
                        self.subjects.remove(&row.new.subject);
                    }
                }
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        if let Some(row) = row {
            self.index(&row, place, true);
            self.rows.insert(place, row);
        }
        before
    }

    fn change(&mut self, place: Place, row: Option<Row>, undo: &mut Vec<super::Undo>) {
        let before = self.put(place, row);
        undo.push(Undo::Row(place, before.map(Box::new)).into());
    }

    pub(super) fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::Row(place, before) => drop(self.put(place, before.map(|row| *row))),
            Undo::Open(key, Some(open)) => drop(self.open.insert(key, open)),
            Undo::Open(key, None) => drop(self.open.remove(&key)),
        }
    }

    pub(super) fn settle(&mut self, settle: &Settle, undo: &mut Vec<super::Undo>) -> Result<Done, CommitError> {
        let held = self.places.get(&settle.id).and_then(|place| Some((*place, self.rows.get(place)?)));
        let held = held.filter(|(_, row)| row.state == DeliveryState::Leased && row.token == settle.token);
        let (place, mut row) = held.map(|(place, row)| (place, row.clone())).ok_or(Refused::LostLease)?;
        // A lease ends in another attempt or in a final state; anything else a caller names means another attempt.
        row.state = if settle.state.is_final() { settle.state } else { DeliveryState::Retrying };
        if !row.state.is_final() {
            row.due = settle.due;
        }
        if settle.counts {
            row.attempts_log.push(AttemptRecord { at: settle.at, error: settle.error.clone() });
        } else {
            row.attempts = row.attempts.saturating_sub(1);
        }
        row.last_error.clone_from(&settle.error);
        row.settled_at = settle.at;
        let (endpoint, key, over) = (row.new.endpoint, row.new.fifo_key.clone(), row.state.is_final());
        self.change(place, Some(row), undo);
        if let Some(key) = key.filter(|_| over) {
            self.next_of_key(endpoint, &key, undo);
        }
        self.wake(endpoint, undo);
        Ok(Done::Nothing)
    }

    /// Lets the next delivery of a key come forward, unless one is there.
    fn next_of_key(&mut self, endpoint: EndpointKey, key: &str, undo: &mut Vec<super::Undo>) {
        let keyed = self.queues.get(&endpoint).and_then(|queue| queue.keyed.get(key));
        let first = keyed.and_then(|keyed| keyed.first()).copied();
        let Some((place, row)) = first.and_then(|place| Some((place, self.rows.get(&place)?))) else { return };
        let together = row.batch.and_then(|n| self.batches.get(&n));
        let places = together.map_or_else(|| vec![place], |members| members.iter().copied().collect());
        for place in places {
            if let Some(row) = self.rows.get(&place).filter(|row| row.behind) {
                let row = Row { behind: false, ..row.clone() };
                self.change(place, Some(row), undo);
            }
        }
    }

    /// Has an endpoint's line looked at when its next delivery is due.
    fn wake(&mut self, endpoint: EndpointKey, undo: &mut Vec<super::Undo>) {
        if let Some(due) = self.next_waiting(endpoint) {
            self.lines.wake(endpoint, due, undo);
        }
    }

    fn next_waiting(&self, endpoint: EndpointKey) -> Option<StoreMillis> {
        self.queues.get(&endpoint)?.waiting.first().map(|(due, _)| *due)
    }

    /// Notes what was learned of an endpoint; what waits there may be due by that.
    pub(super) fn learn(&mut self, news: &EndpointNews, undo: &mut Vec<super::Undo>) {
        if self.lines.learn(news, undo) {
            self.wake(news.key, undo);
        }
    }

    /// Forgets up to `limit` deliveries that were finished at or before `by`, and endpoints that nobody has named since.
    /// Answers how many deliveries.
    pub(super) fn forget(&mut self, by: StoreMillis, limit: usize, undo: &mut Vec<super::Undo>) -> usize {
        let old: Vec<_> = self.finished.iter().take_while(|(at, _)| *at <= by).take(limit).copied().collect();
        for (_, place) in &old {
            self.change(*place, None, undo);
        }
        let queues = &self.queues;
        self.lines.forget(by, |key| queues.contains_key(&key), limit, undo);
        old.len()
    }

    /// Forgets finished deliveries by a filter. Answers how many.
    pub(super) fn purge(&mut self, purge: &Purge, undo: &mut Vec<super::Undo>) -> u32 {
        let wanted = |row: &Row| {
            row.state.is_final()
                && purge.id.is_none_or(|id| row.new.id == id)
                && purge.principal.as_ref().is_none_or(|principal| row.new.principal == *principal)
                && purge.state.is_none_or(|state| row.state == state)
        };
        let places = self.finished.iter().map(|(_, place)| *place);
        let found: Vec<_> =
            places.filter(|place| self.rows.get(place).is_some_and(wanted)).take(purge.limit as usize).collect();
        for place in &found {
            self.change(*place, None, undo);
        }
        u32::try_from(found.len()).unwrap_or(u32::MAX)
    }

    fn row(&self, id: DeliveryId) -> Option<&Row> {
        self.places.get(&id).and_then(|place| self.rows.get(place))
    }

    pub(super) fn stored(&self, id: DeliveryId) -> Option<NewDelivery> {
        self.row(id).map(Row::given)
    }

    pub(super) fn attempts(&self, id: DeliveryId) -> Vec<AttemptRecord> {
        self.row(id).map(|row| row.attempts_log.clone()).unwrap_or_default()
    }

    pub(super) fn next_due(&self) -> Option<StoreMillis> {
        let first = |index: &BTreeSet<(StoreMillis, Place)>| index.first().map(|(at, _)| *at);
        self.lines.next_due().into_iter().chain(first(&self.late)).chain(first(&self.let_go)).min()
    }

    pub(super) fn pending(&self, principal: &str, most: u32) -> u32 {
        self.unfinished.get(principal).copied().unwrap_or_default().min(most)
    }

    pub(super) fn endpoints(&self, principal: Option<&str>, limit: u32) -> Vec<EndpointRecord> {
        self.lines.records(principal, limit)
    }

    pub(super) fn summaries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Vec<DeliverySummary> {
        let limit = limit as usize;
        let wanted = |row: &&Row| {
            state.is_none_or(|state| row.state == state)
                && principal.is_none_or(|principal| row.new.principal == principal)
        };
        match subject {
            None => self.rows.values().filter(wanted).take(limit).map(Row::summary).collect(),
            Some(subject) => {
                let places = self.subjects.get(subject).into_iter().flatten();
                places.filter_map(|place| self.rows.get(place)).filter(wanted).take(limit).map(Row::summary).collect()
            }
        }
    }
}
