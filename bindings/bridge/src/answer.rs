//! What operations answer.

use crate::call::{Call, Ended};
use crate::outlet::HostDelivery;
use crate::pending::Started;
use crate::stream::{Page, Tail, Writer};

/// The answer of an operation.
#[derive(Debug)]
pub enum Answer {
    /// Nothing but that it is done.
    Done,
    /// Whether it was done: all of it in time, or at all.
    Complete(bool),
    /// The number of the first event appended.
    Seq(u64),
    /// Events read.
    Page(Page),
    /// The tail has a batch, or has ended: see [`Tail::take`].
    Readable(Tail),
    /// A claimed stream's writer.
    Writer(Writer),
    /// An accepted call.
    Call(Call),
    /// How a call ended.
    Ended(Ended),
    /// JSON text.
    Json(String),
    /// A delivery for the host; none where no more come.
    Delivery(Option<Box<HostDelivery>>),
}

impl Answer {
    /// Nobody takes it. A call that nobody holds is cancelled.
    pub(crate) fn discard(self) -> Option<Started> {
        match self {
            Self::Call(call) => Some(call.cancel(None)),
            _ => None,
        }
    }
}
