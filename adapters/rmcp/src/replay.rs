//! A stream that was cut, from where its client was: what is kept, then what comes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec;

use futures_core::Stream;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tidings::proto::stream::{Cursor, CursorPrefix};
use tidings::{Event, Hub, Read, ReadLimits, Tail};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};

use crate::event_log::MESSAGE;
use crate::{lost, message};

/// How often it is looked whether the process that writes the stream is still there.
const LOOK: Duration = Duration::from_secs(2);

/// Ends with the stream's final response, which is [`lost::answer`] when nobody is left who could send it.
pub(crate) struct Replay {
    tail: Tail,
    found: Found,
    ending: Ending,
    look: Pin<Box<Sleep>>,
    over: bool,
}

/// What is done when nobody is left who goes on with the stream.
pub(crate) enum Ending {
    /// Nothing: another process may go on with it.
    None,
    /// Its request is answered.
    Answer { hub: Hub, scope: String },
    /// It is being answered, also if this reader leaves.
    Answering(JoinHandle<tidings::Result<bool>>),
}

impl Ending {
    pub(crate) fn of(hub: &Hub, scope: &str) -> Self {
        Self::Answer { hub: hub.clone(), scope: scope.to_owned() }
    }
}

/// What was read and did not go out. A message is made when its turn comes: one at a time is in memory as more than bytes.
#[derive(Default)]
struct Found {
    gap: Option<ServerSseMessage>,
    events: vec::IntoIter<Event>,
    cursors: Option<CursorPrefix>,
}

impl From<Read> for Found {
    fn from(read: Read) -> Self {
        let Cursor { stream, epoch, claim, next } = read.cursor;
        let cursors = CursorPrefix::new(stream, epoch, claim);
        let gap = read.gap.map(|gap| {
            let first = read.events.first().map_or(next, |event| event.seq);
            // A gap that names no stream has no place to go on from.
            let at = gap.earliest_seq.map(|_| cursors.cursor(first));
            message::frame(at, message::of_gap(gap))
        });
        Self { gap, events: read.events.into_iter(), cursors: Some(cursors) }
    }
}

impl Iterator for Found {
    type Item = ServerSseMessage;

    fn next(&mut self) -> Option<ServerSseMessage> {
        if let Some(gap) = self.gap.take() {
            return Some(gap);
        }
        let cursors = self.cursors.as_ref()?;
        for event in self.events.by_ref().filter(|event| event.kind == MESSAGE) {
            match message::read(&event.payload) {
                Ok(message) => return Some(message::frame(Some(cursors.cursor(event.seq.saturating_add(1))), message)),
                Err(error) => tracing::error!(seq = event.seq, %error, "a stored message cannot be read"),
            }
        }
        None
    }
}

impl Replay {
    pub(crate) fn new(tail: Tail, ending: Ending) -> Self {
        Self { tail, found: Found::default(), ending, look: Box::pin(sleep(LOOK)), over: false }
    }

    /// Whether more may come of a stream from which nothing comes. What is committed is taken first.
    fn is_left(&mut self) -> tidings::Result<bool> {
        if matches!(self.ending, Ending::None) || !self.tail.abandoned()? {
            return Ok(true);
        }
        let read = self.tail.read(ReadLimits::default())?;
        let left = !read.events.is_empty() || read.gap.is_some();
        self.found = read.into();
        Ok(left)
    }

    /// Begins to give the stream its final response. `false`: there is none.
    fn answer(&mut self) -> bool {
        let Ending::Answer { hub, scope } = &self.ending else { return false };
        let answer = lost::answer(hub.clone(), scope.clone(), self.tail.cursor());
        self.ending = Ending::Answering(tokio::spawn(answer));
        true
    }

    /// Whether there is more to read, once what was begun is done.
    fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<tidings::Result<bool>> {
        let Ending::Answering(answering) = &mut self.ending else { return Poll::Ready(Ok(true)) };
        let answered = ready!(Pin::new(answering).poll(cx));
        self.ending = Ending::None;
        // Otherwise the runtime is going down.
        Poll::Ready(answered.unwrap_or(Ok(false)))
    }
}

impl Stream for Replay {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(frame) = this.found.next() {
                return Poll::Ready(Some(frame));
            }
            if this.over {
                return Poll::Ready(None);
            }
            let failed = match ready!(this.poll_answered(cx)) {
                Err(error) => Some(error),
                Ok(false) => None,
                Ok(true) => match this.tail.poll_next(cx, ReadLimits::default()) {
                    Poll::Ready(Some(Ok(read))) => {
                        this.found = read.into();
                        continue;
                    }
                    Poll::Ready(Some(Err(error))) => Some(error),
                    Poll::Ready(None) => None,
                    Poll::Pending => {
                        ready!(this.look.as_mut().poll(cx));
                        this.look = Box::pin(sleep(LOOK));
                        match this.is_left() {
                            Ok(true) => continue,
                            // The answer is read like any other.
                            Ok(false) if this.answer() => continue,
                            Ok(false) => None,
                            Err(error) => Some(error),
                        }
                    }
                },
            };
            this.over = true;
            if let Some(error) = failed {
                tracing::warn!(%error, "a stream could not be replayed to its end");
            }
        }
    }
}

/// A stream that only says that it is not known here.
pub(crate) struct Unknown(pub(crate) Option<ServerSseMessage>);

impl Stream for Unknown {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take())
    }
}
