//! What is the process's and no hub's: its end, and the log.

use std::time::Duration;

use tidings_bridge as bridge;

use crate::entry::entry;
use crate::error::TidingsError;

/// How bad it is.
pub type LogLevel = bridge::LogLevel;

/// How bad it is.
#[uniffi::remote(Enum)]
pub enum LogLevel {
    /// Something that the operator should know.
    Warning,
    /// Something was lost or is broken.
    Error,
}

/// One line for the host's log. Holds no payload, secret or address.
pub type LogRecord = bridge::LogRecord;

/// One line for the host's log. Holds no payload, secret or address.
#[uniffi::remote(Record)]
pub struct LogRecord {
    /// How bad it is.
    pub level: LogLevel,
    /// The module it comes from, with dots.
    pub target: String,
    /// The message and its fields.
    pub message: String,
}

/// What was kept for the host's log.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Log {
    /// Oldest first.
    pub records: Vec<LogRecord>,
    /// Older ones that had to go.
    pub dropped: u64,
}

/// Takes the library's warnings and errors: the last 256 are kept until somebody asks.
#[uniffi::export]
pub fn take_log() -> Log {
    let (records, dropped) = bridge::take_log();
    Log { records, dropped }
}

/// Closes every hub of this process, for when it ends. Blocks at most about `timeout`; says whether all was done.
#[uniffi::export]
pub fn close_all(timeout: Duration) -> Result<bool, TidingsError> {
    entry("closeAll", || Ok(bridge::close_all(timeout)))
}
