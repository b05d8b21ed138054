//! Fuzz targets over what comes from outside: each takes any bytes and asserts what has to hold of them.
//!
//! A target says more than "does not panic": what is read is written back the same, an implementation of its own (in
//! [`oracle`]) comes to the same answer, an error names its field. Work is bounded by what is counted, never by a clock.
//!
//! `cargo test -p tidings-fuzz` replays `corpus/` and the vectors; `make fuzz` looks for more.

#![allow(clippy::panic, reason = "a target panics where a property does not hold: that is its answer")]

pub mod oracle;
mod targets;

pub use targets::{condition, config, cursor, event, signature, sse, store};

/// A target: panics if something that has to hold of these bytes does not.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: [(&str, Target); 7] = [
    ("condition", condition),
    ("config", config),
    ("cursor", cursor),
    ("event", event),
    ("signature", signature),
    ("sse", sse),
    ("store", store),
];
