//! The cursor of a body as a watermark: a receiver that keeps it may go on from there after whatever comes to it, and
//! misses nothing (SEP-3415 "Cursors": a delivery's cursor must not pass an event that was neither taken nor given up).

use crate::stream::Cursor;

/// What stands before the cursor at the end of a body that [`Body`](super::Body) made.
const BEFORE: &[u8] = b",\"cursor\":\"";
/// And after it.
const AFTER: &[u8] = b"\"}";

/// A body whose cursor is not beyond `next`, the number of the first event of its stream that may still be undelivered.
/// `None`: the body is that already, or has no cursor.
pub fn lower_cursor(body: &[u8], next: u64) -> Option<Vec<u8>> {
    let text = body.strip_suffix(AFTER)?;
    // A cursor holds no quotation mark.
    let at = text.iter().rposition(|byte| *byte == b'"')? + 1;
    let (head, text) = text.split_at_checked(at)?;
    if !head.ends_with(BEFORE) {
        return None;
    }
    let cursor = Cursor::parse(core::str::from_utf8(text).ok()?).ok()?;
    let lower = Cursor { next, ..cursor };
    (next < cursor.next).then(|| [head, lower.to_string().as_bytes(), AFTER].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00000000000000000000000011";

    fn body(next: &str) -> String {
        format!(r#"{{"eventId":"e","data":{{"cursor":"{ID}.1.2.900"}},"cursor":"{ID}.1.2.{next}"}}"#)
    }

    #[test]
    fn only_the_last_cursor_is_lowered_and_never_raised() {
        assert_eq!(lower_cursor(body("40").as_bytes(), 7), Some(body("7").into_bytes()));
        assert_eq!(lower_cursor(body("40").as_bytes(), 0), Some(body("0").into_bytes()), "the very start");
        assert_eq!(lower_cursor(body("40").as_bytes(), 40), None);
        assert_eq!(lower_cursor(body("40").as_bytes(), 41), None);
    }

    #[test]
    fn what_has_no_cursor_of_ours_stays() {
        for body in [
            "",
            "{}",
            "\"}",
            r#"{"data":{"x":1}}"#,
            r#"{"data":{"cursor":"00000000000000000000000011.1.2.40"}}"#,
            r#"{"data":1,"cursor":"elsewhere"}"#,
            r#"{"data":1,"cursor":"00000000000000000000000011.1.2.40","x":1}"#,
            r#"{"data":1,"kursor":"00000000000000000000000011.1.2.40"}"#,
        ] {
            assert_eq!(lower_cursor(body.as_bytes(), 0), None, "{body}");
        }
    }
}
