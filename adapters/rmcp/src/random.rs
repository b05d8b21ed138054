//! Names that nobody can guess.

use rmcp::ErrorData;

use crate::wire;

/// 128 random bits, as text. An error, for the client too, where the system has no randomness: what others may not guess is
/// not made of anything less.
pub(crate) fn random() -> Result<String, ErrorData> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the system has no randomness");
        wire::no_randomness()
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
