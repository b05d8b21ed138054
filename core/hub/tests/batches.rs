//! Firings that go out together: one request, one id, and what comes of it for each of them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{
    self, FaultStore, Receiver, Reply, Request, SECRET, SOON, TestClock, begin, local, over, over_with, wait,
};
use tidings::proto::firing::{BATCH_FRAME_BYTES, batch_id};
use tidings::proto::stream::Cursor;
use tidings::store::{DeliveryState, NewDelivery, Op};
use tidings::{After, Hub, Options};

use DeliveryState::{Delivered, Retrying};

/// A config of one route that batches.
fn batching(endpoint: &str, id: &str, max_events: u32, max_delay_ms: u64, more: &str) -> String {
    format!(
        r#"{{"routes":[{{"id":"{id}","type":"webhook","endpoint":"{endpoint}","secret":"{SECRET}",
            "triggers":["streaming","completed"],"batch":{{"maxEvents":{max_events},"maxDelayMs":{max_delay_ms}}}{more}}}]}}"#
    )
}

fn complete(hub: &Hub, config: &str, result: &str) {
    let call = begin(hub, config).expect("accepted");
    assert!(wait(call.complete(result.as_bytes())).expect("ended").committed);
}

fn enqueued(store: &FaultStore) -> Vec<NewDelivery> {
    store.ops().into_iter().filter_map(|op| if let Op::Enqueue(new) = op { Some(*new) } else { None }).collect()
}

/// The body of a batch, put together by hand from what is stored.
fn expected(all: &[NewDelivery]) -> String {
    let bodies: Vec<_> = all.iter().map(|new| std::str::from_utf8(&new.body).expect("text")).collect();
    format!(r#"{{"events":[{}]}}"#, bodies.join(","))
}

fn signed(request: &Request) {
    let mut map = hyper::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        map.insert(name, request.header(name).parse().expect("a header"));
    }
    standardwebhooks::Webhook::new(SECRET).expect("a secret").verify(&request.body, &map).expect("verified");
}

/// Full, it goes at once: the stored bytes in the order in which they fired, under an id of its own, signed as a whole. Each
/// firing has its delivery, its receipt and its redaction.
#[test]
fn a_full_batch_is_one_request() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    for (n, redact) in [(0, "[]"), (1, r#"["token"]"#), (2, "[]")] {
        let more = format!(r#","redact":{redact}"#);
        let config = batching(&receiver.endpoint, &format!("r{n}"), 3, 60_000, &more);
        complete(&hub, &config, &format!(r#"{{"n":{n}.0,"token":"t{n}"}}"#));
    }
    let request = &receiver.wait_for(1)[0];
    let all = enqueued(&store);
    assert_eq!(request.text(), expected(&all));
    assert_eq!(request.header("webhook-id"), batch_id(all.iter().map(|new| new.event_id.as_str())).to_string());
    assert_eq!(request.header("content-type"), "application/json");
    signed(request);
    for (n, want) in [r#"{"n":0.0,"token":"t0"}"#, r#"{"n":1.0,"token":"[redacted]"}"#, r#"{"n":2.0,"token":"t2"}"#]
        .into_iter()
        .enumerate()
    {
        let body = std::str::from_utf8(&all[n].body).expect("text");
        assert!(body.contains(&format!(r#""route":"r{n}""#)) && body.contains(want), "{body}");
    }
    let delivered = store.wait_deliveries(&[Delivered, Delivered, Delivered]);
    assert!(delivered.iter().all(|one| one.attempts == 1), "{delivered:?}");
    let ids: BTreeSet<_> = delivered.iter().map(|one| hub.attempts(one.id).expect("reads").len()).collect();
    assert_eq!(ids, BTreeSet::from([1]), "one attempt each");
    let receipts = hub.stream("tester", "deliveries").expect("a stream");
    let receipts = receipts.read(After::Earliest, Default::default()).expect("a read").events;
    let told: BTreeSet<_> = receipts.iter().map(|event| String::from_utf8_lossy(&event.payload).into_owned()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(all.iter().all(|new| told.iter().any(|receipt| receipt.contains(&new.event_id))));
    assert_eq!(receiver.requests().len(), 1);
}

/// A wait that ends sends what is there, also one alone; and a repeat has the same id and the same bytes, whatever fires
/// meanwhile.
#[test]
fn a_repeat_has_the_same_id_and_bytes() {
    let store = FaultStore::new();
    let receiver = Receiver::scripted(vec![SOON, Reply::OK]);
    let clock = TestClock::new();
    let hub = over_with(&store, local(), &clock);
    let config = batching(&receiver.endpoint, "r", 10, 5_000, "");
    complete(&hub, &config, r#"{"n":1}"#);
    complete(&hub, &config, r#"{"n":2}"#);
    clock.advance(Duration::from_millis(4_999));
    assert!(store.wait_deliveries(&[DeliveryState::Pending; 2]).iter().all(|one| one.attempts == 0));
    clock.advance(Duration::from_millis(1));
    store.wait_deliveries(&[Retrying, Retrying]);
    complete(&hub, &config, r#"{"n":3}"#);
    // Beyond the first wait of at most two seconds, and before the third one's time.
    clock.advance(Duration::from_secs(2));
    let requests = receiver.wait_for(2);
    assert_eq!(requests[0].text(), expected(&enqueued(&store)[..2]));
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    assert_ne!(requests[0].header("webhook-timestamp"), requests[1].header("webhook-timestamp"));
    store.wait_deliveries(&[Delivered, Delivered, DeliveryState::Pending]);
    clock.advance(Duration::from_millis(5_000));
    let third = &receiver.wait_for(3)[2];
    assert_eq!(third.text(), expected(&enqueued(&store)[2..]), "one alone has the same form");
    assert_ne!(third.header("webhook-id"), requests[0].header("webhook-id"));
}

/// No request is larger than a body may be, and what is too large for that is truncated as anywhere.
#[test]
fn a_batch_is_no_larger_than_a_body_may_be() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let mut options: Options = local();
    options.max_body_bytes = 1_500;
    let clock = TestClock::new();
    let hub = over_with(&store, options, &clock);
    let config = batching(&receiver.endpoint, "r", 100, 1_000, "");
    for bytes in [400, 400, 400, 5_000, 1_000] {
        complete(&hub, &config, &format!(r#"{{"x":"{}"}}"#, "y".repeat(bytes)));
    }
    clock.advance(Duration::from_millis(1_000));
    store.wait_deliveries(&[Delivered; 5]);
    let requests = receiver.requests();
    let all = enqueued(&store);
    assert!(requests.iter().all(|request| request.body.len() <= 1_500), "{requests:?}");
    assert!(requests.len() > 2 && requests.len() < 5, "{} requests", requests.len());
    assert!(String::from_utf8_lossy(&all[3].body).contains(r#""truncated":true,"bytes":5008"#));
    assert!(all.iter().all(|new| new.body.len() + BATCH_FRAME_BYTES <= 1_500));
    let sent: String = requests.iter().map(Request::text).collect();
    assert!(all.iter().all(|new| sent.matches(&new.event_id).count() == 1), "each of them once");
}

/// What the endpoint refuses for good is over for each, and the next route of each takes over.
#[test]
fn each_firing_of_a_refused_batch_goes_its_own_way() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let gone = Receiver::scripted(vec![Reply::Status(413, "")]);
    let hub = over(&store, local());
    let first = batching(&gone.endpoint, "first", 2, 60_000, "");
    let next = format!(
        r#",{{"id":"next","type":"webhook","endpoint":"{}","secret":"{SECRET}","triggers":["completed"]}}]}}"#,
        receiver.endpoint
    );
    let config = first.strip_suffix("]}").expect("its end").to_owned() + &next;
    complete(&hub, &config, r#"{"n":1}"#);
    complete(&hub, &config, r#"{"n":2}"#);
    let mut states = [DeliveryState::Superseded, DeliveryState::Superseded, Delivered, Delivered];
    states.sort();
    let all = store.wait_for(|inner| {
        let all = tidings::store::Store::deliveries(inner, None, None, None, 10).expect("reads");
        let mut found: Vec<_> = all.iter().map(|one| one.state).collect();
        found.sort();
        (found == states).then_some(all)
    });
    assert_eq!(gone.requests().len(), 1);
    let taken = receiver.requests();
    let ids: BTreeSet<_> = taken.iter().map(|request| request.header("webhook-id").to_owned()).collect();
    assert_eq!(ids, all.iter().map(|one| one.event_id.clone()).collect(), "each alone, under its own id");
    assert!(taken.iter().all(|request| !request.text().starts_with(r#"{"events""#)));
}

/// The cursor of a body passes nothing that is not delivered: a receiver that keeps it misses nothing.
#[test]
fn a_cursor_is_a_watermark() {
    let store = FaultStore::new();
    // The first request of each call is refused, everything else taken.
    let receiver = Receiver::scripted(vec![SOON, Reply::OK]);
    let clock = TestClock::new();
    let hub = over_with(&store, local(), &clock);
    let config = support::config(&receiver.endpoint, &["streaming", "completed"]);
    let call = begin(&hub, &config).expect("accepted");
    call.emit("step", b"1").expect("numbered");
    store.wait_op(|op| matches!(op, Op::Enqueue(_)));
    clock.advance(Duration::from_millis(1)); // it is looked for
    store.wait_deliveries(&[Retrying]);
    assert!(wait(call.complete(b"{}")).expect("ended").committed);
    let requests = receiver.wait_for(2);
    let cursor = |request: &Request| {
        let (_, text) = request.text().rsplit_once(r#""cursor":""#).expect("a cursor");
        Cursor::parse(text.trim_end_matches("\"}")).expect("one of ours")
    };
    assert_eq!(cursor(&requests[0]).next, 1, "after event 0, of which it tells");
    assert!(requests[1].text().contains(r#""seq":1"#), "{}", requests[1].text());
    assert_eq!(cursor(&requests[1]).next, 0, "event 0 is undelivered");
    // It opens the stream where it says.
    let mut tail = hub.resume(&call.writer().key().scope, &cursor(&requests[1]).to_string()).expect("good");
    assert_eq!(support::seqs(&support::drain(&mut tail)), [0, 1]);
    clock.advance(Duration::from_secs(2));
    store.wait_deliveries(&[Delivered, Delivered]);
    let repeat = &receiver.wait_for(3)[2];
    assert_eq!(repeat.body, requests[0].body, "the same bytes");
    // With nothing undelivered it is at the event.
    let call = begin(&hub, &config).expect("accepted");
    assert!(wait(call.complete(b"{}")).expect("ended").committed);
    assert_eq!(cursor(&receiver.wait_for(4)[3]).next, 1);
}
