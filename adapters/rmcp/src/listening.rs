//! `subscriptions/listen` (2026-07-28) as `Front` and `StdioFront` let it through, served from the hub.
//!
//! rmcp's own filter has no room for `taskIds`, and rmcp acknowledges a listener before it shows a handler whose it is. So the
//! filter is set aside where the request comes in: rmcp then takes the request for one that it does not know, and hands it
//! on as it is, with all that is known of who asks. Its acknowledgement is ours, and so is its result.

use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta, Request, ServerJsonRpcMessage, ServerNotification,
    SubscriptionFilter, SubscriptionsListenRequestMethod, SubscriptionsListenRequestParams, SubscriptionsListenResult,
};
use rmcp::service::{RequestContext, RoleServer, serve_directly};
use rmcp::transport::OneshotTransport;
use rmcp::{ErrorData, ServerHandler};
use serde_json::Value;
use tidings::Hub;
use tidings::proto::fanout::mcp::{LISTEN, MCP, TASK};
use tidings::proto::fanout::{Filter, FilterError, Profile};
use tokio_util::sync::CancellationToken;

use crate::adapter::Adapter;
use crate::fan_out::{Listener, Writer};
use crate::peers::{Sink, advertises_changes, profile, request_id, tag};
use crate::principal::{Asker, is_modern};
use crate::wire;

/// Where the filter is from where the request comes in to where it is served.
const SET_ASIDE: &str = "io.tidings/notifications";
/// Where it was.
const FILTER: &str = "notifications";

/// A `subscriptions/listen` whose filter is set aside; `None` for everything else.
pub(crate) fn set_aside(body: &[u8]) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(body).ok()?;
    if message["method"] != LISTEN {
        return None;
    }
    let params = message.get_mut("params")?.as_object_mut()?;
    let filter = params.remove(FILTER)?;
    params.insert(SET_ASIDE.to_owned(), filter);
    serde_json::to_vec(&message).ok()
}

/// A request for a listener.
pub(crate) struct Listen<'a, H> {
    pub(crate) terms: &'a Adapter,
    pub(crate) handler: &'a Arc<H>,
    pub(crate) context: &'a RequestContext<RoleServer>,
    pub(crate) asker: &'a Asker,
    /// What its client may be told of tasks is ours to tell.
    pub(crate) tasks: bool,
}

impl<H: ServerHandler> Listen<'_, H> {
    /// Tells the listener until it ends. `server` is what the server says of itself, ours included.
    pub(crate) async fn serve(
        &self,
        params: Option<&Value>,
        server: rmcp::model::ServerConfig,
    ) -> Result<Value, ErrorData> {
        let filter = params.and_then(|params| params.get(SET_ASIDE).or_else(|| params.get(FILTER)));
        let filter = filter.cloned().unwrap_or_default();
        let asked =
            Filter::parse(&MCP, &filter.to_string()).map_err(|error| wire::invalid_params(error.to_string(), None))?;
        let requested: SubscriptionFilter = serde_json::from_value(filter)
            .map_err(|error| wire::invalid_params(format!("notifications: {error}"), None))?;
        let own = self.handler.accepted_subscription_filter(&requested);
        let changes = advertises_changes(&server.capabilities);
        if !is_modern(self.context) || (own.is_none() && !changes && !self.tasks) {
            return Err(ErrorData::method_not_found::<SubscriptionsListenRequestMethod>());
        }
        let client = self.context.client_capabilities().unwrap_or_default();
        let profile = profile(tidings::proto::fanout::mcp::FIRST_MODERN, &server.capabilities, &client)
            .map_err(|error| unserved(&*error))?;
        let narrowed = own.as_ref().map(|own| requested.intersection(own));
        let honoured = self.honoured(asked, narrowed.as_ref(), &profile)?;
        let (_sink, listener) = self.join(&profile, honoured).map_err(|error| unserved(&*error))?;
        let ended = listener.ended.clone();
        let handlers = async {
            match own {
                Some(_) => self.handlers(requested, &listener).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ended.cancelled() => {}
            () = self.context.ct.cancelled() => {}
            ended = handlers => ended?,
        }
        let mut result = SubscriptionsListenResult::complete(self.context.id.clone());
        result.meta.set_server_info(server.server_info);
        serde_json::to_value(result).map_err(|error| unserved(&error))
    }

    /// The part of the filter that is honoured: what the server tells of, and of tasks those that are there for who asks.
    fn honoured(
        &self,
        asked: Filter,
        narrowed: Option<&SubscriptionFilter>,
        profile: &Profile,
    ) -> Result<Filter, ErrorData> {
        let undeclared = |error: FilterError| match error {
            FilterError::NotDeclared { .. } => wire::tasks_undeclared(),
            other => wire::invalid_params(other.to_string(), None),
        };
        let mut honoured = asked.honoured(profile).map_err(undeclared)?;
        let mut failed = None;
        honoured.retain(TASK, |id| match theirs(&self.terms.hub, id, &self.asker.name) {
            Ok(theirs) => theirs,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let Some(narrowed) = narrowed else { return Ok(honoured) };
        // The handler has its say about what rmcp has a word for.
        let text = serde_json::to_string(narrowed).map_err(|error| unserved(&error))?;
        let mut kept = Filter::parse(&MCP, &text).and_then(|kept| kept.honoured(profile)).map_err(undeclared)?;
        for (_, id) in honoured.names().filter(|(method, _)| *method == TASK) {
            kept.add(TASK, id);
        }
        Ok(kept)
    }

    /// From now on it is told, after its acknowledgement.
    fn join(&self, profile: &Profile, honoured: Filter) -> Result<(Sink, Listener), Box<dyn std::error::Error>> {
        let id = request_id(&self.context.id).ok_or("the request's id cannot be written")?;
        let listener = Listener {
            peer: self.context.peer.clone(),
            tag: tag(&id),
            told: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        let place = self.terms.fan_out.place()?;
        let sink = place.add(Some(&self.asker.name), Writer::Listener(listener.clone()))?;
        let sink = Sink { id: sink, place };
        sink.place.outbox.listen(sink.id, profile, &id, honoured)?;
        Ok((sink, listener))
    }

    /// What the handler tells a listener itself, beside what the hub does. It is served by rmcp, which alone can make what
    /// the handler is given; its acknowledgement, which rmcp sends first, stands for ours. Returns when the handler ends it.
    async fn handlers(&self, requested: SubscriptionFilter, listener: &Listener) -> Result<(), ErrorData> {
        let mut request = Request::new(SubscriptionsListenRequestParams::new(requested));
        request.extensions = self.context.extensions.clone();
        let mut request = ClientRequest::SubscriptionsListenRequest(request);
        *request.get_meta_mut() = self.context.meta.clone();
        let (transport, mut said) =
            OneshotTransport::<RoleServer>::new(ClientJsonRpcMessage::request(request, self.context.id.clone()));
        let client = self.context.peer.peer_info().map(|client| (*client).clone());
        // Dropped with this future, which ends it.
        let _serving = serve_directly(Arc::clone(self.handler), transport, client);
        while let Some(message) = said.recv().await {
            match message {
                ServerJsonRpcMessage::Notification(message) => {
                    let own =
                        matches!(message.notification, ServerNotification::SubscriptionsAcknowledgedNotification(_));
                    if own {
                        listener.told.cancelled().await;
                    } else if self.context.peer.send_notification(message.notification).await.is_err() {
                        return Ok(());
                    }
                }
                ServerJsonRpcMessage::Response(_) => return Ok(()),
                ServerJsonRpcMessage::Error(refused) => return Err(refused.error),
                // No server of 2026-07-28 asks its client anything, and rmcp lets none.
                ServerJsonRpcMessage::Request(_) => {}
            }
        }
        Ok(())
    }
}

fn theirs(hub: &Hub, id: &str, asker: &str) -> Result<bool, ErrorData> {
    let found = hub.task(id, asker);
    found.map(|task| task.is_some()).map_err(|error| wire::failed("The task could not be looked up", &error))
}

fn unserved(error: &dyn std::fmt::Display) -> ErrorData {
    tracing::warn!(%error, "a listener could not be served");
    wire::cannot_listen()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_is_set_aside_however_its_request_is_written() {
        for request in [
            r#"{"id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["ü"]},"_meta":{"a":1}}}"#,
            r#"{"id":1,"method":"subscriptions\/l\u0069sten","params":{"_meta":{"a":1},"n\u006ftifications":{"taskIds":["ü"]}}}"#,
        ] {
            let aside = set_aside(request.as_bytes()).expect(request);
            let aside: Value = serde_json::from_slice(&aside).expect("JSON");
            let params = json!({"_meta": {"a": 1}, "io.tidings/notifications": {"taskIds": ["ü"]}});
            assert_eq!(aside, json!({"id": 1, "method": "subscriptions/listen", "params": params}));
        }
        for other in [
            r#"{"id":1,"method":"tools/call","params":{"notifications":{}}}"#,
            r#"{"id":1,"method":"subscriptions/listen","params":{}}"#,
            r#"{"id":1,"method":"subscriptions/listen"}"#,
            r#"[{"method":"subscriptions/listen","params":{"notifications":{}}}]"#,
            "",
        ] {
            assert_eq!(set_aside(other.as_bytes()), None, "{other}");
        }
    }
}
