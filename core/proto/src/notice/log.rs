//! Log messages: RFC 5424's levels, and who gets which.

use core::fmt;

/// A level, least severe first (RFC 5424, section 6.2.1, upside down).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are RFC 5424's")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// No level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevelError;

impl fmt::Display for LogLevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = LogLevel::ALL.into_iter().map(LogLevel::as_str).collect();
        write!(f, "level: must be one of {}", names.join(", "))
    }
}

impl core::error::Error for LogLevelError {}

impl LogLevel {
    /// Every level, in order.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level of that name.
    ///
    /// # Errors
    /// MCP answers -32602.
    pub fn parse(name: &str) -> Result<Self, LogLevelError> {
        Self::ALL.into_iter().find(|level| level.as_str() == name).ok_or(LogLevelError)
    }
}

/// Whether a message of that level is sent.
///
/// Until 2025-11-25 (`per_request` false) `asked` is the session's `logging/setLevel`; a session that set none gets
/// everything. From 2026-07-28 on (`per_request` true) `asked` is the request's own `_meta` level, and a request without
/// one gets nothing (MUST NOT); what is said outside any request has no level and so gets nothing either.
pub fn log_passes(per_request: bool, asked: Option<LogLevel>, level: LogLevel) -> bool {
    match asked {
        Some(least) => level >= least,
        None => !per_request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field case B55.
    #[test]
    fn levels_are_per_session_or_per_request() {
        let (a, b, c) = (Some(LogLevel::Warning), Some(LogLevel::Debug), None);
        for (level, passes) in [("info", [false, true, true]), ("warning", [true; 3]), ("emergency", [true; 3])] {
            let level = LogLevel::parse(level).unwrap();
            assert_eq!([a, b, c].map(|asked| log_passes(false, asked, level)), passes);
        }
        assert!(!log_passes(true, None, LogLevel::Emergency));
        assert!(!log_passes(true, Some(LogLevel::Error), LogLevel::Warning));
        assert!(log_passes(true, Some(LogLevel::Error), LogLevel::Error));
    }

    #[test]
    fn names_come_back_and_others_are_refused() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::parse(level.as_str()), Ok(level));
        }
        for bad in ["loud", "Warning", "", "warn"] {
            assert_eq!(LogLevel::parse(bad), Err(LogLevelError));
        }
        assert!(LogLevel::ALL.is_sorted());
    }
}
