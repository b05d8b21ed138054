//! The keys of appends that were made once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Keys of one stream, each with the number of the first event that was appended with it.
#[derive(Default)]
pub(super) struct Keys {
    /// In the order of their numbers.
    by_seq: VecDeque<(u64, Arc<str>)>,
    by_key: HashMap<Arc<str>, u64>,
}

impl Keys {
    pub(super) fn find(&self, key: &str) -> Option<u64> {
        self.by_key.get(key).copied()
    }

    /// Numbers rise from one to the next.
    pub(super) fn add(&mut self, key: &str, seq: u64) {
        let key: Arc<str> = key.into();
        self.by_seq.push_back((seq, Arc::clone(&key)));
        self.by_key.insert(key, seq);
    }

    /// Forgets those of events from `seq` on: their append is taken back.
    pub(super) fn take_back(&mut self, seq: u64) {
        while self.by_seq.back().is_some_and(|(of, _)| *of >= seq) {
            if let Some((_, key)) = self.by_seq.pop_back() {
                self.by_key.remove(&key);
            }
        }
    }

    /// Forgets those of events before `seq`, which are gone; answers them.
    pub(super) fn evict(&mut self, seq: u64) -> Vec<(u64, Arc<str>)> {
        let before = self.by_seq.partition_point(|(of, _)| *of < seq);
        let gone: Vec<_> = self.by_seq.drain(..before).collect();
        for (_, key) in &gone {
            self.by_key.remove(key);
        }
        gone
    }

    /// Their events are back.
    pub(super) fn bring_back(&mut self, gone: Vec<(u64, Arc<str>)>) {
        for (seq, key) in gone.into_iter().rev() {
            self.by_seq.push_front((seq, Arc::clone(&key)));
            self.by_key.insert(key, seq);
        }
    }
}
