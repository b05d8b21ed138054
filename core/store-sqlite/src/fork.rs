//! Forks: a process with open stores closes their connections for the moment of the fork.
//!
//! SQLite keeps, for each database file, which locks its process holds. A forked child has that list and none of the
//! locks, so a connection it opens to the same file believes in locks that the kernel does not know of, and the database
//! can be damaged. Nothing the child may do repairs that: not even closing what it inherited, which may write to memory it
//! shares with its parent (<https://sqlite.org/howtocorrupt.html>, 2.6). What helps is that there are no connections while
//! the process forks. So whoever forks calls [`before_fork`] and then, in both processes, [`after_fork`]; Python's
//! `os.register_at_fork` and C's `pthread_atfork` do that for every fork.
//!
//! Without it, a child that opens a store which its parent had open is refused.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use tidings_store::{StoreError, StoreErrorKind};

use crate::Inner;

static GATE: LazyLock<Gate> = LazyLock::new(Gate::default);

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The process these numbers are of.
    pid: u32,
    /// Calls into stores that are under way.
    inside: usize,
    /// Somebody waits for them to leave.
    forking: bool,
    stores: Vec<Weak<Inner>>,
}

thread_local! {
    /// Keeps every other thread out of the stores, from [`before_fork`] to [`after_fork`].
    static HOLDING: RefCell<Option<MutexGuard<'static, State>>> = const { RefCell::new(None) };
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = std::process::id();
        if state.pid != pid {
            // Whoever was inside when this process was forked is not in it.
            state.pid = pid;
            state.inside = 0;
            state.forking = false;
        }
        state
    }
}

/// A call into a store that is under way.
pub(crate) struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        let mut state = GATE.state();
        state.inside = state.inside.saturating_sub(1);
        if state.inside == 0 {
            GATE.changed.notify_all();
        }
    }
}

/// Enters a store, after a fork that is under way.
pub(crate) fn enter() -> Inside {
    let mut state = GATE.state();
    while state.forking {
        state = GATE.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.inside += 1;
    Inside(())
}

/// Remembers an open store.
pub(crate) fn register(store: &Arc<Inner>) {
    let mut state = GATE.state();
    state.stores.retain(|store| store.strong_count() > 0);
    state.stores.push(Arc::downgrade(store));
}

/// Refuses a database to which this process inherited connections.
pub(crate) fn check_inherited(identity: (u64, u64)) -> Result<(), StoreError> {
    let stores: Vec<_> = GATE.state().stores.iter().filter_map(Weak::upgrade).collect();
    let inherited =
        |store: &Arc<Inner>| store.core.is_inherited() && store.core.identity == identity && store.has_connections();
    let found = stores.iter().any(inherited);
    for store in stores.into_iter().filter(|store| store.core.is_inherited()) {
        // Not ours to close, not even as the last to hold it.
        std::mem::forget(store);
    }
    if !found {
        return Ok(());
    }
    let why = "this process was forked while its parent had this store open: SQLite would damage it here; \
               call before_fork() and after_fork() around forks, or open the store after them";
    Err(StoreError::new(StoreErrorKind::Unsupported, why))
}

/// Closes the connections of every open store of this process, after the calls that are under way, and keeps all threads out
/// of the stores until [`after_fork`] is called on this thread. The stores stay open: their connections come back when needed,
/// and their workers' locks are held throughout. To call it again before that does nothing.
pub fn before_fork() {
    HOLDING.with_borrow_mut(|holding| {
        if holding.is_some() {
            return;
        }
        let mut state = GATE.state();
        state.forking = true;
        while state.inside > 0 {
            state = GATE.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        for store in state.stores.iter().filter_map(Weak::upgrade) {
            if store.core.is_inherited() {
                std::mem::forget(store);
            } else {
                store.suspend();
            }
        }
        *holding = Some(state);
    });
}

/// Lets threads into the stores again; in the parent and in the child. In the child the stores that were open answer
/// `Closed`, and can be opened anew.
pub fn after_fork() {
    HOLDING.with_borrow_mut(|holding| {
        if let Some(mut state) = holding.take() {
            state.forking = false;
            GATE.changed.notify_all();
        }
    });
}
