//! Operations that may have to wait, without a runtime of ours in the host.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::answer::Answer;
use crate::error::{Error, ErrorCode, Result};
use crate::fork::{Own, lock};
use crate::guard::guard;
use crate::orphans;
use crate::port::Shared;

/// What an operation does.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Answer>> + Send>>;

/// What becomes of an operation that the host no longer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// It is dropped where it stands.
    Drop,
    /// It goes on to its end, for others wait for what it does.
    Finish,
    /// It goes on, and the call that it begins is cancelled: nobody holds it.
    EndCall,
}

/// An operation that was begun.
#[derive(Debug)]
pub enum Started {
    /// It was done at once.
    Ready(Result<Answer>),
    /// It waits; park it at a port.
    Pending(Pending),
}

/// An operation that waits. A host that does not park it calls [`abandon`](Self::abandon).
pub struct Pending {
    inner: Own<Running>,
}

pub(crate) struct Running {
    work: Mutex<Work>,
    waker: Arc<SlotWaker>,
    pub(crate) cancel: Cancel,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("cancel", &self.inner.cancel).finish_non_exhaustive()
    }
}

/// Begins an operation in the caller's thread; one that does not have to wait touches no port.
pub(crate) fn start(cancel: Cancel, work: impl Future<Output = Result<Answer>> + Send + 'static) -> Started {
    let running = Running { work: Mutex::new(Box::pin(work)), waker: Arc::default(), cancel };
    match running.poll() {
        Poll::Ready(answer) => Started::Ready(answer),
        Poll::Pending => Started::Pending(Pending { inner: Own::new(running) }),
    }
}

/// Begins an operation that blocks, in a thread of its own, which goes on to its end whoever waits.
#[allow(clippy::disallowed_methods, reason = "this tier owns the threads that block for a host")]
pub(crate) fn start_blocking(name: &str, work: impl FnOnce() -> Result<Answer> + Send + 'static) -> Started {
    let (reply, receiver) = tokio::sync::oneshot::channel();
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _ = reply.send(guard("blocking", work));
    });
    if let Err(error) = spawned {
        return Started::Ready(Err(Error::new(ErrorCode::Unavailable, format!("cannot start a thread: {error}"))));
    }
    start(Cancel::Drop, async {
        receiver.await.unwrap_or_else(|_| Err(Error::new(ErrorCode::Internal, "the thread ended without an answer")))
    })
}

impl Started {
    /// Waits for the answer in this thread, for hosts without an event loop.
    ///
    /// # Errors
    /// The operation's own.
    pub fn wait(self) -> Result<Answer> {
        let pending = match self {
            Self::Ready(answer) => return answer,
            Self::Pending(pending) => pending,
        };
        loop {
            pending.bind_thread(std::thread::current());
            match pending.poll() {
                Poll::Ready(answer) => return answer,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Pending {
    /// The host will not wait for it: an operation that others rely on goes on elsewhere.
    pub fn abandon(self) {
        if self.cancel() != Cancel::Drop && self.inner.is_ours() {
            orphans::finish(vec![self]);
        }
    }

    /// Whoever wakes the operation puts this token on that port's list.
    pub(crate) fn bind(&self, port: Weak<Shared>, token: u64) -> Result<()> {
        self.inner.get()?.waker.bind(Target::Slot(port, token));
        Ok(())
    }

    /// Whoever wakes the operation unparks this thread.
    pub(crate) fn bind_thread(&self, thread: Thread) {
        self.inner.waker.bind(Target::Thread(thread));
    }

    /// Whoever wakes the operation wakes this task.
    fn bind_task(&self, waker: Waker) {
        self.inner.waker.bind(Target::Task(waker));
    }

    /// Goes on with the operation, in the host's thread.
    pub(crate) fn poll(&self) -> Poll<Result<Answer>> {
        match self.inner.get() {
            Ok(running) => running.poll(),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(crate) fn cancel(&self) -> Cancel {
        self.inner.cancel
    }
}

impl IntoFuture for Started {
    type Output = Result<Answer>;
    type IntoFuture = Answering;

    fn into_future(self) -> Answering {
        Answering(Some(self))
    }
}

/// The answer of an operation, for hosts whose executor knows wakers. When it is dropped before, the same happens as when
/// a port cancels: an operation that others rely on goes on elsewhere.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Answering(Option<Started>);

impl Future for Answering {
    type Output = Result<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Answer>> {
        match self.0.take() {
            Some(Started::Ready(answer)) => Poll::Ready(answer),
            Some(Started::Pending(pending)) => {
                pending.bind_task(cx.waker().clone());
                let polled = pending.poll();
                if polled.is_pending() {
                    self.0 = Some(Started::Pending(pending));
                }
                polled
            }
            None => Poll::Ready(Err(Error::new(ErrorCode::Internal, "the answer was taken before"))),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let pending = match self.0.take() {
            Some(Started::Ready(Ok(answer))) => answer.discard(),
            other => other,
        };
        if let Some(Started::Pending(pending)) = pending {
            pending.abandon();
        }
    }
}

impl Running {
    fn poll(&self) -> Poll<Result<Answer>> {
        self.waker.reset();
        let waker = Waker::from(Arc::clone(&self.waker));
        let mut cx = Context::from_waker(&waker);
        let polled = guard("poll", || Ok(lock(&self.work).as_mut().poll(&mut cx)));
        polled.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }
}

/// Tells whoever waits for one operation. Until it is bound, it only remembers that it was woken.
#[derive(Default)]
pub(crate) struct SlotWaker {
    state: Mutex<WakerState>,
}

#[derive(Default)]
struct WakerState {
    /// Woken since the last poll.
    woken: bool,
    target: Option<Target>,
}

/// Whom to tell. Without the lock: a task's executor may go on with it there and then.
#[derive(Clone)]
enum Target {
    Slot(Weak<Shared>, u64),
    Thread(Thread),
    Task(Waker),
}

impl SlotWaker {
    fn reset(&self) {
        lock(&self.state).woken = false;
    }

    fn bind(&self, target: Target) {
        let mut state = lock(&self.state);
        let told = state.woken.then(|| target.clone());
        let replaced = state.target.replace(target);
        drop(state);
        // It may run a host's code too.
        drop(replaced);
        if let Some(target) = told {
            target.tell();
        }
    }
}

impl Target {
    fn tell(self) {
        match self {
            Self::Slot(port, token) => {
                if let Some(port) = port.upgrade() {
                    port.push(token);
                }
            }
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        let first = !std::mem::replace(&mut state.woken, true);
        let target = if first { state.target.clone() } else { None };
        drop(state);
        if let Some(target) = target {
            target.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// An operation that another thread lets go on.
    #[derive(Clone, Default)]
    struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

    impl Gate {
        fn open(&self) {
            let mut gate = lock(&self.0);
            gate.0 = true;
            let waker = gate.1.take();
            drop(gate);
            if let Some(waker) = waker {
                waker.wake();
            }
        }

        /// How many hold the gate: whoever lets it go on, and the operation while there is one.
        fn holders(&self) -> usize {
            Arc::strong_count(&self.0)
        }

        fn start(&self, cancel: Cancel) -> Answering {
            let gate = self.clone();
            let work = poll_fn(move |cx| {
                let mut gate = lock(&gate.0);
                if gate.0 {
                    return Poll::Ready(Ok(Answer::Seq(7)));
                }
                gate.1 = Some(cx.waker().clone());
                Poll::Pending
            });
            start(cancel, work).into_future()
        }
    }

    /// An executor that goes on with its task inside of the wake, as Kotlin's unconfined dispatcher does.
    struct Inline {
        task: Mutex<Option<Answering>>,
        answer: Mutex<Option<Result<Answer>>>,
    }

    impl Inline {
        fn spawn(task: Answering) -> Arc<Self> {
            let inline = Arc::new(Self { task: Mutex::new(Some(task)), answer: Mutex::default() });
            Arc::clone(&inline).wake();
            inline
        }
    }

    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            let Some(mut task) = lock(&self.task).take() else { return };
            match Pin::new(&mut task).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&self)))) {
                Poll::Ready(answer) => *lock(&self.answer) = Some(answer),
                Poll::Pending => *lock(&self.task) = Some(task),
            }
        }
    }

    #[test]
    fn an_answer_is_a_future() {
        let gate = Gate::default();
        let inline = Inline::spawn(gate.start(Cancel::Drop));
        assert!(lock(&inline.answer).is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| gate.open());
        });
        assert!(matches!(lock(&inline.answer).take(), Some(Ok(Answer::Seq(7)))));
        assert_eq!(gate.holders(), 1, "what is done is dropped");
    }

    #[test]
    fn what_is_done_at_once_is_ready() {
        let gate = Gate::default();
        gate.open();
        let inline = Inline::spawn(gate.start(Cancel::Drop));
        assert!(matches!(lock(&inline.answer).take(), Some(Ok(Answer::Seq(7)))));
    }

    #[test]
    fn a_wake_before_the_first_poll_counts() {
        let gate = Gate::default();
        let answering = gate.start(Cancel::Drop);
        gate.open();
        let inline = Inline::spawn(answering);
        assert!(matches!(lock(&inline.answer).take(), Some(Ok(Answer::Seq(7)))));
    }

    #[test]
    fn a_future_that_is_polled_after_its_end_says_so() {
        let gate = Gate::default();
        gate.open();
        let mut answering = gate.start(Cancel::Drop);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut answering).poll(&mut cx).is_ready());
        let again = Pin::new(&mut answering).poll(&mut cx);
        assert!(matches!(again, Poll::Ready(Err(error)) if error.code() == ErrorCode::Internal));
    }

    #[test]
    fn a_future_that_is_dropped_drops_its_operation() {
        let gate = Gate::default();
        let answering = gate.start(Cancel::Drop);
        assert_eq!(gate.holders(), 2);
        drop(answering);
        assert_eq!(gate.holders(), 1);
    }

    #[test]
    fn what_others_rely_on_goes_on_after_the_future_is_dropped() {
        let gate = Gate::default();
        drop(gate.start(Cancel::Finish));
        assert_eq!(gate.holders(), 2, "its own thread has it");
        gate.open();
        // That thread lets go of the gate when it is done.
        while gate.holders() > 1 {
            std::thread::yield_now();
        }
    }
}
