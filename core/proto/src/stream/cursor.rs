//! The text that tells where a reader stands.

use core::fmt;

use super::MAX_SEQ;
use super::id::{StreamId, decode_id, encode_id};
use crate::id::base32::LENGTH as ID_TEXT;

/// Where a reader stands in a stream: it has all events before `next`.
///
/// Its text is opaque to clients, safe in HTTP headers, and holds no scope, session id or key: whoever resumes names
/// the scope, and the server checks it (a leaked cursor alone opens nothing).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The stream it is a place in.
    pub stream: StreamId,
    /// The history it was minted under.
    pub epoch: u32,
    /// The claim under which the event before `next` was numbered.
    pub claim: u32,
    /// The sequence number of the first event the reader does not have; 0 at the very start.
    pub next: u64,
}

/// The text is no cursor of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedCursor;

impl fmt::Display for MalformedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a cursor of this library")
    }
}

impl core::error::Error for MalformedCursor {}

impl Cursor {
    /// Where a reader stands that looked at a stream before it was: before its first event, whichever id it comes to have.
    /// All its bits are zero, which no drawn id is. It opens nothing that its scope and name do not.
    pub const ORIGIN: Self = Self { stream: StreamId([0; 16]), epoch: 0, claim: 0, next: 0 };

    /// Reads a cursor's text. Exactly the texts that [`Cursor`]'s `Display` writes are accepted, so one place has one text.
    pub fn parse(text: &str) -> Result<Self, MalformedCursor> {
        let (id, rest) = text.split_at_checked(ID_TEXT).ok_or(MalformedCursor)?;
        let mut parts = rest.strip_prefix('.').ok_or(MalformedCursor)?.split('.');
        let mut number = |max: u64| parts.next().and_then(canonical).filter(|n| *n <= max).ok_or(MalformedCursor);
        let epoch = number(u32::MAX.into())? as u32;
        let claim = number(u32::MAX.into())? as u32;
        let next = number(MAX_SEQ + 1)?;
        if parts.next().is_some() {
            return Err(MalformedCursor);
        }
        Ok(Self { stream: StreamId(decode_id(id).map_err(|_| MalformedCursor)?), epoch, claim, next })
    }

    /// The sequence number of the last event the reader has, if it has any.
    pub fn seq(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", encode_id(self.stream.0), self.epoch, self.claim, self.next)
    }
}

/// What all cursors minted under one claim share, written once: minting a cursor then costs one short copy.
#[derive(Clone, Debug)]
pub struct CursorPrefix(String);

impl CursorPrefix {
    /// The prefix of cursors into `stream` under `epoch` and `claim`.
    pub fn new(stream: StreamId, epoch: u32, claim: u32) -> Self {
        Self(format!("{}.{epoch}.{claim}.", encode_id(stream.0)))
    }

    /// Writes the text of the cursor whose reader has all events before `next` into `out`, replacing what it held.
    pub fn write(&self, next: u64, out: &mut String) {
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        let mut rest = next;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        out.clear();
        out.push_str(&self.0);
        out.extend(digits[at..].iter().map(|digit| char::from(*digit)));
    }

    /// The text of the cursor whose reader has all events before `next`.
    pub fn cursor(&self, next: u64) -> String {
        let mut out = String::with_capacity(self.0.len() + 20);
        self.write(next, &mut out);
        out
    }
}

/// A decimal number without sign, leading zeros or anything else.
fn canonical(text: &str) -> Option<u64> {
    let digits = text.as_bytes();
    let canonical =
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && (digits[0] != b'0' || digits.len() == 1);
    canonical.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "00000000000000000000000011";

    #[test]
    fn text_is_header_safe_and_holds_its_parts() {
        let mut id = [0; 16];
        id[15] = 33;
        let cursor = Cursor { stream: StreamId(id), epoch: 1, claim: 2, next: 40 };
        assert_eq!(cursor.to_string(), format!("{ID}.1.2.40"));
        assert_eq!(cursor.seq(), Some(39));
        assert_eq!(CursorPrefix::new(StreamId(id), 1, 2).cursor(40), cursor.to_string());
        assert_eq!(CursorPrefix::new(StreamId(id), 1, 2).cursor(0), format!("{ID}.1.2.0"));
    }

    /// Field case B14 and its kind: what is no cursor is refused, never guessed at.
    #[test]
    fn refuses_what_is_no_cursor() {
        let too_big = (MAX_SEQ + 2).to_string();
        for bad in [
            "".to_owned(),
            "abc".to_owned(),
            "-1".to_owned(),
            "42".to_owned(),
            "_GET_stream_1767225600123_ab12cd34".to_owned(),
            ID.to_owned(),
            format!("{ID}."),
            format!("{ID}.1.2"),
            format!("{ID}.1.2.3.4"),
            format!("{ID}.1.2."),
            format!("{ID}.1.2.-1"),
            format!("{ID}.1.2.+1"),
            format!("{ID}.1.2.01"),
            format!("{ID}.1.2.1e3"),
            format!("{ID}.1.2.\u{665}"),
            format!("{ID}.4294967296.2.3"),
            format!("{ID}.1.2.{too_big}"),
            format!("{ID}.1.2.99999999999999999999999"),
            format!(" {ID}.1.2.3"),
            format!("{ID}.1.2.3\n"),
            format!("é{ID}.1.2.3"),
        ] {
            assert_eq!(Cursor::parse(&bad), Err(MalformedCursor), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn text_and_back(id: [u8; 16], epoch: u32, claim: u32, next in 0..=MAX_SEQ + 1) {
            let cursor = Cursor { stream: StreamId(id), epoch, claim, next };
            let text = cursor.to_string();
            prop_assert_eq!(Cursor::parse(&text), Ok(cursor));
            prop_assert!(text.bytes().all(|b| (0x21..=0x7e).contains(&b)));
            prop_assert_eq!(CursorPrefix::new(cursor.stream, epoch, claim).cursor(next), text);
        }

        #[test]
        fn one_place_has_one_text(text in "[0-9a-z.]{0,60}") {
            if let Ok(cursor) = Cursor::parse(&text) {
                prop_assert_eq!(cursor.to_string(), text);
            }
        }
    }
}
