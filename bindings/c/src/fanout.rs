//! Fan-out: what has changed, and what is to be written about it.

use std::ffi::c_char;

use tidings_bridge::{Error, Outbox, OutboxTask, Profile};

use crate::answer::tidings_answer;
use crate::entry::{entry, tidings_result};
use crate::handle::Table;
use crate::hub::{HUBS, tidings_hub};
use crate::memory::{self, Out, tidings_bytes, write_sized};
use crate::port::{Waiter, tidings_port};
use crate::text::{give, tidings_text};

/// What a peer and its server negotiated.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_profile {
    _private: [u8; 0],
}

/// Where the program of one event loop, or of one thread, takes notifications for its connections.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_outbox {
    _private: [u8; 0],
}

/// Notifications to write, in order.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_notices {
    _private: [u8; 0],
}

/// Connections that have failed.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_failed_peers {
    _private: [u8; 0],
}

/// What a publish came to, in this process, in listeners.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_fanout {
    /// It is queued for them, or coalesced with what was.
    pub told: u64,
    /// They did not ask for it, or may not hear of it, or cannot be reached.
    pub skipped: u64,
    /// They asked for it, and their connections were found not to have taken a notification in time.
    pub failed: u64,
}

/// Something to do about one connection. What it points to stays where it is until its list is freed.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_notice {
    /// The connection's number, as of `tidings_peer_number`.
    pub peer: u64,
    /// The listener's number, as of `tidings_listener_number`.
    pub listener: u64,
    /// The notification's method: UTF-8 text. `data` is NULL: the listener has ended and everything before was written, so
    /// that the request which opened it may have its result.
    pub method: tidings_bytes,
    /// Its parameters: JSON text; `data` is NULL if it has none.
    pub params: tidings_bytes,
}

/// A connection, as numbers that are never used again in this process.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_failed_peer {
    /// Its number at its outbox, as of `tidings_peer_number`.
    pub peer: u64,
    /// The outbox's number, as of `tidings_outbox_number`.
    pub outbox: u32,
}

pub(crate) static PROFILES: Table<Profile> = Table::new(14);
pub(crate) static OUTBOXES: Table<Outbox> = Table::of_process(15);
pub(crate) static NOTICES: Table<Vec<OutboxTask>> = Table::new(16);
pub(crate) static FAILED: Table<Vec<(u32, u64)>> = Table::new(17);

/// The profile of an MCP peer: its protocol version, such as `2025-11-25`, and the capabilities of the server and of the
/// client as JSON text. Free it with `tidings_profile_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_profile_new(
    version: *const c_char,
    version_len: usize,
    server: *const c_char,
    server_len: usize,
    client: *const c_char,
    client_len: usize,
    profile: *mut *mut tidings_profile,
) -> tidings_result {
    entry("tidings_profile_new", || {
        // SAFETY: the header's conventions.
        let (out, version, server, client) = unsafe {
            (
                Out::new("profile", profile)?,
                memory::text("version", version, version_len)?,
                memory::text("server", server, server_len)?,
                memory::text("client", client, client_len)?,
            )
        };
        out.set(PROFILES.insert(Profile::new(version, server, client)?));
        Ok(())
    })
}

/// Whether peers of this version are told within acknowledged filters only (`tidings_peer_listen`, not
/// `tidings_peer_attend`): sets 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_profile_listens(profile: *const tidings_profile, listens: *mut i32) -> tidings_result {
    entry("tidings_profile_listens", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("listens", listens) }?;
        out.set(i32::from(PROFILES.get("profile", profile)?.listens()));
        Ok(())
    })
}

/// The part of a listener's filter that is honoured: both are JSON text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_profile_honoured(
    profile: *const tidings_profile,
    filter: *const c_char,
    filter_len: usize,
    honoured: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_profile_honoured", || {
        // SAFETY: the header's conventions.
        let (out, filter) = unsafe { (Out::new("honoured", honoured)?, memory::text("filter", filter, filter_len)?) };
        give(out, PROFILES.get("profile", profile)?.honoured(filter)?)
    })
}

/// Frees a profile. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_profile_free(profile: *mut tidings_profile) -> tidings_result {
    entry("tidings_profile_free", || PROFILES.free("profile", profile))
}

/// Tells everybody who asked for it that something has changed, each once; never waits. `kinds`: `tools`, `prompts`,
/// `resources`, `resource_templates`, `events`; and `resource`, which needs a `name`: the resource's URI. `audience`,
/// unless it is NULL: only connections of that principal. Those of other processes on the same store are told too, and
/// are not counted. `size` is the `sizeof` of the structure. The first use of the hub opens it, which blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_notify(
    hub: *const tidings_hub,
    kinds: *const tidings_bytes,
    kinds_count: usize,
    name: *const c_char,
    name_len: usize,
    audience: *const c_char,
    audience_len: usize,
    fanout: *mut tidings_fanout,
    size: usize,
) -> tidings_result {
    entry("tidings_hub_notify", || {
        memory::check_sized("fanout", fanout, size)?;
        // SAFETY: the header's conventions.
        let (kinds, name, audience) = unsafe {
            (
                memory::texts("kinds", kinds, kinds_count)?,
                memory::optional_text("name", name, name_len)?,
                memory::optional_text("audience", audience, audience_len)?,
            )
        };
        let told = HUBS.get("hub", hub)?.notify(&kinds, name, audience)?;
        let value = tidings_fanout { told: told.told, skipped: told.skipped, failed: told.failed };
        // SAFETY: the header's conventions.
        unsafe { write_sized("fanout", fanout, size, value) }
    })
}

/// The connections that have failed since this was last asked, each once: one that did not take a notification, or not in
/// time, has lost its listeners and is told nothing more. Those of every outbox of the hub; at most the newest 4,096 are
/// kept. Free the list with `tidings_failed_peers_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_failed_peers(
    hub: *const tidings_hub,
    failed: *mut *mut tidings_failed_peers,
) -> tidings_result {
    entry("tidings_hub_failed_peers", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("failed", failed) }?;
        out.set(FAILED.insert(HUBS.get("hub", hub)?.failed_sinks()?));
        Ok(())
    })
}

/// How many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_failed_peers_count(
    failed: *const tidings_failed_peers,
    count: *mut usize,
) -> tidings_result {
    entry("tidings_failed_peers_count", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("count", count) }?;
        out.set(FAILED.get("failed", failed)?.len());
        Ok(())
    })
}

/// The one at `index`, from 0. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_failed_peers_get(
    failed: *const tidings_failed_peers,
    index: usize,
    peer: *mut tidings_failed_peer,
    size: usize,
) -> tidings_result {
    entry("tidings_failed_peers_get", || {
        let list = FAILED.get("failed", failed)?;
        let (outbox, number) = *list.get(index).ok_or_else(beyond)?;
        // SAFETY: the header's conventions.
        unsafe { write_sized("peer", peer, size, tidings_failed_peer { peer: number, outbox }) }
    })
}

/// Frees a list of failed connections. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_failed_peers_free(failed: *mut tidings_failed_peers) -> tidings_result {
    entry("tidings_failed_peers_free", || FAILED.free("failed", failed))
}

/// An outbox. Connections join it by `tidings_outbox_join`. Free it with `tidings_outbox_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_hub_outbox(
    hub: *const tidings_hub,
    outbox: *mut *mut tidings_outbox,
) -> tidings_result {
    entry("tidings_hub_outbox", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("outbox", outbox) }?;
        out.set(OUTBOXES.insert(HUBS.get("hub", hub)?.outbox()?));
        Ok(())
    })
}

/// The number of an outbox among those of its hub.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outbox_number(outbox: *const tidings_outbox, number: *mut u32) -> tidings_result {
    entry("tidings_outbox_number", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("number", number) }?;
        out.set(OUTBOXES.get("outbox", outbox)?.number());
        Ok(())
    })
}

/// How many listeners an outbox has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outbox_listeners(outbox: *const tidings_outbox, count: *mut usize) -> tidings_result {
    entry("tidings_outbox_listeners", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("count", count) }?;
        out.set(OUTBOXES.get("outbox", outbox)?.listeners());
        Ok(())
    })
}

/// Waits until there is something to take, or a connection has failed; one wait at a time. `TIDINGS_CLOSED` when the hub
/// closes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outbox_ready(
    outbox: *const tidings_outbox,
    port: *const tidings_port,
    token: *mut u64,
    answer: *mut *mut tidings_answer,
) -> tidings_result {
    entry("tidings_outbox_ready", || {
        // SAFETY: the header's conventions.
        let waiter = unsafe { Waiter::new(port, token, answer) }?;
        waiter.begin(OUTBOXES.get("outbox", outbox)?.ready())
    })
}

/// What there is to write, about `most` notices at most, those of one listener together. Nothing more is handed out for a
/// connection before all that it was handed is written (`tidings_peer_written`); what is published meanwhile coalesces. The
/// list may be empty. Free it with `tidings_notices_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outbox_take(
    outbox: *const tidings_outbox,
    most: u32,
    notices: *mut *mut tidings_notices,
) -> tidings_result {
    entry("tidings_outbox_take", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("notices", notices) }?;
        let outbox = OUTBOXES.get("outbox", outbox)?;
        if most == 0 {
            return Err(Error::argument("most", "must be at least 1"));
        }
        out.set(NOTICES.insert(outbox.take(most)?));
        Ok(())
    })
}

/// Ends every listener that has a filter, in order: what waits for it is handed out, then a notice without a method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outbox_end_all(outbox: *const tidings_outbox) -> tidings_result {
    entry("tidings_outbox_end_all", || OUTBOXES.get("outbox", outbox)?.end_all())
}

/// Frees an outbox's handle. Connections that joined it stay until they are closed. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outbox_free(outbox: *mut tidings_outbox) -> tidings_result {
    entry("tidings_outbox_free", || OUTBOXES.free("outbox", outbox))
}

/// How many notices there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_notices_count(notices: *const tidings_notices, count: *mut usize) -> tidings_result {
    entry("tidings_notices_count", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("count", count) }?;
        out.set(NOTICES.get("notices", notices)?.len());
        Ok(())
    })
}

/// The notice at `index`, from 0. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_notices_get(
    notices: *const tidings_notices,
    index: usize,
    notice: *mut tidings_notice,
    size: usize,
) -> tidings_result {
    entry("tidings_notices_get", || {
        let list = NOTICES.get("notices", notices)?;
        let task = list.get(index).ok_or_else(beyond)?;
        let value = tidings_notice {
            peer: task.sink,
            listener: task.listener,
            method: tidings_bytes::of_optional(task.method),
            params: tidings_bytes::of_optional(task.params.as_deref()),
        };
        // SAFETY: the header's conventions.
        unsafe { write_sized("notice", notice, size, value) }
    })
}

/// Frees a list of notices. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_notices_free(notices: *mut tidings_notices) -> tidings_result {
    entry("tidings_notices_free", || NOTICES.free("notices", notices))
}

fn beyond() -> Error {
    Error::argument("index", "must be less than the count")
}
