//! The library's own log, told to functions of the caller's.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use tidings_bridge::{self as bridge, Error, LogLevel, LogRecord, LogTeller};

use crate::callback::{self, Callback, tidings_drop};
use crate::entry::{entry, entry_anywhere, in_callback, tidings_result};
use crate::handle::Table;
use crate::memory::Out;

/// A function that is told what the library logs, until it is freed.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_logger {
    _private: [u8; 0],
}

/// Something was lost or is broken.
pub const TIDINGS_LOG_ERROR: i32 = 1;
/// Something that the operator should know.
pub const TIDINGS_LOG_WARNING: i32 = 2;

/// Told one line of the library's log. `level` is one of `TIDINGS_LOG_…`; later versions may have more, the greater the less
/// it matters. `target` is the part of the library, with dots, such as `tidings.store_sqlite.writer`; `message` is for people,
/// and holds no payload, secret or address. Both are there during the call only.
#[allow(non_camel_case_types, reason = "C's names")]
pub type tidings_log = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        level: i32,
        target: *const c_char,
        target_len: usize,
        message: *const c_char,
        message_len: usize,
    ),
>;

type Log = unsafe extern "C" fn(*mut c_void, i32, *const c_char, usize, *const c_char, usize);

pub(crate) static LOGGERS: Table<Logger> = Table::new(28);

pub(crate) struct Logger {
    callback: Arc<Callback<Log>>,
    _teller: LogTeller,
}

/// Has `log(user_data, …)` told what the library logs, of every hub of the process: warnings and errors, each at once and in
/// the thread that it happens in, several of them at a time. What the Rust crates log below that, a line or more for each call
/// and each attempt, is not told: `tidings_hub_stats` and `tidings_hub_attempts` have it. What is logged while it runs, in the same
/// thread, is not told. In a
/// forked child it goes on. Several loggers are told everything each. Free it with `tidings_logger_free`; `finalize` may be
/// NULL. `TIDINGS_UNSUPPORTED`: the static library is part of a Rust program that has a `tracing` subscriber.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_logger_new(
    log: tidings_log,
    user_data: *mut c_void,
    finalize: tidings_drop,
    logger: *mut *mut tidings_logger,
) -> tidings_result {
    entry("tidings_logger_new", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("logger", logger) }?;
        let log = log.ok_or_else(|| Error::argument("log", "must not be NULL"))?;
        let callback = Arc::new(Callback::new(log, user_data, finalize));
        let told = Arc::clone(&callback);
        let teller = bridge::tell_log(move |record| tell(&told, record)).inspect_err(|_| callback.give_back())?;
        out.set(LOGGERS.insert(Logger { callback, _teller: teller }));
        Ok(())
    })
}

fn tell(callback: &Callback<Log>, record: &LogRecord) {
    let level = match record.level {
        LogLevel::Error => TIDINGS_LOG_ERROR,
        LogLevel::Warning => TIDINGS_LOG_WARNING,
    };
    let (target, message) = (record.target.as_bytes(), record.message.as_bytes());
    callback.call(|log, data| {
        // SAFETY: the caller's function with the caller's data, which it has not been told is free, and texts of these lengths.
        unsafe {
            log(data, level, target.as_ptr().cast(), target.len(), message.as_ptr().cast(), message.len());
        }
    });
}

/// Frees a logger: nothing more is told to its function. Waits for its calls under way in other threads, so hold no lock that the
/// function takes; then its finalizer is called. It may be called from inside the function itself, and the finalizer then comes
/// after the last call; from inside another callback it is `TIDINGS_IN_CALLBACK`. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_logger_free(logger: *mut tidings_logger) -> tidings_result {
    let is_own = || LOGGERS.get("logger", logger).is_ok_and(|logger| logger.callback.is_inside());
    if callback::is_inside_any() && !logger.is_null() && !is_own() {
        return in_callback("tidings_logger_free");
    }
    entry_anywhere("tidings_logger_free", || {
        let Some(gone) = LOGGERS.remove("logger", logger)? else { return Ok(()) };
        gone.callback.close();
        Ok(())
    })
}
