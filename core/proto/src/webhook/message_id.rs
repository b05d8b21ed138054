//! Which texts may stand in `webhook-id`.

use core::fmt;

/// The longest message id, in bytes.
pub const MAX_MESSAGE_ID_BYTES: usize = 256;

/// Why a text is no message id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageIdFault {
    /// The empty text.
    Empty,
    /// Longer than [`MAX_MESSAGE_ID_BYTES`].
    TooLong,
    /// Holds a dot. The signed content is joined with dots: with one in the id, the same signature would cover another
    /// id with another timestamp.
    Dot {
        /// Where it stands, in bytes from the front.
        at: usize,
    },
    /// Holds something other than visible ASCII: a blank, CR, LF or another control character, or non-ASCII.
    Character {
        /// Where it stands, in bytes from the front.
        at: usize,
    },
}

impl fmt::Display for MessageIdFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a message id must not be empty"),
            Self::TooLong => write!(f, "a message id must not be longer than {MAX_MESSAGE_ID_BYTES} bytes"),
            Self::Dot { at } => write!(f, "a message id must not hold a dot (byte {at}): the signed content uses it"),
            Self::Character { at } => write!(f, "a message id must be visible ASCII (byte {at} is not)"),
        }
    }
}

impl core::error::Error for MessageIdFault {}

/// Checks a `webhook-id`: 1 to 256 bytes of visible ASCII without a dot (Standard Webhooks, "Signature scheme"; RFC
/// 9110 5.5 for what a header carries unchanged).
///
/// # Errors
/// [`MessageIdFault`] with the first rule that is broken.
pub fn check_message_id(id: &str) -> Result<(), MessageIdFault> {
    if id.is_empty() {
        return Err(MessageIdFault::Empty);
    }
    if id.len() > MAX_MESSAGE_ID_BYTES {
        return Err(MessageIdFault::TooLong);
    }
    match id.bytes().enumerate().find(|(_, b)| *b == b'.' || !b.is_ascii_graphic()) {
        None => Ok(()),
        Some((at, b'.')) => Err(MessageIdFault::Dot { at }),
        Some((at, _)) => Err(MessageIdFault::Character { at }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_header_safe_text_without_dots() {
        for id in ["msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "evt_1", "a", "!~", &"x".repeat(256)] {
            assert_eq!(check_message_id(id), Ok(()), "{id}");
        }
        for (id, want) in [
            ("", MessageIdFault::Empty),
            (&*"x".repeat(257), MessageIdFault::TooLong),
            ("evt.1", MessageIdFault::Dot { at: 3 }),
            ("a b", MessageIdFault::Character { at: 1 }),
            ("a\r\nX-Admin: 1", MessageIdFault::Character { at: 1 }),
            ("a\n", MessageIdFault::Character { at: 1 }),
            ("a\0", MessageIdFault::Character { at: 1 }),
            ("\u{e9}", MessageIdFault::Character { at: 0 }),
            ("a\u{7f}", MessageIdFault::Character { at: 1 }),
        ] {
            assert_eq!(check_message_id(id), Err(want), "{id:?}");
        }
    }
}
