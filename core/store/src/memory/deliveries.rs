//! Deliveries, their leases and their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidings_proto::time::StoreMillis;

use super::workers::Workers;
use crate::commit::{CommitError, Done, Lease, Refused, Settle};
use crate::record::{Delivery, DeliveryId, DeliveryState, DeliverySummary, NewDelivery, Subject, WorkerId};

/// A delivery's place in the order of enqueueing.
type Place = u64;

#[derive(Default)]
pub(super) struct Deliveries {
    rows: BTreeMap<Place, Row>,
    places: HashMap<DeliveryId, Place>,
    subjects: BTreeMap<Subject, BTreeSet<Place>>,
    /// `pending` and `retrying`, by when any worker may take them.
    waiting: BTreeSet<(StoreMillis, Place)>,
    /// Those of them that wait for an outlet, by due.
    bound: BTreeMap<String, BTreeSet<(StoreMillis, Place)>>,
    /// `leased`, by due.
    leased: BTreeSet<(StoreMillis, Place)>,
    /// Final, by when.
    finished: BTreeSet<(StoreMillis, Place)>,
    next_place: Place,
    /// The last token given out. Never taken back, so that no token is ever given out twice.
    last_token: u64,
}

#[derive(Clone)]
struct Row {
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
}

/// A delivery's row before the change.
pub(super) struct Undo(Place, Option<Box<Row>>);

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Delivery(undo)
    }
}

impl Row {
    fn new(new: NewDelivery) -> Self {
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
        }
    }

    /// From when on any worker may take it.
    fn free_at(&self) -> StoreMillis {
        self.new.outlet.as_ref().map_or(self.due, |outlet| outlet.until.max(self.due))
    }

    /// The outlet it waits for.
    fn waits_for(&self) -> Option<&str> {
        let waits = matches!(self.state, DeliveryState::Pending | DeliveryState::Retrying);
        self.new.outlet.as_ref().filter(|_| waits).map(|outlet| outlet.name.as_str())
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
    /// The index a row stands in, and its key there.
    fn index(&mut self, row: &Row, place: Place) -> (&mut BTreeSet<(StoreMillis, Place)>, (StoreMillis, Place)) {
        match row.state {
            DeliveryState::Pending | DeliveryState::Retrying => (&mut self.waiting, (row.free_at(), place)),
            DeliveryState::Leased => (&mut self.leased, (row.due, place)),
            DeliveryState::Delivered | DeliveryState::Dead | DeliveryState::Expired | DeliveryState::Superseded => {
                (&mut self.finished, (row.settled_at, place))
            }
        }
    }

    /// Replaces a row and keeps every index true. Answers the row before.
    fn put(&mut self, place: Place, row: Option<Row>) -> Option<Row> {
        let before = self.rows.remove(&place);
        if let Some(row) = &before {
            let (index, key) = self.index(row, place);
            index.remove(&key);
            if let Some(outlet) = row.waits_for()
                && let Some(bound) = self.bound.get_mut(outlet)
            {
                bound.remove(&(row.due, place));
                if bound.is_empty() {
                    self.bound.remove(outlet);
                }
            }
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
            let (index, key) = self.index(&row, place);
            index.insert(key);
            if let Some(outlet) = row.waits_for() {
                self.bound.entry(outlet.to_owned()).or_default().insert((row.due, place));
            }
            self.rows.insert(place, row);
        }
        before
    }

    fn change(&mut self, place: Place, row: Option<Row>, undo: &mut Vec<super::Undo>) {
        let before = self.put(place, row);
        undo.push(Undo(place, before.map(Box::new)).into());
    }

    pub(super) fn take_back(&mut self, Undo(place, before): Undo) {
        self.put(place, before.map(|row| *row));
    }

    pub(super) fn enqueue(&mut self, new: &NewDelivery, undo: &mut Vec<super::Undo>) -> Result<Done, CommitError> {
        if self.places.contains_key(&new.id) {
            return Err(Refused::Exists.into());
        }
        let place = self.next_place;
        self.next_place += 1;
        self.change(place, Some(Row::new(new.clone())), undo);
        Ok(Done::Nothing)
    }

    pub(super) fn lease(&mut self, lease: &Lease, workers: &Workers, undo: &mut Vec<super::Undo>) -> Vec<Delivery> {
        let limit = lease.limit as usize;
        self.rebind(lease, workers, undo);
        let due = |(due, _): &&(StoreMillis, Place)| *due <= lease.now;
        let free = |(_, place): &&(StoreMillis, Place)| {
            self.rows.get(place).is_some_and(|row| row.until <= lease.now || workers.gone(row.holder, lease.now))
        };
        let mut taken: Vec<_> = self.waiting.iter().take_while(due).take(limit).copied().collect();
        taken.extend(self.leased.iter().filter(free).take(limit));
        taken.sort_unstable();
        taken.truncate(limit);
        self.take(taken, lease, undo)
    }

    pub(super) fn lease_outlet(&mut self, lease: &Lease, outlet: &str, undo: &mut Vec<super::Undo>) -> Vec<Delivery> {
        let due = |(due, _): &&(StoreMillis, Place)| *due <= lease.now;
        let bound = self.bound.get(outlet).into_iter().flatten();
        let taken = bound.take_while(due).take(lease.limit as usize).copied().collect();
        self.take(taken, lease, undo)
    }

    pub(super) fn waiting_outlets(&self) -> Vec<(String, StoreMillis)> {
        let first = |bound: &BTreeSet<(StoreMillis, Place)>| bound.first().map(|(due, _)| *due);
        self.bound.iter().filter_map(|(outlet, bound)| Some((outlet.clone(), first(bound)?))).collect()
    }

    /// Those of an outlet whose worker does not settle them any more wait for the outlet again.
    fn rebind(&mut self, lease: &Lease, workers: &Workers, undo: &mut Vec<super::Undo>) {
        let lost = |(_, place): &&(StoreMillis, Place)| {
            self.rows.get(place).is_some_and(|row| {
                let bound = row.new.outlet.as_ref().is_some_and(|outlet| outlet.until > lease.now);
                bound && (row.until <= lease.now || workers.gone(row.holder, lease.now))
            })
        };
        let places: Vec<_> = self.leased.iter().filter(lost).map(|(_, place)| *place).collect();
        self.put_back(places, undo);
    }

    fn put_back(&mut self, places: Vec<Place>, undo: &mut Vec<super::Undo>) {
        for place in places {
            if let Some(mut row) = self.rows.get(&place).cloned() {
                row.state = DeliveryState::Retrying;
                self.change(place, Some(row), undo);
            }
        }
    }

    fn take(&mut self, taken: Vec<(StoreMillis, Place)>, lease: &Lease, undo: &mut Vec<super::Undo>) -> Vec<Delivery> {
        let mut leased = Vec::with_capacity(taken.len());
        for (_, place) in taken {
            let Some(mut row) = self.rows.get(&place).cloned() else { continue };
            self.last_token += 1;
            let attempts = row.attempts;
            row.state = DeliveryState::Leased;
            row.attempts = row.attempts.saturating_add(1);
            row.token = self.last_token;
            row.holder = lease.worker;
            row.until = lease.until;
            let new = NewDelivery { due: row.due, ..NewDelivery::clone(&row.new) };
            leased.push(Delivery { new, attempts, token: row.token });
            self.change(place, Some(row), undo);
        }
        leased
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
        if !settle.counts {
            row.attempts = row.attempts.saturating_sub(1);
        }
        row.last_error.clone_from(&settle.error);
        row.settled_at = settle.at;
        self.change(place, Some(row), undo);
        Ok(Done::Nothing)
    }

    /// Ends all leases of a worker that left; the attempts it began count.
    pub(super) fn release(&mut self, worker: WorkerId, undo: &mut Vec<super::Undo>) {
        let held = |(_, place): &&(StoreMillis, Place)| self.rows.get(place).is_some_and(|row| row.holder == worker);
        let places: Vec<_> = self.leased.iter().filter(held).map(|(_, place)| *place).collect();
        self.put_back(places, undo);
    }

    /// Forgets up to `limit` deliveries that were finished at or before `by`. Answers how many.
    pub(super) fn forget(&mut self, by: StoreMillis, limit: usize, undo: &mut Vec<super::Undo>) -> usize {
        let old: Vec<_> = self.finished.iter().take_while(|(at, _)| *at <= by).take(limit).copied().collect();
        for (_, place) in &old {
            self.change(*place, None, undo);
        }
        old.len()
    }

    pub(super) fn next_due(&self) -> Option<StoreMillis> {
        self.waiting.first().map(|(due, _)| *due)
    }

    pub(super) fn summaries(
        &self,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Vec<DeliverySummary> {
        let limit = limit as usize;
        let wanted = |row: &&Row| state.is_none_or(|state| row.state == state);
        match subject {
            None => self.rows.values().filter(wanted).take(limit).map(Row::summary).collect(),
            Some(subject) => {
                let places = self.subjects.get(subject).into_iter().flatten();
                places.filter_map(|place| self.rows.get(place)).filter(wanted).take(limit).map(Row::summary).collect()
            }
        }
    }
}
