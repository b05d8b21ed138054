//! A server that is killed, and one that goes on after it: same file, same session.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;
use tidings::{Hub, Publish, Tail};
use tidings_rmcp::Adapter;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::HANG;
use crate::client::Client;
use crate::desk::{Desk, Stand, listen, options, serve};
use crate::posts::Posts;
use crate::{notify, tasks};

const DIR: &str = "TIDINGS_RMCP_TEST_DIR";
const PERMITS: &str = "TIDINGS_RMCP_TEST_PERMITS";

fn database(dir: &Path) -> String {
    format!("sqlite:{}", dir.join("t.db").display())
}

/// Listens at the socket `NAME` in the folder `DIR`, until it is killed or its stdin ends.
#[test]
#[ignore = "not a test: the server process that `killed_and_restarted` starts and kills"]
fn a_server_process() {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("a folder"));
    let permits: usize = std::env::var(PERMITS).expect("a number").parse().expect("a number");
    std::thread::spawn(|| {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let hub = Hub::with(&database(&dir), options()).expect("a hub");
        hub.ensure_open().expect("it opens");
        let desk = Desk::telling();
        desk.gate.add_permits(permits);
        let socket = listen(&dir.join(format!("s{permits}")));
        serve(tasks::tasks(Adapter::new(hub).routes(["webhook"])), desk, socket).await;
    });
}

/// Killed when it is dropped.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    async fn start(dir: &Path, permits: usize) -> Self {
        let this = std::env::current_exe().expect("a path");
        let process = Command::new(this)
            .args(["--ignored", "--exact", "restart::a_server_process", "--nocapture"])
            .env(DIR, dir)
            .env(PERMITS, permits.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        let server = Self { process, socket: dir.join(format!("s{permits}")) };
        let listens = async {
            while UnixStream::connect(&server.socket).await.is_err() {
                sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        timeout(HANG, listens).await.expect("it listens");
        server
    }

    fn at(&self, client: &Client) -> Client {
        client.with_socket(&self.socket)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Waits until so many events are committed.
async fn committed(tail: &mut Tail, count: usize) {
    let mut seen = 0;
    while seen < count {
        let read =
            timeout(HANG, tail.next()).await.expect("they are committed").expect("it goes on").expect("it reads");
        seen += read.events.len();
    }
}

#[tokio::test]
async fn killed_and_restarted_a_session_goes_on() {
    let dir = TempDir::new().expect("a folder");
    let receiver = Posts::start();
    let config =
        json!({"routes": [{"id": "r", "type": "webhook", "endpoint": receiver.endpoint(), "triggers": ["failed"]}]});
    let first = Server::start(dir.path(), 2).await;
    let client = Client::legacy(&first.socket).await;
    let mut own = client.get(None).await;
    let mut answer = client.call(7, "steps", json!({"n": 4}), Some(config.clone())).await;
    let begin = answer.any().await.expect("a priming event").id.expect("its id");
    let seen = [answer.next().await.expect("a step"), answer.next().await.expect("another")];
    let acknowledged = own.next().await.expect("the acknowledgement");
    let uri = json!({"uri": "file:///a"});
    assert_eq!(client.result(1, "resources/subscribe", uri.clone()).await["result"], json!({}));
    let other = json!({"uri": "file:///b"});
    client.result(2, "resources/subscribe", other.clone()).await;
    assert_eq!(client.result(3, "resources/unsubscribe", other).await["result"], json!({}));
    // Elsewhere on the same file it can be seen when the steps and the acknowledgement are committed.
    // It may be the one that ends the call and tells of it.
    let hub = Hub::with(&database(dir.path()), options()).expect("a hub");
    let scope = format!("session:{}", client.session());
    committed(&mut hub.resume(&scope, &begin).expect("the call's stream"), 2).await;
    let of_own = hub.stream(&scope, "common").expect("a stream");
    committed(&mut of_own.tail(tidings::After::Earliest).expect("the session's stream"), 1).await;
    drop(first);

    let second = Server::start(dir.path(), 1_000).await;
    let client = second.at(&client);
    // The call died with its server, and that is told.
    let request = receiver.requested(1).await;
    let body: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(body["data"]["outcome"]["reason"], "server_lost");
    // What its client was told is still there, and it is said that no more comes.
    assert_eq!(client.get(Some(&begin)).await.rest().await, seen);
    // The session needs no handshake, and its stream goes on where it was.
    let mut own = client.get(acknowledged.id.as_deref()).await;
    let result = client.call(8, "steps", json!({"n": 0}), Some(config)).await.answer().await;
    assert_eq!(result["result"]["content"][0]["text"], "0 steps");
    let next = own.next().await.expect("the next acknowledgement");
    assert_eq!(next.message["params"]["requestId"], 8);
    // What it subscribed to at the first process it hears of at the second, and of nothing else.
    for name in ["file:///b", "file:///a"] {
        let publish = Publish { kinds: &["resource"], name: Some(name), audience: None };
        hub.notify(publish).expect("it is published");
    }
    let updated = own.next().await.expect("it is told");
    assert_eq!((updated.method(), &updated.message["params"]), ("notifications/resources/updated", &uri));
}

/// A task that dies with its server: whoever listens for it at another process is told how it ended.
#[tokio::test]
async fn a_task_that_was_killed_is_told_elsewhere() {
    let dir = TempDir::new().expect("a folder");
    let server = Server::start(dir.path(), 0).await;
    let hub = Hub::with(&database(dir.path()), options()).expect("a hub");
    let stand = Stand::with(Desk::default(), hub, tasks::tasks);
    let here = tasks::client(&stand);
    let id = tasks::task(&server.at(&here), 1).await;
    let (mut answer, acknowledged) = notify::listen(&here, 1, json!({"taskIds": [id]})).await;
    assert_eq!(acknowledged.message["params"]["notifications"], json!({"taskIds": [id]}));
    drop(server);
    let told = answer.next().await.expect("it is told");
    assert_eq!(told.method(), "notifications/tasks");
    assert_eq!((&told.message["params"]["taskId"], &told.message["params"]["status"]), (&id, &json!("failed")));
}

/// A session may be ended at any process: what another one then sends into it is delivered to nobody, and the next route has
/// its turn.
#[tokio::test]
async fn what_is_sent_into_a_session_that_was_ended_elsewhere_is_not_delivered() {
    let dir = TempDir::new().expect("a folder");
    let stand = || {
        let hub = Hub::with(&database(dir.path()), options()).expect("a hub");
        Stand::with(Desk::default(), hub, |adapter| adapter.routes(["message", "callback"]).open(["seen"]))
    };
    let (one, other) = (stand(), stand());
    let name = tidings::proto::route::OutletName::callback("seen");
    let place = one.hub.outlet(name, tidings::OutletOptions::default()).expect("a place");
    let client = Client::legacy(&one.socket).await;
    let config = json!({"routes": [
        {"id": "first", "type": "message", "triggers": ["completed"]},
        {"id": "next", "type": "callback", "endpoint": "seen", "triggers": ["completed"]},
    ]});
    let mut answer = client.call(1, "steps", json!({"n": 0}), Some(config)).await;
    answer.any().await.expect("it has begun");
    client.with_socket(&other.socket).delete().await;
    one.desk.open();
    let delivery = timeout(HANG, place.next()).await.expect("it is told").expect("the place is open");
    let body: serde_json::Value = serde_json::from_slice(&delivery.body).expect("JSON");
    assert_eq!((&body["name"], &body["data"]["route"]), (&json!("tool_call.completed"), &json!("next")));
    assert!(delivery.confirm());
    assert_eq!(client.ask(2, "ping", json!({})).await.status, 404, "it is over everywhere");
    assert_eq!(client.try_get(None).await.status, 404);
}
