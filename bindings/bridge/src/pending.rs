//! Operations that may have to wait, without a runtime of ours in the host.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::answer::Answer;
use crate::error::{Error, Result};
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
        return Started::Ready(Err(Error::new(
            tidings::ErrorCode::Unavailable,
            format!("cannot start a thread: {error}"),
        )));
    }
    start(Cancel::Drop, async {
        receiver
            .await
            .unwrap_or_else(|_| Err(Error::new(tidings::ErrorCode::Internal, "the thread ended without an answer")))
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

/// Whom to tell.
enum Target {
    Slot(Weak<Shared>, u64),
    Thread(Thread),
}

impl SlotWaker {
    fn reset(&self) {
        lock(&self.state).woken = false;
    }

    fn bind(&self, target: Target) {
        let mut state = lock(&self.state);
        state.target = Some(target);
        if state.woken {
            state.tell();
        }
    }
}

impl WakerState {
    fn tell(&self) {
        match &self.target {
            Some(Target::Slot(port, token)) => {
                if let Some(port) = port.upgrade() {
                    port.push(*token);
                }
            }
            Some(Target::Thread(thread)) => thread.unpark(),
            None => {}
        }
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut state.woken, true) {
            state.tell();
        }
    }
}
