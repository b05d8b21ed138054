//! How long to wait before another attempt: full jitter under a doubling ceiling.

/// The most that is waited after the `failures`-th failed attempt (1 for the first), in milliseconds: `base_ms`, then
/// twice as long each time, never more than `cap_ms`.
pub const fn ceiling_ms(base_ms: u64, cap_ms: u64, failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1);
    // Beyond this many doublings bits would be shifted out; the cap holds there in any case.
    let grown = if doublings <= base_ms.leading_zeros() { base_ms.checked_shl(doublings) } else { None };
    match grown {
        Some(grown) if grown < cap_ms => grown,
        None if base_ms == 0 => 0,
        _ => cap_ms,
    }
}

/// A wait between 0 and `ceiling_ms`, both included, spread evenly over all values of `random` ("full jitter"): many
/// deliveries that failed together do not come back together.
///
/// `random` is scaled by a multiplication, not a remainder. Some waits are then more likely than others by one in
/// 2^64 / `ceiling_ms`; for half an hour that is one in 10^13.
pub const fn jittered_ms(ceiling_ms: u64, random: u64) -> u64 {
    // At most (2^64 - 1) * 2^64 / 2^64, so nothing is cut off.
    ((random as u128 * (ceiling_ms as u128 + 1)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn doubles_up_to_the_cap() {
        let waits: Vec<u64> = (1..=13).map(|n| ceiling_ms(1_000, 1_800_000, n)).collect();
        assert_eq!(
            waits,
            [
                1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_024_000, 1_800_000,
                1_800_000
            ]
        );
        assert_eq!(ceiling_ms(1_000, 1_800_000, 0), 1_000);
        assert_eq!(ceiling_ms(1_000, 1_800_000, u32::MAX), 1_800_000);
        assert_eq!(ceiling_ms(0, 1_800_000, u32::MAX), 0);
        assert_eq!(ceiling_ms(5_000, 1_000, 1), 1_000);
        assert_eq!(ceiling_ms(3, u64::MAX, 63), 3 << 62);
        assert_eq!(ceiling_ms(3, u64::MAX, 64), u64::MAX);
    }

    #[test]
    fn jitter_reaches_both_ends() {
        for ceiling in [0, 1, 1_000, 1_800_000, u64::MAX] {
            assert_eq!(jittered_ms(ceiling, 0), 0);
            assert_eq!(jittered_ms(ceiling, u64::MAX), ceiling);
        }
        // Half of the randoms give the lower half.
        assert_eq!(jittered_ms(999, u64::MAX / 2), 499);
        assert_eq!(jittered_ms(999, u64::MAX / 2 + 1), 500);
    }

    proptest! {
        #[test]
        fn never_above_the_ceiling_and_never_falling(ceiling: u64, a: u64, b: u64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(jittered_ms(ceiling, high) <= ceiling);
            prop_assert!(jittered_ms(ceiling, low) <= jittered_ms(ceiling, high));
        }

        #[test]
        fn a_later_ceiling_is_never_lower(base: u64, cap: u64, n in 0..200_u32) {
            prop_assert!(ceiling_ms(base, cap, n) <= cap);
            prop_assert!(ceiling_ms(base, cap, n) <= ceiling_ms(base, cap, n + 1));
        }
    }
}
