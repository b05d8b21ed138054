//! What follows an attempt.

use super::attempt::{AttemptOutcome, Category};
use super::backoff::{ceiling_ms, jittered_ms};
use super::retry_after::parse_retry_after;
use super::state::DeliveryState;
use crate::time::{StoreMillis, UnixMillis};

/// The longest a delivery lives: 24 hours (DESIGN section 6).
pub const MAX_LIFETIME_MS: u64 = 24 * 60 * 60 * 1_000;

/// How a route's deliveries are tried again. All times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The ceiling of the first wait.
    pub base_ms: u64,
    /// No ceiling is higher than this.
    pub cap_ms: u64,
    /// How many attempts there may be.
    pub max_attempts: u32,
    /// Set where another route comes after this one: it takes over when the next attempt would start later than this
    /// after the first one, or after the deadline.
    pub hand_over_ms: Option<u64>,
    /// After 429, 502, 504 and a timeout the wait is this much longer, unless `Retry-After` says how long (Standard
    /// Webhooks: these ask the sender to slow down). Added below the jitter, so that deliveries still spread.
    pub throttle_floor_ms: u64,
    /// How long one attempt may take. A `Retry-After` beyond the deadline is cut to leave this much time for a last try.
    pub attempt_ms: u64,
    /// Statuses, besides 410 and 413, after which no attempt follows. Empty by default: even 400, 401 and 404 are
    /// often a deployment under way (field report B65).
    pub final_statuses: Vec<u16>,
}

impl RetryPolicy {
    /// For the last route that wants a firing: at most 12 attempts (DESIGN section 5).
    pub fn last_route() -> Self {
        Self {
            base_ms: 1_000,
            cap_ms: 30 * 60 * 1_000,
            max_attempts: 12,
            hand_over_ms: None,
            throttle_floor_ms: 10_000,
            attempt_ms: 10_000,
            final_statuses: Vec::new(),
        }
    }

    /// For a route with another one after it: at most 4 attempts or 2 minutes (DESIGN section 5).
    pub fn with_successor() -> Self {
        Self { max_attempts: 4, hand_over_ms: Some(2 * 60 * 1_000), ..Self::last_route() }
    }
}

/// How far a delivery has come, the attempt just made included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// Attempts made, the one just made included. Waiting for a rate limit is none.
    pub attempts: u32,
    /// When the first attempt began.
    pub first_attempt_at: StoreMillis,
    /// When the delivery expires; no attempt begins at or after it.
    pub deadline: StoreMillis,
}

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The endpoint took it.
    Delivered,
    /// Another attempt, not before `at`, which lies before the deadline.
    RetryAt {
        /// When.
        at: StoreMillis,
        /// What the last attempt came to.
        category: Category,
    },
    /// No further attempt on this route.
    Final {
        /// [`DeliveryState::Dead`] or [`DeliveryState::Expired`].
        state: DeliveryState,
        /// What the last attempt came to.
        category: Category,
        /// The endpoint said 410: nothing more is sent there for this principal until it is verified again.
        disable_endpoint: bool,
    },
}

/// When a delivery that comes up `now` expires: after the task's ttl, the route's own `deadlineMs` and 24 hours,
/// whichever is shortest.
pub fn deadline(now: StoreMillis, task_ttl_ms: Option<u64>, route_deadline_ms: Option<u64>) -> StoreMillis {
    let lifetime = [task_ttl_ms, route_deadline_ms].into_iter().flatten().fold(MAX_LIFETIME_MS, u64::min);
    now.saturating_add_unsigned(lifetime)
}

/// Decides what follows an attempt that ended `now`; the module page has the table of verdicts.
///
/// `wall_now` is the wall clock at the same moment, only for a `Retry-After` that names a date. `random` is a fresh,
/// evenly spread number for the jitter.
///
/// - The wait is full jitter under [`ceiling_ms`], on top of what `Retry-After` asks for, or of the throttle floor.
///   `Retry-After: 0` therefore means the ordinary back-off, never a busy loop.
/// - A back-off that ends at or after the deadline expires the delivery at once: there is no later try to wait for.
/// - A `Retry-After` that ends at or after the deadline is cut: one last try begins `attempt_ms` before it, so that it
///   ends in time. If that moment has passed, the delivery expires.
/// - Where another route comes after this one, both make it dead instead, so that the other one uses the time left.
pub fn next(
    policy: &RetryPolicy,
    attempted: &Attempted,
    outcome: AttemptOutcome<'_>,
    now: StoreMillis,
    wall_now: UnixMillis,
    random: u64,
) -> Next {
    let Some(category) = outcome.category() else {
        return Next::Delivered;
    };
    let ended = |state, disable_endpoint| Next::Final { state, category, disable_endpoint };
    let dead = ended(DeliveryState::Dead, false);
    let expired = ended(DeliveryState::Expired, false);

    let (status, retry_after) = match outcome {
        AttemptOutcome::Response { status, retry_after } => (Some(status), retry_after),
        AttemptOutcome::Confirmed | AttemptOutcome::Failed(_) => (None, None),
    };
    match status {
        Some(410) => return ended(DeliveryState::Dead, true),
        Some(413) => return dead,
        Some(status) if policy.final_statuses.contains(&status) => return dead,
        _ if category.is_final() => return dead,
        _ => {}
    }
    if now >= attempted.deadline {
        return expired;
    }
    if attempted.attempts >= policy.max_attempts {
        return dead;
    }

    let asked = retry_after.and_then(|value| parse_retry_after(value, wall_now));
    let throttled = category == Category::Timeout || matches!(status, Some(429 | 502 | 504));
    let floor = match asked {
        Some(asked) => asked,
        None if throttled => policy.throttle_floor_ms,
        None => 0,
    };
    let earliest = now.saturating_add_unsigned(floor);
    let ceiling = ceiling_ms(policy.base_ms, policy.cap_ms, attempted.attempts);
    let at = earliest.saturating_add_unsigned(jittered_ms(ceiling, random));

    if let Some(hand_over) = policy.hand_over_ms {
        let end = attempted.first_attempt_at.saturating_add_unsigned(hand_over);
        return if at > end || at >= attempted.deadline { dead } else { Next::RetryAt { at, category } };
    }
    if at < attempted.deadline {
        return Next::RetryAt { at, category };
    }
    let last_try = attempted.deadline.saturating_sub_unsigned(policy.attempt_ms);
    // Where only the jitter reached beyond the deadline, the time asked for still holds.
    let at = if earliest < attempted.deadline { last_try.max(earliest) } else { last_try };
    if asked.is_some() && at > now && at < attempted.deadline { Next::RetryAt { at, category } } else { expired }
}

/// Puts a delivery off to `until` without an attempt: rate limit, concurrency cap, open breaker. It uses up no attempt;
/// if it would end at or after the deadline the delivery expires at once.
pub fn postpone(until: StoreMillis, now: StoreMillis, deadline: StoreMillis) -> Next {
    let (at, category) = (until.max(now), Category::RateLimited);
    if at < deadline {
        Next::RetryAt { at, category }
    } else {
        Next::Final { state: DeliveryState::Expired, category, disable_endpoint: false }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: StoreMillis = 1_000_000_000;
    const WALL: UnixMillis = 1_796_040_000_000; // 2026-11-30T12:00:00Z
    const HOUR: i64 = 3_600_000;

    fn attempted(attempts: u32) -> Attempted {
        Attempted { attempts, first_attempt_at: NOW - 100, deadline: NOW + HOUR }
    }

    fn response(status: u16) -> AttemptOutcome<'static> {
        AttemptOutcome::Response { status, retry_after: None }
    }

    fn asking(status: u16, retry_after: &str) -> AttemptOutcome<'_> {
        AttemptOutcome::Response { status, retry_after: Some(retry_after) }
    }

    /// After the first attempt on the last route, with the longest jitter: 1 s.
    fn after(outcome: AttemptOutcome<'_>) -> Next {
        next(&RetryPolicy::last_route(), &attempted(1), outcome, NOW, WALL, u64::MAX)
    }

    fn retry(after_ms: i64, category: Category) -> Next {
        Next::RetryAt { at: NOW + after_ms, category }
    }

    fn ended(state: DeliveryState, category: Category) -> Next {
        Next::Final { state, category, disable_endpoint: false }
    }

    #[test]
    fn every_outcome_of_report_b65() {
        use Category as C;
        let gone = Next::Final { state: DeliveryState::Dead, category: C::Http4xx, disable_endpoint: true };
        for (status, want) in [
            (200, Next::Delivered),
            (201, Next::Delivered),
            (202, Next::Delivered),
            (204, Next::Delivered),
            (299, Next::Delivered),
            (100, retry(1_000, C::ProtocolError)),
            (301, retry(1_000, C::Http3xx)),
            (302, retry(1_000, C::Http3xx)),
            (307, retry(1_000, C::Http3xx)),
            (308, retry(1_000, C::Http3xx)),
            (400, retry(1_000, C::Http4xx)),
            (401, retry(1_000, C::Http4xx)),
            (404, retry(1_000, C::Http4xx)),
            (408, retry(1_000, C::Http4xx)),
            (410, gone),
            (413, ended(DeliveryState::Dead, C::Http4xx)),
            (425, retry(1_000, C::Http4xx)),
            (429, retry(11_000, C::Http4xx)),
            (500, retry(1_000, C::Http5xx)),
            (502, retry(11_000, C::Http5xx)),
            (503, retry(1_000, C::Http5xx)),
            (504, retry(11_000, C::Http5xx)),
            (599, retry(1_000, C::Http5xx)),
            (999, retry(1_000, C::ProtocolError)),
        ] {
            assert_eq!(after(response(status)), want, "{status}");
        }
        for (category, want_ms) in [
            (C::ConnectionRefused, 1_000),
            (C::TlsError, 1_000),
            (C::DnsError, 1_000),
            (C::Denied, 1_000),
            (C::ProtocolError, 1_000),
            (C::ResponseTooLarge, 1_000),
            (C::ChallengeFailed, 1_000),
            (C::Interrupted, 1_000),
            (C::ProxyError, 1_000),
            (C::Timeout, 11_000),
        ] {
            assert_eq!(after(AttemptOutcome::Failed(category)), retry(want_ms, category), "{category}");
        }
        let disabled = AttemptOutcome::Failed(C::EndpointDisabled);
        assert_eq!(after(disabled), ended(DeliveryState::Dead, C::EndpointDisabled));
    }

    #[test]
    fn the_operator_may_make_statuses_final() {
        let policy = RetryPolicy { final_statuses: vec![400, 404], ..RetryPolicy::last_route() };
        for (status, is_final) in [(400, true), (404, true), (401, false), (500, false)] {
            let got = next(&policy, &attempted(1), response(status), NOW, WALL, 0);
            assert_eq!(got == ended(DeliveryState::Dead, Category::Http4xx), is_final, "{status}");
        }
    }

    #[test]
    fn waits_double_and_jitter_starts_at_nothing() {
        let policy = RetryPolicy::last_route();
        for (attempts, ceiling) in [(1, 1_000), (2, 2_000), (3, 4_000), (6, 32_000), (11, 1_024_000)] {
            let wait = |random| next(&policy, &attempted(attempts), response(500), NOW, WALL, random);
            assert_eq!(wait(u64::MAX), retry(ceiling, Category::Http5xx), "{attempts}");
            assert_eq!(wait(0), retry(0, Category::Http5xx), "{attempts}");
        }
        let throttled = next(&policy, &attempted(3), response(429), NOW, WALL, 0);
        assert_eq!(throttled, retry(10_000, Category::Http4xx));
    }

    #[test]
    fn attempts_end() {
        let dead = ended(DeliveryState::Dead, Category::Http5xx);
        for (policy, last) in [(RetryPolicy::last_route(), 12), (RetryPolicy::with_successor(), 4)] {
            let at = |attempts| next(&policy, &attempted(attempts), response(500), NOW, WALL, 0);
            assert_eq!(at(last - 1), retry(0, Category::Http5xx));
            assert_eq!(at(last), dead);
            assert_eq!(at(u32::MAX), dead);
        }
    }

    #[test]
    fn a_route_with_a_successor_hands_over_after_two_minutes() {
        let policy = RetryPolicy::with_successor();
        let dead = ended(DeliveryState::Dead, Category::Http5xx);
        let started = |ago, deadline| Attempted { attempts: 1, first_attempt_at: NOW - ago, deadline: NOW + deadline };
        let at = |attempted, outcome| next(&policy, &attempted, outcome, NOW, WALL, u64::MAX);
        assert_eq!(at(started(119_000, HOUR), response(500)), retry(1_000, Category::Http5xx));
        assert_eq!(at(started(119_001, HOUR), response(500)), dead);
        assert_eq!(at(started(0, HOUR), asking(503, "119")), retry(120_000, Category::Http5xx));
        assert_eq!(at(started(0, HOUR), asking(503, "120")), dead, "a long Retry-After is no reason to wait");
        // The time left before the deadline belongs to the successor.
        assert_eq!(at(started(0, 1_001), response(500)), retry(1_000, Category::Http5xx));
        assert_eq!(at(started(0, 1_000), response(500)), dead);
        assert_eq!(at(started(0, 60_000), asking(503, "60")), dead);
        assert_eq!(at(started(0, 0), response(500)), ended(DeliveryState::Expired, Category::Http5xx));
    }

    #[test]
    fn no_attempt_begins_at_or_after_the_deadline() {
        let policy = RetryPolicy::last_route();
        let left = |left| Attempted { attempts: 1, first_attempt_at: NOW, deadline: NOW + left };
        let at = |attempted, outcome, random| next(&policy, &attempted, outcome, NOW, WALL, random);
        let expired = ended(DeliveryState::Expired, Category::Http5xx);
        assert_eq!(at(left(1_001), response(500), u64::MAX), retry(1_000, Category::Http5xx));
        assert_eq!(at(left(1_000), response(500), u64::MAX), expired);
        assert_eq!(at(left(0), response(500), 0), expired);
        assert_eq!(at(left(-5), response(500), 0), expired);
        assert_eq!(at(left(-5), response(204), 0), Next::Delivered, "an answer that came late still counts");
        let gone = at(left(-5), response(410), 0);
        assert!(matches!(gone, Next::Final { disable_endpoint: true, .. }));
        let used_up = Attempted { attempts: 12, ..left(0) };
        assert_eq!(at(used_up, response(500), 0), expired, "too late for the next route as well");
    }

    #[test]
    fn retry_after_is_honoured_up_to_the_deadline() {
        let category = Category::Http5xx;
        for (value, random, want) in [
            ("0", 0, retry(0, category)),
            ("0", u64::MAX, retry(1_000, category)),
            ("-7", u64::MAX, retry(1_000, category)),
            ("120", 0, retry(120_000, category)),
            ("120", u64::MAX, retry(121_000, category)),
            ("1.5", 0, retry(1_500, category)),
            ("Mon, 30 Nov 2026 12:02:00 GMT", 0, retry(120_000, category)),
            ("Mon, 30 Nov 2020 12:02:00 GMT", u64::MAX, retry(1_000, category)),
            ("soon", u64::MAX, retry(1_000, category)),
            // The deadline is in an hour; the last try leaves 10 s for itself.
            ("3600", 0, retry(HOUR - 10_000, category)),
            ("99999999999999999999999999", 0, retry(HOUR - 10_000, category)),
            // Only the jitter would pass the deadline.
            ("3599", u64::MAX, retry(3_599_000, category)),
        ] {
            let got = next(&RetryPolicy::last_route(), &attempted(1), asking(503, value), NOW, WALL, random);
            assert_eq!(got, want, "{value}");
        }
        // What the endpoint says replaces the throttle floor.
        assert_eq!(after(asking(429, "2")), retry(3_000, Category::Http4xx));
        // No time is left for a last try.
        let short = Attempted { attempts: 1, first_attempt_at: NOW, deadline: NOW + 10_000 };
        let got = next(&RetryPolicy::last_route(), &short, asking(503, "60"), NOW, WALL, 0);
        assert_eq!(got, ended(DeliveryState::Expired, category));
    }

    #[test]
    fn waiting_for_a_rate_limit_is_no_attempt() {
        assert_eq!(postpone(NOW + 5, NOW, NOW + 6), retry(5, Category::RateLimited));
        assert_eq!(postpone(NOW - 5, NOW, NOW + 6), retry(0, Category::RateLimited));
        assert_eq!(postpone(NOW + 6, NOW, NOW + 6), ended(DeliveryState::Expired, Category::RateLimited));
    }

    #[test]
    fn the_shortest_life_counts() {
        let day = 86_400_000;
        for (ttl, route, want) in [
            (None, None, day),
            (Some(60_000), None, 60_000),
            (Some(60_000), Some(5_000), 5_000),
            (None, Some(5_000), 5_000),
            (Some(u64::MAX), Some(u64::MAX), day),
            (Some(0), None, 0),
        ] {
            assert_eq!(deadline(NOW, ttl, route), NOW + want);
        }
        assert_eq!(deadline(i64::MAX, None, None), i64::MAX);
    }

    proptest! {
        #[test]
        fn whatever_happens_the_next_try_lies_between_now_and_the_deadline(
            status: u16, retry_after in proptest::option::of("[0-9]{1,25}|-?[0-9.]{1,6}|.{0,8}"), failed: bool,
            attempts: u32, first: i64, deadline: i64, now: i64, wall: i64, random: u64, successor: bool,
        ) {
            let policy = if successor { RetryPolicy::with_successor() } else { RetryPolicy::last_route() };
            let outcome = match failed {
                true => AttemptOutcome::Failed(Category::Timeout),
                false => AttemptOutcome::Response { status, retry_after: retry_after.as_deref() },
            };
            let attempted = Attempted { attempts, first_attempt_at: first, deadline };
            match next(&policy, &attempted, outcome, now, wall, random) {
                Next::Delivered => prop_assert!(!failed && (200..300).contains(&status)),
                Next::RetryAt { at, .. } => {
                    prop_assert!(now <= at && at < deadline);
                    prop_assert!(attempts < policy.max_attempts);
                }
                Next::Final { state, disable_endpoint, .. } => {
                    prop_assert!(matches!(state, DeliveryState::Dead | DeliveryState::Expired));
                    prop_assert_eq!(disable_endpoint, !failed && status == 410);
                }
            }
        }

        #[test]
        fn a_plain_retry_stays_under_its_ceiling(attempts in 1..12_u32, random: u64) {
            let far = Attempted { deadline: NOW + 24 * HOUR, ..attempted(attempts) };
            let got = next(&RetryPolicy::last_route(), &far, response(500), NOW, WALL, random);
            let Next::RetryAt { at, .. } = got else { return Err(TestCaseError::fail(format!("{got:?}"))) };
            prop_assert!(at - NOW <= 1_000 << (attempts - 1));
        }
    }
}
