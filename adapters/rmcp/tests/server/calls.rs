//! Tool calls that are watched: accepted, acknowledged, told of.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, RequestMetaObject, RequestParamsMeta};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tidings::proto::route::OutletName;
use tidings::proto::webhook::{Received, Secret, verify};
use tidings::{Options, Outlet, OutletOptions};
use tidings_rmcp::{Adapter, Principal};
use tokio::time::timeout;

use crate::HANG;
use crate::client::Client;
use crate::desk::{Stand, options};
use crate::posts::Posts;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Routes to a place in this very process.
fn told(triggers: &[&str]) -> Value {
    json!({"routes": [{"id": "r", "type": "callback", "endpoint": "seen", "triggers": triggers}]})
}

fn callbacks(adapter: Adapter) -> Adapter {
    adapter.routes(["callback"]).open(["seen"])
}

fn place(stand: &Stand) -> Outlet {
    stand.hub.outlet(OutletName::callback("seen"), OutletOptions::default()).expect("a place")
}

/// What is delivered next.
async fn next(place: &Outlet) -> Value {
    let delivery = timeout(HANG, place.next()).await.expect("a delivery comes").expect("the place is open");
    let body = serde_json::from_slice(&delivery.body).expect("JSON");
    assert!(delivery.confirm());
    body
}

/// The main job: the connection is gone, and a webhook says what the tool came to.
#[tokio::test]
async fn a_webhook_tells_what_a_call_came_to() {
    let receiver = Posts::start();
    let stand = Stand::start(options(), |adapter| adapter.routes(["webhook"]));
    for client in [Client::legacy(&stand.socket).await, Client::modern(&stand.socket, json!({}))] {
        let before = receiver.count();
        let route = json!({"id": "r", "type": "webhook", "endpoint": receiver.endpoint(), "secret": SECRET,
            "triggers": ["completed", "failed"]});
        let mut answer = client.call(7, "steps", json!({"n": 2}), Some(json!({"routes": [route]}))).await;
        answer.any().await.expect("the stream has begun");
        drop(answer);
        stand.desk.open();
        let request = receiver.requested(before + 1).await;
        let received = Received {
            id: request.header("webhook-id"),
            timestamp: request.header("webhook-timestamp"),
            signature: request.header("webhook-signature"),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let secret = Secret::parse(SECRET).expect("a secret");
        verify(&[secret], &received, &request.body, now.cast_signed(), 300).expect("signed");
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        assert_eq!(body["name"], "tool_call.completed");
        assert_eq!(body["data"]["requestId"], 7);
        assert_eq!(body["data"]["tool"], "steps");
        assert_eq!(body["data"]["outcome"]["result"]["content"][0]["text"], "2 steps");
        stand.desk.gate.forget_permits(usize::MAX >> 3);
    }
}

/// Before the tool runs, and in the result as well; the tool sees nothing of it.
#[tokio::test]
async fn a_config_is_acknowledged_and_hidden_from_the_tool() {
    let stand = Stand::start(Options::default(), callbacks);
    let client = Client::modern(&stand.socket, json!({}));
    let mut answer = client.call(5, "seen", json!({"a": 1}), Some(told(&["completed", "no such"]))).await;
    let acknowledged = answer.next().await.expect("the acknowledgement comes first");
    assert_eq!(acknowledged.method(), "notifications/config/acknowledged");
    let params = &acknowledged.message["params"];
    assert_eq!((&params["requestId"], &params["acceptedRoutes"]), (&json!(5), &json!(["r"])));
    assert_eq!(params["ignoredTriggers"], json!(["no such"]));
    let result = answer.answer().await["result"].clone();
    assert_eq!(&result["_meta"]["io.tidings/acknowledged"], params);
    let seen = result["content"][0]["text"].as_str().expect("text");
    assert!(seen.starts_with(r#"{"a":1}"#) && !seen.contains("notificationConfig"), "{seen}");
}

#[tokio::test]
async fn a_config_that_breaks_rules_is_refused_and_nothing_runs() {
    let stand = Stand::start(Options::default(), callbacks);
    let client = Client::legacy(&stand.socket).await;
    for bad in [json!(null), json!([]), json!({"routes": [{"id": "r", "type": "webhook", "triggers": []}]})] {
        let error = client.call(1, "seen", json!({}), Some(bad.clone())).await.answer().await["error"].clone();
        assert_eq!(error["code"], -32602, "{bad}");
        assert!(error["data"]["total"].as_u64().is_some_and(|total| total > 0), "{bad}: {error}");
    }
    assert_eq!(stand.desk.ran.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn every_outcome_is_told() {
    let stand = Stand::start(Options::default(), |adapter| callbacks(adapter).timeout(Duration::from_secs(3_600)));
    let place = place(&stand);
    let client = Client::legacy(&stand.socket).await;
    let all = told(&["completed", "failed", "cancelled", "timeout", "com.example/done"]);

    client.call(1, "fail", json!({}), Some(all.clone())).await.answer().await;
    let body = next(&place).await;
    assert_eq!(
        (&body["name"], &body["data"]["outcome"]["result"]["isError"]),
        (&json!("tool_call.failed"), &json!(true))
    );

    client.call(2, "broken", json!({}), Some(all.clone())).await.answer().await;
    assert_eq!(next(&place).await["data"]["outcome"]["error"], json!({"code": -32602, "message": "broken"}));

    client.call(3, "fire", json!({}), Some(all.clone())).await.answer().await;
    let (one, other) = (next(&place).await, next(&place).await);
    let mut names = [one["name"].as_str().unwrap(), other["name"].as_str().unwrap()];
    names.sort_unstable();
    assert_eq!(names, ["com.example/done", "tool_call.completed"]);

    let mut answer = client.call(4, "steps", json!({"n": 1}), Some(all.clone())).await;
    answer.any().await.expect("it has begun");
    client.tell("notifications/cancelled", json!({"requestId": 4})).await;
    assert_eq!(next(&place).await["name"], "tool_call.cancelled");

    let mut config = all;
    config["timeoutMs"] = json!(50);
    let error = client.call(5, "steps", json!({"n": 1}), Some(config)).await.answer().await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("timeout")));
    assert_eq!(next(&place).await["name"], "tool_call.timeout");
}

/// A connection that is lost is told where that was asked for, and the call goes on.
#[tokio::test]
async fn a_lost_connection_is_told_and_ends_nothing() {
    let stand = Stand::start(Options::default(), callbacks);
    let place = place(&stand);
    for client in [Client::legacy(&stand.socket).await, Client::modern(&stand.socket, json!({}))] {
        let config = told(&["completed", "io.tidings/disconnected"]);
        let mut answer = client.call(1, "steps", json!({"n": 0}), Some(config)).await;
        answer.any().await.expect("it has begun");
        drop(answer);
        assert_eq!(next(&place).await["name"], "tool_call.disconnected");
        stand.desk.gate.add_permits(1);
        assert_eq!(next(&place).await["name"], "tool_call.completed");
    }
}

/// A call that goes on alone can be stopped, by its principal only.
#[tokio::test]
async fn a_call_without_its_client_is_cancelled_by_its_principal() {
    let stand = Stand::start(Options::default(), |adapter| {
        callbacks(adapter).principal(|context| {
            let parts = context.extensions.get::<http::request::Parts>()?;
            let client_id = parts.headers.get("authorization")?.to_str().ok()?.to_owned();
            Some(Principal { issuer: None, subject: None, client_id })
        })
    });
    let place = place(&stand);
    let client = Client { token: Some("a"), ..Client::modern(&stand.socket, json!({})) };
    let other = Client { token: Some("b"), ..client.clone() };
    let mut answer = client.call(1, "steps", json!({"n": 1}), Some(told(&["cancelled"]))).await;
    let id = answer.next().await.expect("the acknowledgement").message["params"]["callId"].clone();
    drop(answer);
    let params = json!({"callId": id});
    let refused = other.result(2, "io.tidings/calls/cancel", params.clone()).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(client.result(3, "io.tidings/calls/cancel", params).await["result"], json!({"resultType": "complete"}));
    assert_eq!(next(&place).await["name"], "tool_call.cancelled");
}

/// What a server says it can do, to clients of both eras.
#[tokio::test]
async fn the_capability_is_advertised() {
    let stand = Stand::start(Options::default(), |adapter| callbacks(adapter).tasks_stream());
    let expected = json!({"supportedRouteTypes": ["callback"]});
    let (_, said) = Client::initialized(&stand.socket).await;
    assert_eq!(said["capabilities"]["extensions"], json!({"io.tidings/notification-config": expected}));
    assert_eq!(said["capabilities"]["tools"], json!({}), "the server's own stay");
    let said = Client::modern(&stand.socket, json!({})).result(1, "server/discover", json!({})).await;
    let expected = json!({
        "io.tidings/notification-config": expected,
        "io.modelcontextprotocol/tasks": {"eventStreams": {}},
    });
    assert_eq!(said["result"]["capabilities"]["extensions"], expected);
}

/// What rmcp's own client, whose types have no room for a config but in `_meta`, is answered with one there under each name.
async fn with_config_in_meta(stand: &Stand) -> Vec<Value> {
    let transport =
        StreamableHttpClientTransport::from_unix_socket(stand.socket.to_str().unwrap(), "http://localhost/mcp");
    let client = ().serve(transport).await.expect("a client");
    let mut results = Vec::new();
    for name in ["io.tidings/notification-config", "notificationConfig"] {
        let mut params = CallToolRequestParams::new("seen");
        let mut meta = RequestMetaObject::new();
        meta.0.0.insert(name.to_owned(), told(&["completed"]));
        meta.0.0.insert("kept".to_owned(), json!(1));
        params.set_meta(meta);
        let result = timeout(HANG, client.call_tool(params)).await.expect("an answer").expect("a result");
        let result = serde_json::to_value(result).unwrap();
        let seen = result["content"][0]["text"].as_str().unwrap();
        assert!(seen.contains("kept") && !seen.contains(name), "{seen}");
        results.push(result);
    }
    client.cancel().await.expect("it ends");
    results
}

#[tokio::test]
async fn a_config_in_meta_is_taken() {
    let stand = Stand::start(Options::default(), callbacks);
    let place = place(&stand);
    for result in with_config_in_meta(&stand).await {
        assert_eq!(result["_meta"]["io.tidings/acknowledged"]["acceptedRoutes"], json!(["r"]));
        assert_eq!(next(&place).await["name"], "tool_call.completed");
    }
}

#[tokio::test]
async fn a_config_in_meta_is_no_tools_to_see_where_no_routes_are_offered() {
    let stand = Stand::start(Options::default(), |adapter| adapter);
    for result in with_config_in_meta(&stand).await {
        assert_eq!(result["_meta"]["io.tidings/acknowledged"], Value::Null);
    }
}

/// In a session progress is its call's by its token; with a request of its own, whatever its peer is told goes to the client too.
#[tokio::test]
async fn what_a_tool_says_by_its_peer_is_said_of_its_call() {
    let stand = Stand::start(Options::default(), callbacks);
    let place = place(&stand);
    stand.desk.open();
    for (client, streamed) in [
        (Client::legacy(&stand.socket).await, &["notifications/progress"][..]),
        (
            Client::modern(&stand.socket, json!({})),
            &[
                "notifications/config/acknowledged",
                "notifications/progress",
                "notifications/progress",
                "notifications/message",
            ],
        ),
    ] {
        let frames = client.call(7, "peer", json!({}), Some(told(&["streaming", "completed"]))).await.rest().await;
        let (answer, said) = frames.split_last().expect("an answer");
        assert_eq!(answer.message["result"]["content"][0]["text"], "by its peer");
        assert_eq!(said.iter().map(crate::client::Frame::method).collect::<Vec<_>>(), streamed);
        let mut names = [next(&place).await["name"].clone(), next(&place).await["name"].clone()];
        names.sort_unstable_by_key(|name| name.to_string());
        assert_eq!(names, [json!("tool_call.completed"), json!("tool_call.streaming")]);
    }
}
