//! Routes through the host: handlers and sessions' connections, beside webhooks and in place of them.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{FaultStore, HANG, Receiver, TestClock, local, over, over_with, route, wait};
use tidings::proto::id::RequestId;
use tidings::proto::route::{OutletName, UndeliverablePolicy};
use tidings::store::{DeliveryState, Store};
use tidings::{BeginCall, Call, ErrorCode, HostDelivery, Hub, Outlet, OutletOptions, Refusal, Result};

use DeliveryState::{Dead, Delivered, Superseded};

const TYPES: [&str; 4] = ["webhook", "message", "callback", "pager"];

fn begin(hub: &Hub, routes: &[String], peer: Option<&str>) -> Result<Call> {
    let config = format!(r#"{{"routes":[{}]}}"#, routes.join(","));
    wait(hub.begin_call(BeginCall {
        config: Some(config.as_bytes()),
        route_types: &TYPES,
        principal: "tester",
        session: None,
        peer,
        open: &["audit", "dash"],
        request_id: &RequestId::from(7_i64),
        tool: "tool",
        timeout: None,
        task: None,
    }))
}

fn host_route(id: &str, kind: &str, endpoint: Option<&str>) -> String {
    let endpoint = endpoint.map_or_else(String::new, |name| format!(r#""endpoint":"{name}","#));
    format!(r#"{{"id":"{id}","type":"{kind}",{endpoint}"triggers":["completed"]}}"#)
}

fn fire(hub: &Hub, routes: &[String], peer: Option<&str>) -> Option<String> {
    let call = begin(hub, routes, peer).expect("accepted");
    let ended = wait(call.complete(br#"{"content":[1.0]}"#)).expect("ended");
    assert!(ended.committed);
    ended.undelivered
}

fn outlet(hub: &Hub, name: OutletName) -> Outlet {
    hub.outlet(name, OutletOptions::default()).expect("an outlet")
}

fn next(outlet: &Outlet) -> HostDelivery {
    wait(outlet.next()).expect("a delivery")
}

fn pager() -> OutletName {
    OutletName::route_type("pager").expect("a type")
}

#[test]
fn each_type_goes_to_the_place_that_offers_it() {
    for (route, name, peer) in [
        (host_route("r", "callback", Some("audit")), OutletName::callback("audit"), None),
        (host_route("r", "message", Some("dash")), OutletName::message("dash"), None),
        (host_route("r", "message", None), OutletName::peer("message", "conn-1"), Some("conn-1")),
        (host_route("r", "pager", Some("anybody")), pager(), None),
        (host_route("r", "pager", None), pager(), None),
    ] {
        let store = FaultStore::new();
        let hub = over(&store, local());
        let outlet = outlet(&hub, name);
        fire(&hub, std::slice::from_ref(&route), peer);
        let delivery = next(&outlet);
        let body = std::str::from_utf8(&delivery.body).expect("text");
        assert!(body.contains(r#""outcome":{"status":"completed","result":{"content":[1.0]}}"#), "{body}");
        assert_eq!((&*delivery.principal, &*delivery.trigger, delivery.attempt), ("tester", "completed", 1));
        assert!(delivery.confirm());
        store.wait_deliveries(&[Delivered]);
    }
}

/// Nobody offers it: the next route has its turn at once, under the same event id.
#[test]
fn without_a_place_the_next_route_has_its_turn() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    let routes = [
        host_route("a", "callback", Some("audit")),
        host_route("b", "message", None),
        route("c", &receiver.endpoint, &["completed"]),
    ];
    assert_eq!(fire(&hub, &routes, Some("conn-1")), None);
    assert_eq!(receiver.wait_for(1)[0].field("route"), "c");
    store.wait_deliveries(&[Delivered]);
}

#[test]
fn without_any_place_the_servers_policy_counts() {
    let mut options = local();
    options.undeliverable = UndeliverablePolicy::Annotate;
    let store = FaultStore::new();
    let hub = over(&store, options);
    let told = fire(&hub, &[host_route("a", "callback", Some("audit"))], None).expect("annotated");
    assert!(told.contains(r#""routes":["a"]"#), "{told}");
}

/// What the host answers, and what follows: the fallback is a webhook with the same event id.
#[test]
fn a_refusal_hands_over_and_a_failure_tries_again() {
    for why in [Refusal::Refused, Refusal::Unreachable, Refusal::NotReady] {
        let (store, receiver) = (FaultStore::new(), Receiver::ok());
        let hub = over(&store, local());
        let outlet = outlet(&hub, pager());
        fire(&hub, &[host_route("a", "pager", None), route("b", &receiver.endpoint, &["completed"])], None);
        let delivery = next(&outlet);
        let event_id = delivery.event_id.clone();
        assert!(delivery.refuse(why));
        let request = &receiver.wait_for(1)[0];
        assert_eq!((request.header("webhook-id"), &*request.field("route")), (&*event_id, "b"));
        store.wait_deliveries(&[Superseded, Delivered]);
    }
    let store = FaultStore::new();
    let hub = over(&store, local());
    let outlet = outlet(&hub, pager());
    fire(&hub, &[host_route("a", "pager", None)], None);
    assert!(next(&outlet).refuse(Refusal::Failed));
    let again = next(&outlet);
    assert_eq!(again.attempt, 2);
    drop(again); // as good as a failure
    let last = next(&outlet);
    assert_eq!(last.attempt, 3);
    last.refuse(Refusal::Refused);
    assert_eq!(store.wait_deliveries(&[Dead])[0].last_error.as_deref(), Some("refused"));
}

#[test]
fn an_answer_after_the_deadline_is_too_late() {
    // The clock stands still, so that there is no second attempt.
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let options = OutletOptions { timeout: Duration::from_millis(1), ..OutletOptions::default() };
    let outlet = hub.outlet(pager(), options).expect("an outlet");
    fire(&hub, &[host_route("a", "pager", None)], None);
    let taken = store.wait_for(|inner| {
        let [delivery] = &inner.deliveries(None, None, None, 10).expect("reads")[..] else { return None };
        (delivery.state == DeliveryState::Retrying).then(|| delivery.clone())
    });
    assert_eq!(taken.last_error.as_deref(), Some("timeout"));
    if let Some(late) = outlet_now(&outlet) {
        assert!(!late.confirm());
    }
}

/// What is queued by now, if anything is.
fn outlet_now(outlet: &Outlet) -> Option<HostDelivery> {
    let next = std::pin::pin!(outlet.next());
    match next.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(delivery) => delivery,
        std::task::Poll::Pending => None,
    }
}

/// A queue holds no more than it may; the rest waits in the store.
#[test]
fn the_queue_is_bounded() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    let outlet = hub.outlet(pager(), OutletOptions { limit: 2, ..OutletOptions::default() }).expect("an outlet");
    for _ in 0..5 {
        fire(&hub, &[host_route("a", "pager", None)], None);
    }
    let held = [next(&outlet), next(&outlet)];
    assert!(outlet_now(&outlet).is_none());
    let waiting = store.waiting_outlets().expect("reads");
    assert_eq!(waiting.len(), 1, "three wait for the pager: {waiting:?}");
    for delivery in held {
        assert!(delivery.confirm());
    }
    for _ in 0..3 {
        assert!(next(&outlet).confirm());
    }
    store.wait_deliveries(&[Delivered; 5]);
}

/// A connection that is gone does not come back: what waits for it is given up at once. A handler's waits.
#[test]
fn a_closed_place() {
    for (name, peer, state) in
        [(OutletName::peer("message", "p"), Some("p"), Dead), (pager(), None, DeliveryState::Retrying)]
    {
        let store = FaultStore::new();
        let hub = over(&store, local());
        let outlet = hub.outlet(name.clone(), OutletOptions { limit: 1, ..OutletOptions::default() }).expect("one");
        let kind = if peer.is_some() { "message" } else { "pager" };
        for _ in 0..2 {
            fire(&hub, &[host_route("a", kind, None)], peer);
        }
        next(&outlet).confirm();
        let second = next(&outlet);
        second.refuse(Refusal::Failed);
        outlet.close();
        assert!(wait(outlet.next()).is_none());
        store.wait_deliveries(&[Delivered, state]);
        // Another one takes over.
        let other = self::outlet(&hub, name);
        if state != Dead {
            next(&other).confirm();
            store.wait_deliveries(&[Delivered, Delivered]);
        }
    }
}

/// One principal's config cannot name another's session, and an endpoint that is not opened looks like one that is not there.
#[test]
fn names_that_are_not_open_are_refused() {
    let hub = over(&FaultStore::new(), local());
    let _theirs = outlet(&hub, OutletName::peer("message", "conn-2"));
    let _other = outlet(&hub, OutletName::callback("billing"));
    let mut told = Vec::new();
    for (kind, endpoint) in [
        ("message", Some("conn-2")),
        ("message", Some("@message:conn-2")),
        ("callback", Some("billing")),
        ("callback", Some("nothing")),
    ] {
        let error = begin(&hub, &[host_route("a", kind, endpoint)], Some("conn-1")).err().expect("refused");
        assert_eq!(error.code(), ErrorCode::InvalidConfig);
        told.push(error.to_string());
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    let forged = r#"{"id":"a","type":"message","peer":"conn-2","triggers":["completed"]}"#;
    let mine = outlet(&hub, OutletName::peer("message", "conn-1"));
    fire(&hub, &[forged.to_owned()], Some("conn-1"));
    next(&mine).confirm();
    for (kind, peer) in [("callback", Some("conn-1")), ("message", None)] {
        let error = begin(&hub, &[host_route("a", kind, None)], peer).err().expect("refused");
        assert_eq!(error.code(), ErrorCode::InvalidConfig, "{kind}");
    }
}

/// A delivery whose process died goes on where the same name is offered.
#[test]
fn another_hub_over_the_store_takes_what_one_that_left_had() {
    let store = FaultStore::new();
    let one = over(&store, local());
    let held = outlet(&one, pager());
    fire(&one, &[host_route("a", "pager", None)], None);
    let delivery = next(&held);
    one.close(Duration::ZERO); // what is in the host's hands is cut, and not waited for
    assert!(wait(held.next()).is_none());
    let two = over(&store, local());
    let outlet = outlet(&two, pager());
    let again = next(&outlet);
    assert_eq!(again.attempt, 2);
    assert!(!delivery.confirm(), "it is another worker's by now");
    again.confirm();
    store.wait_deliveries(&[Delivered]);
}

#[test]
fn what_an_outlet_needs() {
    let hub = over(&FaultStore::new(), local());
    for options in [
        OutletOptions { limit: 0, ..OutletOptions::default() },
        OutletOptions { timeout: Duration::ZERO, ..OutletOptions::default() },
    ] {
        assert_eq!(hub.outlet(pager(), options).expect_err("refused").code(), ErrorCode::InvalidArgument);
    }
    let outlet = Arc::new(outlet(&hub, pager()));
    hub.close(Duration::from_secs(1));
    assert!(wait(outlet.next()).is_none());
}

/// The handler lives in another process than the call.
#[test]
fn another_process_has_the_handler() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("t.db").display());
    let open = || Hub::with(&url, local()).expect("a hub");
    let (one, two) = (open(), open());
    one.ensure_open().expect("open");
    let outlet = outlet(&two, OutletName::callback("audit"));
    let receiver = Receiver::ok();
    let routes = [host_route("a", "callback", Some("audit")), route("b", &receiver.endpoint, &["completed"])];
    // Until the other process's word has come to the store, the next route has its turn.
    let mut fired = 0;
    let delivery = loop {
        fire(&one, &routes, None);
        fired += 1;
        // In whatever state it is: the other process may have it in hand, and not have handed it out.
        let all = one.deliveries(None, None, None, u32::MAX).expect("reads");
        if all.iter().any(|delivery| delivery.route_id == "a") {
            break next(&outlet);
        }
    };
    assert!(delivery.confirm());
    assert!(fired >= 1);
    assert!(two.close(HANG));
    fire(&one, &routes, None);
    receiver.wait_for(fired); // all but one, and one more
    assert!(one.close(HANG));
}
