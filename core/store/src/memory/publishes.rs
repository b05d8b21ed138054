//! The publishes log.

use std::collections::VecDeque;

use crate::publish::{PUBLISHES_KEPT, Publish, Publishes};

#[derive(Default)]
pub(super) struct Log {
    head: u64,
    kept: VecDeque<(u64, Publish)>,
}

/// What one publish pushed out, if anything.
pub(super) struct Undo(Option<(u64, Publish)>);

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Publish(undo)
    }
}

impl Log {
    pub(super) fn publish(&mut self, publish: &Publish, undo: &mut Vec<super::Undo>) {
        self.head += 1;
        self.kept.push_back((self.head, publish.clone()));
        let over = self.kept.len() as u64 > PUBLISHES_KEPT;
        undo.push(Undo(over.then(|| self.kept.pop_front()).flatten()).into());
    }

    pub(super) fn take_back(&mut self, Undo(pushed_out): Undo) {
        self.kept.pop_back();
        self.head -= 1;
        if let Some(oldest) = pushed_out {
            self.kept.push_front(oldest);
        }
    }

    pub(super) fn read(&self, after: u64, limit: u32) -> Publishes {
        let entries = self.kept.iter().filter(|(n, _)| *n > after).take(limit as usize).cloned().collect();
        let earliest = self.kept.front().map_or(self.head + 1, |(n, _)| *n);
        Publishes { entries, earliest, head: self.head }
    }
}
