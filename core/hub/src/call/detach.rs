//! Calls that go on although their request is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings_proto::trigger::{Outcome, Reason};

use super::{Call, bare};
use crate::error::Result;
use crate::notify::lock;

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
        let mut detached = lock(&inner.core.detached);
        let count = detached.entry(counted_as.to_owned()).or_insert(0);
        if *count >= limits.calls {
            if *count == 0 {
                detached.remove(counted_as);
            }
            drop(detached);
            inner.start_end(&bare(Outcome::Cancelled, Some(Reason::DetachLimit)));
            return Ok(false);
        }
        *count += 1;
        drop(detached);

        let (core, call) = (Arc::clone(&inner.core), Arc::downgrade(inner));
        let (mut ended, name) = (inner.subscribe(), counted_as.to_owned());
        // The call is not kept: one that nobody holds any more fails, and that is its end too.
        let spawned = inner.core.spawn(async move {
            let over = ended.wait_for(Option::is_some);
            if tokio::time::timeout(limits.time, over).await.is_err()
                && let Some(call) = call.upgrade()
            {
                call.start_end(&bare(Outcome::Cancelled, Some(Reason::DetachExpired)));
            }
            let mut detached = lock(&core.detached);
            if let Some(count) = detached.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    detached.remove(&name);
                }
            }
        });
        drop(spawned);
        self.disconnected()?;
        Ok(true)
    }
}
