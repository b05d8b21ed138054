//! Operations that others rely on and whose event loop is gone.

use std::task::Poll;
use std::time::Duration;

use crate::pending::{Pending, Started};

/// How long one of them may take. They wait for commits, which a hub that closes does or fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Goes on with them to their ends in a thread of its own.
#[allow(clippy::disallowed_methods, reason = "this tier owns the threads that block for a host")]
pub(crate) fn finish(orphans: Vec<Pending>) {
    if orphans.is_empty() {
        return;
    }
    let count = orphans.len();
    let spawned = std::thread::Builder::new().name("tidings-orphans".into()).spawn(move || {
        let deadline = std::time::Instant::now() + PATIENCE;
        for orphan in orphans {
            finish_one(orphan, deadline);
        }
    });
    if let Err(error) = spawned {
        tracing::warn!(count, %error, "operations of a closed event loop were dropped: no thread");
    }
}

#[allow(clippy::disallowed_methods, reason = "this tier owns the threads that block for a host")]
fn finish_one(mut orphan: Pending, deadline: std::time::Instant) {
    loop {
        orphan.bind_thread(std::thread::current());
        match orphan.poll() {
            Poll::Pending => {
                let left = deadline.saturating_duration_since(std::time::Instant::now());
                if left.is_zero() {
                    tracing::warn!("an operation of a closed event loop did not end in time");
                    return;
                }
                std::thread::park_timeout(left);
            }
            Poll::Ready(Ok(answer)) => match answer.discard() {
                Some(Started::Pending(next)) => orphan = next,
                _ => return,
            },
            Poll::Ready(Err(_)) => return,
        }
    }
}
