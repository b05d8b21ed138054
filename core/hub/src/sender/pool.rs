//! Connections that are kept for the next attempt at the same endpoint.
//!
//! A connection leads to the address that was checked when it was opened, and to no other: reusing one cannot be turned
//! elsewhere by whoever owns the name. It serves one endpoint, that is one principal, and it does not grow old, so that a
//! name that has moved is looked up again.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use tidings_proto::delivery::EndpointKey;
use tokio::time::Instant;

use super::AbortOnDrop;
use crate::notify::lock;

/// How long a connection is kept without a use: shorter than most servers wait, so that they rarely close it under us.
const IDLE: Duration = Duration::from_secs(4);
/// How long it is used at all.
const AGE: Duration = Duration::from_secs(60);

/// An open connection.
pub(super) struct Kept {
    pub(super) client: SendRequest<Full<Bytes>>,
    /// Ends the connection with the rest.
    pub(super) _connection: AbortOnDrop,
    pub(super) born: Instant,
}

struct Idle {
    key: EndpointKey,
    kept: Kept,
    since: Instant,
}

impl Idle {
    fn is_good(&self, now: Instant) -> bool {
        now.duration_since(self.since) < IDLE
            && now.duration_since(self.kept.born) < AGE
            && !self.kept.client.is_closed()
    }
}

pub(super) struct Pool {
    /// The one used last at the end.
    idle: Mutex<VecDeque<Idle>>,
    most: usize,
    most_each: usize,
}

impl Pool {
    /// Keeps at most so many connections, in all and for one endpoint: as many as may be in use at a time.
    pub(super) fn new(most: u32, most_each: u32) -> Self {
        let count = |most| usize::try_from(most).unwrap_or(usize::MAX);
        Self { idle: Mutex::default(), most: count(most), most_each: count(most_each) }
    }

    /// A connection to the endpoint, if one is kept.
    pub(super) fn take(&self, key: EndpointKey) -> Option<Kept> {
        let mut idle = lock(&self.idle);
        let now = Instant::now();
        loop {
            let at = idle.iter().rposition(|idle| idle.key == key)?;
            let found = idle.remove(at)?;
            if found.is_good(now) {
                return Some(found.kept);
            }
        }
    }

    /// Keeps a connection that waits for its next request.
    pub(super) fn put(&self, key: EndpointKey, kept: Kept) {
        let entry = Idle { key, kept, since: Instant::now() };
        if !entry.is_good(entry.since) {
            return;
        }
        let mut idle = lock(&self.idle);
        if idle.iter().filter(|idle| idle.key == key).count() >= self.most_each {
            return;
        }
        idle.push_back(entry);
        if idle.len() > self.most {
            idle.pop_front();
        }
    }

    /// Closes what was not used for too long.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        lock(&self.idle).retain(|idle| idle.is_good(now));
    }
}
