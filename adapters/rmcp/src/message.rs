//! Messages of the protocol as they are kept, and back.

use std::io;
use std::sync::Arc;

use rmcp::model::{
    CustomNotification, CustomRequest, CustomResult, JsonRpcError, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerRequest, ServerResult,
};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tidings::proto::stream::Gap;
use tidings::proto::wire::tidings::GAP;

/// A message's members, read in one pass.
#[derive(Deserialize)]
struct Members<'a> {
    id: Option<RequestId>,
    method: Option<String>,
    params: Option<Value>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Reads what `serde_json` wrote of a message, so that what goes out is the JSON that went out before.
///
/// The types of its parts are the general ones, for rmcp's unions guess what a result or a notification is, and leave out what
/// they do not know. rmcp sorts the members of parameters whatever their type; those of a result stand in the order of
/// its type, which therefore is taken where it writes the same bytes again.
pub(crate) fn read(text: &[u8]) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    let Members { id, method, params, result, error } = serde_json::from_slice(text)?;
    if error.is_some() {
        return Ok(ServerJsonRpcMessage::Error(serde_json::from_slice::<JsonRpcError>(text)?));
    }
    if let (Some(id), Some(result)) = (&id, result) {
        return Ok(ServerJsonRpcMessage::response(read_result(result.get())?, id.clone()));
    }
    let (Some(method), Some(params)) = (method, params) else {
        // rmcp's own types know which of them write `null` and which nothing.
        return serde_json::from_slice(text);
    };
    Ok(match id {
        Some(id) => {
            let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
            ServerJsonRpcMessage::request(request, id)
        }
        None => notification(method, Some(params)),
    })
}

fn read_result(text: &str) -> Result<ServerResult, serde_json::Error> {
    if let Ok(result) = serde_json::from_str(text).map(ServerResult::CallToolResult)
        && is_written_as(&result, text)
    {
        return Ok(result);
    }
    match serde_json::from_str(text) {
        Ok(result) if is_written_as(&result, text) => Ok(result),
        _ => Ok(ServerResult::CustomResult(CustomResult::new(serde_json::from_str(text)?))),
    }
}

/// Whether `serde_json` writes this text, byte for byte.
fn is_written_as(value: &ServerResult, text: &str) -> bool {
    /// What of the text is still to be written.
    struct Rest<'a>(&'a [u8]);

    impl io::Write for Rest<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.strip_prefix(bytes).ok_or(io::ErrorKind::InvalidData)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut rest = Rest(text.as_bytes());
    serde_json::to_writer(&mut rest, value).is_ok() && rest.0.is_empty()
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
    use rmcp::model::{
        ErrorData, NotificationMetaObject, ProgressNotification, ProgressNotificationParam, ProgressToken,
        ToolListChangedNotification,
    };

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

    /// rmcp sorts what parameters have, and writes a result as its type has it: what is sent again is that, to the byte.
    #[test]
    fn what_rmcp_wrote_is_written_to_the_byte() {
        let tool = r#"{"content":[{"type":"text","text":"ü \"1\"","_meta":{"a":2,"b":1},"annotations":{"audience":["user"],"priority":0.8}},{"type":"resource_link","uri":"file:///a","name":"a"}],"structuredContent":{"b":null,"z":1.5},"isError":true,"_meta":{"io.tidings/acknowledged":{"acceptedRoutes":["r"],"callId":"c"},"z":0}}"#;
        let results = [
            tool,
            r#"{"resultType":"complete","content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"isError":false}"#,
            r#"{"content":[],"structuredContent":null}"#,
            r#"{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"0"},"instructions":"i"}"#,
            r#"{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object","properties":{}}}],"nextCursor":"n"}"#,
            r#"{"contents":[{"uri":"file:///a","mimeType":"text/plain","text":"t"}]}"#,
            r#"{}"#,
        ];
        let responses = results.map(|result| {
            let typed: ServerResult = serde_json::from_str(result).expect(result);
            ServerJsonRpcMessage::response(typed, RequestId::Number(7))
        });
        let mut progress = ProgressNotificationParam::new(ProgressToken(RequestId::Number(1)), 2.0);
        (progress.total, progress.message) = (Some(4.5), Some("half".to_owned()));
        let mut told = ProgressNotification::new(progress);
        told.extensions
            .insert(NotificationMetaObject::from(json!({"k": "v"}).as_object().cloned().unwrap_or_default()));
        let other = [
            ServerJsonRpcMessage::notification(ServerNotification::ProgressNotification(told)),
            ServerJsonRpcMessage::notification(ToolListChangedNotification::default().into()),
            ServerJsonRpcMessage::error(ErrorData::invalid_params("m", Some(json!({"z": 1, "a": 2}))), None),
        ];
        for message in responses.into_iter().chain(other) {
            let text = serde_json::to_string(&message).expect("it has a text");
            let again = read(text.as_bytes()).expect(&text);
            assert_eq!(serde_json::to_string(&again).expect("it has a text"), text);
        }
        // The expectation for the longest of them stands here, and not in what rmcp makes of it.
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{tool}}}"#);
        let again = read(text.as_bytes()).expect(&text);
        assert_eq!(serde_json::to_string(&again).expect("it has a text"), text);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for text in ["", "[]", "{}", r#"{"jsonrpc":"2.0","id":1}"#, r#"{"jsonrpc":"2.0","id":[],"result":{}}"#] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
