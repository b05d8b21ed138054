//! The receiving side as a whole: genuine, each webhook once, challenges answered.

use std::collections::{BTreeMap, VecDeque};

use super::challenge::challenge_answer;
use super::secret::Secret;
use super::verify::{DEFAULT_TOLERANCE_SECS, Received, VerifyError, verify};

/// A window over the webhooks that were handled: so many, each for so long.
#[derive(Clone, Debug)]
pub struct Seen {
    capacity: usize,
    ttl_secs: i64,
    at: BTreeMap<String, i64>,
    /// Oldest first; one that was added again stands here twice, and counts by the later time.
    order: VecDeque<(i64, String)>,
}

impl Seen {
    /// A window over at most `capacity` ids, each for `ttl_secs`: at least as long as senders try again, which Tidings does for
    /// 24 hours.
    pub fn new(capacity: usize, ttl_secs: u64) -> Self {
        let ttl_secs = i64::try_from(ttl_secs).unwrap_or(i64::MAX);
        Self { capacity: capacity.max(1), ttl_secs, at: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Whether that one was handled within the window.
    pub fn has(&mut self, id: &str, now_secs: i64) -> bool {
        self.forget(now_secs);
        self.at.contains_key(id)
    }

    /// That one was handled.
    pub fn add(&mut self, id: &str, now_secs: i64) {
        self.at.insert(id.to_owned(), now_secs);
        self.order.push_back((now_secs, id.to_owned()));
        self.forget(now_secs);
    }

    /// How many ids are in the window.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Nothing was handled within the window.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    fn forget(&mut self, now_secs: i64) {
        while let Some((at, id)) = self.order.front() {
            let newest = self.at.get(id) == Some(at);
            let over = self.at.len() > self.capacity || now_secs.saturating_sub(*at) >= self.ttl_secs;
            if newest && !over {
                return;
            }
            if newest {
                self.at.remove(id);
            }
            self.order.pop_front();
        }
    }
}

impl Default for Seen {
    /// 100,000 ids for two days.
    fn default() -> Self {
        Self::new(100_000, 2 * 86_400)
    }
}

/// What a genuine request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// The sender asks whether this URL wants its webhooks: answer 200 with this JSON text.
    Challenge(String),
    /// A webhook to handle. When that is done, [`Receiver::handled`], and answer 204; when it failed, 500, and it comes again.
    New {
        /// The `webhook-id`: the same on every attempt and every route.
        id: &'a str,
    },
    /// It was handled before: answer 204.
    Handled,
}

/// Receives the webhooks of one sender.
#[derive(Clone, Debug)]
pub struct Receiver {
    secrets: Vec<Secret>,
    /// How far a timestamp may be off, in seconds.
    pub tolerance_secs: u64,
    seen: Seen,
}

impl Receiver {
    /// A receiver with the sender's secrets: two while one replaces the other.
    pub fn new(secrets: Vec<Secret>, seen: Seen) -> Self {
        Self { secrets, tolerance_secs: DEFAULT_TOLERANCE_SECS, seen }
    }

    /// Judges one request by its headers and its raw body; `now_secs` is the wall clock.
    ///
    /// # Errors
    /// Why it is not to be trusted: answer 401 and nothing more.
    pub fn receive<'a>(
        &mut self,
        received: &Received<'a>,
        body: &[u8],
        now_secs: i64,
    ) -> Result<Incoming<'a>, VerifyError> {
        verify(&self.secrets, received, body, now_secs, self.tolerance_secs)?;
        if let Some(answer) = challenge_answer(body) {
            return Ok(Incoming::Challenge(answer));
        }
        let handled = self.seen.has(received.id, now_secs);
        Ok(if handled { Incoming::Handled } else { Incoming::New { id: received.id } })
    }

    /// That webhook was handled: from now on it is [`Incoming::Handled`].
    pub fn handled(&mut self, id: &str, now_secs: i64) {
        self.seen.add(id, now_secs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::sign;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const OTHER: &str = "whsec_HxAeHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgE=";
    const NOW: i64 = 1_767_225_600;

    fn secret(text: &str) -> Secret {
        Secret::parse(text).unwrap()
    }

    fn receiver() -> Receiver {
        Receiver::new(vec![secret(SECRET), secret(OTHER)], Seen::default())
    }

    fn receive<'a>(
        receiver: &mut Receiver,
        id: &'a str,
        body: &[u8],
        by: &str,
        now: i64,
    ) -> Result<Incoming<'a>, VerifyError> {
        let (timestamp, signature) = (now.to_string(), sign(&[secret(by)], id, now, body));
        // Only the id outlives this call.
        let received = Received { id, timestamp: &timestamp, signature: &signature };
        receiver.receive(&received, body, now).map(|incoming| match incoming {
            Incoming::New { .. } => Incoming::New { id },
            Incoming::Challenge(answer) => Incoming::Challenge(answer),
            Incoming::Handled => Incoming::Handled,
        })
    }

    #[test]
    fn each_is_new_until_it_was_handled() {
        let mut receiver = receiver();
        for by in [SECRET, OTHER] {
            assert_eq!(receive(&mut receiver, "evt_1", b"{}", by, NOW), Ok(Incoming::New { id: "evt_1" }));
        }
        receiver.handled("evt_1", NOW);
        assert_eq!(receive(&mut receiver, "evt_1", b"{}", SECRET, NOW + 60), Ok(Incoming::Handled));
        assert_eq!(receive(&mut receiver, "evt_2", b"{}", SECRET, NOW), Ok(Incoming::New { id: "evt_2" }));
    }

    #[test]
    fn only_a_signed_challenge_is_answered() {
        let body = br#"{"type":"verification","challenge":"n0nce"}"#;
        let answer = Incoming::Challenge(r#"{"challenge":"n0nce"}"#.to_owned());
        assert_eq!(receive(&mut receiver(), "evt_1", body, SECRET, NOW), Ok(answer));
        let theirs = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
        assert_eq!(receive(&mut receiver(), "evt_1", body, theirs, NOW), Err(VerifyError::Mismatch));
    }

    #[test]
    fn the_window_has_an_end() {
        let mut seen = Seen::new(2, 10);
        for (id, at) in [("a", 0), ("b", 1), ("c", 2)] {
            seen.add(id, at);
        }
        assert_eq!([seen.has("a", 2), seen.has("b", 2), seen.has("c", 2)], [false, true, true]);
        seen.add("b", 5);
        assert_eq!([seen.has("b", 11), seen.has("c", 11)], [true, true]);
        assert_eq!([seen.has("b", 12), seen.has("c", 12)], [true, false], "added again, it counts by the later time");
        assert!(!seen.has("b", 15));
        assert!(seen.is_empty());
        assert_eq!(seen.len(), 0);
    }
}
