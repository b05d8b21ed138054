//! Calls that become tasks, and their streams.

use std::time::Duration;

use serde_json::{Value, json};
use tidings::Options;
use tidings::proto::stream::Retention;
use tidings_rmcp::{Adapter, TaskMode, Tasks};
use tokio::time::{sleep, timeout};

use crate::HANG;
use crate::client::{Client, Frame};
use crate::desk::Stand;

/// Every call of `steps` and `peer` is a task at once, and others never within these tests.
pub fn tasks(adapter: Adapter) -> Adapter {
    let mut tasks = Tasks::default().tool("steps", TaskMode::Always).tool("peer", TaskMode::Always);
    tasks.inline = Duration::from_secs(3_600);
    tasks.resumes = 1_000_000;
    adapter.tasks(tasks).tasks_stream()
}

pub fn client(stand: &Stand) -> Client {
    Client::modern(&stand.socket, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

pub async fn task(client: &Client, n: u64) -> Value {
    let result = client.result(1, "tools/call", json!({"name": "steps", "arguments": {"n": n}})).await;
    assert_eq!(result["result"]["resultType"], "task", "{result}");
    result["result"]["taskId"].clone()
}

/// The numbers and types of events, without the steps' progress.
pub fn numbered(frames: &[Frame]) -> Vec<(u64, &str)> {
    let params = frames
        .iter()
        .filter(|frame| frame.method() == "notifications/tasks/event")
        .map(|frame| &frame.message["params"]);
    params.map(|params| (params["seq"].as_u64().unwrap(), params["type"].as_str().unwrap())).collect()
}

/// A task is there from its id on; its stream has every event, and ends with its outcome.
#[tokio::test]
async fn a_task_is_streamed_to_its_end_and_again_from_anywhere() {
    let stand = Stand::start(Options::default(), tasks);
    let client = client(&stand);
    let id = task(&client, 2).await;
    let got = client.result(2, "tasks/get", json!({"taskId": id})).await["result"].clone();
    assert_eq!((&got["status"], &got["pollIntervalMs"]), (&json!("working"), &json!(1_000)));

    // rmcp answers with its headers once there is something to send.
    stand.desk.gate.add_permits(1);
    let mut stream = client.ask(3, "tasks/stream", json!({"taskId": id})).await;
    let mut frames = vec![stream.next().await.expect("what has been"), stream.next().await.expect("the same")];
    stand.desk.open();
    frames.extend(stream.rest().await);
    let (answer, events) = frames.split_last().expect("an answer");
    assert_eq!(answer.message["result"], json!({"resultType": "complete"}));
    let types =
        ["io.tidings.progress", "com.example/step", "io.tidings.progress", "com.example/step", "io.tidings.outcome"];
    assert_eq!(numbered(events), (0..).zip(types).collect::<Vec<_>>());
    let step = &events[1].message["params"];
    assert_eq!(step["payload"], json!({"step": 1}));
    assert_eq!(step["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));

    let again = client.ask(4, "tasks/stream", json!({"taskId": id, "after": 2})).await.rest().await;
    assert_eq!(numbered(&again), [(3, "com.example/step"), (4, "io.tidings.outcome")]);
    let error = client.result(5, "tasks/stream", json!({"taskId": id, "after": 5})).await["error"].clone();
    assert_eq!((&error["code"], &error["data"]), (&json!(-32602), &json!({"reason": "ahead", "headSeq": 4})));

    let got = client.result(6, "tasks/get", json!({"taskId": id})).await["result"].clone();
    assert_eq!((&got["status"], &got["result"]["content"][0]["text"]), (&json!("completed"), &json!("2 steps")));
}

#[tokio::test]
async fn events_that_are_gone_are_told() {
    let mut options = Options::default();
    options.retention = Retention { max_events: Some(2), ..Retention::default() };
    let stand = Stand::start(options, tasks);
    let client = client(&stand);
    let id = task(&client, 3).await;
    stand.desk.gate.add_permits(1);
    let mut stream = client.ask(2, "tasks/stream", json!({"taskId": id})).await;
    for _ in 0..3 {
        for _ in 0..2 {
            stream.next().await.expect("an event, which is committed");
        }
        stand.desk.gate.add_permits(1);
    }
    stand.desk.open();
    stream.rest().await;
    let gone = timeout(HANG, async {
        loop {
            let answer = client.result(3, "tasks/stream", json!({"taskId": id, "after": 0})).await;
            if answer["error"]["data"]["earliestSeq"].as_u64() >= Some(4) {
                return answer["error"].clone();
            }
            sleep(Duration::from_millis(20)).await; // retention comes round
        }
    });
    let gone = gone.await.expect("it comes round");
    assert_eq!((&gone["code"], &gone["data"]["reason"]), (&json!(-32010), &json!("events_gone")));
    assert_eq!(gone["data"]["taskId"], id);
}

#[tokio::test]
async fn a_task_is_cancelled() {
    let stand = Stand::start(Options::default(), tasks);
    let client = client(&stand);
    let id = task(&client, 1).await;
    assert!(client.result(2, "tasks/cancel", json!({"taskId": id})).await.get("result").is_some());
    let frames = client.ask(3, "tasks/stream", json!({"taskId": id})).await.rest().await;
    assert_eq!(numbered(&frames), [(0, "io.tidings.outcome")]);
    let got = client.result(4, "tasks/get", json!({"taskId": id})).await["result"].clone();
    assert_eq!(got["status"], "cancelled");
    let unknown = client.result(5, "tasks/get", json!({"taskId": "no-such"})).await["error"].clone();
    assert_eq!((&unknown["code"], &unknown["message"]), (&json!(-32602), &json!("Unknown task")));
}

/// A call that is done in time is no task, and a client that declares nothing gets none.
#[tokio::test]
async fn only_who_declares_the_extension_gets_a_task() {
    let stand = Stand::start(Options::default(), tasks);
    stand.desk.open();
    let quick = client(&stand).result(1, "tools/call", json!({"name": "seen"})).await["result"].clone();
    assert_eq!(quick["resultType"], "complete");
    for client in [Client::modern(&stand.socket, json!({})), Client::legacy(&stand.socket).await] {
        let answer = client.call(1, "steps", json!({"n": 1}), None).await.answer().await;
        assert_eq!(answer["result"]["content"][0]["text"], "1 steps");
        let refused = client.result(2, "tasks/get", json!({"taskId": "x"})).await["error"].clone();
        assert!([-32021, -32601].contains(&refused["code"].as_i64().unwrap()), "{refused}");
    }
}

/// What a tool says by rmcp's own peer is read of its task too, although there is no request any more by which it could go out.
#[tokio::test]
async fn what_a_tool_says_by_its_peer_is_read_of_its_task() {
    let stand = Stand::start(Options::default(), tasks);
    let client = client(&stand);
    let params = json!({"name": "peer", "arguments": {}, "_meta": {"progressToken": "t"}});
    let id = client.result(1, "tools/call", params).await["result"]["taskId"].clone();
    stand.desk.open();
    let events = client.ask(2, "tasks/stream", json!({"taskId": id})).await.rest().await;
    assert_eq!(numbered(&events), [(0, "io.tidings.progress"), (1, "io.tidings.log"), (2, "io.tidings.outcome")]);
    assert_eq!(events[0].message["params"]["payload"], json!({"progress": 1.0, "message": "half"}));
    assert_eq!(events[1].message["params"]["payload"], json!({"level": "info", "data": "said"}));
}
