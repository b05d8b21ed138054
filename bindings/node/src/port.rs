//! The one port of each JavaScript thread: where its operations wait.

use std::cell::RefCell;

use napi::Env;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi_derive::napi;
use tidings_bridge as bridge;

use crate::convert::{Error, Result, Value, entry, finish, number};

thread_local! {
    static PORT: RefCell<Option<bridge::Port>> = const { RefCell::new(None) };
}

/// An operation that waits at this thread's port.
#[napi(object, object_from_js = false)]
pub struct Pending {
    /// Names the operation at the port.
    pub token: f64,
}

/// Opens this thread's port. `wake` is called, without arguments and in this thread, when there is something to drain; it
/// does not keep the process alive.
#[napi]
pub fn open_port(env: Env, wake: Function<'_, (), ()>) -> Result<()> {
    let wake = wake
        .build_threadsafe_function::<()>()
        .weak::<true>()
        .callee_handled::<false>()
        .build()
        .map_err(|error| napi::Error::new("internal".to_owned(), error.reason))?;
    let port = bridge::Port::with_wake(move || {
        // It fails when the thread is at its end, and then nobody waits.
        let _ = wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
    });
    PORT.with_borrow_mut(|held| *held = Some(port));
    // Before the environment goes: what waits is cancelled, what others rely on goes on in a thread of the core's.
    let hooked = env.add_env_cleanup_hook((), |()| {
        let _ = entry("cleanup", || {
            drop(PORT.with_borrow_mut(Option::take));
            Ok(())
        });
    });
    hooked.map(drop).map_err(|error| napi::Error::new("internal".to_owned(), error.reason))
}

/// Goes on with what was woken; the tokens of what is done.
#[napi]
pub fn drain() -> Result<Vec<f64>> {
    with("drain", |port| Ok(port.drain().into_iter().map(number).collect()))
}

/// The value of an operation that is done, or its error.
#[napi]
pub fn take(token: f64) -> Result<Value> {
    match with("take", |port| Ok(port.take(bridge::whole_number("token", token)?)))? {
        Some(answer) => finish(answer),
        None => Err(napi::Error::new("internal".to_owned(), "the operation is not done")),
    }
}

/// Nobody waits for the operation any longer.
#[napi]
pub fn cancel(token: f64) -> Result<()> {
    with("cancel", |port| {
        port.cancel(bridge::whole_number("token", token)?);
        Ok(())
    })
}

pub(crate) fn park(pending: bridge::Pending) -> Result<Pending> {
    let token = with("park", |port| port.park(pending))?;
    Ok(Pending { token: number(token) })
}

/// Runs with the port of this thread. No operation calls JavaScript, so that nothing borrows it twice.
fn with<T>(name: &'static str, body: impl FnOnce(&bridge::Port) -> bridge::Result<T>) -> Result<T> {
    PORT.with_borrow(|port| match port {
        Some(port) => entry(name, || body(port)),
        None => Err(closed()),
    })
}

fn closed() -> Error {
    napi::Error::new("closed".to_owned(), "this thread's port is closed")
}
