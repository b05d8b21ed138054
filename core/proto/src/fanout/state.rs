//! When a listener is told, and what a sink's answers mean. Two tables; a test walks both.

/// Where a listener stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Registered. Its acknowledgement is not written, or its peer has not said `initialized`.
    Opening,
    /// It is told.
    Active,
    /// It ends in order: what it has been promised is still written, nothing new is.
    Ending,
    /// It is told nothing any more.
    Ended,
}

/// What happens to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenerEvent {
    /// The acknowledgement was written, or the peer said `initialized`.
    Opened,
    /// Something that it asked for has changed.
    Publish,
    /// The server ends it in order.
    End,
    /// Everything promised was written.
    Drained,
    /// It was cancelled, or its peer is gone or has failed.
    Abort,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenerAct {
    /// Kept until it is open.
    Hold,
    /// What was held is due.
    Release,
    /// Queued, or coalesced with what is queued.
    Tell,
    /// What is queued is written, then it ends.
    Flush,
    /// Its end may be told to the peer.
    Finish,
    /// What is queued is forgotten.
    Forget,
    /// Nothing.
    Ignore,
}

impl Listener {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Opening, Self::Active, Self::Ending, Self::Ended];

    /// The table.
    #[rustfmt::skip] // one row a line
    pub const fn step(self, event: ListenerEvent) -> (Self, ListenerAct) {
        use Listener::{Active, Ended, Ending, Opening};
        use ListenerEvent::{Abort, Drained, End, Opened, Publish};
        match (self, event) {
            // MCP 2026-07-28: no notification before the acknowledgement; legacy: none before `initialized`.
            (Opening, Publish) => (Opening, ListenerAct::Hold),
            (Opening, Opened)  => (Active,  ListenerAct::Release),
            // Its acknowledgement still comes first.
            (Opening, End)     => (Ending,  ListenerAct::Flush),
            (Opening, Drained) => (Opening, ListenerAct::Ignore),

            (Active,  Publish) => (Active,  ListenerAct::Tell),
            (Active,  End)     => (Ending,  ListenerAct::Flush),
            (Active,  Opened | Drained) => (Active, ListenerAct::Ignore),

            (Ending,  Drained) => (Ended,   ListenerAct::Finish),
            (Ending,  Opened)  => (Ending,  ListenerAct::Flush),
            (Ending,  Publish | End) => (Ending, ListenerAct::Ignore),

            (Opening | Active | Ending, Abort) => (Ended, ListenerAct::Forget),
            (Ended, Opened | Publish | End | Drained | Abort) => (Ended, ListenerAct::Ignore),
        }
    }
}

impl ListenerEvent {
    /// Every event.
    pub const ALL: [Self; 5] = [Self::Opened, Self::Publish, Self::End, Self::Drained, Self::Abort];
}

/// Where a sink stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sink {
    /// Everything that was handed out was written.
    Idle,
    /// The host is writing; nothing more is handed out before it is done, and what comes meanwhile coalesces.
    Writing,
    /// It did not take a frame, or not in time.
    Failed,
    /// Its peer has gone in order.
    Gone,
}

/// What happens to a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SinkEvent {
    /// Frames were handed to the host.
    Handed,
    /// All of them were written.
    Written,
    /// One could not be.
    Broke,
    /// The deadline of what was handed out has passed.
    Late,
    /// The peer leaves.
    Close,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SinkAct {
    /// Nothing more.
    Nothing,
    /// What came meanwhile is due.
    Next,
    /// Its listeners end, and the host is told by `failed_sinks`.
    Report,
    /// Its listeners end.
    Forget,
}

impl Sink {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Writing, Self::Failed, Self::Gone];

    /// The table.
    #[rustfmt::skip] // one row a line
    pub const fn step(self, event: SinkEvent) -> (Self, SinkAct) {
        use Sink::{Failed, Gone, Idle, Writing};
        use SinkEvent::{Broke, Close, Handed, Late, Written};
        match (self, event) {
            (Idle,    Handed)  => (Writing, SinkAct::Nothing),
            (Writing, Handed)  => (Writing, SinkAct::Nothing),
            (Writing, Written) => (Idle,    SinkAct::Next),
            (Idle,    Written | Late) => (Idle, SinkAct::Nothing),

            (Idle | Writing, Broke) => (Failed, SinkAct::Report),
            (Writing, Late)         => (Failed, SinkAct::Report),
            (Idle | Writing, Close) => (Gone,   SinkAct::Forget),

            (Failed, Close) => (Gone, SinkAct::Nothing),
            (Failed, Handed | Written | Broke | Late) => (Failed, SinkAct::Nothing),
            (Gone,   Handed | Written | Broke | Late | Close) => (Gone, SinkAct::Nothing),
        }
    }
}

impl SinkEvent {
    /// Every event.
    pub const ALL: [Self; 5] = [Self::Handed, Self::Written, Self::Broke, Self::Late, Self::Close];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that matter, by hand; all others do nothing.
    #[test]
    fn every_row_of_a_listener() {
        use Listener::*;
        use ListenerAct as A;
        use ListenerEvent::*;
        let rows = [
            (Opening, Opened, Active, A::Release),
            (Opening, Publish, Opening, A::Hold),
            (Opening, End, Ending, A::Flush),
            (Opening, Abort, Ended, A::Forget),
            (Active, Publish, Active, A::Tell),
            (Active, End, Ending, A::Flush),
            (Active, Abort, Ended, A::Forget),
            (Ending, Opened, Ending, A::Flush),
            (Ending, Drained, Ended, A::Finish),
            (Ending, Abort, Ended, A::Forget),
        ];
        for from in Listener::ALL {
            for event in ListenerEvent::ALL {
                let row = rows.iter().find(|row| (row.0, row.1) == (from, event));
                let want = row.map_or((from, A::Ignore), |row| (row.2, row.3));
                assert_eq!(from.step(event), want, "{from:?} {event:?}");
            }
        }
    }

    #[test]
    fn every_row_of_a_sink() {
        use Sink::*;
        use SinkAct as A;
        use SinkEvent::*;
        let rows = [
            (Idle, Handed, Writing, A::Nothing),
            (Idle, Broke, Failed, A::Report),
            (Idle, Close, Gone, A::Forget),
            (Writing, Written, Idle, A::Next),
            (Writing, Broke, Failed, A::Report),
            (Writing, Late, Failed, A::Report),
            (Writing, Close, Gone, A::Forget),
            (Failed, Close, Gone, A::Nothing),
        ];
        for from in Sink::ALL {
            for event in SinkEvent::ALL {
                let row = rows.iter().find(|row| (row.0, row.1) == (from, event));
                let want = row.map_or((from, A::Nothing), |row| (row.2, row.3));
                assert_eq!(from.step(event), want, "{from:?} {event:?}");
            }
        }
    }
}
