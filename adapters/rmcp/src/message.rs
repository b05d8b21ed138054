//! Messages of the protocol as they are kept, and back.

use std::sync::Arc;

use rmcp::model::{
    CustomNotification, CustomRequest, CustomResult, JsonObject, JsonRpcError, RequestId, ServerJsonRpcMessage,
    ServerNotification, ServerRequest, ServerResult,
};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use serde_json::{Value, json};
use tidings::proto::stream::Gap;
use tidings::proto::wire::tidings::GAP;

/// Reads what `serde_json` wrote of a message. The types of its parts are the general ones, so that what goes out is the
/// JSON that went out before: rmcp's unions guess what a result or a notification is, and leave out what they do not know.
pub(crate) fn read(text: &[u8]) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    let mut object: JsonObject = serde_json::from_slice(text)?;
    if object.contains_key("error") {
        let error: JsonRpcError = serde_json::from_value(Value::Object(object))?;
        return Ok(ServerJsonRpcMessage::Error(error));
    }
    let id: Option<RequestId> = object.remove("id").map(serde_json::from_value).transpose()?;
    if let (Some(id), Some(result)) = (&id, object.remove("result")) {
        let result = ServerResult::CustomResult(CustomResult::new(result));
        return Ok(ServerJsonRpcMessage::response(result, id.clone()));
    }
    if object.get("params").is_none_or(Value::is_null) {
        // rmcp's own types know which of them write `null` and which nothing.
        return serde_json::from_slice(text);
    }
    let method: String = serde_json::from_value(object.remove("method").unwrap_or_default())?;
    let params = object.remove("params");
    Ok(match id {
        Some(id) => {
            let request = ServerRequest::CustomRequest(CustomRequest::new(method, params));
            ServerJsonRpcMessage::request(request, id)
        }
        None => notification(method, params),
    })
}

/// The notification that a stream cannot be complete.
pub(crate) fn of_gap(gap: Gap) -> ServerJsonRpcMessage {
    let mut params = json!({"reason": gap.reason.as_str()});
    for (name, seq) in [("earliestSeq", gap.earliest_seq), ("headSeq", gap.head_seq)] {
        if let Some(seq) = seq {
            params[name] = seq.into();
        }
    }
    notification(GAP.to_owned(), Some(params))
}

fn notification(method: String, params: Option<Value>) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::notification(ServerNotification::CustomNotification(CustomNotification::new(method, params)))
}

/// A frame with its event id.
pub(crate) fn frame(event_id: Option<String>, message: ServerJsonRpcMessage) -> ServerSseMessage {
    let mut frame = ServerSseMessage::from_message(message);
    frame.event_id = event_id;
    frame
}

/// Whether a message answers the request whose stream it is sent on, so that nothing follows it.
pub(crate) fn is_answer(message: &Arc<ServerJsonRpcMessage>) -> bool {
    matches!(**message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client is sent again is what it was sent: also what rmcp's own types would drop or take for something else.
    #[test]
    fn what_is_read_is_written_as_it_was() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"resultType":"complete","x":{"y":null}}}"#,
            r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"taskId":"t","status":"working","createdAt":"","_meta":{"a":1}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"m","data":{"reason":"r"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"z":2}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","method":"x/y","params":null}"#,
            r#"{"jsonrpc":"2.0","method":"x/y","params":{"_meta":{"k":"v"},"a":[1,2.5,"ü"]}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"message":"m","extra":true}}"#,
        ] {
            let message = read(text.as_bytes()).expect(text);
            let again = serde_json::to_value(&message).expect("a message has a text");
            assert_eq!(again, serde_json::from_str::<Value>(text).expect("it is JSON"), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for text in ["", "[]", "{}", r#"{"jsonrpc":"2.0","id":1}"#, r#"{"jsonrpc":"2.0","id":[],"result":{}}"#] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
