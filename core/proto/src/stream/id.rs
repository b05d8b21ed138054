//! Random 128-bit ids and their text.

use core::fmt;

use crate::id::base32::{decode, encode};

/// The random identity of one stream. Drawn by whoever creates the stream; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub [u8; 16]);

/// The text was not one that [`encode_id`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedId;

impl fmt::Display for MalformedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id is 26 characters of 0-9 and a-z without i, l, o and u")
    }
}

impl core::error::Error for MalformedId {}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_id(self.0))
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({self})")
    }
}

/// Writes 128 bits as 26 characters, most significant first, so that text order is byte order.
pub fn encode_id(id: [u8; 16]) -> String {
    encode(u128::from_be_bytes(id)).iter().map(|digit| char::from(*digit)).collect()
}

/// Reads what [`encode_id`] wrote; anything else, upper case included, is malformed: one id has one text.
pub fn decode_id(text: &str) -> Result<[u8; 16], MalformedId> {
    decode(text.as_bytes()).map(u128::to_be_bytes).map_err(|_| MalformedId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_texts() {
        assert_eq!(encode_id([0; 16]), "00000000000000000000000000");
        assert_eq!(encode_id([255; 16]), "7zzzzzzzzzzzzzzzzzzzzzzzzz");
        let mut one = [0; 16];
        one[15] = 33; // 32 + 1
        assert_eq!(encode_id(one), "00000000000000000000000011");
    }

    #[test]
    fn refuses_other_texts() {
        for bad in ["", "0", "80000000000000000000000000", "0000000000000000000000000i", "0000000000000000000000000Z"] {
            assert_eq!(decode_id(bad), Err(MalformedId), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_and_back(id: [u8; 16]) {
            prop_assert_eq!(decode_id(&encode_id(id)), Ok(id));
        }

        #[test]
        fn never_panics(text in ".{0,40}") {
            if let Ok(id) = decode_id(&text) {
                prop_assert_eq!(encode_id(id), text);
            }
        }
    }
}
