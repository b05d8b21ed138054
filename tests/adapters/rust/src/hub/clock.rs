//! Time that only moves when a scenario says so.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tidings::Clock;
use tidings::store::Boot;

use crate::given::Given;

/// How often hubs look around while their time stands still, so that what others gave them to do is done.
const TICK: Duration = Duration::from_millis(20);

type Wake = Arc<dyn Fn() + Send + Sync>;

/// The clocks of a scenario; not in use before they are set.
#[derive(Default)]
pub(crate) struct VirtualClock {
    set: AtomicBool,
    boot_ms: AtomicI64,
    unix_ms: AtomicI64,
    wakes: Mutex<Vec<Wake>>,
}

impl VirtualClock {
    /// The clock, and the thread that wakes its hubs while it lives.
    pub(crate) fn start() -> Arc<Self> {
        let clock = Arc::new(Self::default());
        let weak: Weak<Self> = Arc::downgrade(&clock);
        std::thread::spawn(move || {
            while let Some(clock) = weak.upgrade() {
                clock.wake();
                drop(clock);
                std::thread::sleep(TICK);
            }
        });
        clock
    }

    pub(crate) fn set(&self, given: Given<'_>) -> Result<Value, String> {
        self.set.store(given.bool("virtual")?, Ordering::SeqCst);
        self.boot_ms.store(given.int("bootMs")?, Ordering::SeqCst);
        self.unix_ms.store(given.int("unixMs")?, Ordering::SeqCst);
        self.wake();
        Ok(json!({}))
    }

    /// Forgets the hubs of the scenario before.
    pub(crate) fn reset(&self) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn wake(&self) {
        for wake in self.wakes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wake();
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }

    /// The wall clock, for events that carry a time of their own.
    pub(crate) fn unix_ms(&self) -> i64 {
        if self.is_set() { self.wall() } else { tidings::SystemClock.wall() }
    }
}

impl Clock for VirtualClock {
    fn boot(&self) -> Boot {
        Boot { id: "conformance".to_owned(), now_ms: self.boot_ms() }
    }

    fn wall(&self) -> i64 {
        self.unix_ms.load(Ordering::SeqCst)
    }

    fn boot_ms(&self) -> i64 {
        self.boot_ms.load(Ordering::SeqCst)
    }

    fn on_move(&self, wake: Wake) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }
}
