//! What is kept, what is shown, and any text at all.

use proptest::prelude::*;

use super::*;
use crate::condition::{Condition, Operator, Test};
use crate::group::{Aggregate, Rule};
use crate::trigger::Outcome;
use crate::webhook::Jwk;

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
