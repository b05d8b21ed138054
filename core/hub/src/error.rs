//! One error type with a stable code, the same in every language.

use std::fmt;

use tidings_store::{CommitError, Refused, StoreError, StoreErrorKind};

/// What went wrong, as a name that never changes. The bindings turn it into their own classes and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// An argument breaks a rule; the message names both.
    InvalidArgument,
    /// A notificationConfig breaks rules; [`Error::faults`] lists them.
    InvalidConfig,
    /// No such stream in this scope, or no cursor of ours.
    UnknownCursor,
    /// `after` lies beyond the newest event.
    Ahead,
    /// The stream, tail, call or hub is closed.
    Closed,
    /// Another writer has claimed the stream.
    Fenced,
    /// The call has ended already.
    Ended,
    /// More is buffered than may be; try again once the store has caught up.
    Congested,
    /// Something is larger than may be.
    TooLarge,
    /// The store cannot do its work now.
    Unavailable,
    /// The store can never do its work like this: damaged, too new, on a network file system, sealed with another key.
    Unsupported,
    /// The object belongs to the process that forked this one.
    Forked,
    /// It did not end in time.
    Timeout,
    /// A defect of this library.
    Internal,
}

impl ErrorCode {
    /// All codes, in the order of their numbers in C.
    pub const ALL: [Self; 14] = [
        Self::InvalidArgument,
        Self::InvalidConfig,
        Self::UnknownCursor,
        Self::Ahead,
        Self::Closed,
        Self::Fenced,
        Self::Ended,
        Self::Congested,
        Self::TooLarge,
        Self::Unavailable,
        Self::Unsupported,
        Self::Forked,
        Self::Timeout,
        Self::Internal,
    ];

    /// The code's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::InvalidConfig => "invalid_config",
            Self::UnknownCursor => "unknown_cursor",
            Self::Ahead => "ahead",
            Self::Closed => "closed",
            Self::Fenced => "fenced",
            Self::Ended => "ended",
            Self::Congested => "congested",
            Self::TooLarge => "too_large",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
            Self::Forked => "forked",
            Self::Timeout => "timeout",
            Self::Internal => "internal",
        }
    }

    /// Whether the same call may succeed later.
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Congested | Self::Unavailable | Self::Timeout)
    }
}

/// An error of this library. Messages name the field and the rule; they never hold payloads, secrets or addresses.
#[derive(Clone, Debug)]
pub struct Error {
    code: ErrorCode,
    message: String,
    faults: Option<Box<tidings_proto::config::Faults>>,
}

/// Results of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), faults: None }
    }

    pub(crate) fn config(faults: tidings_proto::config::Faults) -> Self {
        Self { code: ErrorCode::InvalidConfig, message: faults.to_string(), faults: Some(Box::new(faults)) }
    }

    pub(crate) fn closed(what: &str) -> Self {
        Self::new(ErrorCode::Closed, format!("the {what} is closed"))
    }

    pub(crate) fn forked() -> Self {
        Self::new(ErrorCode::Forked, "this object belongs to the parent process; make a new one after the fork")
    }

    /// What went wrong.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        self.code.retryable()
    }

    /// The faults of a notificationConfig, for [`ErrorCode::InvalidConfig`].
    pub fn faults(&self) -> Option<&tidings_proto::config::Faults> {
        self.faults.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let code = match error.kind() {
            StoreErrorKind::Closed => ErrorCode::Closed,
            _ if error.retryable() => ErrorCode::Unavailable,
            _ => ErrorCode::Unsupported,
        };
        Self::new(code, format!("store: {error}"))
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::Fenced { .. } => ErrorCode::Fenced,
            Refused::Closed => ErrorCode::Closed,
            Refused::Ended(_) => ErrorCode::Ended,
            Refused::Exists | Refused::Unknown | Refused::Full | Refused::LostLease => ErrorCode::InvalidArgument,
        };
        Self::new(code, refused.to_string())
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Refused(refused) => refused.into(),
            CommitError::Store(error) => error.into(),
        }
    }
}
