//! The clocks of the simulated machine: both follow the runtime's paused time, so that everything waits by one clock.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use tidings::Clock;
use tidings::store::Boot;
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600_000;

/// The machine's clocks. Read them inside the runtime.
#[derive(Debug)]
pub(crate) struct MachineClock {
    start: Instant,
    /// When the machine was booted last, in milliseconds of `start`.
    booted: AtomicI64,
    boots: AtomicU32,
    /// How far off the wall clock is.
    wall_off: AtomicI64,
}

impl MachineClock {
    /// A machine that was just booted.
    pub(crate) fn new() -> Self {
        let (booted, boots) = (AtomicI64::new(-5_000), AtomicU32::new(1));
        Self { start: Instant::now(), booted, boots, wall_off: AtomicI64::new(0) }
    }

    /// Milliseconds since the simulation began.
    pub(crate) fn elapsed(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The machine comes up anew.
    pub(crate) fn reboot(&self) {
        self.booted.store(self.elapsed() - 100, Ordering::SeqCst);
        self.boots.fetch_add(1, Ordering::SeqCst);
    }

    /// Somebody sets the wall clock.
    pub(crate) fn set_wall_by(&self, ms: i64) {
        self.wall_off.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Default for MachineClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MachineClock {
    fn boot(&self) -> Boot {
        Boot { id: format!("boot {}", self.boots.load(Ordering::SeqCst)), now_ms: self.boot_ms() }
    }

    fn wall(&self) -> i64 {
        START + self.elapsed() + self.wall_off.load(Ordering::SeqCst)
    }

    fn boot_ms(&self) -> i64 {
        self.elapsed() - self.booted.load(Ordering::SeqCst)
    }
}
