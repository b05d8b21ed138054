//! The two places of the hub where threads meet at more than a lock, under loom: the hub's own files, with loom's primitives in
//! the place of the standard library's, so that every order of their steps is tried, and every value that the memory orderings
//! allow a load to see.
#![forbid(unsafe_code)]
#![cfg(test)]

#[allow(dead_code, reason = "what only a simulation and a store that fails need")]
#[path = "../../../core/hub/src/inbox.rs"]
mod inbox;
#[path = "../../../core/hub/src/signal.rs"]
mod signal;
mod sync;

mod inbox_model;
mod signal_model;
