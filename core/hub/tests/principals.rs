//! What one principal cannot do to another: exhaust its rate, see its deliveries. That it cannot use the other's verified URL
//! is in `endpoints` and `origins`, that it cannot reach the other's session or callback in `outlets`, that it cannot cancel
//! the other's calls in `detached`.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{FaultStore, Receiver, Reply, TestClock, config, local, over, over_with, wait};
use tidings::proto::delivery::Rate;
use tidings::proto::id::RequestId;
use tidings::store::{DeliveryState, Store, Subject};
use tidings::{After, BeginCall, Call, ErrorCode, Hub, Options};

use DeliveryState::{Dead, Delivered, Leased};

/// A call of a principal, whose name is the tool's as well, so that receivers can tell.
fn fire(hub: &Hub, principal: &str, url: &str) -> Call {
    let call = wait(hub.begin_call(BeginCall {
        config: Some(config(url, &["completed"]).as_bytes()),
        route_types: &["webhook"],
        principal,
        session: None,
        peer: None,
        open: &[],
        request_id: &RequestId::from(7_i64),
        tool: principal,
        timeout: None,
        task: None,
    }))
    .expect("accepted");
    assert!(wait(call.complete(b"{}")).expect("ended").committed);
    call
}

fn count(store: &FaultStore, principal: &str) -> usize {
    store.deliveries(Some(principal), None, Some(Delivered), 1_000).expect("reads").len()
}

/// Goes on by so much, and waits until what could go then has gone.
fn step(store: &Arc<FaultStore>, clock: &TestClock, by: Duration) {
    clock.advance(by);
    store.wait_look(clock);
    store.wait_for(|inner| inner.deliveries(None, None, Some(Leased), 1).expect("reads").is_empty().then_some(()));
}

/// The same URL has a rate for each principal.
#[test]
fn one_principal_does_not_exhaust_anothers_rate_at_an_endpoint() {
    let (store, clock, receiver) = (FaultStore::new(), TestClock::new(), Receiver::ok());
    let mut options: Options = local();
    options.endpoint_rate = Some(Rate { per_second: 1, burst: 1 });
    let hub = over_with(&store, options, &clock);
    for _ in 0..3 {
        fire(&hub, "greedy", &receiver.endpoint);
    }
    receiver.wait_for(1);
    fire(&hub, "modest", &receiver.endpoint);
    let tools: Vec<_> = receiver.wait_for(2).iter().map(|request| request.field("tool")).collect();
    assert_eq!(tools, ["greedy", "modest"], "no time has passed");
    step(&store, &clock, Duration::from_secs(1));
    receiver.wait_for(3);
}

/// The rate of a host goes round its principals, however much one of them has waiting there.
#[test]
fn one_principal_does_not_exhaust_anothers_share_of_a_host() {
    let (store, clock, receiver) = (FaultStore::new(), TestClock::new(), Receiver::ok());
    let mut options = local();
    options.host_rate = Some(Rate { per_second: 10, burst: 1 });
    let hub = over_with(&store, options, &clock);
    for n in 0..20 {
        fire(&hub, "greedy", &format!("{}&to={n}", receiver.endpoint));
    }
    fire(&hub, "modest", &receiver.endpoint);
    let mut steps = 0;
    while count(&store, "modest") == 0 {
        step(&store, &clock, Duration::from_millis(100));
        steps += 1;
        assert!(steps < 100, "never served");
    }
    let before = count(&store, "greedy");
    assert!(before < 10, "{before} of 20 went first");
    while count(&store, "greedy") < 20 {
        step(&store, &clock, Duration::from_millis(100));
    }
}

/// Neither in the list of deliveries, nor by the other's call, nor in the receipts.
#[test]
fn one_principal_does_not_see_anothers_deliveries() {
    let (store, receiver) = (
        FaultStore::new(),
        Receiver::start(|request, _| if request.field("tool") == "ann" { Reply::OK } else { Reply::Status(413, "") }),
    );
    let hub = over(&store, local());
    let (anns, bobs) = (fire(&hub, "ann", &receiver.endpoint), fire(&hub, "bob", &receiver.endpoint));
    store.wait_for(|inner| {
        let all = inner.deliveries(None, None, None, 9).expect("reads");
        (all.len() == 2 && all.iter().all(|one| one.state.is_final())).then_some(())
    });
    let list = |principal, call: Option<&Call>| -> Vec<_> {
        let subject = call.map(|call| Subject::Call(call.id()));
        let found = hub.deliveries(Some(principal), subject.as_ref(), None, 9).expect("reads");
        found.into_iter().map(|one| (one.principal, one.state)).collect()
    };
    assert_eq!(list("ann", None), [("ann".to_owned(), Delivered)]);
    assert_eq!(list("bob", None), [("bob".to_owned(), Dead)]);
    assert_eq!((list("ann", Some(&anns)).len(), list("bob", Some(&bobs)).len()), (1, 1));
    assert_eq!((list("ann", Some(&bobs)), list("bob", Some(&anns)), list("", None)), (vec![], vec![], vec![]));

    let receipts = |principal: &str| {
        let mut tail = hub.stream(principal, "deliveries").expect("a key").tail(After::Earliest).expect("there");
        let read = wait(tail.next()).expect("not closed").expect("a read");
        let event = read.events.first().expect("a receipt");
        let call = String::from_utf8(event.payload.to_vec()).expect("JSON text");
        (event.kind.to_string(), call, tail.cursor().to_string())
    };
    let ((ann_kind, ann_text, ann_cursor), (bob_kind, bob_text, _)) = (receipts("ann"), receipts("bob"));
    assert_eq!((ann_kind.as_str(), bob_kind.as_str()), ("io.tidings.delivered", "io.tidings.dead"));
    assert!(ann_text.contains(&anns.id().to_string()) && !ann_text.contains(&bobs.id().to_string()));
    assert!(bob_text.contains(&bobs.id().to_string()) && !bob_text.contains(&anns.id().to_string()));
    // A cursor is no key: in another scope it names nothing.
    assert!(hub.resume("ann", &ann_cursor).is_ok());
    assert_eq!(hub.resume("bob", &ann_cursor).err().expect("another's").code(), ErrorCode::UnknownCursor);
}
