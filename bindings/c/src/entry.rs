//! How every export runs: guarded against panics, with a result code, and with the error kept for the caller's thread.

use std::cell::RefCell;

use tidings_bridge::{self as bridge, Error, ErrorCode};

use crate::callback;
use crate::memory::Out;
use crate::text::{TEXTS, tidings_text};

pub(crate) type Result<T> = bridge::Result<T>;

/// What a call came to: `TIDINGS_OK`, or why it failed.
#[allow(non_camel_case_types, reason = "C's names")]
pub type tidings_result = i32;

/// It was done.
pub const TIDINGS_OK: i32 = 0;
/// An argument breaks a rule; the message names both.
pub const TIDINGS_INVALID_ARGUMENT: i32 = 1;
/// A notificationConfig breaks rules; `tidings_last_faults` has them.
pub const TIDINGS_INVALID_CONFIG: i32 = 2;
/// A cursor is of no stream that is here, or no cursor.
pub const TIDINGS_UNKNOWN_CURSOR: i32 = 3;
/// A place lies beyond the newest event.
pub const TIDINGS_AHEAD: i32 = 4;
/// The stream or the hub is closed.
pub const TIDINGS_CLOSED: i32 = 5;
/// Another writer has claimed the stream.
pub const TIDINGS_FENCED: i32 = 6;
/// The call has ended.
pub const TIDINGS_ENDED: i32 = 7;
/// Too much waits for the store. The same call may succeed later.
pub const TIDINGS_CONGESTED: i32 = 8;
/// A payload is over its limit.
pub const TIDINGS_TOO_LARGE: i32 = 9;
/// The store cannot be used now. The same call may succeed later.
pub const TIDINGS_UNAVAILABLE: i32 = 10;
/// Not on this machine, or not with this store.
pub const TIDINGS_UNSUPPORTED: i32 = 11;
/// The object belongs to the process that was forked.
pub const TIDINGS_FORKED: i32 = 12;
/// It took too long. The same call may succeed later.
pub const TIDINGS_TIMEOUT: i32 = 13;
/// A defect of Tidings. Please report it.
pub const TIDINGS_INTERNAL: i32 = 14;
/// A webhook is not to be trusted; the message says why, by a stable name and a colon first.
pub const TIDINGS_UNVERIFIED: i32 = 1000;
/// This thread is inside of a callback, or its finalizer, which must not call that function. Nothing was done.
pub const TIDINGS_IN_CALLBACK: i32 = 1001;

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { message: String::new(), faults: None }) };
    #[cfg(feature = "testing")]
    static PANIC: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

struct Last {
    message: String,
    faults: Option<String>,
}

/// Runs the body of an export that may not be called from inside a callback.
pub(crate) fn entry(name: &'static str, body: impl FnOnce() -> Result<()>) -> tidings_result {
    if callback::is_inside_any() {
        return in_callback(name);
    }
    entry_anywhere(name, || {
        callback::let_go();
        body()
    })
}

/// A callback is called under locks: what it calls might wait for them.
pub(crate) fn in_callback(name: &str) -> tidings_result {
    remember(format!("{name}: must not be called from inside a callback or its finalizer"), None);
    TIDINGS_IN_CALLBACK
}

/// Runs the body of an export.
pub(crate) fn entry_anywhere(name: &'static str, body: impl FnOnce() -> Result<()>) -> tidings_result {
    // A library for C has its own copy of the Rust runtime: nobody else's panics pass here.
    #[cfg(not(test))]
    bridge::install_panic_hook();
    let guarded = bridge::guard(name, || {
        #[cfg(feature = "testing")]
        forced_panic();
        body()
    });
    match guarded {
        Ok(()) => TIDINGS_OK,
        Err(error) => failed(&error),
    }
}

/// Keeps an error for the thread that asks for it.
fn failed(error: &Error) -> tidings_result {
    let code = number(error.code());
    remember(error.to_string(), error.faults().map(|faults| faults.data_json.clone()));
    code
}

/// A result that is none of the core's.
pub(crate) fn unverified(message: String) -> tidings_result {
    remember(message, None);
    TIDINGS_UNVERIFIED
}

fn remember(message: String, faults: Option<String>) {
    // At the end of a thread there may be nothing left to keep it in.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Last { message, faults });
}

fn number(code: ErrorCode) -> i32 {
    let row = bridge::error_table().find(|row| row.code == code);
    row.and_then(|row| i32::try_from(row.number).ok()).unwrap_or(TIDINGS_INTERNAL)
}

#[cfg(feature = "testing")]
#[allow(clippy::panic, reason = "what the test asks for")]
fn forced_panic() {
    if PANIC.replace(false) {
        panic!("forced by a test");
    }
}

/// Makes the next call in this thread panic inside.
#[cfg(feature = "testing")]
#[unsafe(no_mangle)]
pub extern "C" fn tidings_testing_panic() {
    PANIC.set(true);
}

/// The message of the call that failed last in this thread, for people: it names the field and the rule, and holds no
/// payload, secret or address. Empty if none has failed. Free it with `tidings_text_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_last_error(message: *mut *mut tidings_text) -> tidings_result {
    entry_anywhere("tidings_last_error", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("message", message) }?;
        out.set(TEXTS.insert(LAST.with_borrow(|last| last.message.clone()).into()));
        Ok(())
    })
}

/// The broken rules of the notificationConfig that was refused last in this thread, as the `data` of the JSON-RPC error
/// (-32602): JSON text. Sets NULL if the last failure was another. Free it with `tidings_text_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_last_faults(faults: *mut *mut tidings_text) -> tidings_result {
    entry_anywhere("tidings_last_faults", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("faults", faults) }?;
        let json = LAST.with_borrow(|last| last.faults.clone());
        out.set(json.map_or(std::ptr::null_mut(), |json| TEXTS.insert(json.into())));
        Ok(())
    })
}

/// The name of a result, the same in every language: `"ok"`, `"invalid_argument"` …; sets `"?"` for a number that is none.
/// The text is never freed and ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_result_name(
    result: tidings_result,
    name: *mut *const std::ffi::c_char,
) -> tidings_result {
    entry_anywhere("tidings_result_name", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("name", name) }?;
        out.set(name_of(result).as_ptr());
        Ok(())
    })
}

/// Whether the same call may succeed later: sets 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_result_retryable(result: tidings_result, retryable: *mut i32) -> tidings_result {
    entry_anywhere("tidings_result_retryable", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("retryable", retryable) }?;
        let row = bridge::error_table().find(|row| i64::from(row.number) == i64::from(result));
        out.set(i32::from(row.is_some_and(|row| row.retryable)));
        Ok(())
    })
}

fn name_of(result: tidings_result) -> &'static std::ffi::CStr {
    match result {
        TIDINGS_OK => c"ok",
        TIDINGS_INVALID_ARGUMENT => c"invalid_argument",
        TIDINGS_INVALID_CONFIG => c"invalid_config",
        TIDINGS_UNKNOWN_CURSOR => c"unknown_cursor",
        TIDINGS_AHEAD => c"ahead",
        TIDINGS_CLOSED => c"closed",
        TIDINGS_FENCED => c"fenced",
        TIDINGS_ENDED => c"ended",
        TIDINGS_CONGESTED => c"congested",
        TIDINGS_TOO_LARGE => c"too_large",
        TIDINGS_UNAVAILABLE => c"unavailable",
        TIDINGS_UNSUPPORTED => c"unsupported",
        TIDINGS_FORKED => c"forked",
        TIDINGS_TIMEOUT => c"timeout",
        TIDINGS_INTERNAL => c"internal",
        TIDINGS_UNVERIFIED => c"unverified",
        TIDINGS_IN_CALLBACK => c"in_callback",
        _ => c"?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_one_table() {
        for row in bridge::error_table() {
            let number = i32::try_from(row.number).unwrap();
            assert_eq!(name_of(number).to_str().unwrap(), row.name);
        }
        let past = i32::try_from(bridge::error_table().count()).unwrap() + 1;
        assert_eq!(name_of(past), c"?", "the table has grown: this file needs the new row");
        assert_eq!(name_of(-1), c"?");
    }
}
