use super::*;
use crate::config::{AcceptStored, ConfigLimits, NotificationConfig};
use crate::group::{Aggregate, Rule};
use crate::trigger::classify_result;
use proptest::prelude::*;

const EVENT: &str = "evt_00000000000000000000000001";
const CALL: &str = "call_00000000000000000000000002";

fn firing<'a>(trigger: &'a Trigger, request_id: &'a RequestId, ended: Option<Ended<'a>>) -> Firing<'a> {
    Firing {
        event_id: EventId::from_u128(1),
        trigger,
        at: 1_767_225_600_123,
        call_id: CallId::from_u128(2),
        request_id,
        tool: "data_analysis",
        ended,
        detail: None,
        task: None,
        seq: None,
        cursor: None,
    }
}

fn ended(outcome: Outcome, payload: Option<Payload<'_>>) -> Option<Ended<'_>> {
    Some(Ended { outcome, reason: None, payload })
}

fn text(body: Vec<u8>) -> String {
    String::from_utf8(body).unwrap()
}

#[test]
fn members_stand_in_their_order() {
    let id = RequestId::string("123").unwrap();
    let result = raw_json(b"{\"content\":[]}").unwrap();
    let mut firing = firing(&Trigger::Completed, &id, ended(Outcome::Completed, Some(Payload::Result(result))));
    let head = format!(
        r#"{{"eventId":"{EVENT}","name":"tool_call.completed","timestamp":"2026-01-01T00:00:00.123Z","data":{{"callId":"{CALL}","requestId":"123","tool":"data_analysis","route":"primary","trigger":"completed","outcome":{{"status":"completed","result":{{"content":[]}}}}"#
    );
    let body = Body::new(&firing, DEFAULT_MAX_BODY).for_route("primary");
    assert_eq!(text(body), format!("{head}}}}}"));

    firing.task = Some(TaskView { id: "t1", status: "completed" });
    firing.seq = Some(5);
    firing.cursor = Some("c-1");
    let body = Body::new(&firing, DEFAULT_MAX_BODY).for_route("primary");
    assert_eq!(text(body), format!(r#"{head},"taskId":"t1","taskStatus":"completed","seq":5}},"cursor":"c-1"}}"#));
}

#[test]
fn errors_reasons_and_triggers_of_a_running_call() {
    let id = RequestId::from(0_i64);
    let error = raw_json(br#"{"code":-32603,"message":"x","data":{"n":1.0}}"#).unwrap();
    let lost = Ended { outcome: Outcome::Failed, reason: Some(Reason::ServerLost), payload: None };
    for (trigger, ended, want) in [
        (
            Trigger::Failed,
            ended(Outcome::Failed, Some(Payload::Error(error))),
            r#""trigger":"failed","outcome":{"status":"failed","error":{"code":-32603,"message":"x","data":{"n":1.0}}}}}"#,
        ),
        (Trigger::Failed, Some(lost), r#""trigger":"failed","outcome":{"status":"failed","reason":"server_lost"}}}"#),
        (
            Trigger::Cancelled,
            ended(Outcome::Cancelled, None),
            r#""trigger":"cancelled","outcome":{"status":"cancelled"}}}"#,
        ),
        (Trigger::Streaming, None, r#""trigger":"streaming"}}"#),
        (Trigger::Disconnected, None, r#""trigger":"io.tidings/disconnected"}}"#),
    ] {
        let body = text(Body::new(&firing(&trigger, &id, ended), DEFAULT_MAX_BODY).for_route("r"));
        let want = format!(r#""requestId":0,"tool":"data_analysis","route":"r",{want}"#);
        assert!(body.ends_with(&want), "{body}\n{want}");
        assert!(body.contains(&format!(r#""name":"{}","#, trigger.webhook_name())));
    }
}

#[test]
fn fallback_routes_differ_by_route_alone() {
    let id = RequestId::from(7_i64);
    let firing = firing(&Trigger::Timeout, &id, ended(Outcome::Timeout, None));
    let body = Body::new(&firing, DEFAULT_MAX_BODY);
    let (first, second) = (text(body.for_route("a\"\\b")), text(body.for_route("second")));
    assert!(first.contains(r#""route":"a\"\\b","#));
    assert_eq!(first.replace(r#""route":"a\"\\b""#, r#""route":"second""#), second);
}

/// Field report B61, and what else a serialiser would change.
#[test]
fn payload_bytes_are_the_tools_own() {
    let big = "x".repeat(1 << 20);
    let id = RequestId::from(1_i64);
    for value in [
        "1.0",
        "9007199254740993",
        "18446744073709551615",
        "123456789012345678901234567890",
        "1e400",
        "1E2",
        "-0",
        "0.1",
        "9007199254740991.0",
        "-1.7976931348623157e308",
        &format!("-17976931348623157{}", "0".repeat(292)),
        "\"\u{2028}\u{2029}\"",
        r#""\ud800""#,
        r#""\u0061\/\u00e9""#,
        "[ 1 ,\n\t2 ]",
        r#"{"a":1,"a":2}"#,
        &format!("\"{big}\""),
    ] {
        let result = format!(r#"{{ "structuredContent" : {value} }}"#);
        let class = classify_result(result.as_bytes());
        let firing = firing(&Trigger::Completed, &id, ended(class.outcome, class.result.map(Payload::Result)));
        let body = text(Body::new(&firing, 2 << 20).for_route("r"));
        assert!(body.ends_with(&format!(r#""outcome":{{"status":"completed","result":{result}}}}}}}"#)), "{value:.40}");
    }
}

#[test]
fn body_over_the_limit_tells_size_and_where_to_get_the_whole() {
    let id = RequestId::from(1_i64);
    let result = format!(r#"{{"content":[{}]}}"#, "1".repeat(1000));
    let raw = raw_json(result.as_bytes()).unwrap();
    let mut firing = firing(&Trigger::Completed, &id, ended(Outcome::Completed, Some(Payload::Result(raw))));
    firing.task = Some(TaskView { id: "t", status: "completed" });
    firing.seq = Some(9);
    firing.cursor = Some("c");
    let whole = Body::new(&firing, usize::MAX).for_route("r");
    // The limit is exact.
    assert_eq!(Body::new(&firing, whole.len()).for_route("r"), whole);
    let cut = text(Body::new(&firing, whole.len() - 1).for_route("r"));
    let tail = r#""outcome":{"status":"completed","result":{"truncated":true,"bytes":1014,"taskId":"t","cursor":"c"}},"taskId":"t","taskStatus":"completed","seq":9},"cursor":"c"}"#;
    assert!(cut.ends_with(tail), "{cut}");
    assert!(cut.contains(r#""route":"r","trigger":"completed","#));
    // A longer route id takes part in the count.
    assert!(text(Body::new(&firing, whole.len()).for_route("rr")).contains("truncated"));
    // Nothing more can be left out.
    assert_eq!(text(Body::new(&firing, 0).for_route("r")), cut);
}

#[test]
fn truncated_error_keeps_its_name_and_optional_members_stay_away() {
    let id = RequestId::from(1_i64);
    let error = format!(r#"{{"code":1,"message":"{}"}}"#, "é".repeat(500));
    let raw = raw_json(error.as_bytes()).unwrap();
    let ended = Ended { outcome: Outcome::Failed, reason: None, payload: Some(Payload::Error(raw)) };
    let body = text(Body::new(&firing(&Trigger::Failed, &id, Some(ended)), 500).for_route("r"));
    // `{"code":1,"message":""}` is 23 bytes, and each é is two.
    assert!(body.ends_with(r#""outcome":{"status":"failed","error":{"truncated":true,"bytes":1023}}}}"#), "{body}");
    assert!(body.len() <= 500);
}

#[test]
fn only_whole_json_values_become_payloads() {
    for bad in [&b""[..], b"{", b"{}}", b"\xff", b"nul", b"1 2"] {
        assert!(raw_json(bad).is_none(), "{bad:?}");
    }
    assert_eq!(raw_json(b" [1.0] \n").unwrap().get(), "[1.0]");
}

fn config(text: &str) -> NotificationConfig {
    NotificationConfig::parse(text.as_bytes(), &ConfigLimits::stored(), &AcceptStored).unwrap()
}

#[test]
fn acknowledgement_names_the_accepted_and_the_ignored() {
    let sep =
        config(r#"{"routes":[{"id":"primary","type":"webhook","endpoint":"https://h","triggers":["completed"]}]}"#);
    let id = RequestId::string("123").unwrap();
    assert_eq!(
        acknowledgement_json(&id, &sep, CallId::from_u128(2)),
        format!(r#"{{"requestId":"123","acceptedRoutes":["primary"],"callId":"{CALL}"}}"#)
    );
    let two = config(
        r#"{"routes":[{"id":"a","type":"message","triggers":["completed","p\"q"]},
                      {"id":"b","type":"message","triggers":["failed"]}]}"#,
    );
    assert_eq!(
        acknowledgement_json(&RequestId::from(123_i64), &two, CallId::from_u128(2)),
        format!(r#"{{"requestId":123,"acceptedRoutes":["a","b"],"callId":"{CALL}","ignoredTriggers":["p\"q"]}}"#)
    );
}

#[test]
fn undelivered_firings_are_listed() {
    assert_eq!(undelivered_json(&[]), "[]");
    let entries = [
        Undelivered { trigger: &Trigger::Completed, routes: &["a", "b"], reason: UndeliveredReason::NoRoute },
        Undelivered { trigger: &Trigger::Disconnected, routes: &["a"], reason: UndeliveredReason::StoreUnavailable },
    ];
    assert_eq!(
        undelivered_json(&entries),
        r#"[{"trigger":"completed","routes":["a","b"],"reason":"no_deliverable_route"},{"trigger":"io.tidings/disconnected","routes":["a"],"reason":"store_unavailable"}]"#
    );
}

proptest! {
    /// Whatever the names hold, the body is one JSON value that says what was put in, and the payload is verbatim.
    #[test]
    fn any_names_and_any_payload(
        tool in any::<String>(), route in any::<String>(), trigger in any::<String>(), request in "\\PC{0,40}",
        task in any::<String>(), cursor in any::<String>(), digits in "-?(0|[1-9][0-9]{0,40})([.][0-9]{1,30})?",
    ) {
        let trigger = Trigger::from_name(&trigger);
        let id = RequestId::string(request.clone()).unwrap();
        let result = format!("{{\"n\": {digits} }}");
        let raw = raw_json(result.as_bytes()).unwrap();
        let mut firing = firing(&trigger, &id, ended(Outcome::Completed, Some(Payload::Result(raw))));
        firing.tool = &tool;
        firing.task = Some(TaskView { id: &task, status: "working" });
        firing.cursor = Some(&cursor);
        for max_body in [usize::MAX, 0] {
            let body = Body::new(&firing, max_body).for_route(&route);
            let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let data = &value["data"];
            prop_assert_eq!(data["tool"].as_str(), Some(tool.as_str()));
            prop_assert_eq!(data["route"].as_str(), Some(route.as_str()));
            prop_assert_eq!(data["trigger"].as_str(), Some(trigger.name()));
            prop_assert_eq!(data["requestId"].as_str(), Some(request.as_str()));
            prop_assert_eq!(data["taskId"].as_str(), Some(task.as_str()));
            prop_assert_eq!(value["cursor"].as_str(), Some(cursor.as_str()));
            if max_body == 0 {
                prop_assert_eq!(&data["outcome"]["result"]["bytes"], result.len());
            } else {
                prop_assert!(text(body).contains(&result));
            }
        }
    }
}

#[test]
fn a_message_carries_the_body_as_it_is() {
    let frame = super::message_frame(br#"{"eventId":"evt_1","data":{"n":1.0}}"#);
    let want = r#"{"jsonrpc":"2.0","method":"notifications/io.tidings/triggered","params":{"eventId":"evt_1","data":{"n":1.0}}}"#;
    assert_eq!(String::from_utf8(frame).unwrap(), want);
}

/// Each has its own members where an outcome would stand.
#[test]
fn what_is_no_outcome_has_its_own_members() {
    let id = RequestId::from(7_i64);
    let payload = raw_json(br#"{"step":1.0}"#).unwrap();
    let vendor = Trigger::from_name("com.example/step");
    let aggregate = Aggregate { group: "g".into(), on: None, rule: Rule::Any, deadline_ms: None };
    let group = Trigger::Group(Box::new(aggregate));
    for (trigger, detail, name, want) in [
        (
            &Trigger::Elapsed(5_000),
            Detail::Elapsed(5_000),
            "tool_call.elapsed",
            r#""trigger":"elapsedMs","elapsedMs":5000}}"#,
        ),
        (
            &Trigger::Every(10_000),
            Detail::Every(10_000, 3),
            "tool_call.every",
            r#""trigger":"everyMs","everyMs":10000,"count":3}}"#,
        ),
        (
            &vendor,
            Detail::Payload(payload),
            "com.example/step",
            r#""trigger":"com.example/step","payload":{"step":1.0}}}"#,
        ),
        (
            &group,
            Detail::Group { report: r#"{"a":1}"#, met: true },
            "tool_call.group",
            r#""trigger":"group","group":{"a":1}}}"#,
        ),
        (
            &group,
            Detail::Group { report: "{}", met: false },
            "tool_call.group_unmet",
            r#""trigger":"group","group":{}}}"#,
        ),
    ] {
        let firing = Firing { detail: Some(detail), ..firing(trigger, &id, None) };
        let body = text(Body::new(&firing, DEFAULT_MAX_BODY).for_route("r"));
        assert!(body.ends_with(want), "{body}");
        assert!(body.contains(&format!(r#""name":"{name}""#)), "{body}");
        let small = text(Body::new(&firing, 1).for_route("r"));
        assert_eq!(
            small.contains(r#""payload":{"truncated":true,"bytes":12}"#),
            matches!(detail, Detail::Payload(_)),
            "{small}"
        );
    }
}

#[test]
fn redaction_is_of_data_only_and_leaves_what_tells_who_it_is() {
    let id = RequestId::from(7_i64);
    let result = raw_json(br#"{"content":[{"token":"t","n":1.0}],"name":"x"}"#).unwrap();
    let whole = firing(&Trigger::Completed, &id, ended(Outcome::Completed, Some(Payload::Result(result))));
    let redaction = Redaction::parse(["token", "name", "route", "/outcome/result/content/0/n", "/requestId"]).unwrap();
    let body = Body::new(&whole, DEFAULT_MAX_BODY);
    let out = text(body.redacted_for_route("first", &redaction));
    assert!(
        out.contains(r#""result":{"content":[{"token":"[redacted]","n":"[redacted]"}],"name":"[redacted]"}"#),
        "{out}"
    );
    assert!(out.contains(r#""name":"tool_call.completed""#) && out.contains(r#""requestId":"[redacted]""#), "{out}");
    assert!(out.contains(r#""route":"first""#), "{out}");
    // The next route's body is made of the whole one, with its own redaction.
    let first = text(body.for_route("first"));
    assert_eq!(redact_body(&first, &redaction).unwrap(), out);
    assert_eq!(redact_body(&first, &Redaction::default()).unwrap(), first);
    assert_eq!(redact_body("{}", &redaction), None);
}

/// What redaction makes longer than the limit goes out truncated, and what it makes short enough goes out whole.
#[test]
fn the_limit_is_of_what_is_sent() {
    let id = RequestId::from(7_i64);
    let long = format!(r#"{{"k":"{}"}}"#, "x".repeat(1_000));
    let many = format!("[{}]", vec![r#"{"k":0}"#; 100].join(","));
    let redaction = Redaction::parse(["k"]).unwrap();
    for (raw, max, whole) in [(&long, 700, true), (&long, 100, false), (&many, 1_100, false), (&many, 5_000, true)] {
        let payload = Some(Payload::Result(raw_json(raw.as_bytes()).unwrap()));
        let firing = firing(&Trigger::Completed, &id, ended(Outcome::Completed, payload));
        let body = text(Body::new(&firing, max).redacted_for_route("r", &redaction));
        assert_eq!(!body.contains("\"truncated\":true"), whole, "{max}");
    }
}
