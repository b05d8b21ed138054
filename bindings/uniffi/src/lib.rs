//! A facade over the bridge for the languages that uniffi writes bindings for. Experimental; see README.md.
//!
//! It declares what crosses and converts it; everything else is the bridge's. A record of the bridge that is plain crosses
//! as it is: `uniffi::remote` only repeats its fields, and the compiler holds the two together.

uniffi::setup_scaffolding!("tidings");

mod call;
mod delivery;
mod entry;
mod error;
mod fanout;
mod hub;
mod operate;
mod outlet;
mod process;
mod stream;
mod task;
mod webhook;

pub use call::{Call, CallRequest, Ended};
pub use delivery::Delivery;
pub use error::{ErrorKind, Fault, TidingsError, error_table};
pub use fanout::{FailedSink, Fanout, Outbox, OutboxTask, Profile};
pub use hub::{Hub, HubOptions, Retention, Stats};
pub use operate::Endpoint;
pub use outlet::{HostDelivery, HostDeliveryFacts, Offer, Outlet};
pub use process::{Log, LogLevel, LogRecord, close_all, take_log};
pub use stream::{Durability, Event, Gap, GapReason, Page, Place, Stream, Tail, Taken, Writer};
pub use task::{Task, TaskTerms};
pub use webhook::{DecryptionKeys, Header, Webhook, challenge_answer, receiver_document};
