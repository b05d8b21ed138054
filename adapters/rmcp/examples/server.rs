//! A server whose clients lose nothing: `cargo run -p tidings-rmcp --example server -- 127.0.0.1:8000 tidings.db`.
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
use tidings_rmcp::tidings::Hub;
use tidings_rmcp::{Adapter, RunningCall};
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
        let schema = serde_json::json!({"type": "object"}).as_object().cloned().unwrap_or_default();
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
        let call = RunningCall::of(&context);
        for step in 1..=5 {
            call.progress(f64::from(step), Some(5.0), None).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("The report is ready.")]).into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8000".to_owned());
    let database = arguments.next().unwrap_or_else(|| "tidings.db".to_owned());

    let adapter = Adapter::new(Hub::open(&format!("sqlite:{database}"))?).routes(["webhook", "message"]).tasks_stream();
    let watch = adapter.clone();
    let service = StreamableHttpService::new(
        move || Ok(watch.watch(Reports)),
        Arc::new(adapter.sessions()),
        adapter.config(StreamableHttpServerConfig::default()),
    );
    let app = TowerToHyperService::new(adapter.front(service));

    let listener = TcpListener::bind(&address).await?;
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
