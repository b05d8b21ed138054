//! Workers and their leases.

use std::collections::BTreeMap;

use tidings_proto::time::StoreMillis;

use crate::record::WorkerId;

/// A worker is gone when it is not in here (it left, was forgotten, or never registered), or when its lease ran out.
#[derive(Default)]
pub(super) struct Workers {
    until: BTreeMap<WorkerId, StoreMillis>,
}

/// A worker's lease before the change.
pub(super) struct Undo(WorkerId, Option<StoreMillis>);

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Worker(undo)
    }
}

impl Workers {
    pub(super) fn heartbeat(&mut self, worker: WorkerId, until: StoreMillis, undo: &mut Vec<super::Undo>) {
        let before = self.until.insert(worker, until);
        undo.push(Undo(worker, before).into());
    }

    pub(super) fn leave(&mut self, worker: WorkerId, undo: &mut Vec<super::Undo>) {
        let before = self.until.remove(&worker);
        undo.push(Undo(worker, before).into());
    }

    /// Forgets workers whose leases ran out at or before `by`.
    pub(super) fn forget(&mut self, by: StoreMillis, undo: &mut Vec<super::Undo>) {
        let dead: Vec<_> = self.until.iter().filter(|(_, until)| **until <= by).map(|(id, _)| *id).collect();
        for worker in dead {
            self.leave(worker, undo);
        }
    }

    pub(super) fn take_back(&mut self, Undo(worker, before): Undo) {
        match before {
            Some(until) => self.until.insert(worker, until),
            None => self.until.remove(&worker),
        };
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
