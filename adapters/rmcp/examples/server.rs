//! A server whose clients lose nothing: `cargo run -p tidings-rmcp --example server -- --listen 127.0.0.1:8000 --store tidings.db`.
//!
//! `--local-hooks` lets webhooks go to this machine, by http and unverified, for trying it out; `--keep EVENTS` is how many events
//! are kept of each stream.
#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tidings_rmcp::tidings::proto::address::Network;
use tidings_rmcp::tidings::{Hub, Options, Verify};
use tidings_rmcp::{Adapter, RunningCall, TaskMode, Tasks};
use tokio::net::TcpListener;

/// Has one tool, `report`, which takes its time.
#[derive(Clone)]
struct Reports;

impl ServerHandler for Reports {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {
            "steps": {"type": "integer", "description": "How many steps it takes; 5 if it is not told."},
            "stepMs": {"type": "integer", "description": "How long each takes, in milliseconds; 1000 if it is not told."},
        }});
        let schema = schema.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("report", "Works on a report, step by step.", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != "report" {
            return Err(ErrorData::invalid_params(format!("no tool {}", request.name), None));
        }
        let argument = |name: &str| request.arguments.as_ref().and_then(|given| given.get(name)?.as_u64());
        let steps = argument("steps").unwrap_or(5);
        let pause = Duration::from_millis(argument("stepMs").unwrap_or(1_000));
        // Each step is told as progress to the client that waits, and as an event to whoever reads the task's stream.
        let call = RunningCall::of(&context);
        for step in 1..=steps {
            tokio::time::sleep(pause).await;
            call.emit("com.example.step", json!({"step": step}).to_string().as_bytes())
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            call.progress(step as f64, Some(steps as f64), None).await;
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("The report is ready.")]).into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let (mut address, mut store) = ("127.0.0.1:8000".to_owned(), "tidings.db".to_owned());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name}: a value is missing"));
        match name.as_str() {
            "--listen" => address = value()?,
            "--store" => store = value()?,
            "--keep" => options.retention.max_events = Some(value()?.parse()?),
            "--local-hooks" => {
                options.address.allow_http = true;
                options.address.allow_networks = vec![Network::parse("127.0.0.0/8")?];
                options.verify = Verify::Address;
            }
            _ => return Err(format!("{name} is none of --listen, --store, --keep, --local-hooks").into()),
        }
    }

    // A client that knows tasks gets one at once; for any other it is a plain call.
    let tasks = Tasks::default().tool("report", TaskMode::Always);
    let hub = Hub::with(&format!("sqlite:{store}"), options)?;
    // Now and not at the first request: what an earlier process left undone goes on from here.
    hub.ensure_open()?;
    let adapter = Adapter::new(hub).routes(["webhook", "message"]).tasks(tasks).tasks_stream();
    let watch = adapter.clone();
    let service = StreamableHttpService::new(
        move || Ok(watch.watch(Reports)),
        Arc::new(adapter.sessions()),
        adapter.config(StreamableHttpServerConfig::default()),
    );
    let app = TowerToHyperService::new(adapter.front(service));

    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        let app = app.clone();
        tokio::spawn(async move {
            let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), app).await;
            if let Err(error) = served {
                println!("a connection broke off: {error}");
            }
        });
    }
}
