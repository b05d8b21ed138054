#![doc = include_str!("../README.md")]
//!
//! # Following what it does
//!
//! What it does can be followed by crate `tracing`, in the subscriber of the program: warnings and errors say what an
//! operator should know; at level `DEBUG` there are spans `attempt` (of one request: `delivery`, `endpoint`, `event`, `attempt`,
//! `deliveries`) and `verify` (`endpoint`), and events for the begin and end of calls, attempts and deliveries. Fields
//! are ids of ours, names of tools, categories and counts: never a payload, a secret, a header, or more of an endpoint than
//! a hash. Without a subscriber each place costs a look at one number.
#![forbid(unsafe_code)]

mod background;
mod call;
mod checks;
mod clock;
mod committer;
mod core;
mod dispatch;
mod doorbell;
mod entropy;
mod error;
mod export;
mod failpoint;
mod fanout;
mod fork;
mod hub;
mod inbox;
mod input;
mod load;
mod metrics;
mod notify;
mod operate;
mod options;
mod others;
mod outlet;
mod owned;
mod plan;
mod policy;
mod receipt;
mod recent;
mod request;
mod routes;
mod sender;
mod signal;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod stream;
mod sync;
mod tail;
mod target;
mod task;
mod unborn;
mod verify;

pub use call::{BeginCall, Call, DetachLimits, Ended, Room};
pub use clock::{Clock, SystemClock};
pub use doorbell::StdioPeer;
pub use error::{Error, ErrorCode, Result};
pub use export::Export;
pub use fanout::{Fanout, ListenerId, Outbox, Parcel, Publish, SinkId, SinkOptions};
pub use fork::{after_fork, after_fork_in_parent, before_fork};
pub use hub::{Hub, Stats};
pub use options::{Options, Verify};
pub use outlet::{HostDelivery, Outlet, OutletOptions, Refusal};
pub use policy::{Deciding, Decision, Policy, PolicyRequest};
pub use stream::{After, MAX_KEY_BYTES, MAX_ONCE_BYTES, Read, Stream, Writer};
pub use tail::Tail;
pub use task::Task;
pub use tidings_proto as proto;
pub use tidings_store as store;
pub use tidings_store::{Durability, Event, NewEvent, ReadLimits, TaskTerms};
