//! Notifications that are about one request or one peer: progress, log messages, cancellation, and those of single
//! features, each as the peer's version has it.
//!
//! Changes that many peers hear of are [`fanout`](crate::fanout)'s.

mod cancel;
mod feature;
mod log;
mod progress;

pub use cancel::{CANCELLED, Cancel, CancelEffect, InFlight, LSP_CANCEL, Reply, cancelled};
pub use feature::{elicitation_complete, resource_updated, roots_list_changed, task, task_status};
pub use log::{LogLevel, LogLevelError, log_passes};
pub use progress::{ActiveTokens, NoProgress, Progress, ProgressRules};
