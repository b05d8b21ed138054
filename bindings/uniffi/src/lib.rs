//! A thin facade over the Rust API for the languages that uniffi writes bindings for. Experimental; see README.md.
//!
//! Values that cross are owned and plain; futures of the hub need no runtime, so that a host's own polls them.

uniffi::setup_scaffolding!("tidings");

mod call;
mod error;
mod hub;
mod stream;
mod webhook;

pub use call::{Call, CallRequest, Ended};
pub use error::TidingsError;
pub use hub::{Hub, HubOptions};
pub use stream::{Batch, Event, Gap, Tail};
pub use webhook::Webhook;
