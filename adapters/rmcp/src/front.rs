//! What rmcp's HTTP service does not hand on: the raw `notificationConfig` of a request, the whole filter of a listener, and that
//! a client has gone.

use std::convert::Infallible;
use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use serde::Deserialize;
use serde_json::value::RawValue;
use tidings::proto::fanout::mcp::LISTEN;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use crate::listening::set_aside;

/// rmcp's own bound (4 MiB).
const MAX_BODY_BYTES: usize = 4 << 20;

/// The `notificationConfig` of a request as it came, in the extensions of its HTTP request.
#[derive(Clone, Debug)]
pub(crate) struct Config(pub(crate) Box<RawValue>);

/// Cancelled when the connection that a request came by is lost before its answer was sent; in the same place.
#[derive(Clone, Debug)]
pub(crate) struct Gone(pub(crate) CancellationToken);

/// Stands before rmcp's `StreamableHttpService`, as a `tower` service of the same shape.
///
/// rmcp reads a request into types that have no room for `params.notificationConfig` or for the `taskIds` of a listener, and
/// does not tell a tool that its client is gone. All of it is seen here. Without it a client has to put its config into `_meta`, the
/// trigger `io.tidings/disconnected` does not fire, a request of 2026-07-28 whose client has left goes on, and there are no
/// listeners.
///
/// Made by [`Adapter::front`](crate::Adapter::front) it lets `subscriptions/listen` through in a form that only the handlers of
/// [`Adapter::watch`](crate::Adapter::watch) serve.
#[derive(Clone, Debug)]
pub struct Front<S> {
    service: S,
    max_body_bytes: usize,
    listens: bool,
}

impl<S> Front<S> {
    /// Before that service.
    pub fn new(service: S) -> Self {
        Self { service, max_body_bytes: MAX_BODY_BYTES, listens: false }
    }

    /// Before a [`Watched`](crate::Watched) handler that tells of changes, which serves `subscriptions/listen` itself.
    pub(crate) fn listening(mut self, listens: bool) -> Self {
        self.listens = listens;
        self
    }

    /// Where `StreamableHttpServerConfig::max_request_body_bytes` is not the default, this must be the same. A request of
    /// more bytes is answered with 413.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl<S, B> Service<Request<B>> for Front<S>
where
    S: Service<Request<Full<Bytes>>, Response = Answer, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Display + Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled ready is the one that is called.
        let spare = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, spare);
        let (most, listens) = (self.max_body_bytes, self.listens);
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            // What is not posted has no body that means anything.
            if parts.method != Method::POST {
                return service.call(Request::from_parts(parts, Full::default())).await;
            }
            let body = match Limited::new(body, most).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) => return Ok(unread(&*error)),
            };
            let gone = CancellationToken::new();
            let body = match asked(&body) {
                Some(Asked::Call(config)) => {
                    parts.extensions.insert(Config(config));
                    body
                }
                Some(Asked::Listen) if listens => set_aside(&body).map_or(body, Bytes::from),
                _ => body,
            };
            parts.extensions.insert(Gone(gone.clone()));
            // A server lets go of this future when the connection is lost before there is an answer.
            let leaving = gone.drop_guard();
            let answer = service.call(Request::from_parts(parts, Full::new(body))).await?;
            Ok(answer.map(|body| Watching { body, gone: Some(leaving.disarm()) }.boxed()))
        })
    }
}

fn unread(error: &(dyn std::error::Error + 'static)) -> Answer {
    let (status, text) = if error.is::<http_body_util::LengthLimitError>() {
        (StatusCode::PAYLOAD_TOO_LARGE, "Payload Too Large")
    } else {
        (StatusCode::BAD_REQUEST, "Bad Request: the body could not be read")
    };
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow)]
    method: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    params: Option<PeekParams<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PeekParams<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    notification_config: Option<&'a RawValue>,
}

/// `null` is a config too, and no good one.
fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A request that is no other's to read first.
pub(crate) enum Asked {
    /// A `tools/call` with a config in its parameters, byte for byte.
    Call(Box<RawValue>),
    /// `subscriptions/listen`.
    Listen,
}

pub(crate) fn asked(body: &[u8]) -> Option<Asked> {
    let peek: Peek<'_> = serde_json::from_slice(body).ok()?;
    match &*peek.method {
        "tools/call" => Some(Asked::Call(peek.params?.notification_config?.to_owned())),
        LISTEN => Some(Asked::Listen),
        _ => None,
    }
}

/// A response's body that knows whether it was read to its end.
struct Watching {
    body: BoxBody<Bytes, Infallible>,
    gone: Option<CancellationToken>,
}

impl Body for Watching {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.gone = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // Its end may never be asked for: a body of known length is not polled again after its last byte.
        if !self.body.is_end_stream()
            && let Some(gone) = self.gone.take()
        {
            gone.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_taken_as_it_was_written() {
        let of = |body: &str| match asked(body.as_bytes()) {
            Some(Asked::Call(raw)) => Some(raw.get().to_owned()),
            _ => None,
        };
        let request =
            r#"{"id":1,"method":"tools/call","params":{"name":"t","notificationConfig": {"b" : 1.0, "a":2} }}"#;
        assert_eq!(of(request).as_deref(), Some(r#"{"b" : 1.0, "a":2}"#));
        assert_eq!(of(r#"{"method":"tools\/call","params":{"notificationConfig":null}}"#).as_deref(), Some("null"));
        assert_eq!(of(r#"{"method":"tools\/call","params":{"notificationConfig":[]}}"#).as_deref(), Some("[]"));
        for none in [
            r#"{"id":1,"method":"tools/list","params":{"notificationConfig":{}}}"#,
            r#"{"id":1,"method":"tools/call","params":{"_meta":{"notificationConfig":{}}}}"#,
            r#"{"id":1,"method":"tools/call"}"#,
            r#"{"id":1,"result":{}}"#,
            "[]",
            "",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
