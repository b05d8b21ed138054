//! Watched calls.

use napi_derive::napi;
use tidings_bridge::{self as bridge, RequestId, TaskTerms};

use crate::convert::{Result, Text, Told, begin, bytes, entry, number};

/// How a call ended.
#[napi(object, object_from_js = false)]
pub struct Ended {
    /// `completed`, `failed`, `cancelled` or `timeout`.
    pub outcome: String,
    /// Why, where the outcome alone does not say.
    pub reason: Option<String>,
    /// It was this very request to end the call that won.
    pub ours: bool,
    /// The outcome is on disk.
    pub committed: bool,
    /// The JSON text for `_meta["io.tidings/undelivered"]` of the result.
    pub undelivered: Option<String>,
}

impl From<bridge::Ended> for Ended {
    fn from(ended: bridge::Ended) -> Self {
        let bridge::Ended { outcome, reason, ours, committed, undelivered } = ended;
        Self { outcome: outcome.to_owned(), reason, ours, committed, undelivered }
    }
}

/// A watched call.
#[napi]
pub struct Call {
    inner: bridge::Call,
}

impl Call {
    pub(crate) fn new(inner: bridge::Call) -> Self {
        Self { inner }
    }
}

#[napi]
impl Call {
    /// Our id of the call.
    #[napi(getter)]
    pub fn id(&self) -> Result<String> {
        entry("Call.id", || Ok(self.inner.id()))
    }

    /// The ids of its routes.
    #[napi(getter)]
    pub fn accepted_routes(&self) -> Result<Vec<String>> {
        entry("Call.acceptedRoutes", || Ok(self.inner.accepted_routes()))
    }

    /// Triggers that nothing here fires.
    #[napi(getter)]
    pub fn ignored_triggers(&self) -> Result<Vec<String>> {
        entry("Call.ignoredTriggers", || Ok(self.inner.ignored_triggers()))
    }

    /// The params of `notifications/config/acknowledged`, as JSON text.
    #[napi]
    pub fn acknowledgement(&self) -> Result<String> {
        entry("Call.acknowledgement", || Ok(self.inner.acknowledgement()))
    }

    /// Appends an event of the tool, without waiting.
    #[napi]
    pub fn emit(&self, kind: String, payload: Text) -> Result<f64> {
        entry("Call.emit", || self.inner.emit(&kind, &bytes(payload))).map(number)
    }

    /// Fires a vendor's trigger with the JSON text of an object.
    #[napi]
    pub fn fire(&self, name: String, payload: Text) -> Result<f64> {
        entry("Call.fire", || self.inner.fire(&name, &bytes(payload))).map(number)
    }

    /// Makes the call a task.
    #[napi(ts_return_type = "boolean | Pending")]
    pub fn become_task(&self, ttl_ms: f64, bound: bool) -> Result<Told> {
        begin("Call.becomeTask", || Ok(self.inner.become_task(task_terms(ttl_ms, bound)?)))
    }

    /// Asks the task's client for input and waits for it.
    #[napi(ts_return_type = "string | Pending")]
    pub fn ask(&self, requests: Text) -> Result<Told> {
        begin("Call.ask", || Ok(self.inner.ask(bytes(requests))))
    }

    /// The client's connection is lost and the call goes on.
    #[napi]
    pub fn disconnected(&self) -> Result<()> {
        entry("Call.disconnected", || self.inner.disconnected())
    }

    /// The client is gone and the call goes on, within the limits; `false`: there is no room, and it ends.
    #[napi]
    pub fn detach(&self, counted_as: String, calls: u32, time_ms: f64) -> Result<bool> {
        entry("Call.detach", || self.inner.detach(&counted_as, calls, bridge::milliseconds("timeMs", time_ms)?))
    }

    /// The tool returned this result.
    #[napi(ts_return_type = "Ended | Pending")]
    pub fn complete(&self, result: Text) -> Result<Told> {
        begin("Call.complete", || Ok(self.inner.complete(bytes(result))))
    }

    /// The call failed.
    #[napi(ts_return_type = "Ended | Pending")]
    pub fn fail(&self, error: Option<Text>, reason: Option<String>) -> Result<Told> {
        begin("Call.fail", || Ok(self.inner.fail(error.map(bytes), reason.as_deref())))
    }

    /// Somebody cancelled the call.
    #[napi(ts_return_type = "Ended | Pending")]
    pub fn cancel(&self, reason: Option<String>) -> Result<Told> {
        begin("Call.cancel", || Ok(self.inner.cancel(reason.as_deref())))
    }

    /// Waits until the call has ended, whoever ends it.
    #[napi(ts_return_type = "Ended | Pending")]
    pub fn ended(&self) -> Result<Told> {
        begin("Call.ended", || Ok(self.inner.ended()))
    }
}

/// Room for one call that goes on without its request.
#[napi]
pub struct Room {
    inner: bridge::Room,
}

impl Room {
    pub(crate) fn new(inner: bridge::Room) -> Self {
        Self { inner }
    }
}

#[napi]
impl Room {
    /// Gives it back; doing so again changes nothing.
    #[napi]
    pub fn release(&self) -> Result<()> {
        entry("Room.release", || {
            self.inner.release();
            Ok(())
        })
    }
}

/// Checks an event that a tool's author emits.
#[napi]
pub fn check_event(kind: String, payload: Text) -> Result<()> {
    entry("checkEvent", || bridge::check_event(&kind, &bytes(payload)))
}

/// Checks what a tool's author fires.
#[napi]
pub fn check_fire(name: String, payload: Text) -> Result<()> {
    entry("checkFire", || bridge::check_fire(&name, &bytes(payload)))
}

/// A task's terms.
pub(crate) fn task_terms(ttl_ms: f64, bound: bool) -> bridge::Result<TaskTerms> {
    let ttl = bridge::milliseconds("ttlMs", ttl_ms)?;
    Ok(TaskTerms { ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), bound })
}

/// A JSON-RPC request id from its JSON text, whose type counts: a number may be beyond what JavaScript counts exactly.
pub(crate) fn request_id(json: &str) -> bridge::Result<RequestId> {
    RequestId::parse(json.as_bytes()).map_err(|error| bridge::Error::argument("requestId", error))
}
