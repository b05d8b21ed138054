//! A delivery for a handler of another process is taken there because that process is woken by the commit, and not because it
//! looks now and then: the process that has the handler is one in which no time passes.
#![cfg(target_os = "linux")] // elsewhere nothing tells of the commits of others, and they are looked for

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tidings::proto::id::RequestId;
use tidings::store::DeliveryState;
use tidings::{BeginCall, Hub, Options, SystemClock};
use tidings_store_sqlite::{SqliteOptions, SqliteStore};

/// Only ends a test that hangs; no test depends on how long anything takes.
const HANG: Duration = Duration::from_secs(60);
/// Calls, one after the other: the process with the handler has nothing left to do before each.
const CALLS: usize = 5;

/// The process that has the handler; killed with the test.
struct Other {
    process: Child,
    lines: Receiver<String>,
}

impl Other {
    fn start(path: &str, handler: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlet"));
        let command = command.args([path, handler]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("started");
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        let (says, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| says.send(line)));
        Self { process, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(HANG).expect("it was told")
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_process_that_has_the_handler_is_woken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.db");
    let store = std::sync::Arc::new(SqliteStore::open(SqliteOptions::new(&path)).expect("a store"));
    let mut options = Options::default();
    options.worker_lease = Duration::from_secs(3_600);
    let hub = Hub::over(store, options, std::sync::Arc::new(SystemClock)).expect("a hub");
    let mut other = Other::start(path.to_str().expect("text"), "audit");
    assert_eq!(other.line(), "offered");

    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let config = r#"{"routes":[{"id":"r","type":"callback","endpoint":"audit","triggers":["completed"]}]}"#;
    for n in 0..CALLS {
        let request_id = RequestId::from(i64::try_from(n).expect("small"));
        let call = hub.begin_call(BeginCall {
            config: Some(config.as_bytes()),
            route_types: &["callback"],
            principal: "p",
            session: None,
            peer: None,
            open: &["audit"],
            request_id: &request_id,
            tool: "t",
            timeout: None,
            task: None,
        });
        let call = runtime.block_on(call).expect("accepted");
        let ended = runtime.block_on(call.complete(br#"{"content":[]}"#)).expect("ended");
        assert!(ended.committed);
        let told = other.line();
        let all = hub.deliveries(None, None, Some(DeliveryState::Delivered), 100).expect("reads");
        assert_eq!(all.len(), n + 1);
        assert!(all.iter().any(|delivery| told == format!("told {}", delivery.event_id)), "{told}");
    }
    // It says if its time went on after all.
    drop(other.process.stdin.take());
    assert!(other.process.wait().expect("ended").success());
}
