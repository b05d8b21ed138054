//! Which side of a fork an object belongs to, and what both sides go on with.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::sync::lock;

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Shared by whoever holds a [`Shared`], taken whole by whoever forks.
static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// The gate, from [`before_fork`] to the call after the fork: this is the one thread that there is in the child.
    static HOLDING: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// What a forked child goes on with: no other thread holds it while the process forks, so the child never finds it locked by
/// a thread that it does not have.
///
/// Who holds one takes no other. Everything else of a hub is its process's own, and is not touched in a child.
#[derive(Default)]
pub(crate) struct Shared<T>(Mutex<T>);

/// A [`Shared`] that is held.
pub(crate) struct Held<'a, T> {
    value: MutexGuard<'a, T>,
    _gate: RwLockReadGuard<'static, ()>,
}

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for a fork that is under way, and for other threads.
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
        Held { value: lock(&self.0), _gate: gate }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Prepares a fork: call it before, on the thread that forks. Waits for store calls under way and keeps all others out
/// until [`after_fork_in_parent`] or [`after_fork`] is called on the same thread, so that a child inherits no file
/// half-way through a write (SQLite's locks are the process's, and do not survive a fork), and no lock of a hub's that a
/// thread holds which it does not have.
pub fn before_fork() {
    HOLDING.with_borrow_mut(|holding| {
        if holding.is_none() {
            // First of all: who holds a hub may be about to enter a store, and nobody in a store asks for a hub.
            *holding = Some(GATE.write().unwrap_or_else(PoisonError::into_inner));
        }
    });
    tidings_store_sqlite::before_fork();
}

/// The fork is done, and this is the parent: everything goes on. Harmless without [`before_fork`].
pub fn after_fork_in_parent() {
    tidings_store_sqlite::after_fork();
    HOLDING.take();
}

/// Tells the library that this process was just forked: call it in the child, before anything else of this library.
///
/// The child then leaks what it inherited (closing it would drop the parent's file locks) and opens anew at next use;
/// live writers, tails and calls answer [`Forked`](crate::ErrorCode::Forked). The bindings call it by themselves.
pub fn after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    tidings_store_sqlite::after_fork();
    HOLDING.take();
}

/// The number of forks between the first process and this one, as far as it was told.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_waits_for_who_holds_what_both_sides_go_on_with() {
        let shared = Shared::new(1);
        let mut held = shared.lock();
        assert!(GATE.try_write().is_err(), "a fork would wait");
        *held += 1;
        drop(held);
        before_fork();
        before_fork();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| GATE.try_read().is_err());
            assert!(other.join().unwrap(), "nobody gets in");
        });
        after_fork_in_parent();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| *shared.lock());
            assert_eq!(other.join().unwrap(), 2);
        });
    }
}
