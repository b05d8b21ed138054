use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tidings_proto::firing::raw_json;
use tidings_proto::redact::{REDACTED, Redaction};
use tidings_proto::stream::{event_line, identity_json};
use tidings_proto::task::{MAX_EVENT_TYPE, check_event};
use tidings_proto::trigger::check_fire;
use tidings_store::ChunkBuilder;

use super::line;
use crate::oracle::json::{Value, points};

/// An event: its type in the first line, in the second what is to be redacted (entries with blanks between), and then its
/// payload, any bytes.
pub fn event(data: &[u8]) {
    let (kind, rest) = line(data);
    let (redact, payload) = line(rest);
    let Ok(kind) = std::str::from_utf8(kind) else { return };
    checked(kind, payload);
    stored(kind, payload);
    exported(kind, payload);
    if let Ok(redact) = std::str::from_utf8(redact) {
        redacted(redact, payload);
    }
}

/// An event that a tool emits, a trigger that it fires: what passes is what the rule says.
fn checked(kind: &str, payload: &[u8]) {
    if check_event(kind, payload).is_ok() {
        assert!(kind.len() <= MAX_EVENT_TYPE && kind.split('.').count() >= 3 && kind.is_ascii());
    }
    if check_fire(kind, payload).is_ok() {
        let tree = std::str::from_utf8(payload).ok().and_then(Value::parse);
        assert!(matches!(tree, Some(Value::Object(_)) | None), "no object, and deep enough to be read");
    }
}

/// Packed and unpacked, every byte is what it was.
fn stored(kind: &str, payload: &[u8]) {
    let identity = identity_json([("task", kind)]).ok().flatten().map(Bytes::from);
    let mut builder = ChunkBuilder::default();
    let events =
        [(kind, payload, None), (kind, b"{}".as_slice(), identity.as_ref()), ("x", payload, identity.as_ref())];
    for (kind, payload, identity) in events {
        if !builder.push(kind, payload, -1, identity) {
            assert!(kind.len() > usize::from(u16::MAX), "only what is too long is refused");
            return;
        }
    }
    let chunk = builder.take(7);
    let unpacked: Vec<_> = chunk.events().collect();
    assert_eq!(unpacked.len(), events.len());
    for (index, (event, (kind, payload, identity))) in unpacked.iter().zip(events).enumerate() {
        assert_eq!(event.seq, 7 + index as u64);
        assert_eq!((&*event.kind, &*event.payload, event.identity.as_ref()), (kind, payload, identity));
    }
    // Bytes that no builder wrote end the chunk, whatever they are.
    let forged = tidings_store::Chunk { data: Some(Bytes::copy_from_slice(payload)), ..chunk };
    assert!(forged.events().count() <= payload.len());
}

/// One line, which says what the event is.
fn exported(kind: &str, payload: &[u8]) {
    let line = String::from_utf8(event_line(3, kind, 5, None, payload)).expect("a line is text");
    let inner = line.strip_suffix('\n').expect("ends with its line break");
    assert!(!inner.contains(['\n', '\r']), "one line");
    let text = std::str::from_utf8(payload).ok();
    let tree = text.and_then(Value::parse);
    let told = Value::parse(inner);
    match (tree, told) {
        (Some(tree), Some(told)) => {
            let found = told.member(&points("payload")).expect("JSON comes as JSON");
            assert!(found.same(&tree).unwrap_or(true), "another payload");
            assert!(
                told.member(&points("type")).is_some_and(|name| matches!(name, Value::Text(t) if *t == points(kind)))
            );
        }
        // Not JSON, or too deep for the tree.
        (None, Some(told)) => {
            let Some(Value::Text(bytes)) = told.member(&points("payloadBytes")) else {
                panic!("no payload in {inner}")
            };
            assert_eq!(*bytes, points(&STANDARD.encode(payload)));
        }
        (Some(_), None) => panic!("no JSON: {inner}"),
        (None, None) => assert!(raw_json(payload).is_some(), "no JSON: {inner}"),
    }
}

/// What is to go is gone, all else is where it was.
fn redacted(entries: &str, payload: &[u8]) {
    let entries: Vec<&str> = entries.split(' ').filter(|entry| !entry.is_empty()).collect();
    let redaction = match Redaction::parse(&entries) {
        Ok(redaction) => redaction,
        Err((index, fault)) => {
            assert!(index < entries.len() && !fault.to_string().is_empty());
            return;
        }
    };
    let once = redaction.apply_bytes(payload);
    if redaction.is_empty() {
        assert_eq!(&*once, payload);
        return;
    }
    assert_eq!(redaction.apply_bytes(&once), once, "taking out twice takes out more");
    let Some(tree) = std::str::from_utf8(payload).ok().and_then(Value::parse) else {
        if raw_json(payload).is_none() {
            assert_eq!(&*once, REDACTED.as_bytes(), "what cannot be read goes whole");
        }
        return;
    };
    let found = std::str::from_utf8(&once).ok().and_then(Value::parse).expect("still JSON");
    let (names, places): (Vec<&str>, Vec<&str>) = entries.iter().partition(|entry| !entry.starts_with('/'));
    let names: Vec<Vec<u32>> = names.iter().map(|name| points(name)).collect();
    let places: Vec<Vec<Vec<u32>>> = places
        .iter()
        .map(|place| place.split('/').skip(1).map(|t| points(&t.replace("~1", "/").replace("~0", "~"))).collect())
        .collect();
    same_but(&tree, &found, &names, &places.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

/// Walks both trees: `places` are what is left of those that lead here.
fn same_but(before: &Value, after: &Value, names: &[Vec<u32>], places: &[&[Vec<u32>]]) {
    let is_gone = |value: &Value| matches!(value, Value::Text(text) if *text == points("[redacted]"));
    let below = |step: &[u32]| -> Vec<&[Vec<u32>]> {
        places
            .iter()
            .filter_map(|place| place.split_first())
            .filter(|(first, _)| *first == step)
            .map(|(_, rest)| rest)
            .collect()
    };
    let step = |name: &[u32], by_name: bool, before: &Value, after: &Value| {
        let left = below(name);
        if (by_name && names.iter().any(|entry| entry == name)) || left.iter().any(|left| left.is_empty()) {
            assert!(is_gone(after), "it stays: {after:?}");
        } else {
            same_but(before, after, names, &left);
        }
    };
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            assert_eq!(before.len(), after.len());
            for ((name, before), (name_after, after)) in before.iter().zip(after) {
                assert_eq!(name, name_after);
                step(name, true, before, after);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len());
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                step(&points(&index.to_string()), false, before, after);
            }
        }
        (Value::Number(before), Value::Number(after)) => assert_eq!(before, after, "written anew"),
        _ => assert!(before.same(after).unwrap_or(true), "{before:?} became {after:?}"),
    }
}
