//! Watched calls.

use std::ffi::c_char;
use std::sync::Mutex;
use std::time::Duration;

use tidings_bridge::{self as bridge, Begin, Call, Ended, Error, ErrorCode, RequestId, TaskTerms};

use crate::answer::tidings_answer;
use crate::entry::{Result, entry, tidings_result};
use crate::handle::Table;
use crate::hub::{HUBS, tidings_hub};
use crate::memory::{self, Out};
use crate::port::{Waiter, tidings_port};
use crate::text::{give, tidings_text};
use crate::texts::{self, tidings_texts};

/// A tool call that asks to be watched: what `tidings_hub_begin_call` is told of it.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_begin {
    _private: [u8; 0],
}

/// A watched call.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_call {
    _private: [u8; 0],
}

/// The raw JSON text of `notificationConfig`, if the request has one.
pub const TIDINGS_BEGIN_CONFIG: i32 = 1;
/// Adds a route type that this server offers: `webhook` …
pub const TIDINGS_BEGIN_ROUTE_TYPE: i32 = 2;
/// Who asks. Has to be set.
pub const TIDINGS_BEGIN_PRINCIPAL: i32 = 3;
/// The MCP session, where there is one.
pub const TIDINGS_BEGIN_SESSION: i32 = 4;
/// The JSON-RPC id of the request, as its JSON text: `7`, or `"7"` with its quotes. Has to be set.
pub const TIDINGS_BEGIN_REQUEST_ID: i32 = 5;
/// The tool's name. Has to be set.
pub const TIDINGS_BEGIN_TOOL: i32 = 6;
/// The W3C trace context that its webhooks carry on.
pub const TIDINGS_BEGIN_TRACEPARENT: i32 = 7;
/// The server's time limit, in milliseconds.
pub const TIDINGS_BEGIN_TIMEOUT_MS: i32 = 8;
/// The program's own name for the connection of the calling session, where one outlives the request: for routes of type
/// `message` and `signal`, see `tidings_hub_outlet`. Text.
pub const TIDINGS_BEGIN_PEER: i32 = 9;
/// Adds a name that routes of type `message` and `callback` may have. Text.
pub const TIDINGS_BEGIN_OPEN: i32 = 10;
/// It is a task from the start, for so many milliseconds after its end. Number.
pub const TIDINGS_BEGIN_TASK_TTL_MS: i32 = 11;
/// Whether only its principal may ask for the task: 1, or 0, as it is if it is not told. Number.
pub const TIDINGS_BEGIN_TASK_BOUND: i32 = 12;

/// The tool returned a result.
pub const TIDINGS_OUTCOME_COMPLETED: i32 = 1;
/// It failed, or the server did.
pub const TIDINGS_OUTCOME_FAILED: i32 = 2;
/// Somebody cancelled it.
pub const TIDINGS_OUTCOME_CANCELLED: i32 = 3;
/// It took longer than it may.
pub const TIDINGS_OUTCOME_TIMEOUT: i32 = 4;

/// How a call ended.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_outcome {
    /// One of `TIDINGS_OUTCOME_…`.
    pub outcome: i32,
    /// Whether it was this very request to end the call that won: 1 or 0.
    pub ours: i32,
    /// Whether the outcome is on disk: 1 or 0.
    pub committed: i32,
}

impl tidings_outcome {
    pub(crate) fn of(ended: &Ended) -> Result<Self> {
        let outcome = match ended.outcome {
            "completed" => TIDINGS_OUTCOME_COMPLETED,
            "failed" => TIDINGS_OUTCOME_FAILED,
            "cancelled" => TIDINGS_OUTCOME_CANCELLED,
            "timeout" => TIDINGS_OUTCOME_TIMEOUT,
            other => return Err(Error::new(ErrorCode::Internal, format!("an outcome without a number: {other}"))),
        };
        Ok(Self { outcome, ours: i32::from(ended.ours), committed: i32::from(ended.committed) })
    }
}

pub(crate) static BEGINS: Table<Mutex<Draft>> = Table::new(10);
pub(crate) static CALLS: Table<Call> = Table::of_process(11);

#[derive(Default)]
pub(crate) struct Draft {
    config: Option<Vec<u8>>,
    route_types: Vec<String>,
    principal: Option<String>,
    session: Option<String>,
    peer: Option<String>,
    open: Vec<String>,
    request_id: Option<RequestId>,
    tool: Option<String>,
    traceparent: Option<String>,
    timeout: Option<Duration>,
    task_ttl_ms: Option<u64>,
    task_bound: bool,
}

impl Draft {
    fn set_text(&mut self, field: i32, value: &[u8]) -> Result<()> {
        if field == TIDINGS_BEGIN_CONFIG {
            self.config = Some(value.to_vec());
            return Ok(());
        }
        let value = memory::utf8("value", value)?.to_owned();
        match field {
            TIDINGS_BEGIN_ROUTE_TYPE => self.route_types.push(value),
            TIDINGS_BEGIN_PRINCIPAL => self.principal = Some(value),
            TIDINGS_BEGIN_SESSION => self.session = Some(value),
            TIDINGS_BEGIN_REQUEST_ID => {
                let id = RequestId::parse(value.as_bytes()).map_err(|fault| Error::argument("value", fault))?;
                self.request_id = Some(id);
            }
            TIDINGS_BEGIN_TOOL => self.tool = Some(value),
            TIDINGS_BEGIN_PEER => self.peer = Some(value),
            TIDINGS_BEGIN_OPEN => self.open.push(value),
            TIDINGS_BEGIN_TRACEPARENT => self.traceparent = Some(value),
            _ => return Err(Error::argument("field", "is none that is a text")),
        }
        Ok(())
    }

    fn set_number(&mut self, field: i32, value: u64) -> Result<()> {
        match field {
            TIDINGS_BEGIN_TIMEOUT_MS => self.timeout = Some(Duration::from_millis(value)),
            TIDINGS_BEGIN_TASK_TTL_MS => self.task_ttl_ms = Some(value),
            TIDINGS_BEGIN_TASK_BOUND => self.task_bound = memory::flag_of("value", value)?,
            _ => return Err(Error::argument("field", "is none that is a number")),
        }
        Ok(())
    }

    fn begin(&self) -> Result<Begin> {
        let needed = |name: &str| Error::argument("begin", format!("{name} has to be set"));
        if self.principal.is_none() {
            return Err(needed("TIDINGS_BEGIN_PRINCIPAL"));
        }
        if self.request_id.is_none() {
            return Err(needed("TIDINGS_BEGIN_REQUEST_ID"));
        }
        if self.tool.is_none() {
            return Err(needed("TIDINGS_BEGIN_TOOL"));
        }
        Ok(self.as_it_is())
    }

    /// With nothing in the place of what was not told: for a config that is judged without a call.
    fn as_it_is(&self) -> Begin {
        Begin {
            config: self.config.clone(),
            route_types: self.route_types.clone(),
            principal: self.principal.clone().unwrap_or_default(),
            session: self.session.clone(),
            peer: self.peer.clone(),
            open: self.open.clone(),
            request_id: self.request_id.clone().unwrap_or_else(|| 0_i64.into()),
            tool: self.tool.clone().unwrap_or_default(),
            timeout: self.timeout,
            task: self.task_ttl_ms.map(|ttl_ms| TaskTerms { ttl_ms, bound: self.task_bound }),
            traceparent: self.traceparent.clone(),
        }
    }
}

/// A call about which nothing is told yet. Free it with `tidings_begin_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_begin_new(begin: *mut *mut tidings_begin) -> tidings_result {
    entry("tidings_begin_new", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("begin", begin) }?;
        out.set(BEGINS.insert(Mutex::default()));
        Ok(())
    })
}

/// Tells something that is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_begin_set_text(
    begin: *const tidings_begin,
    field: i32,
    value: *const c_char,
    value_len: usize,
) -> tidings_result {
    entry("tidings_begin_set_text", || {
        // SAFETY: the header's conventions.
        let value = unsafe { memory::bytes("value", value.cast(), value_len) }?;
        BEGINS.change("begin", begin, |draft| draft.set_text(field, value))
    })
}

/// Tells something that is a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_begin_set_number(
    begin: *const tidings_begin,
    field: i32,
    value: u64,
) -> tidings_result {
    entry("tidings_begin_set_number", || BEGINS.change("begin", begin, |draft| draft.set_number(field, value)))
}

/// Frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_begin_free(begin: *mut tidings_begin) -> tidings_result {
    entry("tidings_begin_free", || BEGINS.free("begin", begin))
}

/// Begins a watched call. With a config that is accepted, the call and the config are on disk when it is done. The answer
/// has a call. `TIDINGS_INVALID_CONFIG`: nothing was begun, and `tidings_last_faults` says why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_begin_call(
    hub: *const tidings_hub,
    begin: *const tidings_begin,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_hub_begin_call", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        let begin = BEGINS.change("begin", begin, |draft| draft.begin())?;
        waiter.begin(HUBS.get("hub", hub)?.begin_call(begin))
    })
}

/// Judges a config as that of a call would be, without a call and without opening the hub: sets the triggers that nothing
/// here fires. Of `begin`, `TIDINGS_BEGIN_CONFIG`, `…_ROUTE_TYPE`, `…_OPEN` and whether there is a `…_PEER` count.
/// `TIDINGS_INVALID_CONFIG`: `tidings_last_faults` says why. Free them with `tidings_texts_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_check_config(
    hub: *const tidings_hub,
    begin: *const tidings_begin,
    ignored: *mut *mut tidings_texts,
) -> tidings_result {
    entry("tidings_hub_check_config", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("ignored", ignored) }?;
        let begin = BEGINS.change("begin", begin, |draft| Ok(draft.as_it_is()))?;
        texts::give(out, HUBS.get("hub", hub)?.check_config(&begin)?);
        Ok(())
    })
}

/// Cancels the call of that id, wherever it runs, if it is `asker`'s. The answer is a number: 1, or 0 where there is no
/// such call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_cancel_call(
    hub: *const tidings_hub,
    id: *const c_char,
    id_len: usize,
    asker: *const c_char,
    asker_len: usize,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_hub_cancel_call", || {
        // SAFETY: the header's conventions.
        let (waiter, id, asker) = unsafe {
            (
                Waiter::new(port, token, answer)?,
                memory::text("id", id, id_len)?,
                memory::text("asker", asker, asker_len)?,
            )
        };
        waiter.begin(HUBS.get("hub", hub)?.cancel_call(id.to_owned(), asker.to_owned()))
    })
}

/// The id of a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_id(call: *const tidings_call, id: *mut *mut tidings_text) -> tidings_result {
    entry("tidings_call_id", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("id", id) }?;
        give(out, CALLS.get("call", call)?.id())
    })
}

/// The params of `notifications/config/acknowledged`, as JSON text: what is to be sent before the tool runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_acknowledgement(
    call: *const tidings_call,
    json: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_call_acknowledgement", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("json", json) }?;
        give(out, CALLS.get("call", call)?.acknowledgement())
    })
}

/// The ids of the routes that were accepted. Free them with `tidings_texts_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_accepted_routes(
    call: *const tidings_call,
    routes: *mut *mut tidings_texts,
) -> tidings_result {
    entry("tidings_call_accepted_routes", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("routes", routes) }?;
        texts::give(out, CALLS.get("call", call)?.accepted_routes());
        Ok(())
    })
}

/// The triggers of the config that nothing here fires. Free them with `tidings_texts_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_ignored_triggers(
    call: *const tidings_call,
    triggers: *mut *mut tidings_texts,
) -> tidings_result {
    entry("tidings_call_ignored_triggers", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("triggers", triggers) }?;
        texts::give(out, CALLS.get("call", call)?.ignored_triggers());
        Ok(())
    })
}

/// Appends an event of the tool, without waiting. Its type has a vendor's prefix, its payload is a JSON object (SEP-2694);
/// `io.tidings.progress` and `io.tidings.log` are for the adapter of an SDK, which records what the client was notified of.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_emit(
    call: *const tidings_call,
    kind: *const c_char,
    kind_len: usize,
    payload: *const u8,
    payload_len: usize,
    seq: *mut u64,
) -> tidings_result {
    entry("tidings_call_emit", || {
        // SAFETY: the header's conventions.
        let (out, kind, payload) = unsafe {
            (
                Out::new("seq", seq)?,
                memory::text("kind", kind, kind_len)?,
                memory::bytes("payload", payload, payload_len)?,
            )
        };
        if !matches!(kind, "io.tidings.progress" | "io.tidings.log") {
            bridge::check_event(kind, payload)?;
        }
        out.set(CALLS.get("call", call)?.emit(kind, payload)?);
        Ok(())
    })
}

/// Fires a vendor's trigger with the JSON text of an object; sets its number among the call's firings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_fire(
    call: *const tidings_call,
    name: *const c_char,
    name_len: usize,
    payload: *const u8,
    payload_len: usize,
    seq: *mut u64,
) -> tidings_result {
    entry("tidings_call_fire", || {
        // SAFETY: the header's conventions.
        let (out, name, payload) = unsafe {
            (
                Out::new("seq", seq)?,
                memory::text("name", name, name_len)?,
                memory::bytes("payload", payload, payload_len)?,
            )
        };
        bridge::check_fire(name, payload)?;
        out.set(CALLS.get("call", call)?.fire(name, payload)?);
        Ok(())
    })
}

/// The client's connection is lost and the call goes on; fires `io.tidings/disconnected` where that was asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_disconnected(call: *const tidings_call) -> tidings_result {
    entry("tidings_call_disconnected", || CALLS.get("call", call)?.disconnected())
}

/// The tool returned this result: JSON text. The answer is the outcome that the call has now: another's, if it was quicker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_complete(
    call: *const tidings_call,
    result: *const u8,
    result_len: usize,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_call_complete", || {
        // SAFETY: the header's conventions.
        let (waiter, result) =
            unsafe { (Waiter::new(port, token, answer)?, memory::bytes("result", result, result_len)?) };
        waiter.begin(CALLS.get("call", call)?.complete(result.to_vec()))
    })
}

/// The call failed: with the JSON text of its JSON-RPC error, or NULL; with a reason, or NULL. The answer is as for
/// `tidings_call_complete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_fail(
    call: *const tidings_call,
    error: *const u8,
    error_len: usize,
    reason: *const c_char,
    reason_len: usize,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_call_fail", || {
        // SAFETY: the header's conventions.
        let (waiter, error, reason) = unsafe {
            (
                Waiter::new(port, token, answer)?,
                memory::bytes("error", error, error_len)?,
                memory::optional_text("reason", reason, reason_len)?,
            )
        };
        let error = (!error.is_empty()).then(|| error.to_vec());
        waiter.begin(CALLS.get("call", call)?.fail(error, reason))
    })
}

/// Somebody cancelled the call, with a reason, or NULL. The answer is as for `tidings_call_complete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_cancel(
    call: *const tidings_call,
    reason: *const c_char,
    reason_len: usize,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_call_cancel", || {
        // SAFETY: the header's conventions.
        let (waiter, reason) =
            unsafe { (Waiter::new(port, token, answer)?, memory::optional_text("reason", reason, reason_len)?) };
        waiter.begin(CALLS.get("call", call)?.cancel(reason))
    })
}

/// Waits until the call has ended, whoever ends it: its tool is to be stopped then. The answer is an outcome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_ended(
    call: *const tidings_call,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_call_ended", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(CALLS.get("call", call)?.ended())
    })
}

/// Frees a call's handle. A call that has not ended when its last handle goes has failed. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_free(call: *mut tidings_call) -> tidings_result {
    entry("tidings_call_free", || CALLS.free("call", call))
}
