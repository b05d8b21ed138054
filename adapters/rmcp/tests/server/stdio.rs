//! A server at the other end of two pipes: its config, and routes of type `signal`.

use std::process::{ExitStatus, Stdio};

use rmcp::ServiceExt;
use serde_json::{Value, json};
use tidings::proto::route::UndeliverablePolicy;
use tidings::{Hub, Options};
use tidings_rmcp::Adapter;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::HANG;
use crate::desk::Desk;

/// Serves over stdin and stdout until stdin ends.
#[test]
#[ignore = "not a test: the server process that the tests of this module start"]
fn a_server_process() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut options = Options::default();
        options.undeliverable = UndeliverablePolicy::Annotate;
        let hub = Hub::with("memory:", options).expect("a hub");
        let adapter = Adapter::new(hub).routes(["signal", "message"]).signal_as_root(true);
        let transport = adapter.transport((adapter.stdio_front(tokio::io::stdin()), tokio::io::stdout()));
        let service = adapter.watch(Desk::default()).serve(transport).await.expect("a handshake");
        service.waiting().await.expect("it ends");
    });
    // What the harness would print is no message.
    std::process::exit(0);
}

struct Server {
    process: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    said: Value,
}

impl Server {
    async fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().expect("a path"))
            .args(["--ignored", "--exact", "stdio::a_server_process", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a process");
        let stdin = process.stdin.take().expect("its input");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let mut server = Self { process, stdin, lines, said: Value::Null };
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}});
        server.said = server.request("initialize", params).await["result"].clone();
        server.write(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        server
    }

    async fn write(&mut self, message: Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.expect("it is taken");
    }

    async fn read(&mut self) -> Value {
        loop {
            let line = timeout(HANG, self.lines.next_line()).await.expect("it comes").expect("it is read");
            let line = line.expect("the server goes on");
            // The test harness has its say first.
            if line.starts_with('{') {
                return serde_json::from_str(&line).expect("JSON");
            }
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.write(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await;
        loop {
            let message = self.read().await;
            if message["id"] == 1 {
                return message;
            }
        }
    }

    /// A call with these routes, whose config is where SEP-992 wants it.
    async fn call(&mut self, routes: &[Value]) -> Value {
        let routes: Vec<Value> = (0..)
            .zip(routes)
            .map(|(number, route)| {
                let mut route = route.clone();
                route["id"] = json!(format!("{number}"));
                route["triggers"] = json!(["completed"]);
                route
            })
            .collect();
        let params = json!({"name": "seen", "arguments": {}, "notificationConfig": {"routes": routes}});
        self.request("tools/call", params).await
    }

    async fn end(mut self) -> ExitStatus {
        drop(self.stdin);
        timeout(HANG, self.process.wait()).await.expect("it ends").expect("a process")
    }
}

/// Field case B28: the peer is rung with the signal it named, and survives the others.
#[tokio::test]
async fn the_peer_is_rung_and_survives() {
    let mut rung = signal(SignalKind::user_defined1()).expect("a handler");
    let mut server = Server::start().await;
    let offered = &server.said["capabilities"]["extensions"]["io.tidings/notification-config"];
    assert_eq!(offered["supportedRouteTypes"], json!(["signal", "message"]));
    let answer = server.call(&[json!({"type": "signal", "signal": "SIGUSR1"})]).await;
    assert_eq!(answer["result"]["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"], json!(["0"]), "{answer}");
    timeout(HANG, rung.recv()).await.expect("it rings");
    // This process waits for no SIGUSR2, which would end it: the next route has its turn.
    let routes = [json!({"type": "signal", "signal": "SIGUSR2"}), json!({"type": "message"})];
    server.call(&routes).await;
    let triggered = loop {
        let message = server.read().await;
        if message["method"] == "notifications/io.tidings/triggered" {
            break message;
        }
    };
    assert_eq!(triggered["params"]["data"]["route"], "1");
    for bad in
        [json!({}), json!({"signal": "SIGTERM"}), json!({"signal": 0}), json!({"signal": "SIGUSR1", "target": "1"})]
    {
        let mut route = bad.clone();
        route["type"] = json!("signal");
        assert_eq!(server.call(&[route]).await["error"]["code"], -32602, "{bad}");
    }
    assert!(server.end().await.success());
}

/// Over HTTP there is nobody at the other end of stdin that is the client.
#[tokio::test]
async fn over_http_nobody_is_rung() {
    let stand = crate::desk::Stand::start(Options::default(), |adapter| adapter.routes(["signal", "message"]));
    let (client, said) = crate::client::Client::initialized(&stand.socket).await;
    let offered = &said["capabilities"]["extensions"]["io.tidings/notification-config"];
    assert_eq!(offered["supportedRouteTypes"], json!(["message"]));
    let config = json!({"routes": [{"id": "r", "type": "signal", "signal": "SIGUSR1", "triggers": ["completed"]}]});
    let refused = client.call(1, "seen", json!({}), Some(config)).await.answer().await;
    assert_eq!(refused["error"]["code"], -32602);
}
