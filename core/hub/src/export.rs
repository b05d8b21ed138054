//! A stream as JSON Lines.

use std::sync::Arc;

use tidings_proto::stream::{event_line, gap_line};
use tidings_store::{ReadLimits, StreamInfo};

use crate::core::Core;
use crate::error::Result;
use crate::stream::After;
use crate::tail::Tail;

/// The events of a stream that were committed when the export began, as JSON Lines; the shape of a line is told at
/// [`event_line`]. A gap is a line of its own before what follows it.
///
/// An iterator over pages: each item is several whole lines, read and written at once. It holds one page at a time, and ends
/// after the first error.
#[derive(Default)]
pub struct Export {
    tail: Option<Tail>,
    /// What is appended later is not exported.
    end: u64,
}

impl Export {
    pub(crate) fn start(core: Arc<Core>, info: StreamInfo, after: After) -> Result<Self> {
        let end = info.next_seq;
        Ok(Self { tail: Some(Tail::start(core, info, after)?), end })
    }

    fn page(&mut self) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(tail) = &mut self.tail else { return Ok(None) };
        let read = tail.read(ReadLimits::default())?;
        let done = read.cursor.next >= self.end || read.events.is_empty();
        let events = read.events.iter().take_while(|event| event.seq < self.end);
        let line = |event: &tidings_store::Event| {
            event_line(event.seq, &event.kind, event.time, event.identity.as_deref(), &event.payload)
        };
        let lines: Vec<_> = read.gap.iter().map(gap_line).chain(events.map(line)).collect();
        if done && read.gap.is_none() || read.ended {
            self.tail = None;
        }
        Ok((!lines.is_empty()).then_some(lines))
    }
}

impl Iterator for Export {
    type Item = Result<Vec<Vec<u8>>>;

    fn next(&mut self) -> Option<Self::Item> {
        let page = self.page();
        if page.is_err() {
            self.tail = None;
        }
        page.transpose()
    }
}
