use tidings_proto::fanout::mcp::{MCP, TASK, UPDATED};
use tidings_proto::fanout::{Frame, Tag};
use tidings_proto::firing::message_frame;
use tidings_proto::id::RequestId;
use tidings_proto::notice::{Progress, ProgressRules};
use tidings_proto::stream::{CursorPrefix, StreamId, gap_line};
use tidings_proto::stream::{Gap, GapReason};

use super::line;
use crate::oracle::json::{Value, points};
use crate::oracle::sse::{Message, read};

/// What goes out as fields of an event stream: in the first line the raw id of a request, in the second the name of a
/// resource, in the third a message for people, and after them a task's state or a webhook's body.
///
/// `tests/fuzz/test_sse.py` replays the same corpus through the adapter that writes the fields.
pub fn sse(data: &[u8]) {
    let (id, rest) = line(data);
    let (name, rest) = line(rest);
    let (message, state) = line(rest);
    let [Ok(name), Ok(message), Ok(state)] = [name, message, state].map(std::str::from_utf8) else { return };
    let id = RequestId::parse(id).ok();
    let tag = id.as_ref().map(|id| Tag::new(&MCP, id));

    let updated = Frame::named(&MCP.methods[UPDATED], name).expect("that method names a thing");
    let told = sent(updated.plain());
    assert_eq!(text_at(&told, "/params/uri"), Some(points(name)));
    tagged(&updated, id.as_ref(), tag.as_ref());

    if let Ok(frame) = Frame::state(MCP.methods[TASK].name, state) {
        // The state is the parameters, spliced as it is.
        let (told, want) = (sent(frame.plain()), Value::parse(state));
        if let (Some(told), Some(want)) = (&told, want) {
            assert!(told.at("/params").and_then(|params| params.same(&want)).unwrap_or(true), "another state");
        }
        tagged(&frame, id.as_ref(), tag.as_ref());
        sent(&String::from_utf8(message_frame(state.as_bytes())).expect("of two texts"));
    }

    let mut progress = Progress::new(id, ProgressRules::default());
    if let Ok(frame) = progress.report(1.0, Some(f64::MAX), Some(message), 0) {
        assert_eq!(text_at(&sent(frame.plain()), "/params/message"), Some(points(message)));
    }
    for reason in [GapReason::Evicted, GapReason::Regressed, GapReason::Lost, GapReason::Unknown] {
        let gap = Gap { reason, earliest_seq: Some(u64::MAX), head_seq: None };
        sent(String::from_utf8(gap_line(&gap)).expect("text").trim_end());
    }
}

/// The tag is what the listener reads, in the id's own JSON type, and all else is as in the plain frame.
fn tagged(frame: &Frame, id: Option<&RequestId>, tag: Option<&Tag>) {
    let (Some(id), Some(tag)) = (id, tag) else { return };
    let (Some(told), Some(plain)) = (sent(&frame.tagged(Some(tag))), sent(frame.plain())) else { return };
    let meta = told.at("/params").and_then(|params| params.member(&points("_meta")));
    let found = meta.and_then(|meta| meta.member(&points(MCP.listener_id)));
    let want = Value::parse(&id.to_json()).expect("an id is JSON");
    assert!(found.is_some_and(|found| found.same(&want).unwrap_or(true)), "whose is it? {told:?}");
    if let Some(Value::Object(members)) = plain.at("/params") {
        for (name, _) in members {
            let (before, after) = (plain.at("/params"), told.at("/params"));
            let (before, after) = (before.and_then(|it| it.member(name)), after.and_then(|it| it.member(name)));
            let same = before.zip(after).and_then(|(before, after)| before.same(after));
            assert!(*name == points("_meta") || same.unwrap_or(true), "{name:?} has become another");
        }
    }
    let params = frame.params(Some(tag)).and_then(|params| Value::parse(&params));
    let same = params.as_ref().zip(told.at("/params")).and_then(|(one, other)| one.same(other));
    assert!(same.unwrap_or(true), "the parameters alone are others");
}

/// Writes a frame as the fields of one event and reads it as a browser does: it is one event, of that id, and its data is
/// the same JSON. Answers it as a tree; `None` where it nests too deep for one.
fn sent(frame: &str) -> Option<Value> {
    let cursor = CursorPrefix::new(StreamId([7; 16]), 1, u32::MAX).cursor(u64::from(u32::MAX));
    let lines = frame.replace("\r\n", "\n").replace(['\r', '\n'], "\ndata: ");
    let told = read(&format!("id: {cursor}\nevent: message\ndata: {lines}\n\n"));
    let [Message { id, kind, data }] = told.as_slice() else { panic!("{} events of one: {frame:?}", told.len()) };
    assert_eq!((id, kind.as_str()), (&cursor, "message"));
    let (before, after) = (Value::parse(frame), Value::parse(data));
    match (&before, &after) {
        (Some(before), Some(after)) => assert!(before.same(after).unwrap_or(true), "another after the wire: {frame:?}"),
        (None, None) => {
            assert!(serde_json::from_str::<&serde_json::value::RawValue>(data).is_ok(), "no JSON: {frame:?}")
        }
        _ => panic!("JSON on one side only: {frame:?}"),
    }
    after
}

fn text_at(told: &Option<Value>, pointer: &str) -> Option<Vec<u32>> {
    match told.as_ref()?.at(pointer)? {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}
