//! The hub and its options.

use std::ffi::c_char;
use std::sync::Mutex;
use std::time::Duration;

use tidings_bridge::{self as bridge, Error, Hub, Keep, Settings};

use crate::answer::tidings_answer;
use crate::entry::{Result, entry, tidings_result};
use crate::handle::Table;
use crate::memory::{self, Out};
use crate::port::{Waiter, tidings_port};
use crate::stream::{STREAMS, TAILS, WRITERS, durability, tidings_stream, tidings_tail, tidings_writer};

/// Options of a hub. What is not set is as the library has it by default.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_options {
    _private: [u8; 0],
}

/// The entry point; one store. Cheap to make: it opens when it is first used.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_hub {
    _private: [u8; 0],
}

/// Adds a block of addresses (CIDR) that webhooks may go to although they are not public. Text.
pub const TIDINGS_OPTION_ALLOW_NETWORK: i32 = 1;
/// Adds a host name that the operator vouches for. Text.
pub const TIDINGS_OPTION_ALLOW_HOST: i32 = 2;
/// Adds a port that webhooks may go to besides 443. Number.
pub const TIDINGS_OPTION_ALLOW_PORT: i32 = 3;
/// Accepts `http` endpoints too: 1 or 0. Number.
pub const TIDINGS_OPTION_ALLOW_HTTP: i32 = 4;
/// `whsec_…`: signs webhooks of routes that bring no secret. Text.
pub const TIDINGS_OPTION_DEFAULT_SECRET: i32 = 5;
/// The default secret before it, during rotation. Text.
pub const TIDINGS_OPTION_PREVIOUS_SECRET: i32 = 6;
/// Refuses routes that would go unsigned: 1 or 0. Number.
pub const TIDINGS_OPTION_REQUIRE_SECRET: i32 = 7;
/// What an endpoint has to show before its first delivery: `challenge`, `always` or `address`. Text.
pub const TIDINGS_OPTION_VERIFY: i32 = 8;
/// What becomes of a firing that no route can deliver: `drop` or `annotate`. Text.
pub const TIDINGS_OPTION_UNDELIVERABLE: i32 = 9;
/// 32 bytes that seal secrets at rest. Text, but any bytes.
pub const TIDINGS_OPTION_SECRET_KEY: i32 = 10;
/// Adds the name of a header that routes may set. Text.
pub const TIDINGS_OPTION_HEADER_NAME: i32 = 11;
/// Adds a JSON Pointer or the name of a member that is taken out of every event and outcome. Text.
pub const TIDINGS_OPTION_REDACT: i32 = 12;
/// Attempts in flight at a time. One that takes longer than half a second counts no more where it would keep others waiting; of
/// those there are at most as many again. Number.
pub const TIDINGS_OPTION_CONCURRENCY: i32 = 13;
/// Attempts in flight at one endpoint. Number.
pub const TIDINGS_OPTION_ENDPOINT_CONCURRENCY: i32 = 14;
/// Attempts a second at one endpoint; 0 sets no limit. Number.
pub const TIDINGS_OPTION_ENDPOINT_RATE: i32 = 15;
/// Attempts a second at one host; 0 sets no limit. Number.
pub const TIDINGS_OPTION_HOST_RATE: i32 = 16;
/// Unfinished deliveries of one principal. Number.
pub const TIDINGS_OPTION_MAX_PENDING: i32 = 17;
/// How long one attempt may take, in milliseconds. Number.
pub const TIDINGS_OPTION_ATTEMPT_TIMEOUT_MS: i32 = 18;
/// After how long a silent process counts as gone, in milliseconds. Number.
pub const TIDINGS_OPTION_WORKER_LEASE_MS: i32 = 19;
/// The largest webhook body that carries the whole outcome, in bytes. Number.
pub const TIDINGS_OPTION_MAX_BODY_BYTES: i32 = 20;
/// Bytes of events that may wait for the store. Number.
pub const TIDINGS_OPTION_BUFFER_BYTES: i32 = 21;
/// Events kept of each stream. Number; as for those below, `UINT64_MAX` sets no limit.
pub const TIDINGS_OPTION_KEEP_EVENTS: i32 = 22;
/// Bytes kept of each stream. Number.
pub const TIDINGS_OPTION_KEEP_BYTES: i32 = 23;
/// How long an event is kept, in milliseconds. Number.
pub const TIDINGS_OPTION_KEEP_AGE_MS: i32 = 24;
/// How long a stream stays after its close, in milliseconds. Number.
pub const TIDINGS_OPTION_KEEP_AFTER_CLOSE_MS: i32 = 25;
/// Events kept of all streams. Number.
pub const TIDINGS_OPTION_KEEP_TOTAL_EVENTS: i32 = 26;
/// Bytes kept of all streams. Number.
pub const TIDINGS_OPTION_KEEP_TOTAL_BYTES: i32 = 27;
/// `http://[user:password@]host:port`: the HTTP proxy through which webhooks leave. Text.
pub const TIDINGS_OPTION_PROXY: i32 = 28;

pub(crate) static OPTIONS: Table<Mutex<Settings>> = Table::new(8);
pub(crate) static HUBS: Table<Hub> = Table::new(9);

/// Options, none of them set. Free them with `tidings_options_free`; a hub that was made with them keeps a copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_options_new(options: *mut *mut tidings_options) -> tidings_result {
    entry("tidings_options_new", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("options", options) }?;
        out.set(OPTIONS.insert(Mutex::default()));
        Ok(())
    })
}

/// Sets an option that is a text, or adds one to a list of them. Its rules are checked when a hub is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_options_set_text(
    options: *const tidings_options,
    option: i32,
    value: *const c_char,
    value_len: usize,
) -> tidings_result {
    entry("tidings_options_set_text", || {
        // SAFETY: the header's conventions.
        let value = unsafe { memory::bytes("value", value.cast(), value_len) }?;
        OPTIONS.change("options", options, |settings| set_text(settings, option, value))
    })
}

fn set_text(settings: &mut Settings, option: i32, value: &[u8]) -> Result<()> {
    if option == TIDINGS_OPTION_SECRET_KEY {
        settings.secret_key = Some(value.to_vec());
        return Ok(());
    }
    let value = memory::utf8("value", value)?.to_owned();
    match option {
        TIDINGS_OPTION_ALLOW_NETWORK => settings.allow_networks.push(value),
        TIDINGS_OPTION_ALLOW_HOST => settings.allow_hosts.push(value),
        TIDINGS_OPTION_HEADER_NAME => settings.header_names.push(value),
        TIDINGS_OPTION_REDACT => settings.redact.push(value),
        TIDINGS_OPTION_DEFAULT_SECRET => settings.default_secret = Some(value),
        TIDINGS_OPTION_PREVIOUS_SECRET => settings.previous_secret = Some(value),
        TIDINGS_OPTION_PROXY => settings.proxy = Some(value),
        TIDINGS_OPTION_VERIFY => settings.verify = Some(value),
        TIDINGS_OPTION_UNDELIVERABLE => settings.undeliverable = Some(value),
        _ => return Err(Error::argument("option", "is none that is a text")),
    }
    Ok(())
}

/// Sets an option that is a number, or adds one to a list of them. Its rules are checked when a hub is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_options_set_number(
    options: *const tidings_options,
    option: i32,
    value: u64,
) -> tidings_result {
    entry("tidings_options_set_number", || {
        OPTIONS.change("options", options, |settings| set_number(settings, option, value))
    })
}

fn set_number(settings: &mut Settings, option: i32, value: u64) -> Result<()> {
    let small = || u32::try_from(value).map_err(|_| Error::argument("value", "must be less than 2^32"));
    let time = || Some(Duration::from_millis(value));
    if let TIDINGS_OPTION_KEEP_EVENTS..=TIDINGS_OPTION_KEEP_TOTAL_BYTES = option {
        set_keep(settings.retention.get_or_insert_with(|| bridge::Retention::default().into()), option, value);
        return Ok(());
    }
    match option {
        TIDINGS_OPTION_ALLOW_PORT => {
            let port = u16::try_from(value).map_err(|_| Error::argument("value", "must be a port"))?;
            settings.allow_ports.push(port);
        }
        TIDINGS_OPTION_ALLOW_HTTP => settings.allow_http = memory::flag_of("value", value)?,
        TIDINGS_OPTION_REQUIRE_SECRET => settings.require_secret = memory::flag_of("value", value)?,
        TIDINGS_OPTION_CONCURRENCY => settings.concurrency = Some(small()?),
        TIDINGS_OPTION_ENDPOINT_CONCURRENCY => settings.endpoint_concurrency = Some(small()?),
        TIDINGS_OPTION_ENDPOINT_RATE => settings.endpoint_rate = Some(small()?),
        TIDINGS_OPTION_HOST_RATE => settings.host_rate = Some(small()?),
        TIDINGS_OPTION_MAX_PENDING => settings.max_pending = Some(small()?),
        TIDINGS_OPTION_ATTEMPT_TIMEOUT_MS => settings.attempt_timeout = time(),
        TIDINGS_OPTION_WORKER_LEASE_MS => settings.worker_lease = time(),
        TIDINGS_OPTION_MAX_BODY_BYTES => settings.max_body_bytes = Some(value),
        TIDINGS_OPTION_BUFFER_BYTES => settings.buffer_bytes = Some(value),
        _ => return Err(Error::argument("option", "is none that is a number")),
    }
    Ok(())
}

fn set_keep(keep: &mut Keep, option: i32, value: u64) {
    let limit = (value != u64::MAX).then_some(value);
    let time = limit.map(Duration::from_millis);
    match option {
        TIDINGS_OPTION_KEEP_EVENTS => keep.max_events = limit,
        TIDINGS_OPTION_KEEP_BYTES => keep.max_bytes = limit,
        TIDINGS_OPTION_KEEP_AGE_MS => keep.max_age = time,
        TIDINGS_OPTION_KEEP_AFTER_CLOSE_MS => keep.after_close = time,
        TIDINGS_OPTION_KEEP_TOTAL_EVENTS => keep.max_total_events = limit,
        _ => keep.max_total_bytes = limit,
    }
}

/// Frees options. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_options_free(options: *mut tidings_options) -> tidings_result {
    entry("tidings_options_free", || OPTIONS.free("options", options))
}

/// A hub at `url`: `memory:`, `sqlite:PATH` or `sqlite:///PATH`. `options` may be NULL. Opens nothing yet. Free it with
/// `tidings_hub_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_new(
    url: *const c_char,
    url_len: usize,
    options: *const tidings_options,
    hub: *mut *mut tidings_hub,
) -> tidings_result {
    entry("tidings_hub_new", || {
        // SAFETY: the header's conventions.
        let (out, url) = unsafe { (Out::new("hub", hub)?, memory::text("url", url, url_len)?) };
        let settings = if options.is_null() {
            Settings::default()
        } else {
            OPTIONS.change("options", options, |settings| Ok(settings.clone()))?
        };
        out.set(HUBS.insert(Hub::new(url, settings)?));
        Ok(())
    })
}

/// Opens the store now, instead of at the first use. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_open(hub: *const tidings_hub) -> tidings_result {
    entry("tidings_hub_open", || HUBS.get("hub", hub)?.open())
}

/// The stream (scope, name). Nothing is made before the first append. Free it with `tidings_stream_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_stream(
    hub: *const tidings_hub,
    scope: *const c_char,
    scope_len: usize,
    name: *const c_char,
    name_len: usize,
    stream: *mut *mut tidings_stream,
) -> tidings_result {
    entry("tidings_hub_stream", || {
        // SAFETY: the header's conventions.
        let (out, scope, name) = unsafe {
            (
                Out::new("stream", stream)?,
                memory::text("scope", scope, scope_len)?,
                memory::text("name", name, name_len)?,
            )
        };
        out.set(STREAMS.insert(HUBS.get("hub", hub)?.stream(scope, name)?));
        Ok(())
    })
}

/// A writer of a new stream (scope, name), at once. Free it with `tidings_writer_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_new_writer(
    hub: *const tidings_hub,
    scope: *const c_char,
    scope_len: usize,
    name: *const c_char,
    name_len: usize,
    writer: *mut *mut tidings_writer,
) -> tidings_result {
    entry("tidings_hub_new_writer", || {
        // SAFETY: the header's conventions.
        let (out, scope, name) = unsafe {
            (
                Out::new("writer", writer)?,
                memory::text("scope", scope, scope_len)?,
                memory::text("name", name, name_len)?,
            )
        };
        out.set(WRITERS.insert(HUBS.get("hub", hub)?.new_writer(scope, name)?));
        Ok(())
    })
}

/// A tail after a cursor, of whichever stream of that scope it is. Blocks for a read. Free it with `tidings_tail_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_resume(
    hub: *const tidings_hub,
    scope: *const c_char,
    scope_len: usize,
    cursor: *const c_char,
    cursor_len: usize,
    tail: *mut *mut tidings_tail,
) -> tidings_result {
    entry("tidings_hub_resume", || {
        // SAFETY: the header's conventions.
        let (out, scope, cursor) = unsafe {
            (
                Out::new("tail", tail)?,
                memory::text("scope", scope, scope_len)?,
                memory::text("cursor", cursor, cursor_len)?,
            )
        };
        out.set(TAILS.insert(HUBS.get("hub", hub)?.resume(scope, cursor)?));
        Ok(())
    })
}

/// Waits until everything that was appended before is committed, and as durable as that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_flush(
    hub: *const tidings_hub,
    durability: i32,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_hub_flush", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(HUBS.get("hub", hub)?.flush(self::durability(durability)?))
    })
}

/// Ends the calls of a hub, commits what waits and closes the store. The answer is a number: 1 if all of it was done in
/// time. What was made of the hub is closed with it; every handle still has to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_close(
    hub: *const tidings_hub,
    deadline_ms: u64,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_hub_close", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(HUBS.get("hub", hub)?.close(Duration::from_millis(deadline_ms)))
    })
}

/// Frees a hub's handle. The hub stays open as long as something that was made of it has a handle; close it before, where
/// all that was appended is to be kept. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_free(hub: *mut tidings_hub) -> tidings_result {
    entry("tidings_hub_free", || HUBS.free("hub", hub))
}
