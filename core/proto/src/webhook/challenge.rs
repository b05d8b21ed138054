//! How an endpoint shows that it wants webhooks, before it gets any (SEP-3415 "Endpoint verification"): it echoes a
//! single-use nonce from a signed request, `{"type":"verification","challenge":NONCE}`, as `{"challenge":NONCE}` in a 2xx
//! answer. The names stand in [`wire::sep3415`](crate::wire::sep3415). The other way is [`Receivers`](super::Receivers).

use serde_json::value::RawValue;
use subtle::ConstantTimeEq;

use crate::json;
use crate::wire::sep3415::{CHALLENGE, TYPE, TYPE_VERIFICATION};

/// More bytes of an answer to a challenge are not read.
pub const MAX_CHALLENGE_ANSWER_BYTES: usize = 4 << 10;

/// The body of the request. `nonce` is drawn for this one request: visible ASCII without quote and backslash.
pub fn challenge_json(nonce: &str) -> String {
    let mut out = String::from("{");
    json::push_name(&mut out, TYPE);
    json::push_string(&mut out, TYPE_VERIFICATION);
    json::push_name(&mut out, CHALLENGE);
    json::push_string(&mut out, nonce);
    out.push('}');
    out
}

/// Whether the body of an answer echoes the nonce. Compared in constant time: an answer that is nearly right tells nothing.
pub fn is_challenge_answer(body: &[u8], nonce: &str) -> bool {
    let echoed = text_member(body, CHALLENGE);
    echoed.is_some_and(|echoed| bool::from(echoed.as_bytes().ct_eq(nonce.as_bytes())))
}

/// For receivers: the answer to a verification request, or none where the body is something else. Check the signature
/// first: who answers everybody's challenge can be made to receive anybody's webhooks.
pub fn challenge_answer(body: &[u8]) -> Option<String> {
    if text_member(body, TYPE)? != TYPE_VERIFICATION {
        return None;
    }
    let nonce = text_member(body, CHALLENGE)?;
    let mut out = String::from("{");
    json::push_name(&mut out, CHALLENGE);
    json::push_string(&mut out, &nonce);
    out.push('}');
    Some(out)
}

/// A string member of a JSON object, where it has exactly one of that name.
fn text_member(body: &[u8], name: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_slice(body).ok()?;
    let mut found = json::members(raw).ok()?.into_iter().filter(|(member, _)| member == name.as_bytes());
    let (_, value) = found.next().filter(|_| found.next().is_none())?;
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_and_its_answer() {
        let body = challenge_json("n0nce");
        assert_eq!(body, r#"{"type":"verification","challenge":"n0nce"}"#);
        let answer = challenge_answer(body.as_bytes()).expect("a challenge");
        assert_eq!(answer, r#"{"challenge":"n0nce"}"#);
        assert!(is_challenge_answer(answer.as_bytes(), "n0nce"));
        assert!(
            is_challenge_answer(b" {\"ok\": true, \"challenge\" : \"n0nc\\u0065\"} ", "n0nce"),
            "any JSON text of it"
        );
    }

    #[test]
    fn what_is_no_answer() {
        for body in [
            "",
            "n0nce",
            r#""n0nce""#,
            "{}",
            r#"{"challenge":"n0nc"}"#,
            r#"{"challenge":"n0nce "}"#,
            r#"{"challenge":["n0nce"]}"#,
            r#"{"challenge":null}"#,
            r#"{"challenge":"n0nce","challenge":"other"}"#,
            r#"{"data":{"challenge":"n0nce"}}"#,
            r#"[{"challenge":"n0nce"}]"#,
            "{\"challenge\":\"n0nce\"",
        ] {
            assert!(!is_challenge_answer(body.as_bytes(), "n0nce"), "{body}");
        }
    }

    #[test]
    fn an_event_is_no_challenge() {
        for body in [
            r#"{"eventId":"evt_1","name":"x","data":{"type":"verification","challenge":"n"}}"#,
            r#"{"type":"gap","challenge":"n"}"#,
            r#"{"type":"verification"}"#,
            "[]",
        ] {
            assert_eq!(challenge_answer(body.as_bytes()), None, "{body}");
        }
    }
}
