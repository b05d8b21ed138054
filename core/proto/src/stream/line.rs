//! A stream as JSON Lines: one event or gap a line, for people, archives and other tools.
//!
//! ```text
//! {"seq":0,"type":"message","time":1767225600000,"identity":{"task":"t"},"payload":{"n":1.0}}
//! {"gap":"evicted","earliestSeq":50,"headSeq":99}
//! ```
//!
//! `time` is in integer milliseconds, `identity` is there if the event has one. Payload and identity are spliced as they are,
//! numbers and escapes included; only a line break between two tokens of theirs becomes a space, because it would end the line.
//! What is not JSON text (nothing checks a payload when it is appended) comes as `payloadBytes` or `identityBytes`, a string of
//! base64 (RFC 4648 section 4). A gap comes before the events that follow it, and has the members that DESIGN section 2 names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Gap;
use crate::json;
use crate::time::UnixMillis;

/// An event as one line, its `\n` included.
pub fn event_line(seq: u64, kind: &str, time: UnixMillis, identity: Option<&[u8]>, payload: &[u8]) -> Vec<u8> {
    let mut line = String::with_capacity(kind.len() + payload.len() + identity.map_or(0, <[u8]>::len) + 96);
    line.push('{');
    push_number(&mut line, "seq", seq);
    json::push_name(&mut line, "type");
    json::push_string(&mut line, kind);
    push_number(&mut line, "time", time);
    if let Some(identity) = identity {
        push_json(&mut line, "identity", identity);
    }
    push_json(&mut line, "payload", payload);
    line.push_str("}\n");
    line.into_bytes()
}

/// A gap as one line, its `\n` included.
pub fn gap_line(gap: &Gap) -> Vec<u8> {
    let mut line = String::from("{");
    json::push_name(&mut line, "gap");
    json::push_string(&mut line, gap.reason.as_str());
    for (name, seq) in [("earliestSeq", gap.earliest_seq), ("headSeq", gap.head_seq)] {
        if let Some(seq) = seq {
            push_number(&mut line, name, seq);
        }
    }
    line.push_str("}\n");
    line.into_bytes()
}

fn push_number(line: &mut String, name: &str, number: impl std::fmt::Display) {
    json::push_name(line, name);
    line.push_str(&number.to_string());
}

fn push_json(line: &mut String, name: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).ok().filter(|text| json::check(text).is_ok());
    match text {
        Some(text) => {
            json::push_name(line, name);
            // In JSON text a line break stands between tokens only (RFC 8259 section 7), so none of a string's is touched.
            line.extend(text.chars().map(|char| if matches!(char, '\n' | '\r') { ' ' } else { char }));
        }
        None => {
            json::push_name(line, &format!("{name}Bytes"));
            json::push_string(line, &STANDARD.encode(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::GapReason;

    fn line(identity: Option<&[u8]>, payload: &[u8]) -> String {
        String::from_utf8(event_line(7, "m\"", -1, identity, payload)).unwrap()
    }

    #[test]
    fn payloads_stay_as_they_are() {
        for payload in ["1.0", "\"\\ud800\"", "{ \"a\" :\t[1e400, 9007199254740993]}", "\"\u{2028}\\n\"", "null"] {
            let want = format!("{{\"seq\":7,\"type\":\"m\\\"\",\"time\":-1,\"payload\":{payload}}}\n");
            assert_eq!(line(None, payload.as_bytes()), want);
        }
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        let told = line(Some(b"{\n\"task\":\r\n\"t\"}"), b"\n{\n  \"a\\n\": 1\r\n}\n");
        let want = r#"{"seq":7,"type":"m\"","time":-1,"identity":{ "task":  "t"},"payload": {   "a\n": 1  } }"#;
        assert_eq!(told, format!("{want}\n"));
    }

    #[test]
    fn what_is_no_json_comes_as_base64() {
        for (payload, base64) in [
            (&b""[..], ""),
            (b"{", "ew=="),
            (b"1 2", "MSAy"),
            (b"\xff", "/w=="),
            // A line break within a string is no JSON.
            (b"\"\n\"", "Igoi"),
        ] {
            let want = format!("{{\"seq\":7,\"type\":\"m\\\"\",\"time\":-1,\"payloadBytes\":\"{base64}\"}}\n");
            assert_eq!(line(None, payload), want);
        }
        assert!(line(Some(b"no"), b"1").contains(r#""identityBytes":"bm8=","payload":1"#));
    }

    #[test]
    fn gaps() {
        let gap = Gap { reason: GapReason::Evicted, earliest_seq: Some(50), head_seq: Some(99) };
        assert_eq!(gap_line(&gap), b"{\"gap\":\"evicted\",\"earliestSeq\":50,\"headSeq\":99}\n");
        assert_eq!(gap_line(&Gap::UNKNOWN), b"{\"gap\":\"unknown\"}\n");
    }
}
