//! Which side of a fork an object belongs to.

use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Prepares a fork: call it before, on the thread that forks. Waits for store calls under way and keeps all others out
/// until [`after_fork_in_parent`] or [`after_fork`] is called on the same thread, so that a child inherits no file
/// half-way through a write (SQLite's locks are the process's, and do not survive a fork).
pub fn before_fork() {
    tidings_store_sqlite::before_fork();
}

/// The fork is done, and this is the parent: everything goes on. Harmless without [`before_fork`].
pub fn after_fork_in_parent() {
    tidings_store_sqlite::after_fork();
}

/// Tells the library that this process was just forked: call it in the child, before anything else of this library.
///
/// The child then leaks what it inherited (closing it would drop the parent's file locks) and opens anew at next use;
/// live writers, tails and calls answer [`Forked`](crate::ErrorCode::Forked). The bindings call it by themselves.
pub fn after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    tidings_store_sqlite::after_fork();
}

/// The number of forks between the first process and this one, as far as it was told.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
