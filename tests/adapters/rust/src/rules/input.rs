//! What a task asks its client for, and what it is answered.

use serde_json::{Value, json};
use tidings::proto::task::{Input, InputFault, Keys, Round};

use crate::Answer;
use crate::given::Given;

fn fault(fault: InputFault) -> Value {
    json!({"error": match fault {
        InputFault::NoObject => "no_object",
        InputFault::Empty => "empty",
        InputFault::Twice => "twice",
        InputFault::NoText => "no_text",
    }})
}

/// After these events of the stream of questions and answers.
fn input(given: Given<'_>) -> Result<Input, String> {
    let mut input = Input::default();
    for (kind, payload) in given.pairs("events")? {
        input.apply(kind, payload.as_bytes(), 0);
    }
    Ok(input)
}

pub(super) fn outstanding(given: Given<'_>) -> Answer {
    Ok(json!({"requests": input(given)?.requests()}))
}

pub(super) fn known(given: Given<'_>) -> Answer {
    let known = input(given)?.known(given.text("responses")?.as_bytes());
    Ok(known.map_or_else(fault, |known| json!({"known": known})))
}

/// Asks round after round: what each came to.
fn rounds(given: Given<'_>) -> Result<Vec<Result<Round, InputFault>>, String> {
    let mut keys = Keys::default();
    Ok(given.texts("rounds")?.into_iter().map(|requests| keys.ask(requests.as_bytes())).collect())
}

pub(super) fn keys(given: Given<'_>) -> Answer {
    let told = |round: Result<Round, InputFault>| round.map_or_else(fault, |round| json!(round.payload()));
    Ok(json!({"asked": rounds(given)?.into_iter().map(told).collect::<Vec<_>>()}))
}

pub(super) fn answers(given: Given<'_>) -> Answer {
    let last = rounds(given)?.pop().ok_or("rounds: one at least")?;
    let mut round = last.map_err(|fault| fault.to_string())?;
    for (kind, payload) in given.pairs("events")? {
        round.apply(kind, payload.as_bytes());
    }
    Ok(json!({"answers": round.answers()}))
}
