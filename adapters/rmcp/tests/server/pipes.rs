//! A server of 2026-07-28 at the other end of two pipes, in this process.

use rmcp::ServiceExt;
use serde_json::{Value, json};
use tidings::Hub;
use tidings_rmcp::Adapter;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::HANG;
use crate::client::{Frame, MODERN};
use crate::desk::Desk;
use crate::tasks::{numbered, tasks};

/// Its client, which declares the Tasks extension.
pub struct Pipes {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    serving: JoinHandle<()>,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Pipes {
    pub fn start() -> (Self, Desk, Hub) {
        let hub = Hub::open("memory:").expect("a hub");
        let adapter = tasks(Adapter::new(hub.clone()));
        let desk = Desk::telling();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let transport = adapter.transport((adapter.stdio_front(reader), writer));
        let handler = adapter.watch(desk.clone());
        let serving = tokio::spawn(async move {
            drop(handler.serve(transport).await.expect("it begins").waiting().await);
        });
        let (reader, writer) = tokio::io::split(ours);
        (Self { lines: BufReader::new(reader).lines(), writer, serving }, desk, hub)
    }

    pub async fn write(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.expect("it is taken");
    }

    pub async fn ask(&mut self, id: u32, method: &str, mut params: Value) {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        });
        if method == "tools/call" {
            meta["progressToken"] = id.into();
        }
        params["_meta"] = meta;
        self.write(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    pub async fn next(&mut self) -> Value {
        let line = timeout(HANG, self.lines.next_line()).await.expect("it comes").expect("it is read").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// What comes until that request is answered, without its answer.
    async fn until_answered(&mut self, id: u32) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return frames;
            }
            frames.push(Frame { id: None, text: message.to_string(), message });
        }
    }
}

/// Progress by rmcp's peer is an event by its token, and what is an event already is none again.
#[tokio::test]
async fn progress_by_a_peer_is_an_event_by_its_token() {
    let (mut pipes, desk, _hub) = Pipes::start();
    desk.open();
    for (id, tool, types) in [
        (1, "peer", &["io.tidings.progress", "io.tidings.outcome"][..]),
        (3, "steps", &["io.tidings.progress", "com.example/step", "io.tidings.outcome"]),
    ] {
        pipes.ask(id, "tools/call", json!({"name": tool, "arguments": {"n": 1}})).await;
        let task = loop {
            let message = pipes.next().await;
            if message["id"] == id {
                break message["result"]["taskId"].clone();
            }
        };
        pipes.ask(id + 1, "tasks/stream", json!({"taskId": task})).await;
        let events = pipes.until_answered(id + 1).await;
        assert_eq!(numbered(&events), (0..).zip(types.iter().copied()).collect::<Vec<_>>(), "{tool}");
    }
}
