//! The server of these tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tempfile::TempDir;
use tidings::proto::address::{self, Network};
use tidings::{Hub, Options, Verify};
use tidings_rmcp::{Adapter, RunningCall};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

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
}

impl Default for Desk {
    fn default() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), ran: Arc::default() }
    }
}

impl Desk {
    pub fn open(&self) {
        self.gate.add_permits(1_000);
    }

    async fn pass(&self) {
        self.gate.acquire().await.expect("it is never closed").forget();
    }
}

impl ServerHandler for Desk {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
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
            // What a tool can see of its request.
            "seen" => text(format!("{} {:?}", arguments, context.meta.0.0.keys().collect::<Vec<_>>())).into(),
            "fire" => {
                running.fire("com.example/done", br#"{"x":1}"#).unwrap();
                text("fired".to_owned()).into()
            }
            "fail" => CallToolResult::error(vec![ContentBlock::text("no")]).into(),
            "broken" => return Err(ErrorData::invalid_params("broken", None)),
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        })
    }
}

/// A server that listens at a socket of its own until it is dropped.
pub struct Stand {
    pub desk: Desk,
    pub hub: Hub,
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
        let dir = TempDir::new().expect("a folder");
        let hub = Hub::with("memory:", options).expect("a hub");
        let (desk, socket) = (Desk::default(), dir.path().join("s"));
        let serving = tokio::spawn(serve(of(Adapter::new(hub.clone())), desk.clone(), listen(&socket)));
        Self { desk, hub, socket, _dir: dir, serving }
    }
}

pub fn listen(socket: &Path) -> UnixListener {
    UnixListener::bind(socket).expect("a socket")
}

/// Never returns.
pub async fn serve(adapter: Adapter, desk: Desk, listener: UnixListener) {
    let of = adapter.clone();
    let service = StreamableHttpService::new(
        move || Ok(adapter.watch(desk.clone())),
        Arc::new(of.sessions()),
        of.config(StreamableHttpServerConfig::default()),
    );
    let service = TowerToHyperService::new(of.front(service));
    loop {
        let (socket, _) = listener.accept().await.expect("a connection");
        let service = service.clone();
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            drop(connection.await);
        });
    }
}
