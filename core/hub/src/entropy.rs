//! Where the hub draws its ids and its jitter from.

#[cfg(feature = "simulation")]
use std::sync::Mutex;

use crate::error::{Error, ErrorCode, Result};
#[cfg(feature = "simulation")]
use crate::notify::lock;

/// The operating system's randomness; in a simulation a seed's, so that it can be run again.
#[derive(Debug, Default)]
pub(crate) enum Entropy {
    #[default]
    System,
    /// The state of SplitMix64 (Steele, Lea and Flood, 2014). Guessable, so for simulations only.
    #[cfg(feature = "simulation")]
    Seeded(Mutex<u64>),
}

impl Entropy {
    pub(crate) fn draw<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        match self {
            Self::System => getrandom::fill(&mut bytes)
                .map_err(|error| Error::new(ErrorCode::Unavailable, format!("no randomness: {error}")))?,
            #[cfg(feature = "simulation")]
            Self::Seeded(state) => {
                let mut state = lock(state);
                for part in bytes.chunks_mut(8) {
                    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                    let mut mixed = *state;
                    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                    for (to, from) in part.iter_mut().zip((mixed ^ (mixed >> 31)).to_le_bytes()) {
                        *to = from;
                    }
                }
            }
        }
        Ok(bytes)
    }
}
