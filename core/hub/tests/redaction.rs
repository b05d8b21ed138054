//! What routes and the operator take out.

use crate::support::{FaultStore, Receiver, Reply, SECRET, begin, local, over, wait};
use tidings::proto::redact::Redaction;
use tidings::store::{DeliveryState, Op};
use tidings::{After, Durability, NewEvent, ReadLimits};

fn routes(parts: &[(&str, &str, &str)]) -> String {
    let route = |(id, endpoint, redact): &(&str, &str, &str)| {
        format!(
            r#"{{"id":"{id}","type":"webhook","endpoint":"{endpoint}","secret":"{SECRET}","triggers":["completed"],"redact":{redact}}}"#
        )
    };
    format!(r#"{{"routes":[{}]}}"#, parts.iter().map(route).collect::<Vec<_>>().join(","))
}

/// Each route has its own redaction, also where it takes over from one that took out more; the client's result and the
/// call's stream keep everything.
#[test]
fn a_route_takes_out_of_its_own_bodies_only() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let gone = Receiver::scripted(vec![Reply::Status(413, "")]);
    let hub = over(&store, local());
    let config = routes(&[
        ("first", &gone.endpoint, r#"["/outcome/result/a","b"]"#),
        ("second", &gone.endpoint, "[]"),
        ("third", &receiver.endpoint, r#"["/outcome/result/c/0"]"#),
    ]);
    let call = begin(&hub, &config).expect("accepted");
    let result = r#"{"a":1.0,"b":[2],"c":[{"b":3},4]}"#;
    wait(call.complete(result.as_bytes())).expect("ended");
    store.wait_deliveries(&[DeliveryState::Superseded, DeliveryState::Superseded, DeliveryState::Delivered]);
    let texts: Vec<String> =
        gone.requests().iter().chain(&receiver.requests()).map(|request| request.text().to_owned()).collect();
    for (text, (route, want)) in texts.iter().zip([
        ("first", r#"{"a":"[redacted]","b":"[redacted]","c":[{"b":"[redacted]"},4]}"#),
        ("second", result),
        ("third", r#"{"a":1.0,"b":[2],"c":["[redacted]",4]}"#),
    ]) {
        assert!(text.contains(&format!(r#""route":"{route}""#)), "{text}");
        assert!(text.contains(&format!(r#""result":{want}"#)), "{text}");
    }
    assert_eq!(texts.len(), 3);
    let ids: std::collections::BTreeSet<_> =
        gone.requests().iter().chain(&receiver.requests()).map(|r| r.header("webhook-id").to_owned()).collect();
    assert_eq!(ids.len(), 1, "one firing");
    let stream = hub.stream(call.writer().key().scope.clone(), "events").expect("a stream");
    let read = stream.read(After::Earliest, ReadLimits::default()).expect("a read");
    assert!(std::str::from_utf8(&read.events[0].payload).expect("text").contains(result));
}

/// Before anything is kept: events of every kind, outcomes, what is fired, and what conditions see.
#[test]
fn the_operator_takes_out_before_anything_is_kept() {
    let store = FaultStore::new();
    let mut options = local();
    options.redact = Redaction::parse(["token", "/result/secret"]).expect("a list");
    let hub = over(&store, options);
    let config = r#"{"routes":[{"id":"a","type":"webhook","endpoint":"http://127.0.0.1:1/","triggers":["com.example/x",
        "streaming",{"on":"completed","when":[{"path":"/result/secret","eq":"[redacted]"}]}]}]}"#;
    let call = begin(&hub, config).expect("accepted");
    call.emit("step", br#"{"token":"hunter2"}"#).expect("numbered");
    call.emit("step", b"hunter2 is no JSON").expect("numbered");
    call.writer().append("step", br#"[{"token":"hunter2"}]"#, None).expect("numbered");
    call.fire("com.example/x", br#"{"token":"hunter2"}"#).expect("fired");
    let shared = hub.stream("scope", "name").expect("a stream");
    let event = NewEvent {
        kind: "k".to_owned(),
        payload: br#"{"a":{"token":{"x":"hunter2"}},"n":1.0}"#.to_vec().into(),
        time: 0,
        identity: None,
    };
    wait(shared.append(vec![event], Durability::Process)).expect("appended");
    let writer = wait(hub.stream("scope", "other").expect("a stream").claim()).expect("claimed");
    writer.append_giving_up("k", br#"{"token":"hunter2"}"#, None).expect("numbered");
    writer.append_and_close("k", br#"{"token":"hunter2"}"#).expect("numbered");
    wait(writer.flush(Durability::Process)).expect("committed");
    wait(call.complete(br#"{"secret":"hunter2","x":{"token":"hunter2","secret":"stays"}}"#)).expect("ended");

    let task = begin(&hub, config).expect("accepted");
    let terms = tidings::TaskTerms { ttl_ms: 1_000, bound: true };
    assert!(wait(task.become_task(terms)).expect("a task"));
    wait(task.fail(Some(br#"{"code":1,"message":"m","data":{"token":"hunter2"}}"#), None)).expect("ended");
    let shown = hub.task(&task.id().to_string(), "tester").expect("an answer").expect("there").json;
    assert!(shown.contains(r#"{"code":1,"message":"m","data":{"token":"[redacted]"}}"#), "{shown}");

    let kept = format!("{:?}", store.ops());
    assert!(!kept.contains("hunter2"), "{kept}");
    assert!(kept.contains("[redacted]"));
    let bodies: Vec<_> = store
        .ops()
        .into_iter()
        .filter_map(|op| {
            if let Op::Enqueue(new) = op { Some(String::from_utf8_lossy(&new.body).into_owned()) } else { None }
        })
        .collect();
    assert_eq!(bodies.len(), 3, "streaming, what was fired, and completed by what stands in the secret's place");
    assert!(
        bodies[2].contains(r#""result":{"secret":"[redacted]","x":{"token":"[redacted]","secret":"stays"}}"#),
        "{bodies:?}"
    );
    let read = shared.read(After::Earliest, ReadLimits::default()).expect("a read");
    assert_eq!(&read.events[0].payload[..], br#"{"a":{"token":"[redacted]"},"n":1.0}"#);
}
