//! What an operator does by hand, and what a call's trace is carried into.

use std::time::Duration;

use crate::support::{
    FaultStore, Gate, HANG, Receiver, Reply, SOON, TestClock, begin, config, local, over, over_with, wait,
};
use tidings::proto::id::RequestId;
use tidings::store::{DeliveryState, Store};
use tidings::{BeginCall, ErrorCode, Hub};

use DeliveryState::{Dead, Delivered};

fn fire(hub: &Hub, config: &str) {
    let call = begin(hub, config).expect("accepted");
    assert!(wait(call.complete(br#"{"content":[1.0]}"#)).expect("ended").committed);
}

/// A dead letter is sent again with the same id and bytes, as a new delivery; what was sent is not sent again.
#[test]
fn a_dead_letter_is_sent_again() {
    let store = FaultStore::new();
    let receiver = Receiver::scripted(vec![Reply::Status(413, ""), Reply::OK]);
    let hub = over(&store, local());
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    let dead = store.wait_deliveries(&[Dead]).remove(0);
    let attempts = hub.attempts(dead.id).expect("reads");
    assert_eq!(attempts.iter().map(|one| one.error.as_deref()).collect::<Vec<_>>(), [Some("http_4xx")]);
    let body = hub.stored_delivery(dead.id).expect("reads").expect("kept").body;
    let again = wait(hub.send_again(dead.id)).expect("sent");
    let both = store.wait_deliveries(&[Dead, Delivered]);
    assert_eq!((both[1].id, &both[1].event_id), (again, &dead.event_id));
    let requests = receiver.requests();
    assert_eq!((&requests[0].body, &requests[1].body), (&requests[1].body, &body.to_vec()));
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    let error = wait(hub.send_again(again)).expect_err("it was taken");
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert_eq!(wait(hub.purge(None, None, Some(Dead))).expect("purged"), 1);
    assert_eq!(wait(hub.purge(None, Some("nobody"), None)).expect("purged"), 0);
    assert_eq!(wait(hub.purge(Some(again), None, None)).expect("purged"), 1);
    assert_eq!(hub.deliveries(None, None, None, 9).expect("reads"), []);
    assert!(wait(hub.purge(None, None, Some(DeliveryState::Leased))).is_err(), "what is at work stays");
}

/// What fires during a pause waits; a drain tells when nothing is under way.
#[test]
fn a_pause_and_a_drain() {
    let (store, gate) = (FaultStore::new(), Gate::default());
    let answers = gate.clone();
    let receiver = Receiver::start(move |_, nth| {
        if nth == 0 {
            answers.pass();
        }
        Reply::OK
    });
    let hub = over(&store, local());
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    receiver.wait_for(1);
    assert!(!wait(hub.drain(Duration::from_millis(1))).expect("open"), "one is under way");
    gate.open();
    assert!(wait(hub.drain(HANG)).expect("open"));
    store.wait_deliveries(&[Delivered]);
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    store.wait_deliveries(&[Delivered, DeliveryState::Pending]);
    hub.unpause().expect("open");
    store.wait_deliveries(&[Delivered, Delivered]);
    assert!(wait(hub.drain(HANG)).expect("open"), "with it, what is counted is counted");
    let stats = hub.stats();
    assert_eq!((stats.attempts, stats.delivered, stats.dead, stats.in_flight), (2, 2, 0, 0));
    let text = hub.prometheus();
    for line in ["tidings_attempts_total{result=\"taken\"} 2", "tidings_deliveries_total{state=\"delivered\"} 2"] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

/// The operator takes an endpoint out and puts it back.
#[test]
fn an_endpoint_is_disabled_and_enabled_by_hand() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over_with(&store, local(), &TestClock::new());
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    store.wait_deliveries(&[Delivered]);
    let key = hub.endpoints(Some("tester"), 9).expect("reads").remove(0).key;
    wait(hub.disable_endpoint(key)).expect("known");
    fire(&hub, &config(&receiver.endpoint, &["completed"])); // no route can take it
    wait(hub.enable_endpoint(key)).expect("known");
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    store.wait_deliveries(&[Delivered, Delivered]);
    let nobodys = tidings::proto::delivery::EndpointKey([7; 32]);
    assert_eq!(wait(hub.enable_endpoint(nobodys)).expect_err("unknown").code(), ErrorCode::InvalidArgument);
    assert_eq!(store.endpoints(None, 9).expect("reads").len(), 1);
}

/// The trace of the call goes on in its webhooks, on every attempt; what is no `traceparent` is ignored.
#[test]
fn a_trace_is_carried_into_the_webhook() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (given, sent) in [(Some(trace), trace), (Some("00-zz"), ""), (None, "")] {
        let (store, clock) = (FaultStore::new(), TestClock::new());
        let receiver = Receiver::scripted(vec![SOON, Reply::OK]);
        let hub = over_with(&store, local(), &clock);
        let config = config(&receiver.endpoint, &["completed"]);
        let request_id = RequestId::from(7_i64);
        let begin = BeginCall {
            config: Some(config.as_bytes()),
            route_types: &["webhook"],
            principal: "tester",
            session: None,
            peer: None,
            open: &[],
            request_id: &request_id,
            tool: "tool",
            timeout: None,
            task: None,
        };
        let call = wait(hub.begin_call_traced(begin, given)).expect("accepted");
        wait(call.complete(b"{}")).expect("ended");
        store.wait_deliveries(&[DeliveryState::Retrying]);
        clock.advance(Duration::from_secs(2));
        for request in receiver.wait_for(2) {
            assert_eq!(request.header("traceparent"), sent);
        }
    }
}
