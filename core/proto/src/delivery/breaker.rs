//! The breaker of one endpoint: how many attempts may be under way at once, by what came of the last ones.

use core::fmt;

use super::backoff::ceiling_ms;
use crate::time::StoreMillis;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// So many failures in a row open it.
    pub failures: u32,
    /// How long it stays open the first time; twice as long each time a probe fails.
    pub open_ms: u64,
    /// Never longer than this.
    pub cap_ms: u64,
}

impl Default for BreakerPolicy {
    /// Five failures; 30 s, doubling up to the cap of the back-off, 30 minutes (DESIGN section 6).
    fn default() -> Self {
        Self { failures: 5, open_ms: 30_000, cap_ms: 30 * 60 * 1_000 }
    }
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BreakerState {
    /// Attempts go out.
    Closed,
    /// None goes out.
    Open,
    /// One goes out, to see.
    HalfOpen,
}

/// What happens to a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BreakerEvent {
    /// An attempt was taken.
    Success,
    /// An attempt failed, and there were fewer than the policy's failures in a row with it.
    Failure,
    /// An attempt failed, and that made the policy's failures in a row.
    LastFailure,
    /// It was open for its time.
    TimeOut,
}

/// Every transition: (from, event, to). There is one for each pair.
pub const BREAKER_TRANSITIONS: &[(BreakerState, BreakerEvent, BreakerState)] = {
    use BreakerEvent as E;
    use BreakerState as S;
    &[
        (S::Closed, E::Success, S::Closed),
        (S::Closed, E::Failure, S::Closed),
        (S::Closed, E::LastFailure, S::Open),
        (S::Closed, E::TimeOut, S::Closed),
        // Attempts that began before it opened.
        (S::Open, E::Success, S::Closed),
        (S::Open, E::Failure, S::Open),
        (S::Open, E::LastFailure, S::Open),
        (S::Open, E::TimeOut, S::HalfOpen),
        (S::HalfOpen, E::Success, S::Closed),
        (S::HalfOpen, E::Failure, S::Open),
        (S::HalfOpen, E::LastFailure, S::Open),
        (S::HalfOpen, E::TimeOut, S::HalfOpen),
    ]
};

/// The state after `event`, by [`BREAKER_TRANSITIONS`].
pub fn breaker_step(state: BreakerState, event: BreakerEvent) -> BreakerState {
    let row = BREAKER_TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (state, event));
    row.map_or(state, |(_, _, to)| *to)
}

/// What is kept of an endpoint's attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Failures in a row.
    pub failures: u32,
    /// When the first of them was.
    pub failing_since: Option<StoreMillis>,
    /// The breaker is open until this, or was; 0: it never was since the last success.
    pub open_until: StoreMillis,
    /// An attempt was taken at some time.
    pub good: bool,
}

impl Health {
    /// Where the breaker stands `now`.
    pub fn breaker(&self, now: StoreMillis) -> BreakerState {
        match self.open_until {
            0 => BreakerState::Closed,
            until if now < until => BreakerState::Open,
            _ => BreakerState::HalfOpen,
        }
    }

    /// After an attempt that was taken.
    pub fn succeeded() -> Self {
        Self { good: true, ..Self::default() }
    }

    /// After an attempt that failed `now`. One that comes back while the breaker is open began before it opened and tells
    /// nothing new.
    pub fn failed(self, policy: &BreakerPolicy, now: StoreMillis) -> Self {
        let state = self.breaker(now);
        if state == BreakerState::Open {
            return self;
        }
        let failures = self.failures.saturating_add(1);
        let event = if failures >= policy.failures { BreakerEvent::LastFailure } else { BreakerEvent::Failure };
        let open_until = match breaker_step(state, event) {
            BreakerState::Open => {
                let times = failures.saturating_sub(policy.failures).saturating_add(1);
                now.saturating_add_unsigned(ceiling_ms(policy.open_ms, policy.cap_ms, times)).max(1)
            }
            BreakerState::Closed | BreakerState::HalfOpen => self.open_until,
        };
        Self { failures, failing_since: self.failing_since.or(Some(now)), open_until, good: self.good }
    }

    /// How many attempts may be under way at once: `cap` for an endpoint that takes what comes, `fresh` for one that never
    /// took anything yet, one for one that fails, none while the breaker is open.
    pub fn slots(&self, cap: u32, fresh: u32, now: StoreMillis) -> u32 {
        match (self.breaker(now), self.failures, self.good) {
            (BreakerState::Open, _, _) => 0,
            (BreakerState::Closed, 0, true) => cap,
            (BreakerState::Closed, 0, false) => fresh.min(cap),
            (BreakerState::Closed | BreakerState::HalfOpen, _, _) => cap.min(1),
        }
    }

    /// Whether nothing speaks for the endpoint: it fails, or never took anything. All such endpoints together get only a
    /// part of the sender's slots.
    pub const fn is_suspect(&self) -> bool {
        self.failures > 0 || !self.good
    }
}

impl BreakerState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// A stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

impl BreakerEvent {
    /// Every event.
    pub const ALL: [Self; 4] = [Self::Success, Self::Failure, Self::LastFailure, Self::TimeOut];

    /// A stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::LastFailure => "last_failure",
            Self::TimeOut => "time_out",
        }
    }
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: StoreMillis = 1_000_000;

    #[test]
    fn every_pair_has_one_row() {
        for state in BreakerState::ALL {
            for event in BreakerEvent::ALL {
                let rows = BREAKER_TRANSITIONS.iter().filter(|(from, on, _)| (*from, *on) == (state, event));
                assert_eq!(rows.count(), 1, "{state} {}", event.as_str());
            }
        }
        let grid: Vec<String> = BreakerState::ALL
            .map(|state| BreakerEvent::ALL.map(|event| breaker_step(state, event).as_str()).join(" "))
            .to_vec();
        assert_eq!(grid, ["closed closed open closed", "closed open open half_open", "closed open open half_open"]);
    }

    #[test]
    fn opens_after_so_many_failures_in_a_row() {
        let policy = BreakerPolicy::default();
        let mut health = Health::succeeded();
        for n in 1..5 {
            health = health.failed(&policy, NOW + i64::from(n));
            assert_eq!((health.failures, health.breaker(NOW + 10)), (n, BreakerState::Closed));
            assert_eq!(health.slots(8, 2, NOW + 10), 1, "one at a time while it fails");
        }
        health = health.failed(&policy, NOW + 10);
        assert_eq!(health.failing_since, Some(NOW + 1));
        assert_eq!((health.breaker(NOW + 10), health.slots(8, 2, NOW + 10)), (BreakerState::Open, 0));
        assert_eq!(health.failed(&policy, NOW + 11), health, "the others that were under way change nothing");
        assert_eq!(health.breaker(NOW + 30_009), BreakerState::Open);
        assert_eq!((health.breaker(NOW + 30_010), health.slots(8, 2, NOW + 30_010)), (BreakerState::HalfOpen, 1));
    }

    #[test]
    fn a_probe_that_fails_doubles_the_time_up_to_the_cap() {
        let policy = BreakerPolicy::default();
        let (mut health, mut now) = (Health::default(), NOW);
        for _ in 0..4 {
            health = health.failed(&policy, now);
        }
        let mut times = Vec::new();
        for _ in 0..9 {
            health = health.failed(&policy, now);
            times.push((health.open_until - now) / 1_000);
            now = health.open_until;
        }
        assert_eq!(times, [30, 60, 120, 240, 480, 960, 1_800, 1_800, 1_800]);
        assert_eq!(Health::succeeded().breaker(now), BreakerState::Closed);
    }

    #[test]
    fn slots_grow_with_trust() {
        assert_eq!(Health::default().slots(8, 2, NOW), 2);
        assert_eq!(Health::default().slots(1, 2, NOW), 1);
        assert_eq!(Health::succeeded().slots(8, 2, NOW), 8);
        assert!(Health::default().is_suspect() && !Health::succeeded().is_suspect());
        assert!(Health::succeeded().failed(&BreakerPolicy::default(), NOW).is_suspect());
    }
}
