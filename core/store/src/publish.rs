//! The log by which the processes of one store learn what the others published.

use crate::record::WorkerId;

/// How many publishes a store keeps at least; it keeps at most as many more. A reader that was away for longer is told so
/// by [`Publishes::earliest`].
pub const PUBLISHES_KEPT: u64 = 1_024;

/// One publish: something has changed, and whoever asked for it should be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// Whose it is: its own process has told its listeners already.
    pub worker: WorkerId,
    /// Names of kinds, with a space between two; what a reader does not know, a newer library wrote.
    pub kinds: String,
    /// The one thing that changed, if it is about one.
    pub name: Option<String>,
    /// Only listeners of this principal.
    pub audience: Option<String>,
}

/// What a read of the log found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publishes {
    /// With their numbers, in order.
    pub entries: Vec<(u64, Publish)>,
    /// The number of the oldest one kept; one beyond `head` if there is none. A reader who stands before it has missed some.
    pub earliest: u64,
    /// The number of the newest one ever made; 0: none.
    pub head: u64,
}
