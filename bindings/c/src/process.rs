//! What concerns the whole process: versions, forks, its end.

use std::time::Duration;

use tidings_bridge as bridge;

use crate::entry::{entry, tidings_result};
use crate::fork;
use crate::memory::Out;

/// The version of the ABI that this header describes. Within a major version (`TIDINGS_ABI_VERSION / 1000`), later ones only
/// add.
pub const TIDINGS_ABI_VERSION: u32 = 1;

/// The version of the ABI of the library that was loaded: compare it with `TIDINGS_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn tidings_abi_version() -> u32 {
    TIDINGS_ABI_VERSION
}

/// Before a fork, in the parent. Give this and the two below to `pthread_atfork`, where the process forks and goes on with
/// Tidings on both sides: no thread of the parent then holds a lock that the child needs. In the child hubs open anew, loggers go
/// on, and options, texts, lists and whatever else does nothing by itself can be used. What lives in the parent's threads is
/// `TIDINGS_FORKED` there and can only be freed: ports and answers, streams, writers, tails and exports, calls, outlets and their
/// deliveries, outboxes, peers and listeners. Waits for what is under way in a store.
#[unsafe(no_mangle)]
pub extern "C" fn tidings_before_fork() {
    let _ = entry("tidings_before_fork", || {
        bridge::before_fork();
        fork::freeze();
        Ok(())
    });
}

/// After a fork, in the parent.
#[unsafe(no_mangle)]
pub extern "C" fn tidings_after_fork_in_parent() {
    let _ = entry("tidings_after_fork_in_parent", || {
        fork::thaw();
        bridge::after_fork_in_parent();
        Ok(())
    });
}

/// After a fork, in the child, before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn tidings_after_fork_in_child() {
    let _ = entry("tidings_after_fork_in_child", || {
        fork::thaw_in_child();
        bridge::after_fork();
        Ok(())
    });
}

/// Closes every hub that is open, for the end of the process: sets 1 if all that waited was committed in time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_close_all(deadline_ms: u64, complete: *mut i32) -> tidings_result {
    entry("tidings_close_all", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("complete", complete) }?;
        out.set(i32::from(bridge::close_all(Duration::from_millis(deadline_ms))));
        Ok(())
    })
}
