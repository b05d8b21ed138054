//! Who may be told of what, in which words; progress, log levels, cancellation.

use serde_json::{Value, json};
use tidings::proto::fanout::mcp::MCP;
use tidings::proto::fanout::{About, Filter, FilterError, Frame, KindSet, NoFrame, Profile, Tag};
use tidings::proto::id::RequestId;
use tidings::proto::notice::{
    self, Cancel, CancelEffect, InFlight, LogLevel, Progress, ProgressRules, Reply, log_passes,
};

use crate::Answer;
use crate::given::Given;

fn profile(given: Given<'_>) -> Result<Profile, String> {
    Profile::new(&MCP, given.text("version")?, given.text("server")?, given.text("client")?)
        .map_err(|error| error.to_string())
}

fn id(given: Given<'_>, name: &str) -> Result<RequestId, String> {
    RequestId::parse(given.text(name)?.as_bytes()).map_err(|error| error.to_string())
}

pub(super) fn offered(given: Given<'_>) -> Answer {
    let offered = profile(given)?.offered();
    let names: Vec<_> = offered.places().filter_map(|place| MCP.methods.get(place)).map(|method| method.name).collect();
    Ok(json!({"methods": names}))
}

pub(super) fn filter(given: Given<'_>) -> Answer {
    let profile = profile(given)?;
    let honoured = Filter::parse(&MCP, given.text("filter")?).and_then(|filter| filter.honoured(&profile));
    Ok(match honoured {
        Ok(honoured) => json!({"honoured": honoured.to_json(&MCP)}),
        Err(FilterError::Invalid { .. }) => json!({"error": "invalid"}),
        Err(FilterError::TooMany { .. }) => json!({"error": "too_many"}),
        Err(FilterError::NotDeclared { .. }) => json!({"error": "not_declared"}),
        Err(other) => return Err(other.to_string()),
    })
}

pub(super) fn frames(given: Given<'_>) -> Answer {
    let kinds = MCP.kinds(given.texts("kinds")?).map_err(|error| error.to_string())?;
    let tag = if given.has("listener") { Some(Tag::new(&MCP, &id(given, "listener")?)) } else { None };
    let mut frames = Vec::new();
    for place in MCP.methods(kinds).places() {
        let Some(method) = MCP.methods.get(place) else { continue };
        let frame = match method.about {
            About::List => Frame::list(method),
            About::Named(_) => Frame::named(method, given.text("name")?).map_err(|why| why.to_string())?,
            About::State => Frame::state(method.name, given.text("state")?).map_err(|why| why.to_string())?,
        };
        frames.push(frame.tagged(tag.as_ref()));
    }
    debug_assert!(kinds != KindSet::EMPTY);
    Ok(json!({"frames": frames}))
}

pub(super) fn frame_of(given: Given<'_>) -> Answer {
    let profile = profile(given)?;
    let value = given.maybe_text("value")?.unwrap_or_default();
    let frame = match given.text("notice")? {
        "roots_list_changed" => notice::roots_list_changed(&profile),
        "resource_updated" => notice::resource_updated(&profile, value),
        "elicitation_complete" => notice::elicitation_complete(&profile, value),
        "task_status" => notice::task_status(&profile, value),
        "task" => notice::task(&profile, value),
        "cancelled" => {
            let http = given.has("http") && given.bool("http")?;
            notice::cancelled(
                &profile,
                given.text("method")?,
                &id(given, "request")?,
                given.maybe_text("reason")?,
                http,
            )
        }
        other => return Err(format!("notice: {other}")),
    };
    Ok(frame.map_or_else(|why: NoFrame| json!({"none": why.as_str()}), |frame| json!({"frame": frame.plain()})))
}

pub(super) fn progress(given: Given<'_>) -> Answer {
    let token = if given.has("token") { Some(id(given, "token")?) } else { None };
    let interval = given.maybe_num::<u32>("minIntervalMs")?.unwrap_or(0);
    let mut progress = Progress::new(token, ProgressRules { min_interval_ms: interval.into() });
    let mut said = Vec::new();
    for step in given.list("steps")? {
        let step = Given(step);
        if step.has("end") {
            progress.end();
            said.push(Value::from("ended"));
            continue;
        }
        let number = |name: &str| -> Result<Option<f64>, String> {
            step.maybe_text(name)?.map(|text| text.parse().map_err(|_| format!("{name}: a number"))).transpose()
        };
        let value = number("progress")?.ok_or("progress: a number")?;
        let at = step.maybe_num::<u32>("atMs")?.unwrap_or(0);
        said.push(match progress.report(value, number("total")?, step.maybe_text("message")?, at.into()) {
            Ok(frame) => frame.params(None).unwrap_or_default().into(),
            Err(why) => why.as_str().into(),
        });
    }
    Ok(json!({"said": said}))
}

pub(super) fn log(given: Given<'_>) -> Answer {
    let level =
        |name: &str| given.maybe_text(name)?.map(LogLevel::parse).transpose().map_err(|error| error.to_string());
    let Ok(Some(said)) = level("level") else { return Ok(json!({"error": "invalid_argument"})) };
    let Ok(asked) = level("asked") else { return Ok(json!({"error": "invalid_argument"})) };
    Ok(json!({"passes": log_passes(given.bool("perRequest")?, asked, said)}))
}

pub(super) fn cancel(given: Given<'_>) -> Answer {
    let alias = given.has("alias") && given.bool("alias")?;
    let mut running = InFlight::default();
    let mut said: Vec<&str> = Vec::new();
    for step in given.list("steps")? {
        let step = Given(step);
        said.push(if step.has("begin") {
            if running.begin(&id(step, "begin")?, step.maybe_text("method")?.unwrap_or("tools/call")) {
                "begun"
            } else {
                "in_flight"
            }
        } else if step.has("finish") {
            match running.finish(&id(step, "finish")?) {
                Reply::Send => "send",
                Reply::Nothing => "nothing",
                Reply::Cancelled => "cancelled",
            }
        } else {
            match Cancel::parse(step.text("notification")?, step.maybe_text("params")?, alias) {
                None => "not_one",
                Some(cancel) => match running.cancel(&cancel) {
                    CancelEffect::Stop => "stop",
                    CancelEffect::Ignore => "ignore",
                },
            }
        });
    }
    Ok(json!({"said": said}))
}
