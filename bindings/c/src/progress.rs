//! What a request in progress may say: progress, and messages of the log.

use std::ffi::c_char;
use std::sync::Mutex;
use std::time::Duration;

use tidings_bridge::{self as bridge, Error, Progress, RequestId};

use crate::entry::{entry, tidings_result};
use crate::handle::Table;
use crate::memory::{self, Out};
use crate::text::{TEXTS, tidings_text};

/// The progress of one request.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_progress {
    _private: [u8; 0],
}

pub(crate) static PROGRESSES: Table<Mutex<Progress>> = Table::new(26);

/// The progress of a request that brought that `progressToken` (JSON text), or none (NULL). Reports that come sooner than
/// `min_interval_ms` after one another are not sent. Free it with `tidings_progress_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_progress_new(
    token: *const c_char,
    token_len: usize,
    min_interval_ms: u64,
    progress: *mut *mut tidings_progress,
) -> tidings_result {
    entry("tidings_progress_new", || {
        // SAFETY: the header's conventions.
        let (out, token) =
            unsafe { (Out::new("progress", progress)?, memory::optional_text("token", token, token_len)?) };
        let parse = |json: &str| RequestId::parse(json.as_bytes()).map_err(|fault| Error::argument("token", fault));
        let token = token.map(parse).transpose()?;
        out.set(PROGRESSES.insert(Mutex::new(Progress::new(token, Duration::from_millis(min_interval_ms)))));
        Ok(())
    })
}

/// The params of `notifications/progress` (JSON text), or why there are none: sets one of `*params` and `*why` and the other
/// to NULL. `why` is a name such as `no_token`, `not_increasing`, `too_soon`, `ended`. `total` is NAN where it is not known,
/// `message` may be NULL, `now_ms` is any clock's that does not go back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_progress_report(
    progress: *const tidings_progress,
    value: f64,
    total: f64,
    message: *const c_char,
    message_len: usize,
    now_ms: u64,
    params: *mut *mut tidings_text,
    why: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_progress_report", || {
        // SAFETY: the header's conventions.
        let (params, why, message) = unsafe {
            (
                Out::new("params", params)?,
                Out::new("why", why)?,
                memory::optional_text("message", message, message_len)?,
            )
        };
        let (total, now) = ((!total.is_nan()).then_some(total), Duration::from_millis(now_ms));
        let reported =
            PROGRESSES.change("progress", progress, |progress| Ok(progress.report(value, total, message, now)))?;
        let nothing = std::ptr::null_mut();
        let (json, reason) = match reported {
            Ok(json) => (TEXTS.insert(json.into()), nothing),
            Err(reason) => (nothing, TEXTS.insert(reason.to_owned().into())),
        };
        params.set(json);
        why.set(reason);
        Ok(())
    })
}

/// The request has its answer: nothing more is reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_progress_end(progress: *const tidings_progress) -> tidings_result {
    entry("tidings_progress_end", || {
        PROGRESSES.change("progress", progress, |progress| {
            progress.end();
            Ok(())
        })
    })
}

/// Frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_progress_free(progress: *mut tidings_progress) -> tidings_result {
    entry("tidings_progress_free", || PROGRESSES.free("progress", progress))
}

/// Whether a message of that level is sent (`debug` … `emergency`): sets 1 or 0. `asked` is the level that the client asked
/// for, NULL if it asked for none; `per_request` is 1 where MCP has it in each request (2026-07-28), 0 where a session has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_log_passes(
    per_request: i32,
    asked: *const c_char,
    asked_len: usize,
    level: *const c_char,
    level_len: usize,
    passes: *mut i32,
) -> tidings_result {
    entry("tidings_log_passes", || {
        // SAFETY: the header's conventions.
        let (out, asked, level) = unsafe {
            (
                Out::new("passes", passes)?,
                memory::optional_text("asked", asked, asked_len)?,
                memory::text("level", level, level_len)?,
            )
        };
        out.set(i32::from(bridge::log_passes(memory::flag("per_request", per_request)?, asked, level)?));
        Ok(())
    })
}
