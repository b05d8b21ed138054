//! The standing of one endpoint with one principal: what was learned of it, and whether it may be tried now.

use super::attempt::Category;
use super::backoff::{ceiling_ms, jittered_ms};
use super::breaker::{BreakerPolicy, BreakerState, Health};
use super::endpoint::{DisableReason, EndpointEvent, EndpointState, Proof, endpoint_step};
use crate::time::StoreMillis;

/// How endpoints are judged. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointPolicy {
    /// How long a challenge that was answered counts.
    pub proof_ms: u64,
    /// So many refused verifications in a row disable it.
    pub max_refusals: u32,
    /// The ceiling of the wait after the first refused verification; it doubles.
    pub refused_base_ms: u64,
    /// Never longer than this.
    pub refused_cap_ms: u64,
    /// When its breaker opens.
    pub breaker: BreakerPolicy,
    /// It is disabled when it took nothing for so long since its first failure …
    pub disable_after_ms: u64,
    /// … and failed at least so often in a row.
    pub disable_failures: u32,
    /// A disabled endpoint that is named again is not asked anew before this has passed.
    pub ask_again_ms: u64,
    /// A disabled endpoint that needs no proof is tried again when it is named after this.
    pub try_again_ms: u64,
}

impl Default for EndpointPolicy {
    fn default() -> Self {
        Self {
            proof_ms: 24 * 60 * 60 * 1_000,
            max_refusals: 12,
            refused_base_ms: 2_000,
            refused_cap_ms: 10 * 60 * 1_000,
            breaker: BreakerPolicy::default(),
            // A whole life of a delivery: nothing that was sent in it came through.
            disable_after_ms: super::MAX_LIFETIME_MS,
            disable_failures: 10,
            ask_again_ms: 60_000,
            try_again_ms: 60 * 60 * 1_000,
        }
    }
}

/// What is kept of an endpoint. A new one is [`Standing::default`]: unverified, and nobody asks it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether it is sent anything.
    pub state: EndpointState,
    /// How it was verified last.
    pub proof: Option<Proof>,
    /// When.
    pub proven_at: Option<StoreMillis>,
    /// The proof counts until this; none: as long as the operator says.
    pub proven_until: Option<StoreMillis>,
    /// Why and since when it is disabled.
    pub disabled: Option<(DisableReason, StoreMillis)>,
    /// When it has to be asked.
    pub verify_at: Option<StoreMillis>,
    /// Verifications refused in a row.
    pub refusals: u32,
    /// What came of its attempts.
    pub health: Health,
    /// The last failure, of an attempt or a verification.
    pub last_error: Option<Category>,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            state: EndpointState::Unverified,
            proof: None,
            proven_at: None,
            proven_until: None,
            disabled: None,
            verify_at: None,
            refusals: 0,
            health: Health::default(),
            last_error: None,
        }
    }
}

/// What is learned of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// A config named it, and it needs a proof of its own.
    NamedForProof,
    /// A config named it, and the operator trusts it ([`Proof::AllowList`] or [`Proof::Address`]).
    NamedTrusted(Proof),
    /// It passed verification; the proof counts until then.
    Proven(Proof, StoreMillis),
    /// It did not. `random` spreads the next try.
    Refused {
        /// What the try came to.
        category: Category,
        /// A fresh, evenly spread number.
        random: u64,
    },
    /// It took a delivery.
    Took,
    /// It did not take one.
    Failed(Category),
    /// It is to be disabled.
    Disable(DisableReason),
    /// The operator wants it to be tried again: verified anew where it needs a proof, else at once.
    Enable,
    /// Its proof has run out.
    Lapsed,
}

/// Whether deliveries may go to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// As far as its slots and rates allow.
    Open,
    /// Not before this: its breaker is open.
    At(StoreMillis),
    /// Not until it is verified.
    Unverified,
    /// Its proof has just run out: [`Learned::Lapsed`] has to be noted.
    Lapsed,
    /// Never: what waits is given up.
    Disabled,
}

impl Standing {
    /// Whether deliveries may go `now`.
    pub fn gate(&self, now: StoreMillis) -> Gate {
        match self.state {
            EndpointState::Unverified => Gate::Unverified,
            EndpointState::Disabled => Gate::Disabled,
            EndpointState::Verified if self.proven_until.is_some_and(|until| until <= now) => Gate::Lapsed,
            EndpointState::Verified => match self.health.breaker(now) {
                BreakerState::Open => Gate::At(self.health.open_until),
                BreakerState::Closed | BreakerState::HalfOpen => Gate::Open,
            },
        }
    }

    /// Whether it may be tried and nothing speaks for it ([`Health::is_suspect`]).
    pub fn is_suspect(&self) -> bool {
        self.state == EndpointState::Verified && self.health.is_suspect()
    }

    /// What is kept after something was learned `now`.
    #[must_use]
    pub fn learn(self, policy: &EndpointPolicy, learned: Learned, now: StoreMillis) -> Self {
        match learned {
            Learned::NamedForProof => self.named_for_proof(policy, now),
            Learned::NamedTrusted(proof) => self.named_trusted(policy, proof, now),
            Learned::Proven(proof, until) => self.proven(proof, now, Some(until)),
            Learned::Refused { category, random } => self.refused(policy, category, random, now),
            Learned::Took => Self { health: Health::succeeded(), last_error: None, ..self },
            Learned::Failed(category) => self.failed(policy, category, now),
            Learned::Disable(reason) => self.disable(reason, now),
            Learned::Enable => {
                let trusted = self.proof.is_some_and(Proof::is_trust);
                let state = if trusted { EndpointState::Verified } else { EndpointState::Unverified };
                let verify_at = (!trusted).then_some(now);
                Self { state, verify_at, disabled: None, refusals: 0, health: Health::default(), ..self }
            }
            Learned::Lapsed => {
                let state = endpoint_step(self.state, EndpointEvent::Lapse);
                Self { state, verify_at: self.verify_at.or(Some(now)), ..self }
            }
        }
    }

    fn named_for_proof(self, policy: &EndpointPolicy, now: StoreMillis) -> Self {
        let ask = |at: StoreMillis| Self { verify_at: Some(self.verify_at.unwrap_or(at)), ..self };
        match self.state {
            EndpointState::Unverified => ask(now),
            // It was trusted under other rules than today's.
            EndpointState::Verified if self.proof.is_some_and(Proof::is_trust) => {
                Self { state: EndpointState::Unverified, proof: None, proven_until: None, ..ask(now) }
            }
            EndpointState::Verified => match self.proven_until {
                // Renewed in the last quarter of its life, while the old proof still counts.
                Some(until) if until.saturating_sub(now) < (policy.proof_ms / 4).cast_signed() => ask(now),
                _ => self,
            },
            EndpointState::Disabled => {
                let since = self.disabled.map_or(now, |(_, since)| since);
                ask(since.saturating_add_unsigned(policy.ask_again_ms).max(now))
            }
        }
    }

    fn named_trusted(self, policy: &EndpointPolicy, proof: Proof, now: StoreMillis) -> Self {
        match self.state {
            // What it proved itself stays what it is known by.
            EndpointState::Verified => self,
            EndpointState::Unverified => self.proven(proof, now, None),
            EndpointState::Disabled => {
                let since = self.disabled.map_or(now, |(_, since)| since);
                let again = since.saturating_add_unsigned(policy.try_again_ms) <= now;
                if again { self.proven(proof, now, None) } else { self }
            }
        }
    }

    fn proven(self, proof: Proof, now: StoreMillis, until: Option<StoreMillis>) -> Self {
        let was_disabled = self.state == EndpointState::Disabled;
        Self {
            state: endpoint_step(self.state, EndpointEvent::Prove),
            proof: Some(proof),
            proven_at: Some(now),
            proven_until: until,
            disabled: None,
            verify_at: None,
            refusals: 0,
            health: if was_disabled { Health::default() } else { self.health },
            last_error: if self.health.failures == 0 { None } else { self.last_error },
        }
    }

    fn refused(self, policy: &EndpointPolicy, category: Category, random: u64, now: StoreMillis) -> Self {
        let refusals = self.refusals.saturating_add(1);
        let state = endpoint_step(self.state, EndpointEvent::Refuse);
        let next = Self { state, refusals, last_error: Some(category), ..self };
        // A disabled one was asked because it was named again; it is asked once for that.
        if state == EndpointState::Disabled {
            return Self { verify_at: None, disabled: self.disabled.map(|(why, _)| (why, now)), ..next };
        }
        if refusals >= policy.max_refusals {
            let given_up = Self { verify_at: None, ..next };
            return if state == EndpointState::Unverified {
                given_up.disable(DisableReason::Unverified, now)
            } else {
                given_up
            };
        }
        let ceiling = ceiling_ms(policy.refused_base_ms, policy.refused_cap_ms, refusals);
        // Half of it for certain: a challenge is no free way to make us knock at somebody's door.
        let wait = ceiling / 2 + jittered_ms(ceiling - ceiling / 2, random);
        Self { verify_at: Some(now.saturating_add_unsigned(wait)), ..next }
    }

    fn failed(self, policy: &EndpointPolicy, category: Category, now: StoreMillis) -> Self {
        let health = self.health.failed(&policy.breaker, now);
        let next = Self { health, last_error: Some(category), ..self };
        let long =
            health.failing_since.is_some_and(|since| since.saturating_add_unsigned(policy.disable_after_ms) <= now);
        if long && health.failures >= policy.disable_failures {
            next.disable(DisableReason::Failing, now)
        } else {
            next
        }
    }

    fn disable(self, reason: DisableReason, now: StoreMillis) -> Self {
        if self.state == EndpointState::Disabled {
            return self;
        }
        let state = endpoint_step(self.state, EndpointEvent::Disable);
        Self { state, disabled: Some((reason, now)), verify_at: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: StoreMillis = 1_000_000_000;
    const DAY: i64 = 86_400_000;

    fn policy() -> EndpointPolicy {
        EndpointPolicy::default()
    }

    fn learn(standing: Standing, learned: Learned, now: StoreMillis) -> Standing {
        standing.learn(&policy(), learned, now)
    }

    fn challenged() -> Standing {
        let named = learn(Standing::default(), Learned::NamedForProof, NOW);
        learn(named, Learned::Proven(Proof::Challenge, NOW + DAY), NOW + 5)
    }

    #[test]
    fn a_new_endpoint_is_asked_at_once_and_opens_when_it_answers() {
        let named = learn(Standing::default(), Learned::NamedForProof, NOW);
        assert_eq!((named.gate(NOW), named.verify_at), (Gate::Unverified, Some(NOW)));
        let again = learn(named, Learned::NamedForProof, NOW + 9);
        assert_eq!(again, named, "being named twice asks once");
        let proven = challenged();
        assert_eq!((proven.gate(NOW + 5), proven.verify_at), (Gate::Open, None));
        assert_eq!(proven.gate(NOW + DAY - 1), Gate::Open);
        assert_eq!(proven.gate(NOW + DAY), Gate::Lapsed);
        let lapsed = learn(proven, Learned::Lapsed, NOW + DAY);
        assert_eq!((lapsed.gate(NOW + DAY), lapsed.verify_at), (Gate::Unverified, Some(NOW + DAY)));
    }

    #[test]
    fn a_proof_is_renewed_in_its_last_quarter() {
        let early = learn(challenged(), Learned::NamedForProof, NOW + DAY / 4 * 3 - 1);
        assert_eq!(early.verify_at, None);
        let late = learn(challenged(), Learned::NamedForProof, NOW + DAY / 4 * 3 + 1);
        assert_eq!((late.gate(NOW + DAY / 4 * 3 + 1), late.verify_at), (Gate::Open, Some(NOW + DAY / 4 * 3 + 1)));
        let refused = Learned::Refused { category: Category::ChallengeFailed, random: 0 };
        assert_eq!(learn(late, refused, NOW + DAY - 1).state, EndpointState::Verified, "the old proof still counts");
    }

    #[test]
    fn the_operators_word_ends_with_the_rules_that_gave_it() {
        let trusted = learn(Standing::default(), Learned::NamedTrusted(Proof::Address), NOW);
        assert_eq!((trusted.gate(NOW + 400 * DAY), trusted.proof), (Gate::Open, Some(Proof::Address)));
        let strict = learn(trusted, Learned::NamedForProof, NOW + 1);
        assert_eq!((strict.gate(NOW + 1), strict.verify_at, strict.proof), (Gate::Unverified, Some(NOW + 1), None));
        let lenient = learn(challenged(), Learned::NamedTrusted(Proof::Address), NOW + 9);
        assert_eq!(lenient.proof, Some(Proof::Challenge), "what it proved itself is not forgotten");
    }

    #[test]
    fn refusals_wait_longer_each_time_and_end() {
        let mut standing = learn(Standing::default(), Learned::NamedForProof, NOW);
        let mut waits = Vec::new();
        for _ in 1..12 {
            standing = learn(standing, Learned::Refused { category: Category::ChallengeFailed, random: u64::MAX }, NOW);
            waits.push((standing.verify_at.unwrap() - NOW) / 1_000);
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        let least =
            learn(Standing::default(), Learned::Refused { category: Category::ChallengeFailed, random: 0 }, NOW);
        assert_eq!(least.verify_at, Some(NOW + 1_000), "half of the ceiling at least");
        standing = learn(standing, Learned::Refused { category: Category::Timeout, random: 0 }, NOW + 1);
        assert_eq!(standing.disabled, Some((DisableReason::Unverified, NOW + 1)));
        assert_eq!((standing.gate(NOW + 1), standing.verify_at), (Gate::Disabled, None));
        assert_eq!(standing.last_error, Some(Category::Timeout));
    }

    #[test]
    fn gone_is_disabled_until_it_is_verified_again() {
        let gone = learn(challenged(), Learned::Disable(DisableReason::Gone), NOW + 10);
        assert_eq!((gone.gate(NOW + 10), gone.disabled), (Gate::Disabled, Some((DisableReason::Gone, NOW + 10))));
        let twice = learn(gone, Learned::Disable(DisableReason::Failing), NOW + 20);
        assert_eq!(twice, gone, "the first reason stands");
        let named = learn(gone, Learned::NamedForProof, NOW + 20);
        assert_eq!((named.gate(NOW + 20), named.verify_at), (Gate::Disabled, Some(NOW + 60_010)), "not asked at once");
        let refused = learn(named, Learned::Refused { category: Category::ChallengeFailed, random: 1 }, NOW + 60_010);
        assert_eq!((refused.gate(NOW + 60_010), refused.verify_at), (Gate::Disabled, None));
        let back = learn(named, Learned::Proven(Proof::Challenge, NOW + DAY), NOW + 60_010);
        assert_eq!((back.gate(NOW + 60_010), back.disabled, back.health), (Gate::Open, None, Health::default()));
    }

    #[test]
    fn without_a_proof_a_disabled_endpoint_is_tried_again_after_an_hour() {
        let trusted = learn(Standing::default(), Learned::NamedTrusted(Proof::Address), NOW);
        let gone = learn(trusted, Learned::Disable(DisableReason::Gone), NOW);
        assert_eq!(learn(gone, Learned::NamedTrusted(Proof::Address), NOW + 3_599_999).gate(NOW), Gate::Disabled);
        assert_eq!(learn(gone, Learned::NamedTrusted(Proof::Address), NOW + 3_600_000).gate(NOW), Gate::Open);
    }

    #[test]
    fn a_day_without_a_success_disables() {
        let mut standing = challenged();
        let mut now = NOW;
        while standing.state == EndpointState::Verified && standing.health.failures < 200 {
            standing = learn(standing, Learned::Failed(Category::Timeout), now);
            if standing.state == EndpointState::Verified {
                now = now.max(standing.health.open_until) + 1_000;
            }
        }
        assert_eq!(standing.disabled.map(|(why, _)| why), Some(DisableReason::Failing));
        assert!(now - NOW >= DAY && now - NOW < DAY + 1_900_000, "{}", now - NOW);
        let short = EndpointPolicy { disable_after_ms: 0, ..policy() };
        let mut standing = challenged();
        for n in 1..=10 {
            assert_eq!(standing.state, EndpointState::Verified, "before failure {n}");
            standing = Standing { health: Health { open_until: 0, ..standing.health }, ..standing };
            standing = standing.learn(&short, Learned::Failed(Category::Http5xx), NOW);
        }
        assert_eq!(standing.state, EndpointState::Disabled, "not by time alone");
    }

    #[test]
    fn a_success_forgives() {
        let mut standing = challenged();
        for n in 0..5 {
            standing = learn(standing, Learned::Failed(Category::Http5xx), NOW + n);
        }
        assert_eq!(standing.gate(NOW + 10), Gate::At(NOW + 30_004));
        let good = learn(standing, Learned::Took, NOW + 30_004);
        assert_eq!((good.gate(NOW + 30_004), good.health, good.last_error), (Gate::Open, Health::succeeded(), None));
    }

    #[test]
    fn the_operator_may_enable() {
        let gone = learn(challenged(), Learned::Disable(DisableReason::Operator), NOW);
        let asked = learn(gone, Learned::Enable, NOW + 1);
        assert_eq!((asked.gate(NOW + 1), asked.verify_at), (Gate::Unverified, Some(NOW + 1)));
        let trusted = learn(Standing::default(), Learned::NamedTrusted(Proof::AllowList), NOW);
        let gone = learn(trusted, Learned::Disable(DisableReason::Gone), NOW);
        assert_eq!(learn(gone, Learned::Enable, NOW + 1).gate(NOW + 1), Gate::Open);
    }
}
