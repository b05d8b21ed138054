//! Calls that go on although their request is gone.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings_proto::trigger::{Outcome, Reason};

use super::{Call, bare};
use crate::error::Result;
use crate::fork::{self, Shared};

/// How much may go on without its request (DESIGN section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetachLimits {
    /// Calls at a time, for one principal in this process.
    pub calls: u32,
    /// For how long each may.
    pub time: Duration,
}

impl Default for DetachLimits {
    fn default() -> Self {
        Self { calls: 64, time: Duration::from_secs(3_600) }
    }
}

/// Counts calls that go on without their request, by the name of whose limit counts: one count for a hub in a process,
/// whoever lets them go on.
#[derive(Default)]
pub(crate) struct Rooms(Shared<Counts>);

#[derive(Default)]
struct Counts {
    /// A forked child begins anew.
    generation: u32,
    of: HashMap<String, u32>,
}

impl Rooms {
    /// One more under that name, where there are fewer than `calls`.
    pub(crate) fn take(self: &Arc<Self>, counted_as: &str, calls: u32) -> Option<Room> {
        let generation = fork::generation();
        let mut counts = self.0.lock();
        if counts.generation != generation {
            *counts = Counts { generation, of: HashMap::new() };
        }
        if counts.of.get(counted_as).copied().unwrap_or(0) >= calls {
            return None;
        }
        *counts.of.entry(counted_as.to_owned()).or_insert(0) += 1;
        Some(Room { rooms: Arc::clone(self), name: counted_as.to_owned(), generation })
    }

    /// All of them.
    pub(crate) fn all(&self) -> u32 {
        let counts = self.0.lock();
        if counts.generation == fork::generation() { counts.of.values().sum() } else { 0 }
    }
}

/// Room for one call that goes on without its request; given back when it is dropped.
pub struct Room {
    rooms: Arc<Rooms>,
    name: String,
    generation: u32,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // A forked child counts its own.
        if self.generation != fork::generation() {
            return;
        }
        let mut counts = self.rooms.0.lock();
        if let Some(count) = counts.of.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.of.remove(&self.name);
            }
        }
    }
}

impl Call {
    /// The client's connection is lost, and the call goes on without it, within the limits; fires
    /// `io.tidings/disconnected` where asked. `counted_as` is whose limit counts: the principal, or where none lives longer
    /// than a request, one name for all of them.
    ///
    /// `false`: there is no room, and the call ends as `cancelled`, reason `detach_limit`. One whose time is over ends with
    /// reason `detach_expired`. An error of code `ended` once the call has ended.
    pub fn detach(&self, counted_as: &str, limits: DetachLimits) -> Result<bool> {
        let inner = &self.inner;
        inner.running()?;
        if inner.detached.swap(true, Ordering::SeqCst) {
            return self.disconnected().map(|()| true); // counted already: the client came back and left again
        }
        let Some(room) = inner.core.rooms.take(counted_as, limits.calls) else {
            inner.start_end(&bare(Outcome::Cancelled, Some(Reason::DetachLimit)));
            return Ok(false);
        };
        let (call, mut ended) = (Arc::downgrade(inner), inner.subscribe());
        // The call is not kept: one that nobody holds any more fails, and that is its end too.
        let spawned = inner.core.spawn(async move {
            let over = ended.wait_for(Option::is_some);
            if tokio::time::timeout(limits.time, over).await.is_err()
                && let Some(call) = call.upgrade()
            {
                call.start_end(&bare(Outcome::Cancelled, Some(Reason::DetachExpired)));
            }
            drop(room);
        });
        drop(spawned);
        self.disconnected()?;
        Ok(true)
    }
}
