//! Endpoints: verified before they get anything, each for its own principal, disabled when they are gone.

use std::time::Duration;

use crate::support::{
    FaultStore, Gate, HANG, Receiver, Reply, Request, SECRET, TestClock, begin_as, config, fire_as, local, over,
    over_with, proving, route, wait,
};
use tidings::proto::delivery::{DisableReason, EndpointState, Proof};
use tidings::proto::webhook::{Received, Secret, challenge_answer, receiver_document_json, verify};
use tidings::store::{DeliveryState, EndpointRecord, Store};
use tidings::{After, ErrorCode, Hub, Options, Verify};

use DeliveryState::{Dead, Delivered, Superseded};

fn fire(hub: &Hub, config: &str) {
    fire_as(hub, "p", config);
}

fn is_challenge(request: &Request) -> bool {
    challenge_answer(&request.body).is_some()
}

/// As a receiver that knows of challenges answers.
fn echo(request: &Request) -> Reply {
    challenge_answer(&request.body).map_or(Reply::OK, |answer| Reply::with(&answer))
}

fn lines(requests: &[Request]) -> Vec<&'static str> {
    requests
        .iter()
        .map(|request| match (is_challenge(request), request.line.as_str()) {
            (true, _) => "challenge",
            (_, line) if line.starts_with("GET") => "well-known",
            _ => "delivery",
        })
        .collect()
}

fn the_endpoint(store: &FaultStore) -> EndpointRecord {
    store.wait_for(|inner| inner.endpoints(None, 2).expect("reads").pop())
}

fn receipts(hub: &Hub, principal: &str, count: usize) -> Vec<(String, String)> {
    let stream = hub.stream(principal, "deliveries").expect("a key");
    let mut tail = wait(async {
        loop {
            match stream.tail(After::Earliest) {
                Ok(tail) => break tail,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await, // not there yet
            }
        }
    });
    wait(async {
        let mut all = Vec::new();
        while all.len() < count {
            let read = tail.next().await.expect("not closed").expect("a read");
            all.extend(
                read.events.iter().map(|event| {
                    (event.kind.to_string(), String::from_utf8(event.payload.to_vec()).expect("JSON text"))
                }),
            );
        }
        all
    })
}

/// The exchange of SEP-3415: a signed nonce, echoed; then, and only then, the delivery.
#[test]
fn an_endpoint_answers_a_challenge_before_its_first_delivery() {
    let (store, receiver) = (FaultStore::new(), Receiver::start(|request, _| echo(request)));
    let hub = over(&store, proving());
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    store.wait_deliveries(&[Delivered]);
    let requests = receiver.requests();
    assert_eq!(lines(&requests), ["challenge", "delivery"]);
    let challenge = &requests[0];
    assert!(challenge.header("webhook-id").starts_with("msg_verification_"));
    let received = Received::from_headers(challenge.headers.iter().map(|(name, value)| (name, value.as_str())));
    let timestamp: i64 = challenge.header("webhook-timestamp").parse().expect("a number");
    verify(&[Secret::parse(SECRET).expect("a secret")], &received.expect("headers"), &challenge.body, timestamp, 300)
        .expect("signed with the route's secret");
    let standing = the_endpoint(&store).standing;
    assert_eq!((standing.state, standing.proof), (EndpointState::Verified, Some(Proof::Challenge)));

    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    store.wait_deliveries(&[Delivered, Delivered]);
    assert_eq!(lines(&receiver.requests()), ["challenge", "delivery", "delivery"], "asked once");
}

/// A nonce is used once, and guessing does not help.
#[test]
fn what_does_not_echo_gets_nothing() {
    let answers = [
        Reply::OK,
        Reply::with("{}"),
        Reply::with(r#"{"challenge":"guessed"}"#),
        Reply::with(&"x".repeat(100_000)),
        Reply::Status(404, ""),
        Reply::Status(307, "location: /other\r\n"),
    ];
    for answer in answers {
        let clock = TestClock::new();
        let store = FaultStore::new();
        let receiver = Receiver::start(
            move |request, _| if is_challenge(request) { answer.clone() } else { Reply::Status(404, "") },
        );
        let hub = over_with(&store, proving(), &clock);
        fire(&hub, &config(&receiver.endpoint, &["completed"]));
        let refused = store.wait_for(|inner| {
            inner.endpoints(None, 1).expect("reads").pop().filter(|endpoint| endpoint.standing.refusals == 1)
        });
        assert_eq!(refused.standing.state, EndpointState::Unverified);
        assert!(!lines(&receiver.requests()).contains(&"delivery"));
        let waiting = hub.deliveries(None, None, None, 1).expect("reads").remove(0);
        assert_eq!((waiting.state, waiting.attempts), (DeliveryState::Pending, 0), "it waits, and uses up no attempt");
    }
}

/// A receiver that comes up late is asked again, and gets what waited.
#[test]
fn an_endpoint_that_refused_is_asked_again() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let receiver = Receiver::start(|request, nth| if nth < 2 { Reply::Status(503, "") } else { echo(request) });
    let hub = over_with(&store, proving(), &clock);
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    let refused = store.wait_for(|inner| {
        inner.endpoints(None, 1).expect("reads").pop().filter(|endpoint| endpoint.standing.refusals == 1)
    });
    assert_eq!(lines(&receiver.requests()), ["challenge", "well-known"]);
    let at = refused.standing.verify_at.expect("asked again");
    assert!((clock.now() + 1_000..=clock.now() + 2_000).contains(&at), "half of 2 s for certain");
    clock.advance(Duration::from_millis(u64::try_from(at - clock.now()).expect("later")));
    store.wait_deliveries(&[Delivered]);
    assert_eq!(lines(&receiver.requests()), ["challenge", "well-known", "challenge", "delivery"]);
}

/// A receiver that knows of no challenge, but whose origin says where it takes webhooks.
#[test]
fn a_well_known_document_is_a_proof_for_its_paths() {
    for (path, proven) in [("/hook", true), ("/", true), ("/hooks", false), ("/other/", false)] {
        let store = FaultStore::new();
        let document = receiver_document_json([path]);
        let receiver = Receiver::start(move |request, _| match request.line.as_str() {
            "GET /.well-known/mcp-webhook-receiver.json HTTP/1.1" => Reply::with(&document),
            _ if is_challenge(request) => Reply::Status(400, ""),
            _ => Reply::OK,
        });
        let hub = over_with(&store, proving(), &TestClock::new());
        let with_headers = config(&receiver.endpoint, &["completed"])
            .replace(r#""secret""#, r#""headers":{"authorization":"Bearer t0ken"},"secret""#);
        fire(&hub, &with_headers);
        let judged = store.wait_for(|inner| {
            let endpoint = inner.endpoints(None, 1).expect("reads").pop()?;
            (endpoint.standing.refusals > 0 || endpoint.standing.proof.is_some()).then_some(endpoint)
        });
        assert_eq!(judged.standing.proof, proven.then_some(Proof::WellKnown), "{path}");
        let requests = receiver.requests();
        let fetched = requests.iter().find(|request| request.line.starts_with("GET")).expect("fetched");
        assert!(!fetched.headers.contains_key("authorization") && !fetched.headers.contains_key("webhook-signature"));
        if proven {
            store.wait_deliveries(&[Delivered]);
        }
    }
}

/// What one principal proved never serves another.
#[test]
fn one_principal_cannot_use_the_verified_url_of_another() {
    let store = FaultStore::new();
    // The receiver answers the first principal's challenge only: the one signed with its secret.
    let receiver = Receiver::start(|request, _| {
        let received = Received::from_headers(request.headers.iter().map(|(name, value)| (name, value.as_str())));
        let timestamp: i64 = request.header("webhook-timestamp").parse().unwrap_or(0);
        let ours = [Secret::parse(SECRET).expect("a secret")];
        let genuine = received.is_ok_and(|received| verify(&ours, &received, &request.body, timestamp, 300).is_ok());
        if genuine { echo(request) } else { Reply::Status(401, "") }
    });
    let hub = over_with(&store, proving(), &TestClock::new());
    fire_as(&hub, "owner", &config(&receiver.endpoint, &["completed"]));
    store.wait_deliveries(&[Delivered]);
    let foreign = config(&receiver.endpoint, &["completed"])
        .replace(SECRET, "whsec_HxAeHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgE=");
    fire_as(&hub, "stranger", &foreign);
    store.wait_for(|inner| {
        let theirs = inner.endpoints(Some("stranger"), 1).expect("reads").pop()?;
        (theirs.standing.refusals == 1 && theirs.standing.state == EndpointState::Unverified).then_some(())
    });
    let delivered = receiver.requests().iter().filter(|request| lines(&[(*request).clone()]) == ["delivery"]).count();
    assert_eq!(delivered, 1, "only the owner's");
    let owners = store.endpoints(Some("owner"), 9).expect("reads");
    assert_eq!((owners.len(), owners[0].standing.state), (1, EndpointState::Verified), "which it stays");
}

/// Verification runs beside the tool, and deliveries wait for it.
#[test]
fn a_receiver_that_does_not_answer_holds_up_no_tool() {
    let (store, gate) = (FaultStore::new(), Gate::default());
    let answers = gate.clone();
    let receiver = Receiver::start(move |request, _| {
        answers.pass();
        echo(request)
    });
    let hub = over(&store, proving());
    let call = begin_as(&hub, "p", &config(&receiver.endpoint, &["completed"])).expect("accepted");
    receiver.wait_for(1);
    assert!(wait(call.complete(b"{}")).expect("ended").committed, "with the challenge still open");
    gate.open();
    store.wait_deliveries(&[Delivered]);
}

/// The operator vouches for literal addresses in `allow_networks` and for names in `allow_hosts`: nothing is asked. With
/// `address` nothing is asked of anybody.
#[test]
fn what_the_operator_vouches_for_is_not_asked() {
    for (verify, proof) in [(Verify::Challenge, Proof::AllowList), (Verify::Address, Proof::Address)] {
        let (store, receiver) = (FaultStore::new(), Receiver::ok());
        let mut options = local();
        options.verify = verify;
        let hub = over(&store, options);
        fire(&hub, &config(&receiver.endpoint, &["completed"]));
        store.wait_deliveries(&[Delivered]);
        assert_eq!(lines(&receiver.requests()), ["delivery"]);
        assert_eq!(the_endpoint(&store).standing.proof, Some(proof));
    }
}

/// No connection is opened to a denied address, for a challenge or a well-known document as little as for a delivery.
#[test]
fn an_endpoint_that_is_denied_by_now_is_not_asked() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, proving());
    hub.pause().expect("open");
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    assert!(hub.close(HANG));
    let strict = over(&store, Options::default());
    let refused = store.wait_for(|inner| {
        inner.endpoints(None, 1).expect("reads").pop().filter(|endpoint| endpoint.standing.refusals == 1)
    });
    assert_eq!(refused.standing.last_error.map(|category| category.as_str()), Some("denied"));
    assert_eq!(receiver.connections(), 0);
    assert!(strict.close(HANG));
}

/// Field case B65: 410 ends this delivery and the queued ones, and what fires later goes another way, until the endpoint
/// is verified again.
#[test]
fn b65_an_endpoint_that_is_gone_is_sent_nothing_until_it_is_verified_again() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let (gate, at) = (Gate::default(), Gate::default());
    let (wait_here, told) = (gate.clone(), at.clone());
    let receiver = Receiver::start(move |request, nth| match nth {
        _ if is_challenge(request) => echo(request),
        1 => {
            told.open();
            wait_here.pass();
            Reply::Status(410, "")
        }
        _ => Reply::OK,
    });
    let hub = over_with(&store, proving(), &clock);
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    at.pass();
    fire(&hub, &config(&receiver.endpoint, &["completed"])); // waits behind the one that is under way
    gate.open();
    let both = store.wait_deliveries(&[Dead, Dead]);
    let why: Vec<_> = both.iter().map(|delivery| (delivery.last_error.as_deref(), delivery.attempts)).collect();
    assert_eq!(why, [(Some("http_4xx"), 1), (Some("endpoint_disabled"), 0)]);
    assert_eq!(lines(&receiver.requests()), ["challenge", "delivery"]);
    let told = receipts(&hub, "p", 3);
    let kinds: Vec<_> = told.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["io.tidings.dead", "io.tidings.disabled", "io.tidings.dead"]);
    assert_eq!(told[1].1, r#"{"route":"main","reason":"gone"}"#);
    assert!(told.iter().all(|(_, text)| !text.contains("127.0.0.1") && !text.contains("whsec")), "{told:?}");

    // What fires now takes the next route at once.
    let other = Receiver::start(|request, _| echo(request));
    let routes = [route("gone", &receiver.endpoint, &["completed"]), route("next", &other.endpoint, &["completed"])];
    fire(&hub, &format!(r#"{{"routes":[{}]}}"#, routes.join(",")));
    other.wait_for(2);
    assert_eq!(lines(&other.requests()), ["challenge", "delivery"]);
    // The config has named it again: a minute later it is asked, and it wants webhooks once more.
    clock.advance(Duration::from_secs(61));
    store.wait_for(|inner| {
        let all = inner.endpoints(None, 2).expect("reads");
        all.iter().all(|endpoint| endpoint.standing.state == EndpointState::Verified).then_some(())
    });
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    store.wait_deliveries(&[Dead, Dead, Delivered, Delivered]);
    assert_eq!(lines(&receiver.requests()), ["challenge", "delivery", "challenge", "delivery"]);
}

/// An endpoint that takes nothing for a day is disabled, and its principal is told.
#[test]
fn an_endpoint_that_only_fails_is_disabled_in_the_end() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let fails = Receiver::scripted(vec![Reply::Status(500, "")]);
    let hub = over_with(&store, local(), &clock);
    let mut calls = 0;
    while the_state(&store) != Some(EndpointState::Disabled) {
        calls += 1;
        assert!(calls < 60, "a day goes by");
        fire(&hub, &config(&fails.endpoint, &["completed"]));
        store.wait_for(|inner| {
            let due = inner.next_due().expect("reads").unwrap_or_else(|| clock.now());
            let held = !inner.deliveries(None, None, Some(DeliveryState::Leased), 1).expect("reads").is_empty();
            (!held).then_some(due)
        });
        clock.advance(Duration::from_secs(3_600));
        store.wait_look(&clock);
    }
    let disabled = the_endpoint(&store).standing.disabled.expect("disabled");
    assert_eq!(disabled.0, DisableReason::Failing);
    let stream = hub.stream("p", "deliveries").expect("a key");
    let mut tail = stream.tail(After::Earliest).expect("there");
    wait(async {
        loop {
            let read = tail.next().await.expect("not closed").expect("a read");
            if read.events.iter().any(|event| event.kind == "io.tidings.disabled") {
                break;
            }
        }
    });
}

fn the_state(store: &FaultStore) -> Option<EndpointState> {
    store.endpoints(None, 1).expect("reads").pop().map(|endpoint| endpoint.standing.state)
}

/// A delivery with another route after it does not wait for a verification that does not come.
#[test]
fn an_endpoint_that_stays_unverified_is_passed_over() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let mute = Receiver::scripted(vec![Reply::Status(400, "")]);
    let takes = Receiver::start(|request, _| echo(request));
    let hub = over_with(&store, proving(), &clock);
    let routes = [route("mute", &mute.endpoint, &["completed"]), route("next", &takes.endpoint, &["completed"])];
    fire(&hub, &format!(r#"{{"routes":[{}]}}"#, routes.join(",")));
    store.wait_for(|inner| {
        let all = inner.endpoints(None, 2).expect("reads");
        (all.iter().any(|endpoint| endpoint.standing.refusals > 0)).then_some(())
    });
    clock.advance(Duration::from_secs(120));
    let both = store.wait_deliveries(&[Superseded, Delivered]);
    assert_eq!((both[0].last_error.as_deref(), both[0].attempts), (Some("challenge_failed"), 0));
    assert_eq!(both[0].event_id, both[1].event_id);
    assert!(!lines(&mute.requests()).contains(&"delivery"));
}

/// One principal fills up with deliveries that do not come through; another goes on.
#[test]
fn a_principal_has_so_many_unfinished_deliveries_and_no_more() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let (fails, takes) = (Receiver::scripted(vec![Reply::Status(500, "")]), Receiver::ok());
    let mut options = local();
    options.max_pending = 3;
    options.undeliverable = tidings::proto::route::UndeliverablePolicy::Annotate;
    let hub = over_with(&store, options, &clock);
    let failing = config(&fails.endpoint, &["completed"]);
    let calls: Vec<_> = (0..4).map(|_| begin_as(&hub, "busy", &failing).expect("accepted")).collect();
    let ended: Vec<_> = calls.iter().map(|call| wait(call.complete(b"{}")).expect("ended")).collect();
    assert!(ended[..3].iter().all(|ended| ended.undelivered.is_none()));
    let annotated = ended[3].undelivered.as_deref().expect("told");
    assert_eq!(annotated, r#"[{"trigger":"completed","routes":["main"],"reason":"too_many_pending"}]"#);
    let refused = begin_as(&hub, "busy", &failing).err().expect("refused");
    assert_eq!((refused.code(), refused.retryable()), (ErrorCode::Congested, true));
    assert!(refused.to_string().contains("3 deliveries that are not finished"), "{refused}");
    fire_as(&hub, "other", &config(&takes.endpoint, &["completed"]));
    takes.wait_for(1);
    begin_as(&hub, "busy", r#"{"routes":[]}"#).err().expect("a config has a route");
}

/// What was proven is there after the process has gone, and a verification that it was about to make is made.
#[test]
fn standings_survive_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", dir.path().join("hub.db").display());
    let receiver = Receiver::start(|request, _| echo(request));
    let hub = Hub::with(&url, proving()).expect("a hub");
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    receiver.wait_for(2);
    hub.pause().expect("open");
    fire_as(&hub, "second", &config(&receiver.endpoint, &["completed"]));
    assert!(hub.close(HANG));
    let hub = Hub::with(&url, proving()).expect("a hub");
    fire(&hub, &config(&receiver.endpoint, &["completed"]));
    receiver.wait_for(5);
    let requests = receiver.requests();
    let mut seen = lines(&requests).split_off(2);
    seen.sort_unstable();
    assert_eq!(seen, ["challenge", "delivery", "delivery"], "the second principal's challenge, and one delivery each");
    assert!(hub.close(HANG));
}

/// A rotation signs with both of the operator's secrets; either verifies.
#[test]
fn webhooks_are_signed_with_both_secrets_while_receivers_change_over() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let old = "whsec_HxAeHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgE=";
    let mut options = local();
    options.default_secret = Some(Secret::parse(SECRET).expect("a secret"));
    options.previous_secret = Some(Secret::parse(old).expect("a secret"));
    let hub = over(&store, options);
    fire(&hub, &config(&receiver.endpoint, &["completed"]).replace(&format!(r#""secret":"{SECRET}","#), ""));
    let request = receiver.wait_for(1).remove(0);
    assert_eq!(request.header("webhook-signature").split(' ').count(), 2);
    let timestamp: i64 = request.header("webhook-timestamp").parse().expect("a number");
    for secret in [SECRET, old] {
        let received = Received::from_headers(request.headers.iter().map(|(name, value)| (name, value.as_str())));
        verify(&[Secret::parse(secret).expect("a secret")], &received.expect("headers"), &request.body, timestamp, 300)
            .expect("either secret verifies");
    }
}

/// Deliveries with the same `fifoKey` come in the order in which they fired, whatever the first attempts come to; field
/// case B67, second half.
#[test]
fn b67_deliveries_of_a_key_keep_their_order() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    // Every other request fails.
    let receiver = Receiver::start(|_, nth| if nth % 2 == 0 { Reply::Status(503, "") } else { Reply::OK });
    let hub = over_with(&store, local(), &clock);
    let keyed = config(&receiver.endpoint, &["completed"]).replace(r#""secret""#, r#""fifoKey":"k","secret""#);
    for _ in 0..6 {
        fire(&hub, &keyed);
    }
    let fired: Vec<String> =
        store.deliveries(None, None, None, 10).expect("reads").into_iter().map(|one| one.event_id).collect();
    for delivered in 1..=6 {
        receiver.wait_for(delivered * 2 - 1);
        store.wait_for(|inner| {
            let retrying = inner.deliveries(None, None, Some(DeliveryState::Retrying), 9).expect("reads");
            let done = inner.deliveries(None, None, Some(Delivered), 9).expect("reads").len();
            (retrying.len() == 1 || done >= delivered).then_some(())
        });
        clock.advance(Duration::from_secs(2));
        receiver.wait_for(delivered * 2);
    }
    store.wait_deliveries(&[Delivered; 6]);
    let came: Vec<String> = receiver.requests().iter().map(|request| request.header("webhook-id").to_owned()).collect();
    let twice: Vec<String> = fired.iter().flat_map(|id| [id.clone(), id.clone()]).collect();
    assert_eq!(came, twice);
}
