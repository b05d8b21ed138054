//! The policy: allow, deny, rewrite, and one that fails.

use std::sync::{Arc, Mutex};

use crate::support::{FaultStore, local, over, wait};
use tidings::proto::id::RequestId;
use tidings::{BeginCall, Call, Deciding, Decision, Error, ErrorCode, Hub, Policy, PolicyRequest};

type Rule = fn(&PolicyRequest<'_>) -> Result<Decision, String>;

/// Principal, tool, session, config.
type Asked = (String, String, Option<String>, String);

#[derive(Debug)]
struct Scripted {
    rule: Rule,
    asked: Mutex<Vec<Asked>>,
}

impl Policy for Scripted {
    fn decide<'a>(&'a self, request: PolicyRequest<'a>) -> Deciding<'a> {
        let config = String::from_utf8_lossy(request.config).into_owned();
        let session = request.session.map(str::to_owned);
        let asked = (request.principal.to_owned(), request.tool.to_owned(), session, config);
        self.asked.lock().expect("asked").push(asked);
        Box::pin(async move { (self.rule)(&request).map_err(Into::into) })
    }
}

fn hub(rule: Rule) -> (Hub, Arc<Scripted>) {
    let policy = Arc::new(Scripted { rule, asked: Mutex::default() });
    let mut options = local();
    options.policy = Some(Arc::clone(&policy) as Arc<dyn Policy>);
    (over(&FaultStore::new(), options), policy)
}

const CONFIG: &str = r#"{"routes":[{"id":"a","type":"callback","endpoint":"audit","triggers":["completed"]}]}"#;

fn begin(hub: &Hub, config: Option<&str>) -> Result<Call, Error> {
    wait(hub.begin_call(BeginCall {
        config: config.map(str::as_bytes),
        route_types: &["callback"],
        principal: "ann",
        session: Some("s"),
        peer: None,
        open: &[],
        request_id: &RequestId::from(7_i64),
        tool: "payroll",
        timeout: None,
        task: None,
    }))
}

fn fault(error: &Error) -> (&'static str, String) {
    let fault = &error.faults().expect("faults").listed()[0];
    (fault.rule, fault.message.clone())
}

#[test]
fn what_it_allows_has_the_names_that_it_opens() {
    let (hub, policy) = hub(|request| {
        let open = if request.principal == "ann" { vec!["audit".to_owned()] } else { Vec::new() };
        Ok(Decision::Allow { open })
    });
    assert_eq!(begin(&hub, Some(CONFIG)).expect("accepted").accepted_routes(), ["a"]);
    assert_eq!(
        *policy.asked.lock().expect("asked"),
        [("ann".into(), "payroll".into(), Some("s".into()), CONFIG.into())]
    );
    begin(&hub, None).expect("a call without a config is none of its business");
    assert_eq!(policy.asked.lock().expect("asked").len(), 1);
    let (closed, _) = self::hub(|_| Ok(Decision::Allow { open: vec!["other".to_owned()] }));
    assert_eq!(fault(&begin(&closed, Some(CONFIG)).err().expect("refused")).0, "not_open");
}

#[test]
fn what_it_denies_is_told_why() {
    let (hub, _) = hub(|_| Ok(Decision::Deny { reason: "not you".to_owned() }));
    let error = begin(&hub, Some(CONFIG)).err().expect("refused");
    assert_eq!((error.code(), fault(&error)), (ErrorCode::InvalidConfig, ("denied", "not you".to_owned())));
}

#[test]
fn what_it_rewrites_keeps_the_rules_too() {
    let (hub, _) = hub(|request| {
        let config = String::from_utf8_lossy(request.config).replace(r#""a""#, r#""b""#).into_bytes();
        Ok(Decision::Rewrite { config, open: vec!["audit".to_owned()] })
    });
    assert_eq!(begin(&hub, Some(CONFIG)).expect("accepted").accepted_routes(), ["b"]);
    let (bad, _) = self::hub(|_| Ok(Decision::Rewrite { config: b"{}".to_vec(), open: Vec::new() }));
    assert_eq!(fault(&begin(&bad, Some(CONFIG)).err().expect("refused")).0, "missing");
}

#[test]
fn one_that_fails_refuses() {
    let (hub, _) = hub(|_| Err("the directory is down".to_owned()));
    let error = begin(&hub, Some(CONFIG)).err().expect("refused");
    assert_eq!(error.code(), ErrorCode::Internal);
    assert!(!error.to_string().contains("directory"), "that is for the log");
}
