use tidings_proto::address::{Endpoint, Policy};
use tidings_proto::config::{AcceptStored, ConfigChecks, ConfigLimits, Faults, NotificationConfig, Violation, rule};
use tidings_proto::route::asking;
use tidings_proto::webhook::{HeaderPolicy, Secret, StaticHeaders};

use crate::oracle::json::{Value, points};

const ROUTE_TYPES: [&str; 4] = ["webhook", "message", "signal", "callback"];

/// The rules that a server checks beside the shape: all of them the core's own.
struct AsAServer;

impl ConfigChecks for AsAServer {
    fn endpoint(&self, route_type: &str, endpoint: &str) -> Result<(), Violation> {
        if route_type != "webhook" {
            return Ok(());
        }
        let fault = match Endpoint::parse(endpoint, &Policy::default()) {
            Ok(_) => return Ok(()),
            Err(fault) => fault,
        };
        Err(Violation { rule: fault.code(), message: fault.to_string() })
    }

    fn no_endpoint(&self, _route_type: &str) -> Result<(), Violation> {
        Ok(())
    }

    fn secret(&self, secret: &str) -> Result<(), Violation> {
        Secret::parse(secret).map(drop).map_err(|fault| Violation { rule: fault.code(), message: fault.to_string() })
    }

    fn header(&self, name: &str, value: &str) -> Result<(), Violation> {
        let policy = HeaderPolicy { allow: vec!["authorization".to_owned(), "x-*".to_owned()] };
        match StaticHeaders::check([(name, value)], &policy) {
            Ok(_) => Ok(()),
            Err(faults) => Err(Violation {
                rule: faults.first().map_or("header", |fault| fault.code()),
                message: faults.first().map(ToString::to_string).unwrap_or_default(),
            }),
        }
    }
}

/// A `notificationConfig` from a client: any bytes.
pub fn config(data: &[u8]) {
    let limits = ConfigLimits::for_route_types(ROUTE_TYPES);
    let tree = std::str::from_utf8(data).ok().and_then(Value::parse);
    match NotificationConfig::parse(data, &limits, &AsAServer) {
        Ok(config) => {
            accepted(&config, &limits);
            agrees(&config, &tree.expect("what was accepted is JSON that nests at most 16 deep"));
        }
        Err(faults) => refused(data, &faults, tree.as_ref()),
    }
}

/// What was accepted is stored and read back, and keeps to the limits.
fn accepted(config: &NotificationConfig, limits: &ConfigLimits) {
    let stored = config.to_json();
    let again = NotificationConfig::parse(stored.as_bytes(), &ConfigLimits::stored(), &AcceptStored);
    assert_eq!(again.as_ref(), Ok(config), "read back from the store as another");
    assert_eq!(again.map(|again| again.to_json()).as_ref(), Ok(&stored));
    assert!((1..=limits.max_routes).contains(&config.routes.len()));
    let shown = format!("{config:?}");
    for (index, route) in config.routes.iter().enumerate() {
        assert!((1..=limits.max_triggers).contains(&route.triggers.len()));
        assert!(route.headers.len() <= limits.max_headers && route.redact.len() <= limits.max_redacted);
        assert!(!config.routes[..index].iter().any(|earlier| earlier.id == route.id), "two routes of one id");
        for secret in route.secret.iter().chain(route.headers.iter().map(|(_, value)| value)) {
            // Short ones may stand in what is shown for another reason.
            let (text, elsewhere) = (secret.expose(), stored.matches(secret.expose()).count() > 1);
            assert!(text.len() < 16 || elsewhere || !shown.contains(text), "a secret is shown");
        }
        for wanted in &route.triggers {
            let asks = asking(config, &wanted.trigger, Some("{}"));
            assert!(asks.len() <= config.routes.len());
        }
    }
}

/// A reader of its own finds the same routes.
fn agrees(config: &NotificationConfig, tree: &Value) {
    let Some(Value::Array(routes)) = tree.member(&points("routes")) else { panic!("accepted without routes") };
    assert_eq!(routes.len(), config.routes.len(), "nothing is accepted in part");
    for (tree, route) in routes.iter().zip(&config.routes) {
        for (name, want) in [("id", Some(&route.id)), ("type", Some(&route.kind)), ("fifoKey", route.fifo_key.as_ref())]
        {
            let found = match tree.member(&points(name)) {
                Some(Value::Text(text)) => Some(text.clone()),
                None => None,
                other => panic!("accepted with {name} = {other:?}"),
            };
            assert_eq!(found, want.map(|want| points(want)), "{name}");
        }
        let Some(Value::Array(triggers)) = tree.member(&points("triggers")) else { panic!("without triggers") };
        assert_eq!(triggers.len(), route.triggers.len());
    }
}

/// A refusal names each field, by a place that is there, and the rule; and never a secret.
fn refused(data: &[u8], faults: &Faults, tree: Option<&Value>) {
    assert!(faults.total() > 0 && faults.listed().len() == faults.total().min(Faults::MAX_LISTED));
    assert!(!faults.to_string().is_empty());
    assert!(Value::parse(&faults.to_json()).is_some(), "the error's data is JSON");
    let twice = faults.total() > Faults::MAX_LISTED || faults.listed().iter().any(|f| f.rule == rule::DUPLICATE_KEY);
    for fault in faults.listed() {
        assert!(!fault.message.is_empty() && !fault.rule.is_empty());
        let code = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(fault.rule.bytes().all(code), "{}", fault.rule);
        assert!(fault.message.len() < 2_048, "an answer to a hostile config stays small");
        // Where a member stands twice, the tree has another one of them than the fault.
        if let (Some(tree), false) = (tree, twice) {
            assert!(tree.at(&fault.path).is_some(), "no such place: {} ({})", fault.path, fault.rule);
        }
    }
    if tree.is_none() {
        assert_eq!(faults.total(), 1, "{faults}");
    }
    // What stands in its place as a secret, and nowhere else as something that may be quoted.
    let text = String::from_utf8_lossy(data);
    let routes = tree.and_then(|tree| tree.member(&points("routes")));
    let Some(Value::Array(routes)) = routes else { return };
    for route in routes {
        let Some(Value::Text(secret)) = route.member(&points("secret")) else { continue };
        let Some(secret) = secret.iter().map(|point| char::from_u32(*point)).collect::<Option<String>>() else {
            continue;
        };
        let told = secret.len() >= 16 && text.matches(&secret).count() == 1 && faults.to_json().contains(&secret);
        assert!(!told, "a secret is told");
    }
}
