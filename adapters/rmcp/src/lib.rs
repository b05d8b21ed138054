#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod adapter;
mod call;
mod event_log;
mod front;
mod message;
mod principal;
mod replay;
mod running;
mod session_place;
mod session_record;
mod sessions;
mod task_call;
mod task_methods;
mod task_stream;
mod tasks;
mod watched;
mod wire;

pub use adapter::Adapter;
pub use event_log::EventLog;
pub use front::Front;
pub use principal::Principal;
pub use running::RunningCall;
pub use session_record::SessionRecords;
pub use sessions::Sessions;
pub use tasks::{TaskMode, Tasks};
pub use tidings;
pub use watched::Watched;
