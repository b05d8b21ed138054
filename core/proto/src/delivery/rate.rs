//! Token bucket, as one number: the generic cell rate algorithm (GCRA, ITU-T I.371 annex A).
//!
//! The number is the bucket's *theoretical arrival time*: the moment by which everything let through so far would have
//! been due at the steady rate. It fits a row of a store, so that all processes share one bucket and it outlives them.

use crate::time::StoreMillis;

/// A steady rate with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many may go in a second, in the long run. At least 1.
    pub per_second: u32,
    /// How many may go at once after a rest. At least 1.
    pub burst: u32,
}

/// What a bucket lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// How many may go now.
    pub count: u32,
    /// The bucket afterwards, in microseconds on the store's timeline.
    pub tat: i64,
}

impl Rate {
    const fn interval_us(self) -> i64 {
        1_000_000 / if self.per_second == 0 { 1 } else { self.per_second as i64 }
    }

    /// How far the bucket may run ahead of the time.
    const fn tolerance_us(self) -> i64 {
        let burst = if self.burst == 0 { 1 } else { self.burst as i64 };
        self.interval_us().saturating_mul(burst)
    }

    /// Takes up to `want` tokens `now` out of a bucket that stands at `tat` (0: one that was never used).
    pub fn take(self, tat: i64, now: StoreMillis, want: u32) -> Granted {
        let now_us = now.saturating_mul(1_000);
        let start = tat.max(now_us);
        let room = now_us.saturating_add(self.tolerance_us()).saturating_sub(start);
        let count = u32::try_from(room / self.interval_us().max(1)).unwrap_or(0).min(want);
        if count == 0 {
            return Granted { count: 0, tat };
        }
        Granted { count, tat: start.saturating_add(self.interval_us().saturating_mul(i64::from(count))) }
    }

    /// When a bucket that stands at `tat` has a token, in whole milliseconds; not before `now`.
    pub fn next(self, tat: i64, now: StoreMillis) -> StoreMillis {
        let at_us = tat.saturating_sub(self.tolerance_us()).saturating_add(self.interval_us());
        let whole = at_us.div_euclid(1_000).saturating_add(i64::from(at_us.rem_euclid(1_000) != 0));
        whole.max(now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: StoreMillis = 5_000;

    #[test]
    fn a_burst_then_the_steady_rate() {
        let rate = Rate { per_second: 10, burst: 3 };
        let first = rate.take(0, NOW, 5);
        assert_eq!(first.count, 3);
        assert_eq!(rate.take(first.tat, NOW, 1).count, 0);
        assert_eq!(rate.next(first.tat, NOW), NOW + 100);
        assert_eq!(rate.take(first.tat, NOW + 99, 1).count, 0);
        let second = rate.take(first.tat, NOW + 100, 5);
        assert_eq!(second.count, 1, "one token in a tenth of a second");
        assert_eq!(rate.take(second.tat, NOW + 100 + 300, 5).count, 3, "no more than the burst after a rest");
        assert_eq!(rate.take(second.tat, NOW + 3_600_000, 99).count, 3);
    }

    #[test]
    fn nothing_asked_for_takes_nothing() {
        let rate = Rate { per_second: 1, burst: 1 };
        assert_eq!(rate.take(7, NOW, 0), Granted { count: 0, tat: 7 });
        assert_eq!(rate.next(0, NOW), NOW);
    }

    proptest! {
        #[test]
        fn never_more_than_rate_and_burst(
            per_second in 1..5_000_u32, burst in 1..500_u32, steps in proptest::collection::vec((0..2_000_i64, 0..50_u32), 1..60),
        ) {
            let rate = Rate { per_second, burst };
            let (mut tat, mut now, mut got) = (0, NOW, 0_u64);
            for (wait, want) in steps {
                now += wait;
                let granted = rate.take(tat, now, want);
                prop_assert!(granted.count <= want && granted.tat >= tat);
                if granted.count < want {
                    let next = rate.next(granted.tat, now);
                    prop_assert!(rate.take(granted.tat, next, 1).count == 1, "a token when it says so");
                    prop_assert!(next == now || rate.take(granted.tat, next - 1, 1).count == 0, "and not sooner");
                }
                tat = granted.tat;
                got += u64::from(granted.count);
            }
            let elapsed_us = u64::try_from((now - NOW) * 1_000).unwrap();
            let interval = 1_000_000 / u64::from(per_second);
            prop_assert!(got <= u64::from(burst) + elapsed_us / interval);
        }
    }
}
