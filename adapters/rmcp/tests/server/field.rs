//! Faults that users of Rust servers have reported, by their numbers in the project's list of cases from the field.

use std::sync::atomic::Ordering;

use serde_json::json;
use tidings::{Hub, Options, Publish};
use tokio::time::timeout;

use crate::HANG;
use crate::client::Client;
use crate::desk::{Desk, Stand};

/// rust-sdk#958: a resume that cannot work is told, and never an empty stream that a client takes for success.
#[tokio::test]
async fn b10_a_resume_that_cannot_work_is_told() {
    let stand = Stand::start(Options::default(), |adapter| adapter);
    let client = Client::legacy(&stand.socket).await;
    let told = client.get(Some("9")).await.rest().await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].method(), "notifications/io.tidings/gap");
    // Of a session that is over it is 404, by which a client begins a new one.
    client.delete().await;
    assert_eq!(client.try_get(Some("9")).await.status, 404);
}

/// rust-sdk#659 (a): a finished request's stream that is resumed takes nothing away from the session's own.
#[tokio::test]
async fn b11_two_streams_of_a_session_do_not_evict_each_other() {
    let stand = Stand::with(Desk::telling(), Hub::open("memory:").expect("a hub"), |adapter| adapter);
    stand.desk.open();
    let client = Client::legacy(&stand.socket).await;
    let mut own = client.get(None).await;
    let mut answer = client.call(1, "steps", json!({"n": 1}), None).await;
    let first = answer.any().await.expect("a priming event").id;
    let rest = answer.rest().await;
    for _ in 0..3 {
        assert_eq!(client.get(first.as_deref()).await.rest().await, rest, "it ends by itself");
    }
    until_told(&stand).await;
    assert_eq!(own.next().await.expect("it goes on").method(), "notifications/resources/list_changed");
}

/// rust-sdk#659 (b): the newest connection has the session's own stream, however soon it comes.
#[tokio::test]
async fn b11_a_stream_that_is_opened_anew_at_once_is_the_one_that_is_told() {
    let stand = Stand::with(Desk::telling(), Hub::open("memory:").expect("a hub"), |adapter| adapter);
    let client = Client::legacy(&stand.socket).await;
    let mut own = client.get(None).await;
    until_told(&stand).await;
    let mut last = own.next().await.expect("it is told");
    for _ in 0..5 {
        drop(own);
        own = client.get(last.id.as_deref()).await;
        until_told(&stand).await;
        let next = own.next().await.expect("it is told");
        assert_ne!(next.id, last.id);
        last = next;
    }
}

async fn until_told(stand: &Stand) {
    let told = async {
        loop {
            let publish = Publish { kinds: &["resources"], ..Publish::default() };
            if stand.hub.notify(publish).expect("it is published").told == 1 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await; // its handshake ends
        }
    };
    timeout(HANG, told).await.expect("it is told");
}

/// rust-sdk#857: where leaving is cancelling (2026-07-28), a plain request ends with its connection, whether anything was sent of it
/// or not, and a later resume is told so. In a session it goes on, with what there is to resume.
#[tokio::test]
async fn b35_a_plain_request_ends_with_its_connection_where_leaving_is_cancelling() {
    let stand = Stand::start(Options::default(), |adapter| adapter);
    let client = Client::modern(&stand.socket, json!({}));
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.call(1, "wait", json!({}), None).await }
    });
    one(&stand.desk.began).await;
    asking.abort();
    one(&stand.desk.stopped).await;

    let mut answer = client.call(2, "wait", json!({"progress": true}), None).await;
    let progress = answer.next().await.expect("progress");
    one(&stand.desk.began).await;
    drop(answer);
    one(&stand.desk.stopped).await;
    let rest = client.get(progress.id.as_deref()).await.rest().await;
    assert_eq!(rest.len(), 1, "{rest:#?}");
    assert_eq!(rest[0].message["error"]["data"], json!({"reason": "disconnected"}));

    let session = Client::legacy(&stand.socket).await;
    let mut answer = session.call(3, "wait", json!({"progress": true}), None).await;
    let progress = answer.next().await.expect("progress");
    one(&stand.desk.began).await;
    drop(answer);
    stand.desk.gate.add_permits(1);
    let rest = session.get(progress.id.as_deref()).await.rest().await;
    assert_eq!(rest[0].message["result"]["content"][0]["text"], "waited");
    assert_eq!(stand.desk.stopped.available_permits(), 0);
}

async fn one(permits: &tokio::sync::Semaphore) {
    timeout(HANG, permits.acquire()).await.expect("it comes").expect("it is never closed").forget();
}

/// rust-sdk PR 957: a cancellation that comes with the end of its tool: at most one answer, one outcome, and the server goes on.
#[tokio::test]
async fn b52_a_cancel_that_meets_the_end_of_its_tool() {
    let stand = Stand::start(Options::default(), |adapter| adapter.routes(["callback"]).open(["seen"]));
    let name = tidings::proto::route::OutletName::callback("seen");
    let place = stand.hub.outlet(name, tidings::OutletOptions::default()).expect("a place");
    let client = Client::legacy(&stand.socket).await;
    let all = json!({"routes": [{"id": "r", "type": "callback", "endpoint": "seen",
        "triggers": ["completed", "failed", "cancelled"]}]});
    for run in 1..=100_u32 {
        let mut answer = client.call(run, "steps", json!({"n": 0}), Some(all.clone())).await;
        answer.any().await.expect("it has begun");
        let cancel = client.tell("notifications/cancelled", json!({"requestId": run}));
        let end = async { stand.desk.gate.add_permits(1) };
        if run % 2 == 0 {
            tokio::join!(cancel, end);
        } else {
            tokio::join!(end, cancel);
        }
        let delivery = timeout(HANG, place.next()).await.expect("one outcome").expect("the place is open");
        let body: serde_json::Value = serde_json::from_slice(&delivery.body).expect("JSON");
        assert_eq!(body["data"]["requestId"], run, "each call has one");
        assert!(delivery.confirm());
        let answers = answer.rest().await.iter().filter(|frame| frame.is_answer()).count();
        assert!(answers <= 1, "{answers} answers");
        // A tool that was stopped has not taken its permit.
        stand.desk.gate.forget_permits(1);
    }
    stand.desk.open();
    for id in 1_000..1_010 {
        let result = client.call(id, "steps", json!({"n": 1}), None).await.answer().await;
        assert_eq!(result["result"]["content"][0]["text"], "1 steps");
    }
    assert!(stand.desk.ran.load(Ordering::SeqCst) >= 10);
}
