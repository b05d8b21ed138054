//! A clock that stands still until a test moves it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidings::Clock;
use tidings::store::Boot;

type Wake = Arc<dyn Fn() + Send + Sync>;

pub struct TestClock {
    boot_ms: AtomicI64,
    wall: AtomicI64,
    wakes: Mutex<Vec<Wake>>,
}

impl TestClock {
    /// 2026-01-01T00:00:00Z, a thousand seconds after the boot.
    pub fn new() -> Arc<Self> {
        let (boot_ms, wall) = (AtomicI64::new(1_000_000), AtomicI64::new(1_767_225_600_000));
        Arc::new(Self { boot_ms, wall, wakes: Mutex::default() })
    }

    /// Time goes by, on both clocks.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("less than for ever");
        self.boot_ms.fetch_add(by, Ordering::SeqCst);
        self.set_wall_by(by);
    }

    /// Somebody sets the wall clock.
    pub fn set_wall_by(&self, ms: i64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
        let wakes = self.wakes.lock().expect("wakes").clone();
        for wake in wakes {
            wake();
        }
    }
}

impl TestClock {
    /// The moment on the timeline of a store that first saw this clock at its start: the wall time of then, and what was
    /// advanced since.
    pub fn now(&self) -> i64 {
        self.boot_ms.load(Ordering::SeqCst) - 1_000_000 + 1_767_225_600_000
    }
}

impl Clock for TestClock {
    fn boot(&self) -> Boot {
        Boot { id: "the only boot".to_owned(), now_ms: self.boot_ms.load(Ordering::SeqCst) }
    }

    fn wall(&self) -> i64 {
        self.wall.load(Ordering::SeqCst)
    }

    fn on_move(&self, wake: Wake) {
        self.wakes.lock().expect("wakes").push(wake);
    }
}
