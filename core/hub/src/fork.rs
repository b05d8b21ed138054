//! Which side of a fork an object belongs to.

use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Tells the library that this process was just forked: call it in the child, before anything else of this library.
///
/// The child then leaks what it inherited (closing it would drop the parent's file locks) and opens anew at next use;
/// live writers, tails and calls answer [`Forked`](crate::ErrorCode::Forked). The bindings call it by themselves.
pub fn after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The number of forks between the first process and this one, as far as it was told.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
