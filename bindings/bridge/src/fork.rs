//! What a forked child does with objects of its parent: nothing.

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::error::Error;
use crate::{hub, log};

static GENERATION: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// What is global to the library, from [`before_fork`] to the call after the fork: this is the one thread that there is in
    /// the child.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Prepares a fork: call it before, on the thread that forks. It keeps other threads out of what a child goes on with until
/// [`after_fork_in_parent`] or [`after_fork`]. A second one in the same thread changes nothing.
pub fn before_fork() {
    tidings::before_fork();
    HELD.with_borrow_mut(|held| {
        if held.is_empty() {
            *held = vec![hub::hold(), log::hold()];
        }
    });
}

/// The fork is done, and this is the parent: everything goes on.
pub fn after_fork_in_parent() {
    HELD.take();
    tidings::after_fork_in_parent();
}

/// Tells the library that this process was just forked; call it in the child before anything else.
pub fn after_fork() {
    HELD.take();
    GENERATION.fetch_add(1, Ordering::Relaxed);
    tidings::after_fork();
}

/// The number of forks between the first process and this one, as far as the library was told.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// A value of the process that made it. In a forked child it cannot be used, and dropping it leaks it: its destructor
/// would close the parent's files, or wait for a lock that a thread held which does not exist in the child.
#[derive(Debug)]
pub(crate) struct Own<T> {
    value: Option<T>,
    generation: u32,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), generation: generation() }
    }

    /// Whether this process made it.
    pub(crate) fn is_ours(&self) -> bool {
        self.generation == generation()
    }

    /// The value, in the process that made it.
    pub(crate) fn get(&self) -> Result<&T, Error> {
        if self.is_ours() { Ok(self) } else { Err(Error::forked()) }
    }
}

impl<T> Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("only drop takes the value")
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            mem::forget(self.value.take());
        }
    }
}

/// Locks, also after a panic elsewhere: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks what is global to the library and held for a moment only. `None`: in a forked child, a lock that some thread of
/// the parent held at the fork stays locked for ever; whoever calls this can do without.
pub(crate) fn lock_global<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..10_000 {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}
