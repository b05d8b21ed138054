//! The C ABI of Tidings: `include/tidings.h` is made from this crate.
//!
//! A thin layer over the bridge: it checks pointers, lengths and texts (`memory`), tells live handles from dead ones
//! (`handle`), and runs every export guarded against panics (`entry`). It has no defaults and no rules of its own.
#![allow(unsafe_code, reason = "this tier is where C's pointers are")]
#![allow(
    clippy::missing_safety_doc,
    reason = "one set of conventions for all exports, printed at the head of the header"
)]
#![allow(clippy::too_many_arguments, reason = "C has neither options nor structures with defaults")]

pub mod answer;
pub mod batch;
pub mod call;
pub mod callback;
pub mod delivery;
pub mod entry;
pub mod export;
pub mod fanout;
mod fork;
mod handle;
pub mod hub;
mod layout;
pub mod logger;
pub mod memory;
pub mod operate;
pub mod outlet;
pub mod peer;
pub mod port;
pub mod process;
pub mod progress;
pub mod stdio_peer;
pub mod stream;
pub mod task;
#[cfg(test)]
mod tests;
pub mod text;
pub mod texts;
pub mod webhook;
