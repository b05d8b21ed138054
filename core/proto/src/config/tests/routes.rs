//! What a route may say, member by member.

use super::*;

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
