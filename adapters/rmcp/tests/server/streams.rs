//! Streams that are cut, and resumed: by another connection, in another session, after retention.

use std::time::Duration;

use serde_json::{Value, json};
use tidings::proto::stream::Retention;
use tidings::{Durability, Options};
use tokio::time::{sleep, timeout};

use crate::HANG;
use crate::client::{Answer, Client, Frame, MODERN};
use crate::desk::{Stand, options};

/// Steps of the tool in these tests.
const STEPS: usize = 4;

fn steps() -> Value {
    json!({"n": STEPS})
}

/// The progress, then the result.
fn assert_whole(frames: &[Frame]) {
    assert_eq!(frames.len(), STEPS + 1, "{frames:#?}");
    for (index, frame) in frames[..STEPS].iter().enumerate() {
        let params =
            json!({"progressToken": 7, "progress": (index + 1) as f64, "total": STEPS as f64, "message": "ü\n"});
        let expected = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        assert_eq!(frame.message, expected);
    }
    assert_eq!(frames[STEPS].message["result"]["content"][0]["text"], "4 steps");
}

/// Reads a call until it was told of `count` steps, and what the stream began with.
async fn read_steps(stand: &Stand, answer: &mut Answer, count: usize) -> (String, Vec<Frame>) {
    let first = answer.any().await.expect("a priming event").id.expect("its id");
    stand.desk.gate.add_permits(count);
    let mut frames = Vec::new();
    for _ in 0..count {
        frames.push(answer.next().await.expect("a step"));
    }
    (first, frames)
}

/// Wherever the connection is cut, the two halves are the whole: no frame missing, none twice, each as it was to the byte.
/// The last time it is cut after the end, so that what is replayed stands beside what was sent live.
#[tokio::test]
async fn cut_anywhere_and_resumed_a_call_is_whole() {
    let stand = Stand::start(Options::default(), |adapter| adapter);
    let client = Client::legacy(&stand.socket).await;
    let mut whole = None;
    for cut in 0..=STEPS + 1 {
        let mut answer = client.call(7, "steps", steps(), None).await;
        let (first, mut frames) = read_steps(&stand, &mut answer, cut).await;
        drop(answer);
        stand.desk.gate.add_permits(STEPS + 1 - cut);
        let last = frames.last().map_or(&first, |frame| frame.id.as_ref().expect("an id")).clone();
        frames.extend(client.get(Some(&last)).await.rest().await);
        assert_whole(&frames);
        // From its very start it is the same again, with the same ids.
        assert_eq!(client.get(Some(&first)).await.rest().await, frames);
        let texts: Vec<String> = frames.into_iter().map(|frame| frame.text).collect();
        assert_eq!(whole.get_or_insert_with(|| texts.clone()), &texts);
    }
}

/// A call of 2026-07-28 that its routes let outlive its connection goes on, and so does its stream.
#[tokio::test]
async fn a_call_without_a_session_resumes_too() {
    let stand = Stand::start(Options::default(), |adapter| adapter.routes(["callback"]).open(["seen"]));
    let client = Client::modern(&stand.socket, json!({}));
    assert_eq!(client.version, MODERN);
    stand.desk.gate.add_permits(2);
    let config = json!({"routes": [{"id": "r", "type": "callback", "endpoint": "seen", "triggers": ["completed"]}]});
    let mut answer = client.call(7, "steps", steps(), Some(config)).await;
    assert_eq!(answer.next().await.expect("its acknowledgement").method(), "notifications/config/acknowledged");
    let mut frames = vec![answer.next().await.expect("a step"), answer.next().await.expect("another")];
    drop(answer);
    stand.desk.open();
    frames.extend(client.get(frames[1].id.as_deref()).await.rest().await);
    assert_whole(&frames);
}

/// The stream of a session: what was sent while nobody listened is had by the one who comes back.
#[tokio::test]
async fn a_sessions_own_stream_resumes() {
    let stand = Stand::start(options(), |adapter| adapter.routes(["message"]));
    let client = Client::legacy(&stand.socket).await;
    let config = || Some(json!({"routes": [{"id": "r", "type": "message", "triggers": ["completed"]}]}));
    let mut own = client.get(None).await;
    client.call(1, "seen", json!({}), config()).await.answer().await;
    let acknowledged = own.next().await.expect("the acknowledgement");
    let triggered = own.next().await.expect("the message");
    assert_eq!(acknowledged.method(), "notifications/config/acknowledged");
    assert_eq!(triggered.method(), "notifications/io.tidings/triggered");
    assert_eq!(triggered.message["params"]["name"], "tool_call.completed");
    drop(own);
    client.call(2, "seen", json!({}), config()).await.answer().await;
    let mut own = client.get(triggered.id.as_deref()).await;
    let acknowledged = own.next().await.expect("the acknowledgement");
    assert_eq!(acknowledged.message["params"]["requestId"], 2);
    assert_eq!(own.next().await.expect("the message").message["params"]["data"]["requestId"], 2);
}

/// rmcp names no session to an event store: `Sessions` does. What is not of the session is not known, and is no error.
#[tokio::test]
async fn an_event_id_opens_nothing_in_another_session() {
    let stand = Stand::start(Options::default(), |adapter| adapter);
    let (one, other) = (Client::legacy(&stand.socket).await, Client::legacy(&stand.socket).await);
    stand.desk.open();
    let frames = one.call(7, "steps", steps(), None).await.rest().await;
    assert_whole(&frames);
    let unknown = json!({"jsonrpc": "2.0", "method": "notifications/io.tidings/gap", "params": {"reason": "unknown"}});
    let id = frames[0].id.as_deref();
    for stranger in [other.get(id).await, Client::modern(&stand.socket, json!({})).get(id).await] {
        let mut stranger = stranger;
        let told: Vec<Frame> = stranger.rest().await;
        assert_eq!(told.iter().map(|frame| &frame.message).collect::<Vec<_>>(), [&unknown]);
    }
    for bad in ["0", "0/1", "00000000000000000000000011.1.1.1"] {
        let told = one.get(Some(bad)).await.rest().await;
        assert_eq!(told.len(), 1, "{bad}");
        assert_eq!(told[0].message, unknown, "{bad}");
    }
    assert_eq!(one.get(id).await.rest().await, frames[1..], "its own session has it");
}

/// What retention took is told, then the stream goes on from what there is.
#[tokio::test]
async fn what_was_evicted_is_told() {
    let mut options = Options::default();
    options.retention = Retention { max_events: Some(3), ..Retention::default() };
    let stand = Stand::start(options, |adapter| adapter);
    let client = Client::legacy(&stand.socket).await;
    let mut answer = client.call(7, "steps", json!({"n": 6}), None).await;
    let first = answer.any().await.expect("a priming event").id.expect("its id");
    let mut all = Vec::new();
    for _ in 0..=6 {
        // Each step is committed alone, so that retention can take it alone.
        stand.hub.flush(Durability::Process).await.expect("it is committed");
        stand.desk.gate.add_permits(1);
        all.push(answer.next().await.expect("a step"));
    }
    let told = timeout(HANG, async {
        loop {
            let told = client.get(Some(&first)).await.rest().await;
            if told[0].method() != "notifications/progress" && told.len() <= 5 {
                return told;
            }
            sleep(Duration::from_millis(20)).await; // retention comes round
        }
    });
    let told = told.await.expect("it comes round");
    assert_eq!(told[0].method(), "notifications/io.tidings/gap");
    // The event that opens the stream, six steps, and the result: the newest three are kept.
    assert_eq!(told[0].message["params"], json!({"reason": "evicted", "earliestSeq": 5, "headSeq": 7}));
    assert_eq!(told[1..], all[4..], "from the earliest on nothing is missing");
    // The place of the gap is one to go on from.
    assert_eq!(client.get(told[0].id.as_deref()).await.rest().await, told[1..]);
}

/// The end of a session ends what is read of it.
#[tokio::test]
async fn a_session_that_is_deleted_is_gone() {
    let stand = Stand::start(Options::default(), |adapter| adapter);
    let client = Client::legacy(&stand.socket).await;
    client.delete().await;
    let answer = client.ask(1, "ping", json!({})).await;
    assert_eq!(answer.status, 404);
    assert_eq!(Client::legacy(&stand.socket).await.result(1, "ping", json!({})).await["result"], json!({}));
}
