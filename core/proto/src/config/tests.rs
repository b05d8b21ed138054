use super::*;
use crate::condition::{Condition, Operator, Test};
use crate::group::{Aggregate, Rule};
use crate::trigger::Outcome;
use crate::webhook::Jwk;
use proptest::prelude::*;

/// Stands for the operator's checks; what it refuses is told by the value itself.
struct Checks;

impl ConfigChecks for Checks {
    fn endpoint(&self, route_type: &str, endpoint: &str) -> Result<(), Violation> {
        match (route_type, endpoint) {
            ("webhook", url) if !url.starts_with("https://") || url.contains('@') => {
                Err(("endpoint_refused", "endpoint must be a public https URL".to_owned()).into())
            }
            ("message", name) if name != "session-2" => Err(("policy", "endpoint is not open".to_owned()).into()),
            _ => Ok(()),
        }
    }

    fn no_endpoint(&self, route_type: &str) -> Result<(), Violation> {
        if route_type == "callback" { Err(("no_session", "asked for callback".into()).into()) } else { Ok(()) }
    }

    fn secret(&self, secret: &str) -> Result<(), Violation> {
        let ok = secret.starts_with("whsec_");
        if ok { Ok(()) } else { Err(("secret_malformed", "secret must begin with whsec_".to_owned()).into()) }
    }

    fn header(&self, name: &str, value: &str) -> Result<(), Violation> {
        let ok = name.is_ascii() && !name.contains(['\r', '\n']) && value.bytes().all(|b| (32..127).contains(&b));
        if ok { Ok(()) } else { Err(("header_refused", "header must be visible ASCII".to_owned()).into()) }
    }
}

fn limits() -> ConfigLimits {
    ConfigLimits::for_route_types(["webhook", "message", "signal"])
}

fn parse(text: &str) -> Result<NotificationConfig, Faults> {
    NotificationConfig::parse(text.as_bytes(), &limits(), &Checks)
}

/// A config with one webhook route that has `more` after its required members.
fn webhook(more: &str) -> String {
    format!(r#"{{"routes":[{{"id":"p","type":"webhook","endpoint":"https://h","triggers":["completed"]{more}}}]}}"#)
}

/// Where and which.
fn faults(text: &str) -> Vec<(String, &'static str)> {
    let faults = parse(text).expect_err(text);
    assert_eq!(faults.total(), faults.listed().len());
    faults.listed().iter().map(|fault| (fault.path.clone(), fault.rule)).collect()
}

fn assert_faults(text: &str, want: &[(&str, &str)]) {
    let got = faults(text);
    let got: Vec<_> = got.iter().map(|(path, rule)| (path.as_str(), *rule)).collect();
    assert_eq!(got, want, "{text}");
}

#[test]
fn the_example_of_sep_992_is_accepted_as_it_stands() {
    let config = parse(
        r#"{
      "routes": [
        {
          "id": "primary",
          "type": "webhook",
          "endpoint": "https://example.com/notifications",
          "triggers": ["completed", "failed"]
        }
      ]
    }"#,
    )
    .unwrap();
    assert_eq!(config.timeout_ms, None);
    assert_eq!(config.route_ids().collect::<Vec<_>>(), ["primary"]);
    let route = &config.routes[0];
    assert_eq!(route.kind, "webhook");
    assert_eq!(route.endpoint.as_deref(), Some("https://example.com/notifications"));
    assert_eq!(route.triggers, [Trigger::Completed.into(), Trigger::Failed.into()]);
    assert!(route.secret.is_none() && route.headers.is_empty());
    assert!(route.deadline_ms.is_none() && route.fifo_key.is_none());
    assert!(config.ignored_triggers().is_empty());
}

#[test]
fn everything_that_is_served_is_read() {
    let config = parse(
        r#"{"timeoutMs":1e3,"future":{"routes":[]},"routes":[
            {"id":"!~","type":"webhook","endpoint":"https://h/x?token=t","triggers":["timeout","cancelled"],
             "secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","headers":{"X-B":"2","X-A":"1"},
             "deadlineMs":1000,"fifoKey":"k","x":null},
            {"id":"m","type":"message","endpoint":"session-2","triggers":["streaming","io.tidings/disconnected"]},
            {"id":"s","type":"signal","signal":"SIGRTMIN+3","triggers":["completed"]}]}"#,
    )
    .unwrap();
    assert_eq!(config.timeout_ms, Some(1000));
    assert_eq!(config.route_ids().collect::<Vec<_>>(), ["!~", "m", "s"]);
    let route = &config.routes[0];
    assert_eq!(route.secret.as_ref().unwrap().expose(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let headers: Vec<_> = route.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("X-B", "2"), ("X-A", "1")]);
    assert_eq!((route.deadline_ms, route.fifo_key.as_deref()), (Some(1000), Some("k")));
    assert_eq!(config.routes[1].triggers, [Trigger::Streaming.into(), Trigger::Disconnected.into()]);
    assert_eq!((config.routes[2].endpoint.as_deref(), config.routes[2].signal), (None, Some(Doorbell::RealTime(3))));
}

#[test]
fn unknown_triggers_are_kept_and_named_once() {
    let config = parse(
        r#"{"routes":[{"id":"a","type":"message","triggers":["paused","completed","com.example/x","paused"]},
                      {"id":"b","type":"message","triggers":["Completed","com.example/x"]}]}"#,
    )
    .unwrap();
    // The tool may fire a vendor's.
    assert_eq!(config.ignored_triggers(), ["paused", "Completed"]);
    assert_eq!(config.routes[0].triggers.len(), 4);
}

/// Field report B31.
#[test]
fn one_unsupported_type_anywhere_rejects_the_whole() {
    assert_faults(
        r#"{"routes":[{"id":"p","type":"pager","triggers":["completed"]}]}"#,
        &[("/routes/0/type", "unsupported_type")],
    );
    let only_webhook = ConfigLimits::for_route_types(["webhook"]);
    let text = r#"{"routes":[{"id":"a","type":"webhook","endpoint":"https://h","triggers":["completed"]},
                             {"id":"b","type":"signal","triggers":["completed"]}]}"#;
    let faults = NotificationConfig::parse(text.as_bytes(), &only_webhook, &Checks).unwrap_err();
    assert_eq!(faults.total(), 1);
    assert_eq!(faults.listed()[0].path, "/routes/1/type");
    assert_eq!(faults.listed()[0].message, "type \"signal\" is not supported; supported: webhook");
    let nothing = NotificationConfig::parse(webhook("").as_bytes(), &ConfigLimits::default(), &Checks).unwrap_err();
    assert_eq!(nothing.listed()[0].message, "type \"webhook\" is not supported; supported: none");
}

/// Field report B31.
#[test]
fn empty_lists_and_duplicate_ids_are_refused() {
    assert_faults(r#"{"routes":[]}"#, &[("/routes", "empty")]);
    assert_faults(
        r#"{"routes":[{"id":"a","type":"message","triggers":[]},
                      {"id":"a","type":"message","triggers":["completed"]},
                      {"id":"A","type":"message","triggers":["completed"]}]}"#,
        &[("/routes/0/triggers", "empty"), ("/routes/1/id", "duplicate_id")],
    );
}

#[test]
fn wrong_json_types_are_named_each() {
    for text in ["null", "true", "7", r#""x""#, "[]", r#"[{"routes":[]}]"#] {
        assert_faults(text, &[("", "wrong_type")]);
    }
    assert_faults("{}", &[("", "missing")]);
    assert_faults(r#"{"routes":{}}"#, &[("/routes", "wrong_type")]);
    assert_faults(r#"{"routes":null,"timeoutMs":"1"}"#, &[("/routes", "wrong_type"), ("/timeoutMs", "wrong_type")]);
    assert_faults(
        r#"{"routes":["a",{"id":1,"type":2,"endpoint":3,"triggers":4,"secret":5,"headers":6,"deadlineMs":"7",
            "fifoKey":8},{"id":"a","type":"message","triggers":[true,[],null,1]},{}]}"#,
        &[
            ("/routes/0", "wrong_type"),
            ("/routes/1/id", "wrong_type"),
            ("/routes/1/type", "wrong_type"),
            ("/routes/1/endpoint", "wrong_type"),
            ("/routes/1/triggers", "wrong_type"),
            ("/routes/1/secret", "wrong_type"),
            ("/routes/1/headers", "wrong_type"),
            ("/routes/1/deadlineMs", "wrong_type"),
            ("/routes/1/fifoKey", "wrong_type"),
            ("/routes/2/triggers/0", "wrong_type"),
            ("/routes/2/triggers/1", "wrong_type"),
            ("/routes/2/triggers/2", "wrong_type"),
            ("/routes/2/triggers/3", "wrong_type"),
            ("/routes/3", "missing"),
            ("/routes/3", "missing"),
            ("/routes/3", "missing"),
        ],
    );
    let message = &parse(r#"{"routes":{}}"#).unwrap_err().listed()[0].message.clone();
    assert_eq!(message, "routes must be an array, not an object");
}

#[test]
fn ids_are_one_to_128_visible_ascii_characters() {
    for (id, ok) in [
        ("a".repeat(128), true),
        ("!~".into(), true),
        ("a".repeat(129), false),
        (String::new(), false),
        ("a b".into(), false),
        (r"a\n".into(), false),
        ("é".into(), false),
        (r"\u007f".into(), false),
        (r"\u0061".into(), true),
    ] {
        let text = format!(r#"{{"routes":[{{"id":"{id}","type":"message","triggers":["completed"]}}]}}"#);
        match parse(&text) {
            Ok(_) => assert!(ok, "{id}"),
            Err(_) => {
                assert!(!ok, "{id}");
                assert_faults(&text, &[("/routes/0/id", "pattern")]);
            }
        }
    }
}

#[test]
fn endpoints_follow_their_type() {
    let route = |kind: &str, endpoint: &str| {
        format!(r#"{{"routes":[{{"id":"a","type":"{kind}","triggers":["completed"]{endpoint}}}]}}"#)
    };
    assert_faults(&route("webhook", ""), &[("/routes/0", "missing")]);
    assert_faults(&route("webhook", r#","endpoint":"https://u:p@h/""#), &[("/routes/0/endpoint", "endpoint_refused")]);
    assert_faults(&route("webhook", r#","endpoint":"""#), &[("/routes/0/endpoint", "endpoint_refused")]);
    assert_faults(&route("webhook", r#","endpoint":null"#), &[("/routes/0/endpoint", "wrong_type")]);
    assert_faults(&route("message", r#","endpoint":"other""#), &[("/routes/0/endpoint", "policy")]);
    let signal = r#","signal":"SIGUSR2","endpoint":"4711""#;
    assert_faults(&route("signal", signal), &[("/routes/0/endpoint", "not_allowed")]);
    assert_faults(&route("signal", ""), &[("/routes/0", "missing")]);
    assert!(parse(&route("message", "")).is_ok());
    assert!(parse(&route("signal", r#","signal":"SIGUSR2""#)).is_ok());
    // A URL at the limit is 2048 characters, 8 of them the scheme.
    let url = |extra: usize| format!(r#","endpoint":"https://{}""#, "é".repeat(2040 + extra));
    assert!(parse(&route("webhook", &url(0))).is_ok());
    assert_faults(&route("webhook", &url(1)), &[("/routes/0/endpoint", "too_long")]);
}

#[test]
fn secrets_are_checked_and_may_be_required() {
    assert_faults(&webhook(r#","secret":"hunter2""#), &[("/routes/0/secret", "secret_malformed")]);
    let strict = ConfigLimits { require_secret: true, ..limits() };
    let parse_strict = |text: &str| NotificationConfig::parse(text.as_bytes(), &strict, &Checks);
    let faults = parse_strict(&webhook("")).unwrap_err();
    assert_eq!((faults.total(), faults.listed()[0].rule), (1, "secret_required"));
    assert!(parse_strict(&webhook(r#","secret":"whsec_x""#)).is_ok());
    assert!(parse_strict(r#"{"routes":[{"id":"m","type":"message","triggers":["failed"]}]}"#).is_ok());
}

/// Field report B59: refused when configured, and nothing of the value comes back.
#[test]
fn headers_are_checked_and_never_echoed() {
    for value in [r"abc\r\nX-Admin: 1", r"abc\n", r"abc\u0000", "tokén"] {
        let text = webhook(&format!(r#","headers":{{"Authorization":"{value}"}}"#));
        assert_faults(&text, &[("/routes/0/headers/Authorization", "header_refused")]);
        assert!(!format!("{:?}", parse(&text)).contains("abc"));
    }
    assert_faults(&webhook(r#","headers":{"X\r\nY":"v"}"#), &[("/routes/0/headers", "header_refused")]);
    assert_faults(&webhook(r#","headers":{"a/b":1}"#), &[("/routes/0/headers/a~1b", "wrong_type")]);
    assert_faults(&webhook(r#","headers":{"X-A":"1","x-a":"2"}"#), &[("/routes/0/headers/x-a", "duplicate_header")]);
    assert_faults(&webhook(r#","headers":{"\ud800":"1"}"#), &[("/routes/0/headers", "not_unicode")]);
    let many = |n: usize| {
        let members: Vec<_> = (0..n).map(|i| format!(r#""X-{i}":"v""#)).collect();
        webhook(&format!(r#","headers":{{{}}}"#, members.join(",")))
    };
    assert!(parse(&many(16)).is_ok());
    assert_faults(&many(17), &[("/routes/0/headers", "too_many")]);
}

#[test]
fn numbers_and_keys_have_their_bounds() {
    for (more, want) in [
        (r#","deadlineMs":999"#, ("/routes/0/deadlineMs", "too_small")),
        (r#","deadlineMs":-5"#, ("/routes/0/deadlineMs", "too_small")),
        (r#","deadlineMs":1000.5"#, ("/routes/0/deadlineMs", "wrong_type")),
        (r#","deadlineMs":1e400"#, ("/routes/0/deadlineMs", "too_big")),
        (r#","deadlineMs":9007199254740992"#, ("/routes/0/deadlineMs", "too_big")),
        (r#","deadlineMs":null"#, ("/routes/0/deadlineMs", "wrong_type")),
        (r#","fifoKey":"\ud800""#, ("/routes/0/fifoKey", "not_unicode")),
    ] {
        assert_faults(&webhook(more), &[want]);
    }
    assert_faults(&webhook("").replacen('{', r#"{"timeoutMs":0,"#, 1), &[("/timeoutMs", "too_small")]);
    assert!(parse(&webhook(&format!(r#","fifoKey":"{}""#, "é".repeat(128)))).is_ok());
    assert_faults(&webhook(&format!(r#","fifoKey":"{}""#, "k".repeat(129))), &[("/routes/0/fifoKey", "too_long")]);
}

/// RFC 7518 appendix C, Bob's key.
const P256: &str = r#""kty":"EC","crv":"P-256","x":"weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ","y":"e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck""#;
/// RFC 8037 appendix A.6, Bob's key.
const X25519: &str = r#""kty":"OKP","crv":"X25519","x":"3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08""#;

#[test]
fn a_public_key_is_one_that_can_be_encrypted_to() {
    let with = |key: &str| webhook(&format!(r#","publicKey":{{{key}}}"#));
    for (key, kid) in [
        (P256.to_owned(), None),
        (X25519.to_owned(), None),
        (format!(r#"{P256},"kid":"k1","use":"enc","alg":"ECDH-ES","key_ops":[],"x5c":["whatever"]"#), Some("k1")),
    ] {
        let config = parse(&with(&key)).unwrap();
        assert_eq!(config.routes[0].public_key.as_ref().unwrap().kid(), kid, "{key}");
        assert!(config.routes[0].seed.is_none());
    }
    for (key, member, rule) in [
        (String::new(), "", "missing"),
        (P256.replace("EC", "RSA"), "/kty", "key_type"),
        (P256.replace("EC", "oct"), "/kty", "key_type"),
        (P256.replace("P-256", "P-384"), "/crv", "key_curve"),
        (X25519.replace("X25519", "Ed25519"), "/crv", "key_curve"),
        (P256.replace("weNJ", "weN"), "/x", "key_coordinate"),
        (P256.replace("yck", "yck="), "/y", "key_coordinate"),
        (P256.replace("-AlSt", "+AlSt"), "/y", "key_coordinate"),
        (P256.replace("weNJ", "weNK"), "", "key_point"),
        (X25519.replace("3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08", &"A".repeat(43)), "", "key_point"),
        (format!(r#"{P256},"d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw""#), "/d", "key_private"),
        (format!(r#"{P256},"use":"sig""#), "/use", "key_use"),
        (format!(r#"{P256},"alg":"ECDH-ES+A256KW""#), "/alg", "key_algorithm"),
        (format!(r#"{P256},"kid":"""#), "/kid", "key_name"),
        (format!(r#"{P256},"kid":"{}""#, "k".repeat(129)), "/kid", "key_name"),
        (format!(r#"{P256},"kid":7"#), "/kid", "wrong_type"),
        (format!(r#"{P256},"kty":"EC""#), "/kty", "duplicate_key"),
    ] {
        assert_faults(&with(&key), &[(&format!("/routes/0/publicKey{member}"), rule)]);
    }
    assert_faults(&webhook(r#","publicKey":"k""#), &[("/routes/0/publicKey", "wrong_type")]);
    let elsewhere = with(P256).replace("webhook", "message").replace("https://h", "session-2");
    assert_faults(&elsewhere, &[("/routes/0/publicKey", "not_allowed")]);
    let faults = parse(&with(&P256.replace("P-256", "P-521"))).unwrap_err();
    assert_eq!(faults.listed()[0].message, "publicKey: crv must be P-256 for an EC key, X25519 for an OKP key");
}

#[test]
fn a_seed_is_kept_and_never_taken_from_a_client() {
    let seed = "A".repeat(43);
    let mut config = parse(&webhook(&format!(r#","publicKey":{{{P256},"kid":"k\\1"}},"seed":"{seed}""#))).unwrap();
    assert_eq!(config.routes[0].seed, None);
    config.routes[0].seed = Some(Seed::from_bytes([7; 32]));
    let stored = |text: &str| NotificationConfig::parse(text.as_bytes(), &ConfigLimits::stored(), &AcceptStored);
    assert_eq!(stored(&config.to_json()), Ok(config.clone()));
    assert!(!format!("{config:?}").contains("BwcH"), "neither as base64");
    assert!(!format!("{config:?}").contains("7, 7"), "nor as numbers");
}

#[test]
fn a_batch_has_its_bounds() {
    let batch = |max_events: &str, max_delay: &str| {
        webhook(&format!(r#","batch":{{"maxEvents":{max_events},"maxDelayMs":{max_delay}}}"#))
    };
    for (max_events, max_delay_ms) in [(2, 100), (100, 60_000)] {
        let config = parse(&batch(&max_events.to_string(), &max_delay_ms.to_string())).unwrap();
        assert_eq!(config.routes[0].batch, Some(Batching { max_events, max_delay_ms }));
    }
    for (max_events, max_delay, path, rule) in [
        ("1", "100", "maxEvents", "too_small"),
        ("101", "100", "maxEvents", "too_big"),
        ("2", "99", "maxDelayMs", "too_small"),
        ("2", "60001", "maxDelayMs", "too_big"),
        ("2.5", "100", "maxEvents", "wrong_type"),
        ("2", "\"100\"", "maxDelayMs", "wrong_type"),
    ] {
        assert_faults(&batch(max_events, max_delay), &[(&format!("/routes/0/batch/{path}"), rule)]);
    }
    assert_faults(&webhook(r#","batch":{}"#), &[("/routes/0/batch", "missing"), ("/routes/0/batch", "missing")]);
    assert_faults(&webhook(r#","batch":true"#), &[("/routes/0/batch", "wrong_type")]);
    // To the calling session itself, which needs no endpoint.
    let message = webhook(r#","batch":{"maxEvents":2,"maxDelayMs":100}"#)
        .replace("webhook", "message")
        .replace(r#""endpoint":"https://h","#, "");
    assert_faults(&message, &[("/routes/0/batch", "not_allowed")]);
}

/// A config whose one route lists these triggers.
fn listing(triggers: &str) -> String {
    webhook("").replace("\"completed\"", triggers)
}

#[test]
fn triggers_may_be_objects() {
    let config = parse(
        &listing(
            r#"{"on":"failed"},{"on":"com.example/x","when":[{"path":"/a~1b/0","ge":1.0},{"exists":false,"path":""}]},
           {"elapsedMs":1},{"everyMs":1e4},{"group":"g","all":64,"on":"completed"},{"group":"","any":true},
           {"group":"g","count":1,"deadlineMs":86400000}"#,
        )
        .replacen('{', r#"{"group":"g","#, 1),
    )
    .unwrap();
    assert_eq!(config.group.as_deref(), Some("g"));
    let triggers: Vec<_> = config.triggers().collect();
    assert_eq!(
        triggers[..4],
        [&Trigger::Failed, &Trigger::from_name("com.example/x"), &Trigger::Elapsed(1), &Trigger::Every(10_000)]
    );
    let aggregates: Vec<_> = triggers[4..]
        .iter()
        .map(|trigger| match trigger {
            Trigger::Group(aggregate) => aggregate.to_json(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        aggregates,
        [
            r#"{"group":"g","on":"completed","all":64}"#,
            r#"{"group":"","any":true}"#,
            r#"{"group":"g","count":1,"deadlineMs":86400000}"#,
        ]
    );
    assert_eq!(config.routes[0].triggers[1].when.len(), 2);
    assert!(config.ignored_triggers().is_empty());
}

#[test]
fn every_fault_of_a_trigger_object_is_named() {
    for (triggers, want) in [
        ("{}", &[("/routes/0/triggers/0", "missing")][..]),
        (r#"{"x":1}"#, &[("/routes/0/triggers/0", "missing")]),
        (r#"{"when":[{"path":"","exists":true}]}"#, &[("/routes/0/triggers/0", "missing")]),
        (r#"{"on":1}"#, &[("/routes/0/triggers/0/on", "wrong_type")]),
        (r#"{"on":"failed","x":1}"#, &[("/routes/0/triggers/0/x", "unknown_member")]),
        (r#"{"on":"failed","when":[]}"#, &[("/routes/0/triggers/0/when", "empty")]),
        (r#"{"on":"failed","when":{}}"#, &[("/routes/0/triggers/0/when", "wrong_type")]),
        (r#"{"on":"failed","when":["a"]}"#, &[("/routes/0/triggers/0/when/0", "wrong_type")]),
        (r#"{"on":"failed","when":[{"eq":1}]}"#, &[("/routes/0/triggers/0/when/0", "missing")]),
        (r#"{"on":"failed","when":[{"path":"/a"}]}"#, &[("/routes/0/triggers/0/when/0", "missing")]),
        (r#"{"on":"failed","when":[{"path":"a","eq":1}]}"#, &[("/routes/0/triggers/0/when/0/path", "pointer")]),
        (r#"{"on":"failed","when":[{"path":"/~2","eq":1}]}"#, &[("/routes/0/triggers/0/when/0/path", "pointer")]),
        (r#"{"on":"failed","when":[{"path":1,"eq":1}]}"#, &[("/routes/0/triggers/0/when/0/path", "wrong_type")]),
        (r#"{"on":"failed","when":[{"path":"/a","eq":1,"ne":2}]}"#, &[("/routes/0/triggers/0/when/0", "too_many")]),
        (
            r#"{"on":"failed","when":[{"path":"/a","eq":1,"like":2}]}"#,
            &[("/routes/0/triggers/0/when/0/like", "unknown_member")],
        ),
        (
            r#"{"on":"failed","when":[{"path":"/a","exists":1},{"path":"/a","in":1},{"path":"/a","lt":null},
            {"path":"/a","ge":[]},{"path":"/a","prefix":1}]}"#,
            &[
                ("/routes/0/triggers/0/when/0/exists", "operand"),
                ("/routes/0/triggers/0/when/1/in", "operand"),
                ("/routes/0/triggers/0/when/2/lt", "operand"),
                ("/routes/0/triggers/0/when/3/ge", "operand"),
                ("/routes/0/triggers/0/when/4/prefix", "operand"),
            ],
        ),
        (r#"{"elapsedMs":0}"#, &[("/routes/0/triggers/0/elapsedMs", "too_small")]),
        (r#"{"elapsedMs":"1"}"#, &[("/routes/0/triggers/0/elapsedMs", "wrong_type")]),
        (r#"{"elapsedMs":1,"on":"failed"}"#, &[("/routes/0/triggers/0/on", "unknown_member")]),
        (r#"{"everyMs":9999}"#, &[("/routes/0/triggers/0/everyMs", "too_small")]),
        (r#"{"group":"g"}"#, &[("/routes/0/triggers/0", "group_rule")]),
        (r#"{"group":"g","all":1,"count":1}"#, &[("/routes/0/triggers/0", "group_rule")]),
        (r#"{"group":"g","all":65}"#, &[("/routes/0/triggers/0/all", "too_big")]),
        (r#"{"group":"g","count":0}"#, &[("/routes/0/triggers/0/count", "too_small")]),
        (r#"{"group":"g","any":false}"#, &[("/routes/0/triggers/0/any", "wrong_type")]),
        (r#"{"group":1,"any":true}"#, &[("/routes/0/triggers/0/group", "wrong_type")]),
        (r#"{"group":"g","any":true,"on":"streaming"}"#, &[("/routes/0/triggers/0/on", "outcome")]),
        (r#"{"group":"g","any":true,"deadlineMs":999}"#, &[("/routes/0/triggers/0/deadlineMs", "too_small")]),
        (r#"{"group":"g","any":true,"deadlineMs":86400001}"#, &[("/routes/0/triggers/0/deadlineMs", "too_big")]),
    ] {
        assert_faults(&listing(triggers), want);
    }
    let condition = r#"{"path":"/a","exists":true}"#;
    let many = |n: usize| listing(&format!(r#"{{"on":"failed","when":[{}]}}"#, vec![condition; n].join(",")));
    assert!(parse(&many(16)).is_ok());
    assert_faults(&many(17), &[("/routes/0/triggers/0/when", "too_many")]);
    let path = |n: usize| listing(&format!(r#"{{"on":"failed","when":[{{"path":"/{}","eq":1}}]}}"#, "é".repeat(n)));
    assert!(parse(&path(511)).is_ok());
    assert_faults(&path(512), &[("/routes/0/triggers/0/when/0/path", "too_long")]);
    assert_faults(
        &webhook("").replacen('{', &format!(r#"{{"group":"{}","#, "g".repeat(129)), 1),
        &[("/group", "too_long")],
    );
}

#[test]
fn what_to_redact_is_checked() {
    let route = |redact: &str| webhook(&format!(r#","redact":{redact}"#));
    assert_eq!(parse(&route(r#"["/outcome/result","token"]"#)).unwrap().routes[0].redact, ["/outcome/result", "token"]);
    assert!(parse(&route("[]")).is_ok());
    for (redact, want) in [
        (r#""token""#, ("/routes/0/redact", "wrong_type")),
        ("[1]", ("/routes/0/redact/0", "wrong_type")),
        (r#"["a",""]"#, ("/routes/0/redact/1", "pointer")),
        (r#"["/~"]"#, ("/routes/0/redact/0", "pointer")),
        (r#"["/route"]"#, ("/routes/0/redact/0", "not_allowed")),
        (r#"["/callId"]"#, ("/routes/0/redact/0", "not_allowed")),
    ] {
        assert_faults(&route(redact), &[want]);
    }
    let many = |n: usize| route(&format!("[{}]", vec![r#""a""#; n].join(",")));
    assert!(parse(&many(32)).is_ok());
    assert_faults(&many(33), &[("/routes/0/redact", "too_many")]);
}

#[test]
fn members_named_twice_are_refused_where_they_are_read() {
    assert_faults(
        r#"{"routes":[{"id":"a","\u0069d":"b","type":"message","triggers":["failed"],"headers":{"X":"1","X":"1"}}],
            "a":1,"a":2,"a":3,"routes":[]}"#,
        &[
            ("/a", "duplicate_key"),
            ("/routes", "duplicate_key"),
            ("/routes/0/id", "duplicate_key"),
            ("/routes/0/headers/X", "duplicate_key"),
        ],
    );
    // Inside what is ignored nothing is read, so nothing is ambiguous.
    assert!(parse(&webhook(r#","x":{"a":1,"a":2}"#)).is_ok());
}

/// Field report B59: 10,000 routes in one call.
#[test]
fn long_lists_are_one_fault() {
    let wide = ConfigLimits { max_bytes: usize::MAX, ..limits() };
    let text = format!(r#"{{"routes":[{}{{}}]}}"#, "{},".repeat(9_999));
    let faults = NotificationConfig::parse(text.as_bytes(), &wide, &Checks).unwrap_err();
    assert_eq!(faults.total(), 1);
    assert_eq!(faults.listed()[0].message, "routes has 10000 elements, at most 8 are allowed");
    assert_faults(&text, &[("", "too_large")]);

    let route = |i: usize| format!(r#"{{"id":"r{i}","type":"message","triggers":["completed"]}}"#);
    let routes = |n: usize| format!(r#"{{"routes":[{}]}}"#, (0..n).map(route).collect::<Vec<_>>().join(","));
    assert!(parse(&routes(8)).is_ok());
    assert_faults(&routes(9), &[("/routes", "too_many")]);

    let triggers = |n: usize| webhook("").replace("\"completed\"", &vec!["\"failed\""; n].join(","));
    assert!(parse(&triggers(16)).is_ok());
    assert_faults(&triggers(17), &[("/routes/0/triggers", "too_many")]);
}

#[test]
fn size_and_depth_are_bounded_before_anything_is_read() {
    let padded = |size: usize| {
        let text = webhook("");
        format!("{text}{}", " ".repeat(size - text.len()))
    };
    assert!(parse(&padded(16_384)).is_ok());
    assert_faults(&padded(16_385), &[("", "too_large")]);
    let message = &parse(&padded(16_385)).unwrap_err().listed()[0].message.clone();
    assert_eq!(message, "notificationConfig has 16385 bytes, at most 16384 are allowed");

    let nested =
        |depth: usize| webhook("").replacen('{', &format!(r#"{{"x":{}{},"#, "[".repeat(depth), "]".repeat(depth)), 1);
    assert!(parse(&nested(15)).is_ok());
    assert_faults(&nested(16), &[("", "too_deep")]);
    assert_faults(&nested(8_000), &[("", "too_deep")]);
    assert_faults(&"[".repeat(16_384), &[("", "too_deep")]);
    assert_faults(&r#"{"routes":"#.repeat(1_600), &[("", "too_deep")]);

    let unbounded = NotificationConfig::parse("[".repeat(1_000_000).as_bytes(), &ConfigLimits::stored(), &Checks);
    assert_eq!(unbounded.unwrap_err().listed()[0].rule, "malformed_json");
}

#[test]
fn text_that_is_no_json_is_one_fault() {
    for text in
        ["", " ", "{", r#"{"routes":[}"#, r#"{"routes":[]}x"#, "{'routes':[]}", r#"{"routes":[],}"#, "\u{feff}{}"]
    {
        assert_faults(text, &[("", "malformed_json")]);
    }
    let faults = NotificationConfig::parse(b"{\"routes\":\"\xff\"}", &limits(), &Checks).unwrap_err();
    assert_eq!(faults.listed()[0].rule, "malformed_json");
    // The message tells the place and nothing of the text.
    let message = parse(r#"{"secret":"whsec_hunter2" hunter2}"#).unwrap_err().listed()[0].message.clone();
    assert_eq!(message, "notificationConfig is not valid JSON at line 1, column 27");
}

#[test]
fn twenty_faults_are_listed_and_all_are_counted() {
    let route = r#"{"id":1,"type":1,"triggers":1}"#;
    let text = format!(r#"{{"routes":[{}]}}"#, [route; 8].join(","));
    let faults = parse(&text).unwrap_err();
    assert_eq!((faults.listed().len(), faults.total()), (20, 24));
    let json: serde_json::Value = serde_json::from_str(&faults.to_json()).unwrap();
    assert_eq!(json["faults"].as_array().unwrap().len(), 20);
    assert_eq!(json["total"], 24);
    assert_eq!(json["faults"][19]["path"], "/routes/6/type");
}

#[test]
fn faults_as_error_data_and_as_one_line() {
    let faults = parse(r#"{"routes":[]}"#).unwrap_err();
    let want =
        r#"{"faults":[{"path":"/routes","rule":"empty","message":"routes must have at least one element"}],"total":1}"#;
    assert_eq!(faults.to_json(), want);
    assert_eq!(faults.to_string(), "notificationConfig has 1 fault: /routes: routes must have at least one element");
    assert_eq!(parse("{}").unwrap_err().to_string(), "notificationConfig has 1 fault: routes is required");
}

#[test]
fn secrets_do_not_show_in_debug() {
    let text = webhook(r#","secret":"whsec_hunter2","headers":{"X-Key":"hunter2"}"#)
        .replace("https://h", "https://h.example/services/hunter2?token=hunter2");
    let shown = format!("{:?}", parse(&text).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("https://h.example") && shown.contains("X-Key"), "{shown}");
}

#[test]
fn stored_form_is_canonical_and_reads_back() {
    let more =
        r#","headers":{"X-B":"2","X-A":"1"},"secret":"whsec_x","fifoKey":"\"k\"","deadlineMs":1000.0,"unknown":1"#;
    let config = parse(&webhook(more).replacen('{', r#"{"timeoutMs":5,"#, 1)).unwrap();
    let stored = config.to_json();
    assert_eq!(
        stored,
        r#"{"routes":[{"id":"p","type":"webhook","endpoint":"https://h","triggers":["completed"],"secret":"whsec_x","headers":{"X-B":"2","X-A":"1"},"deadlineMs":1000,"fifoKey":"\"k\""}],"timeoutMs":5}"#
    );
    let back = NotificationConfig::parse(stored.as_bytes(), &ConfigLimits::stored(), &AcceptStored).unwrap();
    assert_eq!(back, config);
    assert_eq!(back.to_json(), stored);
}

fn any_trigger() -> impl Strategy<Value = Wanted> {
    let path = "(/([a-z0-9é]|~0|~1){0,3}){0,3}".prop_map(|path| crate::pointer::Pointer::parse(&path).unwrap());
    let operand =
        prop_oneof![Just("[1,{}]".to_owned()), any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap())];
    let test = prop_oneof![
        any::<bool>().prop_map(Test::Exists),
        operand.prop_map(|operand| Test::Compare(Operator::Ne, operand)),
    ];
    let condition = (path, test).prop_map(|(path, test)| Condition { path, test });
    let named = any::<String>().prop_map(|name| Trigger::from_name(&name));
    let rule = prop_oneof![(1..99_u64).prop_map(Rule::All), Just(Rule::Any), (1..99_u64).prop_map(Rule::Count)];
    let aggregate =
        (any::<String>(), proptest::option::of(Just(Outcome::Failed)), rule, proptest::option::of(1..9_u64)).prop_map(
            |(group, on, rule, deadline_ms)| Trigger::Group(Box::new(Aggregate { group, on, rule, deadline_ms })),
        );
    prop_oneof![
        (named, proptest::collection::vec(condition, 0..3)).prop_map(|(trigger, when)| Wanted { trigger, when }),
        (1..1_u64 << 53).prop_map(|ms| Trigger::Elapsed(ms).into()),
        (1..1_u64 << 53).prop_map(|ms| Trigger::Every(ms).into()),
        aggregate.prop_map(Wanted::from),
    ]
}

fn any_route() -> impl Strategy<Value = Route> {
    let text = any::<String>;
    let triggers = proptest::collection::vec(any_trigger(), 1..4);
    let headers = proptest::collection::btree_map("[a-z]{1,8}", text().prop_map(Sensitive::new), 0..3);
    let options = (
        proptest::option::of(text()),
        proptest::option::of(text().prop_map(Sensitive::new)),
        proptest::option::of(0..1_u64 << 53),
        proptest::option::of(text()),
        proptest::option::of(text()),
    );
    let kind = prop_oneof![Just("webhook".to_owned()), text()];
    ("[!-~]{1,128}", kind, triggers, headers, options).prop_map(|(id, kind, triggers, headers, options)| {
        let (endpoint, secret, deadline_ms, fifo_key, peer) = options;
        let signal = (kind == "signal").then_some(Doorbell::RealTime(3));
        // A webhook has an endpoint and a signal has none in every accepted config.
        let endpoint = match kind.as_str() {
            "webhook" => Some(endpoint.unwrap_or_default()),
            "signal" => None,
            _ => endpoint,
        };
        let (headers, redact) = (headers.into_iter().collect(), vec!["/a".to_owned(), id.replace('/', "")]);
        let redact = redact.into_iter().filter(|entry| !entry.is_empty()).collect();
        let batch =
            deadline_ms.filter(|_| kind == "webhook").map(|max_delay_ms| Batching { max_events: 7, max_delay_ms });
        let key = Jwk {
            kty: Some("OKP".into()),
            crv: Some("X25519".into()),
            x: Some("3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08".into()),
            kid: fifo_key.clone().filter(|kid| (1..=128).contains(&kid.chars().count())),
            ..Jwk::default()
        };
        let public_key = (kind == "webhook").then(|| PublicKey::from_jwk(&key).unwrap());
        let seed = public_key.as_ref().map(|_| Seed::from_bytes([7; 32]));
        Route {
            id,
            kind,
            endpoint,
            peer,
            signal,
            triggers,
            secret,
            headers,
            deadline_ms,
            fifo_key,
            batch,
            redact,
            public_key,
            seed,
        }
    })
}

proptest! {
    #[test]
    fn any_accepted_config_survives_the_store(
        routes in proptest::collection::vec(any_route(), 1..4),
        timeout_ms in proptest::option::of(1..1_u64 << 53),
        group in proptest::option::of(any::<String>()),
    ) {
        let mut ids: Vec<_> = routes.iter().map(|route| route.id.clone()).collect();
        ids.sort();
        ids.dedup();
        prop_assume!(ids.len() == routes.len());
        let config = NotificationConfig { routes, timeout_ms, group };
        let back = NotificationConfig::parse(config.to_json().as_bytes(), &ConfigLimits::stored(), &AcceptStored);
        prop_assert_eq!(back, Ok(config));
    }

    #[test]
    fn never_panics_on_bytes(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = NotificationConfig::parse(&raw, &limits(), &Checks);
    }

    #[test]
    fn never_panics_on_mutated_configs(at in 0_usize..100, put in any::<u8>(), cut in 0_usize..100) {
        let mut raw = webhook(r#","secret":"whsec_x","headers":{"X":"1"},"deadlineMs":1000"#).into_bytes();
        let at = at.min(raw.len() - 1);
        raw[at] = put;
        let _ = NotificationConfig::parse(&raw, &limits(), &Checks);
        raw.truncate(cut);
        prop_assert!(NotificationConfig::parse(&raw, &limits(), &Checks).is_err());
    }

    #[test]
    fn an_error_has_between_one_and_twenty_listed_faults(raw in r#"[{}\[\]":,routesidypegn0-9 \\]{0,80}"#) {
        if let Err(faults) = parse(&raw) {
            prop_assert!((1..=20).contains(&faults.listed().len()));
            prop_assert!(faults.total() >= faults.listed().len());
        }
    }
}
