//! `tasks/stream`: a task's events, replayed after a number and then live (SEP-2694, a draft).
//!
//! What the draft leaves open: `after` beyond the newest event is -32602 with `data.reason = "ahead"` and `headSeq` (left out
//! when there is no event yet); a reader that eviction overtakes while it reads is ended with `events_gone`, never served
//! with a hole.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::request::Parts;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tidings::proto::stream::{Gap, MAX_SEQ};
use tidings::proto::wire::sep2694::{META_RELATED_TASK, REASON_AHEAD, REASON_EVENTS_GONE, TASKS_EVENT};
use tidings::proto::wire::tidings::META_EVENT;
use tidings::{After, ErrorCode, Event, ReadLimits, Stream, Tail};

use crate::adapter::Adapter;
use crate::call::custom;
use crate::principal::{Asker, is_modern};
use crate::task_methods::find;
use crate::tasks::Tasks;
use crate::wire;

/// Names what a request is about (SEP-2243).
const NAME_HEADER: &str = "mcp-name";
/// The code of a header that is not there or says something else than the body (2026-07-28).
const HEADER_MISMATCH: i64 = -32020;

const MINUTE: Duration = Duration::from_secs(60);
/// So many allowances are kept before those that are full again are forgotten.
const PRUNE_AT: usize = 1_024;

/// How much of `tasks/stream` one client may use: SEP-2694 wants streams at once and attempts to resume limited.
pub(crate) struct StreamLimits {
    streams: u32,
    resumes: u32,
    state: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    /// Streams by client.
    open: HashMap<String, u32>,
    /// Attempts that were left by client and task, and when.
    left: HashMap<(String, String), (f64, Instant)>,
}

/// A stream that is held, until it is dropped.
pub(crate) struct Held {
    limits: Arc<StreamLimits>,
    client: String,
}

impl StreamLimits {
    pub(crate) fn of(tasks: &Tasks) -> Self {
        Self { streams: tasks.streams, resumes: tasks.resumes.max(1), state: Mutex::default() }
    }

    /// An error for a client that has too many or asks too often. `now` only grows.
    pub(crate) fn hold(self: &Arc<Self>, client: &str, task: &str, now: Instant) -> Result<Held, ErrorData> {
        let mut used = self.used();
        let open = used.open.get(client).copied().unwrap_or(0);
        if open >= self.streams {
            let data = json!({"reason": "limit", "limit": "streams", "max": self.streams});
            return Err(wire::invalid_params("Too many streams of tasks at once", Some(data)));
        }
        let key = (client.to_owned(), task.to_owned());
        let left = self.allowance(used.left.get(&key), now);
        if left < 1.0 {
            let wait = (1.0 - left) * MINUTE.as_secs_f64() * 1_000.0 / f64::from(self.resumes);
            let data = json!({
                "reason": "limit", "limit": "resumes", "max": self.resumes, "retryAfterMs": wait.round() as u64,
            });
            return Err(wire::invalid_params("The stream of this task was asked for too often", Some(data)));
        }
        if used.left.len() >= PRUNE_AT {
            used.left.retain(|_, kept| self.allowance(Some(kept), now) < f64::from(self.resumes));
        }
        used.left.insert(key, (left - 1.0, now));
        used.open.insert(client.to_owned(), open + 1);
        Ok(Held { limits: Arc::clone(self), client: client.to_owned() })
    }

    /// Attempts that are left: as many as a minute allows, which come back one after the other.
    fn allowance(&self, kept: Option<&(f64, Instant)>, now: Instant) -> f64 {
        let most = f64::from(self.resumes);
        let Some((left, at)) = kept else { return most };
        let back = now.saturating_duration_since(*at).as_secs_f64() * most / MINUTE.as_secs_f64();
        most.min(left + back)
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut used = self.limits.used();
        if let Some(open) = used.open.get_mut(&self.client) {
            *open -= 1;
            if *open == 0 {
                used.open.remove(&self.client);
            }
        }
    }
}

/// Over HTTP the header `Mcp-Name`, by which requests are routed, has to name the task (SEP-2243); rmcp sees to the methods that
/// it knows only. It may be left out: `tasks/stream` is none of the extension's methods yet.
pub(crate) fn check_header(params: Option<&Value>, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    let Some(parts) = context.extensions.get::<Parts>().filter(|_| is_modern(context)) else { return Ok(()) };
    let task = params.and_then(|params| params.get("taskId")).and_then(Value::as_str);
    // An id of ours needs no encoding to be a header, so that what is encoded is none.
    if let (Some(named), Some(task)) = (parts.headers.get(NAME_HEADER), task)
        && named.as_bytes() != task.as_bytes()
    {
        return Err(wire::error(HEADER_MISMATCH, "The Mcp-Name header does not match the request body's taskId", None));
    }
    Ok(())
}

/// Sends the events until the task has ended and all were sent.
pub(crate) async fn serve(
    terms: &Adapter,
    tasks: &Tasks,
    limits: &Arc<StreamLimits>,
    asker: &Asker,
    params: Option<&Value>,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let id = params.and_then(|params| params.get("taskId")).and_then(Value::as_str);
    let id = id.ok_or_else(|| wire::invalid_params("taskId must be a string", None))?;
    let task = find(terms, id, &asker.name)?;
    let after = after_of(params)?;
    // A request that belongs to nobody has nothing but the task by which it could be told from others.
    let client = if asker.bound || asker.session.is_some() { &asker.name } else { id };
    let _held = limits.hold(client, id, Instant::now())?;
    let failed = |error: tidings::Error| wire::failed("The task could not be looked up", &error);
    let stream = terms.hub.stream(task.stream.scope, task.stream.name).map_err(failed)?;
    let mut tail = start(&stream, after)?;
    loop {
        let read = tokio::select! {
            biased;
            () = context.ct.cancelled() => return Ok(()), // nobody waits for an answer
            read = tail.next() => read,
        };
        let Some(read) = read else { return Ok(()) };
        let read = read.map_err(failed)?;
        if let Some(gap) = read.gap {
            return Err(events_gone(tasks, id, gap));
        }
        for event in read.events {
            // It waits until the connection takes it, so that a slow reader is read for no faster than it reads.
            if context.peer.send_notification(custom(TASKS_EVENT, frame(id, &event))).await.is_err() {
                return Ok(()); // the connection is gone
            }
        }
    }
}

fn start(stream: &Stream, after: Option<u64>) -> Result<Tail, ErrorData> {
    stream.tail(after.map_or(After::Earliest, After::Seq)).map_err(|error| match error.code() {
        ErrorCode::Ahead => {
            let head = stream.read(After::Earliest, ReadLimits { events: 1, ..ReadLimits::default() });
            let mut data = json!({"reason": REASON_AHEAD});
            if let Some(head) = head.ok().and_then(|read| read.head_seq) {
                data["headSeq"] = head.into();
            }
            wire::invalid_params("after lies beyond the newest event", Some(data))
        }
        // Its time is over since it was looked up.
        ErrorCode::UnknownCursor => wire::unknown_task(),
        _ => wire::failed("The task could not be looked up", &error),
    })
}

fn events_gone(tasks: &Tasks, id: &str, gap: Gap) -> ErrorData {
    let mut data = json!({"reason": REASON_EVENTS_GONE, "taskId": id});
    if let Some(earliest) = gap.earliest_seq {
        data["earliestSeq"] = earliest.into();
    }
    wire::error(tasks.events_gone_code, "Task events are no longer available", Some(data))
}

fn after_of(params: Option<&Value>) -> Result<Option<u64>, ErrorData> {
    let Some(after) = params.and_then(|params| params.get("after")) else { return Ok(None) };
    after.as_u64().filter(|after| *after <= MAX_SEQ).map(Some).ok_or_else(|| {
        wire::invalid_params("after must be an integer from 0 to 2^53 - 1; leave it out to begin at the start", None)
    })
}

fn frame(id: &str, event: &Event) -> Value {
    let mut meta = json!({META_RELATED_TASK: {"taskId": id}});
    if let Some(identity) = event.identity.as_deref().and_then(|text| serde_json::from_slice::<Value>(text).ok()) {
        meta[META_EVENT] = identity;
    }
    let payload: Value = serde_json::from_slice(&event.payload).unwrap_or_default();
    json!({"seq": event.seq, "taskId": id, "type": event.kind, "payload": payload, "_meta": meta})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(refused: Result<Held, ErrorData>) -> Value {
        refused.err().and_then(|error| error.data).expect("it is refused with data")
    }

    #[test]
    fn streams_and_attempts_are_limited_and_come_back() {
        let tasks = Tasks { streams: 2, resumes: 3, ..Tasks::default() };
        let limits = Arc::new(StreamLimits::of(&tasks));
        let start = Instant::now();
        let first = limits.hold("c", "t", start).expect("one");
        let _second = limits.hold("c", "u", start).expect("two");
        assert_eq!(reason(limits.hold("c", "t", start))["limit"], "streams");
        assert!(limits.hold("d", "t", start).is_ok(), "another client has its own");
        drop(first);
        for _ in 0..2 {
            drop(limits.hold("c", "t", start).expect("there are attempts left"));
        }
        let refused = reason(limits.hold("c", "t", start));
        assert_eq!((&refused["limit"], &refused["retryAfterMs"]), (&json!("resumes"), &json!(20_000)));
        assert!(limits.hold("c", "t", start + Duration::from_secs(20)).is_ok(), "a third of a minute is one of three");
    }

    #[test]
    fn after_is_a_whole_number() {
        let of = |text: &str| after_of(Some(&serde_json::from_str(text).expect("it is JSON"))).ok();
        assert_eq!(of("{}"), Some(None));
        assert_eq!(of(r#"{"after":0}"#), Some(Some(0)));
        assert_eq!(of(r#"{"after":9007199254740991}"#), Some(Some(MAX_SEQ)));
        for bad in [
            r#"{"after":-1}"#,
            r#"{"after":1.5}"#,
            r#"{"after":"1"}"#,
            r#"{"after":null}"#,
            r#"{"after":9007199254740992}"#,
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
