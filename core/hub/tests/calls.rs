//! Watched calls: accepted whole or not at all, and ended in exactly one outcome.

use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::support::{
    ENDS, FaultStore, Receiver, SECRET, TestClock, begin, begin_with, config, drain, local, over, over_with, route,
    seqs, wait,
};
use tidings::proto::id::RequestId;
use tidings::proto::route::UndeliverablePolicy;
use tidings::proto::trigger::{Outcome, Reason};
use tidings::store::{DeliveryState, Op, Store, StreamKey};
use tidings::{After, BeginCall, Call, Durability, ErrorCode, Hub, Options};

/// Takes no connection: what is due to it stays undelivered.
const NOWHERE: &str = "http://127.0.0.1:1/hook";

fn outcome_event(hub: &Hub, call: &Call) -> String {
    let stream = hub.stream(format!("call:{}", call.id()), "events").expect("a stream");
    let reads = drain(&mut stream.tail(After::Earliest).expect("a tail"));
    let last = reads.last().and_then(|read| read.events.last()).expect("an event").clone();
    assert_eq!(last.kind, "io.tidings.outcome");
    String::from_utf8(last.payload.to_vec()).expect("JSON text")
}

fn is_begin(op: &Op) -> bool {
    matches!(op, Op::BeginCall(_))
}

fn is_end(op: &Op) -> bool {
    matches!(op, Op::EndCall { .. })
}

fn is_enqueue(op: &Op) -> bool {
    matches!(op, Op::Enqueue(_))
}

#[test]
fn an_accepted_config_is_on_disk_and_acknowledged() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    let before = store.disk();
    let routes = format!(
        r#"{{"routes":[{},{}]}}"#,
        route("main", NOWHERE, &["completed", "com.example/done", "paused"]),
        route("spare", NOWHERE, &["completed", "retired"])
    );
    let call = begin(&hub, &routes).expect("accepted");
    assert_eq!(store.disk(), before + 1);
    assert_eq!(call.accepted_routes(), ["main", "spare"]);
    assert_eq!(call.ignored_triggers(), ["paused", "retired"]);
    let want = format!(
        r#"{{"requestId":7,"acceptedRoutes":["main","spare"],"callId":"{}","ignoredTriggers":["paused","retired"]}}"#,
        call.id()
    );
    assert_eq!(call.acknowledgement(), want);
    let row = store.call(call.id()).expect("an answer").expect("there");
    assert_eq!(
        (row.principal.as_str(), row.session.as_deref(), row.tool.as_str()),
        ("tester", Some("session-1"), "tool")
    );
    assert_eq!((row.request_id.as_str(), row.outcome), ("7", None));
    let text = wait(hub.begin_call(BeginCall {
        config: Some(config(NOWHERE, &ENDS).as_bytes()),
        route_types: &["webhook"],
        principal: "tester",
        session: None,
        peer: None,
        open: &[],
        request_id: &RequestId::string("7").expect("an id"),
        tool: "tool",
        timeout: None,
        task: None,
    }));
    let text = text.expect("accepted");
    let want = format!(r#"{{"requestId":"7","acceptedRoutes":["main"],"callId":"{}"}}"#, text.id());
    assert_eq!(text.acknowledgement(), want, "the id's type is kept");
}

/// Issue 2, "It must show": every fault is named in one answer, and nothing is stored.
#[test]
fn bad_configs_are_refused_whole() {
    let store = FaultStore::new();
    let hub = over(&store, Options::default());
    let route = |id: &str, more: &str| format!(r#"{{"id":"{id}","type":"webhook",{more}}}"#);
    let good = r#""endpoint":"https://good.example/","triggers":["completed"]"#;
    let at = |endpoint: &str| route("a", &format!(r#""endpoint":"{endpoint}","triggers":["completed"]"#));
    let routes = |routes: &[String]| format!(r#"{{"routes":[{}]}}"#, routes.join(","));
    let many: Vec<String> = (0..10_000).map(|n| route(&n.to_string(), good)).collect();
    let cases: Vec<(String, Vec<(&str, &str)>)> = vec![
        (
            routes(&[r#"{"id":"a","type":"carrier-pigeon","triggers":["completed"]}"#.into()]),
            vec![("/routes/0/type", "unsupported_type")],
        ),
        (
            routes(&[route(
                "a",
                &format!(r#"{good},"headers":{{"authorization":"abc\r\nX-Admin: 1","webhook-id":"mine"}}"#),
            )]),
            vec![
                ("/routes/0/headers/authorization", "header_value"),
                ("/routes/0/headers/webhook-id", "header_reserved"),
            ],
        ),
        (
            routes(&[route("a", r#""endpoint":"https://good.example/","triggers":[]"#)]),
            vec![("/routes/0/triggers", "empty")],
        ),
        (routes(&[route("a", r#""endpoint":"https://good.example/""#)]), vec![("/routes/0", "missing")]),
        (routes(&[route("a", good), route("a", good)]), vec![("/routes/1/id", "duplicate_id")]),
        (routes(&[route("a", &format!(r#"{good},"secret":"hunter2""#))]), vec![("/routes/0/secret", "secret_prefix")]),
        (routes(&[at("https://169.254.169.254")]), vec![("/routes/0/endpoint", "metadata_address")]),
        (routes(&[at("https://[::ffff:127.0.0.1]")]), vec![("/routes/0/endpoint", "special_address")]),
        (routes(&[at("https://2130706433")]), vec![("/routes/0/endpoint", "special_address")]),
        (routes(&[at("https://user@good.example/")]), vec![("/routes/0/endpoint", "user_info")]),
        (routes(&[at("http://good.example/")]), vec![("/routes/0/endpoint", "plain_http")]),
        (r#"{"routes":"a"}"#.into(), vec![("/routes", "wrong_type")]),
        (r#"[1]"#.into(), vec![("", "wrong_type")]),
        (
            r#"{"routes":[{"id":1,"type":true,"triggers":{}}]}"#.into(),
            vec![
                ("/routes/0/id", "wrong_type"),
                ("/routes/0/type", "wrong_type"),
                ("/routes/0/triggers", "wrong_type"),
            ],
        ),
        (
            routes(&[at("https://2130706433"), route("a", r#""endpoint":"https://good.example/","triggers":[]"#)]),
            vec![
                ("/routes/0/endpoint", "special_address"),
                ("/routes/1/id", "duplicate_id"),
                ("/routes/1/triggers", "empty"),
            ],
        ),
        (routes(&many), vec![("", "too_large")]),
        ("{".into(), vec![("", "malformed_json")]),
    ];
    for (text, want) in cases {
        let error = begin(&hub, &text).map(drop).expect_err("a bad config");
        let shown: String = text.chars().take(200).collect();
        assert_eq!(error.code(), ErrorCode::InvalidConfig, "{shown}");
        let faults = error.faults().expect("faults");
        assert_eq!(faults.total(), want.len(), "{shown}: {faults:?}");
        for (path, rule) in want {
            let found = faults.listed().iter().any(|fault| fault.path == path && fault.rule == rule);
            assert!(found, "{shown}: {path} {rule} is not in {faults:?}");
        }
        assert!(!format!("{error:?}").contains("hunter2"), "a secret is never shown");
    }
    assert_eq!(store.count(is_begin), 0);
    assert_eq!(store.count(|op| matches!(op, Op::Create { .. })), 0);

    // A limit on the number of routes is told as such where the text is not too large already.
    let mut options = Options::default();
    options.config_limits.max_bytes = 10 << 20;
    let wide = over(&FaultStore::new(), options);
    let error = begin(&wide, &routes(&many)).map(drop).expect_err("a bad config");
    assert_eq!(error.faults().expect("faults").listed()[0].rule, "too_many");
}

#[test]
fn a_secret_may_be_required() {
    let unsigned =
        format!(r#"{{"routes":[{{"id":"a","type":"webhook","endpoint":"{NOWHERE}","triggers":["failed"]}}]}}"#);
    let hub = |require: bool, default: bool| {
        let mut options = local();
        options.require_secret = require;
        options.default_secret = default.then(|| tidings::proto::webhook::Secret::parse(SECRET).expect("a secret"));
        over(&FaultStore::new(), options)
    };
    let error = begin(&hub(true, false), &unsigned).map(drop).expect_err("unsigned");
    assert_eq!(error.faults().expect("faults").listed()[0].rule, "secret_required");
    for (require, default) in [(false, false), (false, true), (true, true)] {
        assert!(begin(&hub(require, default), &unsigned).is_ok(), "{require} {default}");
    }
}

/// Each way to end, what its event says byte for byte, and what the row says.
#[test]
fn the_outcomes() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    let result = r#"{ "content":[], "n":[1.0, 9007199254740993], "s":"\ud800" }"#;
    let error = r#"{"code":-32603,"message":"x","data":1E2}"#;
    type End = Box<dyn Fn(&Call) -> tidings::Result<tidings::Ended>>;
    let cases: Vec<(End, Outcome, Option<Reason>, String)> = vec![
        (
            Box::new(move |call: &Call| wait(call.complete(result.as_bytes()))),
            Outcome::Completed,
            None,
            format!(r#"{{"status":"completed","result":{result}}}"#),
        ),
        (
            Box::new(|call: &Call| wait(call.complete(br#"{"isError":true,"content":[1.0]}"#))),
            Outcome::Failed,
            None,
            r#"{"status":"failed","result":{"isError":true,"content":[1.0]}}"#.into(),
        ),
        (
            Box::new(|call: &Call| wait(call.complete(b"\xff not JSON"))),
            Outcome::Failed,
            Some(Reason::Unserialisable),
            r#"{"status":"failed","reason":"unserialisable"}"#.into(),
        ),
        (
            Box::new(move |call: &Call| wait(call.fail(Some(error.as_bytes()), None))),
            Outcome::Failed,
            None,
            format!(r#"{{"status":"failed","error":{error}}}"#),
        ),
        (
            Box::new(|call: &Call| wait(call.fail(None, Some(Reason::Shutdown)))),
            Outcome::Failed,
            Some(Reason::Shutdown),
            r#"{"status":"failed","reason":"shutdown"}"#.into(),
        ),
        (
            Box::new(|call: &Call| wait(call.cancel(Some(Reason::Disconnected)))),
            Outcome::Cancelled,
            Some(Reason::Disconnected),
            r#"{"status":"cancelled","reason":"disconnected"}"#.into(),
        ),
        (Box::new(|call: &Call| wait(call.time_out())), Outcome::Timeout, None, r#"{"status":"timeout"}"#.into()),
    ];
    for (end, outcome, reason, event) in cases {
        let call = begin(&hub, &config(NOWHERE, &["retired"])).expect("accepted");
        assert_eq!(call.emit("step", b"1.0").expect("numbered"), 0);
        let ended = end(&call).expect("ended");
        assert_eq!((ended.outcome, ended.reason.as_deref()), (outcome, reason.map(Reason::as_str)), "{event}");
        assert!(ended.ours && ended.committed && ended.undelivered.is_none(), "{event}");
        assert_eq!(outcome_event(&hub, &call), event);
        let row = store.call(call.id()).expect("an answer").expect("there").outcome.expect("ended");
        assert_eq!((row.status.as_str(), row.reason.as_deref()), (outcome.as_str(), reason.map(Reason::as_str)));
        assert_eq!(wait(call.ended()).expect("ended").outcome, outcome);
        // Everything later is dropped and told so.
        let late = wait(call.complete(b"{}")).expect("ended");
        assert_eq!((late.outcome, late.reason.as_deref(), late.ours), (outcome, reason.map(Reason::as_str), false));
        assert_eq!(call.emit("step", b"{}").expect_err("ended").code(), ErrorCode::Ended);
        assert_eq!(call.disconnected().expect_err("ended").code(), ErrorCode::Ended);
    }
    let call = begin(&hub, &config(NOWHERE, &["retired"])).expect("accepted");
    for bad in [&b"[]"[..], b"1", b"{", b"\xff"] {
        assert_eq!(wait(call.fail(Some(bad), None)).expect_err("no error object").code(), ErrorCode::InvalidArgument);
    }
    assert!(wait(call.complete(b"{}")).expect("ended").ours, "a bad argument ended nothing");
    assert_eq!(store.count(is_enqueue), 0, "nobody asked");
}

/// 1,000 calls, each completed and cancelled at once by two threads: one outcome, one firing.
#[test]
fn the_first_outcome_wins() {
    const RUNS: usize = 1_000;
    let store = FaultStore::new();
    let hub = over(&store, local());
    let start = Barrier::new(2);
    let config = config(NOWHERE, &["completed", "cancelled"]);
    let (mut completed, mut cancelled) = (0, 0);
    let calls: Vec<Call> = (0..RUNS).map(|_| begin(&hub, &config).expect("accepted")).collect();
    let (calls, start) = (&calls, &start);
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(move || {
            let ended = calls.iter().map(|call| {
                start.wait();
                wait(call.complete(b"{}")).expect("ended")
            });
            ended.collect::<Vec<_>>()
        });
        let two = scope.spawn(move || {
            let ended = calls.iter().map(|call| {
                start.wait();
                wait(call.cancel(None)).expect("ended")
            });
            ended.collect::<Vec<_>>()
        });
        (one.join().expect("a thread"), two.join().expect("a thread"))
    });
    for ((call, one), two) in calls.iter().zip(one).zip(two) {
        assert_eq!(one.outcome, two.outcome);
        assert!(one.ours ^ two.ours, "{one:?} {two:?}");
        assert_eq!(one.ours, one.outcome == Outcome::Completed);
        *(if one.ours { &mut completed } else { &mut cancelled }) += 1;
        let row = store.call(call.id()).expect("an answer").expect("there").outcome.expect("ended");
        assert_eq!(row.status, one.outcome.as_str());
    }
    assert_eq!(completed + cancelled, RUNS);
    assert_eq!(hub.stats().late, RUNS as u64, "who came second is counted");
    let first = |trigger: &str| store.count(|op| matches!(op, Op::Enqueue(new) if new.trigger == trigger));
    assert_eq!((store.count(is_end), first("completed"), first("cancelled")), (RUNS, completed, cancelled));
}

/// The time limit fires by itself, at its moment and not before; a client may lower it and not raise it.
#[test]
fn the_time_limit() {
    let with_limit = |ms: u64| config(NOWHERE, &["timeout"]).replace("}]}", &format!("}}],\"timeoutMs\":{ms}}}"));
    for (server, client, limit) in [
        (Some(10_000), None, Some(10_000)),
        (Some(10_000), Some(4_000), Some(4_000)),
        (Some(10_000), Some(60_000), Some(10_000)),
        (None, Some(60_000), Some(60_000)),
        (None, None, None),
    ] {
        let (store, clock) = (FaultStore::new(), TestClock::new());
        let hub = over_with(&store, local(), &clock);
        let config = client.map_or_else(|| config(NOWHERE, &["timeout"]), with_limit);
        let call = begin_with(&hub, &config, server.map(Duration::from_millis)).expect("accepted");
        clock.advance(Duration::from_millis(limit.unwrap_or(86_400_000) - 1));
        store.wait_look(&clock);
        assert_eq!(store.count(is_end), 0, "{server:?} {client:?}");
        clock.advance(Duration::from_millis(1));
        store.wait_look(&clock);
        if limit.is_none() {
            assert_eq!(store.count(is_end), 0);
            continue;
        }
        let ended = wait(call.ended()).expect("ended");
        assert_eq!((ended.outcome, ended.committed, ended.ours), (Outcome::Timeout, true, false));
        assert_eq!((store.count(is_end), store.count(is_enqueue)), (1, 1));
        assert_eq!(outcome_event(&hub, &call), r#"{"status":"timeout"}"#);
        assert!(!wait(call.complete(b"{}")).expect("ended").ours);
    }
}

/// A wall clock that is set does not fire timers (fault 5).
#[test]
fn a_wall_clock_that_jumps_fires_nothing() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let call = begin_with(&hub, &config(NOWHERE, &["timeout"]), Some(Duration::from_secs(60))).expect("accepted");
    for jump in [3_600_000, -7_200_000] {
        clock.set_wall_by(jump);
        clock.advance(Duration::from_secs(1));
        store.wait_look(&clock);
    }
    assert_eq!(store.count(is_end), 0);
    clock.advance(Duration::from_secs(58));
    assert_eq!(wait(call.ended()).expect("ended").outcome, Outcome::Timeout);
}

#[test]
fn streaming_fires_at_most_once_a_second() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let silent = begin(&hub, &config(NOWHERE, &["completed"])).expect("accepted");
    let call = begin(&hub, &config(NOWHERE, &["streaming"])).expect("accepted");
    let fired = || {
        wait(call.writer().flush(Durability::Process)).expect("committed");
        store.count(|op| matches!(op, Op::Enqueue(new) if new.trigger == "streaming"))
    };
    for _ in 0..10 {
        call.emit("step", b"{}").expect("numbered");
        silent.emit("step", b"{}").expect("numbered");
    }
    assert_eq!(fired(), 1);
    clock.advance(Duration::from_millis(999));
    call.emit("step", b"{}").expect("numbered");
    assert_eq!(fired(), 1);
    clock.advance(Duration::from_millis(1));
    call.emit("step", b"{}").expect("numbered");
    call.emit("step", b"{}").expect("numbered");
    assert_eq!(fired(), 2);
    let bodies: Vec<String> = store
        .ops()
        .iter()
        .filter_map(|op| if let Op::Enqueue(new) = op { Some(new.body.to_vec()) } else { None })
        .map(|body| String::from_utf8(body).expect("JSON text"))
        .collect();
    for (body, seq) in bodies.iter().zip([0, 11]) {
        assert!(
            body.contains(r#""name":"tool_call.streaming""#) && body.contains(&format!(r#""seq":{seq}}}"#)),
            "{body}"
        );
        assert!(body.contains(&format!(r#""cursor":"{}""#, call.writer().cursor_after(seq))), "{body}");
    }
}

#[test]
fn a_lost_connection_fires_where_asked() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    for (triggers, fires) in [(&["io.tidings/disconnected"][..], 1), (&["completed"], 0)] {
        let call = begin(&hub, &config(NOWHERE, triggers)).expect("accepted");
        let before = store.count(is_enqueue);
        call.disconnected().expect("running");
        wait(call.writer().flush(Durability::Process)).expect("committed");
        assert_eq!(store.count(is_enqueue) - before, fires);
        assert!(wait(call.complete(b"{}")).expect("the call went on").ours);
    }
}

/// None of the routes can take it: nothing, or an entry in the result, as the operator says.
#[test]
fn a_firing_that_no_route_can_take() {
    for (policy, want) in [
        (UndeliverablePolicy::Drop, None),
        (
            UndeliverablePolicy::Annotate,
            Some(r#"[{"trigger":"completed","routes":["cb"],"reason":"no_deliverable_route"}]"#),
        ),
    ] {
        let store = FaultStore::new();
        let mut options = local();
        options.undeliverable = policy;
        let hub = over(&store, options);
        let call = wait(hub.begin_call(BeginCall {
            config: Some(br#"{"routes":[{"id":"cb","type":"callback","endpoint":"x","triggers":["completed"]}]}"#),
            route_types: &["callback"],
            principal: "tester",
            session: None,
            peer: None,
            open: &["x"],
            request_id: &RequestId::from(1_i64),
            tool: "tool",
            timeout: None,
            task: None,
        }));
        let ended = wait(call.expect("accepted").complete(b"{}")).expect("ended");
        assert_eq!((ended.committed, ended.undelivered.as_deref()), (true, want));
        assert_eq!(store.count(is_enqueue), 0);
    }
}

/// A body over the limit carries the truncated form in the place of the result, and a cursor to the whole.
#[test]
fn a_result_that_is_too_large_for_a_webhook() {
    let store = FaultStore::new();
    let mut options = local();
    options.max_body_bytes = 2_000;
    let hub = over(&store, options);
    let call = begin(&hub, &config(NOWHERE, &["completed"])).expect("accepted");
    let result = format!(r#"{{"text":"{}"}}"#, "x".repeat(3_000));
    wait(call.complete(result.as_bytes())).expect("ended");
    let body = store.ops().iter().find_map(|op| if let Op::Enqueue(new) = op { Some(new.body.clone()) } else { None });
    let body = String::from_utf8(body.expect("a delivery").to_vec()).expect("JSON text");
    let cursor = call.writer().cursor_after(0);
    let want = format!(r#""result":{{"truncated":true,"bytes":{},"cursor":"{cursor}"}}"#, result.len());
    assert!(body.contains(&want), "{body}");
    assert_eq!(
        outcome_event(&hub, &call),
        format!(r#"{{"status":"completed","result":{result}}}"#),
        "the stream has it all"
    );
}

/// Whoever stops waiting changes nothing: the call ends, and those who wait hear it.
#[test]
fn an_end_nobody_waits_for() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    let call = begin(&hub, &config(NOWHERE, &["completed"])).expect("accepted");
    store.block(true);
    {
        let completing = pin!(call.complete(b"{}"));
        assert!(completing.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    store.block(false);
    assert_eq!(wait(call.cancel(None)).expect("ended").outcome, Outcome::Completed);
    assert_eq!(wait(call.ended()).expect("ended").outcome, Outcome::Completed);
    assert_eq!(store.count(is_enqueue), 1);
}

/// A caller that gives up while the call is being accepted leaves no row that nobody ends.
#[test]
fn a_begin_nobody_waits_for() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    store.block(true);
    {
        let config = config(NOWHERE, &ENDS);
        let request_id = RequestId::from(1_i64);
        let beginning = pin!(hub.begin_call(BeginCall {
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
        }));
        assert!(beginning.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    store.block(false);
    store.wait_op(is_end);
    assert_eq!((store.count(is_begin), store.count(is_end), store.count(is_enqueue)), (1, 1, 1));
}

/// The last handle goes and nobody has ended the call: it failed, and its client hears so.
#[test]
fn a_call_nobody_holds() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    call.emit("step", b"{}").expect("numbered");
    drop(call.clone());
    assert_eq!(store.count(is_end), 0, "another handle is there");
    drop(call);
    let requests = receiver.wait_for(1);
    let error = r#""outcome":{"status":"failed","error":{"code":-32603,"message":"the server gave the call up without an answer"}}"#;
    assert!(requests[0].text().contains(error), "{}", requests[0].text());
    store.wait_deliveries(&[DeliveryState::Delivered]);
    assert_eq!(store.count(is_end), 1);
}

/// Somebody takes or closes the stream of a call. That must not keep its outcome back.
#[test]
fn a_call_whose_stream_was_taken() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    for what in 0..4 {
        let call = begin(&hub, &config(NOWHERE, &ENDS)).expect("accepted");
        let refused = call.writer().close().expect_err("it ends with the call");
        assert_eq!(refused.code(), ErrorCode::InvalidArgument);
        assert_eq!(
            call.writer().append_and_close("k", b"{}").expect_err("it ends with the call").code(),
            ErrorCode::InvalidArgument
        );
        let stream = hub.stream(format!("call:{}", call.id()), "events").expect("a stream");
        match what % 2 {
            0 => drop(wait(stream.claim()).expect("claimed")),
            _ => wait(stream.close(Vec::new(), Durability::Process)).expect("closed"),
        }
        if what >= 2 {
            // The call's writer hears of it before the end.
            call.emit("step", b"{}").expect("the writer does not know yet");
            wait(call.writer().flush(Durability::Process)).expect_err("refused");
        }
        let enqueued = store.count(is_enqueue);
        let ended = wait(call.complete(b"{}")).expect("ended");
        assert_eq!((ended.outcome, ended.ours, ended.committed), (Outcome::Completed, true, true), "{what}");
        assert_eq!(store.count(is_enqueue) - enqueued, 1);
        let row = store.call(call.id()).expect("an answer").expect("there").outcome.expect("ended");
        assert_eq!(row.status, "completed");
        let key = StreamKey::new(format!("call:{}", call.id()), "events");
        let info = store.stream(&key).expect("an answer").expect("there");
        assert!(info.closed_at.is_some());
        assert_eq!(info.next_seq, u64::from(what % 2 == 0), "its event is there unless the stream was closed");
    }
}

/// The events of a call, in order, closed by the outcome: what a resumed client gets at each cut point.
#[test]
fn every_cut_point_of_a_call() {
    let hub = over(&FaultStore::new(), local());
    let call = begin(&hub, &config(NOWHERE, &["retired"])).expect("accepted");
    let mut cursors = vec![call.writer().cursor()];
    for n in 0..50_u64 {
        assert_eq!(call.emit("step", n.to_string().as_bytes()).expect("numbered"), n);
        cursors.push(call.writer().cursor());
    }
    wait(call.complete(b"{}")).expect("ended");
    let scope = format!("call:{}", call.id());
    for (cut, cursor) in cursors.iter().enumerate() {
        let reads = drain(&mut hub.resume(&scope, cursor).expect("a tail"));
        assert_eq!(seqs(&reads), (cut as u64..51).collect::<Vec<_>>());
        assert_eq!(hub.resume("session-1", cursor).map(drop).expect_err("foreign").code(), ErrorCode::UnknownCursor);
    }
}

#[test]
fn a_call_is_shared_by_its_handles() {
    let hub = Arc::new(over(&FaultStore::new(), local()));
    let call = begin(&hub, &config(NOWHERE, &["retired"])).expect("accepted");
    let waiting = call.clone();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || wait(waiting.ended()).expect("ended"));
        assert!(wait(call.cancel(None)).expect("ended").ours);
        let ended = waiter.join().expect("a thread");
        assert_eq!((ended.outcome, ended.ours, ended.committed), (Outcome::Cancelled, false, true));
    });
}
