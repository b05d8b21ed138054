//! Streams that writers of this process have begun and no commit has reached yet.
//!
//! An SDK adapter hands out a stream's cursor before the stream has an event, and a client may come back with it at
//! once: the store cannot know the stream then, this process does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tidings_proto::stream::StreamId;

use crate::fork;
use crate::notify::lock;
use crate::owned::Owned;

/// Finds them by their id.
pub(crate) struct Unborn {
    streams: Mutex<HashMap<StreamId, Weak<Owned>>>,
    generation: u32,
}

impl Unborn {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { streams: Mutex::default(), generation: fork::generation() })
    }

    pub(crate) fn add(&self, owned: &Arc<Owned>) {
        lock(&self.streams).insert(owned.id, Arc::downgrade(owned));
    }

    pub(crate) fn find(&self, id: StreamId) -> Option<Arc<Owned>> {
        lock(&self.streams).get(&id).and_then(Weak::upgrade)
    }

    /// The stream is in the store now, or never will be.
    pub(crate) fn remove(&self, id: StreamId) {
        // In a forked child the lock may be held by a thread that is not there.
        if self.generation == fork::generation() {
            lock(&self.streams).remove(&id);
        }
    }
}
