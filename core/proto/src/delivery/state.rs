//! The life of a delivery.

use core::fmt;

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeliveryState {
    /// Never leased; waits for its time, for its endpoint to be verified, or for a worker.
    Pending,
    /// A worker holds the lease and may be sending.
    Leased,
    /// Was leased before and waits for its next time.
    Retrying,
    /// The endpoint took it. Final.
    Delivered,
    /// Given up while there was still time, and no other route wants it; kept as a dead letter. Final: sending a dead
    /// letter again makes a new delivery.
    Dead,
    /// The deadline passed before it was delivered. Final.
    Expired,
    /// Given up on this route for another delivery that took its place: the same firing over the next route. Final.
    Superseded,
}

/// What happens to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeliveryEvent {
    /// A worker takes it.
    Lease,
    /// The endpoint answered 2xx.
    Acknowledge,
    /// The attempt failed and another one is due later.
    Retry,
    /// The worker gives it back without an attempt: rate limit, concurrency cap, open breaker, shutdown.
    Defer,
    /// The lease ran out. An attempt may have been made, so the endpoint may see it twice.
    LoseLease,
    /// Given up: attempts or window used up, a final status, or the endpoint was disabled.
    GiveUp,
    /// The deadline passed.
    Expire,
    /// Another delivery takes its place. While it is leased, only its own worker may say so.
    Supersede,
}

/// Every legal transition: (from, event, to). What is not here is illegal.
pub const TRANSITIONS: &[(DeliveryState, DeliveryEvent, DeliveryState)] = {
    use DeliveryEvent as E;
    use DeliveryState as S;
    &[
        (S::Pending, E::Lease, S::Leased),
        (S::Pending, E::GiveUp, S::Dead),
        (S::Pending, E::Expire, S::Expired),
        (S::Pending, E::Supersede, S::Superseded),
        (S::Leased, E::Acknowledge, S::Delivered),
        (S::Leased, E::Retry, S::Retrying),
        (S::Leased, E::Defer, S::Retrying),
        (S::Leased, E::LoseLease, S::Retrying),
        (S::Leased, E::GiveUp, S::Dead),
        (S::Leased, E::Expire, S::Expired),
        (S::Leased, E::Supersede, S::Superseded),
        (S::Retrying, E::Lease, S::Leased),
        (S::Retrying, E::GiveUp, S::Dead),
        (S::Retrying, E::Expire, S::Expired),
        (S::Retrying, E::Supersede, S::Superseded),
    ]
};

/// An event that cannot happen in this state: a bug, or a worker that lost its lease and settles too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllegalStep {
    /// Where the delivery stood; it stays there.
    pub state: DeliveryState,
    /// What was to happen.
    pub event: DeliveryEvent,
}

impl fmt::Display for IllegalStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a delivery that is {} cannot {}", self.state.as_str(), self.event.as_str())
    }
}

impl core::error::Error for IllegalStep {}

/// The state after `event`, by [`TRANSITIONS`].
///
/// # Errors
/// [`IllegalStep`] when the table has no such row.
pub fn step(state: DeliveryState, event: DeliveryEvent) -> Result<DeliveryState, IllegalStep> {
    match TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (state, event)) {
        Some((_, _, to)) => Ok(*to),
        None => Err(IllegalStep { state, event }),
    }
}

impl DeliveryState {
    /// Every state.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Leased, Self::Retrying, Self::Delivered, Self::Dead, Self::Expired, Self::Superseded];

    /// The stable text that is stored and shown: `pending`, `leased` and so on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Retrying => "retrying",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
        }
    }

    /// The state of a stored text, or none.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing can happen any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Delivered | Self::Dead | Self::Expired | Self::Superseded)
    }
}

impl DeliveryEvent {
    /// Every event.
    pub const ALL: [Self; 8] = [
        Self::Lease,
        Self::Acknowledge,
        Self::Retry,
        Self::Defer,
        Self::LoseLease,
        Self::GiveUp,
        Self::Expire,
        Self::Supersede,
    ];

    /// A stable text for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Acknowledge => "acknowledge",
            Self::Retry => "retry",
            Self::Defer => "defer",
            Self::LoseLease => "lose_lease",
            Self::GiveUp => "give_up",
            Self::Expire => "expire",
            Self::Supersede => "supersede",
        }
    }
}

impl fmt::Display for DeliveryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole grid, one line a state, one column an event in the order of `DeliveryEvent::ALL`; `-` is illegal.
    const GRID: [(&str, [&str; 8]); 7] = [
        ("pending", ["leased", "-", "-", "-", "-", "dead", "expired", "superseded"]),
        ("leased", ["-", "delivered", "retrying", "retrying", "retrying", "dead", "expired", "superseded"]),
        ("retrying", ["leased", "-", "-", "-", "-", "dead", "expired", "superseded"]),
        ("delivered", ["-"; 8]),
        ("dead", ["-"; 8]),
        ("expired", ["-"; 8]),
        ("superseded", ["-"; 8]),
    ];

    #[test]
    fn every_pair_of_state_and_event_does_what_the_grid_says() {
        let mut legal = 0;
        for ((name, row), state) in GRID.into_iter().zip(DeliveryState::ALL) {
            assert_eq!(name, state.as_str());
            for (want, event) in row.into_iter().zip(DeliveryEvent::ALL) {
                match step(state, event) {
                    Ok(to) => {
                        assert_eq!(to.as_str(), want, "{state} {event:?}");
                        legal += 1;
                    }
                    Err(illegal) => {
                        assert_eq!(want, "-", "{state} {event:?}");
                        assert_eq!(illegal, IllegalStep { state, event });
                    }
                }
            }
        }
        assert_eq!(legal, TRANSITIONS.len(), "no row is hit twice or never");
    }

    #[test]
    fn final_states_are_those_without_a_way_out() {
        for state in DeliveryState::ALL {
            assert_eq!(state.is_final(), TRANSITIONS.iter().all(|(from, ..)| *from != state), "{state}");
        }
    }

    #[test]
    fn every_state_is_reached_from_pending() {
        let mut reached = vec![DeliveryState::Pending];
        let mut at = 0;
        while let Some(state) = reached.get(at).copied() {
            for (_, _, to) in TRANSITIONS.iter().filter(|(from, ..)| *from == state) {
                if !reached.contains(to) {
                    reached.push(*to);
                }
            }
            at += 1;
        }
        reached.sort();
        assert_eq!(reached, DeliveryState::ALL);
    }

    #[test]
    fn texts_are_read_back_and_tell_what_went_wrong() {
        for state in DeliveryState::ALL {
            assert_eq!(DeliveryState::from_text(state.as_str()), Some(state));
        }
        assert_eq!(DeliveryState::from_text("Pending"), None);
        let late = step(DeliveryState::Retrying, DeliveryEvent::Acknowledge).unwrap_err();
        assert_eq!(late.to_string(), "a delivery that is retrying cannot acknowledge");
    }
}
