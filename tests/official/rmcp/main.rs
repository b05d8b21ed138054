//! The server that the official conformance suite is run against: rmcp's own, with our adapter or without.
//!
//! ```text
//! official plain              the SDK alone, with its own sessions in memory
//! official attached DATABASE  with our sessions and everything that the adapter can bring, on that store
//! ```
//!
//! It says its port and serves until its standard input ends.
#![allow(clippy::print_stdout, reason = "it says its port")]

mod fixture;
mod questions;
mod server;
mod tools;

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tidings_rmcp::tidings::Hub;
use tidings_rmcp::{Adapter, TaskMode, Tasks};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::fixture::Fixture;
use crate::server::Suite;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let fixture = Fixture::read()?;
    let mut key = [0; 32];
    getrandom::fill(&mut key)?;
    let suite = Suite::new(fixture.clone(), key);
    let config = StreamableHttpServerConfig::default()
        .with_sse_retry(Some(Duration::from_millis(200)))
        .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*"]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["plain"] => {
            let service =
                StreamableHttpService::new(move || Ok(suite.clone()), Arc::new(LocalSessionManager::default()), config);
            serve(service).await
        }
        ["attached", database] => {
            let hub = Hub::open(&format!("sqlite:{database}"))?;
            let adapter = attached(&hub, &fixture);
            let (watch, suite, config) = (adapter.clone(), suite.on(&hub), adapter.config(config));
            let sessions = Arc::new(adapter.sessions());
            let service = StreamableHttpService::new(move || Ok(watch.watch(suite.clone())), sessions, config);
            serve(adapter.front(service)).await?;
            if hub.close(Duration::from_secs(10)) { Ok(()) } else { Err("the hub did not close in time".into()) }
        }
        _ => Err("usage: official (plain | attached DATABASE)".into()),
    }
}

/// With all that it can bring.
fn attached(hub: &Hub, fixture: &Fixture) -> Adapter {
    let mut tasks = Tasks::default();
    tasks.inline = Duration::from_millis(250);
    for (name, tool) in &fixture.tools {
        tasks = match tool.task.as_deref() {
            Some("always") => tasks.tool(name, TaskMode::Always),
            Some(_) => tasks.tool(name, TaskMode::Required),
            None => tasks,
        };
    }
    Adapter::new(hub.clone())
        .routes(["webhook", "message"])
        .timeout(Duration::from_secs(60))
        .tasks(tasks)
        .tasks_stream()
}

/// Until standard input ends.
async fn serve<S, B>(service: S) -> Result<(), Box<dyn Error>>
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let (ended, mut end) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(ended);
    });
    loop {
        let (socket, _) = tokio::select! {
            _ = &mut end => return Ok(()),
            accepted = listener.accept() => accepted?,
        };
        let service = TowerToHyperService::new(service.clone());
        // A connection that breaks off is its client's doing.
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}
