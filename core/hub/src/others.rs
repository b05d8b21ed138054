//! What other processes commit: told to the tails and calls of this one.
//!
//! Where the store can tell of a commit as it happens, it is looked at then; else it is polled for. A look tells those it
//! concerns. What it may have missed is made good by looking at everything, now and then while there are changes.

#[cfg(unix)]
use std::os::fd::{AsRawFd, RawFd};

use tidings_proto::time::StoreMillis;
use tidings_store::Changes;
#[cfg(unix)]
use tidings_store::Wake;
#[cfg(unix)]
use tokio::io::{Interest, unix::AsyncFd};

use crate::call;
use crate::core::Core;
use crate::fanout::others as published;

/// How often the store is asked that cannot tell, in milliseconds.
const POLL_MS: i64 = 20;
/// How often everything is looked at that others may have changed, in milliseconds; and how often a store is asked that can tell.
const LOOK_ALL_MS: i64 = 250;

pub(crate) struct Others {
    #[cfg(unix)]
    wake: Option<AsyncFd<Fd>>,
    /// Somebody here wants to know.
    watched: bool,
    /// There were changes since everything was looked at.
    changed: bool,
    /// When everything may be looked at again.
    look_all: StoreMillis,
    /// When the store is asked, told or not.
    ask: StoreMillis,
}

#[cfg(unix)]
struct Fd(Box<dyn Wake>);

#[cfg(unix)]
impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

#[cfg(unix)]
#[allow(
    deprecated,
    reason = "what replaces it is unsafe, for types whose descriptor may change or be closed early; this one's is the box's own"
)]
fn watch(wake: Box<dyn Wake>) -> Option<AsyncFd<Fd>> {
    AsyncFd::with_interest(Fd(wake), Interest::READABLE).ok()
}

impl Others {
    /// On the runtime's thread.
    pub(crate) fn new(core: &Core) -> Self {
        #[cfg(unix)]
        let wake = if core.store.is_shared() { core.store.wake() } else { None };
        Self {
            #[cfg(unix)]
            wake: wake.and_then(watch),
            watched: false,
            changed: false,
            look_all: core.started,
            ask: core.started,
        }
    }

    /// Ready when others have committed and somebody here wants to know; never where nothing tells of it.
    pub(crate) async fn committed(&self) {
        #[cfg(unix)]
        if let Some(wake) = self.wake.as_ref().filter(|_| self.watched) {
            while let Ok(mut ready) = wake.readable().await {
                // First: what comes after it makes the descriptor ready again.
                ready.clear_ready();
                if wake.get_ref().0.clear() {
                    return;
                }
            }
        }
        std::future::pending().await
    }

    /// Looks at what was committed since the last look. Says whether there was anything.
    pub(crate) fn look(&mut self, core: &Core, now: StoreMillis) -> bool {
        let tails_or_calls = core.notifier.any() || call::any(core);
        self.watched = core.store.is_shared() && (tails_or_calls || core.fanouts.any() || !core.outlets.is_empty());
        if !self.watched {
            return false;
        }
        self.ask = now.saturating_add(if self.is_told() { LOOK_ALL_MS } else { POLL_MS });
        let mut all = false;
        let changes = core.store.changes();
        let any = !matches!(changes, Ok(Changes::Nothing));
        if any && core.fanouts.any() {
            published::look(core);
        }
        match changes {
            Ok(Changes::Nothing) | Err(_) => {}
            Ok(Changes::Streams(grown)) => {
                self.changed = true;
                grown.iter().for_each(|stream| core.notifier.grown(*stream));
                call::look_at(core, &grown);
            }
            Ok(Changes::Anything) => all = true,
        }
        if all || (self.changed && self.look_all <= now) {
            self.changed = false;
            self.look_all = now.saturating_add(LOOK_ALL_MS);
            core.notifier.all();
            call::look(core);
        }
        any
    }

    fn is_told(&self) -> bool {
        #[cfg(unix)]
        return self.wake.is_some();
        #[cfg(not(unix))]
        false
    }

    /// When to look next without being told.
    pub(crate) fn next(&self) -> StoreMillis {
        match (self.watched, self.changed) {
            (false, _) => StoreMillis::MAX,
            (true, false) => self.ask,
            (true, true) => self.ask.min(self.look_all),
        }
    }
}
