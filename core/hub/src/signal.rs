//! What one task that waits is woken by.
//!
//! `tests/models` goes through every order in which threads can meet here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// What one tail waits on. Wakers are woken and dropped outside the lock: both may run a host's code, which may come
/// straight back.
#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    /// Says that there may be something new. Cheap when the tail has not come back since the last time.
    pub(crate) fn raise(&self) {
        if self.raised.swap(true, Ordering::AcqRel) {
            return;
        }
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker
            && catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err()
        {
            // Whose waker it is must not decide whether the writer thread lives.
            tracing::error!("a waker panicked");
        }
    }

    /// Forgets what was raised so far; call before looking, so that what comes during the look is not lost. What was
    /// raised before is seen by that look: hence a swap, which is ordered after the raise.
    pub(crate) fn reset(&self) {
        self.raised.swap(false, Ordering::AcqRel);
    }

    /// Waits for the next raise. `false`: one came since the reset, look again.
    pub(crate) fn register(&self, waker: &Waker) -> bool {
        let before = lock(&self.waker).replace(waker.clone());
        drop(before);
        if !self.raised.load(Ordering::Acquire) {
            return true;
        }
        let unused = lock(&self.waker).take();
        drop(unused);
        false
    }
}
