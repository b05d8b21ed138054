//! Enqueueing: what a delivery joins, what it stands behind, and how far its cursor may reach.

use tidings_proto::firing::lower_cursor;
use tidings_proto::time::StoreMillis;

use super::{BatchKey, Deliveries, Open, Place, Row, Undo};
use crate::commit::{CommitError, Done, Refused};
use crate::record::{Batch, NewDelivery};

impl Deliveries {
    pub(in crate::memory) fn enqueue(
        &mut self,
        new: &NewDelivery,
        undo: &mut Vec<crate::memory::Undo>,
    ) -> Result<Done, CommitError> {
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

    pub(super) fn batch_of(&self, place: Place) -> Option<u64> {
        self.rows.get(&place).and_then(|row| row.batch)
    }

    /// Puts a delivery into the open batch of its settings, or opens one. Answers the batch and when it is due.
    fn join(&mut self, new: &NewDelivery, batch: &Batch, undo: &mut Vec<crate::memory::Undo>) -> (u64, StoreMillis) {
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
    fn put_due(&mut self, batch: u64, due: StoreMillis, undo: &mut Vec<crate::memory::Undo>) {
        let members = self.batches.get(&batch).into_iter().flatten();
        let rows = members.filter_map(|place| Some((*place, self.rows.get(place)?)));
        let others: Vec<_> = rows.filter(|(_, row)| row.due != due).map(|(place, row)| (place, row.clone())).collect();
        for (place, row) in others {
            self.change(place, Some(Row { due, ..row }), undo);
        }
    }

    fn put_open(&mut self, key: BatchKey, open: Option<Open>, undo: &mut Vec<crate::memory::Undo>) {
        let before = match open {
            Some(open) => self.open.insert(key.clone(), open),
            None => self.open.remove(&key),
        };
        undo.push(Undo::Open(key, before).into());
    }

    /// A batch of which something is leased is not joined any more.
    pub(super) fn close_batch(&mut self, row: &Row, undo: &mut Vec<crate::memory::Undo>) {
        let (Some(n), Some(batch)) = (row.batch, &row.new.batch) else { return };
        let key = (row.new.endpoint, batch.settings.0.clone());
        if self.open.get(&key).is_some_and(|open| open.n == n) {
            self.put_open(key, None, undo);
        }
    }
}
