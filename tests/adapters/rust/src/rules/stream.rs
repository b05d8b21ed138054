//! Cursors, gaps, retention.

use serde_json::{Value, json};
use tidings::proto::stream::{self, ChunkView, Cursor, Resume, Retention, StreamId, StreamView, check, check_bare};

use crate::Answer;
use crate::given::{Given, to_hex};

pub(super) fn cursor_text(given: Given<'_>) -> Answer {
    let cursor = Cursor {
        stream: StreamId(given.id("stream")?),
        epoch: given.num("epoch")?,
        claim: given.num("claim")?,
        next: given.num("next")?,
    };
    Ok(json!({"text": cursor.to_string()}))
}

pub(super) fn cursor_parse(given: Given<'_>) -> Answer {
    Ok(match Cursor::parse(given.text("text")?) {
        Ok(cursor) => json!({
            "stream": to_hex(&cursor.stream.0), "epoch": cursor.epoch, "claim": cursor.claim, "next": cursor.next,
            "seq": cursor.seq(),
        }),
        Err(_) => json!({"error": "malformed"}),
    })
}

pub(super) fn line(given: Given<'_>) -> Answer {
    let identity = if given.has("identity") { Some(given.bytes("identity")?) } else { None };
    let (kind, payload) = (given.text("type")?, given.bytes("payload")?);
    let line = stream::event_line(given.num("seq")?, kind, given.num("time")?, identity.as_deref(), &payload);
    let line = String::from_utf8(line).map_err(|error| error.to_string())?;
    Ok(json!({"line": line.strip_suffix('\n').ok_or("no line break")?}))
}

fn view(given: Given<'_>) -> Result<StreamView, String> {
    let given = given.at("stream");
    Ok(StreamView {
        epoch: given.num("epoch")?,
        claim: given.num("claim")?,
        earliest: given.num("earliest")?,
        next_seq: given.num("nextSeq")?,
        next_claim_first: given.maybe_num("nextClaimFirst")?,
        owner_alive: given.bool("ownerAlive")?,
    })
}

fn told(resume: Resume) -> Value {
    match resume {
        Resume::From(next) => json!({"from": next}),
        Resume::Gap(gap) => json!({"gap": {
            "reason": gap.reason.as_str(), "earliestSeq": gap.earliest_seq, "headSeq": gap.head_seq,
        }}),
    }
}

pub(super) fn gap_cursor(given: Given<'_>) -> Answer {
    let at = given.at("cursor");
    let cursor =
        Cursor { stream: StreamId([7; 16]), epoch: at.num("epoch")?, claim: at.num("claim")?, next: at.num("next")? };
    Ok(told(check(&cursor, &view(given)?)))
}

pub(super) fn gap_after(given: Given<'_>) -> Answer {
    Ok(match check_bare(given.maybe_num("after")?, &view(given)?) {
        Ok(resume) => told(resume),
        Err(head) => json!({"error": "ahead", "headSeq": head}),
    })
}

fn chunk_of(chunk: &Value) -> Option<ChunkView> {
    let number = |index: usize| chunk.get(index)?.as_i64();
    Some(ChunkView {
        first_seq: number(0)?.try_into().ok()?,
        count: number(1)?.try_into().ok()?,
        bytes: number(2)?.try_into().ok()?,
        last_time: number(3)?,
    })
}

pub(super) fn first_kept(given: Given<'_>) -> Answer {
    let retention = Retention {
        max_events: given.maybe_num("maxEvents")?,
        max_bytes: given.maybe_num("maxBytes")?,
        max_age_ms: given.maybe_num("maxAgeMs")?,
        ..Retention::UNLIMITED
    };
    let chunks: Option<Vec<_>> = given.list("chunks")?.iter().map(chunk_of).collect();
    let chunks = chunks.ok_or("chunks: lists of four numbers are wanted")?;
    let total = chunks.iter().map(|chunk| chunk.bytes).sum();
    let (earliest, next) = (given.num("earliest")?, given.num("nextSeq")?);
    let kept = stream::first_kept(&retention, given.int("nowUnixMs")?, earliest, next, total, chunks);
    Ok(json!({"firstKept": kept}))
}

pub(super) fn total(given: Given<'_>) -> Answer {
    let chunks: Option<Vec<_>> = given.list("chunks")?.iter().map(chunk_of).collect();
    let chunks = chunks.ok_or("chunks: lists of four numbers are wanted")?;
    let excess = stream::Amount { events: given.num("events")?, bytes: given.num("bytes")? };
    let (keep, gone) = stream::first_kept_of_all(excess, given.num("earliest")?, given.num("last")?, chunks);
    Ok(json!({"firstKept": keep, "events": gone.events, "bytes": gone.bytes}))
}

pub(super) fn expired(given: Given<'_>) -> Answer {
    let retention = Retention { after_close_ms: given.maybe_num("afterCloseMs")?, ..Retention::UNLIMITED };
    Ok(json!({"expired": retention.stream_expired(given.maybe_num("closedAt")?, given.int("now")?)}))
}
