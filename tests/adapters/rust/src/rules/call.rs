//! Triggers, routes, outcomes, the call machine.

use serde_json::{Value, json};
use tidings::proto::call::{
    Event, Link, Loss, Refused, Reply, State, Tool, Transport, effective_timeout, lost_connection, step,
};
use tidings::proto::config::{NotificationConfig, Route};
use tidings::proto::route::{Choice, UndeliverablePolicy, choose};
use tidings::proto::trigger::{Outcome, Reason, Trigger, classify_result};

use crate::Answer;
use crate::given::Given;

pub(super) fn trigger_name(given: Given<'_>) -> Answer {
    let trigger = Trigger::from_name(given.text("name")?);
    Ok(json!({"known": trigger.is_known(), "webhookName": trigger.webhook_name()}))
}

/// A config of message routes, from pairs of an id and its triggers.
pub(super) fn config_of(routes: &[Value]) -> Option<NotificationConfig> {
    let route = |pair: &Value| {
        let name = |trigger: &Value| trigger.as_str().map(|name| Trigger::from_name(name).into());
        let triggers: Option<_> = pair.get(1)?.as_array()?.iter().map(name).collect();
        Some(Route {
            id: pair.get(0)?.as_str()?.to_owned(),
            kind: "message".to_owned(),
            endpoint: None,
            peer: None,
            signal: None,
            triggers: triggers?,
            secret: None,
            headers: Vec::new(),
            deadline_ms: None,
            fifo_key: None,
            batch: None,
            redact: Vec::new(),
            public_key: None,
            seed: None,
        })
    };
    let routes = routes.iter().map(route).collect::<Option<_>>()?;
    Some(NotificationConfig { routes, ..NotificationConfig::default() })
}

pub(super) fn choose_route(given: Given<'_>) -> Answer {
    let config = config_of(given.list("routes")?).ok_or("routes: pairs of an id and triggers are wanted")?;
    let up = given.texts("deliverable")?;
    let ids = |routes: &[usize]| routes.iter().map(|route| config.routes[*route].id.as_str()).collect::<Vec<_>>();
    let can = |route: usize| up.contains(&config.routes[route].id.as_str());
    let trigger = Trigger::from_name(given.text("trigger")?);
    Ok(match choose(&config, &trigger, None, can, UndeliverablePolicy::Annotate) {
        Choice::NotAsked => json!({"notAsked": true}),
        Choice::Deliver { route, fallbacks } => json!({"route": ids(&[route])[0], "fallbacks": ids(&fallbacks)}),
        Choice::Undeliverable { routes, .. } => json!({"undeliverable": ids(&routes)}),
    })
}

pub(super) fn classify(given: Given<'_>) -> Answer {
    let raw = given.bytes("result")?;
    let class = classify_result(&raw);
    Ok(json!({
        "outcome": class.outcome.as_str(),
        "reason": class.reason.map(Reason::as_str),
        "result": class.result.map(|raw| raw.get()),
    }))
}

fn outcome(text: &str) -> Result<Outcome, String> {
    Outcome::parse(text).ok_or_else(|| format!("no outcome is called {text}"))
}

fn reason(given: Given<'_>) -> Result<Option<Reason>, String> {
    let text = given.maybe_text("reason")?;
    text.map(|text| Reason::parse(text).ok_or_else(|| format!("no reason is called {text}"))).transpose()
}

pub(super) fn task_status(given: Given<'_>) -> Answer {
    let outcome = outcome(given.text("outcome")?)?;
    Ok(json!({"taskStatus": outcome.task_status(given.bool("hasResult")?)}))
}

const LINKS: [(&str, Link); 4] = [
    ("attached", Link::Attached),
    ("resumable", Link::Resumable),
    ("released", Link::Released),
    ("draining", Link::Draining),
];

fn state(given: Given<'_>) -> Result<State, String> {
    if let Some(link) = given.maybe_text("open")? {
        let (_, link) = LINKS.iter().find(|(name, _)| *name == link).ok_or("no such link")?;
        return Ok(State::Open(*link));
    }
    Ok(State::Ended(outcome(given.text("ended")?)?, reason(given)?))
}

fn state_told(state: State) -> Value {
    match state {
        State::Open(link) => json!({"open": LINKS.iter().find(|(_, known)| *known == link).map(|(name, _)| name)}),
        State::Ended(outcome, reason) => json!({"ended": outcome.as_str(), "reason": reason.map(Reason::as_str)}),
    }
}

fn reply_told(reply: Reply) -> &'static str {
    match reply {
        Reply::NotYet => "not_yet",
        Reply::Payload => "payload",
        Reply::Error => "error",
        Reply::Never => "never",
    }
}

fn event(given: Given<'_>) -> Result<Event, String> {
    Ok(match given.text("kind")? {
        "complete" => Event::Complete,
        "fail" => Event::Fail(reason(given)?),
        "cancel" => Event::Cancel,
        "timeout" => Event::Timeout,
        "server_lost" => Event::ServerLost,
        "shutdown" => Event::Shutdown,
        "detach_expired" => Event::DetachExpired,
        "detach" => Event::Detach,
        "reattach" => Event::Reattach,
        "lost" => Event::Lost(match given.text("loss")? {
            "resumable" => Loss::Resumable,
            "released" => Loss::Released,
            "draining" => Loss::Draining,
            _ => Loss::Cancelled {
                reason: reason(given)?.ok_or("reason: is wanted")?,
                reply: if given.text("reply")? == "error" { Reply::Error } else { Reply::Never },
            },
        }),
        other => return Err(format!("no event is called {other}")),
    })
}

pub(super) fn row(given: Given<'_>) -> Answer {
    Ok(match step(state(given.at("state"))?, event(given.at("event"))?) {
        Ok(step) => json!({
            "state": state_told(step.state),
            "fires": step.fires.as_ref().map(Trigger::name),
            "reply": reply_told(step.reply),
            "tool": match step.tool {
                Tool::GoesOn => "goes_on",
                Tool::Gone => "gone",
                Tool::Stop => "stop",
            },
        }),
        Err(Refused::AlreadyEnded(..)) => json!({"refused": "already_ended"}),
        Err(Refused::Ignored) => json!({"refused": "ignored"}),
    })
}

pub(super) fn lost(given: Given<'_>) -> Answer {
    let transport = match given.text("transport")? {
        "legacy_http" => Transport::LegacyHttp,
        "modern_http" => Transport::ModernHttp,
        _ => Transport::Stdio,
    };
    Ok(match lost_connection(transport, given.bool("optedIn")?, given.bool("room")?) {
        Loss::Resumable => json!({"loss": "resumable"}),
        Loss::Released => json!({"loss": "released"}),
        Loss::Draining => json!({"loss": "draining"}),
        Loss::Cancelled { reason, reply } => {
            json!({"loss": "cancelled", "reason": reason.as_str(), "reply": reply_told(reply)})
        }
    })
}

pub(super) fn timeout(given: Given<'_>) -> Answer {
    Ok(json!({"ms": effective_timeout(given.maybe_num("serverMs")?, given.maybe_num("clientMs")?)}))
}
