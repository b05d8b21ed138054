//! What the host holds and is handed: names of sinks and listeners, and parcels.

use std::fmt;

use tidings_proto::fanout::{Frame, Tag};

use super::set::{INDEX_BITS, Key};

/// Names one sink, in this process, for ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SinkId {
    pub(super) outbox: u32,
    pub(super) key: Key,
}

/// Names one listener, at its outbox, for ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(super) Key);

fn number(key: Key) -> u64 {
    u64::from(key.generation) << INDEX_BITS | u64::from(key.index)
}

/// `None`: no key of that outbox.
fn key(outbox: u32, number: u64) -> Option<Key> {
    let index = u32::try_from(number & ((1 << INDEX_BITS) - 1)).ok()?;
    let key = Key { index, generation: u32::try_from(number >> INDEX_BITS).ok()? };
    key.is_of(outbox).then_some(key)
}

impl SinkId {
    /// The outbox's number and the sink's at it, less than 2^53, for hosts that keep plain numbers.
    pub fn to_numbers(self) -> (u32, u64) {
        (self.outbox, number(self.key))
    }

    /// The sink of those numbers. `None`: it is of another outbox; of the 256 that were opened next to this one, that is: numbers
    /// repeat after that many.
    pub fn from_numbers(outbox: u32, sink: u64) -> Option<Self> {
        Some(Self { outbox, key: key(outbox, sink)? })
    }
}

impl ListenerId {
    /// The listener as a plain number, less than 2^53.
    pub fn to_number(self) -> u64 {
        number(self.0)
    }

    /// The listener of that number at the outbox of that number. `None`: it is of another outbox, as for
    /// [`SinkId::from_numbers`].
    pub fn from_numbers(outbox: u32, listener: u64) -> Option<Self> {
        key(outbox, listener).map(Self)
    }
}

impl fmt::Debug for SinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SinkId({}:{}.{})", self.outbox, self.key.index, self.key.generation)
    }
}

impl fmt::Debug for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListenerId({}.{})", self.0.index, self.0.generation)
    }
}

/// Something for the host to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parcel {
    /// Write this frame, and say so by [`written`](super::Outbox::written) or [`broke`](super::Outbox::broke).
    Frame {
        /// Where to.
        sink: SinkId,
        /// Whose it is.
        listener: ListenerId,
        /// What to write.
        frame: Frame,
        /// What makes it that listener's, see [`Frame::tagged`].
        tag: Option<Tag>,
    },
    /// The listener has ended in order, and everything before was written: the request that opened it may have its result.
    Finish {
        /// Where.
        sink: SinkId,
        /// Which.
        listener: ListenerId,
    },
}
