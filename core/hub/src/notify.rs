//! Tells tails that their stream has grown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tidings_proto::stream::StreamId;
use tidings_store::{Chunk, ReadLimits};

use crate::recent::{ALL_BYTES, Found, Recent};
pub(crate) use crate::signal::Signal;
pub(crate) use crate::sync::lock;

/// Who waits for which stream.
#[derive(Default)]
pub(crate) struct Notifier {
    waiting: Mutex<Waiting>,
    count: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    streams: HashMap<StreamId, Watched>,
    /// What all of their recent chunks weigh.
    bytes: usize,
}

/// A stream that somebody waits for.
#[derive(Default)]
struct Watched {
    signals: Vec<Weak<Signal>>,
    recent: Recent,
}

impl Waiting {
    /// Changes what is kept of a stream that somebody waits for.
    fn change(&mut self, stream: StreamId, change: impl FnOnce(&mut Recent, usize)) {
        let Some(watched) = self.streams.get_mut(&stream) else { return };
        let others = self.bytes - watched.recent.bytes();
        change(&mut watched.recent, ALL_BYTES.saturating_sub(others));
        self.bytes = others + watched.recent.bytes();
    }
}

impl Notifier {
    /// A signal that is raised whenever the stream grows, until [`unwatch`](Self::unwatch); and whether it is the only one.
    pub(crate) fn watch(&self, stream: StreamId) -> (Arc<Signal>, bool) {
        let signal = Arc::new(Signal::default());
        let first = self.count.fetch_add(1, Ordering::AcqRel) == 0;
        lock(&self.waiting).streams.entry(stream).or_default().signals.push(Arc::downgrade(&signal));
        (signal, first)
    }

    /// The watcher of that stream with this signal is gone.
    pub(crate) fn unwatch(&self, stream: StreamId, signal: &Arc<Signal>) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        let mut waiting = lock(&self.waiting);
        let Some(Watched { signals, .. }) = waiting.streams.get_mut(&stream) else { return };
        // By identity: whoever raises it right now holds it too.
        signals.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(signal)));
        if signals.is_empty() {
            waiting.change(stream, |recent, _| recent.clear());
            waiting.streams.remove(&stream);
        }
    }

    /// Keeps what a claim of this process has just committed, for those who wait for it.
    pub(crate) fn committed(&self, stream: StreamId, claim: u32, chunks: &[Chunk], closed: bool) {
        if self.any() {
            lock(&self.waiting).change(stream, |recent, room| recent.add(claim, chunks, closed, room));
        }
    }

    /// What was kept from `next` on, for a reader who knows of this claim; see [`committed`](Self::committed). Once the only
    /// reader has all of it, it is not kept any longer.
    pub(crate) fn recent(&self, stream: StreamId, claim: u32, next: u64, limits: ReadLimits) -> Option<Found> {
        let mut waiting = lock(&self.waiting);
        let Watched { signals, recent } = waiting.streams.get(&stream)?;
        let found = recent.find(claim, next, limits)?;
        let all = found.chunks.last().map(Chunk::end) == Some(found.end);
        if all && signals.len() == 1 && !found.closed {
            waiting.change(stream, |recent, _| recent.clear());
        }
        Some(found)
    }

    /// Whether anybody waits at all.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// The stream has grown or closed.
    pub(crate) fn grown(&self, stream: StreamId) {
        if !self.any() {
            return;
        }
        let signals =
            lock(&self.waiting).streams.get(&stream).map(|watched| watched.signals.clone()).unwrap_or_default();
        for signal in signals.iter().filter_map(Weak::upgrade) {
            signal.raise();
        }
    }

    /// Another process has committed something, or the hub closes: everybody looks.
    pub(crate) fn all(&self) {
        if !self.any() {
            return;
        }
        let waiting = lock(&self.waiting);
        let signals = |(id, watched): (&StreamId, &Watched)| (*id, watched.signals.clone());
        let mut all: Vec<_> = waiting.streams.iter().map(signals).collect();
        drop(waiting);
        all.sort_unstable_by_key(|(id, _)| *id); // whose turn it is must not depend on how the map is laid out
        for signal in all.iter().flat_map(|(_, signals)| signals).filter_map(Weak::upgrade) {
            signal.raise();
        }
    }
}
