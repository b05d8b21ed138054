//! Several firings in one request.
//!
//! Neither SEP-992 nor Standard Webhooks knows of batches, so the form is our own: an object with one member, which holds
//! the bodies as they would have gone out alone, in the order in which they fired. A route that batches always gets this
//! form, also for a single firing, so that a receiver reads one form only.

use sha2::{Digest, Sha256};

use crate::id::BatchId;
use crate::wire::tidings::BATCH_EVENTS;

/// What a batch adds to the bodies in it, besides a comma between two of them: `{"events":[` and `]}`.
pub const BATCH_FRAME_BYTES: usize = BATCH_EVENTS.len() + 7;

/// The body of a batch: the bytes to sign and send. `bodies` stay byte for byte what they are.
pub fn batch_body<'b>(bodies: impl IntoIterator<Item = &'b [u8]>) -> Vec<u8> {
    let mut out = format!(r#"{{"{BATCH_EVENTS}":["#).into_bytes();
    for (index, body) in bodies.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(body);
    }
    out.extend_from_slice(b"]}");
    out
}

/// The `webhook-id` of a batch. It follows from the ids of the firings and their order, so that the same firings have the
/// same id on every attempt and others never have it: the first 128 bits of the SHA-256 of the ids' texts, each with a line
/// feed after it, which no id holds.
pub fn batch_id<'i>(event_ids: impl IntoIterator<Item = &'i str>) -> BatchId {
    let mut hash = Sha256::new();
    for id in event_ids {
        hash.update(id.as_bytes());
        hash.update(b"\n");
    }
    let digest: [u8; 32] = hash.finalize().into();
    let (bits, _) = digest.split_at(16);
    BatchId::from_bytes(bits.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_stay_what_they_are() {
        assert_eq!(batch_body([&b"{\"n\":1.0}"[..], b"{\"n\": 2}"]), b"{\"events\":[{\"n\":1.0},{\"n\": 2}]}");
        assert_eq!(batch_body([&b"{}"[..]]), b"{\"events\":[{}]}", "one alone has the same form");
        assert_eq!(batch_body([&b"{}"[..]]).len(), 2 + BATCH_FRAME_BYTES);
        assert_eq!(batch_body([&b"{}"[..], b"{}", b"{}"]).len(), 6 + 2 + BATCH_FRAME_BYTES);
    }

    #[test]
    fn an_id_is_that_of_its_firings_in_their_order() {
        let of = |ids: &[&str]| batch_id(ids.iter().copied());
        assert_eq!(of(&["evt_1", "evt_2"]), of(&["evt_1", "evt_2"]));
        for other in [&["evt_2", "evt_1"][..], &["evt_1"], &["evt_1", "evt_2", "evt_3"], &["evt_1evt_2"]] {
            assert_ne!(of(other), of(&["evt_1", "evt_2"]), "{other:?}");
        }
    }
}
