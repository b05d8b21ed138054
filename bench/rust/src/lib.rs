//! What the Rust benches share: how they run beside a peer, and how they say what came out.
//!
//! Every bench runs ours and the peer in turns, in one process, so that both meet the same machine; prints the floor of
//! the medium beside every number; and compares only what was measured over the same floor.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a bench reads clocks and starts threads")]

pub mod floor;
pub mod machine;
pub mod ours;
pub mod posts;
pub mod producers;
pub mod raw;
pub mod report;
pub mod sink;
pub mod stats;

/// What a bench cannot go on after.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
