//! Ports: how C waits.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidings_bridge::{self as bridge, Error, Started};

use crate::answer::{ANSWERS, tidings_answer};
use crate::callback::{self, Callback, tidings_drop};
use crate::entry::{Result, entry, entry_anywhere, in_callback, tidings_result};
use crate::handle::Table;
use crate::memory::Out;

/// Where operations of one event loop wait. Any thread may use it; one at a time drains it.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_port {
    _private: [u8; 0],
}

/// Told from any thread when there is something to drain, once until the next drain. It must not block. Of Tidings it may call
/// `tidings_port_free`, for its own port.
#[allow(non_camel_case_types, reason = "C's names")]
pub type tidings_wake = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

type Wake = unsafe extern "C" fn(*mut c_void);

pub(crate) static PORTS: Table<Port> = Table::of_process(2);

pub(crate) struct Port {
    port: bridge::Port,
    /// Tokens that are done and that the last drain had no room for.
    done: Mutex<VecDeque<u64>>,
    wake: Option<Arc<Callback<Wake>>>,
}

/// A port with a descriptor that is readable when there is something to drain: for poll, epoll, kqueue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_port_new(port: *mut *mut tidings_port) -> tidings_result {
    entry("tidings_port_new", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("port", port) }?;
        give(out, bridge::Port::new()?, None);
        Ok(())
    })
}

/// A port without a descriptor, which calls `wake(user_data)` when there is something to drain: from any thread, once
/// until the next drain. `finalize(user_data)` is called once, when the port was freed and the last wake has returned; it
/// may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_port_new_with_wake(
    wake: tidings_wake,
    user_data: *mut c_void,
    finalize: tidings_drop,
    port: *mut *mut tidings_port,
) -> tidings_result {
    entry("tidings_port_new_with_wake", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("port", port) }?;
        let wake = wake.ok_or_else(|| Error::argument("wake", "must not be NULL"))?;
        let callback = Arc::new(Callback::new(wake, user_data, finalize));
        let woken = Arc::clone(&callback);
        // SAFETY: the caller's function with the caller's data, which it has not been told is free.
        let port = bridge::Port::with_wake(move || woken.call(|wake, data| unsafe { wake(data) }));
        give(out, port, Some(callback));
        Ok(())
    })
}

fn give(out: Out<*mut tidings_port>, port: bridge::Port, wake: Option<Arc<Callback<Wake>>>) {
    out.set(PORTS.insert(Port { port, done: Mutex::default(), wake }));
}

/// The descriptor to wait for, -1 for a port that has none. It belongs to the port: only wait for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_port_descriptor(port: *const tidings_port, descriptor: *mut i32) -> tidings_result {
    entry("tidings_port_descriptor", || {
        use std::os::fd::AsRawFd;
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("descriptor", descriptor) }?;
        let port = PORTS.get("port", port)?;
        out.set(port.port.fd().map_or(-1, |fd| fd.as_raw_fd()));
        Ok(())
    })
}

/// Waits in this thread until there is something to drain, at most so many milliseconds: sets 1 if there is, 0 if not.
/// Only for a port with a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_port_wait(
    port: *const tidings_port,
    timeout_ms: u64,
    ready: *mut i32,
) -> tidings_result {
    entry("tidings_port_wait", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("ready", ready) }?;
        let port = PORTS.get("port", port)?;
        let waits = port.rest().is_empty();
        out.set(i32::from(!waits || port.port.wait(Duration::from_millis(timeout_ms))));
        Ok(())
    })
}

/// Goes on with what was woken, in this thread, and writes the tokens of up to `room` operations that are done: `*count`
/// of them. As many as there was room for: drain again. Take each with `tidings_port_take`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_port_drain(
    port: *const tidings_port,
    tokens: *mut u64,
    room: usize,
    count: *mut usize,
) -> tidings_result {
    entry("tidings_port_drain", || {
        // SAFETY: the header's conventions.
        let (_first, count) = unsafe { (Out::new("tokens", tokens)?, Out::new("count", count)?) };
        if room == 0 {
            return Err(Error::argument("room", "must be at least 1"));
        }
        let port = PORTS.get("port", port)?;
        let mut done = port.rest();
        done.extend(port.port.drain());
        let now = done.len().min(room);
        for (index, token) in done.drain(..now).enumerate() {
            // SAFETY: the caller has room for `room` tokens, which `index` is less than.
            unsafe { tokens.add(index).write(token) };
        }
        count.set(now);
        Ok(())
    })
}

/// Takes the answer of an operation that is done. Returns what the operation came to: on `TIDINGS_OK` there is an answer,
/// to be freed with `tidings_answer_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_port_take(
    port: *const tidings_port,
    token: u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_port_take", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("answer", answer) }?;
        let port = PORTS.get("port", port)?;
        let taken = port.port.take(token);
        let taken = taken.ok_or_else(|| Error::argument("token", "names no operation here that is done"))?;
        out.set(ANSWERS.insert(taken?));
        Ok(())
    })
}

/// The operation of that token is waited for no longer. What others rely on goes on to its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_port_cancel(port: *const tidings_port, token: u64) -> tidings_result {
    entry("tidings_port_cancel", || {
        let port = PORTS.get("port", port)?;
        port.port.cancel(token);
        port.rest().retain(|done| *done != token);
        Ok(())
    })
}

/// Frees a port and cancels what waits there. Where it has a `wake`, waits for calls of it under way in other threads, so hold no
/// lock that it takes; then its finalizer is called. It may be called from inside the `wake` itself, and the finalizer then comes
/// after the last call; from inside another callback it is `TIDINGS_IN_CALLBACK`. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_port_free(port: *mut tidings_port) -> tidings_result {
    let is_own = || PORTS.get("port", port).is_ok_and(|port| port.is_waking());
    if callback::is_inside_any() && !port.is_null() && !is_own() {
        return in_callback("tidings_port_free");
    }
    entry_anywhere("tidings_port_free", || {
        let Some(gone) = PORTS.remove("port", port)? else { return Ok(()) };
        let is_waking = gone.is_waking();
        if let Some(wake) = &gone.wake {
            wake.close();
        }
        if is_waking {
            callback::let_go_later(gone);
        }
        Ok(())
    })
}

impl Port {
    /// Whether this thread is inside of its `wake`.
    fn is_waking(&self) -> bool {
        self.wake.as_ref().is_some_and(|wake| wake.is_inside())
    }

    fn rest(&self) -> std::sync::MutexGuard<'_, VecDeque<u64>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an operation's end is told: see the header's part on waiting.
pub(crate) struct Waiter {
    token: Option<Out<u64>>,
    port: *const tidings_port,
    answer: Out<*mut tidings_answer>,
}

impl Waiter {
    /// # Safety
    /// As [`Out::new`].
    pub(crate) unsafe fn new(
        port: *const tidings_port,
        token: *mut u64,
        answer: *mut *mut tidings_answer,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        let token = if port.is_null() { None } else { Some(unsafe { Out::new("token", token) }?) };
        if !port.is_null() {
            PORTS.get("port", port)?;
        }
        // SAFETY: the caller's promise.
        Ok(Self { token, port, answer: unsafe { Out::new("answer", answer) }? })
    }

    /// Parks an operation, or waits for it where there is no port.
    pub(crate) fn begin(self, started: Started) -> Result<()> {
        let Some(token) = self.token else {
            self.answer.set(ANSWERS.insert(started.wait()?));
            return Ok(());
        };
        match started {
            Started::Ready(answer) => {
                self.answer.set(ANSWERS.insert(answer?));
                token.set(0);
            }
            Started::Pending(pending) => {
                token.set(PORTS.get("port", self.port)?.port.park(pending)?);
                self.answer.set(std::ptr::null_mut());
            }
        }
        Ok(())
    }
}
