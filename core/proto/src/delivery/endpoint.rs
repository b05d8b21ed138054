//! An endpoint: how it is named, what is known of whether it wants webhooks, and how that changes.
//!
//! An endpoint is named by principal *and* exact URL: what one principal proved never serves another (SEP-3415 "Endpoint
//! verification", cached per (principal, url)).

use core::fmt;

use sha2::{Digest, Sha256};

/// Names an endpoint: the SHA-256 of the kind of route, the principal and the exact URL (or name). Not the truncated
/// hash: somebody who owns one URL must not find another one with the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointKey(pub [u8; 32]);

impl EndpointKey {
    /// The key of `target` for `principal`, byte for byte as they were written.
    pub fn new(kind: &str, principal: &str, target: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [kind, principal, target] {
            // The length tells where a part ends, so that no two lists of parts read the same.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self(hash.finalize().into())
    }
}

impl fmt::Debug for EndpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointKey({self})")
    }
}

/// The first eight bytes in hex: enough for a log.
impl fmt::Display for EndpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Whether an endpoint is sent anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndpointState {
    /// It has not shown that it wants webhooks, or that was too long ago. Deliveries wait.
    Unverified,
    /// It has, or the operator vouches for it.
    Verified,
    /// It said that it is gone (410), or took nothing for too long. Deliveries are given up at once.
    Disabled,
}

/// What happens to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndpointEvent {
    /// It showed that it wants webhooks.
    Prove,
    /// It was asked, and did not.
    Refuse,
    /// Its proof is too old.
    Lapse,
    /// It is given up.
    Disable,
}

/// Every transition: (from, event, to). There is one for each pair.
pub const ENDPOINT_TRANSITIONS: &[(EndpointState, EndpointEvent, EndpointState)] = {
    use EndpointEvent as E;
    use EndpointState as S;
    &[
        (S::Unverified, E::Prove, S::Verified),
        (S::Unverified, E::Refuse, S::Unverified),
        (S::Unverified, E::Lapse, S::Unverified),
        (S::Unverified, E::Disable, S::Disabled),
        (S::Verified, E::Prove, S::Verified),
        // A renewal that failed; the old proof still holds.
        (S::Verified, E::Refuse, S::Verified),
        (S::Verified, E::Lapse, S::Unverified),
        (S::Verified, E::Disable, S::Disabled),
        (S::Disabled, E::Prove, S::Verified),
        (S::Disabled, E::Refuse, S::Disabled),
        (S::Disabled, E::Lapse, S::Disabled),
        (S::Disabled, E::Disable, S::Disabled),
    ]
};

/// The state after `event`, by [`ENDPOINT_TRANSITIONS`].
pub fn endpoint_step(state: EndpointState, event: EndpointEvent) -> EndpointState {
    let row = ENDPOINT_TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (state, event));
    row.map_or(state, |(_, _, to)| *to)
}

/// How an endpoint came to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Proof {
    /// It echoed a signed challenge.
    Challenge,
    /// Its origin publishes that it takes webhooks there.
    WellKnown,
    /// The operator named it.
    AllowList,
    /// The operator is content with the address rules.
    Address,
}

/// Why an endpoint is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DisableReason {
    /// It answered 410.
    Gone,
    /// It took nothing for too long.
    Failing,
    /// It refused to be verified too often.
    Unverified,
    /// The operator did it.
    Operator,
}

impl EndpointState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Unverified, Self::Verified, Self::Disabled];

    /// The stable text that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Verified => "verified",
            Self::Disabled => "disabled",
        }
    }

    /// The state of a stored text, or none.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl EndpointEvent {
    /// Every event.
    pub const ALL: [Self; 4] = [Self::Prove, Self::Refuse, Self::Lapse, Self::Disable];

    /// A stable text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prove => "prove",
            Self::Refuse => "refuse",
            Self::Lapse => "lapse",
            Self::Disable => "disable",
        }
    }
}

impl Proof {
    /// Every proof.
    pub const ALL: [Self; 4] = [Self::Challenge, Self::WellKnown, Self::AllowList, Self::Address];

    /// The stable text that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::WellKnown => "well_known",
            Self::AllowList => "allow_list",
            Self::Address => "address",
        }
    }

    /// The proof of a stored text, or none.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proof| proof.as_str() == text)
    }

    /// Whether it is the operator's word rather than the endpoint's.
    pub const fn is_trust(self) -> bool {
        matches!(self, Self::AllowList | Self::Address)
    }
}

impl DisableReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Gone, Self::Failing, Self::Unverified, Self::Operator];

    /// The stable text that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Failing => "failing",
            Self::Unverified => "unverified",
            Self::Operator => "operator",
        }
    }

    /// The reason of a stored text, or none.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for EndpointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_one_row_and_the_rows_say_so() {
        let grid: Vec<String> = EndpointState::ALL
            .map(|state| EndpointEvent::ALL.map(|event| endpoint_step(state, event).as_str()).join(" "))
            .to_vec();
        assert_eq!(
            grid,
            [
                "verified unverified unverified disabled",
                "verified verified unverified disabled",
                "verified disabled disabled disabled",
            ]
        );
        assert_eq!(ENDPOINT_TRANSITIONS.len(), 12);
    }

    #[test]
    fn a_key_is_of_kind_principal_and_exact_url() {
        let key = EndpointKey::new("webhook", "p", "https://a/x");
        assert_eq!(key, EndpointKey::new("webhook", "p", "https://a/x"));
        for other in
            [("webhook", "q", "https://a/x"), ("webhook", "p", "https://a/x/"), ("webhookp", "", "https://a/x")]
        {
            assert_ne!(key, EndpointKey::new(other.0, other.1, other.2));
        }
        assert_ne!(EndpointKey::new("w", "ab", "c"), EndpointKey::new("w", "a", "bc"));
    }

    #[test]
    fn texts_are_read_back() {
        assert_eq!(EndpointState::ALL.map(EndpointState::as_str).join(" "), "unverified verified disabled");
        for state in EndpointState::ALL {
            assert_eq!(EndpointState::from_text(state.as_str()), Some(state));
        }
        for proof in Proof::ALL {
            assert_eq!(Proof::from_text(proof.as_str()), Some(proof));
        }
        for reason in DisableReason::ALL {
            assert_eq!(DisableReason::from_text(reason.as_str()), Some(reason));
        }
        assert_eq!(Proof::from_text("Address"), None);
    }
}
