//! The answer to a request whose server died: nobody else gives it, and a client would ask for the rest of its stream for ever.
//!
//! Whoever finds the stream abandoned stores the answer and closes the stream, in one commit: of several processes one does, and
//! every reader gets the same, with the same event id, now and later.

use rmcp::model::{JsonRpcError, RequestId, ServerJsonRpcMessage};
use serde::{Deserialize, Serialize};
use tidings::proto::stream::Cursor;
use tidings::{Durability, ErrorCode, Hub, ReadLimits};

use crate::event_log::MESSAGE;
use crate::session_record::event;
use crate::wire;

/// The type of the event that stands for the priming event of a stream. Never goes out.
pub(crate) const OPENED: &str = "io.tidings.opened";

/// What that event keeps of a stream: all of it where the stream answers a request whose id is known, else nothing.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Opening {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<RequestId>,
    /// The stream's name, which its event ids do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
}

impl Opening {
    pub(crate) fn of(request_id: Option<RequestId>, name: &str) -> Self {
        let stream = request_id.is_some().then(|| name.to_owned());
        Self { request_id, stream }
    }
}

/// Answers the request of an abandoned stream, so that a reader of the stream finds the answer next. `false`: it is not known
/// which request that is.
pub(crate) async fn answer(hub: Hub, scope: String, at: Cursor) -> tidings::Result<bool> {
    let Some((id, name)) = request_of(&hub, &scope, at)? else { return Ok(false) };
    let lost = ServerJsonRpcMessage::Error(JsonRpcError::new(Some(id), wire::server_lost()));
    let payload = match serde_json::to_vec(&lost) {
        Ok(payload) => payload,
        Err(error) => {
            tracing::error!(%error, "an answer could not be written");
            return Ok(false);
        }
    };
    match hub.stream(scope, name)?.close(vec![event(MESSAGE, payload)], Durability::Process).await {
        // Another one was first, and its answer is there.
        Err(error) if error.code() == ErrorCode::Closed => Ok(true),
        answered => answered.map(|()| true),
    }
}

fn request_of(hub: &Hub, scope: &str, at: Cursor) -> tidings::Result<Option<(RequestId, String)>> {
    let start = Cursor { next: 0, ..at };
    let read = hub.resume(scope, &start.to_string())?.read(ReadLimits { events: 1, ..ReadLimits::default() })?;
    // Retention may have taken it.
    let opened = read.events.first().filter(|event| event.seq == 0 && event.kind == OPENED);
    let Some(opening) = opened.and_then(|event| serde_json::from_slice::<Opening>(&event.payload).ok()) else {
        return Ok(None);
    };
    Ok(opening.request_id.zip(opening.stream))
}

#[cfg(test)]
mod tests {
    use tidings::{After, Writer};

    use super::*;

    const SCOPE: &str = "session:s";

    async fn answered(hub: &Hub, writer: &Writer) -> bool {
        hub.flush(Durability::Process).await.expect("it is committed");
        let at = Cursor::parse(&writer.cursor()).expect("a cursor");
        answer(hub.clone(), SCOPE.to_owned(), at).await.expect("the store answers")
    }

    fn payloads(hub: &Hub, name: &str) -> Vec<String> {
        let stream = hub.stream(SCOPE, name).expect("a stream");
        let read = stream.read(After::Earliest, ReadLimits::default()).expect("it is read");
        read.payloads().map(|payload| String::from_utf8_lossy(payload).into_owned()).collect()
    }

    /// Whoever asks first answers, all others find that answer; an id keeps its JSON type.
    #[tokio::test]
    async fn it_is_answered_once() {
        let hub = Hub::open("memory:").expect("a hub");
        for (name, id, text) in [("a", RequestId::Number(0), "0"), ("b", RequestId::String("7".into()), r#""7""#)] {
            let writer = hub.new_writer(SCOPE, name).expect("a writer");
            let opening = serde_json::to_vec(&Opening::of(Some(id), name)).expect("it has a text");
            writer.append(OPENED, &opening, None).expect("it is taken");
            writer.append(MESSAGE, b"{}", None).expect("it is taken");
            hub.flush(Durability::Process).await.expect("it is committed");
            let (one, other) = tokio::join!(answered(&hub, &writer), answered(&hub, &writer));
            assert!(one && other);
            let kept = payloads(&hub, name);
            let lost = format!(
                r#"{{"jsonrpc":"2.0","id":{text},"error":{{"code":-32603,"message":"The server that ran it died","data":{{"reason":"server_lost"}}}}}}"#
            );
            assert_eq!(kept[1..], ["{}".to_owned(), lost]);
            let info = hub.stream(SCOPE, name).expect("a stream").info().expect("it is read").expect("it is there");
            assert!(info.closed_at.is_some());
        }
    }

    /// As the streams of earlier releases, those without a session, and those whose beginning retention took.
    #[tokio::test]
    async fn what_does_not_say_its_request_stays_as_it_is() {
        let hub = Hub::open("memory:").expect("a hub");
        let none = serde_json::to_vec(&Opening::of(None, "b")).expect("it has a text");
        assert_eq!(none, b"{}");
        let whole = serde_json::to_vec(&Opening::of(Some(RequestId::Number(7)), "c")).expect("it has a text");
        for (name, kind, payload) in [("a", MESSAGE, &whole), ("b", OPENED, &none)] {
            let writer = hub.new_writer(SCOPE, name).expect("a writer");
            writer.append(kind, payload, None).expect("it is taken");
            assert!(!answered(&hub, &writer).await, "{name}");
            assert_eq!(payloads(&hub, name).len(), 1, "{name}");
            assert!(!writer.closed(), "{name}");
        }
    }
}
