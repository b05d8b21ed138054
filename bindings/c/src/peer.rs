//! Connections that are told of changes, and what they asked to be told.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use tidings_bridge::{Error, Outbox, Profile, RequestId};

use crate::entry::{entry, tidings_result};
use crate::fanout::{OUTBOXES, PROFILES, tidings_outbox, tidings_profile};
use crate::handle::Table;
use crate::memory::{self, Out};

/// A connection to write to: an MCP session's, or one stream of it.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_peer {
    _private: [u8; 0],
}

/// What a connection asked to be told; it may hold several.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_listener {
    _private: [u8; 0],
}

pub(crate) struct Peer {
    outbox: Outbox,
    sink: u64,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It fails where the hub is closed or of another process, and then there is nobody to let go of.
        let _ = self.outbox.drop_sink(self.sink);
    }
}

pub(crate) struct Listener {
    outbox: Outbox,
    number: u64,
    profile: Arc<Profile>,
}

pub(crate) static PEERS: Table<Peer> = Table::of_process(18);
pub(crate) static LISTENERS: Table<Listener> = Table::of_process(19);

/// A connection to write to. `principal`, unless it is NULL, is whose it is: for publishes with an audience. `deadline_ms`
/// is how long the program may take for what it was handed, 0 as the library has it by default; a connection that takes
/// longer has failed. Free it with `tidings_peer_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_outbox_join(
    outbox: *const tidings_outbox,
    principal: *const c_char,
    principal_len: usize,
    deadline_ms: u64,
    peer: *mut *mut tidings_peer,
) -> tidings_result {
    entry("tidings_outbox_join", || {
        // SAFETY: the header's conventions.
        let (out, principal) =
            unsafe { (Out::new("peer", peer)?, memory::optional_text("principal", principal, principal_len)?) };
        let outbox = OUTBOXES.get("outbox", outbox)?;
        let deadline = (deadline_ms > 0).then(|| Duration::from_millis(deadline_ms));
        let sink = outbox.add_sink(principal, deadline)?;
        out.set(PEERS.insert(Peer { outbox: Outbox::clone(&outbox), sink }));
        Ok(())
    })
}

/// The number of a connection, by which notices name it. It is never used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_peer_number(peer: *const tidings_peer, number: *mut u64) -> tidings_result {
    entry("tidings_peer_number", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("number", number) }?;
        out.set(PEERS.get("peer", peer)?.sink);
        Ok(())
    })
}

/// The one listener of a peer that sends no filters (MCP up to 2025-11-25): of every list that its profile offers, and of
/// what it subscribes to. What is published before `tidings_listener_open` is kept for then. Free it with
/// `tidings_listener_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_peer_attend(
    peer: *const tidings_peer,
    profile: *const tidings_profile,
    listener: *mut *mut tidings_listener,
) -> tidings_result {
    entry("tidings_peer_attend", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("listener", listener) }?;
        let (peer, profile) = (PEERS.get("peer", peer)?, PROFILES.get("profile", profile)?);
        give(out, &peer, peer.outbox.attend(peer.sink, &profile)?, profile);
        Ok(())
    })
}

/// A listener with a filter (JSON text), of which what the profile allows counts. `request_id` is that of the request which
/// asked for it, as its JSON text. Its acknowledgement is its first notice; what is published before that is written is kept
/// for then. Free it with `tidings_listener_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_peer_listen(
    peer: *const tidings_peer,
    profile: *const tidings_profile,
    request_id: *const c_char,
    request_id_len: usize,
    filter: *const c_char,
    filter_len: usize,
    listener: *mut *mut tidings_listener,
) -> tidings_result {
    entry("tidings_peer_listen", || {
        // SAFETY: the header's conventions.
        let (out, id, filter) = unsafe {
            (
                Out::new("listener", listener)?,
                memory::bytes("request_id", request_id.cast(), request_id_len)?,
                memory::text("filter", filter, filter_len)?,
            )
        };
        let (peer, profile) = (PEERS.get("peer", peer)?, PROFILES.get("profile", profile)?);
        let id = RequestId::parse(id).map_err(|fault| Error::argument("request_id", fault))?;
        give(out, &peer, peer.outbox.listen(peer.sink, &profile, &id, filter)?, profile);
        Ok(())
    })
}

fn give(out: Out<*mut tidings_listener>, peer: &Peer, number: u64, profile: Arc<Profile>) {
    out.set(LISTENERS.insert(Listener { outbox: peer.outbox.clone(), number, profile }));
}

/// Whether the peer can be told anything at the moment: 1 or 0. One that cannot counts as skipped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_peer_set_reachable(peer: *const tidings_peer, reachable: i32) -> tidings_result {
    entry("tidings_peer_set_reachable", || {
        let peer = PEERS.get("peer", peer)?;
        peer.outbox.set_reachable(peer.sink, memory::flag("reachable", reachable)?)
    })
}

/// So many of the notifications that were handed out for a connection are written: sets 1; or 0: too late, it has failed or
/// is closed. A notice without a method is none to be counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_peer_written(
    peer: *const tidings_peer,
    notifications: u32,
    in_time: *mut i32,
) -> tidings_result {
    entry("tidings_peer_written", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("in_time", in_time) }?;
        let peer = PEERS.get("peer", peer)?;
        out.set(i32::from(peer.outbox.written(peer.sink, notifications)?));
        Ok(())
    })
}

/// A connection did not take a notification: its listeners end, and `tidings_hub_failed_peers` names it. Sets how many
/// listeners went; 0 if it had failed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_peer_broke(peer: *const tidings_peer, listeners: *mut usize) -> tidings_result {
    entry("tidings_peer_broke", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("listeners", listeners) }?;
        let peer = PEERS.get("peer", peer)?;
        out.set(peer.outbox.broke(peer.sink)?);
        Ok(())
    })
}

/// Lets go of a connection: it is told nothing more. Sets how many listeners went with it; 0 if it was closed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_peer_close(peer: *const tidings_peer, listeners: *mut usize) -> tidings_result {
    entry("tidings_peer_close", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("listeners", listeners) }?;
        let peer = PEERS.get("peer", peer)?;
        out.set(peer.outbox.drop_sink(peer.sink)?);
        Ok(())
    })
}

/// Frees a connection's handle, and closes the connection. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_peer_free(peer: *mut tidings_peer) -> tidings_result {
    entry("tidings_peer_free", || PEERS.free("peer", peer))
}

/// The number of a listener, by which notices name it. It is never used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_listener_number(
    listener: *const tidings_listener,
    number: *mut u64,
) -> tidings_result {
    entry("tidings_listener_number", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("number", number) }?;
        out.set(LISTENERS.get("listener", listener)?.number);
        Ok(())
    })
}

/// A peer without filters is ready to be told: `notifications/initialized` has come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_listener_open(listener: *const tidings_listener) -> tidings_result {
    entry("tidings_listener_open", || {
        let listener = LISTENERS.get("listener", listener)?;
        listener.outbox.open(listener.number)
    })
}

/// Such a peer asks to be told of one thing, a resource by its URI, and of what lies below it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_listener_subscribe(
    listener: *const tidings_listener,
    name: *const c_char,
    name_len: usize,
) -> tidings_result {
    entry("tidings_listener_subscribe", || {
        // SAFETY: the header's conventions.
        let name = unsafe { memory::text("name", name, name_len) }?;
        let listener = LISTENERS.get("listener", listener)?;
        listener.outbox.subscribe(listener.number, &listener.profile, name)
    })
}

/// And no longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_listener_unsubscribe(
    listener: *const tidings_listener,
    name: *const c_char,
    name_len: usize,
) -> tidings_result {
    entry("tidings_listener_unsubscribe", || {
        // SAFETY: the header's conventions.
        let name = unsafe { memory::text("name", name, name_len) }?;
        let listener = LISTENERS.get("listener", listener)?;
        listener.outbox.unsubscribe(listener.number, &listener.profile, name)
    })
}

/// Ends a listener in order: what waits for it is handed out, then a notice without a method.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_listener_end(listener: *const tidings_listener) -> tidings_result {
    entry("tidings_listener_end", || {
        let listener = LISTENERS.get("listener", listener)?;
        listener.outbox.end(listener.number)
    })
}

/// The listener was cancelled: nothing more is written for it. Sets 1; or 0: it had ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_listener_cancel(listener: *const tidings_listener, ended: *mut i32) -> tidings_result {
    entry("tidings_listener_cancel", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("ended", ended) }?;
        let listener = LISTENERS.get("listener", listener)?;
        out.set(i32::from(listener.outbox.cancel(listener.number)?));
        Ok(())
    })
}

/// Frees a listener's handle; the listener stays until it ends, or its connection is closed. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_listener_free(listener: *mut tidings_listener) -> tidings_result {
    entry("tidings_listener_free", || LISTENERS.free("listener", listener))
}
