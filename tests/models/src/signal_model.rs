//! No wake is lost: a task that looked and found nothing is woken by whatever comes after.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::signal::Signal;

/// A thread that sleeps until it is woken.
#[derive(Default)]
struct Sleeper(Notify);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// As a tail does: forget what was raised, look, and wait for more. Until it has seen `wanted` things.
fn wait_for(signal: &Signal, there: &AtomicUsize, wanted: usize) {
    let sleeper = Arc::new(Sleeper::default());
    let waker = Waker::from(Arc::clone(&sleeper));
    loop {
        signal.reset();
        // The store is asked, which says what was there when it was told of: no more is relied on than that.
        if there.load(Ordering::Relaxed) == wanted {
            return;
        }
        if signal.register(&waker) {
            sleeper.0.wait();
        }
    }
}

/// Of one thread that raises, all orders are tried; of more, those in which threads are interrupted at most so often, which is
/// what mistakes of this kind take.
const INTERRUPTIONS: usize = 3;

/// A model in which a thread waits for ever fails as a deadlock.
fn model(orders: Option<usize>, threads: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = orders;
    model.check(threads);
}

fn raised_by(threads: usize) {
    model((threads > 1).then_some(INTERRUPTIONS), move || {
        let (signal, there) = (Arc::new(Signal::default()), Arc::new(AtomicUsize::new(0)));
        let raising: Vec<_> = (0..threads)
            .map(|_| {
                let (signal, there) = (Arc::clone(&signal), Arc::clone(&there));
                thread::spawn(move || {
                    there.fetch_add(1, Ordering::Relaxed);
                    signal.raise();
                })
            })
            .collect();
        wait_for(&signal, &there, threads);
        for thread in raising {
            thread.join().expect("raises");
        }
    });
}

#[test]
fn one_thread_raises() {
    raised_by(1);
}

#[test]
fn two_threads_raise() {
    raised_by(2);
}

/// The second raise may find the first one's waker taken, and not yet woken.
#[test]
fn a_thread_raises_twice() {
    model(Some(INTERRUPTIONS), || {
        let (signal, there) = (Arc::new(Signal::default()), Arc::new(AtomicUsize::new(0)));
        let raising = {
            let (signal, there) = (Arc::clone(&signal), Arc::clone(&there));
            thread::spawn(move || {
                for _ in 0..2 {
                    there.fetch_add(1, Ordering::Relaxed);
                    signal.raise();
                }
            })
        };
        wait_for(&signal, &there, 2);
        raising.join().expect("raises");
    });
}
