//! Whole configs, as a hub judges them when a call begins.

use serde_json::{Value, json};
use tidings::proto::id::RequestId;
use tidings::{BeginCall, Error, Hub, Options};

use super::address::policy;
use crate::Answer;
use crate::given::Given;

/// What a hub says of a config that it does not accept.
pub(crate) fn faults_told(error: &Error) -> Option<Value> {
    let faults = error.faults()?;
    let listed: Vec<_> = faults.listed().iter().map(|fault| json!({"path": fault.path, "rule": fault.rule})).collect();
    Some(json!({"faults": listed, "total": faults.total()}))
}

pub(super) fn check(given: Given<'_>) -> Answer {
    let mut options = Options::default();
    options.address = policy(given.at("allow"))?;
    if given.has("requireSecret") {
        options.require_secret = given.bool("requireSecret")?;
    }
    if given.has("headerNames") {
        options.header_names = given.texts("headerNames")?.into_iter().map(str::to_owned).collect();
    }
    let config = given.bytes("config")?;
    let begin = BeginCall {
        config: Some(&config),
        route_types: &given.texts("routeTypes")?,
        principal: "anyone",
        session: None,
        peer: Some("calling"),
        open: &if given.has("open") { given.texts("open")? } else { Vec::new() },
        request_id: &RequestId::from(1_u64),
        tool: "tool",
        timeout: None,
        task: None,
    };
    let hub = Hub::with("memory:", options).map_err(|error| error.to_string())?;
    let begun = crate::wait(hub.begin_call(begin));
    let told = match &begun {
        Ok(call) => json!({"accepted": call.accepted_routes(), "ignored": call.ignored_triggers()}),
        Err(error) => faults_told(error).ok_or_else(|| error.to_string())?,
    };
    drop(begun);
    hub.close(std::time::Duration::from_secs(10));
    Ok(told)
}
