//! Tasks: when a call becomes one, what it asks its client for, how many there may be, and whose they are.

use std::time::Duration;

use rmcp::model::ErrorCode;
use serde_json::{Value, json};
use tidings::proto::route::OutletName;
use tidings::{DetachLimits, Options, OutletOptions};
use tidings_rmcp::{Adapter, Principal, TaskMode, Tasks};
use tokio::time::{sleep, timeout};

use crate::HANG;
use crate::client::Client;
use crate::desk::Stand;

fn client(stand: &Stand) -> Client {
    Client::modern(&stand.socket, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

fn tasks(mode: TaskMode, inline: Duration) -> Tasks {
    let mut tasks = ["steps", "ask", "again"].into_iter().fold(Tasks::default(), |tasks, tool| tasks.tool(tool, mode));
    tasks.inline = inline;
    tasks.poll = Duration::from_millis(20);
    tasks.resumes = 1_000_000;
    tasks
}

fn always(adapter: Adapter) -> Adapter {
    adapter.tasks(tasks(TaskMode::Always, Duration::from_secs(3_600))).tasks_stream()
}

async fn call(client: &Client, tool: &str) -> Value {
    client.result(1, "tools/call", json!({"name": tool, "arguments": {"n": 1}})).await
}

async fn task(client: &Client, tool: &str) -> String {
    let answer = call(client, tool).await;
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    answer["result"]["taskId"].as_str().expect("an id").to_owned()
}

/// The task once it is as `seen` wants it.
async fn get(client: &Client, id: &str, seen: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let got = client.result(2, "tasks/get", json!({"taskId": id})).await["result"].clone();
            if seen(&got) {
                return got;
            }
            sleep(Duration::from_millis(5)).await; // a client asks again
        }
    };
    timeout(HANG, looking).await.expect("it comes to that")
}

fn asks_for(got: &Value, what: &str) -> bool {
    got["status"] == "input_required" && got["inputRequests"].get(what).is_some()
}

async fn update(client: &Client, id: &str, responses: Value) -> Value {
    client.result(3, "tasks/update", json!({"taskId": id, "inputResponses": responses})).await
}

/// Two rounds: the tool is called again with what its client answered and with the state that it left.
#[tokio::test]
async fn a_task_asks_its_client_and_goes_on_with_the_answers() {
    let stand = Stand::start(Options::default(), always);
    let client = client(&stand);
    let id = task(&client, "ask").await;
    let got = get(&client, &id, |got| asks_for(got, "first")).await;
    assert_eq!(got["inputRequests"]["first"]["method"], "elicitation/create");
    assert_eq!(got["inputRequests"]["first"]["params"]["message"], "first");
    // An answer to what was not asked is no answer.
    assert!(update(&client, &id, json!({"nothing": {"action": "accept"}})).await.get("result").is_some());
    assert!(asks_for(&get(&client, &id, |_| true).await, "first"));
    assert!(update(&client, &id, json!({"first": {"action": "accept"}})).await.get("result").is_some());
    get(&client, &id, |got| asks_for(got, "second")).await;
    update(&client, &id, json!({"second": {"action": "decline"}})).await;
    let got = get(&client, &id, |got| got["status"] == "completed").await;
    let text = got["result"]["content"][0]["text"].as_str().expect("text").to_owned();
    assert_eq!(text, r#"Some("second") {"second":{"action":"decline"}}"#);
    assert_eq!(stand.desk.ran.load(std::sync::atomic::Ordering::SeqCst), 3);
    // It has ended: more answers do nothing and are no error.
    assert!(update(&client, &id, json!({"second": {"action": "accept"}})).await.get("result").is_some());
}

/// A tool that asks for nothing but to be called again costs its client nothing.
#[tokio::test]
async fn a_tool_that_only_wants_its_state_back_is_called_again() {
    let stand = Stand::start(Options::default(), always);
    let client = client(&stand);
    let id = task(&client, "again").await;
    let got = get(&client, &id, |got| got["status"] == "completed").await;
    assert_eq!(got["result"]["content"][0]["text"], r#"Some("once")"#);
}

/// A task that waits for its client can be cancelled, and tells nothing to others.
#[tokio::test]
async fn a_task_that_waits_is_its_clients_only() {
    let stand = Stand::start(Options::default(), |adapter| by_token(always(adapter)));
    let a = Client { token: Some("a"), ..client(&stand) };
    let b = Client { token: Some("b"), ..client(&stand) };
    let id = task(&a, "ask").await;
    get(&a, &id, |got| asks_for(got, "first")).await;
    let unknown = json!({"code": -32602, "message": "Unknown task"});
    assert_eq!(update(&b, &id, json!({"first": {"action": "accept"}})).await["error"], unknown);
    for method in ["tasks/get", "tasks/cancel", "tasks/stream"] {
        // The principal of each request counts, not that of the one before on the same task.
        assert_eq!(b.result(4, method, json!({"taskId": id})).await["error"], unknown, "{method}");
        let nobody = Client { token: None, ..b.clone() };
        assert_eq!(nobody.result(5, method, json!({"taskId": id})).await["error"], unknown, "{method}");
    }
    assert!(asks_for(&get(&a, &id, |_| true).await, "first"), "nothing came of it");
    assert!(a.result(6, "tasks/cancel", json!({"taskId": id})).await.get("result").is_some());
    get(&a, &id, |got| got["status"] == "cancelled").await;
}

fn by_token(adapter: Adapter) -> Adapter {
    adapter.principal(|context| {
        let parts = context.extensions.get::<http::request::Parts>()?;
        let client_id = parts.headers.get("authorization")?.to_str().ok()?.to_owned();
        Some(Principal { issuer: None, subject: None, client_id })
    })
}

/// `Auto`: what takes long becomes a task, and begins with all that its tool has said before.
#[tokio::test]
async fn a_call_that_takes_long_becomes_a_task() {
    let stand = Stand::start(Options::default(), |adapter| {
        adapter.tasks(tasks(TaskMode::Auto, Duration::from_millis(20))).tasks_stream()
    });
    let client = client(&stand);
    stand.desk.gate.add_permits(1);
    let id = task(&client, "steps").await;
    stand.desk.open();
    let frames = client.ask(2, "tasks/stream", json!({"taskId": id})).await.rest().await;
    let types: Vec<_> = frames.iter().filter_map(|frame| frame.message["params"]["type"].as_str()).collect();
    assert_eq!(types, ["io.tidings.progress", "com.example/step", "io.tidings.outcome"]);
}

/// `Required`: who does not declare the extension is refused, with what it lacks; older clients, which cannot, are served.
#[tokio::test]
async fn a_tool_may_require_the_extension() {
    let stand =
        Stand::start(Options::default(), |adapter| adapter.tasks(tasks(TaskMode::Required, Duration::from_millis(20))));
    let undeclared = call(&Client::modern(&stand.socket, json!({})), "steps").await;
    assert_eq!(undeclared["error"]["code"], -32021);
    let lacks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    assert_eq!(undeclared["error"]["data"]["requiredCapabilities"], lacks);
    assert_eq!(stand.desk.ran.load(std::sync::atomic::Ordering::SeqCst), 0);
    task(&client(&stand), "steps").await;
    stand.desk.open();
    let legacy = Client::legacy(&stand.socket).await;
    let answer = legacy.call(1, "steps", json!({"n": 1}), None).await.answer().await;
    assert_eq!(answer["result"]["content"][0]["text"], "1 steps");
}

/// Beyond as many as a principal may have, a call stays the call it is; others have their own.
#[tokio::test]
async fn tasks_are_limited_by_principal() {
    let limits = DetachLimits { calls: 1, ..DetachLimits::default() };
    let stand = Stand::start(Options::default(), |adapter| by_token(always(adapter).detach(limits)));
    let a = Client { token: Some("a"), ..client(&stand) };
    let b = Client { token: Some("b"), ..client(&stand) };
    let first = task(&a, "steps").await;
    assert_eq!(stand.hub.detached(), 1);
    task(&b, "steps").await;
    assert_eq!(stand.hub.detached(), 2);
    let second = tokio::spawn({
        let a = a.clone();
        async move { call(&a, "steps").await }
    });
    // It runs beside the two tasks, as a plain call.
    let started = async {
        while stand.desk.ran.load(std::sync::atomic::Ordering::SeqCst) < 3 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, started).await.expect("it runs");
    stand.desk.open();
    assert_eq!(second.await.expect("an answer")["result"]["content"][0]["text"], "1 steps");
    get(&a, &first, |got| got["status"] == "completed").await;
    let room = async {
        while stand.hub.detached() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, room).await.expect("there is room again");
    task(&a, "steps").await;
}

/// A call whose client leaves needs room too: where there is none it ends, and that is told.
#[tokio::test]
async fn a_call_without_room_ends_with_its_request() {
    let limits = DetachLimits { calls: 0, ..DetachLimits::default() };
    let stand = Stand::start(Options::default(), |adapter| adapter.routes(["callback"]).open(["seen"]).detach(limits));
    let place = stand.hub.outlet(OutletName::callback("seen"), OutletOptions::default()).expect("a place");
    let client = Client::modern(&stand.socket, json!({}));
    let config = json!({"routes": [{"id": "r", "type": "callback", "endpoint": "seen", "triggers": ["cancelled"]}]});
    let mut answer = client.call(1, "steps", json!({"n": 1}), Some(config)).await;
    answer.next().await.expect("the acknowledgement");
    drop(answer);
    let delivery = timeout(HANG, place.next()).await.expect("it is told").expect("the place is open");
    let body: Value = serde_json::from_slice(&delivery.body).expect("JSON");
    assert_eq!(body["data"]["outcome"], json!({"status": "cancelled", "reason": "detach_limit"}));
}

/// SEP-2243: by `Mcp-Name` requests are routed, so that it has to say what the body says.
#[tokio::test]
async fn the_header_of_a_stream_names_its_task() {
    let stand = Stand::start(Options::default(), always);
    let client = client(&stand);
    let (id, other) = (task(&client, "steps").await, task(&client, "steps").await);
    stand.desk.open();
    for wrong in [other.as_str(), ""] {
        let answer = client.named(Some(wrong)).ask(1, "tasks/stream", json!({"taskId": id})).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert_eq!(answer.json().await["error"]["code"], ErrorCode::HEADER_MISMATCH.0, "{wrong}");
    }
    // It may be left out: the method is none of those that the specification knows yet.
    for good in [None, Some(id.as_str())] {
        let frames = client.named(good).ask(2, "tasks/stream", json!({"taskId": id})).await.rest().await;
        assert_eq!(frames.len(), 4, "{frames:?}");
    }
}
