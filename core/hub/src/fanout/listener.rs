//! One listener: what it asked for, and what waits for it.

use tidings_proto::fanout::state::Listener as State;
use tidings_proto::fanout::{Filter, Frame, MethodSet, Protocol, Tag};

use super::below::lies_below;
use super::set::Key;

/// Something to tell of one thing.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) method: usize,
    pub(super) name: Box<str>,
    pub(super) frame: Frame,
}

#[derive(Debug)]
pub(super) struct Listener {
    /// The publish that it was last counted in.
    pub(super) counted: u32,
    /// Lists that have changed since it was last handed frames.
    pub(super) lists: MethodSet,
    pub(super) state: State,
    /// It is in `ready`.
    pub(super) queued: bool,
    pub(super) sink: Key,
    /// Its acknowledgement is in the host's hands.
    pub(super) acknowledging: bool,
    /// Its acknowledgement has not been handed out.
    pub(super) acknowledgement: Option<Frame>,
    pub(super) tag: Option<Tag>,
    pub(super) filter: Filter,
    /// It is told of what lies below the things it named too (legacy `resources/subscribe`).
    pub(super) below: bool,
    /// Single things that have changed.
    pub(super) names: Vec<Waiting>,
}

impl Listener {
    /// Whether there is something to hand out for it, or to tell the host of it.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        match self.state {
            State::Opening => self.acknowledgement.is_some(),
            State::Active => !self.lists.is_empty() || !self.names.is_empty(),
            State::Ending => true,
            State::Ended => false,
        }
    }

    /// Notes that one thing has changed. Beyond `lag` things the names it asked by stand for what lies below them, of
    /// which there are only so many.
    pub(super) fn note(
        &mut self,
        method: usize,
        name: &str,
        frame: &Frame,
        asked: &str,
        lag: usize,
        protocol: &Protocol,
    ) {
        if let Some(known) = self.names.iter_mut().find(|known| known.method == method && *known.name == *name) {
            known.frame = frame.clone();
            return;
        }
        if self.names.len() >= lag && name != asked {
            // It has asked by that name, so it may hear it.
            if let Some(Ok(frame)) = protocol.methods.get(method).map(|method| Frame::named(method, asked)) {
                self.names.retain(|known| known.method != method || !lies_below(&known.name, asked));
                self.note(method, asked, &frame, asked, lag, protocol);
            }
            return;
        }
        self.names.push(Waiting { method, name: name.into(), frame: frame.clone() });
    }
}
