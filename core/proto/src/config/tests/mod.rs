mod document;
mod routes;
mod stored;
mod triggers;

use super::*;

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
