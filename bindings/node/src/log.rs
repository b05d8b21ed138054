//! The core's warnings and errors, for the package to hand to the host's logger.

use napi_derive::napi;
use tidings_bridge as bridge;

/// One line for the log.
#[napi(object, object_from_js = false)]
pub struct LogRecord {
    /// `warning` or `error`.
    pub level: String,
    /// The module it comes from, with dots.
    pub target: String,
    /// The message and its fields. No payload, secret or address.
    pub message: String,
}

/// What waited for the log.
#[napi(object, object_from_js = false)]
pub struct Log {
    /// Oldest first.
    pub records: Vec<LogRecord>,
    /// Lines that had to go before these.
    pub dropped: f64,
}

/// Whether `takeLog` has something. Costs next to nothing.
#[napi]
pub fn log_waits() -> bool {
    bridge::log_waits()
}

/// Takes what waits for the log.
#[napi]
pub fn take_log() -> Log {
    let (records, dropped) = bridge::take_log();
    let plain = records.into_iter().map(|record| LogRecord {
        level: match record.level {
            bridge::LogLevel::Warning => "warning".to_owned(),
            bridge::LogLevel::Error => "error".to_owned(),
        },
        target: record.target,
        message: record.message,
    });
    Log { records: plain.collect(), dropped: crate::convert::number(dropped) }
}
