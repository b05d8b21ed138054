//! Where work waits for the writer thread, and the thread for work.
//!
//! `tests/models` goes through every order in which threads can meet here.

use std::time::Duration;

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, lock};

/// What is put in for the thread.
pub(crate) trait Work: Default {
    /// Whether there is nothing to do.
    fn is_empty(&self) -> bool;
}

#[derive(Default)]
struct State<W> {
    work: W,
    /// The thread waits and nobody has woken it yet: each wake costs a system call.
    idle: bool,
    /// The hub is closing: a store that fails is not waited for.
    hurry: bool,
    stop: bool,
}

/// Work for one thread, which waits for it.
#[derive(Default)]
pub(crate) struct Inbox<W> {
    state: Mutex<State<W>>,
    wake: Condvar,
    /// A simulation has no thread to wake.
    #[cfg(feature = "simulation")]
    told: tokio::sync::Notify,
}

impl<W: Work> Inbox<W> {
    /// Puts something in, whether or not the thread has been stopped, and wakes the thread if it waits.
    pub(crate) fn put(&self, put: impl FnOnce(&mut W)) {
        let mut state = lock(&self.state);
        put(&mut state.work);
        self.wake(state);
    }

    /// Puts something in for a thread that goes on. Answers it back once it was stopped.
    pub(crate) fn offer<T>(&self, work: T, put: impl FnOnce(&mut W, T)) -> Result<(), T> {
        let mut state = lock(&self.state);
        if state.stop {
            return Err(work);
        }
        put(&mut state.work, work);
        self.wake(state);
        Ok(())
    }

    fn wake(&self, mut state: MutexGuard<'_, State<W>>) {
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        self.tell();
        if idle {
            self.wake.notify_one();
        }
    }

    #[inline(always)]
    fn tell(&self) {
        #[cfg(feature = "simulation")]
        self.told.notify_one();
    }

    /// Looks at what waits, and may take of it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut W) -> T) -> T {
        look(&mut lock(&self.state).work)
    }

    /// The hub is closing: a store that fails is tried once more, and not waited for.
    pub(crate) fn hurry(&self) {
        lock(&self.state).hurry = true;
        self.tell();
        self.wake.notify_all();
    }

    /// From now on nothing more is [offered](Self::offer), and the thread does not wait any longer.
    pub(crate) fn stop(&self) {
        lock(&self.state).stop = true;
        self.tell();
        self.wake.notify_all();
    }

    /// The thread waits for work. Says whether it is to end after it.
    pub(crate) fn wait(&self) -> bool {
        let mut state = lock(&self.state);
        while state.work.is_empty() && !state.stop {
            state.idle = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        state.stop
    }

    /// The thread waits for `pause`, whatever comes meanwhile; once there is a hurry, for `hurried`. The hurry, when it comes,
    /// and the stop end it. Says whether the thread is to end.
    pub(crate) fn pause(&self, pause: Duration, hurried: Duration) -> bool {
        let state = lock(&self.state);
        let hurry = state.hurry;
        let pause = if hurry { hurried } else { pause };
        let waiting = |state: &mut State<W>| !state.stop && state.hurry == hurry;
        self.wake.wait_timeout_while(state, pause, waiting).unwrap_or_else(PoisonError::into_inner).0.stop
    }

    /// The same as [`wait`](Self::wait) and [`pause`](Self::pause), for a simulation.
    #[cfg(feature = "simulation")]
    pub(crate) async fn simulate_wait(&self, failing: Option<(Duration, Duration)>) {
        let hurry = lock(&self.state).hurry;
        let ready = |state: &State<W>| {
            state.stop || if failing.is_some() { state.hurry != hurry } else { !state.work.is_empty() }
        };
        let wait = async {
            while !ready(&lock(&self.state)) {
                self.told.notified().await;
            }
        };
        match failing {
            Some((pause, hurried)) => {
                let _ = tokio::time::timeout(if hurry { hurried } else { pause }, wait).await;
            }
            None => wait.await,
        }
    }

    /// Whether the thread was stopped.
    #[cfg(feature = "simulation")]
    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.state).stop
    }
}
