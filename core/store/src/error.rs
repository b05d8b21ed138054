//! What a store says when it cannot do its work.

use std::fmt;

/// The kinds of failure of a store itself; a commit that was refused is a [`Refused`](crate::Refused) instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Input or output failed (EIO and its like), or the store cannot be reached. Trying again may help.
    Io,
    /// No space, or a quota was reached. Trying again may help.
    Full,
    /// Another process held the store longer than the store waits. Trying again helps.
    Busy,
    /// The medium refuses writes. Trying again may help once that is mended.
    ReadOnly,
    /// What is there is not a store, or is damaged. Nothing was changed.
    Corrupt,
    /// The store was written by a newer schema than this library knows. Nothing was changed.
    NewerSchema,
    /// The place or the engine cannot keep the guarantees: a network file system, an engine that is too old.
    Unsupported,
    /// The key does not open what is sealed in this store.
    WrongKey,
    /// The store was closed.
    Closed,
}

/// A failure of the store itself.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

impl StoreError {
    /// A failure of this kind; `message` says what was tried and what the system answered, never payloads or secrets.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The kind of failure.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the same commit may succeed later without anybody changing the store.
    pub fn retryable(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Io | StoreErrorKind::Full | StoreErrorKind::Busy | StoreErrorKind::ReadOnly)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}
