//! Sessions and listeners that are told of changes, by this process and by others.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidings::{Fanout, Hub, Options, Publish};
use tidings_rmcp::{Adapter, Principal};
use tokio::time::{sleep, timeout};

use crate::HANG;
use crate::client::{Answer, Client, Frame};
use crate::desk::{Desk, Stand, options};
use crate::pipes::Pipes;
use crate::tasks;

const LISTEN: &str = "subscriptions/listen";

fn stand() -> Stand {
    Stand::with(Desk::telling(), Hub::with("memory:", Options::default()).expect("a hub"), by_token)
}

/// Who brings a token is somebody.
fn by_token(adapter: Adapter) -> Adapter {
    adapter.principal(|context| {
        let parts = context.extensions.get::<http::request::Parts>()?;
        let client_id = parts.headers.get("authorization")?.to_str().ok()?.to_owned();
        Some(Principal { issuer: None, subject: None, client_id })
    })
}

fn changed(hub: &Hub, kinds: &[&str], name: Option<&str>) -> Fanout {
    hub.notify(Publish { kinds, name, audience: None }).expect("it is published")
}

fn told(told: u64, skipped: u64) -> Fanout {
    Fanout { told, skipped, failed: 0 }
}

/// A session whose handshake is over for the server too, its own stream, and the first thing it was told there.
async fn session(stand: &Stand) -> (Client, Answer, Frame) {
    let client = Client::legacy(&stand.socket).await;
    let mut own = client.get(None).await;
    // The notification that ends the handshake has no answer that says that it was seen to.
    until(|| changed(&stand.hub, &["tools"], None).told == 1).await;
    let first = own.next().await.expect("it is told");
    (client, own, first)
}

pub async fn listen(client: &Client, id: u32, notifications: Value) -> (Answer, Frame) {
    let mut answer = client.ask(id, LISTEN, json!({"notifications": notifications})).await;
    let acknowledged = answer.next().await.expect("an acknowledgement");
    assert_eq!(acknowledged.method(), "notifications/subscriptions/acknowledged");
    (answer, acknowledged)
}

/// Asks `told` of a publish until it says so: a connection that is lost is noticed some time.
async fn until(mut told: impl FnMut() -> bool) {
    let noticed = async {
        while !told() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, noticed).await.expect("it is noticed");
}

#[tokio::test]
async fn a_session_is_told_of_what_the_server_advertises() {
    let stand = stand();
    let (_client, mut own, tools) = session(&stand).await;
    assert_eq!(tools.message, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    assert_eq!(changed(&stand.hub, &["prompts"], None), told(0, 1), "of prompts it says nothing");
    assert_eq!(
        changed(&stand.hub, &["resources", "resource_templates"], None),
        told(1, 0),
        "one notification for both"
    );
    assert_eq!(own.next().await.expect("it is told").method(), "notifications/resources/list_changed");
}

/// Nobody listens: it is kept for who comes.
#[tokio::test]
async fn what_a_session_is_told_waits_for_it() {
    let stand = stand();
    let (client, own, first) = session(&stand).await;
    drop(own);
    assert_eq!(changed(&stand.hub, &["resources"], None), told(1, 0));
    let mut own = client.get(first.id.as_deref()).await;
    assert_eq!(own.next().await.expect("it is kept").method(), "notifications/resources/list_changed");
}

#[tokio::test]
async fn a_session_hears_of_what_it_subscribed_to() {
    let stand = stand();
    let (client, mut own, _) = session(&stand).await;
    let uri = json!({"uri": "file:///a"});
    assert_eq!(changed(&stand.hub, &["resource"], Some("file:///a")), told(0, 1));
    assert_eq!(client.result(1, "resources/subscribe", uri.clone()).await["result"], json!({}));
    assert_eq!(changed(&stand.hub, &["resource"], Some("file:///b")), told(0, 1));
    assert_eq!(changed(&stand.hub, &["resource"], Some("file:///a")), told(1, 0));
    let updated = own.next().await.expect("it is told");
    assert_eq!((updated.method(), &updated.message["params"]), ("notifications/resources/updated", &uri));
    assert_eq!(client.result(2, "resources/unsubscribe", uri).await["result"], json!({}));
    assert_eq!(changed(&stand.hub, &["resource"], Some("file:///a")), told(0, 1));
}

/// A server that does not say so has no subscriptions, as without us.
#[tokio::test]
async fn nothing_is_served_that_is_not_advertised() {
    let stand = Stand::start(Options::default(), |adapter| adapter);
    let client = Client::legacy(&stand.socket).await;
    let refused = client.result(1, "resources/subscribe", json!({"uri": "file:///a"})).await;
    assert_eq!(refused["error"]["code"], -32601);
    let listener = Client::modern(&stand.socket, json!({}));
    let refused = listener.result(2, LISTEN, json!({"notifications": {"toolsListChanged": true}})).await;
    assert_eq!(refused["error"]["code"], -32601);
    let off = Stand::with(Desk::telling(), Hub::open("memory:").unwrap(), |adapter| adapter.fan_out(false));
    let refused = Client::modern(&off.socket, json!({})).result(3, LISTEN, json!({"notifications": {}})).await;
    assert_eq!(refused["error"]["code"], -32601);
}

/// 2026-07-28: within what was acknowledged, and tagged with the request's own id in its JSON type.
#[tokio::test]
async fn a_listener_is_told_of_what_it_asked_for() {
    let stand = stand();
    let client = Client::modern(&stand.socket, json!({}));
    let asked = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["file:///a"],
    });
    let (mut answer, acknowledged) = listen(&client, 7, asked).await;
    let tag = json!({"io.modelcontextprotocol/subscriptionId": 7});
    let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
    assert_eq!(acknowledged.message["params"], json!({"notifications": honoured, "_meta": tag}));

    // Registered before it was acknowledged.
    assert_eq!(changed(&stand.hub, &["tools"], None), told(1, 0));
    let tools = answer.next().await.expect("it is told");
    assert_eq!(
        (tools.method(), &tools.message["params"]),
        ("notifications/tools/list_changed", &json!({"_meta": tag}))
    );
    assert_eq!(changed(&stand.hub, &["resources"], None), told(0, 1), "it did not ask for it");
    assert_eq!(changed(&stand.hub, &["resource"], Some("file:///a/b")), told(0, 1), "nor for what lies below");
    assert_eq!(changed(&stand.hub, &["resource"], Some("file:///a")), told(1, 0));
    let updated = answer.next().await.expect("it is told");
    assert_eq!(updated.message["params"], json!({"uri": "file:///a", "_meta": tag}));
}

/// However often it changes, a listener that has not been written to is told once; in the end it knows of the last change.
#[tokio::test]
async fn changes_coalesce() {
    let stand = stand();
    let client = Client::modern(&stand.socket, json!({}));
    let (mut answer, _) = listen(&client, 1, json!({"toolsListChanged": true, "resourcesListChanged": true})).await;
    // No task of this runtime writes in between: the test holds its thread.
    for _ in 0..1_000 {
        assert_eq!(changed(&stand.hub, &["tools"], None), told(1, 0));
    }
    changed(&stand.hub, &["resources"], None);
    assert_eq!(answer.next().await.expect("tools").method(), "notifications/tools/list_changed");
    assert_eq!(answer.next().await.expect("resources").method(), "notifications/resources/list_changed");
}

#[tokio::test]
async fn a_listener_that_left_is_told_nothing_and_one_that_is_ended_has_its_result() {
    let stand = stand();
    let client = Client::modern(&stand.socket, json!({}));
    let (first, _) = listen(&client, 1, json!({"toolsListChanged": true})).await;
    let (mut second, _) = listen(&client, 2, json!({"toolsListChanged": true})).await;
    drop(first);
    until(|| changed(&stand.hub, &["tools"], None) == told(1, 0)).await;
    stand.adapter.end_listeners();
    let mut last = second.next().await.expect("what it was promised");
    while !last.is_answer() {
        last = second.next().await.expect("its result");
    }
    assert_eq!(last.message["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);
    until(|| changed(&stand.hub, &["tools"], None) == told(0, 0)).await;
}

/// A publish for one principal reaches no other, of either era.
#[tokio::test]
async fn an_audience_is_kept_apart() {
    let stand = stand();
    let of = |token| Client { token: Some(token), ..Client::modern(&stand.socket, json!({})) };
    let (mut a, _) = listen(&of("a"), 1, json!({"toolsListChanged": true})).await;
    let (mut b, _) = listen(&of("b"), 1, json!({"toolsListChanged": true, "resourcesListChanged": true})).await;
    let principal = Principal { issuer: None, subject: None, client_id: "a".to_owned() }.name();
    let publish = Publish { kinds: &["tools"], name: None, audience: Some(&principal) };
    assert_eq!(stand.hub.notify(publish).unwrap(), told(1, 1));
    changed(&stand.hub, &["resources"], None);
    assert_eq!(a.next().await.expect("its own").method(), "notifications/tools/list_changed");
    assert_eq!(b.next().await.expect("what is for all").method(), "notifications/resources/list_changed");
}

/// What another process on the store publishes is told here too.
#[tokio::test]
async fn other_processes_are_heard() {
    let dir = TempDir::new().expect("a folder");
    let url = format!("sqlite:{}", dir.path().join("t.db").display());
    let stand = Stand::with(Desk::telling(), Hub::with(&url, options()).expect("a hub"), |adapter| adapter);
    let client = Client::modern(&stand.socket, json!({}));
    let (mut answer, _) = listen(&client, 1, json!({"resourceSubscriptions": ["file:///a"]})).await;
    let other = Hub::open(&url).expect("a hub");
    assert_eq!(changed(&other, &["resource"], Some("file:///a")), told(0, 0), "there nobody listens");
    assert_eq!(answer.next().await.expect("it is told").method(), "notifications/resources/updated");
}

/// Without `Front` nothing would tell that a listener has left, and its request would go on for ever.
#[tokio::test]
async fn a_listener_needs_the_front() {
    let stand = Stand::without_front(Desk::telling(), Hub::open("memory:").expect("a hub"));
    let client = Client::modern(&stand.socket, json!({}));
    let mut answer = client.ask(1, LISTEN, json!({"notifications": {"toolsListChanged": true}})).await;
    let last = answer.rest().await.pop().expect("an answer");
    assert_eq!(
        (&last.message["error"]["code"], &last.message["error"]["data"]["reason"]),
        (&json!(-32603), &json!("unavailable"))
    );
}

/// There is no listener before it is known whose it is, so that a publish for its principal never passes it by.
#[tokio::test]
async fn a_listener_is_its_principals_from_the_start() {
    let hub = Hub::open("memory:").expect("a hub");
    let (seen, saw) = std::sync::mpsc::channel();
    let publishing = hub.clone();
    let stand = Stand::with(Desk::telling(), hub, |adapter| {
        adapter.principal(move |_| {
            seen.send(changed(&publishing, &["tools"], None)).expect("the test goes on");
            Some(Principal { issuer: None, subject: None, client_id: "a".to_owned() })
        })
    });
    let client = Client::modern(&stand.socket, json!({}));
    let (mut answer, _) = listen(&client, 1, json!({"toolsListChanged": true})).await;
    assert_eq!(saw.try_iter().collect::<Vec<_>>(), [told(0, 0)], "asked once, of nobody who listens already");
    let principal = Principal { issuer: None, subject: None, client_id: "a".to_owned() }.name();
    let publish = Publish { kinds: &["tools"], name: None, audience: Some(&principal) };
    assert_eq!(stand.hub.notify(publish).expect("it is published"), told(1, 0));
    assert_eq!(answer.next().await.expect("it is told").method(), "notifications/tools/list_changed");
}

/// What a handler tells a listener itself comes beside what the hub does, within what both acknowledge.
#[tokio::test]
async fn a_handlers_own_listener_is_served_too() {
    let desk = Desk { tells: true, ..Desk::telling() };
    let stand = Stand::with(desk, Hub::open("memory:").expect("a hub"), |adapter| adapter);
    // It has something to tell from the start, and waits for the acknowledgement.
    stand.desk.gate.add_permits(1);
    let client = Client::modern(&stand.socket, json!({}));
    let asked = json!({"toolsListChanged": true, "resourcesListChanged": true});
    let (mut answer, acknowledged) = listen(&client, 7, asked).await;
    let tag = json!({"io.modelcontextprotocol/subscriptionId": 7});
    assert_eq!(acknowledged.message["params"], json!({"notifications": {"toolsListChanged": true}, "_meta": tag}));
    let own = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": tag}});
    assert_eq!(answer.next().await.expect("its own").message, own);
    assert_eq!(changed(&stand.hub, &["tools"], None), told(1, 0));
    assert_eq!(answer.next().await.expect("the hub's").message, own);
    assert_eq!(changed(&stand.hub, &["resources"], None), told(0, 1));
    stand.adapter.end_listeners();
    assert_eq!(answer.answer().await["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
}

/// SEP-2663: tasks that are there for who asks are acknowledged, and each change of their state is told.
#[tokio::test]
async fn a_listener_hears_of_tasks() {
    let stand = Stand::start(Options::default(), tasks::tasks);
    let client = tasks::client(&stand);
    let id = tasks::task(&client, 0).await;
    let (mut answer, acknowledged) = listen(&client, 7, json!({"taskIds": [id, "another"]})).await;
    let tag = json!({"io.modelcontextprotocol/subscriptionId": 7});
    assert_eq!(acknowledged.message["params"], json!({"notifications": {"taskIds": [id]}, "_meta": tag}));
    stand.desk.open();
    let told = answer.next().await.expect("it is told");
    assert_eq!(told.method(), "notifications/tasks");
    let params = &told.message["params"];
    assert_eq!((&params["taskId"], &params["status"], &params["_meta"]), (&id, &json!("completed"), &tag));
    assert_eq!(params["result"]["content"][0]["text"], "0 steps", "its whole state");
    // Who comes later is told at once, since it will not change again.
    let (mut late, _) = listen(&client, 8, json!({"taskIds": [id]})).await;
    assert_eq!(late.next().await.expect("it is told").message["params"]["status"], "completed");

    let plain = Client::modern(&stand.socket, json!({}));
    let refused = plain.result(9, LISTEN, json!({"notifications": {"taskIds": [id]}})).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let refused = client.result(10, LISTEN, json!({"notifications": {"taskIds": {}}})).await;
    let error = &refused["error"];
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(-32602), &json!("notifications.taskIds: must be an array of strings"))
    );
    let refused = client.result(11, LISTEN, json!({})).await;
    assert_eq!(refused["error"]["message"], "notifications: must be an object");
}

/// Over two pipes too.
#[tokio::test]
async fn a_listener_over_pipes_hears_of_tasks() {
    let (mut pipes, desk, hub) = Pipes::start();
    pipes.ask(1, "tools/call", json!({"name": "steps", "arguments": {"n": 0}})).await;
    let id = pipes.next().await["result"]["taskId"].clone();
    pipes.ask(2, LISTEN, json!({"notifications": {"taskIds": [id], "toolsListChanged": true}})).await;
    let acknowledged = pipes.next().await;
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": [id], "toolsListChanged": true}));
    desk.open();
    let said = pipes.next().await;
    assert_eq!((&said["method"], &said["params"]["status"]), (&json!("notifications/tasks"), &json!("completed")));
    // It is cancelled, and told nothing more.
    pipes.write(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})).await;
    until(|| changed(&hub, &["tools"], None) == told(0, 0)).await;
}
