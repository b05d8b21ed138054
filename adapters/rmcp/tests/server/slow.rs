//! A session that does not read what it is told.

use std::time::Duration;

use rmcp::ServiceExt;
use serde_json::{Value, json};
use tidings::{Fanout, Hub, Options, Publish};
use tidings_rmcp::Adapter;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf};
use tokio::time::{sleep, timeout};

use crate::HANG;
use crate::clock::TestClock;
use crate::desk::Desk;

/// Bytes on their way to the client: less than one notification has.
const PIPE: usize = 16;

fn changed(hub: &Hub, kinds: &[&str]) -> Fanout {
    hub.notify(Publish { kinds, ..Publish::default() }).expect("it is published")
}

async fn next(reader: &mut BufReader<ReadHalf<DuplexStream>>) -> Value {
    let mut line = String::new();
    timeout(HANG, reader.read_line(&mut line)).await.expect("it comes").expect("it is read");
    serde_json::from_str(&line).expect("JSON")
}

/// It loses its place, holds nobody up, and when it reads on it is told of everything that may have changed meanwhile.
#[tokio::test]
async fn a_slow_session_fails_and_comes_back() {
    let clock = TestClock::new();
    let hub = Hub::with_clock("memory:", Options::default(), clock.clone()).expect("a hub");
    let adapter = Adapter::new(hub.clone());
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let serving = tokio::spawn(adapter.watch(Desk::telling()).serve(tokio::io::split(theirs)));
    let (read, mut write) = tokio::io::split(ours);
    let mut reader = BufReader::with_capacity(1, read);
    let params =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}});
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "file:///a"}}),
    ] {
        write.write_all(format!("{message}\n").as_bytes()).await.expect("it is taken");
        if message.get("id").is_some() {
            assert!(next(&mut reader).await.get("result").is_some());
        }
    }
    assert_eq!(changed(&hub, &["tools"]), Fanout { told: 1, ..Fanout::default() });
    // The first byte says that it is being written.
    let first = timeout(HANG, reader.read_u8()).await.expect("it comes").expect("it is read");
    assert_eq!(first, b'{');
    clock.advance(Duration::from_secs(11));
    // The hub may have noticed by itself, or does now.
    assert_eq!(changed(&hub, &["resources"]).told, 0);
    assert_eq!(changed(&hub, &["resources"]), Fanout::default(), "it has no place any more");
    let failed = async {
        while hub.failed_sinks().expect("they are told").is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, failed).await.expect("it is told");

    let mut rest = String::new();
    reader.read_line(&mut rest).await.expect("it is read");
    assert!(rest.contains("tools/list_changed"), "what was handed out is written: {rest}");
    let methods = [next(&mut reader).await, next(&mut reader).await, next(&mut reader).await];
    let methods: Vec<_> = methods.iter().map(|message| message["method"].as_str().unwrap()).collect();
    let all = ["tools/list_changed", "resources/list_changed", "resources/updated"];
    assert_eq!(methods, all.map(|name| format!("notifications/{name}")));
    assert_eq!(changed(&hub, &["tools"]), Fanout { told: 1, ..Fanout::default() });
    assert_eq!(next(&mut reader).await["method"], "notifications/tools/list_changed");
    drop(serving);
}
