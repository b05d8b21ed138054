//! Endpoints: their standing, breakers, rates, and how they show that they want webhooks.

use serde_json::json;
use tidings::proto::delivery::{
    BreakerEvent, BreakerState, EndpointEvent, EndpointState, Rate, breaker_step, endpoint_step,
};
use tidings::proto::webhook::{is_challenge_answer, is_receiver};

use crate::Answer;
use crate::given::Given;

pub(super) fn row(given: Given<'_>) -> Answer {
    let state = EndpointState::from_text(given.text("state")?).ok_or("state: no such state")?;
    let name = given.text("event")?;
    let event = EndpointEvent::ALL.into_iter().find(|event| event.as_str() == name).ok_or("event: no such event")?;
    Ok(json!({"state": endpoint_step(state, event).as_str()}))
}

pub(super) fn breaker(given: Given<'_>) -> Answer {
    let (state, event) = (given.text("state")?, given.text("event")?);
    let state = BreakerState::ALL.into_iter().find(|one| one.as_str() == state).ok_or("state: no such state")?;
    let event = BreakerEvent::ALL.into_iter().find(|one| one.as_str() == event).ok_or("event: no such event")?;
    Ok(json!({"state": breaker_step(state, event).as_str()}))
}

pub(super) fn rate(given: Given<'_>) -> Answer {
    let rate = Rate { per_second: given.num("perSecond")?, burst: given.num("burst")? };
    let granted = rate.take(given.int("tat")?, given.int("now")?, given.num("want")?);
    Ok(json!({"count": granted.count, "tat": granted.tat}))
}

pub(super) fn challenge(given: Given<'_>) -> Answer {
    Ok(json!({"proven": is_challenge_answer(given.text("body")?.as_bytes(), given.text("nonce")?)}))
}

pub(super) fn receiver(given: Given<'_>) -> Answer {
    Ok(json!({"named": is_receiver(given.text("document")?.as_bytes(), given.text("path")?)}))
}
