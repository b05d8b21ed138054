//! `tidings`: the Node.js extension module of Tidings.
//!
//! Private: people import the package `tidings`, whose modules are written in TypeScript under `node/`.
//! `node/src/native.ts` declares what is here, by the same names and in the same order.
//!
//! - Every entry runs inside the bridge's panic guard and throws an `Error` with a `code` of the one error table.
//! - Nothing here keeps the process alive and no thread of ours runs JavaScript: an operation that waits is parked at the
//!   thread's port, which calls one payload-free weak function when there is something to drain.
//! - Objects belong to the JavaScript thread (main or worker) that made them and go when it does.
// What `#[napi]` exports has to be `pub`, and nobody imports this crate.
#![allow(unreachable_pub)]
// In a test build `#[napi]` exports nothing, so that nothing is used there.
#![cfg_attr(test, allow(dead_code, unused_imports))]

mod call;
mod convert;
mod doorbell;
mod event;
mod fanout;
mod hub;
mod log;
mod notice;
mod operate;
mod outlet;
mod port;
mod stream;
mod webhook;

use napi_derive::napi;
use tidings_bridge as bridge;

/// What loading the module runs, once a process. Starts no thread and opens nothing.
#[napi_derive::module_init]
fn init() {
    bridge::install_panic_hook();
    bridge::install_log();
}

/// One row of the error table.
#[napi(object, object_from_js = false)]
pub struct ErrorRow {
    /// The code, the same in every language.
    pub code: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// The error table.
#[napi]
pub fn error_table() -> Vec<ErrorRow> {
    bridge::error_table().map(|row| ErrorRow { code: row.name.to_owned(), retryable: row.retryable }).collect()
}

/// The version of the core.
#[napi]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
