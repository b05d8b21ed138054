//! What a subscriber of the host sees: what happens, by ids and categories, and nothing that is anybody's secret.

mod support;

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use support::{FaultStore, Receiver, Reply, SECRET, begin, local, over, wait};
use tidings::Verify;
use tidings::proto::address::EgressProxy;
use tidings::proto::webhook::challenge_answer;
use tidings::store::DeliveryState;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// Keeps everything at every level, a line each.
#[derive(Clone, Default)]
struct Everything {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Everything {
    fn keep(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{} {}", metadata.target(), metadata.name()));
        record(&mut line);
        self.lines.lock().expect("lines").push(line.0);
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.keep(span.metadata(), |line| span.record(line));
        span::Id::from_u64(self.spans.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        self.lines.lock().expect("lines").push(line.0);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.keep(event.metadata(), |line| event.record(line));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn what_happens_is_seen_and_no_secret_is() {
    let seen = Everything::default();
    tracing::subscriber::set_global_default(seen.clone()).expect("the only one of this process");
    let (store, receiver) = (
        FaultStore::new(),
        Receiver::start(|request, nth| match challenge_answer(&request.body) {
            Some(echo) => {
                let length = echo.len();
                Reply::Raw(format!("HTTP/1.1 200 x\r\ncontent-length: {length}\r\n\r\n{echo}").into_bytes())
            }
            None if nth == 1 => {
                Reply::Raw(b"HTTP/1.1 500 hunter2-answer\r\nx: hunter2-answer\r\n\r\nhunter2-answer".to_vec())
            }
            None => Reply::OK,
        }),
    );
    let mut options = local();
    options.verify = Verify::Always;
    options.secret_key = Some(*b"hunter2-secret-key-hunter2-seal!");
    let hub = over(&store, options);
    let config = format!(
        r#"{{"routes":[{{"id":"r","type":"webhook","endpoint":"{}&q=hunter2-query","secret":"{SECRET}","triggers":["completed"],
            "headers":{{"authorization":"hunter2-header"}},"fifoKey":"k"}}]}}"#,
        receiver.endpoint
    );
    let call = begin(&hub, &config).expect("accepted");
    call.emit("step", b"hunter2-event").expect("numbered");
    assert!(wait(call.complete(br#"{"x":"hunter2-result"}"#)).expect("ended").committed);
    let delivered = store.wait_deliveries(&[DeliveryState::Delivered]).remove(0);
    assert!(begin(&hub, &config.replace("http:", "hunter2-scheme:")).is_err(), "refused");
    drop(hub);

    // A proxy that is not there, with a password.
    let mut options = local();
    options.proxy = Some(EgressProxy::parse("http://user:hunter2-proxy@127.0.0.1:1").expect("a proxy"));
    let store = FaultStore::new();
    let hub = over(&store, options);
    let call = begin(&hub, &config).expect("accepted");
    wait(call.complete(b"{}")).expect("ended");
    store.wait_deliveries(&[DeliveryState::Retrying]);
    drop(hub);

    let lines = seen.lines.lock().expect("lines").clone();
    let all = lines.join("\n");
    for needle in ["hunter2", SECRET, SECRET.trim_start_matches("whsec_"), "/hook", "dXNlcjpodW50ZXIy"] {
        assert!(!all.contains(needle), "{needle} in {all}");
    }
    let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    let delivery = format!("delivery={}", delivered.id);
    let event = format!("event={:?}", delivered.event_id);
    for parts in [
        &["a call began", "tool=\"tool\"", "routes=1"][..],
        &["a call has ended", "outcome=\"completed\"", "committed=true"],
        &["tidings::verify verify", "endpoint="],
        &["an endpoint is verified", "proof=\"challenge\""],
        &["tidings::dispatch attempt", &delivery, &event, "attempt=1", "deliveries=1"],
        &["tidings::dispatch attempt", &delivery, "attempt=2"],
        &["an attempt has ended", "result=\"http_5xx\"", "status=500"],
        &["an attempt has ended", "result=\"taken\"", "status=200"],
        &["a delivery has ended", "state=\"delivered\""],
        &["an attempt has ended", "result=\"proxy_error\""],
    ] {
        assert!(has(parts), "{parts:?} in {all}");
    }
}
