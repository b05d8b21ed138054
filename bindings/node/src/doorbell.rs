//! Ringing the process at the other end of stdio, for routes of type `signal`.

use napi::bindgen_prelude::Either;
use napi_derive::napi;
use tidings_bridge::{self as bridge, Refusal, StdioPeer};

use crate::convert::{Result, entry};

/// The process at the other end of stdin, pinned.
#[napi]
pub struct Doorbell {
    inner: StdioPeer,
}

#[napi]
impl Doorbell {
    /// Sends the signal of that name (`SIGUSR1`, `SIGUSR2` or `SIGRTMIN+n`), unless the peer is gone or would not survive it:
    /// `rung`, or `unreachable`, `not_ready`, `refused` or `failed`.
    #[napi(ts_return_type = "'rung' | 'unreachable' | 'not_ready' | 'refused' | 'failed'")]
    pub fn ring(&self, signal: String) -> Result<&'static str> {
        entry("Doorbell.ring", || {
            // The core lets no other names in.
            let Some(bell) = bridge::Doorbell::parse(&signal) else { return Ok("refused") };
            Ok(match self.inner.ring(bell) {
                Ok(()) => "rung",
                Err(Refusal::Unreachable) => "unreachable",
                Err(Refusal::NotReady) => "not_ready",
                Err(Refusal::Refused) => "refused",
                Err(Refusal::Failed) => "failed",
            })
        })
    }
}

/// The doorbell of the process at the other end of stdin, or why there is none.
#[napi]
pub fn doorbell_of_stdio(as_root: bool) -> Result<Either<Doorbell, String>> {
    entry("doorbellOfStdio", || {
        Ok(match StdioPeer::of_stdin(as_root) {
            Ok(inner) => Either::A(Doorbell { inner }),
            Err(why) => Either::B(why),
        })
    })
}
