//! What an origin publishes (`/.well-known/mcp-webhook-receiver.json`) proves all its URLs below the prefixes it names, for
//! one principal and for so long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{FaultStore, HANG, Receiver, Reply, Request, TestClock, config, fire_as, over_with, proving};
use tidings::Hub;
use tidings::proto::delivery::{EndpointKey, EndpointState, Proof, Standing};
use tidings::proto::webhook::{challenge_answer, receiver_document_json};
use tidings::store::{DeliveryState, Store};

use DeliveryState::{Dead, Delivered};

const HOUR: Duration = Duration::from_secs(3_600);

/// A receiver that knows of no challenge, whose origin publishes these prefixes from the `since`th time on that it is
/// asked (none before), and that answers deliveries as `take` says.
struct Origin {
    receiver: Receiver,
    base: String,
}

impl Origin {
    fn new(prefixes: &[&str]) -> Self {
        Self::with(prefixes, 0, |_| Reply::OK)
    }

    fn with(prefixes: &[&str], since: usize, take: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        let document = receiver_document_json(prefixes);
        let (asked, taken) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let receiver = Receiver::start(move |request, _| match kind(request) {
            "document" if asked.fetch_add(1, Ordering::SeqCst) < since => Reply::Status(404, ""),
            "document" => Reply::with(&document),
            "challenge" => Reply::Status(400, ""),
            _ => take(taken.fetch_add(1, Ordering::SeqCst)),
        });
        let base = receiver.endpoint.trim_end_matches("/hook?a=b").to_owned();
        Self { receiver, base }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn count(&self, wanted: &str) -> usize {
        self.receiver.requests().iter().filter(|request| kind(request) == wanted).count()
    }

    /// How often it was asked in either way.
    fn asked(&self) -> (usize, usize) {
        (self.count("challenge"), self.count("document"))
    }
}

fn kind(request: &Request) -> &'static str {
    match request.line.as_str() {
        "GET /.well-known/mcp-webhook-receiver.json HTTP/1.1" => "document",
        _ if challenge_answer(&request.body).is_some() => "challenge",
        _ => "delivery",
    }
}

fn completes(hub: &Hub, principal: &str, url: &str) {
    fire_as(hub, principal, &config(url, &["completed"]));
}

fn standing(store: &dyn Store, principal: &str, url: &str) -> Option<Standing> {
    let key = EndpointKey::new("webhook", principal, url);
    store.endpoint(key).expect("reads").map(|endpoint| endpoint.standing)
}

fn wait_refused(store: &FaultStore, principal: &str, url: &str, times: u32) -> Standing {
    store.wait_for(|inner| standing(inner, principal, url).filter(|standing| standing.refusals == times))
}

fn delivered(store: &FaultStore, count: usize) {
    store.wait_deliveries(&vec![Delivered; count]);
}

#[test]
fn one_document_proves_every_url_below_its_prefixes() {
    let (store, origin) = (FaultStore::new(), Origin::new(&["/hooks/", "/exact"]));
    let hub = over_with(&store, proving(), &TestClock::new());
    completes(&hub, "p", &origin.url("/hooks/a"));
    delivered(&store, 1);
    assert_eq!(origin.asked(), (1, 1));
    for (nth, path) in ["/hooks/b?c=d", "/hooks/", "/exact", "/exact/x"].into_iter().enumerate() {
        completes(&hub, "p", &origin.url(path));
        delivered(&store, nth + 2);
        assert_eq!(standing(store.inner(), "p", &origin.url(path)).and_then(|one| one.proof), Some(Proof::WellKnown));
    }
    assert_eq!(origin.asked(), (1, 1), "asked once for all of them");
}

#[test]
fn what_is_not_below_a_prefix_is_asked_itself_and_refused() {
    let (store, origin) = (FaultStore::new(), Origin::new(&["/hooks/"]));
    let hub = over_with(&store, proving(), &TestClock::new());
    completes(&hub, "p", &origin.url("/hooks/a"));
    delivered(&store, 1);
    let outside = [
        "/hooks",
        "/hooksy",
        "/Hooks/a",
        "/hooks/../admin",
        "/hooks/..%2fadmin",
        "/hooks/%252e%252e/x",
        "/hooks/..;/x",
    ];
    for path in outside {
        // The URL as it is kept: dots are resolved, escapes are not.
        let url = origin.url(path);
        let kept = if path == "/hooks/../admin" { origin.url("/admin") } else { url.clone() };
        completes(&hub, "p", &url);
        let refused = wait_refused(&store, "p", &kept, 1);
        assert_eq!(refused.state, EndpointState::Unverified, "{path}");
    }
    assert_eq!(origin.count("delivery"), 1);
    assert_eq!(origin.asked(), (1 + outside.len(), 1 + outside.len()));
}

#[test]
fn a_document_serves_the_principal_for_whom_it_was_fetched() {
    let (store, origin) = (FaultStore::new(), Origin::new(&["/"]));
    let hub = over_with(&store, proving(), &TestClock::new());
    completes(&hub, "p", &origin.url("/a"));
    delivered(&store, 1);
    completes(&hub, "q", &origin.url("/b"));
    delivered(&store, 2);
    assert_eq!(origin.asked(), (2, 2), "asked anew for another principal");
}

/// Scheme, host and port make the origin.
#[test]
fn another_port_is_another_origin() {
    let (store, one, other) = (FaultStore::new(), Origin::new(&["/"]), Origin::with(&["/"], usize::MAX, |_| Reply::OK));
    let hub = over_with(&store, proving(), &TestClock::new());
    completes(&hub, "p", &one.url("/a"));
    delivered(&store, 1);
    completes(&hub, "p", &other.url("/a"));
    assert_eq!(wait_refused(&store, "p", &other.url("/a"), 1).state, EndpointState::Unverified);
    assert_eq!((other.count("delivery"), other.asked()), (0, (1, 1)));
}

/// Those that wait need not be asked themselves once the document is found.
#[test]
fn a_document_that_is_found_proves_what_waits() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let origin = Origin::with(&["/hooks/"], 3, |_| Reply::OK);
    let hub = over_with(&store, proving(), &clock);
    let urls = ["/hooks/a", "/hooks/b", "/elsewhere"].map(|path| origin.url(path));
    for url in &urls {
        completes(&hub, "p", url);
    }
    let asked_again = |url: &String| wait_refused(&store, "p", url, 1).verify_at.expect("asked again");
    let [first, second, _] = urls.each_ref().map(asked_again);
    // Only the earlier one of them is due by then.
    clock.advance(Duration::from_millis(u64::try_from(first.min(second) - clock.now()).expect("later")));
    store.wait_for(|inner| {
        let done = inner.deliveries(Some("p"), None, Some(Delivered), 9).expect("reads");
        (done.len() == 2).then_some(())
    });
    let third = standing(store.inner(), "p", &urls[2]).expect("known");
    assert_eq!((third.state, third.proof), (EndpointState::Unverified, None));
}

#[test]
fn a_document_counts_until_it_expires() {
    let (store, clock, origin) = (FaultStore::new(), TestClock::new(), Origin::new(&["/hooks/"]));
    let hub = over_with(&store, proving(), &clock);
    let [a, b, c] = ["/hooks/a", "/hooks/b", "/hooks/c"].map(|path| origin.url(path));
    completes(&hub, "p", &a);
    delivered(&store, 1);
    let day = proving().endpoints.proof_ms;
    let until = clock.now() + i64::try_from(day).expect("a day");
    clock.advance(Duration::from_millis(day - 1));
    completes(&hub, "p", &b);
    delivered(&store, 2);
    assert_eq!(origin.asked(), (1, 1), "it still counts");
    let second = standing(store.inner(), "p", &b).expect("known");
    assert_eq!(second.proven_until, Some(until), "no longer than the document does");
    clock.advance(Duration::from_millis(1));
    completes(&hub, "p", &b);
    delivered(&store, 3);
    assert_eq!(origin.asked(), (2, 2), "it does not count any more");
    completes(&hub, "p", &c);
    completes(&hub, "p", &a);
    delivered(&store, 5);
    assert_eq!(origin.asked(), (2, 2), "it counts for another day");
}

/// In the last quarter of its time an endpoint that is named is asked anew, while the old proof still counts; the others
/// profit by it.
#[test]
fn a_document_is_fetched_again_before_it_expires() {
    let (store, clock, origin) = (FaultStore::new(), TestClock::new(), Origin::new(&["/hooks/"]));
    let hub = over_with(&store, proving(), &clock);
    let [a, b] = ["/hooks/a", "/hooks/b"].map(|path| origin.url(path));
    completes(&hub, "p", &a);
    delivered(&store, 1);
    completes(&hub, "p", &b);
    delivered(&store, 2);
    clock.advance(HOUR * 20);
    completes(&hub, "p", &a);
    delivered(&store, 3);
    let next = clock.now() + 24 * 3_600_000;
    store.wait_for(|inner| standing(inner, "p", &a).filter(|standing| standing.proven_until == Some(next)));
    assert_eq!(origin.asked(), (2, 2));
    clock.advance(HOUR * 5);
    completes(&hub, "p", &b);
    delivered(&store, 4);
    assert_eq!(origin.asked(), (2, 2), "its own proof had expired, the document had not");
    assert_eq!(standing(store.inner(), "p", &b).expect("known").proven_until, Some(next));
}

/// After a 410 a new verification is asked for: what was found before says nothing about the time since.
#[test]
fn a_disabled_endpoint_is_not_proven_by_what_was_found_before() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let gone_first = |nth| if nth == 0 { Reply::Status(410, "") } else { Reply::OK };
    let origin = Origin::with(&["/"], 0, gone_first);
    let hub = over_with(&store, proving(), &clock);
    let url = origin.url("/a");
    completes(&hub, "p", &url);
    store.wait_deliveries(&[Dead]);
    completes(&hub, "p", &origin.url("/b"));
    store.wait_deliveries(&[Dead, Delivered]);
    assert_eq!(standing(store.inner(), "p", &url).expect("known").state, EndpointState::Disabled);
    completes(&hub, "p", &url); // named again: a minute later it is asked
    clock.advance(Duration::from_secs(61));
    store.wait_for(|inner| standing(inner, "p", &url).filter(|one| one.state == EndpointState::Verified));
    assert_eq!(origin.asked(), (2, 2));
}

#[test]
fn what_was_found_survives_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", dir.path().join("hub.db").display());
    let origin = Origin::new(&["/hooks/"]);
    for (nth, path) in ["/hooks/a", "/hooks/b"].into_iter().enumerate() {
        let hub = Hub::with(&url, proving()).expect("a hub");
        completes(&hub, "p", &origin.url(path));
        origin.receiver.wait_for(3 + nth);
        assert!(hub.close(HANG));
    }
    assert_eq!((origin.asked(), origin.count("delivery")), ((1, 1), 2));
}
