//! Routes of the server's own.

use std::sync::Arc;

use serde_json::{Value, json};
use tidings::proto::route::OutletName;
use tidings::{Deciding, Decision, ErrorCode, Hub, Options, Outlet, OutletOptions, Policy, PolicyRequest};
use tidings_rmcp::Adapter;
use tokio::time::timeout;

use crate::HANG;
use crate::client::Client;
use crate::desk::Stand;

fn route(name: &str, triggers: &[&str]) -> Value {
    json!([{"id": "own", "type": "callback", "endpoint": name, "triggers": triggers}])
}

fn place(stand: &Stand, name: &str) -> Outlet {
    stand.hub.outlet(OutletName::callback(name), OutletOptions::default()).expect("a place")
}

async fn next(place: &Outlet) -> Value {
    let delivery = timeout(HANG, place.next()).await.expect("a delivery comes").expect("the place is open");
    let body = serde_json::from_slice(&delivery.body).expect("JSON");
    assert!(delivery.confirm());
    body
}

/// Lets nobody have anything.
#[derive(Debug)]
struct Nobody;

impl Policy for Nobody {
    fn decide<'a>(&'a self, _: PolicyRequest<'a>) -> Deciding<'a> {
        Box::pin(async { Ok(Decision::Deny { reason: "nobody".to_owned() }) })
    }
}

/// Nobody is told of them, no policy is asked, and a client that brings a config is told by its own only.
#[tokio::test]
async fn a_call_without_a_config_is_told_of_by_the_servers_routes() {
    let mut options = Options::default();
    options.policy = Some(Arc::new(Nobody));
    let stand = Stand::start(options, |adapter| {
        let adapter = adapter.routes(["callback"]).open(["clients"]);
        let adapter = adapter.default_routes(&route("all", &["completed", "failed"])).expect("good routes");
        adapter.default_routes_of("fail", &route("fails", &["failed"])).expect("good routes")
    });
    let (all, fails) = (place(&stand, "all"), place(&stand, "fails"));
    for client in [Client::legacy(&stand.socket).await, Client::modern(&stand.socket, json!({}))] {
        let frames = client.call(1, "seen", json!({"a": 1}), None).await.rest().await;
        assert_eq!(frames.len(), 1, "there is no acknowledgement: {frames:?}");
        assert_eq!(frames[0].message["result"].get("_meta"), None);
        let body = next(&all).await;
        assert_eq!((&body["name"], &body["data"]["tool"]), (&json!("tool_call.completed"), &json!("seen")));
        client.call(2, "fail", json!({}), None).await.rest().await;
        assert_eq!(next(&fails).await["name"], "tool_call.failed");
        let own =
            json!({"routes": [{"id": "r", "type": "callback", "endpoint": "clients", "triggers": ["completed"]}]});
        let refused = client.call(3, "seen", json!({}), Some(own)).await.answer().await;
        assert_eq!(refused["error"]["data"]["faults"][0]["rule"], "denied", "{refused}");
    }
    // What both tools came to has been taken: there was nothing else.
    assert!(stand.hub.deliveries(None, None, None, 100).expect("they are read").len() == 4);
}

/// A call that goes on without its client is told of as well: of 2026-07-28 only because there are routes.
#[tokio::test]
async fn they_let_a_call_outlive_its_request() {
    let stand = Stand::start(Options::default(), |adapter| {
        adapter.default_routes(&route("all", &["completed", "io.tidings/disconnected"])).expect("good routes")
    });
    let all = place(&stand, "all");
    let client = Client::modern(&stand.socket, json!({}));
    // rmcp answers with its headers once there is something to send.
    stand.desk.gate.add_permits(1);
    let mut answer = client.call(1, "steps", json!({"n": 1}), None).await;
    answer.next().await.expect("it runs");
    drop(answer);
    assert_eq!(next(&all).await["name"], "tool_call.disconnected");
    stand.desk.open();
    assert_eq!(next(&all).await["name"], "tool_call.completed");
}

/// Into a session where there is one, and left out where there is none.
#[tokio::test]
async fn a_route_into_the_session_needs_one() {
    let routes = json!([{"id": "own", "type": "message", "triggers": ["completed"]}]);
    let stand = Stand::start(Options::default(), |adapter| adapter.default_routes(&routes).expect("good routes"));
    let client = Client::legacy(&stand.socket).await;
    let mut own = client.get(None).await;
    client.call(1, "seen", json!({}), None).await.rest().await;
    assert_eq!(own.next().await.expect("a message").method(), "notifications/io.tidings/triggered");
    let frames = Client::modern(&stand.socket, json!({})).call(2, "seen", json!({}), None).await.rest().await;
    assert!(frames.last().is_some_and(|frame| frame.message["result"]["isError"] == false), "{frames:?}");
}

#[test]
fn routes_that_nobody_could_have_are_refused_at_once() {
    let adapter = Adapter::new(Hub::open("memory:").expect("a hub"));
    for bad in [
        json!("webhook"),
        json!({"routes": []}),
        json!([{"id": "r", "type": "webhook", "endpoint": "http://10.0.0.1/", "triggers": ["completed"]}]),
        json!([{"id": "r", "type": "callback", "triggers": ["completed"]}]),
        json!([{"id": "r", "type": "signal", "signal": "SIGKILL", "triggers": ["completed"]}]),
    ] {
        let error = adapter.clone().default_routes(&bad).expect_err("it is refused");
        assert_eq!(error.code(), ErrorCode::InvalidConfig, "{bad}: {error}");
        assert!(error.faults().is_some_and(|faults| faults.total() > 0), "{bad}");
    }
    assert!(adapter.default_routes(&json!([])).is_ok());
}
