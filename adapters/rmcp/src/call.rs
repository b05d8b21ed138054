//! One watched `tools/call`: accept the config, acknowledge it, run the tool, record the one outcome.

use std::pin::{Pin, pin};
use std::time::Duration;

use http::request::Parts;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CustomNotification, MetaObject, ServerNotification};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tidings::proto::id::RequestId;
use tidings::proto::trigger::{Outcome, Reason};
use tidings::proto::wire::tidings::{EXTENSION, META_ACKNOWLEDGED, META_UNDELIVERED};
use tidings::proto::wire::{rpc, sep992};
use tidings::{BeginCall, Call, Ended, ErrorCode};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::adapter::Adapter;
use crate::front::{Config, Gone};
use crate::overheard::Hearing;
use crate::own_routes::OwnConfig;
use crate::principal::{Asker, is_modern};
use crate::running::RunningCall;
use crate::session_place::CallersPlace;
use crate::wire;

/// How long a client that reads nothing may hold up the start of its own tool.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(5);

/// How long a config waits to be on disk, which is more than one process ever waits for another; then it is refused.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked whether a connection has closed of which a request was taken away.
const LOOK: Duration = Duration::from_millis(10);

/// A request for a tool, taken apart.
pub(crate) struct Asked {
    pub(crate) params: CallToolRequestParams,
    pub(crate) context: RequestContext<RoleServer>,
    pub(crate) asker: Asker,
    pub(crate) modern: bool,
    /// The raw `notificationConfig`, of a server that takes any.
    pub(crate) config: Option<String>,
    /// The server's own config, where the client brought none.
    pub(crate) own: Option<OwnConfig>,
    /// The client said `notifications/cancelled`.
    pub(crate) cancelled: CancellationToken,
    /// The calling connection as a place for deliveries.
    pub(crate) place: Option<CallersPlace>,
}

/// Cancelled when the connection of a request is lost; `None` where rmcp does not tell. See [`Front`](crate::Front).
pub(crate) fn gone(context: &RequestContext<RoleServer>) -> Option<CancellationToken> {
    Some(context.extensions.get::<Parts>()?.extensions.get::<Gone>()?.0.clone())
}

/// Takes the config out of a request: its tool does not see it. Clients whose SDK has no room for it in the parameters have it in
/// `_meta`, under the extension's name or by its own.
pub(crate) fn config_of(context: &mut RequestContext<RoleServer>) -> Option<String> {
    let meta = &mut context.meta.0.0;
    let (by_extension, by_name) = (meta.remove(EXTENSION), meta.remove(sep992::NOTIFICATION_CONFIG));
    let in_meta = by_extension.or(by_name);
    let parts = context.extensions.get::<Parts>();
    let raw = parts.and_then(|parts| parts.extensions.get::<Config>()).map(|config| config.0.get().to_owned());
    raw.or_else(|| in_meta.map(|config| config.to_string()))
}

impl Asked {
    /// The connection of the request is lost; never where rmcp does not tell. See [`Front`](crate::Front).
    pub(crate) fn gone(&self) -> CancellationToken {
        gone(&self.context).unwrap_or_default()
    }

    pub(crate) fn tool(&self) -> &str {
        &self.params.name
    }

    /// There are routes, the client's or the server's own.
    pub(crate) fn has_routes(&self) -> bool {
        self.config.is_some() || self.own.is_some()
    }

    /// The JSON-RPC id of the request.
    pub(crate) fn request_id(&self) -> Option<RequestId> {
        RequestId::parse(&serde_json::to_vec(&self.context.id).ok()?).ok()
    }

    /// What the tool is given: a way to stop it and the call that it runs in, which hears what it says until what stands beside
    /// it is dropped.
    pub(crate) fn tool_context(
        &self,
        stop: &CancellationToken,
        running: RunningCall,
    ) -> (RequestContext<RoleServer>, Hearing) {
        let mut context = self.context.clone();
        context.ct = stop.clone();
        let hearing = Hearing::of(&mut context, &running);
        context.extensions.insert(running);
        (context, hearing)
    }
}

/// Accepts the config; it is on disk then.
pub(crate) async fn accept(terms: &Adapter, asked: &Asked) -> Result<Call, ErrorData> {
    let id = asked.request_id().ok_or_else(wire::config_not_stored)?;
    let rings = asked.place.as_ref().is_some_and(|place| place.takes(sep992::ROUTE_SIGNAL));
    let (config, types, open) = match (&asked.config, &asked.own) {
        (None, Some(own)) => (Some(&own.text), &own.types, &own.open),
        (config, _) => (config.as_ref(), &terms.routes, &terms.open),
    };
    let types: Vec<&str> =
        types.iter().map(String::as_str).filter(|kind| *kind != sep992::ROUTE_SIGNAL || rings).collect();
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    let begin = BeginCall {
        config: config.map(String::as_bytes),
        route_types: &types,
        principal: &asked.asker.name,
        session: asked.asker.session.as_deref(),
        peer: asked.place.as_ref().map(|place| place.name.as_str()),
        open: &open,
        request_id: &id,
        tool: asked.tool(),
        timeout: terms.timeout,
        task: None,
    };
    let traceparent = asked.context.meta.get_traceparent();
    let beginning = async {
        match asked.config {
            Some(_) => terms.hub.begin_call_traced(begin, traceparent).await,
            None => terms.hub.begin_own_call(begin, traceparent).await,
        }
    };
    // A caller who gives up waiting leaves nothing behind: what is stored after that ends at once.
    let Ok(begun) = timeout(ACCEPT_WITHIN, beginning).await else {
        tracing::warn!("a notificationConfig could not be stored in time");
        return Err(wire::config_not_stored());
    };
    begun.map_err(|error| match (error.faults(), error.code()) {
        (Some(faults), _) => wire::config_rejected(faults),
        (None, ErrorCode::Internal) => wire::policy_failed(),
        (None, _) => {
            tracing::warn!(%error, "a notificationConfig could not be accepted");
            wire::config_not_stored()
        }
    })
}

/// Answers the request of a client that brought a config.
pub(crate) async fn watched<H: ServerHandler>(
    terms: &Adapter,
    handler: &H,
    asked: Asked,
) -> Result<CallToolResponse, ErrorData> {
    let call = accept(terms, &asked).await?;
    let acknowledgement = acknowledge(&call, &asked).await;
    let stop = CancellationToken::new();
    let running = RunningCall::begun(call.clone(), &asked.context);
    let (context, _hearing) = asked.tool_context(&stop, running);
    let mut tool = pin!(handler.call_tool(asked.params.clone(), context));
    let mut ended = pin!(call.ended());
    let mut leaving = Leaving::new(&asked);
    loop {
        tokio::select! {
            biased;
            result = &mut tool => return outcome(&call, acknowledgement, asked.modern, result).await,
            ended = &mut ended => {
                stop.cancel();
                return Err(elsewhere(&call, ended));
            }
            left = leaving.next() => if left == Left::Cancelled {
                stop.cancel();
                return Err(cancelled(&call).await);
            } else {
                leaves(terms, &call, &asked, left);
            },
        }
    }
}

/// Sends the acknowledgement, and answers it for the result, which carries it as well. Of the server's own routes nobody is
/// told.
pub(crate) async fn acknowledge(call: &Call, asked: &Asked) -> Option<Value> {
    asked.config.as_ref()?;
    let acknowledgement: Value = serde_json::from_str(&call.acknowledgement()).unwrap_or_default();
    let frame = custom(sep992::CONFIG_ACKNOWLEDGED, acknowledgement.clone());
    drop(timeout(ACKNOWLEDGE_WITHIN, asked.context.peer.send_notification(frame)).await);
    Some(acknowledgement)
}

pub(crate) fn custom(method: &str, params: Value) -> ServerNotification {
    ServerNotification::CustomNotification(CustomNotification::new(method, Some(params)))
}

/// What became of the client while its tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It asked for the call to be cancelled.
    Cancelled,
    /// The connection of the request is lost.
    Request,
    /// rmcp has taken the request away: the session is over, or the server is.
    Session,
}

/// Tells each thing once, and after [`Left::Session`] nothing.
pub(crate) struct Leaving {
    request: CancellationToken,
    gone: CancellationToken,
    cancelled: CancellationToken,
    peer: Peer<RoleServer>,
    told_gone: bool,
    over: bool,
}

impl Leaving {
    pub(crate) fn new(asked: &Asked) -> Self {
        Self {
            request: asked.context.ct.clone(),
            gone: asked.gone(),
            cancelled: asked.cancelled.clone(),
            peer: asked.context.peer.clone(),
            told_gone: false,
            over: false,
        }
    }

    pub(crate) async fn next(&mut self) -> Left {
        if self.over {
            return std::future::pending().await;
        }
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => {
                self.over = true;
                Left::Cancelled
            }
            () = self.request.cancelled() => {
                self.over = true;
                self.who().await
            }
            () = self.gone.cancelled(), if !self.told_gone => {
                self.told_gone = true;
                Left::Request
            }
        }
    }

    /// rmcp cancels a request in the same way for its client and for a connection that ends. One of the two shows.
    async fn who(&self) -> Left {
        while !self.peer.is_transport_closed() {
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => return Left::Cancelled,
                () = sleep(LOOK) => {}
            }
        }
        Left::Session
    }
}

/// The client cannot be told any more; the call goes on, within the limits.
pub(crate) fn leaves(terms: &Adapter, call: &Call, asked: &Asked, left: Left) {
    // A legacy session outlives its connections: only what the client asked for is told.
    let told = if left == Left::Request && !asked.modern {
        call.disconnected()
    } else {
        call.detach(&asked.asker.counted_as, terms.detach).map(drop)
    };
    if let Err(error) = told
        && !matches!(error.code(), ErrorCode::Ended | ErrorCode::Closed)
    {
        tracing::warn!(%error, "a lost connection could not be recorded");
    }
}

/// Ends a call as its client asked, and answers what the request is answered with.
pub(crate) async fn cancelled(call: &Call) -> ErrorData {
    elsewhere(call, call.cancel(None).await)
}

/// What the request of a call is answered with that has ended without its tool.
pub(crate) fn elsewhere(call: &Call, ended: Result<Ended, tidings::Error>) -> ErrorData {
    match ended {
        Ok(ended) => wire::ended_elsewhere(&ended, &call.id().to_string()),
        // The hub is closed, and has ended its calls.
        Err(_) => wire::error(rpc::INTERNAL_ERROR, "The server is shutting down", None),
    }
}

/// Records what a tool came to, and answers the request with it.
pub(crate) async fn outcome(
    call: &Call,
    acknowledgement: Option<Value>,
    modern: bool,
    result: Result<CallToolResponse, ErrorData>,
) -> Result<CallToolResponse, ErrorData> {
    let response = match result {
        Ok(response) => response,
        Err(error) => {
            let text = serde_json::to_vec(&error).unwrap_or_else(|_| b"{}".to_vec());
            end(call, Box::pin(call.fail(Some(&text), None))).await?;
            return Err(error);
        }
    };
    let mut result = match with_meta(response, acknowledgement) {
        CallToolResponse::Complete(result) => result,
        // An interim answer: the request is over, and its tool has not completed.
        interim => {
            end(call, Box::pin(call.cancel(None))).await?;
            return Ok(interim);
        }
    };
    if !modern {
        // rmcp takes it away from what it sends to older clients.
        result.result_type = None;
    }
    let text = match serde_json::to_vec(&result) {
        Ok(text) => text,
        Err(_) => {
            let data = json!({"reason": Reason::Unserialisable.as_str()});
            let error = wire::error(rpc::INTERNAL_ERROR, "The tool's result could not be serialised", Some(data));
            let text = serde_json::to_vec(&error).unwrap_or_else(|_| b"{}".to_vec());
            end(call, Box::pin(call.fail(Some(&text), Some(Reason::Unserialisable)))).await?;
            return Err(error);
        }
    };
    let undelivered = match end(call, Box::pin(call.complete(&text))).await? {
        None => Some(json!([{"reason": "store_unavailable"}])),
        Some(ended) => ended.undelivered.and_then(|text| serde_json::from_str(&text).ok()),
    };
    if let Some(undelivered) = undelivered {
        result.meta.get_or_insert_default().0.insert(META_UNDELIVERED.to_owned(), undelivered);
    }
    Ok(CallToolResponse::Complete(result))
}

/// The acknowledgement is in the result too: a response in JSON has no stream to put it on.
pub(crate) fn with_meta(mut response: CallToolResponse, acknowledgement: Option<Value>) -> CallToolResponse {
    let Some(acknowledgement) = acknowledgement else { return response };
    let meta: Option<&mut Option<MetaObject>> = match &mut response {
        CallToolResponse::Complete(result) => Some(&mut result.meta),
        CallToolResponse::InputRequired(result) => Some(&mut result.meta),
        CallToolResponse::Task(result) => Some(&mut result.meta),
        _ => None,
    };
    if let Some(meta) = meta {
        meta.get_or_insert_default().0.insert(META_ACKNOWLEDGED.to_owned(), acknowledgement);
    }
    response
}

type Ending<'a> = Pin<Box<dyn Future<Output = Result<Ended, tidings::Error>> + Send + 'a>>;

/// Records the outcome. An error: another was there first. `None`: the store did not take it.
async fn end(call: &Call, ending: Ending<'_>) -> Result<Option<Ended>, ErrorData> {
    match ending.await {
        Ok(ended) if !ended.ours && matches!(ended.outcome, Outcome::Timeout | Outcome::Cancelled) => {
            Err(wire::ended_elsewhere(&ended, &call.id().to_string()))
        }
        Ok(ended) => Ok(Some(ended)),
        Err(error) => {
            if error.code() != ErrorCode::Closed {
                tracing::warn!(%error, "an outcome could not be recorded");
            }
            Ok(None)
        }
    }
}

/// Whether the client is of 2026-07-28 or later and this request declares the Tasks extension.
pub(crate) fn declares_tasks(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context) && context.client_capabilities().is_some_and(|client| client.supports_tasks())
}
