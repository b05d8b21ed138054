//! What follows from a firing: which route gets it, with which bytes, and what cannot be delivered.

use tidings_proto::config::{AcceptStored, ConfigLimits, Faults, NotificationConfig, Route, Sensitive};
use tidings_proto::delivery::{EndpointKey, EndpointState, RetryPolicy, deadline};
use tidings_proto::firing::{
    BATCH_FRAME_BYTES, Body, Detail, Ended, Firing, Payload, TaskView, Undelivered, UndeliveredReason, redact_body,
    undelivered_json,
};
use tidings_proto::id::{EventId, RequestId};
use tidings_proto::redact::Redaction;
use tidings_proto::route::{Choice, OutletName, UndeliverablePolicy, asking, choose};
use tidings_proto::task::WORKING;
use tidings_proto::time::StoreMillis;
use tidings_proto::trigger::Reason;
use tidings_proto::trigger::Trigger;
use tidings_proto::webhook::{Seed, TRACEPARENT_HEADER};
use tidings_store::{Batch, CallRecord, DeliveryId, NewDelivery, Op, Outlet, Sealed, Subject, TaskTerms};

use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::target::Target;

/// The consequences of one firing.
#[derive(Default)]
pub(crate) struct Plan {
    /// To be committed with the event that fired.
    pub(crate) ops: Vec<Op>,
    /// JSON array for the result's `_meta`, where nothing could be delivered and the policy says so.
    pub(crate) undelivered: Option<String>,
}

/// What came true.
#[derive(Clone, Copy)]
pub(crate) struct Fired<'a> {
    pub(crate) trigger: &'a Trigger,
    /// The call's end, if the trigger is that.
    pub(crate) ended: Option<Ended<'a>>,
    pub(crate) detail: Option<Detail<'a>>,
    /// The valid JSON text that conditions look into.
    pub(crate) document: Option<&'a str>,
    /// The number and the cursor of the event that fired.
    pub(crate) place: Option<(u64, &'a str)>,
}

impl<'a> Fired<'a> {
    /// A firing that there is nothing to tell of but that it happened.
    pub(crate) fn bare(trigger: &'a Trigger) -> Self {
        Self { trigger, ended: None, detail: None, document: None, place: None }
    }
}

/// Plans one firing for a call. `task` are its terms if it is one.
pub(crate) fn plan(
    core: &Core,
    record: &CallRecord,
    config: &NotificationConfig,
    task: Option<TaskTerms>,
    fired: &Fired<'_>,
) -> Result<Plan> {
    let Fired { trigger, ended, detail, document, place } = *fired;
    // Its process may offer what this one does not, unless it is dead.
    let lost = ended.is_some_and(|ended| ended.reason == Some(Reason::ServerLost));
    let elsewhere = record.worker != core.worker && !lost;
    let can = |index: usize| deliverable(core, &record.principal, &config.routes[index], elsewhere).is_some();
    let undeliverable = |routes: &[usize], policy, reason| {
        let ids: Vec<&str> = routes.iter().map(|index| config.routes[*index].id.as_str()).collect();
        let entry = Undelivered { trigger, routes: &ids, reason };
        let undelivered = (policy == UndeliverablePolicy::Annotate).then(|| undelivered_json(&[entry]));
        Plan { ops: Vec::new(), undelivered }
    };
    let (route, fallbacks) = match choose(config, trigger, document, can, core.options.undeliverable) {
        Choice::NotAsked => return Ok(Plan::default()),
        Choice::Deliver { route, fallbacks } => (route, fallbacks),
        Choice::Undeliverable { routes, policy } => {
            tracing::warn!(call = %record.id, %trigger, "no route can take the firing");
            return Ok(undeliverable(&routes, policy, UndeliveredReason::NoRoute));
        }
    };
    let most = core.options.max_pending;
    // A store that cannot be asked now will still take what follows once it is back.
    if core.store.pending(&record.principal, most).is_ok_and(|pending| pending >= most) {
        tracing::warn!(call = %record.id, %trigger, most, "the principal has too many unfinished deliveries");
        return Ok(undeliverable(&[route], core.options.undeliverable, UndeliveredReason::TooManyPending));
    }
    let request_id = RequestId::parse(record.request_id.as_bytes())
        .map_err(|error| Error::new(ErrorCode::Internal, format!("the stored request id: {error}")))?;
    let event_id = EventId::from_bytes(core.random()?);
    let task_id = record.id.to_string();
    let status = ended.map_or(WORKING, |end| end.outcome.task_status(matches!(end.payload, Some(Payload::Result(_)))));
    let firing = Firing {
        event_id,
        trigger,
        at: core.timeline.wall(),
        call_id: record.id,
        request_id: &request_id,
        tool: &record.tool,
        ended,
        detail,
        task: task.map(|_| TaskView { id: &task_id, status }),
        seq: place.map(|(seq, _)| seq),
        cursor: place.map(|(_, cursor)| cursor),
    };
    let routes: Vec<Route> = fallbacks.into_iter().map(|index| config.routes[index].clone()).collect();
    let own = &config.routes[route];
    // What follows on it is made of the same body.
    let most = routes.iter().chain([own]).map(|route| most_bytes(core, route)).min().unwrap_or_default();
    let (bodies, redaction) = (Body::new(&firing, most), redaction(own)?);
    let body = bodies.redacted_for_route(&own.id, &redaction);
    // A route that follows has a redaction of its own, so it needs what this one's took out.
    let whole = if routes.is_empty() || redaction.is_empty() { Vec::new() } else { bodies.for_route(&own.id) };
    let now = core.timeline.now();
    let until = deadline(now, task.map(|terms| terms.ttl_ms), config.routes[route].deadline_ms);
    let (endpoint, mut ops) = named(core, &record.principal, &config.routes[route])?;
    let wait_until = wait_until(own, now, until, !routes.is_empty());
    let delivery = NewDelivery {
        id: DeliveryId(core.random()?),
        event_id: event_id.to_string(),
        subject: Subject::Call(record.id),
        principal: record.principal.clone(),
        trigger: trigger.name().to_owned(),
        route_id: config.routes[route].id.clone(),
        route_at: route_span(if whole.is_empty() { &body } else { &whole }, &own.id),
        route: seal(vec![seeded(core, own.clone())?]),
        body: body.into(),
        whole: Sealed(whole.into()),
        due: due(own, now, wait_until),
        outlet: outlet(&config.routes[route], !routes.is_empty(), now, until),
        deadline: until,
        created_at: now,
        endpoint,
        fifo_key: config.routes[route].fifo_key.clone(),
        wait_until,
        seq: place.map(|(seq, _)| seq),
        batch: batch(core, own, !routes.is_empty()),
        fallback: if routes.is_empty() { Sealed::default() } else { seal(routes) },
    };
    ops.push(Op::Enqueue(Box::new(delivery)));
    Ok(Plan { ops, undelivered: None })
}

/// What a route takes out of its bodies.
fn redaction(route: &Route) -> Result<Redaction> {
    Redaction::parse(&route.redact)
        .map_err(|(index, fault)| Error::new(ErrorCode::Internal, format!("redact entry {index} of a route: {fault}")))
}

/// The entry for a firing whose outcome the store did not take in time; `None` when no route asked for it.
pub(crate) fn not_stored(config: &NotificationConfig, trigger: &Trigger, document: &str) -> Option<String> {
    let routes = asking(config, trigger, Some(document)).into_iter().filter_map(|index| config.routes.get(index));
    let ids: Vec<&str> = routes.map(|route| route.id.as_str()).collect();
    let entry = Undelivered { trigger, routes: &ids, reason: UndeliveredReason::StoreUnavailable };
    (!ids.is_empty()).then(|| undelivered_json(&[entry]))
}

/// Where a route leads, if it can take a delivery now: a URL, as far as its text tells and unless its endpoint is disabled;
/// a place in the host, if it is offered. `elsewhere`: another process may offer what this one does not.
fn deliverable(core: &Core, principal: &str, route: &Route, elsewhere: bool) -> Option<Target> {
    if let Some(name) = OutletName::of(route) {
        let offered = core.outlets.offers(&name) || elsewhere || offered_elsewhere(core, &name);
        return offered.then(|| Target::in_host(principal, &name));
    }
    let target = Target::of(core, principal, route)?;
    (target.state(core) != Some(EndpointState::Disabled)).then_some(target)
}

/// The endpoint of a route that can be delivered to, and what makes it known to a store that has forgotten it.
fn named(core: &Core, principal: &str, route: &Route) -> Result<(EndpointKey, Vec<Op>)> {
    if let Some(name) = OutletName::of(route) {
        return Ok((Target::in_host(principal, &name).key, Vec::new()));
    }
    let target = Target::of(core, principal, route)
        .ok_or_else(|| Error::new(ErrorCode::Internal, "the route that was chosen leads nowhere"))?;
    let key = target.key;
    let ops = if target.state(core).is_none() { vec![target.name(core, principal, route)] } else { Vec::new() };
    Ok((key, ops))
}

/// Until when a delivery waits for its endpoint: with another route after it, no longer than until that one takes over. One
/// that goes through the host has its outlet's own time.
fn wait_until(route: &Route, now: StoreMillis, deadline: StoreMillis, has_successor: bool) -> StoreMillis {
    if OutletName::of(route).is_some() {
        return deadline;
    }
    let hand_over = RetryPolicy::with_successor().hand_over_ms.filter(|_| has_successor);
    hand_over.map_or(deadline, |after| now.saturating_add_unsigned(after).min(deadline))
}

/// When a delivery goes at the latest, if its endpoint can be tried: at once, or, where it waits for others to go with, no
/// later than in the middle of the time that it has.
fn due(route: &Route, now: StoreMillis, wait_until: StoreMillis) -> StoreMillis {
    let wait = route.batch.map_or(0, |batch| i64::try_from(batch.max_delay_ms).unwrap_or(i64::MAX));
    now.saturating_add(wait.min(wait_until.saturating_sub(now) / 2))
}

/// What a delivery over this route may go out with: others to the same endpoint whose requests would look the same. What is
/// of the call alone does not matter: ids, triggers, what was taken out of the body, the trace.
pub(crate) fn batch(core: &Core, route: &Route, has_successor: bool) -> Option<Batch> {
    let batching = route.batch?;
    let mut alike =
        Route { id: String::new(), triggers: Vec::new(), redact: Vec::new(), deadline_ms: None, ..route.clone() };
    alike.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(TRACEPARENT_HEADER));
    alike.seed = None;
    // What has a successor is tried less often.
    alike.id.push(if has_successor { 's' } else { 'l' });
    let most = most_bytes(core, route);
    Some(Batch { settings: seal(vec![alike]), max_events: batching.max_events, max_bytes: most as u64 })
}

/// How many bytes a body, or those of a batch together, may have so that the request for this route is within the limit.
fn most_bytes(core: &Core, route: &Route) -> usize {
    let most = core.options.max_body_bytes;
    let plain = route.public_key.as_ref().map_or(most, |key| key.longest_plain(most));
    plain.saturating_sub(if route.batch.is_some() { BATCH_FRAME_BYTES } else { 0 })
}

/// The route of one delivery: one that encrypts has a seed of its own, so that each attempt is encrypted alike.
fn seeded(core: &Core, mut route: Route) -> Result<Route> {
    if route.public_key.is_some() {
        route.seed = Some(Seed::from_bytes(core.random()?));
    }
    Ok(route)
}

/// Whether another process on the store offers what this one does not.
fn offered_elsewhere(core: &Core, name: &OutletName) -> bool {
    let now = core.timeline.now();
    !name.is_peer() && core.store.is_shared() && core.store.offered(name.as_str(), now).unwrap_or(false)
}

/// Where a delivery over this route has to go through the host. A route that has a successor is not waited for any longer
/// than its attempts may take.
fn outlet(route: &Route, has_successor: bool, now: StoreMillis, deadline: StoreMillis) -> Option<Outlet> {
    let patience = RetryPolicy::with_successor().hand_over_ms.filter(|_| has_successor);
    let until = patience.map_or(deadline, |ms| now.saturating_add_unsigned(ms).min(deadline));
    OutletName::of(route).map(|name| Outlet { name: name.as_str().to_owned(), until })
}

/// Has the webhooks of a config carry a trace context: kept with the config, it outlives the process as that does.
pub(crate) fn carry(config: &mut NotificationConfig, traceparent: &str) {
    for route in config.routes.iter_mut().filter(|route| OutletName::of(route).is_none()) {
        let own = route.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT_HEADER));
        if !own {
            route.headers.push((TRACEPARENT_HEADER.to_owned(), Sensitive::new(traceparent)));
        }
    }
}

/// Routes that go to the calling session keep its connection's name: whoever carries on has nothing else to go by.
pub(crate) fn bind_to_peer(config: &mut NotificationConfig, peer: Option<&str>) {
    for route in config.routes.iter_mut().filter(|route| route.endpoint.is_none()) {
        route.peer = peer.map(str::to_owned);
    }
}

/// A call's config as the store keeps it; nothing, where the call has none.
pub(crate) fn seal_config(config: &NotificationConfig) -> Sealed {
    if config.routes.is_empty() { Sealed::default() } else { Sealed(config.to_json().into()) }
}

/// The config that [`seal_config`] wrote.
pub(crate) fn stored_config(record: &CallRecord) -> Result<NotificationConfig, Faults> {
    if record.config.0.is_empty() {
        return Ok(NotificationConfig::default());
    }
    NotificationConfig::parse(&record.config.0, &ConfigLimits::stored(), &AcceptStored)
}

/// Routes as the store keeps them: a config of nothing else, which holds their secrets.
pub(crate) fn seal(routes: Vec<Route>) -> Sealed {
    Sealed(NotificationConfig { routes, ..NotificationConfig::default() }.to_json().into())
}

/// Where the JSON text of the route's id stands in a body that `Body::for_route` made: `"route"` is the first member
/// of that name, and a string before it cannot hold the quoted name unescaped.
fn route_span(body: &[u8], route_id: &str) -> (u32, u32) {
    const NAME: &[u8] = b",\"route\":";
    let start = body.windows(NAME.len()).position(|window| window == NAME).map_or(0, |at| at + NAME.len());
    // Ids are visible ASCII; quote and backslash take two bytes each.
    let escaped = route_id.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    let end = start + route_id.len() + escaped + 2;
    (u32::try_from(start).unwrap_or(0), u32::try_from(end).unwrap_or(0))
}

/// The payload of the event that ends a call's stream: `{"status", "reason"?, "result" | "error"?}`, raw values spliced.
pub(crate) fn outcome_event(ended: &Ended<'_>) -> String {
    let mut out = format!(r#"{{"status":"{}""#, ended.outcome.as_str());
    if let Some(reason) = ended.reason {
        out.push_str(&format!(r#","reason":"{}""#, reason.as_str()));
    }
    match ended.payload {
        Some(Payload::Result(raw)) => out.push_str(&format!(r#","result":{}"#, raw.get())),
        Some(Payload::Error(raw)) => out.push_str(&format!(r#","error":{}"#, raw.get())),
        None => {}
    }
    out.push('}');
    out
}

/// What enqueues the same firing over the next route, when `delivery`'s own route is given up; nothing where there is none
/// that could still take it.
///
/// A route's `deadlineMs` and the 24 hours count from the firing. That is when the first route's delivery was enqueued;
/// from the third route on it is when the one before was, as the store keeps no more: later by the minutes that a route
/// with a successor gets.
pub(crate) fn successor(core: &Core, delivery: &NewDelivery) -> Result<Vec<Op>> {
    let mut routes = read(&delivery.fallback)?;
    let now = core.timeline.now();
    let own_limit = read(&delivery.route).ok().and_then(|mut own| own.pop()).and_then(|own| own.deadline_ms);
    // Without a limit of the route's own the deadline is the firing's.
    let last = if own_limit.is_none() { delivery.deadline } else { deadline(delivery.created_at, None, None) };
    while !routes.is_empty() {
        let route = routes.remove(0);
        let elsewhere = OutletName::of(&route).is_some() && belongs_elsewhere(core, delivery);
        let until = deadline(delivery.created_at, None, route.deadline_ms).min(last);
        let target = deliverable(core, &delivery.principal, &route, elsewhere).filter(|_| until > now);
        let Some(target) = target else { continue };
        let key = target.key;
        let mut ops = Vec::new();
        if OutletName::of(&route).is_none() && target.state(core).is_none() {
            ops.push(target.name(core, &delivery.principal, &route));
        }
        let (start, end) = (delivery.route_at.0 as usize, delivery.route_at.1 as usize);
        let whole = if delivery.whole.0.is_empty() { &delivery.body } else { &delivery.whole.0 };
        let (Some(before), Some(after)) = (whole.get(..start), whole.get(end..)) else {
            return Err(Error::new(ErrorCode::Internal, "the stored body does not hold its route"));
        };
        let id = json_string(&route.id);
        let whole = [before, id.as_bytes(), after].concat();
        let redaction = redaction(&route)?;
        let (body, whole) = match redaction.is_empty() {
            true => (whole, Vec::new()),
            false => {
                let text = String::from_utf8(whole).unwrap_or_default();
                let body = redact_body(&text, &redaction)
                    .ok_or_else(|| Error::new(ErrorCode::Internal, "the stored body cannot be redacted"))?;
                let whole = if routes.is_empty() { Vec::new() } else { text.clone().into_bytes() };
                (body.into_owned().into_bytes(), whole)
            }
        };
        let wait_until = wait_until(&route, now, until, !routes.is_empty());
        ops.push(Op::Enqueue(Box::new(NewDelivery {
            id: DeliveryId(core.random()?),
            route_id: route.id.clone(),
            route_at: route_span(if whole.is_empty() { &body } else { &whole }, &route.id),
            body: body.into(),
            whole: Sealed(whole.into()),
            due: due(&route, now, wait_until),
            outlet: outlet(&route, !routes.is_empty(), now, until),
            deadline: until,
            created_at: now,
            endpoint: key,
            fifo_key: route.fifo_key.clone(),
            wait_until,
            batch: batch(core, &route, !routes.is_empty()),
            route: seal(vec![seeded(core, route)?]),
            fallback: if routes.is_empty() { Sealed::default() } else { seal(routes) },
            ..delivery.clone()
        })));
        return Ok(ops);
    }
    Ok(Vec::new())
}

/// Whether the delivery's call came in at another process, which may offer what this one does not.
fn belongs_elsewhere(core: &Core, delivery: &NewDelivery) -> bool {
    let Subject::Call(id) = &delivery.subject else { return false };
    matches!(core.store.call(*id), Ok(Some(record)) if record.worker != core.worker)
}

/// The routes that [`seal`] wrote.
pub(crate) fn read(sealed: &Sealed) -> Result<Vec<Route>> {
    if sealed.0.is_empty() {
        return Ok(Vec::new());
    }
    NotificationConfig::parse(&sealed.0, &ConfigLimits::stored(), &AcceptStored)
        .map(|config| config.routes)
        .map_err(|faults| Error::new(ErrorCode::Internal, format!("a stored route cannot be read: {faults}")))
}

/// The JSON text of a route id, which is visible ASCII.
fn json_string(id: &str) -> String {
    let mut out = String::with_capacity(id.len() + 2);
    out.push('"');
    for letter in id.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
    out
}
