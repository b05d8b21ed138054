//! Deliveries: states, attempts, waits.

use serde_json::{Value, json};
use tidings::proto::delivery::{
    AttemptOutcome, Attempted, Category, DeliveryEvent, DeliveryState, Next, RetryPolicy, ceiling_ms, deadline,
    jittered_ms, next, parse_retry_after, postpone, step,
};

use crate::Answer;
use crate::given::{Given, clip};

pub(super) fn row(given: Given<'_>) -> Answer {
    let state = DeliveryState::from_text(given.text("state")?).ok_or("state: no such state")?;
    let name = given.text("event")?;
    let event = DeliveryEvent::ALL.into_iter().find(|event| event.as_str() == name).ok_or("event: no such event")?;
    Ok(match step(state, event) {
        Ok(state) => json!({"state": state.as_str()}),
        Err(_) => json!({"error": "illegal"}),
    })
}

fn category_of(text: &str) -> Result<Category, String> {
    Category::from_text(text).ok_or_else(|| format!("no category is called {text}"))
}

fn policy(given: Given<'_>) -> Result<RetryPolicy, String> {
    let mut policy = match given.text("kind")? {
        "last_route" => RetryPolicy::last_route(),
        _ => RetryPolicy::with_successor(),
    };
    let fields = [
        ("baseMs", &mut policy.base_ms),
        ("capMs", &mut policy.cap_ms),
        ("throttleFloorMs", &mut policy.throttle_floor_ms),
        ("attemptMs", &mut policy.attempt_ms),
    ];
    for (name, field) in fields {
        if let Some(value) = given.maybe_num(name)? {
            *field = value;
        }
    }
    if let Some(value) = given.maybe_num("maxAttempts")? {
        policy.max_attempts = value;
    }
    if given.has("finalStatuses") {
        let status = |value: &Value| value.as_u64().and_then(|status| status.try_into().ok()).ok_or("finalStatuses");
        policy.final_statuses = given.list("finalStatuses")?.iter().map(status).collect::<Result<_, _>>()?;
    }
    Ok(policy)
}

fn next_told(next: Next) -> Value {
    match next {
        Next::Delivered => json!({"delivered": true}),
        Next::RetryAt { at, category } => json!({"retryAt": at, "category": category.as_str()}),
        Next::Final { state, category, disable_endpoint } => {
            json!({"final": state.as_str(), "category": category.as_str(), "disableEndpoint": disable_endpoint})
        }
    }
}

pub(super) fn following(given: Given<'_>) -> Answer {
    let outcome = given.at("outcome");
    let outcome = match outcome.maybe_text("failed")? {
        Some(category) => AttemptOutcome::Failed(category_of(category)?),
        None => {
            AttemptOutcome::Response { status: outcome.num("status")?, retry_after: outcome.maybe_text("retryAfter")? }
        }
    };
    let attempted = Attempted {
        attempts: given.num("attempts")?,
        first_attempt_at: given.int("firstAttemptAt")?,
        deadline: given.int("deadline")?,
    };
    let (now, wall) = (given.int("now")?, given.int("nowUnixMs")?);
    Ok(next_told(next(&policy(given.at("policy"))?, &attempted, outcome, now, wall, given.random("random")?)))
}

pub(super) fn put_off(given: Given<'_>) -> Answer {
    Ok(match postpone(given.int("until")?, given.int("now")?, given.int("deadline")?) {
        Next::RetryAt { at, category: Category::RateLimited } => json!({"retryAt": at}),
        Next::Final { state, category: Category::RateLimited, disable_endpoint: false } => {
            json!({"final": state.as_str()})
        }
        other => next_told(other),
    })
}

pub(super) fn expiry(given: Given<'_>) -> Answer {
    let at = deadline(given.int("now")?, given.maybe_num("taskTtlMs")?, given.maybe_num("routeDeadlineMs")?);
    Ok(json!({"deadline": at}))
}

pub(super) fn category(given: Given<'_>) -> Answer {
    Ok(json!({"category": Category::of_status(given.num("status")?).map(Category::as_str)}))
}

pub(super) fn public_category(given: Given<'_>) -> Answer {
    Ok(json!({"category": category_of(given.text("category")?)?.public().as_str()}))
}

pub(super) fn ceiling(given: Given<'_>) -> Answer {
    Ok(json!({"ms": ceiling_ms(given.num("baseMs")?, given.num("capMs")?, given.num("failures")?)}))
}

pub(super) fn jitter(given: Given<'_>) -> Answer {
    Ok(json!({"ms": jittered_ms(given.num("ceilingMs")?, given.random("random")?)}))
}

pub(super) fn retry_after(given: Given<'_>) -> Answer {
    Ok(json!({"ms": parse_retry_after(given.text("value")?, given.int("nowUnixMs")?).map(clip)}))
}
