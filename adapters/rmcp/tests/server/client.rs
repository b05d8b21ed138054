//! A client that does what it is told: it shows each frame as it came, and lets go of a connection when it is dropped.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::HANG;

pub const LEGACY: &str = "2025-11-25";
pub const MODERN: &str = "2026-07-28";

/// One frame of a stream of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub id: Option<String>,
    pub message: Value,
    /// The message as it came, so that frames are equal to the byte.
    pub text: String,
}

impl Frame {
    pub fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub fn is_answer(&self) -> bool {
        self.message.get("result").is_some() || self.message.get("error").is_some()
    }
}

/// A response whose body is read as it comes.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    text: String,
    frames: VecDeque<Frame>,
    connection: JoinHandle<()>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Answer {
    /// The next frame that has a message; `None`: the stream has ended.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.any().await?;
            if frame.message != Value::Null {
                return Some(frame);
            }
        }
    }

    /// The next frame, also one that has an id only.
    pub async fn any(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            let frame = timeout(HANG, self.body.frame()).await.expect("something comes")?;
            let data = frame.expect("the connection holds").into_data().unwrap_or_default();
            self.text.push_str(std::str::from_utf8(&data).expect("whole characters"));
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                self.frames.extend(parse(block));
                self.text = rest.to_owned();
            }
        }
    }

    /// All that is still to come.
    pub async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    /// The frame that answers the request, whatever comes before it.
    pub async fn answer(&mut self) -> Value {
        loop {
            let frame = self.next().await.expect("an answer comes");
            if frame.is_answer() {
                return frame.message;
            }
        }
    }

    /// A body that is one JSON text.
    pub async fn json(mut self) -> Value {
        let mut text = self.text.clone();
        while let Some(frame) = timeout(HANG, self.body.frame()).await.expect("something comes") {
            let data = frame.expect("the connection holds").into_data().unwrap_or_default();
            text.push_str(std::str::from_utf8(&data).expect("whole characters"));
        }
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text:?}"))
    }
}

fn parse(block: &str) -> Option<Frame> {
    let mut frame = Frame { id: None, message: Value::Null, text: String::new() };
    let mut is_event = false;
    for line in block.lines() {
        if let Some(id) = line.strip_prefix("id:") {
            frame.id = Some(id.trim().to_owned());
        } else if let Some(data) = line.strip_prefix("data:") {
            is_event = true;
            if !data.trim().is_empty() {
                frame.text.push_str(data.trim());
                frame.message = serde_json::from_str(data.trim()).expect("a message");
            }
        }
    }
    is_event.then_some(frame)
}

/// Speaks one version of the protocol, in one session if it is a legacy one.
#[derive(Clone)]
pub struct Client {
    pub socket: PathBuf,
    pub version: &'static str,
    pub session: Option<String>,
    /// What it declares with each request, of 2026-07-28.
    pub capabilities: Value,
    pub token: Option<&'static str>,
    /// What the header `Mcp-Name` says instead of what the body does.
    pub name: Option<Option<String>>,
}

impl Client {
    /// A client of 2026-07-28, which has no session.
    pub fn modern(socket: &Path, capabilities: Value) -> Self {
        Self { socket: socket.to_owned(), version: MODERN, session: None, capabilities, token: None, name: None }
    }

    /// A client in a session.
    pub async fn legacy(socket: &Path) -> Self {
        Self::initialized(socket).await.0
    }

    /// The same, and what the server said of itself.
    pub async fn initialized(socket: &Path) -> (Self, Value) {
        let mut client = Self { version: LEGACY, ..Self::modern(socket, json!({})) };
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"},
        });
        let mut answer =
            client.post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        client.session = Some(answer.headers["mcp-session-id"].to_str().unwrap().to_owned());
        let said = answer.answer().await;
        client.tell("notifications/initialized", json!({})).await;
        (client, said["result"].clone())
    }

    pub fn session(&self) -> &str {
        self.session.as_deref().expect("a session")
    }

    /// A request; its response is read as it comes.
    pub async fn ask(&self, id: impl Into<Value>, method: &str, mut params: Value) -> Answer {
        if self.version == MODERN {
            let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "0"});
        }
        self.post(json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})).await
    }

    /// A request's answer.
    pub async fn result(&self, id: u32, method: &str, params: Value) -> Value {
        let mut answer = self.ask(id, method, params).await;
        let is_json = answer.headers["content-type"].to_str().unwrap().starts_with("application/json");
        if is_json { answer.json().await } else { answer.answer().await }
    }

    /// Calls a tool.
    pub async fn call(&self, id: u32, tool: &str, arguments: Value, config: Option<Value>) -> Answer {
        let mut params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        if let Some(config) = config {
            params["notificationConfig"] = config;
        }
        self.ask(id, "tools/call", params).await
    }

    pub async fn tell(&self, method: &str, params: Value) {
        let answer = self.post(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
    }

    async fn post(&self, message: Value) -> Answer {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let name = ["name", "taskId", "uri"].iter().find_map(|key| message["params"][key].as_str()).map(str::to_owned);
        let name = self.name.clone().unwrap_or(name);
        let mut request = Request::post("/mcp").header("content-type", "application/json");
        if self.version == MODERN {
            request = request.header("mcp-method", method);
            if let Some(name) = name {
                request = request.header("mcp-name", name);
            }
        }
        self.send(request.body(Full::from(message.to_string())).unwrap()).await
    }

    /// The session's own stream, or one that was cut.
    pub async fn get(&self, last_event_id: Option<&str>) -> Answer {
        let answer = self.try_get(last_event_id).await;
        assert_eq!(answer.status, StatusCode::OK);
        answer
    }

    /// The same, which may be refused.
    pub async fn try_get(&self, last_event_id: Option<&str>) -> Answer {
        let mut request = Request::get("/mcp");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        self.send(request.body(Full::default()).unwrap()).await
    }

    /// Ends the session.
    pub async fn delete(&self) {
        self.send(Request::delete("/mcp").body(Full::default()).unwrap()).await;
    }

    async fn send(&self, mut request: Request<Full<Bytes>>) -> Answer {
        let headers = request.headers_mut();
        headers.insert("host", "localhost".parse().unwrap());
        headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
        headers.insert("mcp-protocol-version", self.version.parse().unwrap());
        if let Some(session) = &self.session {
            headers.insert("mcp-session-id", session.parse().unwrap());
        }
        if let Some(token) = self.token {
            headers.insert("authorization", token.parse().unwrap());
        }
        let socket = UnixStream::connect(&self.socket).await.expect("the server listens");
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        let connection = tokio::spawn(async move { drop(connection.await) });
        let answer = timeout(HANG, sender.send_request(request)).await.expect("headers come").expect("an answer");
        let (parts, body) = answer.into_parts();
        let (status, headers) = (parts.status, parts.headers);
        Answer { status, headers, body, text: String::new(), frames: VecDeque::new(), connection }
    }
}

impl Client {
    /// The same client, in the same session, at another socket.
    pub fn with_socket(&self, socket: &Path) -> Self {
        Self { socket: socket.to_owned(), ..self.clone() }
    }

    /// One whose requests say that of what they are about.
    pub fn named(&self, name: Option<&str>) -> Self {
        Self { name: Some(name.map(str::to_owned)), ..self.clone() }
    }
}
