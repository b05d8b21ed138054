//! Bodies that only their receiver can read: what goes over the wire, and that it is the same on every attempt.

use std::time::Duration;

use crate::support::{
    self, FaultStore, HANG, Receiver, Reply, Request, SECRET, SOON, TestClock, begin, local, over, over_with, wait,
};
use tidings::proto::webhook::{PrivateKey, Received, Secret, decrypt, events, verify};
use tidings::store::{DeliveryState, NewDelivery, Op};
use tidings::{Hub, Options};

use DeliveryState::{Dead, Delivered, Retrying, Superseded};

/// RFC 7518 appendix C, Bob's key.
const P256: &str = r#"{"kty":"EC","crv":"P-256","x":"weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ","y":"e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck","kid":"bob","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw"}"#;
/// RFC 7748 section 6.1, Alice's key.
const X25519: &str = r#"{"kty":"OKP","crv":"X25519","x":"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo","d":"dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo"}"#;

fn private(key: &str) -> PrivateKey {
    PrivateKey::parse(key).expect("a key")
}

/// A webhook route that encrypts to this key.
fn route(id: &str, endpoint: &str, key: &str, more: &str) -> String {
    let key = private(key).public_key().to_json();
    format!(
        r#"{{"id":"{id}","type":"webhook","endpoint":"{endpoint}","secret":"{SECRET}","triggers":["completed"],
            "publicKey":{key}{more}}}"#
    )
}

fn config(endpoint: &str, key: &str, more: &str) -> String {
    format!(r#"{{"routes":[{}]}}"#, route("main", endpoint, key, more))
}

fn complete(hub: &Hub, config: &str, result: &str) {
    let call = begin(hub, config).expect("accepted");
    assert!(wait(call.complete(result.as_bytes())).expect("ended").committed);
}

fn enqueued(store: &FaultStore) -> Vec<NewDelivery> {
    store.ops().into_iter().filter_map(|op| if let Op::Enqueue(new) = op { Some(*new) } else { None }).collect()
}

/// What the receiver reads, once the signature over what came is good.
fn read(request: &Request, key: &str) -> String {
    let received = Received::from_headers(request.headers.iter().map(|(name, value)| (name, value.as_str())));
    let timestamp: i64 = request.header("webhook-timestamp").parse().expect("a number");
    let secrets = [Secret::parse(SECRET).expect("a secret")];
    verify(&secrets, &received.expect("headers"), &request.body, timestamp, 300).expect("signed as it came");
    assert_eq!(request.header("content-type"), "application/jose");
    String::from_utf8(decrypt(&[private(key)], &request.body).expect("readable")).expect("text")
}

#[test]
fn only_the_receiver_reads_a_body() {
    for key in [P256, X25519] {
        let (store, receiver) = (FaultStore::new(), Receiver::ok());
        let hub = over(&store, local());
        complete(&hub, &config(&receiver.endpoint, key, r#","redact":["token"]"#), r#"{"n":1.0,"token":"hunter2"}"#);
        let request = &receiver.wait_for(1)[0];
        let body = read(request, key);
        assert_eq!(body.as_bytes(), &enqueued(&store)[0].body[..], "the stored bytes");
        assert!(body.contains(r#""result":{"n":1.0,"token":"[redacted]"}"#), "redacted before it is encrypted: {body}");
        assert_eq!(request.text().split('.').count(), 5);
        assert!(!request.text().contains("eventId"), "nothing of it is in the clear");
        let delivered = store.wait_deliveries(&[Delivered]);
        assert_eq!(hub.attempts(delivered[0].id).expect("reads")[0].error, None);
    }
}

/// A retry and a letter that is sent again have the same id and bytes; another firing of the same text has others.
#[test]
fn a_repeat_has_the_same_bytes() {
    let store = FaultStore::new();
    let receiver = Receiver::scripted(vec![SOON, Reply::Status(413, ""), Reply::OK, Reply::OK]);
    let clock = TestClock::new();
    let hub = over_with(&store, local(), &clock);
    let config = config(&receiver.endpoint, P256, "");
    complete(&hub, &config, "{}");
    store.wait_deliveries(&[Retrying]);
    clock.advance(Duration::from_secs(2));
    let dead = store.wait_deliveries(&[Dead]).remove(0);
    wait(hub.send_again(dead.id)).expect("sent");
    store.wait_deliveries(&[Dead, Delivered]);
    complete(&hub, &config, "{}");
    let requests = receiver.wait_for(4);
    for repeat in &requests[1..3] {
        assert_eq!(repeat.body, requests[0].body);
        assert_eq!(repeat.header("webhook-id"), requests[0].header("webhook-id"));
    }
    let nth = |request: &Request, part| request.text().split('.').nth(part).expect("five parts").to_owned();
    for part in [0, 2, 3, 4] {
        assert_ne!(nth(&requests[3], part), nth(&requests[0], part), "part {part} is of its own");
    }
}

/// Another process that takes over after the first one is gone sends the same bytes.
#[test]
fn a_restart_changes_no_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", dir.path().join("hub.db").display());
    let receiver = Receiver::scripted(vec![SOON, Reply::OK]);
    let hub = Hub::with(&url, local()).expect("a hub");
    complete(&hub, &config(&receiver.endpoint, X25519, ""), r#"{"n":1.0}"#);
    receiver.wait_for(1);
    assert!(hub.close(HANG));
    let hub = Hub::with(&url, local()).expect("a hub");
    hub.deliveries(None, None, None, 1).expect("opened by its first use");
    let requests = receiver.wait_for(2);
    assert_eq!(requests[1].body, requests[0].body);
    assert_eq!(requests[1].header("webhook-id"), requests[0].header("webhook-id"));
    assert!(read(&requests[1], X25519).contains(r#""result":{"n":1.0}"#));
}

/// A batch is encrypted as a whole, and its repeats alike, although each delivery in it has a seed of its own.
#[test]
fn a_batch_is_one_message() {
    let store = FaultStore::new();
    let receiver = Receiver::scripted(vec![SOON, Reply::OK]);
    let clock = TestClock::new();
    let hub = over_with(&store, local(), &clock);
    let config = config(&receiver.endpoint, P256, r#","batch":{"maxEvents":2,"maxDelayMs":60000}"#);
    for n in 1..=2 {
        complete(&hub, &config, &format!(r#"{{"n":{n}.0}}"#));
    }
    store.wait_deliveries(&[Retrying, Retrying]);
    clock.advance(Duration::from_secs(2));
    let requests = receiver.wait_for(2);
    assert_eq!(
        (&requests[1].body, requests[1].header("webhook-id")),
        (&requests[0].body, requests[0].header("webhook-id"))
    );
    let (body, all) = (read(&requests[0], P256), enqueued(&store));
    let firings = events(body.as_bytes()).expect("JSON");
    assert_eq!(firings, all.iter().map(|new| std::str::from_utf8(&new.body).expect("text")).collect::<Vec<_>>());
    store.wait_deliveries(&[Delivered, Delivered]);
}

/// The route that takes over has a key of its own.
#[test]
fn the_next_route_has_its_own_key() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let gone = Receiver::scripted(vec![Reply::Status(413, "")]);
    let hub = over(&store, local());
    let routes = [route("first", &gone.endpoint, P256, ""), route("second", &receiver.endpoint, X25519, "")];
    complete(&hub, &format!(r#"{{"routes":[{}]}}"#, routes.join(",")), "{}");
    store.wait_deliveries(&[Superseded, Delivered]);
    let (first, second) = (&gone.requests()[0], &receiver.requests()[0]);
    assert!(read(first, P256).contains(r#""route":"first""#));
    assert!(read(second, X25519).contains(r#""route":"second""#));
    assert!(decrypt(&[private(P256)], &second.body).is_err(), "the first one's key does not open it");
}

/// Encrypted it is longer, and has to be within the limit all the same.
#[test]
fn a_request_is_no_larger_than_it_may_be() {
    let with = |config: &dyn Fn(&str) -> String| {
        let (store, receiver) = (FaultStore::new(), Receiver::ok());
        let mut options: Options = local();
        options.max_body_bytes = 2_000;
        let hub = over(&store, options);
        complete(&hub, &config(&receiver.endpoint), &format!(r#"{{"text":"{}"}}"#, "x".repeat(1_300)));
        receiver.wait_for(1).remove(0)
    };
    let plain = with(&|endpoint| support::config(endpoint, &["completed"]));
    assert!(plain.text().contains("xxx"), "in the clear it fits");
    let secret = with(&|endpoint| config(endpoint, P256, ""));
    let body = read(&secret, P256);
    assert!(secret.body.len() <= 2_000 && body.contains(r#""truncated":true,"bytes":1311"#), "{body}");
}

/// What is kept of the encryption is sealed: neither log nor store shows the seed.
#[test]
fn a_seed_is_sealed_and_not_shown() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    complete(&hub, &config(&receiver.endpoint, P256, ""), "{}");
    store.wait_deliveries(&[Delivered]);
    let new = enqueued(&store).remove(0);
    let route = String::from_utf8(new.route.0.to_vec()).expect("text");
    let seed = route.split(r#""seed":""#).nth(1).and_then(|rest| rest.split('"').next()).expect("kept with its route");
    assert_eq!(seed.len(), 43);
    assert!(!format!("{new:?}").contains(seed), "a sealed value shows nothing");
}
