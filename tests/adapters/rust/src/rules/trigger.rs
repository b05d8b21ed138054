//! Triggers that are objects: conditions, time, groups; and what is redacted.

use serde_json::json;
use tidings::proto::config::{AcceptStored, ConfigLimits, NotificationConfig};
use tidings::proto::redact::Redaction;
use tidings::proto::route::asking;
use tidings::proto::trigger::{Outcome, Trigger, next_every};

use crate::Answer;
use crate::given::Given;

/// A config whose one route lists this trigger.
fn config(trigger: &str) -> Result<NotificationConfig, String> {
    let text = format!(r#"{{"routes":[{{"id":"r","type":"message","triggers":[{trigger}]}}]}}"#);
    NotificationConfig::parse(text.as_bytes(), &ConfigLimits::stored(), &AcceptStored)
        .map_err(|faults| faults.to_string())
}

pub(super) fn conditions(given: Given<'_>) -> Answer {
    let config = config(&format!(r#"{{"on":"completed","when":{}}}"#, given.text("when")?))?;
    let asks = asking(&config, &Trigger::Completed, Some(given.text("document")?));
    Ok(json!({"holds": !asks.is_empty()}))
}

pub(super) fn every(given: Given<'_>) -> Answer {
    Ok(json!({"atMs": next_every(given.num("everyMs")?, given.num("elapsedMs")?)}))
}

pub(super) fn group(given: Given<'_>) -> Answer {
    let config = config(given.text("trigger")?)?;
    let ended: Option<Vec<_>> = given.texts("ended")?.into_iter().map(Outcome::parse).collect();
    match config.triggers().next() {
        Some(Trigger::Group(aggregate)) => {
            Ok(json!({"verdict": aggregate.verdict(ended.ok_or("ended: outcomes")?).as_str()}))
        }
        _ => Err("trigger: of a group".to_owned()),
    }
}

pub(super) fn redact(given: Given<'_>) -> Answer {
    let redaction = Redaction::parse(given.texts("redact")?).map_err(|(_, fault)| fault.to_string())?;
    Ok(json!({"text": redaction.apply(given.text("text")?, &[])}))
}
