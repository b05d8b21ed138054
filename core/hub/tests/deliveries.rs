//! Deliveries: what is sent, how often, under which id, and in which state it ends.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    ENDS, FaultStore, Gate, HANG, Receiver, Reply, SECRET, SOON, TestClock, begin, config, local, over, over_with,
    route, wait,
};
use tidings::proto::webhook::{Received, Secret, verify};
use tidings::store::{
    Commit, DeliveryState, DeliverySummary, Done, Durability, Flow, Lease, Op, Store, StoreErrorKind, WorkerId,
};
use tidings::{Hub, Options};

use DeliveryState::{Dead, Delivered, Expired, Leased, Pending, Retrying, Superseded};

/// Ends one call as completed, so that its webhook is due.
fn fire(hub: &Hub, config: &str) {
    let call = begin(hub, config).expect("accepted");
    assert!(wait(call.complete(br#"{"content":[1.0]}"#)).expect("ended").committed);
}

/// The body of the nth delivery that was enqueued, as it is stored.
fn stored(store: &FaultStore, nth: usize) -> Vec<u8> {
    let bodies = store.ops().into_iter().filter_map(|op| if let Op::Enqueue(new) = op { Some(new.body) } else { None });
    bodies.skip(nth).map(|body| body.to_vec()).next().expect("enqueued")
}

/// Waits until the only delivery has been settled so often, and answers how it stands.
fn settled(store: &FaultStore, times: usize) -> DeliverySummary {
    store.wait_for(|inner| {
        let [delivery] = &inner.deliveries(None, None, None, 10).expect("deliveries")[..] else { return None };
        (delivery.state != Leased && delivery.attempts as usize >= times).then(|| delivery.clone())
    })
}

/// The bytes on the wire are those stored, signed so that an independent library takes them.
#[test]
fn what_is_sent() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    let headers = r#""headers":{"Authorization":"Bearer t0ken","X-Team":"a b"},"endpoint""#;
    fire(&hub, &config(&receiver.endpoint, &["completed"]).replace(r#""endpoint""#, headers));
    let request = &receiver.wait_for(1)[0];
    assert_eq!(request.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(request.body, stored(&store, 0));
    let body = request.text();
    assert!(
        body.starts_with(&format!(r#"{{"eventId":"{}","name":"tool_call.completed","#, request.header("webhook-id"))),
        "{body}"
    );
    assert!(body.contains(r#""outcome":{"status":"completed","result":{"content":[1.0]}}"#), "{body}");
    assert!(body.contains(r#""requestId":7,"tool":"tool","route":"main","trigger":"completed""#), "{body}");
    let host = receiver.endpoint.strip_prefix("http://").expect("http").split('/').next().expect("a host");
    for (name, value) in [
        ("host", host),
        ("content-type", "application/json"),
        ("authorization", "Bearer t0ken"),
        ("x-team", "a b"),
        ("content-length", &request.body.len().to_string()),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    assert!(request.header("user-agent").starts_with("tidings/"));
    let mut names: Vec<&str> = request.headers.keys().map(String::as_str).collect();
    names.sort_unstable();
    let want = "authorization content-length content-type host user-agent webhook-id webhook-signature webhook-timestamp x-team";
    assert_eq!(names.join(" "), want);

    let mut map = hyper::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        map.insert(name, request.header(name).parse().expect("a header"));
    }
    let oracle = standardwebhooks::Webhook::new(SECRET).expect("a secret");
    oracle.verify(&request.body, &map).expect("verified by the library of Standard Webhooks");
    let mut changed = request.body.clone();
    changed.push(b' ');
    oracle.verify(&changed, &map).expect_err("one byte more");
    let received = Received::from_headers(request.headers.iter().map(|(name, value)| (name, value.as_str())));
    let timestamp: i64 = request.header("webhook-timestamp").parse().expect("a number");
    verify(&[Secret::parse(SECRET).expect("a secret")], &received.expect("headers"), &request.body, timestamp, 300)
        .expect("verified by our own");
}

/// A route without a secret is sent unsigned, or signed with the operator's.
#[test]
fn without_a_secret_of_its_own() {
    let other = "whsec_HxAeHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgE=";
    for default in [None, Some(other)] {
        let (store, receiver) = (FaultStore::new(), Receiver::ok());
        let mut options = local();
        options.default_secret = default.map(|secret| Secret::parse(secret).expect("a secret"));
        let hub = over(&store, options);
        fire(&hub, &config(&receiver.endpoint, &["completed"]).replace(&format!(r#""secret":"{SECRET}","#), ""));
        let request = &receiver.wait_for(1)[0];
        assert!(request.header("webhook-id").starts_with("evt_"));
        assert!(!request.header("webhook-timestamp").is_empty());
        let Some(secret) = default else {
            assert!(!request.headers.contains_key("webhook-signature"));
            continue;
        };
        let mut map = hyper::HeaderMap::new();
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            map.insert(name, request.header(name).parse().expect("a header"));
        }
        standardwebhooks::Webhook::new(secret).expect("a secret").verify(&request.body, &map).expect("verified");
    }
}

/// Field case B65: what each answer comes to.
#[test]
fn what_follows_each_status() {
    // Status, headers, the state after it, the category, and between which milliseconds from now the next attempt is due.
    type Case = (u16, &'static str, DeliveryState, Option<&'static str>, Option<(i64, i64)>);
    let cases: [Case; 12] = [
        (200, "", Delivered, None, None),
        (204, "", Delivered, None, None),
        (301, "location: http://127.0.0.1:1/\r\n", Retrying, Some("http_3xx"), Some((0, 1_000))),
        (400, "", Retrying, Some("http_4xx"), Some((0, 1_000))),
        (401, "", Retrying, Some("http_4xx"), Some((0, 1_000))),
        (410, "", Dead, Some("http_4xx"), None),
        (413, "", Dead, Some("http_4xx"), None),
        (429, "retry-after: 120\r\n", Retrying, Some("http_4xx"), Some((120_000, 121_000))),
        (429, "", Retrying, Some("http_4xx"), Some((10_000, 11_000))),
        (500, "", Retrying, Some("http_5xx"), Some((0, 1_000))),
        // 90 s after the test clock's wall time.
        (503, "retry-after: Thu, 01 Jan 2026 00:01:30 GMT\r\n", Retrying, Some("http_5xx"), Some((90_000, 91_000))),
        (600, "", Retrying, Some("protocol_error"), Some((0, 1_000))),
    ];
    for (status, headers, state, category, due) in cases {
        let first = || {
            let (store, clock) = (FaultStore::new(), TestClock::new());
            let receiver = Receiver::scripted(vec![Reply::Status(status, headers)]);
            let hub = over_with(&store, local(), &clock);
            fire(&hub, &config(&receiver.endpoint, &["completed"]));
            let delivery = settled(&store, 1);
            (store, clock, receiver, hub, delivery)
        };
        // One wait of a thousand is none at all: then the second attempt has been made before anybody looked.
        let (store, clock, receiver, hub, delivery) = std::iter::repeat_with(first)
            .find(|(.., delivery)| due.is_none_or(|(from, _)| from > 0) || delivery.attempts == 1)
            .expect("without end");
        assert_eq!(
            (delivery.state, delivery.last_error.as_deref(), delivery.attempts),
            (state, category, 1),
            "{status}"
        );
        if let Some((from, to)) = due {
            let wait = delivery.due - clock.now();
            assert!((from..=to).contains(&wait), "{status}: due after {wait} ms");
            // Not before that, and then again.
            if wait > 1 {
                clock.advance(Duration::from_millis(u64::try_from(wait - 1).unwrap_or(0)));
                store.wait_look(&clock);
                assert_eq!(receiver.requests().len(), 1, "{status}");
            }
            clock.advance(Duration::from_millis(1));
            receiver.wait_for(2);
        }
        assert!(hub.close(HANG));
    }
}

/// Field case B66: the same id and the same bytes on every attempt, over a restart too; only the timestamp is new.
#[test]
fn attempts_of_one_delivery() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let receiver = Receiver::scripted(vec![SOON, Reply::Raw(Vec::new()), SOON, Reply::OK]);
    let hub = over_with(&store, local(), &clock);
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    settled(&store, 1);
    clock.advance(Duration::from_secs(60));
    settled(&store, 2);
    assert!(hub.close(HANG));
    clock.advance(Duration::from_secs(60));
    let _next = over_with(&store, local(), &clock);
    settled(&store, 3);
    clock.advance(Duration::from_secs(60));
    let delivery = store.wait_deliveries(&[Delivered]).remove(0);
    assert_eq!((delivery.attempts, delivery.last_error), (4, None));
    let requests = receiver.requests();
    assert_eq!(requests.len(), 4);
    let secret = [Secret::parse(SECRET).expect("a secret")];
    for (nth, request) in requests.iter().enumerate() {
        assert_eq!(request.header("webhook-id"), delivery.event_id);
        assert_eq!(request.body, requests[0].body);
        let timestamp = 1_767_225_600 + 60 * nth as i64;
        assert_eq!(request.header("webhook-timestamp"), timestamp.to_string());
        let received = Received::from_headers(request.headers.iter().map(|(name, value)| (name, value.as_str())));
        verify(&secret, &received.expect("headers"), &request.body, timestamp, 0).expect("signed anew");
    }
}

/// Different triggers of one call are different messages.
#[test]
fn two_firings_of_one_call_have_two_ids() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    let call = begin(&hub, &config(&receiver.endpoint, &["streaming", "completed"])).expect("accepted");
    call.emit("step", b"{}").expect("numbered");
    wait(call.complete(b"{}")).expect("ended");
    store.wait_deliveries(&[Delivered, Delivered]);
    let requests = receiver.requests();
    assert_ne!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
}

/// The first route is dead: the same firing goes over the next, and the body differs in the route only.
#[test]
fn the_next_route_takes_over() {
    let (store, gone, takes) = (FaultStore::new(), Receiver::scripted(vec![Reply::Status(410, "")]), Receiver::ok());
    let hub = over(&store, local());
    let routes = [
        route("first", &gone.endpoint, &["completed"]),
        route("silent", &takes.endpoint, &["failed"]),
        route("sec\\\\\\\"ond", &takes.endpoint, &["completed"]),
    ];
    fire(&hub, &format!(r#"{{"routes":[{}]}}"#, routes.join(",")));
    let deliveries = store.wait_deliveries(&[Superseded, Delivered]);
    assert_eq!(deliveries[0].event_id, deliveries[1].event_id);
    assert_eq!((deliveries[0].route_id.as_str(), deliveries[1].route_id.as_str()), ("first", r#"sec\"ond"#));
    let (first, second) = (&gone.requests()[0], &takes.requests()[0]);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(second.text(), first.text().replace(r#""route":"first""#, r#""route":"sec\\\"ond""#));
    assert_eq!(second.body, stored(&store, 1));
    let received =
        Received::from_headers(second.headers.iter().map(|(name, value)| (name, value.as_str()))).expect("headers");
    let timestamp: i64 = second.header("webhook-timestamp").parse().expect("a number");
    verify(&[Secret::parse(SECRET).expect("a secret")], &received, &second.body, timestamp, 0)
        .expect("signed for itself");
    assert_eq!((gone.connections(), takes.connections()), (1, 1));
}

/// Moves the clock to whatever is due next, until `done`.
fn run_due(store: &FaultStore, clock: &TestClock, done: impl Fn(&[DeliverySummary]) -> bool) -> Vec<DeliverySummary> {
    loop {
        let deliveries = store.wait_for(|inner| {
            let deliveries = inner.deliveries(None, None, None, 100).expect("deliveries");
            let busy = deliveries.iter().any(|delivery| matches!(delivery.state, Leased | Pending));
            (!busy && !deliveries.is_empty()).then_some(deliveries)
        });
        if done(&deliveries) {
            return deliveries;
        }
        // Not the deliveries' own due times: the breaker of their endpoint may be open for longer.
        let due = store.wait_for(|inner| inner.next_due().expect("reads"));
        clock.advance(Duration::from_millis(u64::try_from(due - clock.now()).unwrap_or(0)));
        store.wait_look(clock);
    }
}

/// A route with a successor gets 4 attempts, each of three routes in its turn; the last one 12.
#[test]
fn attempts_are_bounded() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let fails = Receiver::scripted(vec![Reply::Status(500, "")]);
    let hub = over_with(&store, local(), &clock);
    let routes = ["a", "b", "c"].map(|id| route(id, &format!("{}&to={id}", fails.endpoint), &["completed"]));
    fire(&hub, &format!(r#"{{"routes":[{}]}}"#, routes.join(",")));
    let deliveries = run_due(&store, &clock, |all| all.last().is_some_and(|last| last.state.is_final()));
    let got: Vec<_> = deliveries.iter().map(|d| (d.route_id.as_str(), d.state, d.attempts)).collect();
    assert_eq!(got, [("a", Superseded, 4), ("b", Superseded, 4), ("c", Dead, 12)]);
    assert!(deliveries.iter().all(|delivery| delivery.event_id == deliveries[0].event_id));
    assert_eq!(fails.requests().len(), 20);
}

/// Workers that die over a delivery use up its attempts like any other: it may be what they die of. (The simulation found
/// that there was one more after each death.)
#[test]
fn a_delivery_that_workers_die_of() {
    for (routes, deaths, states) in [(&["a"][..], 12, &[Dead][..]), (&["a", "b"], 4, &[Superseded, Delivered])] {
        let (store, clock) = (FaultStore::shared(), TestClock::new());
        let receiver = Receiver::ok();
        let hub = over_with(&store, local(), &clock);
        hub.pause().expect("open");
        let routes = routes.iter().map(|id| route(id, &format!("{}&to={id}", receiver.endpoint), &["completed"]));
        fire(&hub, &format!(r#"{{"routes":[{}]}}"#, routes.collect::<Vec<_>>().join(",")));
        for death in 0..deaths {
            let (worker, now) = (WorkerId([death; 16]), clock.now());
            let lease = Lease { worker, now, until: now + 1, limit: 1, flow: Flow::unlimited() };
            let done = store.inner().commit(&[Commit::new(Durability::Process, vec![Op::Lease(lease)])]);
            assert!(matches!(&done[0].as_deref(), Ok([Done::Leased(leased)]) if leased.len() == 1), "{done:?}");
        }
        hub.unpause().expect("open");
        let deliveries = store.wait_deliveries(states);
        let first = &deliveries[0];
        assert_eq!((first.attempts, first.last_error.as_deref()), (u32::from(deaths), Some("interrupted")));
        assert_eq!(receiver.requests().len(), states.len() - 1, "only the next route was tried");
    }
}

#[test]
fn a_deadline_that_passes() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let fails = Receiver::scripted(vec![SOON]);
    let hub = over_with(&store, local(), &clock);
    let limited = config(&fails.endpoint, &["completed"]).replace(r#""endpoint""#, r#""deadlineMs":5000,"endpoint""#);
    fire(&hub, &limited);
    let first = settled(&store, 1);
    assert_eq!(first.deadline, 1_767_225_605_000);
    // The server is down when the next attempt is due, and comes back after the deadline.
    assert!(hub.close(HANG));
    clock.advance(Duration::from_secs(6));
    let _next = over_with(&store, local(), &clock);
    let delivery = store.wait_deliveries(&[Expired]).remove(0);
    assert_eq!((delivery.attempts, delivery.last_error.as_deref()), (1, Some("deadline")), "no attempt was made");
    assert_eq!(fails.connections(), 1);
}

/// The first route's time is up; the second one's is not.
#[test]
fn a_route_that_expired_hands_over() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let (fails, takes) = (Receiver::scripted(vec![SOON]), Receiver::ok());
    let hub = over_with(&store, local(), &clock);
    let with_deadline = |id: &str, endpoint: &str, ms: u64| {
        route(id, endpoint, &["completed"]).replace(r#""endpoint""#, &format!(r#""deadlineMs":{ms},"endpoint""#))
    };
    let routes = [
        with_deadline("first", &fails.endpoint, 5_000),
        with_deadline("late", &takes.endpoint, 5_500),
        with_deadline("last", &takes.endpoint, 60_000),
    ];
    fire(&hub, &format!(r#"{{"routes":[{}]}}"#, routes.join(",")));
    settled(&store, 1);
    assert!(hub.close(HANG));
    clock.advance(Duration::from_secs(6));
    let _next = over_with(&store, local(), &clock);
    let deliveries = store.wait_deliveries(&[Superseded, Delivered]);
    assert_eq!(deliveries[1].route_id, "last");
    assert_eq!(deliveries[1].deadline, 1_767_225_660_000, "counted from the firing");
    assert_eq!(takes.requests()[0].field("route"), "last");
}

/// Many deliveries, several processes: each is sent once.
#[test]
fn two_processes_never_send_the_same_attempt() {
    const CALLS: usize = 60;
    let (one, receiver) = (FaultStore::shared(), Receiver::ok());
    let two = one.other();
    let hubs = [over(&one, local()), over(&two, local())];
    std::thread::scope(|scope| {
        for hub in &hubs {
            let config = config(&receiver.endpoint, &["completed"]);
            scope.spawn(move || (0..CALLS / 2).for_each(|_| fire(hub, &config)));
        }
    });
    let requests = receiver.wait_for(CALLS);
    for hub in &hubs {
        assert!(hub.close(HANG));
    }
    let mut ids: Vec<&str> = requests.iter().map(|request| request.header("webhook-id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), CALLS);
    assert_eq!(receiver.requests().len(), CALLS);
    let deliveries = one.inner().deliveries(None, None, None, 1_000).expect("deliveries");
    assert!(deliveries.iter().all(|delivery| (delivery.state, delivery.attempts) == (Delivered, 1)), "{deliveries:?}");
}

/// A worker that is too late with its answer: its lease was lost, and what it says counts no more (fault 16).
#[test]
fn a_lost_lease_cannot_settle() {
    let (slow, clock) = (FaultStore::shared(), TestClock::new());
    let quick = slow.other();
    let gate = Gate::default();
    let held = gate.clone();
    let receiver = Receiver::start(move |_, nth| {
        if nth == 0 {
            held.pass();
            return Reply::Status(410, "");
        }
        Reply::OK
    });
    let mut options = local();
    options.attempt_timeout = HANG;
    let one = over_with(&slow, options.clone(), &clock);
    fire(&one, &config(&receiver.endpoint, &["completed"]));
    receiver.wait_for(1);
    slow.block(true); // it hears nothing any more, and its heartbeats end
    let _two = over_with(&quick, options, &clock);
    clock.advance(Duration::from_secs(200));
    quick.wait_deliveries(&[Delivered]);
    gate.open();
    slow.block(false);
    clock.advance(Duration::from_secs(1));
    slow.wait_look(&clock);
    assert!(one.close(HANG));
    let delivery = quick.wait_deliveries(&[Delivered]).remove(0);
    assert_eq!((delivery.attempts, delivery.last_error), (2, None));
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(slow.count(|op| matches!(op, Op::Settle(_))), 0);
}

/// The receiver has it and the sender dies before it can note that: it comes again, under the same id (fault 14).
#[test]
fn a_crash_between_post_and_ack() {
    let (dies, clock) = (FaultStore::shared(), TestClock::new());
    let lives = dies.other();
    let breaks = Arc::clone(&dies);
    let receiver = Receiver::start(move |_, nth| {
        if nth == 0 {
            breaks.block(true);
        }
        Reply::OK
    });
    let one = over_with(&dies, local(), &clock);
    fire(&one, &config(&receiver.endpoint, &["completed"]));
    dies.wait_held();
    let _two = over_with(&lives, local(), &clock);
    clock.advance(Duration::from_secs(120));
    lives.wait_deliveries(&[Delivered]);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    assert_eq!(requests[0].body, requests[1].body);
    dies.block(false);
}

/// The store fails just after the receiver took it: that is noted when the store is back, and not sent again.
#[test]
fn a_store_that_fails_between_post_and_ack() {
    let store = FaultStore::new();
    let breaks = Arc::clone(&store);
    let receiver = Receiver::start(move |_, nth| {
        if nth == 0 {
            breaks.fail(Some(StoreErrorKind::Io));
        }
        Reply::OK
    });
    let hub = over(&store, local());
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    store.wait_failed(2);
    store.fail(None);
    assert_eq!(store.wait_deliveries(&[Delivered])[0].attempts, 1);
    assert!(hub.close(HANG));
    assert_eq!(receiver.requests().len(), 1);
}

/// A hub that closes cuts an attempt that hangs; the next start makes another.
#[test]
fn closing_during_an_attempt() {
    let store = FaultStore::new();
    let receiver = Receiver::start(|_, nth| if nth == 0 { Reply::Hang } else { Reply::OK });
    let hub = over(&store, local());
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    receiver.wait_for(1);
    assert!(hub.close(Duration::from_secs(4)));
    assert_eq!(store.wait_deliveries(&[Retrying])[0].attempts, 1);
    let _next = over(&store, local());
    assert_eq!(store.wait_deliveries(&[Delivered])[0].attempts, 2);
    let requests = receiver.requests();
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
}

/// Ten endpoints that hang on the host of ten good ones, and ten on another, hold up nobody: however much waits for them, each
/// gets one attempt at a time before it took anything, and all together no more than half of the slots. Field case B67.
#[test]
fn b67_ten_hanging_endpoints_beside_ten_good_ones() {
    let store = FaultStore::new();
    let (hangs, good) = (Receiver::scripted(vec![Reply::Hang]), Receiver::ok());
    let elsewhere = Receiver::start_at("127.0.0.2", |_, _| Reply::Hang);
    let mut options = local();
    options.concurrency = 44;
    options.attempt_timeout = HANG;
    let hub = over(&store, options);
    let to = |receiver: &Receiver, n: usize| config(&format!("{}&to={n}", receiver.endpoint), &["completed"]);
    for n in 0..10 {
        for _ in 0..3 {
            fire(&hub, &to(&hangs, n));
            fire(&hub, &to(&elsewhere, n));
        }
    }
    hangs.wait_for(10);
    elsewhere.wait_for(10);
    for round in 0..20 {
        for n in 0..10 {
            fire(&hub, &to(&good, n));
        }
        // Each round comes through before the next: nothing of it waits for one that hangs.
        good.wait_for((round + 1) * 10);
    }
    let held = (hangs.connections(), elsewhere.connections());
    assert_eq!(held, (10, 10), "one each, while the good ones were served");
    let delivered = store.wait_for(|inner| {
        let all = inner.deliveries(None, None, Some(Delivered), 1_000).expect("reads").len();
        (all == 200).then_some(all)
    });
    assert_eq!(delivered, 200);
    hub.close(Duration::from_millis(100));
}

/// More is due than there are slots: each that gets free is used at once.
#[test]
fn more_deliveries_than_slots() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let mut options = local();
    options.concurrency = 2;
    let hub = over(&store, options);
    let config = config(&receiver.endpoint, &["completed"]);
    for _ in 0..30 {
        fire(&hub, &config);
    }
    receiver.wait_for(30);
    store.wait_deliveries(&[Delivered; 30]);
}

/// An endpoint that was allowed when the config came and is not any more: no connection is made (fault 13).
#[test]
fn an_address_that_is_denied_by_now() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let receiver = Receiver::scripted(vec![SOON]);
    let hub = over_with(&store, local(), &clock);
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    settled(&store, 1);
    assert!(hub.close(HANG));
    clock.advance(Duration::from_secs(2));
    let strict = over_with(&store, Options::default(), &clock);
    let delivery = settled(&store, 2);
    assert_eq!((delivery.state, delivery.last_error.as_deref()), (Retrying, Some("denied")));
    let shown = strict.deliveries(Some("tester"), None, None, 1).expect("reads").remove(0);
    assert_eq!(
        shown.last_error.as_deref(),
        Some("connection_refused"),
        "a client cannot tell it from one that refuses"
    );
    assert!(strict.close(HANG));
    assert_eq!(receiver.connections(), 1);
}

/// Redirects are never followed, least of all to a metadata address.
#[test]
fn redirects_lead_nowhere() {
    let target = Receiver::ok();
    let leaked: &'static str = Box::leak(format!("location: {}\r\n", target.endpoint).into_boxed_str());
    for location in [leaked, "location: http://169.254.169.254/latest/meta-data/\r\n"] {
        for status in [301, 302, 303, 307, 308] {
            let first = || {
                let (store, clock) = (FaultStore::new(), TestClock::new());
                let receiver = Receiver::scripted(vec![Reply::Status(status, location)]);
                let hub = over_with(&store, local(), &clock);
                fire(&hub, &config(&receiver.endpoint, &["completed"]));
                (settled(&store, 1), clock.now(), receiver, hub)
            };
            // One wait of a thousand is none at all: then there is a second attempt.
            let (delivery, _, receiver, hub) = std::iter::repeat_with(first)
                .find(|(delivery, now, ..)| delivery.attempts == 1 && delivery.due > *now)
                .expect("without end");
            assert_eq!((delivery.state, delivery.last_error.as_deref()), (Retrying, Some("http_3xx")), "{status}");
            assert_eq!(receiver.connections(), 1);
            assert!(hub.close(HANG));
        }
    }
    assert_eq!(target.connections(), 0);
}

#[test]
fn what_an_operator_sees() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    wait(call.cancel(None)).expect("ended");
    store.wait_deliveries(&[Delivered, Delivered]);
    let subject = tidings::store::Subject::Call(call.id());
    let mine = hub.deliveries(None, Some(&subject), None, 10).expect("deliveries");
    assert_eq!(mine.len(), 1);
    assert_eq!(
        (mine[0].trigger.as_str(), mine[0].principal.as_str(), mine[0].route_id.as_str()),
        ("cancelled", "tester", "main")
    );
    assert_eq!(hub.deliveries(None, None, Some(Delivered), 1).expect("deliveries").len(), 1);
    assert_eq!(hub.deliveries(None, None, Some(Dead), 10).expect("deliveries").len(), 0);
    assert!(!format!("{mine:?}").contains("whsec_") && !format!("{mine:?}").contains("127.0.0.1"));
}
