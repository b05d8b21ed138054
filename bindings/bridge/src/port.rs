//! One port for each event loop (or poller) that waits: a ready list and one coalesced wake.
//!
//! Other threads only ever put a token on the list and write the descriptor; operations go on in the host's own thread,
//! when it drains. So no thread of ours ever calls into the host.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use crate::answer::Answer;
use crate::error::{Error, ErrorCode, Result};
use crate::fork::{Own, lock};
use crate::pending::{Cancel, Pending, Started};
use crate::wake::{Wake, WakeFd};
use crate::{log, orphans};

/// The token that only says: look at the log. No operation has it.
const LOOK_AT_LOG: u64 = 0;

/// Where operations of one event loop wait.
#[derive(Debug)]
pub struct Port {
    inner: Own<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    slots: Mutex<Slots>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    wake: Wake,
    ready: Mutex<Ready>,
}

#[derive(Debug, Default)]
struct Ready {
    tokens: Vec<u64>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Slots {
    last_token: u64,
    slots: HashMap<u64, Slot>,
    closed: bool,
}

#[derive(Debug)]
enum Slot {
    /// Waits to be woken.
    Waits(Pending),
    /// A thread is going on with it. `abandoned`: cancelled meanwhile.
    Runs { abandoned: bool },
    /// Done; the host has not taken the answer.
    Done(Result<Answer>),
    /// The host waits no longer, but it goes on.
    Abandoned(Pending),
}

impl Shared {
    /// Puts a token on the list; the first one since the last drain wakes the loop.
    pub(crate) fn push(&self, token: u64) {
        let mut ready = lock(&self.ready);
        if ready.closed {
            return;
        }
        ready.tokens.push(token);
        let first = ready.tokens.len() == 1;
        drop(ready);
        if first {
            self.wake.wake();
        }
    }

    pub(crate) fn look_at_log(&self) {
        self.push(LOOK_AT_LOG);
    }
}

impl Port {
    /// A port with no operations, for a loop that watches a descriptor.
    pub fn new() -> Result<Self> {
        Ok(Self::waking(Wake::Descriptor(WakeFd::new()?)))
    }

    /// A port with no operations, for a loop that is woken by `wake`: any thread calls it, once until the next
    /// [`drain`](Self::drain). It must not block, and must not call back into the port.
    pub fn with_wake(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self::waking(Wake::Call(Box::new(wake)))
    }

    fn waking(wake: Wake) -> Self {
        let shared = Arc::new(Shared { wake, ready: Mutex::default() });
        log::watch(&shared);
        Self { inner: Own::new(Inner { shared, slots: Mutex::default() }) }
    }

    /// The descriptor that is readable when there is something to [`drain`](Self::drain); `None` for a port that was
    /// made [`with_wake`](Self::with_wake). Belongs to the port, which closes it; the host only waits for it.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.shared.wake.descriptor().map(AsFd::as_fd)
    }

    /// Lets an operation wait here. The token names it, at this port, for ever; it is never 0.
    ///
    /// # Errors
    /// `closed` when the port is, `forked`.
    pub fn park(&self, pending: Pending) -> Result<u64> {
        let inner = self.inner.get()?;
        let mut slots = lock(&inner.slots);
        if slots.closed {
            return Err(Error::new(ErrorCode::Closed, "the event loop's port is closed"));
        }
        slots.last_token += 1;
        let token = slots.last_token;
        pending.bind(Arc::downgrade(&inner.shared), token)?;
        slots.slots.insert(token, Slot::Waits(pending));
        Ok(token)
    }

    /// Goes on with every operation that was woken since the last time and answers the tokens of those that are done;
    /// [`take`](Self::take) has their answers.
    pub fn drain(&self) -> Vec<u64> {
        let Ok(inner) = self.inner.get() else { return Vec::new() };
        // In this order: whoever puts a token on the list after it was taken also wakes the loop again.
        inner.shared.wake.clear();
        let woken = std::mem::take(&mut lock(&inner.shared.ready).tokens);
        woken.into_iter().filter(|token| inner.go_on(*token)).collect()
    }

    /// The answer of an operation that is done; `None` for any other.
    pub fn take(&self, token: u64) -> Option<Result<Answer>> {
        let inner = match self.inner.get() {
            Ok(inner) => inner,
            Err(error) => return Some(Err(error)),
        };
        let mut slots = lock(&inner.slots);
        match slots.slots.remove(&token)? {
            Slot::Done(answer) => Some(answer),
            other => {
                slots.slots.insert(token, other);
                None
            }
        }
    }

    /// The host no longer waits for that operation. One that others rely on goes on; the rest is dropped.
    pub fn cancel(&self, token: u64) {
        let Ok(inner) = self.inner.get() else { return };
        let mut slots = lock(&inner.slots);
        let dropped = match slots.slots.remove(&token) {
            Some(Slot::Waits(pending)) if pending.cancel() != Cancel::Drop => {
                slots.slots.insert(token, Slot::Abandoned(pending));
                None
            }
            Some(Slot::Runs { .. }) => {
                slots.slots.insert(token, Slot::Runs { abandoned: true });
                None
            }
            other => other,
        };
        drop(slots);
        match dropped {
            Some(Slot::Done(Ok(answer))) => inner.discard(answer),
            other => drop(other),
        }
    }

    /// Waits in this thread until there is something to drain, at most `timeout`; `false` also when a signal came, and for
    /// a port that was made [`with_wake`](Self::with_wake).
    pub fn wait(&self, timeout: Duration) -> bool {
        self.inner.is_ours() && self.inner.shared.wake.descriptor().is_some_and(|fd| fd.wait(timeout))
    }

    /// Cancels what waits and refuses more. The descriptor stays open until the port is dropped.
    pub fn close(&self) {
        if let Ok(inner) = self.inner.get() {
            inner.close();
        }
    }

    /// Operations that wait or whose answers were not taken.
    pub fn len(&self) -> usize {
        self.inner.get().map_or(0, |inner| lock(&inner.slots).slots.len())
    }

    /// Nothing waits and every answer was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inner {
    /// Polls one operation; `true`: it is done and the host waits for it.
    fn go_on(&self, token: u64) -> bool {
        let mut slots = lock(&self.slots);
        let (pending, was_abandoned) = match slots.slots.remove(&token) {
            Some(Slot::Waits(pending)) => (pending, false),
            Some(Slot::Abandoned(pending)) => (pending, true),
            Some(other) => {
                slots.slots.insert(token, other);
                return false;
            }
            None => return false,
        };
        slots.slots.insert(token, Slot::Runs { abandoned: was_abandoned });
        drop(slots);

        // Without the lock: the operation may take its time, and may wake this port.
        let polled = pending.poll();

        let mut slots = lock(&self.slots);
        // The port was closed meanwhile, if nothing is there.
        let Some(Slot::Runs { abandoned }) = slots.slots.remove(&token) else { return false };
        match (polled, abandoned) {
            (Poll::Pending, false) => {
                slots.slots.insert(token, Slot::Waits(pending));
                false
            }
            (Poll::Pending, true) if pending.cancel() == Cancel::Drop => {
                drop(slots);
                false
            }
            (Poll::Pending, true) => {
                slots.slots.insert(token, Slot::Abandoned(pending));
                false
            }
            (Poll::Ready(answer), false) => {
                slots.slots.insert(token, Slot::Done(answer));
                true
            }
            (Poll::Ready(answer), true) => {
                drop(slots);
                if let Ok(answer) = answer {
                    self.discard(answer);
                }
                false
            }
        }
    }

    /// Nobody will take this answer.
    fn discard(&self, answer: Answer) {
        let Some(Started::Pending(pending)) = answer.discard() else { return };
        let mut slots = lock(&self.slots);
        if slots.closed {
            drop(slots);
            orphans::finish(vec![pending]);
            return;
        }
        slots.last_token += 1;
        let token = slots.last_token;
        if pending.bind(Arc::downgrade(&self.shared), token).is_ok() {
            slots.slots.insert(token, Slot::Abandoned(pending));
        }
    }

    fn close(&self) {
        lock(&self.shared.ready).closed = true;
        let mut slots = lock(&self.slots);
        slots.closed = true;
        let all = std::mem::take(&mut slots.slots);
        drop(slots);
        let mut orphans = Vec::new();
        for slot in all.into_values() {
            match slot {
                Slot::Waits(pending) | Slot::Abandoned(pending) if pending.cancel() != Cancel::Drop => {
                    orphans.push(pending);
                }
                Slot::Done(Ok(answer)) => {
                    if let Some(Started::Pending(pending)) = answer.discard() {
                        orphans.push(pending);
                    }
                }
                Slot::Waits(_) | Slot::Abandoned(_) | Slot::Runs { .. } | Slot::Done(_) => {}
            }
        }
        orphans::finish(orphans);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// For the log: a port to wake when there is something to look at.
pub(crate) type WeakPort = Weak<Shared>;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use super::*;
    use crate::pending::start;

    /// An operation that another thread lets go on.
    #[derive(Clone, Default)]
    struct Gate(Arc<Mutex<(bool, Option<Waker>)>>, Arc<AtomicUsize>);

    impl Gate {
        fn open(&self) {
            let mut gate = lock(&self.0);
            gate.0 = true;
            if let Some(waker) = gate.1.clone() {
                waker.wake();
            }
        }

        fn poke(&self) {
            if let Some(waker) = lock(&self.0).1.clone() {
                waker.wake();
            }
        }

        fn polls(&self) -> usize {
            self.1.load(Ordering::SeqCst)
        }

        fn start(&self, cancel: Cancel) -> Started {
            let Self(gate, polls) = self.clone();
            start(
                cancel,
                poll_fn(move |cx| {
                    polls.fetch_add(1, Ordering::SeqCst);
                    let mut gate = lock(&gate);
                    if gate.0 {
                        return Poll::Ready(Ok(Answer::Seq(7)));
                    }
                    gate.1 = Some(cx.waker().clone());
                    Poll::Pending
                }),
            )
        }
    }

    fn pending(started: Started) -> Pending {
        match started {
            Started::Pending(pending) => pending,
            Started::Ready(answer) => panic!("done already: {answer:?}"),
        }
    }

    fn readable(port: &Port) -> bool {
        port.wait(Duration::ZERO)
    }

    #[test]
    fn what_is_done_at_once_needs_no_port() {
        let gate = Gate::default();
        gate.open();
        assert!(matches!(gate.start(Cancel::Drop), Started::Ready(Ok(Answer::Seq(7)))));
        assert_eq!(gate.polls(), 1);
    }

    #[test]
    fn a_wake_makes_the_port_readable_until_it_is_drained() {
        let (port, gate) = (Port::new().unwrap(), Gate::default());
        let token = port.park(pending(gate.start(Cancel::Drop))).unwrap();
        assert!(!readable(&port));
        assert!(port.take(token).is_none());
        let other = gate.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || other.open());
        });
        assert!(readable(&port));
        assert_eq!(gate.polls(), 1, "only the host polls");
        assert_eq!(port.drain(), [token]);
        assert!(!readable(&port));
        assert!(matches!(port.take(token), Some(Ok(Answer::Seq(7)))));
        assert!(port.take(token).is_none());
        assert!(port.is_empty());
    }

    #[test]
    fn a_wake_before_the_parking_counts() {
        let (port, gate) = (Port::new().unwrap(), Gate::default());
        let op = pending(gate.start(Cancel::Drop));
        gate.open();
        let token = port.park(op).unwrap();
        assert!(readable(&port));
        assert_eq!(port.drain(), [token]);
    }

    #[test]
    fn wakes_are_coalesced() {
        let (port, gate) = (Port::new().unwrap(), Gate::default());
        let tokens: Vec<_> = (0..3).map(|_| port.park(pending(gate.start(Cancel::Drop))).unwrap()).collect();
        for _ in 0..100 {
            gate.poke(); // only the last one's waker is in the gate
        }
        assert_eq!(port.drain(), [0; 0]);
        assert_eq!(gate.polls(), 4, "a hundred wakes, one poll");
        assert!(!readable(&port));
        assert_eq!(port.len(), tokens.len());
    }

    #[test]
    fn cancelled_operations_are_dropped_and_their_late_wakes_ignored() {
        let (port, gate) = (Port::new().unwrap(), Gate::default());
        let token = port.park(pending(gate.start(Cancel::Drop))).unwrap();
        port.cancel(token);
        assert!(port.is_empty());
        gate.open();
        assert_eq!(port.drain(), [0; 0]);
        assert_eq!(gate.polls(), 1);
    }

    #[test]
    fn what_others_rely_on_goes_on_after_a_cancel() {
        let (port, gate) = (Port::new().unwrap(), Gate::default());
        let token = port.park(pending(gate.start(Cancel::Finish))).unwrap();
        port.cancel(token);
        assert_eq!(port.len(), 1);
        gate.open();
        assert_eq!(port.drain(), [0; 0], "nobody waits for it");
        assert_eq!(gate.polls(), 2);
        assert!(port.is_empty());
    }

    #[test]
    fn a_closed_port_drops_what_waits_and_finishes_what_must_be() {
        let (port, dropped, finished) = (Port::new().unwrap(), Gate::default(), Gate::default());
        port.park(pending(dropped.start(Cancel::Drop))).unwrap();
        port.park(pending(finished.start(Cancel::Finish))).unwrap();
        port.close();
        assert!(port.is_empty());
        assert_eq!(port.park(pending(Gate::default().start(Cancel::Drop))).unwrap_err().code(), ErrorCode::Closed);
        dropped.open();
        finished.open();
        // The orphan's thread lets go of the gate when it is done.
        while Arc::strong_count(&finished.0) > 1 {
            std::thread::yield_now();
        }
        assert!(finished.polls() >= 2);
        assert_eq!(dropped.polls(), 1);
    }

    #[test]
    fn a_wake_that_outlives_its_port() {
        let gate = Gate::default();
        let port = Port::new().unwrap();
        port.park(pending(gate.start(Cancel::Drop))).unwrap();
        drop(port);
        gate.open();
    }

    #[test]
    fn a_panic_ends_the_operation_and_nothing_else() {
        let port = Port::new().unwrap();
        let mut first = true;
        let bomb = start(
            Cancel::Drop,
            poll_fn(move |cx| {
                if std::mem::take(&mut first) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                panic!("a defect")
            }),
        );
        let token = port.park(pending(bomb)).unwrap();
        assert_eq!(port.drain(), [token]);
        assert_eq!(port.take(token).unwrap().unwrap_err().code(), ErrorCode::Internal);
    }
}
