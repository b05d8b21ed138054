//! The clocks the hub reads, in one place, so that tests can bring their own.

use std::sync::Arc;

use tidings_proto::time::{StoreMillis, UnixMillis};
use tidings_store::Boot;

/// Where the hub reads time.
pub trait Clock: Send + Sync + 'static {
    /// The host's boot and the time since it, suspend included. Must never go backward.
    fn boot(&self) -> Boot;
    /// The wall clock. May jump.
    fn wall(&self) -> UnixMillis;
    /// Milliseconds since the boot of [`boot`](Self::boot), without its id: read often.
    fn boot_ms(&self) -> i64 {
        self.boot().now_ms
    }
    /// Called once by each hub that reads this clock. A clock that is moved by hand must call `wake` after each move, so
    /// that what has become due is done; one that runs by itself has nothing to do.
    fn on_move(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        drop(wake);
    }
}

/// The operating system's clocks.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn boot(&self) -> Boot {
        // One host runs one boot at a time; where the kernel tells its id, a reboot is told apart from a long sleep.
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        Boot { id, now_ms: self.boot_ms() }
    }

    fn wall(&self) -> UnixMillis {
        use std::time::{SystemTime, UNIX_EPOCH};
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_millis() as UnixMillis,
            Err(before) => -(before.duration().as_millis() as UnixMillis),
        }
    }

    fn boot_ms(&self) -> i64 {
        let now = rustix::time::clock_gettime(BOOT_CLOCK);
        now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
    }
}

#[cfg(target_os = "linux")]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// The store's timeline, read through a clock.
pub(crate) struct Timeline {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) offset: i64,
}

impl Timeline {
    pub(crate) fn now(&self) -> StoreMillis {
        self.clock.boot_ms().saturating_add(self.offset)
    }

    pub(crate) fn wall(&self) -> UnixMillis {
        self.clock.wall()
    }
}
