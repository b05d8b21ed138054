//! How an endpoint shows that it wants webhooks, before it gets any (SEP-3415 "Endpoint verification").
//!
//! Either it echoes a single-use nonce from a signed request, `{"type":"verification","challenge":NONCE}`, as
//! `{"challenge":NONCE}` in a 2xx answer; or its origin publishes `/.well-known/mcp-webhook-receiver.json`,
//! `{"receivers":["/hooks/"]}`, with a prefix of its path. The names stand in [`wire::sep3415`](crate::wire::sep3415).

use serde_json::value::RawValue;
use subtle::ConstantTimeEq;

use crate::json;
use crate::wire::sep3415::{CHALLENGE, RECEIVERS, TYPE, TYPE_VERIFICATION, WELL_KNOWN_RECEIVER};

/// More bytes of an answer to a challenge are not read.
pub const MAX_CHALLENGE_ANSWER_BYTES: usize = 4 << 10;
/// More bytes of a well-known document are not read.
pub const MAX_RECEIVER_DOCUMENT_BYTES: usize = 64 << 10;
/// More prefixes of a well-known document are not looked at.
const MAX_RECEIVERS: usize = 256;

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

/// Where the document of an endpoint's origin is: `scheme://authority`, with the port if it is not the scheme's.
pub fn receiver_document_url(scheme: &str, authority: &str) -> String {
    format!("{scheme}://{authority}{WELL_KNOWN_RECEIVER}")
}

/// The document that a receiver publishes, for paths (`/hooks/`) of its own.
pub fn receiver_document_json<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> String {
    let mut out = String::from("{");
    json::push_name(&mut out, RECEIVERS);
    json::push_strings(&mut out, paths);
    out.push('}');
    out
}

/// Whether a well-known document names the path of an endpoint (with its query). A document that is not as it should be
/// names nothing.
pub fn is_receiver(document: &[u8], path_and_query: &str) -> bool {
    let Ok(raw) = serde_json::from_slice::<&RawValue>(document) else { return false };
    let Ok(members) = json::members(raw) else { return false };
    let Some((_, list)) = members.into_iter().find(|(name, _)| name == RECEIVERS.as_bytes()) else { return false };
    let Ok((paths, _)) = json::elements(list, MAX_RECEIVERS) else { return false };
    paths
        .into_iter()
        .filter_map(|path| serde_json::from_str::<String>(path.get()).ok())
        .any(|path| is_below(path_and_query, &path))
}

/// Whether a path (with its query) lies at or below a prefix. A prefix ends at a segment: `/hook` is no prefix of
/// `/hooks`.
pub fn is_below(path_and_query: &str, prefix: &str) -> bool {
    let path = path_and_query.split_once('?').map_or(path_and_query, |(path, _)| path);
    let Some(rest) = path.strip_prefix(prefix).filter(|_| prefix.starts_with('/')) else { return false };
    prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/')
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

    #[test]
    fn a_document_names_prefixes_of_whole_segments() {
        let document = receiver_document_json(["/hooks/", "/exact"]);
        assert_eq!(document, r#"{"receivers":["/hooks/","/exact"]}"#);
        for (path, named) in [
            ("/hooks/", true),
            ("/hooks/a/b?x=1", true),
            ("/hooks", false),
            ("/hooks?x=/hooks/", false),
            ("/exact", true),
            ("/exact?a=b", true),
            ("/exact/below", true),
            ("/exactly", false),
            ("/", false),
            ("/Hooks/", false),
        ] {
            assert_eq!(is_receiver(document.as_bytes(), path), named, "{path}");
        }
        for document in
            ["", "[]", "{}", r#"{"receivers":"/"}"#, r#"{"receivers":[1,null,"",["/"]]}"#, "{\"receivers\":[\"/\"]"]
        {
            assert!(!is_receiver(document.as_bytes(), "/hooks/"), "{document}");
        }
        assert!(is_receiver(br#"{"receivers":["/"]}"#, "/anything"));
        assert_eq!(
            receiver_document_url("https", "a.example:8443"),
            "https://a.example:8443/.well-known/mcp-webhook-receiver.json"
        );
    }
}
