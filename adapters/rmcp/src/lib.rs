#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod adapter;
mod call;
mod event_log;
mod fan_out;
mod front;
mod listening;
mod lost;
mod message;
mod overheard;
mod own_routes;
mod peers;
mod principal;
mod random;
mod replay;
mod running;
mod session_peer;
mod session_place;
mod session_record;
mod sessions;
mod stdio_front;
mod subscribed;
mod task_call;
mod task_methods;
mod task_stream;
mod tasks;
mod watched;
mod while_connected;
mod wire;

pub use adapter::Adapter;
pub use event_log::EventLog;
pub use front::Front;
pub use overheard::Overheard;
pub use principal::Principal;
pub use running::RunningCall;
pub use session_record::SessionRecords;
pub use sessions::Sessions;
pub use stdio_front::StdioFront;
pub use tasks::{TaskMode, Tasks};
pub use tidings;
pub use watched::Watched;
