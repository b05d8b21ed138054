//! rmcp_sessions: a session's stream that was cut, kept by rmcp's own cache and by ours.
//!
//! Both stand behind rmcp's `SessionManager`, asked through it: what a tool says goes through the session's worker task, is kept,
//! and is read by a client that resumes. What the worker itself costs is measured with an event store that keeps nothing.
#![allow(clippy::print_stdout, reason = "a bench's report goes to stdout")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_core::Stream;
use rmcp::model::{
    ClientJsonRpcMessage, ProgressNotification, ProgressNotificationParam, ProgressToken, RequestId,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage, SessionId,
};
use tidings::{Durability, Hub};
use tidings_bench::stats::{Short, Spread};
use tidings_bench::{Result, floor, machine};
use tidings_rmcp::Sessions;

const USAGE: &str = "\
usage: rmcp_sessions [--quick] [--rounds N]
  --quick     3 rounds of few messages, to see that it runs
  --rounds N  rounds of each case (default 9)";

/// Bytes of text in each message.
const TEXT: usize = 200;

struct Options {
    rounds: usize,
    /// Messages of one stream.
    messages: usize,
}

fn options() -> Result<Options> {
    let mut options = Options { rounds: 9, messages: 10_000 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options = Options { rounds: 3, messages: 1_000 },
            "--rounds" => {
                let value = arguments.next().ok_or_else(|| format!("--rounds needs a value\n{USAGE}"))?;
                options.rounds = value.parse()?;
            }
            _ => return Err(format!("unknown argument {argument}\n{USAGE}").into()),
        }
    }
    Ok(options)
}

/// Keeps nothing: what is left is rmcp's own way from a tool to the store.
#[derive(Debug, Default)]
struct Nothing(AtomicU64);

#[async_trait::async_trait]
impl EventStore for Nothing {
    async fn store_event(&self, _: &str, _: &ServerSseMessage) -> std::result::Result<EventId, EventStoreError> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed).to_string())
    }

    async fn replay_events_after(&self, _: &str) -> std::result::Result<EventStream, EventStoreError> {
        Err("nothing is kept".into())
    }
}

/// What one stream came to.
struct Run {
    /// Microseconds for each message that was stored while nobody read.
    store: f64,
    /// Milliseconds from the request to resume until the last message was read, from the start and from the middle.
    whole: Option<f64>,
    half: Option<f64>,
}

type Frames<'a> = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + 'a>>;

async fn next(frames: &mut Frames<'_>) -> Result<ServerSseMessage> {
    std::future::poll_fn(|cx| frames.as_mut().poll_next(cx)).await.ok_or_else(|| "the stream ended".into())
}

fn message(text: &str) -> Result<ClientJsonRpcMessage> {
    Ok(serde_json::from_str(text)?)
}

fn progress(step: usize) -> ServerJsonRpcMessage {
    let token = ProgressToken(RequestId::Number(1));
    let mut params = ProgressNotificationParam::new(token, step as f64);
    params.message = Some("x".repeat(TEXT));
    let notification = ProgressNotification::new(params);
    ServerJsonRpcMessage::notification(ServerNotification::ProgressNotification(notification))
}

/// One session with one call, whose client is gone after the first frame. `settle` waits until all is stored.
async fn run<M: SessionManager>(
    manager: M,
    messages: usize,
    resumes: bool,
    settle: impl AsyncFn() -> Result<()>,
) -> Result<Run> {
    let failed = |error: M::Error| error.to_string();
    let (id, mut transport) = manager.create_session().await.map_err(failed)?;
    let begin = message(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"0"}}}"#,
    )?;
    let answer: ServerJsonRpcMessage = serde_json::from_str(
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"b","version":"0"}}}"#,
    )?;
    let (begun, sent) = tokio::join!(manager.initialize_session(&id, begin), async {
        transport.receive().await.ok_or("no request")?;
        transport.send(answer).await.map_err(|error| error.to_string())
    });
    begun.map_err(failed)?;
    sent?;
    let call =
        message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1}}}"#)?;
    let first = {
        let mut frames: Frames<'_> = Box::pin(manager.create_stream(&id, call).await.map_err(failed)?);
        transport.receive().await.ok_or("no call")?;
        next(&mut frames).await?.event_id.ok_or("no id")?
    };
    let begun = Instant::now();
    for step in 1..=messages {
        transport.send(progress(step)).await.map_err(|error| error.to_string())?;
    }
    let store = begun.elapsed().as_secs_f64() * 1e6 / messages as f64;
    settle().await?;
    let mut run = Run { store, whole: None, half: None };
    if resumes {
        let (whole, ids) = resume(&manager, &id, first, messages).await?;
        let middle = ids.get(messages / 2 - 1).cloned().ok_or("too few")?;
        let (half, rest) = resume(&manager, &id, middle, messages / 2).await?;
        assert_eq!(rest.last(), ids.last());
        (run.whole, run.half) = (Some(whole), Some(half));
    }
    manager.close_session(&id).await.map_err(failed)?;
    Ok(run)
}

/// Milliseconds until `count` messages were read, and their ids.
async fn resume<M: SessionManager>(
    manager: &M,
    id: &SessionId,
    after: String,
    count: usize,
) -> Result<(f64, Vec<String>)> {
    let begun = Instant::now();
    let mut frames: Frames<'_> = Box::pin(manager.resume(id, after.clone()).await.map_err(|error| error.to_string())?);
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let frame = next(&mut frames).await?;
        // rmcp's own cache begins with the message that was seen last.
        if frame.message.is_some() && frame.event_id.as_ref() != Some(&after) {
            ids.extend(frame.event_id);
        }
    }
    Ok((begun.elapsed().as_secs_f64() * 1e3, ids))
}

fn config(messages: usize) -> SessionConfig {
    let mut config = SessionConfig::default();
    // rmcp's cache keeps as many messages as its channel has room for, 16 unless it is told otherwise.
    config.channel_capacity = messages + 16;
    config
}

fn rmcps(messages: usize) -> LocalSessionManager {
    let mut manager = LocalSessionManager::default();
    manager.session_config = config(messages);
    manager
}

async fn ours(url: &str, committed: bool, messages: usize) -> Result<Run> {
    let hub = Hub::open(url)?;
    let sessions = Sessions::new(hub.clone()).with_config(config(messages)).committed(committed);
    run(sessions, messages, !committed, async || Ok(hub.flush(Durability::Process).await?)).await
}

const NAMES: [&str; 5] = [
    "the worker alone, which keeps nothing",
    "rmcp's cache",
    "ours, in memory",
    "ours, SQLite",
    "ours, SQLite, each committed before it goes out",
];

fn main() -> Result<()> {
    let options = options()?;
    let dir = tempfile::TempDir::new_in(".")?;
    let messages = options.messages;
    println!(
        "One session's call of {messages} progress notifications with {TEXT} bytes of text, whose client is gone after the first"
    );
    println!(
        "frame: `store` for each message until rmcp's worker has kept it, `resume` until the last message was read from the start"
    );
    println!(
        "and from the middle. rmcp's cache is given room for all of them (its default is 16). Medians over {} rounds and their",
        options.rounds
    );
    println!("range, on one thread of tokio.\n");
    for (name, value) in machine::describe(dir.path()) {
        println!("- {name}: {value}");
    }
    println!("- load at the start: {}", machine::load());
    let before = floor::measure(dir.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut runs: [Vec<Run>; 5] = Default::default();
    for round in 0..options.rounds {
        let url = |name: &str| format!("sqlite:{}", dir.path().join(format!("{name}{round}.db")).display());
        let (first, second) = (url("a"), url("b"));
        runtime.block_on(async {
            let nothing = rmcps(messages).with_event_store(Arc::new(Nothing::default()));
            runs[0].push(run(nothing, messages, false, async || Ok(())).await?);
            runs[1].push(run(rmcps(messages), messages, true, async || Ok(())).await?);
            runs[2].push(ours("memory:", false, messages).await?);
            runs[3].push(ours(&first, false, messages).await?);
            runs[4].push(ours(&second, true, messages / 10).await?);
            Result::Ok(())
        })?;
    }
    let after = floor::measure(dir.path())?;
    println!("- floor, 4 KiB written and synced: {:.0} µs before, {:.0} µs after\n", before.extending, after.extending);
    println!("| | store, µs | resume the whole, ms | resume the second half, ms |\n|---|---|---|---|");
    let short = |spread: Spread| spread.text(|v| Short(v).to_string());
    for (name, runs) in NAMES.iter().zip(&runs) {
        let resumed = |of: fn(&Run) -> Option<f64>| match runs.iter().map(of).collect::<Option<Vec<_>>>() {
            Some(values) => short(Spread::of(values)),
            None => "–".to_owned(),
        };
        println!(
            "| {name} | {} | {} | {} |",
            short(Spread::of(runs.iter().map(|run| run.store))),
            resumed(|run| run.whole),
            resumed(|run| run.half),
        );
    }
    for (name, ours) in [("in memory", &runs[2]), ("SQLite", &runs[3])] {
        let ratio = |of: fn(&Run) -> f64| {
            Spread::of(runs[1].iter().zip(ours).map(|(rmcps, ours)| of(ours) / of(rmcps))).text(|v| format!("{v:.2}"))
        };
        println!(
            "| **ours, {name} / rmcp's** | **{}** | **{}** | **{}** |",
            ratio(|run| run.store),
            ratio(|run| run.whole.unwrap_or_default()),
            ratio(|run| run.half.unwrap_or_default()),
        );
    }
    println!("\n- where each is committed before it goes out, the stream has {} messages", messages / 10);
    println!("- load at the end: {}", machine::load());
    Ok(())
}
