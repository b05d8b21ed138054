//! The call machine: from the moment a watched `tools/call` starts to its one outcome.
//!
//! Two tables say everything. [`lost_connection`] tells what a lost connection means for a call, by transport and
//! opt-in. [`step`] tells what each event does in each state. Both are pure: the store makes a step a
//! compare-and-set on the call's row, so that the first outcome wins between processes too.

use crate::trigger::{Outcome, Reason, Trigger};

/// How the call's client is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// HTTP with MCP up to 2025-11-25: a session, whose streams can be resumed.
    LegacyHttp,
    /// HTTP with MCP 2026-07-28: the response stream is the request, and its end cancels it.
    ModernHttp,
    /// Standard input and output, of either era.
    Stdio,
}

/// What a lost connection means for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The call goes on, and what it says is kept for a client that resumes.
    Resumable,
    /// The call goes on; nothing more is sent for the request, and only its routes or its task tell the outcome.
    Released,
    /// The server's stdin ended: the call has the grace period, then comes [`Event::Shutdown`].
    Draining,
    /// The call ends as cancelled.
    Cancelled {
        /// Why.
        reason: Reason,
        /// [`Reply::Error`] where a client may resume and hear it, else [`Reply::Never`].
        reply: Reply,
    },
}

/// What the loss of a connection means, after the design, section 5, "A lost connection".
///
/// `opted_in`: the request has accepted routes or became a task. `room`: the principal may have one more detached
/// call.
pub const fn lost_connection(transport: Transport, opted_in: bool, room: bool) -> Loss {
    match (transport, opted_in, room) {
        // Legacy: a disconnection "SHOULD NOT be interpreted as the client cancelling its request".
        (Transport::LegacyHttp, _, true) => Loss::Resumable,
        (Transport::LegacyHttp, _, false) => Loss::Cancelled { reason: Reason::DetachLimit, reply: Reply::Error },
        // 2026-07-28: closing the response stream cancels the request; opting in separates the call from it.
        (Transport::ModernHttp, true, true) => Loss::Released,
        (Transport::ModernHttp, true, false) => Loss::Cancelled { reason: Reason::DetachLimit, reply: Reply::Never },
        (Transport::ModernHttp, false, _) => Loss::Cancelled { reason: Reason::Disconnected, reply: Reply::Never },
        // The process ends soon, which bounds its calls better than a limit does.
        (Transport::Stdio, _, _) => Loss::Draining,
    }
}

/// Who still hears an open call over its own request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Link {
    /// The client, at once.
    Attached,
    /// Nobody now; what is sent is kept for a resume (legacy).
    Resumable,
    /// Nobody any more.
    Released,
    /// A stdio client that closed our stdin and may still read our stdout.
    Draining,
}

impl Link {
    /// Every link.
    pub const ALL: [Link; 4] = [Link::Attached, Link::Resumable, Link::Released, Link::Draining];
}

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The tool runs.
    Open(Link),
    /// The call has its outcome, which is final.
    Ended(Outcome, Option<Reason>),
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The tool returned a result without `isError: true`.
    Complete,
    /// The tool returned `isError: true` or a JSON-RPC error (no reason), or a result that is no JSON object.
    Fail(Option<Reason>),
    /// The client, the operator or `io.tidings/calls/cancel` cancelled it.
    Cancel,
    /// The time limit passed.
    Timeout,
    /// The call's lease ran out, so its server is dead.
    ServerLost,
    /// The server stops in good order.
    Shutdown,
    /// It has been without a connection for as long as the operator allows.
    DetachExpired,
    /// The connection was lost; see [`lost_connection`].
    Lost(Loss),
    /// The request was answered with a task, so that nobody waits on it.
    Detach,
    /// A legacy client resumed the stream.
    Reattach,
}

/// What is owed to the request after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reply {
    /// Nothing yet.
    NotYet,
    /// The tool's result or error, over the link or kept for a resume.
    Payload,
    /// A JSON-RPC error that says why, over the link or kept for a resume, where the transport still has either.
    Error,
    /// Nothing more: the client cancelled the request (MCP: SHOULD NOT respond), or it has been answered with a task,
    /// or it is cancelled by the loss of its stream.
    Never,
}

/// What becomes of the running tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    /// It runs on.
    GoesOn,
    /// It has returned, or died with its server.
    Gone,
    /// It must be cancelled.
    Stop,
}

/// What an event does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The new state.
    pub state: State,
    /// The trigger that fires.
    pub fires: Option<Trigger>,
    /// What is owed to the request.
    pub reply: Reply,
    /// What becomes of the tool.
    pub tool: Tool,
}

/// Why an event does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The event would end a call that has ended. The caller counts it and drops it; the outcome stays the first one.
    AlreadyEnded(Outcome, Option<Reason>),
    /// The event has no meaning in this state: a connection lost twice, a timer that came late.
    Ignored,
}

/// Applies `event` to a call in `state`. The match is the table, and the compiler checks that no pair is missing.
///
/// # Errors
/// [`Refused`] when the event changes nothing.
#[rustfmt::skip] // one row a line
pub fn step(state: State, event: Event) -> Result<Step, Refused> {
    use Event::*;
    use Link::{Attached, Draining, Released, Resumable};
    use Outcome as O;
    use Reason as R;

    let link = match state {
        State::Open(link) => link,
        State::Ended(outcome, reason) => return Err(match event {
            Complete | Fail(_) | Cancel | Timeout | ServerLost | Shutdown => Refused::AlreadyEnded(outcome, reason),
            DetachExpired | Lost(_) | Detach | Reattach                   => Refused::Ignored,
        }),
    };
    match (link, event) {
        (Attached | Resumable | Draining, Complete)        => end(O::Completed, None, Reply::Payload, Tool::Gone),
        (Released,                        Complete)        => end(O::Completed, None, Reply::Never, Tool::Gone),

        (Attached | Resumable | Draining, Fail(None))      => end(O::Failed, None, Reply::Payload, Tool::Gone),
        (Attached | Resumable | Draining, Fail(Some(why))) => end(O::Failed, Some(why), Reply::Error, Tool::Gone),
        (Released,                        Fail(why))       => end(O::Failed, why, Reply::Never, Tool::Gone),

        (Attached | Resumable | Released | Draining, Cancel) => end(O::Cancelled, None, Reply::Never, Tool::Stop),

        (Attached | Resumable | Draining, Timeout)         => end(O::Timeout, None, Reply::Error, Tool::Stop),
        (Released,                        Timeout)         => end(O::Timeout, None, Reply::Never, Tool::Stop),

        // A dead server recorded no loss, so an attached call counts as resumable: a legacy client may yet resume.
        (Attached | Resumable,            ServerLost)      => end(O::Failed, Some(R::ServerLost), Reply::Error, Tool::Gone),
        (Released | Draining,             ServerLost)      => end(O::Failed, Some(R::ServerLost), Reply::Never, Tool::Gone),

        (Attached | Resumable | Draining, Shutdown)        => end(O::Failed, Some(R::Shutdown), Reply::Error, Tool::Stop),
        (Released,                        Shutdown)        => end(O::Failed, Some(R::Shutdown), Reply::Never, Tool::Stop),

        (Resumable,                       DetachExpired)   => end(O::Cancelled, Some(R::DetachExpired), Reply::Error, Tool::Stop),
        (Released,                        DetachExpired)   => end(O::Cancelled, Some(R::DetachExpired), Reply::Never, Tool::Stop),
        (Attached | Draining,             DetachExpired)   => Err(Refused::Ignored),

        (Attached, Lost(Loss::Resumable))                  => go_on(Resumable, Some(Trigger::Disconnected), Reply::NotYet),
        (Attached, Lost(Loss::Released))                   => go_on(Released, Some(Trigger::Disconnected), Reply::Never),
        (Attached, Lost(Loss::Draining))                   => go_on(Draining, Some(Trigger::Disconnected), Reply::NotYet),
        (Attached, Lost(Loss::Cancelled { reason, reply })) => end(O::Cancelled, Some(reason), reply, Tool::Stop),
        (Resumable | Released | Draining, Lost(_))         => Err(Refused::Ignored),

        (Attached | Resumable | Draining, Detach)          => go_on(Released, None, Reply::Never),
        (Released,                        Detach)          => Err(Refused::Ignored),

        (Resumable,                       Reattach)        => go_on(Attached, None, Reply::NotYet),
        (Attached | Released | Draining,  Reattach)        => Err(Refused::Ignored),
    }
}

fn end(outcome: Outcome, reason: Option<Reason>, reply: Reply, tool: Tool) -> Result<Step, Refused> {
    Ok(Step { state: State::Ended(outcome, reason), fires: Some(outcome.trigger()), reply, tool })
}

fn go_on(link: Link, fires: Option<Trigger>, reply: Reply) -> Result<Step, Refused> {
    Ok(Step { state: State::Open(link), fires, reply, tool: Tool::GoesOn })
}

/// The time limit of a call, in milliseconds: the client's `timeoutMs` may lower the server's and never raise it.
/// `None` is no limit, so that without a limit of the server the client's holds.
pub fn effective_timeout(server_ms: Option<u64>, client_ms: Option<u64>) -> Option<u64> {
    match (server_ms, client_ms) {
        (Some(server), Some(client)) => Some(server.min(client)),
        (limit, None) | (None, limit) => limit,
    }
}

#[cfg(test)]
mod tests;
