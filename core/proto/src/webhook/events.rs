//! What a webhook's body tells of: one firing, or those of a batch.

use serde_json::value::RawValue;

use crate::json::{self, Kind};
use crate::wire::tidings::BATCH_EVENTS;

/// What a receiver has in its hands is no JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoJson;

impl core::fmt::Display for NoJson {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the body of a webhook must be JSON text")
    }
}

impl core::error::Error for NoJson {}

/// The firings in a body, in the order in which they fired, byte for byte as they are in it: those of a batch (an object
/// with `events` and without an `eventId` of its own), else the body itself.
///
/// # Errors
/// [`NoJson`].
pub fn events(body: &[u8]) -> Result<Vec<&str>, NoJson> {
    let text = core::str::from_utf8(body).map_err(|_| NoJson)?;
    let whole = json::check(text).map_err(|_| NoJson)?.get();
    let (mut alone, mut listed) = (false, None);
    if Kind::of(whole) == Some(Kind::Object) {
        json::each_member(whole, |name, value| match name {
            b"eventId" => alone = true,
            name if name == BATCH_EVENTS.as_bytes() => listed = Some(value),
            _ => {}
        })
        .map_err(|_| NoJson)?;
    }
    match listed.filter(|value| !alone && Kind::of(value.get()) == Some(Kind::Array)) {
        Some(batch) => {
            let (elements, _) = json::elements(batch, usize::MAX).map_err(|_| NoJson)?;
            Ok(elements.into_iter().map(RawValue::get).collect())
        }
        None => Ok(vec![whole]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firing::batch_body;

    #[test]
    fn those_of_a_batch_come_one_by_one_and_stay_what_they_are() {
        let bodies = [r#"{"eventId":"a","n":1.0}"#, r#"{"eventId":"b","events":[ 1 ]}"#, "{}"];
        assert_eq!(events(&batch_body(bodies.map(str::as_bytes))), Ok(bodies.to_vec()));
        assert_eq!(events(b"{\"events\":[]}"), Ok(Vec::new()));
        assert_eq!(events(b"{\"events\":[{\"n\": 1} , 2]}"), Ok(vec!["{\"n\": 1}", "2"]));
    }

    /// The same cases as Python's and Node's receivers have.
    #[test]
    fn all_else_is_one() {
        for body in [r#"{"eventId":"c","events":[1]}"#, "[1]", r#"{"events":1}"#, "{}", "null", "7"] {
            assert_eq!(events(body.as_bytes()), Ok(vec![body]), "{body}");
        }
        for body in [&b""[..], b"{", b"{\"events\":[}", b"\xff", b"{} {}"] {
            assert_eq!(events(body), Err(NoJson), "{body:?}");
        }
    }
}
