//! Deliveries, their leases and their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use tidings_proto::delivery::EndpointKey;
use tidings_proto::firing::lower_cursor;
use tidings_proto::time::StoreMillis;

use super::lines::Lines;
use super::workers::Workers;
use crate::commit::{CommitError, Done, EndpointNews, Lease, Purge, Refused, Settle};
use crate::flow::{self, HostRow, Line, Shelf};
use crate::record::{
    AttemptRecord, Batch, Delivery, DeliveryId, DeliveryState, DeliverySummary, EndpointRecord, NewDelivery, Subject,
    Taken, WorkerId,
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

    pub(super) fn enqueue(&mut self, new: &NewDelivery, undo: &mut Vec<super::Undo>) -> Result<Done, CommitError> {
        if self.places.contains_key(&new.id) {
            return Err(Refused::Exists.into());
        }
        self.lines.ensure(new.endpoint, &new.principal, new.created_at, undo);
        let place = self.next_place;
        self.next_place += 1;
        let mut new = new.clone();
        self.lower(&mut new);
        let joined = new.batch.clone().filter(|_| new.outlet.is_none()).map(|batch| self.join(&new, &batch, undo));
        let (batch, due) = joined.map_or((None, new.due), |(n, due)| (Some(n), due));
        let ahead = self.of_key(&new).any(|other| batch.is_none() || self.batch_of(other) != batch);
        let (endpoint, outlet) = (new.endpoint, new.outlet.is_some());
        self.change(place, Some(Row { due, batch, ..Row::new(new, ahead) }), undo);
        if !ahead && !outlet {
            self.lines.wake(endpoint, due, undo);
        }
        Ok(Done::Nothing)
    }

    /// Keeps the cursor of a delivery's body from passing what is not delivered yet.
    fn lower(&self, new: &mut NewDelivery) {
        let first = self.undelivered.get(&new.subject).and_then(|all| all.first());
        let Some((first, _)) = first.filter(|(first, _)| new.seq.is_some_and(|seq| *first < seq)) else { return };
        for body in [&mut new.body, &mut new.whole.0] {
            if let Some(lowered) = lower_cursor(body, *first) {
                *body = lowered.into();
            }
        }
    }

    /// The unfinished deliveries with the key of this one, at its endpoint, in the order of enqueueing.
    fn of_key(&self, new: &NewDelivery) -> impl DoubleEndedIterator<Item = Place> {
        let queue = self.queues.get(&new.endpoint);
        let keyed = new.fifo_key.as_ref().and_then(|key| queue.and_then(|queue| queue.keyed.get(key)));
        keyed.into_iter().flatten().copied()
    }

    fn batch_of(&self, place: Place) -> Option<u64> {
        self.rows.get(&place).and_then(|row| row.batch)
    }

    /// Puts a delivery into the open batch of its settings, or opens one. Answers the batch and when it is due.
    fn join(&mut self, new: &NewDelivery, batch: &Batch, undo: &mut Vec<super::Undo>) -> (u64, StoreMillis) {
        let key = (new.endpoint, batch.settings.0.clone());
        let bytes = new.body.len() as u64;
        let before = self.open.get(&key).cloned();
        let last_of_key = self.of_key(new).next_back();
        let fits = before.clone().filter(|open| {
            let in_order = last_of_key.is_none_or(|last| self.batch_of(last) == Some(open.n));
            in_order && open.bytes.saturating_add(bytes).saturating_add(1) <= batch.max_bytes
        });
        if fits.is_none()
            && let Some(open) = &before
        {
            self.put_due(open.n, new.created_at, undo);
            self.lines.wake(new.endpoint, new.created_at, undo);
        }
        let mut open = match fits {
            Some(open) => {
                Open { events: open.events + 1, bytes: open.bytes + bytes + 1, due: open.due.min(new.due), ..open }
            }
            None => {
                self.last_batch += 1;
                Open { n: self.last_batch, events: 1, bytes, due: new.due }
            }
        };
        let full = open.events >= batch.max_events || open.bytes >= batch.max_bytes;
        if full {
            open.due = open.due.min(new.created_at);
        }
        self.put_due(open.n, open.due, undo);
        let answer = (open.n, open.due);
        self.put_open(key, Some(open).filter(|_| !full), undo);
        answer
    }

    /// Has all of a batch due at that moment.
    fn put_due(&mut self, batch: u64, due: StoreMillis, undo: &mut Vec<super::Undo>) {
        let members = self.batches.get(&batch).into_iter().flatten();
        let rows = members.filter_map(|place| Some((*place, self.rows.get(place)?)));
        let others: Vec<_> = rows.filter(|(_, row)| row.due != due).map(|(place, row)| (place, row.clone())).collect();
        for (place, row) in others {
            self.change(place, Some(Row { due, ..row }), undo);
        }
    }

    fn put_open(&mut self, key: BatchKey, open: Option<Open>, undo: &mut Vec<super::Undo>) {
        let before = match open {
            Some(open) => self.open.insert(key.clone(), open),
            None => self.open.remove(&key),
        };
        undo.push(Undo::Open(key, before).into());
    }

    /// A batch of which something is leased is not joined any more.
    fn close_batch(&mut self, row: &Row, undo: &mut Vec<super::Undo>) {
        let (Some(n), Some(batch)) = (row.batch, &row.new.batch) else { return };
        let key = (row.new.endpoint, batch.settings.0.clone());
        if self.open.get(&key).is_some_and(|open| open.n == n) {
            self.put_open(key, None, undo);
        }
    }

    pub(super) fn lease(&mut self, lease: &Lease, workers: &Workers, undo: &mut Vec<super::Undo>) -> Vec<Delivery> {
        if lease.limit == 0 {
            return Vec::new();
        }
        let free = |(_, place): &&(StoreMillis, Place)| {
            self.rows.get(place).is_some_and(|row| row.until <= lease.now || workers.gone(row.holder, lease.now))
        };
        let abandoned: Vec<_> = self.leased.iter().filter(free).map(|(_, place)| *place).collect();
        for place in abandoned {
            self.give_back(place, undo);
        }
        let mut bench = Bench { deliveries: self, lease, leased: Vec::new(), undo };
        let Ok(()) = flow::lease(&mut bench, lease);
        bench.leased
    }

    pub(super) fn lease_outlet(&mut self, lease: &Lease, outlet: &str, undo: &mut Vec<super::Undo>) -> Vec<Delivery> {
        let due = |(due, _): &&(StoreMillis, Place)| *due <= lease.now;
        let bound = self.bound.get(outlet).into_iter().flatten();
        let places: Vec<_> = bound.take_while(due).take(lease.limit as usize).map(|(_, place)| *place).collect();
        places.into_iter().filter_map(|place| self.take(place, lease, Taken::Ready, false, None, undo)).collect()
    }

    pub(super) fn waiting_outlets(&self) -> Vec<(String, StoreMillis)> {
        let first = |bound: &BTreeSet<(StoreMillis, Place)>| bound.first().map(|(due, _)| *due);
        self.bound.iter().filter_map(|(outlet, bound)| Some((outlet.clone(), first(bound)?))).collect()
    }

    fn take(
        &mut self,
        place: Place,
        lease: &Lease,
        taken: Taken,
        suspect: bool,
        batch: Option<u64>,
        undo: &mut Vec<super::Undo>,
    ) -> Option<Delivery> {
        let mut row = self.rows.get(&place)?.clone();
        self.close_batch(&row, undo);
        self.last_token += 1;
        let attempts = row.attempts;
        row.state = DeliveryState::Leased;
        row.attempts = row.attempts.saturating_add(1);
        row.token = self.last_token;
        row.holder = lease.worker;
        row.until = lease.until;
        row.behind = false;
        let delivery = Delivery { new: row.given(), attempts, token: row.token, taken, suspect, batch };
        self.change(place, Some(row), undo);
        Some(delivery)
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

    /// Ends a lease without its worker; the attempt that was begun counts.
    fn give_back(&mut self, place: Place, undo: &mut Vec<super::Undo>) {
        if let Some(mut row) = self.rows.get(&place).cloned() {
            row.state = DeliveryState::Retrying;
            let endpoint = row.new.endpoint;
            self.change(place, Some(row), undo);
            self.wake(endpoint, undo);
        }
    }

    /// Ends all leases of a worker that left; the attempts it began count.
    pub(super) fn release(&mut self, worker: WorkerId, undo: &mut Vec<super::Undo>) {
        let held = |(_, place): &&(StoreMillis, Place)| self.rows.get(place).is_some_and(|row| row.holder == worker);
        let places: Vec<_> = self.leased.iter().filter(held).map(|(_, place)| *place).collect();
        for place in places {
            self.give_back(place, undo);
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

/// One lease on its way.
struct Bench<'a> {
    deliveries: &'a mut Deliveries,
    lease: &'a Lease,
    leased: Vec<Delivery>,
    undo: &'a mut Vec<super::Undo>,
}

impl Bench<'_> {
    fn take_all(&mut self, places: Vec<Place>, taken: Taken, suspect: bool) -> u32 {
        let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
        for place in places {
            self.leased.extend(self.deliveries.take(place, self.lease, taken, suspect, None, self.undo));
        }
        count
    }

    /// Takes what waits of one batch.
    fn take_batch(&mut self, n: u64, suspect: bool) {
        let members = self.deliveries.batches.get(&n).into_iter().flatten().copied();
        let waits = |place: &Place| self.deliveries.rows.get(place).is_some_and(|row| row.waits() && !row.behind);
        let places: Vec<_> = members.filter(waits).collect();
        for place in places {
            let taken = self.deliveries.take(place, self.lease, Taken::Ready, suspect, Some(n), self.undo);
            self.leased.extend(taken);
        }
    }
}

impl Shelf for Bench<'_> {
    type Error = Infallible;
    type Place = EndpointKey;

    fn first_ready(&mut self, now: StoreMillis, suspects: bool) -> Result<Option<EndpointKey>, Infallible> {
        Ok(self.deliveries.lines.first_ready(now, suspects))
    }

    fn line(&mut self, place: EndpointKey) -> Result<Line, Infallible> {
        // Whatever is ready is there.
        let standing = tidings_proto::delivery::Standing::default();
        let none = Line { standing, principal: String::new(), host: String::new(), tat: 0, at: None, turn: 0 };
        Ok(self.deliveries.lines.line(place).unwrap_or(none))
    }

    fn put_line(&mut self, place: EndpointKey, line: &Line) -> Result<(), Infallible> {
        self.deliveries.lines.put_line(place, line, self.undo);
        Ok(())
    }

    fn in_flight(&mut self, place: EndpointKey) -> Result<u32, Infallible> {
        let queue = self.deliveries.queues.get(&place);
        let Some(queue) = queue else { return Ok(0) };
        let batches: Vec<_> = queue.leased.iter().map(|place| self.deliveries.batch_of(*place)).collect();
        let alone = batches.iter().filter(|batch| batch.is_none()).count();
        let together = batches.into_iter().flatten().collect::<BTreeSet<_>>().len();
        Ok(u32::try_from(alone + together).unwrap_or(u32::MAX))
    }

    fn next_waiting(&mut self, place: EndpointKey) -> Result<Option<StoreMillis>, Infallible> {
        Ok(self.deliveries.next_waiting(place))
    }

    fn take(
        &mut self,
        place: EndpointKey,
        due_by: StoreMillis,
        limit: u32,
        taken: Taken,
        suspect: bool,
    ) -> Result<u32, Infallible> {
        let Some(queue) = self.deliveries.queues.get(&place) else { return Ok(0) };
        let due = queue.waiting.iter().take_while(|(due, _)| *due <= due_by).map(|(_, place)| *place);
        if taken != Taken::Ready {
            let places = due.take(limit as usize).collect();
            return Ok(self.take_all(places, taken, suspect));
        }
        let mut together = BTreeSet::new();
        let of_batch = |place| (place, self.deliveries.batch_of(place));
        let firsts = due.map(of_batch).filter(|(_, batch)| batch.is_none_or(|n| together.insert(n)));
        let firsts: Vec<_> = firsts.take(limit as usize).collect();
        let count = u32::try_from(firsts.len()).unwrap_or(u32::MAX);
        for (place, batch) in firsts {
            match batch {
                Some(n) => self.take_batch(n, suspect),
                None => drop(self.take_all(vec![place], taken, suspect)),
            }
        }
        Ok(count)
    }

    fn take_let_go(&mut self, now: StoreMillis, limit: u32) -> Result<u32, Infallible> {
        let free = self.deliveries.let_go.iter().take_while(|(at, _)| *at <= now).take(limit as usize);
        let places = free.map(|(_, place)| *place).collect();
        Ok(self.take_all(places, Taken::Ready, false))
    }

    fn take_late(&mut self, now: StoreMillis, limit: u32) -> Result<u32, Infallible> {
        let late = self.deliveries.late.iter().take_while(|(at, _)| *at <= now).take(limit as usize);
        let places = late.map(|(_, place)| *place).collect();
        Ok(self.take_all(places, Taken::Late, false))
    }

    fn host(&mut self, host: &str) -> Result<HostRow, Infallible> {
        Ok(self.deliveries.lines.host(host))
    }

    fn put_host(&mut self, host: &str, row: HostRow) -> Result<(), Infallible> {
        self.deliveries.lines.put_host(host, row, self.undo);
        Ok(())
    }

    fn share(&mut self, host: &str, principal: &str) -> Result<i64, Infallible> {
        Ok(self.deliveries.lines.share(host, principal))
    }

    fn put_share(&mut self, host: &str, principal: &str, tag: i64) -> Result<(), Infallible> {
        self.deliveries.lines.put_share(host, principal, tag, self.undo);
        Ok(())
    }
}
