//! Tells tails that their stream has grown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use tidings_proto::stream::StreamId;

/// Locks, also after a panic elsewhere: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one tail waits on.
#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    /// Says that there may be something new. Cheap when the tail has not come back since the last time.
    pub(crate) fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel)
            && let Some(waker) = lock(&self.waker).take()
        {
            waker.wake();
        }
    }

    /// Forgets what was raised so far; call before looking, so that what comes during the look is not lost.
    pub(crate) fn reset(&self) {
        self.raised.store(false, Ordering::Release);
    }

    /// Waits for the next raise. `false`: one came since the reset, look again.
    pub(crate) fn register(&self, waker: &Waker) -> bool {
        *lock(&self.waker) = Some(waker.clone());
        if self.raised.load(Ordering::Acquire) {
            lock(&self.waker).take();
            return false;
        }
        true
    }
}

/// Who waits for which stream.
#[derive(Default)]
pub(crate) struct Notifier {
    waiting: Mutex<HashMap<StreamId, Vec<Weak<Signal>>>>,
    count: AtomicUsize,
}

impl Notifier {
    /// A signal that is raised whenever the stream grows, until it is dropped.
    pub(crate) fn watch(&self, stream: StreamId) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        let mut waiting = lock(&self.waiting);
        let signals = waiting.entry(stream).or_default();
        signals.retain(|signal| signal.strong_count() > 0);
        signals.push(Arc::downgrade(&signal));
        self.count.fetch_add(1, Ordering::AcqRel);
        signal
    }

    /// The watcher of that stream is gone.
    pub(crate) fn unwatch(&self, stream: StreamId) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        let mut waiting = lock(&self.waiting);
        if let Some(signals) = waiting.get_mut(&stream) {
            signals.retain(|signal| signal.strong_count() > 0);
            if signals.is_empty() {
                waiting.remove(&stream);
            }
        }
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
        let signals = lock(&self.waiting).get(&stream).cloned().unwrap_or_default();
        for signal in signals.iter().filter_map(Weak::upgrade) {
            signal.raise();
        }
    }

    /// Another process has committed something: everybody looks.
    pub(crate) fn all(&self) {
        if !self.any() {
            return;
        }
        let signals: Vec<_> = lock(&self.waiting).values().flatten().cloned().collect();
        for signal in signals.iter().filter_map(Weak::upgrade) {
            signal.raise();
        }
    }
}
