//! Watched calls, as a host holds them.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidings::proto::id::RequestId;
use tidings::proto::trigger::Reason;
use tidings::{BeginCall, DetachLimits, TaskTerms};

use crate::answer::Answer;
use crate::error::{Error, ErrorCode, Result};
use crate::fork::{Own, lock};
use crate::hub::Hub;
use crate::pending::{Cancel, Started, start};

/// A tool call that asks to be watched.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The raw JSON text of `notificationConfig`, if it has one.
    pub config: Option<Vec<u8>>,
    /// The route types that this server offers.
    pub route_types: Vec<String>,
    /// Who asks.
    pub principal: String,
    /// The MCP session, where there is one.
    pub session: Option<String>,
    /// The host's own name for the connection of the calling session, where one outlives the request.
    pub peer: Option<String>,
    /// The names that routes of type `message` and `callback` may have.
    pub open: Vec<String>,
    /// The JSON-RPC id of the request.
    pub request_id: RequestId,
    /// The tool's name.
    pub tool: String,
    /// The server's time limit.
    pub timeout: Option<Duration>,
    /// It is a task from the start.
    pub task: Option<TaskTerms>,
    /// The W3C trace context that its webhooks carry on.
    pub traceparent: Option<String>,
}

impl Begin {
    pub(crate) async fn run(self, hub: &tidings::Hub) -> Result<tidings::Call> {
        let route_types: Vec<_> = self.route_types.iter().map(String::as_str).collect();
        let open: Vec<_> = self.open.iter().map(String::as_str).collect();
        Ok(hub.begin_call_traced(self.view(&route_types, &open), self.traceparent.as_deref()).await?)
    }

    pub(crate) fn check(&self, hub: &tidings::Hub) -> Result<Vec<String>> {
        let route_types: Vec<_> = self.route_types.iter().map(String::as_str).collect();
        let open: Vec<_> = self.open.iter().map(String::as_str).collect();
        Ok(hub.check_config(&self.view(&route_types, &open))?)
    }

    fn view<'a>(&'a self, route_types: &'a [&'a str], open: &'a [&'a str]) -> BeginCall<'a> {
        BeginCall {
            config: self.config.as_deref(),
            route_types,
            principal: &self.principal,
            session: self.session.as_deref(),
            peer: self.peer.as_deref(),
            open,
            request_id: &self.request_id,
            tool: &self.tool,
            timeout: self.timeout,
            task: self.task,
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// `completed`, `failed`, `cancelled` or `timeout`.
    pub outcome: &'static str,
    /// Why, where the outcome alone does not say.
    pub reason: Option<String>,
    /// It was this very request to end the call that won.
    pub ours: bool,
    /// The outcome is on disk.
    pub committed: bool,
    /// The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered.
    pub undelivered: Option<String>,
}

impl From<tidings::Ended> for Ended {
    fn from(ended: tidings::Ended) -> Self {
        let tidings::Ended { outcome, reason, ours, committed, undelivered } = ended;
        Self { outcome: outcome.as_str(), reason, ours, committed, undelivered }
    }
}

/// Room for one call that goes on without its request; given back when it is released or dropped.
#[derive(Debug)]
pub struct Room(Mutex<Option<tidings::Room>>);

impl Room {
    pub(crate) fn new(room: tidings::Room) -> Self {
        Self(Mutex::new(Some(room)))
    }

    /// Gives it back; doing so again changes nothing.
    pub fn release(&self) {
        drop(lock(&self.0).take());
    }
}

/// Checks an event that a tool's author emits: its type has a vendor prefix that is not ours, its payload is an object
/// (SEP-2694).
pub fn check_event(kind: &str, payload: &[u8]) -> Result<()> {
    tidings::proto::task::check_event(kind, payload)
        .map_err(|fault| Error::new(ErrorCode::InvalidArgument, fault.to_string()))
}

/// Checks what a tool's author fires: its name is a vendor's, its payload an object.
pub fn check_fire(name: &str, payload: &[u8]) -> Result<()> {
    tidings::proto::trigger::check_fire(name, payload)
        .map_err(|fault| Error::new(ErrorCode::InvalidArgument, fault.to_string()))
}

fn parse_reason(name: &str) -> Result<Reason> {
    Reason::parse(name).ok_or_else(|| {
        let names: Vec<_> = Reason::ALL.into_iter().map(Reason::as_str).collect();
        Error::argument("reason", format!("must be one of {}", names.join(", ")))
    })
}

/// A watched call.
#[derive(Clone)]
pub struct Call {
    hub: Hub,
    call: Arc<Own<tidings::Call>>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("id", &self.call.id()).finish_non_exhaustive()
    }
}

impl Call {
    pub(crate) fn new(hub: Hub, call: tidings::Call) -> Self {
        Self { hub, call: Arc::new(Own::new(call)) }
    }

    /// Our id of the call.
    pub fn id(&self) -> String {
        self.call.id().to_string()
    }

    /// Fires a vendor's trigger with the JSON text of an object.
    pub fn fire(&self, name: &str, payload: &[u8]) -> Result<u64> {
        Ok(self.call.get()?.fire(name, payload)?)
    }

    /// The ids of its routes.
    pub fn accepted_routes(&self) -> Vec<String> {
        self.call.accepted_routes()
    }

    /// Triggers that nothing here fires.
    pub fn ignored_triggers(&self) -> Vec<String> {
        self.call.ignored_triggers()
    }

    /// The params of `notifications/config/acknowledged`, as JSON text.
    pub fn acknowledgement(&self) -> String {
        self.call.acknowledgement()
    }

    /// Appends an event of the tool, without waiting.
    pub fn emit(&self, kind: &str, payload: &[u8]) -> Result<u64> {
        Ok(self.call.get()?.emit(kind, payload)?)
    }

    /// Makes the call a task; answers [`Answer::Complete`], false if it had ended before.
    pub fn become_task(&self, terms: TaskTerms) -> Started {
        if let Err(error) = self.call.get() {
            return Started::Ready(Err(error));
        }
        let (call, hub) = (Arc::clone(&self.call), self.hub.clone());
        start(Cancel::Finish, async move {
            let _hub = hub;
            Ok(Answer::Complete(call.become_task(terms).await?))
        })
    }

    /// Asks the task's client for input, the JSON text of an object, and waits for it; answers [`Answer::Json`]. See
    /// [`Hub::answer_task`].
    pub fn ask(&self, requests: Vec<u8>) -> Started {
        if let Err(error) = self.call.get() {
            return Started::Ready(Err(error));
        }
        let (call, hub) = (Arc::clone(&self.call), self.hub.clone());
        start(Cancel::Drop, async move {
            let _hub = hub;
            Ok(Answer::Json(call.ask(&requests).await?))
        })
    }

    /// The client is gone and the call goes on, within the limits; `false`: there is no room, and it ends.
    pub fn detach(&self, counted_as: &str, calls: u32, time: Duration) -> Result<bool> {
        Ok(self.call.get()?.detach(counted_as, DetachLimits { calls, time })?)
    }

    /// The client's connection is lost and the call goes on; fires `io.tidings/disconnected` where asked, without waiting.
    pub fn disconnected(&self) -> Result<()> {
        Ok(self.call.get()?.disconnected()?)
    }

    /// The tool returned this result; answers [`Answer::Ended`].
    pub fn complete(&self, result: Vec<u8>) -> Started {
        self.end(async move |call| call.complete(&result).await)
    }

    /// The call failed; answers [`Answer::Ended`].
    pub fn fail(&self, error: Option<Vec<u8>>, reason: Option<&str>) -> Started {
        match reason.map(parse_reason).transpose() {
            Ok(reason) => self.end(async move |call| call.fail(error.as_deref(), reason).await),
            Err(error) => Started::Ready(Err(error)),
        }
    }

    /// Somebody cancelled the call; answers [`Answer::Ended`].
    pub fn cancel(&self, reason: Option<&str>) -> Started {
        match reason.map(parse_reason).transpose() {
            Ok(reason) => self.end(async move |call| call.cancel(reason).await),
            Err(error) => Started::Ready(Err(error)),
        }
    }

    /// Waits until the call has ended, whoever ends it; answers [`Answer::Ended`].
    pub fn ended(&self) -> Started {
        self.start(Cancel::Drop, async |call| call.ended().await)
    }

    /// Goes on when nobody waits: others wait for the outcome.
    fn end<F>(&self, work: impl FnOnce(Arc<Own<tidings::Call>>) -> F) -> Started
    where
        F: Future<Output = tidings::Result<tidings::Ended>> + Send + 'static,
    {
        self.start(Cancel::Finish, work)
    }

    fn start<F>(&self, cancel: Cancel, work: impl FnOnce(Arc<Own<tidings::Call>>) -> F) -> Started
    where
        F: Future<Output = tidings::Result<tidings::Ended>> + Send + 'static,
    {
        if let Err(error) = self.call.get() {
            return Started::Ready(Err(error));
        }
        let (work, hub) = (work(Arc::clone(&self.call)), self.hub.clone());
        start(cancel, async move {
            let _hub = hub;
            Ok(Answer::Ended(work.await?.into()))
        })
    }
}
