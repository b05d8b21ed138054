//! A server's handler with Tidings around it.

#![allow(deprecated, reason = "what an older client may still ask for is handed on")]

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::request::Parts;
use rmcp::model::*;
use rmcp::service::{MaybeSendFuture, NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;
use tidings::proto::fanout::mcp::LISTEN;
use tidings::proto::wire::tidings::CALLS_CANCEL;
use tidings::proto::wire::{capability_json, sep992, sep2694, tidings::EXTENSION};
use tokio_util::sync::CancellationToken;

use crate::adapter::Adapter;
use crate::call::{Asked, config_of, declares_tasks, gone, watched};
use crate::listening::Listen;
use crate::peers::{Peers, advertises_changes};
use crate::principal::{Asker, asker, is_modern, session_header, session_of};
use crate::random::random;
use crate::running::RunningCall;
use crate::session_place::SessionPlaces;
use crate::task_call::task_call;
use crate::tasks::{TaskMode, Tasks, millis};
use crate::while_connected::while_connected;
use crate::{task_methods, task_stream, wire};

/// A server's handler, whose tool calls are watched: what their clients asked to be told is told, whatever becomes of the
/// connection. Everything else is the handler's own.
///
/// Made by [`Adapter::watch`], one for each connection.
pub struct Watched<H> {
    handler: Arc<H>,
    terms: Adapter,
    /// The Tasks extension, unless the handler has its own.
    tasks: Option<Arc<Tasks>>,
    /// Whom a request without a session or a principal counts as, where a connection outlives its requests.
    stand_in: OnceLock<String>,
    places: SessionPlaces,
    peers: Peers,
    /// Calls that run, by session and request id, for `notifications/cancelled`.
    running: Mutex<Cancels>,
}

type Cancels = HashMap<(Option<String>, RequestId), CancellationToken>;

impl<H: ServerHandler> Watched<H> {
    pub(crate) fn new(terms: Adapter, handler: H) -> Self {
        let own = handler.get_info().capabilities.supports_tasks();
        if own && terms.tasks.is_some() {
            tracing::warn!("this server has tasks already: they stay its own, and ours are off");
        }
        let tasks = terms.tasks.clone().filter(|_| !own);
        // Whose process it is shows best before anything has come.
        drop(terms.doorbell());
        Self {
            handler: Arc::new(handler),
            terms,
            tasks,
            stand_in: OnceLock::new(),
            places: SessionPlaces::default(),
            peers: Peers::default(),
            running: Mutex::default(),
        }
    }

    fn asker(&self, context: &RequestContext<RoleServer>) -> Result<Asker, ErrorData> {
        let stand_in = || {
            if over_http(context) {
                return connection();
            }
            Ok(match self.stand_in.get() {
                Some(name) => name.clone(),
                None => {
                    let name = connection()?;
                    self.stand_in.get_or_init(|| name).clone()
                }
            })
        };
        asker(self.terms.authenticate.as_ref(), context, stand_in)
    }

    /// Registers the session of a request, if it is one that outlives it, so that what changes from then on is told.
    fn attend(&self, context: &RequestContext<RoleServer>) {
        if !self.terms.tells || is_modern(context) {
            return;
        }
        match self.asker(context) {
            // Over HTTP nothing can be sent without a session once the request is over.
            Ok(asker) if asker.session.is_some() || !over_http(context) => {
                self.peers.attend(&self.terms, context, &asker, &self.handler.get_info().capabilities);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a session could not be registered for notifications"),
        }
    }

    /// A session may have been initialized.
    fn initialized(&self, noted: &NotificationContext<RoleServer>) {
        let mut context = RequestContext::new(RequestId::Number(0), noted.peer.clone());
        context.extensions = noted.extensions.clone();
        self.attend(&context);
        self.peers.initialized(&session_of(&context));
    }

    fn running(&self) -> MutexGuard<'_, Cancels> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what this server can do besides.
    fn advertise(&self, capabilities: &mut ServerCapabilities, tasks: bool, over_http: bool) {
        let mut add = |name: &str, settings: &str| {
            let settings = serde_json::from_str(settings).unwrap_or_default();
            capabilities.extensions.get_or_insert_default().insert(name.to_owned(), settings);
        };
        let types = self.terms.types(over_http);
        if !types.is_empty() {
            add(EXTENSION, &capability_json(types));
        }
        if tasks && self.tasks.is_some() {
            let streams = self.terms.streams.as_ref().map(|_| json!({sep2694::EVENT_STREAMS: {}}));
            add(TASKS_EXTENSION_ID, &streams.unwrap_or_else(|| json!({})).to_string());
        }
    }

    async fn call(
        &self,
        params: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Taken out in any case: a tool does not see it.
        let config = config_of(&mut context).filter(|_| !self.terms.routes.is_empty());
        let tasks = self.tasks.as_ref().filter(|tasks| tasks.mode(&params.name) != TaskMode::Never);
        let declared = declares_tasks(&context);
        let modern = is_modern(&context);
        if modern && !declared && tasks.is_some_and(|tasks| tasks.mode(&params.name) == TaskMode::Required) {
            return Err(wire::tasks_undeclared());
        }
        let tasks = tasks.filter(|_| declared);
        if config.is_none() && tasks.is_none() && self.terms.own.is_empty() {
            return self.plain(params, context).await;
        }
        let asker = self.asker(&context)?;
        let place = if self.needs_place(config.as_deref(), &params.name) {
            self.places.of(&self.terms, &context, &asker)?
        } else {
            None
        };
        let own = || self.terms.own.config(&params.name, place.as_ref());
        let own = if config.is_none() { own() } else { None };
        if config.is_none() && tasks.is_none() && own.is_none() {
            return self.plain(params, context).await;
        }
        let key = (asker.session.clone(), context.id.clone());
        let cancelled = CancellationToken::new();
        self.running().insert(key.clone(), cancelled.clone());
        let _forget = Forget { running: &self.running, key };
        let asked = Asked { params, context, asker, modern, config, own, cancelled, place };
        match tasks {
            Some(tasks) => task_call(&self.terms, tasks, &self.handler, asked).await,
            None => watched(&self.terms, &*self.handler, asked).await,
        }
    }

    /// Whether a route of the call may go to its session.
    fn needs_place(&self, config: Option<&str>, tool: &str) -> bool {
        let goes_there = |kind: &String| matches!(kind.as_str(), sep992::ROUTE_MESSAGE | sep992::ROUTE_SIGNAL);
        match config {
            Some(_) => self.terms.routes.iter().any(goes_there),
            None => self.terms.own.goes_to_session(tool),
        }
    }

    /// A call that nobody asked to be watched.
    async fn plain(
        &self,
        params: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let running = RunningCall::plain(&context);
        context.extensions.insert(running);
        while_connected(context, |context| self.timed(params, context)).await
    }

    async fn timed(
        &self,
        params: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(most) = self.terms.timeout else { return self.handler.call_tool(params, context).await };
        let stop = context.ct.child_token();
        context.ct = stop.clone();
        match tokio::time::timeout(most, self.handler.call_tool(params, context)).await {
            Ok(result) => result,
            Err(_) => {
                stop.cancel();
                Err(wire::timed_out(millis(most)))
            }
        }
    }

    /// An error for a listener of which nobody would tell that it has left, so that it would be served for ever.
    fn needs_front(&self, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if gone(context).is_none() && over_http(context) && self.terms.recorded.load(Ordering::Relaxed) {
            tracing::error!("subscriptions/listen over HTTP needs tidings_rmcp::Front before rmcp's service");
            return Err(wire::cannot_listen());
        }
        Ok(())
    }

    /// The requests that rmcp does not know.
    async fn custom(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.as_ref();
        // From 2026-07-28 on every result says what it is.
        let done = if is_modern(&context) { json!({"resultType": "complete"}) } else { json!({}) };
        match (request.method.as_str(), &self.tasks, &self.terms.streams) {
            (sep2694::TASKS_STREAM, Some(tasks), Some(limits)) => {
                if is_modern(&context) && !declares_tasks(&context) {
                    return Err(wire::tasks_undeclared());
                }
                task_stream::check_header(params, &context)?;
                let asker = self.asker(&context)?;
                task_stream::serve(&self.terms, tasks, limits, &asker, params, &context).await?;
            }
            (LISTEN, ..) if self.terms.tells => {
                let asker = self.asker(&context)?;
                self.needs_front(&context)?;
                let listen = Listen {
                    terms: &self.terms,
                    handler: &self.handler,
                    context: &context,
                    asker: &asker,
                    tasks: self.tasks.is_some(),
                };
                return listen.serve(params, self.get_info()).await.map(CustomResult::new);
            }
            (CALLS_CANCEL, ..) if !self.terms.routes.is_empty() => {
                task_methods::cancel_call(&self.terms, params, &self.asker(&context)?.name).await?;
            }
            _ => return self.handler.on_custom_request(request, context).await,
        }
        Ok(CustomResult::new(done))
    }
}

/// A call that runs no longer.
struct Forget<'a> {
    running: &'a Mutex<Cancels>,
    key: (Option<String>, RequestId),
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// A principal for whom nobody stands.
fn connection() -> Result<String, ErrorData> {
    Ok(format!("connection:{}", random()?))
}

fn over_http(context: &RequestContext<RoleServer>) -> bool {
    context.extensions.get::<Parts>().is_some()
}

/// Hands on as it is what has no answer, and what has one at once.
macro_rules! hand_on {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> impl Future<Output = $answer> + MaybeSendFuture + '_ {
            self.handler.$name($($argument),*)
        })*
    };
}

/// Hands a request on, and cancels it where its client has left and that is to cancel.
macro_rules! hand_on_connected {
    ($($name:ident($request:ty) -> $answer:ty;)*) => {
        $(async fn $name(&self, request: $request, context: Context) -> $answer {
            while_connected(context, |context| self.handler.$name(request, context)).await
        })*
    };
}

/// The same for what a client reads of which it may be told that it has changed: from then on it is told, so that no change
/// falls between.
macro_rules! hand_on_attended {
    ($($name:ident($request:ty) -> $answer:ty;)*) => {
        $(async fn $name(&self, request: $request, context: Context) -> $answer {
            self.attend(&context);
            while_connected(context, |context| self.handler.$name(request, context)).await
        })*
    };
}

type Context = RequestContext<RoleServer>;
type Noted = NotificationContext<RoleServer>;
type Answered<T> = Result<T, ErrorData>;

impl<H: ServerHandler> ServerHandler for Watched<H> {
    hand_on! {
        ping(context: Context) -> Answered<()>;
        set_level(request: SetLevelRequestParams, context: Context) -> Answered<()>;
        on_progress(notification: ProgressNotificationParam, context: Noted) -> ();
        on_roots_list_changed(context: Noted) -> ();
        on_custom_notification(notification: CustomNotification, context: Noted) -> ();
    }

    hand_on_connected! {
        complete(CompleteRequestParams) -> Answered<CompleteResult>;
        get_prompt(GetPromptRequestParams) -> Answered<GetPromptResponse>;
        list_skills(Option<PaginatedRequestParams>) -> Answered<ListSkillsResult>;
        get_skill(GetSkillRequestParams) -> Answered<GetSkillResult>;
        read_resource_directory(ReadResourceDirectoryRequestParams) -> Answered<ListResourcesResult>;
    }

    hand_on_attended! {
        list_tools(Option<PaginatedRequestParams>) -> Answered<ListToolsResult>;
        list_prompts(Option<PaginatedRequestParams>) -> Answered<ListPromptsResult>;
        list_resources(Option<PaginatedRequestParams>) -> Answered<ListResourcesResult>;
        list_resource_templates(Option<PaginatedRequestParams>) -> Answered<ListResourceTemplatesResult>;
        read_resource(ReadResourceRequestParams) -> Answered<ReadResourceResponse>;
    }

    async fn on_initialized(&self, context: Noted) {
        self.initialized(&context);
        self.handler.on_initialized(context).await;
    }

    async fn subscribe(&self, request: SubscribeRequestParams, context: Context) -> Answered<()> {
        self.attend(&context);
        let (uri, session) = (request.uri.clone(), session_of(&context));
        let served = self.handler.subscribe(request, context).await;
        self.peers.subscribe(&self.terms, &session, &uri, served).await
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, context: Context) -> Answered<()> {
        let (uri, session) = (request.uri.clone(), session_of(&context));
        let served = self.handler.unsubscribe(request, context).await;
        self.peers.unsubscribe(&self.terms, &session, &uri, served).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let own = self.handler.accepted_subscription_filter(requested);
        if !self.terms.tells {
            return own;
        }
        let server = self.handler.get_info().capabilities;
        // A server that advertises nothing to listen to has no such request, unless its handler has.
        let accepted = own.or_else(|| advertises_changes(&server).then(|| requested.clone()))?;
        let narrowed = requested.intersection(&accepted).supported_by(&server);
        self.peers.opening(&self.terms, requested, &narrowed, &server);
        Some(narrowed)
    }

    async fn listen(&self, context: SubscriptionContext) -> Answered<()> {
        let request = context.request_context();
        let gone = gone(request);
        if !self.terms.tells {
            let gone = gone.unwrap_or_default();
            return tokio::select! {
                ended = self.handler.listen(context) => ended,
                () = gone.cancelled() => Ok(()),
            };
        }
        self.needs_front(request)?;
        let asker = self.asker(request)?;
        let listening = self.peers.listen(context.requested(), request, &asker).ok_or_else(wire::cannot_listen)?;
        let gone = gone.unwrap_or_default();
        let has_own = self.handler.accepted_subscription_filter(context.requested()).is_some();
        let handlers = async {
            if has_own {
                return self.handler.listen(context).await;
            }
            context.cancelled().await;
            Ok(())
        };
        tokio::select! {
            ended = handlers => ended,
            () = listening.ended() => Ok(()),
            () = gone.cancelled() => Ok(()), // rmcp goes on with a request whose stream is kept; nobody reads this one
        }
    }

    async fn initialize(&self, request: InitializeRequestParams, context: Context) -> Answered<InitializeResult> {
        let http = over_http(&context);
        let mut result = self.handler.initialize(request, context).await?;
        // To older clients the Tasks extension does not exist.
        self.advertise(&mut result.capabilities, false, http);
        Ok(result)
    }

    async fn discover(&self, context: Context) -> Answered<DiscoverResult> {
        let http = over_http(&context);
        let mut result = self.handler.discover(context).await?;
        self.advertise(&mut result.capabilities, true, http);
        Ok(result)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Answered<CallToolResponse> {
        self.call(request, context).await
    }

    async fn on_custom_request(&self, request: CustomRequest, context: Context) -> Answered<CustomResult> {
        while_connected(context, |context| self.custom(request, context)).await
    }

    async fn on_cancelled(&self, notification: CancelledNotificationParam, context: Noted) {
        let session = context.extensions.get::<Parts>().and_then(session_header);
        if let Some(id) = notification.request_id.clone()
            && let Some(call) = self.running().get(&(session, id))
        {
            call.cancel();
        }
        self.handler.on_cancelled(notification, context).await;
    }

    async fn get_task(&self, request: GetTaskParams, context: Context) -> Answered<GetTaskResult> {
        match &self.tasks {
            Some(tasks) => task_methods::get(&self.terms, tasks, &request.task_id, &self.asker(&context)?.name),
            None => self.handler.get_task(request, context).await,
        }
    }

    async fn update_task(&self, request: UpdateTaskParams, context: Context) -> Answered<()> {
        match &self.tasks {
            Some(_) => task_methods::update(&self.terms, &request, &self.asker(&context)?.name).await,
            None => self.handler.update_task(request, context).await,
        }
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: Context) -> Answered<()> {
        match &self.tasks {
            Some(_) => task_methods::cancel(&self.terms, &request.task_id, &self.asker(&context)?.name).await,
            None => self.handler.cancel_task(request, context).await,
        }
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Answered<InitializeResult> {
        self.handler.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.handler.supported_protocol_versions()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.handler.get_tool(name)
    }

    fn get_info(&self) -> ServerConfig {
        let mut info = self.handler.get_info();
        self.advertise(&mut info.capabilities, true, false);
        info
    }
}

impl<H> std::fmt::Debug for Watched<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("terms", &self.terms).finish_non_exhaustive()
    }
}
