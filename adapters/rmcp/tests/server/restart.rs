//! A server that is killed, and one that goes on after it: same file, same session.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidings::proto::stream::Cursor;
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
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(body["data"]["outcome"]["reason"], "server_lost");
    // The session needs no handshake, and its stream goes on where it was: nothing ends it.
    let mut own = client.get(acknowledged.id.as_deref()).await;
    // What its client was told is still there, and it is said that no more comes.
    let rest = client.get(Some(&begin)).await.rest().await;
    assert_eq!(
        rest.iter().map(|frame| &frame.message).collect::<Vec<_>>(),
        [&seen[0].message, &seen[1].message, &lost(json!(7))]
    );
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

/// What is answered for a server that died.
fn lost(id: Value) -> Value {
    let error = json!({"code": -32603, "message": "The server that ran it died", "data": {"reason": "server_lost"}});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// A call whose server was killed is answered by whoever its client asks, once for all who ask: its client has no reason to come
/// again. Calls that run at the same time, of which one has said nothing yet, each get their own.
#[tokio::test]
async fn a_call_whose_server_was_killed_is_answered() {
    let dir = TempDir::new().expect("a folder");
    let first = Server::start(dir.path(), 1).await;
    let client = Client::legacy(&first.socket).await;
    let call = |tool, n| json!({"name": tool, "arguments": {"n": n}, "_meta": {"progressToken": n}});
    let mut said = client.ask(7, "tools/call", call("steps", 4)).await;
    let begin = said.any().await.expect("a priming event").id.expect("its id");
    let seen = said.next().await.expect("a step");
    let (silent, other) =
        tokio::join!(client.ask("7", "tools/call", call("wait", 5)), client.ask(9, "tools/call", call("wait", 6)));
    let mut begun = Vec::new();
    for mut answer in [silent, other] {
        begun.push(answer.any().await.expect("a priming event").id.expect("its id"));
    }
    let hub = Hub::with(&database(dir.path()), options()).expect("a hub");
    let scope = format!("session:{}", client.session());
    for (id, count) in [(&begin, 1), (&begun[0], 0), (&begun[1], 0)] {
        // From the event on that stands for the priming event.
        let mut start = Cursor::parse(id).expect("a cursor");
        start.next = 0;
        timeout(HANG, async {
            while hub.resume(&scope, &start.to_string()).is_err() {
                sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("it is committed");
        committed(&mut hub.resume(&scope, &start.to_string()).expect("the call's stream"), 1 + count).await;
    }
    drop(first);

    let (second, third) = (Server::start(dir.path(), 2).await, Server::start(dir.path(), 3).await);
    let (here, there) = (second.at(&client), third.at(&client));
    let seen_id = seen.id.as_deref();
    let (one, other) =
        tokio::join!(async { here.get(seen_id).await.rest().await }, async { there.get(seen_id).await.rest().await });
    assert_eq!(one.iter().map(|frame| &frame.message).collect::<Vec<_>>(), [&lost(json!(7))]);
    assert_eq!(one, other, "to the event id");
    assert_eq!(here.get(seen_id).await.rest().await, one, "it is the same later");
    let whole = there.get(Some(&begin)).await.rest().await;
    assert_eq!(whole.iter().map(|frame| &frame.text).collect::<Vec<_>>(), [&seen.text, &one[0].text]);
    assert_eq!(whole[1], one[0]);
    assert_eq!(here.get(whole[0].id.as_deref()).await.rest().await, one, "the step's place is the same by either id");
    assert_eq!(here.get(one[0].id.as_deref()).await.rest().await, [], "nothing comes after it");
    for (begun, id) in begun.iter().zip([json!("7"), json!(9)]) {
        let told = there.get(Some(begun)).await.rest().await;
        assert_eq!(told.iter().map(|frame| &frame.message).collect::<Vec<_>>(), [&lost(id)]);
    }
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
    let body: Value = serde_json::from_slice(&delivery.body).expect("JSON");
    assert_eq!((&body["name"], &body["data"]["route"]), (&json!("tool_call.completed"), &json!("next")));
    assert!(delivery.confirm());
    assert_eq!(client.ask(2, "ping", json!({})).await.status, 404, "it is over everywhere");
    assert_eq!(client.try_get(None).await.status, 404);
}
