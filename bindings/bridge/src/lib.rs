//! What the bindings of Tidings share: a host's event loops without a runtime of ours in them, owned plain values, one
//! error table, the panic guard, the log.
//!
//! A binding converts its language's values, calls here, and converts back; it has no defaults and no logic of its own.
//!
//! - An operation is [`Started`]: done at once, or pending, and then parked at a [`Port`] of the event loop that waits. Where the
//!   host has an executor that knows wakers, it is awaited.
//! - Entry points run inside [`guard`].
//! - The binding calls [`before_fork`] before a fork, [`after_fork_in_parent`] or, in the child, [`after_fork`] after it,
//!   and [`close_all`] when the process ends.
#![forbid(unsafe_code)]

mod answer;
mod call;
mod error;
mod fanout;
mod fork;
mod guard;
mod hub;
mod log;
mod operate;
mod orphans;
mod outlet;
mod pending;
mod port;
mod settings;
mod stream;
mod wake;
mod webhook;

pub use answer::Answer;
pub use bytes::Bytes;
pub use call::{Begin, Call, Ended, Room, check_event, check_fire};
pub use error::{Error, ErrorCode, ErrorRow, Fault, Faults, Result, error_table};
pub use fanout::{Fanout, Outbox, Profile, Progress, Task as OutboxTask, log_passes};
pub use fork::{after_fork, after_fork_in_parent, before_fork, generation};
pub use guard::{guard, install_panic_hook};
pub use hub::{Delivery, Hub, Stats, Task, close_all};
pub use log::{LogLevel, LogRecord, LogTeller, install_log, log_waits, take_log, tell_log};
pub use operate::Endpoint;
pub use outlet::{HostDelivery, Offer, Outlet};
pub use pending::{Answering, Pending, Started};
pub use port::Port;
pub use settings::{Keep, Settings, count, limit, milliseconds, number, port, seconds, whole_number};
pub use stream::{Append, Export, Page, Place, Stream, Tail, Taken, Writer, durability, identity};
pub use tidings::proto::doorbell::Doorbell;
pub use tidings::proto::id::RequestId;
pub use tidings::proto::stream::{CursorPrefix, Gap, GapReason, Retention};
pub use tidings::{Durability, Event, ReadLimits, Refusal, StdioPeer, TaskTerms};
pub use webhook::{DecryptionKeys, Webhook, WebhookError, challenge_answer, receiver_document};
