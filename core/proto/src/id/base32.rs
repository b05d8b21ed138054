//! 128 bits as 26 header-safe characters.

use super::IdError;

/// Crockford's base32 digits in lower case: no `i`, `l`, `o`, `u`.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// 26 digits of 5 bits hold the 128 bits; the first digit carries only 3 of them.
pub(crate) const LENGTH: usize = 26;

/// Writes 128 bits, most significant first, so that text order is number order.
pub(crate) fn encode(bits: u128) -> [u8; LENGTH] {
    core::array::from_fn(|index| {
        let shift = 5 * (LENGTH - 1 - index);
        DIGITS[usize::from((bits >> shift) as u8 & 31)]
    })
}

/// Reads what [`encode`] wrote; anything else is refused: one value has one text.
pub(crate) fn decode(text: &[u8]) -> Result<u128, IdError> {
    if text.len() != LENGTH {
        return Err(IdError::Length);
    }
    let mut bits = 0_u128;
    for byte in text {
        let digit = DIGITS.iter().position(|digit| digit == byte).ok_or(IdError::Digit)?;
        bits = bits.checked_mul(32).ok_or(IdError::Range)? | digit as u128;
    }
    Ok(bits)
}
