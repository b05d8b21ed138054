//! Pure rules and state machines of Tidings.
//!
//! Nothing here does IO, reads a clock, starts a thread or draws a random number: all of those are arguments.
//! Payloads are raw JSON text that nobody re-serialises.
#![deny(clippy::disallowed_methods, reason = "time, randomness and the environment are inputs to this crate")]
#![deny(clippy::disallowed_types, reason = "iteration order must not depend on the process")]
#![forbid(unsafe_code)]

pub mod address;
pub mod call;
pub mod condition;
pub mod config;
pub mod delivery;
pub mod doorbell;
pub mod fanout;
pub mod firing;
pub mod group;
pub mod id;
mod json;
pub mod notice;
pub mod pointer;
pub mod redact;
pub mod route;
pub mod stream;
pub mod task;
pub mod time;
pub mod trigger;
pub mod webhook;
pub mod wire;
