//! Bytes come back as they were given.

use bytes::Bytes;

use super::fixtures::{NOW, Slot, W1, append, create, done, key, retained, stream_id};
use crate::chunk::{ChunkBuilder, Event, NewEvent};
use crate::commit::{AppendShared, Op};
use crate::store::Store;

/// Payloads that a JSON parser or a text type on the way would change.
fn awkward() -> Vec<Bytes> {
    let mut large = vec![b'"'];
    large.resize((1 << 20) - 1, b'x');
    large.push(b'"');
    vec![
        Bytes::from_static(b"1.0"),
        Bytes::from_static(b"1e2"),
        Bytes::from_static(b"-0"),
        Bytes::from_static(b"9007199254740993"),
        Bytes::from_static(b"12345678901234567890.12345678901234567890"),
        Bytes::from_static("\"\u{2028}\u{2029}\u{feff}\"".as_bytes()),
        Bytes::from_static(br#""\ud800""#),
        Bytes::from_static(br#""\u0000\/\u00e9""#),
        Bytes::from_static("\"é e\u{301} 😀\"".as_bytes()),
        Bytes::from_static(b" { \"b\" : 1 , \"a\" : 2 , \"b\" : 3 } \r\n"),
        Bytes::from_static(b""),
        Bytes::from_static(b"\0"),
        Bytes::from_static(b"\"a\0b\0\""),
        Bytes::from_static(b"\xff\xfe\x80not utf-8"),
        Bytes::from(large),
    ]
}

fn identity(text: &'static str) -> Option<Bytes> {
    Some(Bytes::from_static(text.as_bytes()))
}

/// Events whose type, time and identity are awkward as well.
fn events() -> Vec<NewEvent> {
    let event = |kind: &str, payload, time, identity| NewEvent { kind: kind.to_owned(), payload, time, identity };
    let mut events: Vec<_> = awkward().into_iter().map(|payload| event("message", payload, NOW, None)).collect();
    let payload = Bytes::from_static(b"{}");
    for (kind, time, identity) in [
        ("", NOW, None),
        ("io.tidings.outcome", NOW, identity(r#"{"task":"t","session":"s","turn":1.0}"#)),
        ("io.tidings.outcome", NOW - 1, identity(r#"{"task":"t","session":"s","turn":1.0}"#)),
        ("типсобытия 😀\0\n", NOW, identity(" { \"toolCall\" : \"\\ud800\" } ")),
        ("x", -1, identity("")),
        ("x", 0, None),
    ] {
        events.push(event(kind, payload.clone(), time, identity));
    }
    events.push(event(&"k".repeat(65_535), payload.clone(), NOW, None));
    events.push(event("x", payload, NOW, Some(Bytes::from(vec![b' '; 65_535]))));
    events
}

#[track_caller]
fn assert_read_back(store: &dyn Store, given: &[NewEvent]) {
    let (_, slots) = retained(store, stream_id(1)).expect("there");
    assert_eq!(slots.len(), given.len());
    for ((seq, given), slot) in (0..).zip(given).zip(slots) {
        let NewEvent { kind, payload, time, identity } = given.clone();
        let same = slot == Slot::Event(Event { seq, kind, payload, time, identity });
        assert!(
            same,
            "event {seq} (type {:.20?}, payload {:.40?}) comes back as it was given",
            given.kind, given.payload
        );
    }
}

pub(super) fn owned_events_come_back_byte_for_byte(store: &dyn Store) {
    let given = events();
    let mut builder = ChunkBuilder::default();
    for event in &given {
        assert!(builder.push(&event.kind, &event.payload, event.time, event.identity.as_ref()));
    }
    done(store, [create(stream_id(1), &key("a"), W1), append(stream_id(1), 1, vec![builder.take(0)])]);
    assert_read_back(store, &given);
}

pub(super) fn shared_events_come_back_byte_for_byte(store: &dyn Store) {
    let given = events();
    let append = |events: &[NewEvent]| {
        let events = events.to_vec();
        Op::AppendShared(AppendShared { key: key("a"), new_id: stream_id(1), events, close: false, now: NOW })
    };
    let (first, rest) = given.split_at(3);
    done(store, [append(first)]);
    done(store, [append(rest)]);
    assert_read_back(store, &given);
}
