//! Watched calls.

use std::sync::Arc;
use std::time::Duration;

use tidings_bridge::{self as bridge, Answer, RequestId};

use crate::entry::{answer, complete, entry};
use crate::error::TidingsError;
use crate::hub::Hub;
use crate::task::TaskTerms;

// The JSON-RPC id of a request, as JSON text: `7` or `"7"`, whose type counts.
uniffi::custom_type!(RequestId, String, {
    remote,
    try_lift: |text| {
        let refuse = |rule| TidingsError::from(bridge::Error::argument("requestId", rule));
        Ok(RequestId::parse(text.as_bytes()).map_err(refuse)?)
    },
    lower: |id| id.to_json(),
});

/// A tool call that asks to be watched.
pub type CallRequest = bridge::Begin;

/// A tool call that asks to be watched.
#[uniffi::remote(Record)]
pub struct CallRequest {
    /// The raw JSON text of `notificationConfig`, if it has one.
    #[uniffi(default = None)]
    pub config: Option<Vec<u8>>,
    /// The route types that this server offers.
    #[uniffi(default = [])]
    pub route_types: Vec<String>,
    /// Who asks.
    pub principal: String,
    /// The MCP session, where there is one.
    #[uniffi(default = None)]
    pub session: Option<String>,
    /// The host's own name for the connection of the calling session, where one outlives the request.
    #[uniffi(default = None)]
    pub peer: Option<String>,
    /// The names that routes of type `message` and `callback` may have.
    #[uniffi(default = [])]
    pub open: Vec<String>,
    /// The JSON-RPC id of the request, as JSON text: `7` or `"7"`.
    pub request_id: RequestId,
    /// The tool's name.
    pub tool: String,
    /// The server's time limit; the config may only lower it.
    #[uniffi(default = None)]
    pub timeout: Option<Duration>,
    /// It is a task from the start.
    #[uniffi(default = None)]
    pub task: Option<TaskTerms>,
    /// The W3C trace context that its webhooks carry on.
    #[uniffi(default = None)]
    pub traceparent: Option<String>,
}

/// How a call ended.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Ended {
    /// `completed`, `failed`, `cancelled` or `timeout`.
    pub outcome: String,
    /// Why, where the outcome alone does not say.
    pub reason: Option<String>,
    /// It was this very request to end the call that won.
    pub ours: bool,
    /// The outcome is on disk.
    pub committed: bool,
    /// The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered.
    pub undelivered: Option<String>,
}

impl Ended {
    fn read(answer: Answer) -> Option<Self> {
        let Answer::Ended(bridge::Ended { outcome, reason, ours, committed, undelivered }) = answer else {
            return None;
        };
        Some(Self { outcome: outcome.to_owned(), reason, ours, committed, undelivered })
    }
}

/// One watched call. When it is freed and nothing has ended it, it ends as `failed`.
#[derive(uniffi::Object)]
pub struct Call {
    inner: bridge::Call,
}

#[uniffi::export]
impl Call {
    /// Our id of the call.
    pub fn id(&self) -> String {
        self.inner.id()
    }

    /// The ids of its routes.
    pub fn accepted_routes(&self) -> Vec<String> {
        self.inner.accepted_routes()
    }

    /// Triggers that nothing here fires.
    pub fn ignored_triggers(&self) -> Vec<String> {
        self.inner.ignored_triggers()
    }

    /// The params of `notifications/config/acknowledged`, as JSON text.
    pub fn acknowledgement(&self) -> String {
        self.inner.acknowledgement()
    }

    /// An event of the tool, with JSON text; its number, at once.
    pub fn emit(&self, kind: &str, payload: Vec<u8>) -> Result<u64, TidingsError> {
        entry("Call.emit", || self.inner.emit(kind, &payload))
    }

    /// A vendor's trigger, `com.example/done`, with the JSON text of an object; the number of its event.
    pub fn fire(&self, name: &str, payload: Vec<u8>) -> Result<u64, TidingsError> {
        entry("Call.fire", || self.inner.fire(name, &payload))
    }

    /// Makes the call a task; false if it had ended before.
    pub async fn become_task(&self, terms: TaskTerms) -> Result<bool, TidingsError> {
        answer("Call.becomeTask", || Ok(self.inner.become_task(terms)), complete).await
    }

    /// Asks the task's client for input, the JSON text of an object, and waits for its answers, which are one too. See
    /// `Hub.answerTask`.
    pub async fn ask(&self, requests: Vec<u8>) -> Result<String, TidingsError> {
        let json = |answer| match answer {
            Answer::Json(json) => Some(json),
            _ => None,
        };
        answer("Call.ask", || Ok(self.inner.ask(requests)), json).await
    }

    /// The client's connection is lost and the call goes on; fires `io.tidings/disconnected` where asked, without waiting.
    pub fn disconnected(&self) -> Result<(), TidingsError> {
        entry("Call.disconnected", || self.inner.disconnected())
    }

    /// The client is gone and the call goes on, as one of at most `calls` counted under that name, for `time` at most. False:
    /// there is no room, and it ends.
    pub fn detach(&self, counted_as: &str, calls: u32, time: Duration) -> Result<bool, TidingsError> {
        entry("Call.detach", || self.inner.detach(counted_as, calls, time))
    }

    /// The tool returned this result, as JSON text: `completed`, or `failed` where it says `isError`.
    pub async fn complete(&self, result: Vec<u8>) -> Result<Ended, TidingsError> {
        answer("Call.complete", || Ok(self.inner.complete(result)), Ended::read).await
    }

    /// The call failed, with a JSON-RPC error as JSON text where there is one.
    #[uniffi::method(default(error = None, reason = None))]
    pub async fn fail(&self, error: Option<Vec<u8>>, reason: Option<String>) -> Result<Ended, TidingsError> {
        answer("Call.fail", || Ok(self.inner.fail(error, reason.as_deref())), Ended::read).await
    }

    /// Somebody cancelled the call.
    #[uniffi::method(default(reason = None))]
    pub async fn cancel(&self, reason: Option<String>) -> Result<Ended, TidingsError> {
        answer("Call.cancel", || Ok(self.inner.cancel(reason.as_deref())), Ended::read).await
    }

    /// Waits until the call has ended, whoever ends it.
    pub async fn ended(&self) -> Result<Ended, TidingsError> {
        answer("Call.ended", || Ok(self.inner.ended()), Ended::read).await
    }
}

#[uniffi::export]
impl Hub {
    /// Begins a watched call: its config is on disk when this answers.
    pub async fn begin_call(&self, request: CallRequest) -> Result<Arc<Call>, TidingsError> {
        let call = |answer| match answer {
            Answer::Call(inner) => Some(Arc::new(Call { inner })),
            _ => None,
        };
        answer("Hub.beginCall", || Ok(self.inner.begin_call(request)), call).await
    }

    /// Judges a request's config without a call and without opening the hub; the triggers that nothing here fires.
    pub fn check_config(&self, request: CallRequest) -> Result<Vec<String>, TidingsError> {
        entry("Hub.checkConfig", || self.inner.check_config(&request))
    }

    /// Cancels the call of that id, unless it has ended; false if there is none that is the asker's.
    pub async fn cancel_call(&self, id: String, asker: String) -> Result<bool, TidingsError> {
        answer("Hub.cancelCall", || Ok(self.inner.cancel_call(id, asker)), complete).await
    }

    /// How many calls of this process go on without their request.
    pub fn detached(&self) -> u32 {
        self.inner.detached()
    }
}
