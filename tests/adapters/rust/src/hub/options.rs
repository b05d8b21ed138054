//! A hub's options from a scenario.

use std::time::Duration;

use tidings::Options;
use tidings::proto::redact::Redaction;
use tidings::proto::route::UndeliverablePolicy;
use tidings::proto::stream::Retention;
use tidings::proto::webhook::Secret;

use crate::given::Given;
use crate::rules::address_policy;

pub(super) fn read(given: Given<'_>) -> Result<Options, String> {
    let mut options = Options::default();
    options.address = address_policy(given.at("allow"))?;
    if given.has("retention") {
        let keep = given.at("retention");
        options.retention = Retention {
            max_events: keep.maybe_num("maxEvents")?,
            max_bytes: keep.maybe_num("maxBytes")?,
            max_age_ms: keep.maybe_num("maxAgeMs")?,
            after_close_ms: keep.maybe_num("afterCloseMs")?,
            max_total_events: keep.maybe_num("maxTotalEvents")?,
            max_total_bytes: keep.maybe_num("maxTotalBytes")?,
        };
    }
    if given.has("headerNames") {
        options.header_names = given.texts("headerNames")?.into_iter().map(str::to_owned).collect();
    }
    if given.has("redact") {
        options.redact = Redaction::parse(given.texts("redact")?).map_err(|(_, fault)| fault.to_string())?;
    }
    if let Some(secret) = given.maybe_text("defaultSecret")? {
        options.default_secret = Some(Secret::parse(secret).map_err(|fault| fault.to_string())?);
    }
    if given.has("requireSecret") {
        options.require_secret = given.bool("requireSecret")?;
    }
    if let Some(policy) = given.maybe_text("undeliverable")? {
        options.undeliverable =
            if policy == "drop" { UndeliverablePolicy::Drop } else { UndeliverablePolicy::Annotate };
    }
    if let Some(bytes) = given.maybe_num("maxBodyBytes")? {
        options.max_body_bytes = bytes;
    }
    if let Some(bytes) = given.maybe_num("bufferBytes")? {
        options.buffer_bytes = bytes;
    }
    if let Some(ms) = given.maybe_num("workerLeaseMs")? {
        options.worker_lease = Duration::from_millis(ms);
    }
    Ok(options)
}
