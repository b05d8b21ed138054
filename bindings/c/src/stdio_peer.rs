//! Ringing the process at the other end of stdin, for routes of type `signal`.

use std::ffi::c_char;

use tidings_bridge::{Doorbell, Error, ErrorCode, Refusal, StdioPeer};

use crate::entry::{entry, tidings_result};
use crate::handle::Table;
use crate::memory::{self, Out};
use crate::outlet::{
    TIDINGS_REFUSE_FAILED, TIDINGS_REFUSE_NOT_READY, TIDINGS_REFUSE_REFUSED, TIDINGS_REFUSE_UNREACHABLE,
};

/// The process at the other end of this process's stdin.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_stdio_peer {
    _private: [u8; 0],
}

pub(crate) static STDIO_PEERS: Table<StdioPeer> = Table::new(29);

/// The process at the other end of stdin, for routes of type `signal`: the parent where stdin is a pipe, the connected one where it
/// is a socket. Linux only. It is pinned by a pidfd: a process that takes the number of one that died never gets its signal.
/// `TIDINGS_UNSUPPORTED` where there is none, and the message says why: stdin is neither, the peer is another user's or gone, or
/// this process is root's and `as_root` is 0. Free it with `tidings_stdio_peer_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stdio_peer_new(as_root: i32, peer: *mut *mut tidings_stdio_peer) -> tidings_result {
    entry("tidings_stdio_peer_new", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("peer", peer) }?;
        let found = StdioPeer::of_stdin(memory::flag("as_root", as_root)?);
        out.set(STDIO_PEERS.insert(found.map_err(|why| Error::new(ErrorCode::Unsupported, why))?));
        Ok(())
    })
}

/// Sends it a signal by its name: `SIGUSR1`, `SIGUSR2` or `SIGRTMIN+n` with n from 0 to 15. It carries nothing, and two of them may
/// arrive as one. Sets 0; or one of `TIDINGS_REFUSE_…`, for `tidings_host_delivery_refuse`, where nothing was sent: a peer that neither
/// handles, blocks nor ignores the signal would be ended by it, and is not ready.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stdio_peer_ring(
    peer: *const tidings_stdio_peer,
    signal: *const c_char,
    signal_len: usize,
    refusal: *mut i32,
) -> tidings_result {
    entry("tidings_stdio_peer_ring", || {
        // SAFETY: the header's conventions.
        let (out, signal) = unsafe { (Out::new("refusal", refusal)?, memory::text("signal", signal, signal_len)?) };
        let peer = STDIO_PEERS.get("peer", peer)?;
        let bell = Doorbell::parse(signal)
            .ok_or_else(|| Error::argument("signal", "must be SIGUSR1, SIGUSR2 or SIGRTMIN+n with n from 0 to 15"))?;
        out.set(match peer.ring(bell) {
            Ok(()) => 0,
            Err(Refusal::Failed) => TIDINGS_REFUSE_FAILED,
            Err(Refusal::Refused) => TIDINGS_REFUSE_REFUSED,
            Err(Refusal::Unreachable) => TIDINGS_REFUSE_UNREACHABLE,
            Err(Refusal::NotReady) => TIDINGS_REFUSE_NOT_READY,
        });
        Ok(())
    })
}

/// Frees a peer, which goes on. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stdio_peer_free(peer: *mut tidings_stdio_peer) -> tidings_result {
    entry("tidings_stdio_peer_free", || STDIO_PEERS.free("peer", peer))
}
