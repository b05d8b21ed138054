//! Calls that can be asked for by their id (SEP-2663), and calls whose client has gone.

use std::ffi::c_char;
use std::time::Duration;

use tidings_bridge::{Task, TaskTerms};

use crate::answer::tidings_answer;
use crate::call::{CALLS, tidings_call};
use crate::entry::{entry, tidings_result};
use crate::handle::Table;
use crate::hub::{HUBS, tidings_hub};
use crate::memory::{self, Out, tidings_bytes, write_sized};
use crate::port::{Waiter, tidings_port};

/// A task as it was when it was asked for.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_task {
    _private: [u8; 0],
}

/// What there is to know of a task. What it points to stays where it is until the task is freed; texts are UTF-8.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_task_facts {
    /// `working`, `input_required`, `completed`, `failed` or `cancelled`.
    pub status: tidings_bytes,
    /// SEP-2663's `DetailedTask` as JSON text.
    pub json: tidings_bytes,
    /// The scope of the stream of its events, for `tasks/stream`: see `tidings_hub_stream`.
    pub scope: tidings_bytes,
    /// The stream's name there.
    pub name: tidings_bytes,
}

pub(crate) static TASKS: Table<Task> = Table::new(24);

/// The task of that id, if it is one that `asker`, a principal, may ask for; sets NULL if there is none. Blocks for a read.
/// Free it with `tidings_task_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_task(
    hub: *const tidings_hub,
    id: *const c_char,
    id_len: usize,
    asker: *const c_char,
    asker_len: usize,
    task: *mut *mut tidings_task,
) -> tidings_result {
    entry("tidings_hub_task", || {
        // SAFETY: the header's conventions.
        let (out, id, asker) = unsafe {
            (Out::new("task", task)?, memory::text("id", id, id_len)?, memory::text("asker", asker, asker_len)?)
        };
        let found = HUBS.get("hub", hub)?.task(id, asker)?;
        out.set(found.map_or(std::ptr::null_mut(), |task| TASKS.insert(task)));
        Ok(())
    })
}

/// What there is to know of a task. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_task_get(
    task: *const tidings_task,
    facts: *mut tidings_task_facts,
    size: usize,
) -> tidings_result {
    entry("tidings_task_get", || {
        let found = TASKS.get("task", task)?;
        let text = |text: &str| tidings_bytes::of(text.as_bytes());
        let value = tidings_task_facts {
            status: text(found.status),
            json: text(&found.json),
            scope: text(&found.scope),
            name: text(&found.name),
        };
        // SAFETY: the header's conventions.
        unsafe { write_sized("facts", facts, size, value) }
    })
}

/// Frees a task's handle; the task goes on. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_task_free(task: *mut tidings_task) -> tidings_result {
    entry("tidings_task_free", || TASKS.free("task", task))
}

/// Cancels the task of that id, unless it has ended. The answer is a number: 1; or 0 where there is none that `asker` may
/// ask for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_cancel_task(
    hub: *const tidings_hub,
    id: *const c_char,
    id_len: usize,
    asker: *const c_char,
    asker_len: usize,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_hub_cancel_task", || {
        // SAFETY: the header's conventions.
        let (waiter, id, asker) = unsafe {
            (
                Waiter::new(port, token, answer)?,
                memory::text("id", id, id_len)?,
                memory::text("asker", asker, asker_len)?,
            )
        };
        waiter.begin(HUBS.get("hub", hub)?.cancel_task(id.to_owned(), asker.to_owned()))
    })
}

/// Gives a running task its client's answers (`tasks/update`): the JSON text of an object. The answer is a number: 1; or 0
/// where there is no task that `asker` may ask for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_answer_task(
    hub: *const tidings_hub,
    id: *const c_char,
    id_len: usize,
    asker: *const c_char,
    asker_len: usize,
    responses: *const u8,
    responses_len: usize,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_hub_answer_task", || {
        // SAFETY: the header's conventions.
        let (waiter, id, asker, responses) = unsafe {
            (
                Waiter::new(port, token, answer)?,
                memory::text("id", id, id_len)?,
                memory::text("asker", asker, asker_len)?,
                memory::bytes("responses", responses, responses_len)?,
            )
        };
        waiter.begin(HUBS.get("hub", hub)?.answer_task(id.to_owned(), asker.to_owned(), responses.to_vec()))
    })
}

/// Makes a call a task, for `ttl_ms` after its end. `bound`: 1, only its principal may ask for it; 0, whoever has its id. The
/// answer is a number: 1; or 0: the call had ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_become_task(
    call: *const tidings_call,
    ttl_ms: u64,
    bound: i32,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_call_become_task", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        let terms = TaskTerms { ttl_ms, bound: memory::flag("bound", bound)? };
        waiter.begin(CALLS.get("call", call)?.become_task(terms))
    })
}

/// Asks the client of a task for input, the JSON text of an object by names, and waits for all of it
/// (`tidings_hub_answer_task`, in any process). The answer is a text: the JSON text of the responses by the same names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_ask(
    call: *const tidings_call,
    requests: *const u8,
    requests_len: usize,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_call_ask", || {
        // SAFETY: the header's conventions.
        let (waiter, requests) =
            unsafe { (Waiter::new(port, token, answer)?, memory::bytes("requests", requests, requests_len)?) };
        waiter.begin(CALLS.get("call", call)?.ask(requests.to_vec()))
    })
}

/// The client is gone and the call goes on, for `time_ms` at most, if no more than `calls` of those that are counted as
/// `counted_as` (a principal, or what stands in for one) go on like that: sets 1; or 0: there is no room, and the call is to
/// be cancelled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_call_detach(
    call: *const tidings_call,
    counted_as: *const c_char,
    counted_as_len: usize,
    calls: u32,
    time_ms: u64,
    goes_on: *mut i32,
) -> tidings_result {
    entry("tidings_call_detach", || {
        // SAFETY: the header's conventions.
        let (out, counted_as) =
            unsafe { (Out::new("goes_on", goes_on)?, memory::text("counted_as", counted_as, counted_as_len)?) };
        let goes_on = CALLS.get("call", call)?.detach(counted_as, calls, Duration::from_millis(time_ms))?;
        out.set(i32::from(goes_on));
        Ok(())
    })
}
