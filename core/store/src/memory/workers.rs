//! Workers and their leases.

use std::collections::{BTreeMap, BTreeSet};

use tidings_proto::time::StoreMillis;

use crate::record::WorkerId;

/// A worker is gone when it is not in here (it left, was forgotten, or never registered), or when its lease ran out.
#[derive(Default)]
pub(super) struct Workers {
    until: BTreeMap<WorkerId, StoreMillis>,
    /// What each offers.
    offers: BTreeSet<(String, WorkerId)>,
}

/// What was before the change.
pub(super) enum Undo {
    Lease(WorkerId, Option<StoreMillis>),
    Offer((String, WorkerId), bool),
}

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Worker(undo)
    }
}

impl Workers {
    pub(super) fn heartbeat(&mut self, worker: WorkerId, until: StoreMillis, undo: &mut Vec<super::Undo>) {
        let before = self.until.insert(worker, until);
        undo.push(Undo::Lease(worker, before).into());
    }

    pub(super) fn offer(&mut self, worker: WorkerId, outlet: &str, offered: bool, undo: &mut Vec<super::Undo>) {
        let key = (outlet.to_owned(), worker);
        let changed = if offered { self.offers.insert(key.clone()) } else { self.offers.remove(&key) };
        if changed {
            undo.push(Undo::Offer(key, !offered).into());
        }
    }

    pub(super) fn offered(&self, outlet: &str, now: StoreMillis) -> bool {
        let of_it = self.offers.range((outlet.to_owned(), WorkerId([0; 16]))..);
        of_it.take_while(|(name, _)| name == outlet).any(|(_, worker)| !self.gone(*worker, now))
    }

    pub(super) fn leave(&mut self, worker: WorkerId, undo: &mut Vec<super::Undo>) {
        let theirs: Vec<_> = self.offers.iter().filter(|(_, other)| *other == worker).cloned().collect();
        for (outlet, worker) in theirs {
            self.offer(worker, &outlet, false, undo);
        }
        let before = self.until.remove(&worker);
        undo.push(Undo::Lease(worker, before).into());
    }

    /// Forgets workers whose leases ran out at or before `by`.
    pub(super) fn forget(&mut self, by: StoreMillis, undo: &mut Vec<super::Undo>) {
        let dead: Vec<_> = self.until.iter().filter(|(_, until)| **until <= by).map(|(id, _)| *id).collect();
        for worker in dead {
            self.leave(worker, undo);
        }
    }

    pub(super) fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::Lease(worker, Some(until)) => _ = self.until.insert(worker, until),
            Undo::Lease(worker, None) => _ = self.until.remove(&worker),
            Undo::Offer(key, true) => _ = self.offers.insert(key),
            Undo::Offer(key, false) => _ = self.offers.remove(&key),
        }
    }

    /// Whether it is known without a clock to be gone.
    pub(super) fn left(&self, worker: WorkerId) -> bool {
        !self.until.contains_key(&worker)
    }

    /// Whether it is gone at `now`.
    pub(super) fn gone(&self, worker: WorkerId, now: StoreMillis) -> bool {
        self.until.get(&worker).is_none_or(|until| *until < now)
    }
}
