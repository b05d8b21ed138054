//! The server of these tests.
#![allow(deprecated, reason = "servers still send log messages")]

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequests, InputRequiredResult,
    LoggingLevel, LoggingMessageNotificationParam, NumberOrString, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings::proto::address::{self, Network};
use tidings::{Hub, Options, Verify};
use tidings_rmcp::{Adapter, RunningCall, Sessions, Watched};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower_service::Service;

/// A hub that may post to this machine, at once.
pub fn options() -> Options {
    let mut options = Options::default();
    options.address = address::Policy {
        allow_http: true,
        allow_networks: vec![Network::parse("127.0.0.0/8").expect("a network")],
        ..address::Policy::default()
    };
    options.verify = Verify::Address;
    options
}

/// Tools that wait where a test wants them to.
#[derive(Clone)]
pub struct Desk {
    /// Each step of a tool takes a permit.
    pub gate: Arc<Semaphore>,
    /// How many tools were started.
    pub ran: Arc<AtomicUsize>,
    /// A permit for each run of `wait` that has begun.
    pub began: Arc<Semaphore>,
    /// The same for each that was cancelled.
    pub stopped: Arc<Semaphore>,
    /// What the server says it can do.
    pub says: ServerCapabilities,
    /// It tells listeners itself that its tools have changed, once for each permit of `gate`.
    pub tells: bool,
}

impl Default for Desk {
    fn default() -> Self {
        let says = ServerCapabilities::builder().enable_tools().build();
        let none = || Arc::new(Semaphore::new(0));
        Self { gate: none(), ran: Arc::default(), began: none(), stopped: none(), says, tells: false }
    }
}

impl Desk {
    /// One that says it tells of changes of its tools and resources, and not of its prompts.
    pub fn telling() -> Self {
        let says = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        Self { says, ..Self::default() }
    }

    pub fn open(&self) {
        self.gate.add_permits(1_000);
    }

    async fn pass(&self) {
        self.gate.acquire().await.expect("it is never closed").forget();
    }
}

impl ServerHandler for Desk {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(self.says.clone())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let tools = SubscriptionFilter::builder().tools_list_changed().build();
        self.tells.then(|| requested.intersection(&tools))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.pass() => drop(context.sink().notify_tool_list_changed().await),
            }
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.ran.fetch_add(1, Ordering::SeqCst);
        let running = RunningCall::of(&context);
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        let text = |text: String| CallToolResult::success(vec![ContentBlock::text(text)]);
        Ok(match &*request.name {
            "steps" => {
                let steps = arguments["n"].as_u64().unwrap_or(0);
                for step in 1..=steps {
                    self.pass().await;
                    running.progress(step as f64, Some(steps as f64), Some("ü\n")).await;
                    running.emit("com.example/step", format!("{{\"step\": {step}}}").as_bytes()).unwrap();
                }
                self.pass().await;
                text(format!("{steps} steps")).into()
            }
            // Until it is let pass, or cancelled.
            "wait" => {
                if arguments["progress"] == true {
                    running.progress(1.0, None, None).await;
                }
                self.began.add_permits(1);
                tokio::select! {
                    () = context.ct.cancelled() => self.stopped.add_permits(1),
                    () = self.pass() => {}
                }
                text("waited".to_owned()).into()
            }
            // Says what it does by rmcp's own means.
            "peer" => {
                self.pass().await;
                if let Some(token) = context.meta.get_progress_token() {
                    let progress = ProgressNotificationParam::new(token, 1.0).with_message("half");
                    context.peer.notify_progress(progress).await.expect("it is taken");
                }
                let other = ProgressNotificationParam::new(ProgressToken(NumberOrString::String("other".into())), 1.0);
                drop(context.peer.notify_progress(other).await);
                let said = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!("said"));
                drop(context.peer.notify_logging_message(said).await);
                text("by its peer".to_owned()).into()
            }
            // What a tool can see of its request.
            "seen" => text(format!("{} {:?}", arguments, context.meta.0.0.keys().collect::<Vec<_>>())).into(),
            "fire" => {
                running.fire("com.example/done", br#"{"x":1}"#).unwrap();
                text("fired".to_owned()).into()
            }
            // Asks twice, and says what it was answered; its state is how often it has asked.
            "ask" => match (request.request_state.as_deref(), request.input_responses) {
                (None, _) => asks("first"),
                (Some("first"), Some(answers)) if answers.contains_key("first") => asks("second"),
                (state, answers) => text(format!("{state:?} {}", serde_json::json!(answers))).into(),
            },
            // Wants to be called again with its state, and asks for nothing.
            "again" => match request.request_state.as_deref() {
                None => InputRequiredResult::new(None, Some("once".to_owned())).into(),
                state => text(format!("{state:?}")).into(),
            },
            "fail" => CallToolResult::error(vec![ContentBlock::text("no")]).into(),
            "broken" => return Err(ErrorData::invalid_params("broken", None)),
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        })
    }
}

fn asks(what: &str) -> CallToolResponse {
    let schema = json!({"type": "object", "properties": {}});
    let params = json!({"mode": "form", "message": what, "requestedSchema": schema});
    let request = json!({"method": "elicitation/create", "params": params});
    let requests = json!({what: request});
    let requests: InputRequests = serde_json::from_value(requests).expect("requests");
    InputRequiredResult::new(Some(requests), Some(what.to_owned())).into()
}

/// A server that listens at a socket of its own until it is dropped.
pub struct Stand {
    pub desk: Desk,
    pub hub: Hub,
    pub adapter: Adapter,
    pub socket: PathBuf,
    _dir: TempDir,
    serving: JoinHandle<()>,
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Stand {
    /// In memory, with what the test wants of the adapter.
    pub fn start(options: Options, of: impl FnOnce(Adapter) -> Adapter) -> Self {
        Self::with(Desk::default(), Hub::with("memory:", options).expect("a hub"), of)
    }

    /// With that desk, on that hub.
    pub fn with(desk: Desk, hub: Hub, of: impl FnOnce(Adapter) -> Adapter) -> Self {
        Self::serving(desk, hub, of, true)
    }

    /// The same, with nothing before rmcp's own service.
    pub fn without_front(desk: Desk, hub: Hub) -> Self {
        Self::serving(desk, hub, |adapter| adapter, false)
    }

    fn serving(desk: Desk, hub: Hub, of: impl FnOnce(Adapter) -> Adapter, front: bool) -> Self {
        let dir = TempDir::new().expect("a folder");
        let socket = dir.path().join("s");
        let adapter = of(Adapter::new(hub.clone()));
        let listener = listen(&socket);
        let service = service(&adapter, &desk);
        let serving = if front {
            tokio::spawn(accept(adapter.front(service), listener))
        } else {
            tokio::spawn(accept(service, listener))
        };
        Self { desk, hub, adapter, socket, _dir: dir, serving }
    }
}

pub fn listen(socket: &Path) -> UnixListener {
    UnixListener::bind(socket).expect("a socket")
}

/// Never returns.
pub async fn serve(adapter: Adapter, desk: Desk, listener: UnixListener) {
    accept(adapter.front(service(&adapter, &desk)), listener).await;
}

fn service(adapter: &Adapter, desk: &Desk) -> StreamableHttpService<Watched<Desk>, Sessions> {
    let (watch, desk) = (adapter.clone(), desk.clone());
    StreamableHttpService::new(
        move || Ok(watch.watch(desk.clone())),
        Arc::new(adapter.sessions()),
        adapter.config(StreamableHttpServerConfig::default()),
    )
}

async fn accept<S>(service: S, listener: UnixListener)
where
    S: Service<Request<Incoming>, Response = Response<BoxBody<Bytes, Infallible>>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let service = TowerToHyperService::new(service);
    loop {
        let (socket, _) = listener.accept().await.expect("a connection");
        let service = service.clone();
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            drop(connection.await);
        });
    }
}
