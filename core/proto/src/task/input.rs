//! What a running task asks its client for (SEP-2663 `inputRequests`), and what it is answered (`tasks/update`).
//!
//! Both are events of one stream beside the task's own. So whoever reads it from the beginning knows what is outstanding,
//! and an event that retention takes is always a question older than its answer: what was answered never comes up again.

use core::fmt;
use std::collections::HashSet;

use serde_json::value::RawValue;

use crate::json;
use crate::time::UnixMillis;

/// Type of an event whose payload is `{key: request}`: these are asked for, beside what is outstanding.
pub const ASKED: &str = "asked";
/// Type of an event whose payload is `{key: response}`.
pub const ANSWERED: &str = "answered";

/// Why questions or answers cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFault {
    /// It is not the JSON text of an object.
    NoObject,
    /// It has no members.
    Empty,
    /// A key stands in it twice.
    Twice,
    /// A key is no Unicode text.
    NoText,
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoObject => "must be the JSON text of an object",
            Self::Empty => "must have one member at least",
            Self::Twice => "must not have a key twice",
            Self::NoText => "must have keys that are Unicode text",
        })
    }
}

impl core::error::Error for InputFault {}

/// What stands outstanding in a task's stream of questions and answers.
#[derive(Debug, Clone, Default)]
pub struct Input {
    outstanding: Vec<(String, Box<RawValue>)>,
    updated: Option<UnixMillis>,
}

impl Input {
    /// Goes on to the next event of the stream. Of two answers to one question the first counts; what is neither a
    /// question nor an answer changes nothing.
    pub fn apply(&mut self, kind: &str, payload: &[u8], time: UnixMillis) {
        let Ok(members) = members(payload) else { return };
        match kind {
            ASKED => self.outstanding.extend(members.into_iter().map(|(key, raw)| (key, raw.to_owned()))),
            ANSWERED => self.outstanding.retain(|(key, _)| !members.iter().any(|(answered, _)| answered == key)),
            _ => return,
        }
        self.updated = Some(time);
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// When something was asked or answered last.
    pub fn updated(&self) -> Option<UnixMillis> {
        self.updated
    }

    /// `inputRequests` as JSON text: all that is outstanding, in the order in which it was asked.
    pub fn requests(&self) -> String {
        object(self.outstanding.iter().map(|(key, raw)| (key.as_str(), &**raw)))
    }

    /// Of `responses`, the JSON text of an object, those to what is outstanding; SEP-2663 has the others ignored. `None`:
    /// there are none.
    ///
    /// # Errors
    /// [`InputFault::NoObject`], [`InputFault::Twice`].
    pub fn known(&self, responses: &[u8]) -> Result<Option<String>, InputFault> {
        let outstanding = |key: &str| self.outstanding.iter().any(|(asked, _)| asked == key);
        let given = members(responses)?;
        let known: Vec<_> = given.iter().filter(|(key, _)| outstanding(key)).collect();
        Ok((!known.is_empty()).then(|| object(known.into_iter().map(|(key, raw)| (key.as_str(), *raw)))))
    }
}

/// The keys that a task has used: on the wire one is used once in a task's life (SEP-2663), so that an answer is to this
/// question whenever it comes. The tool's own may come again.
#[derive(Debug, Default)]
pub struct Keys {
    used: HashSet<String>,
}

impl Keys {
    /// The next questions, `{key: request}` under the tool's own keys.
    ///
    /// # Errors
    /// What is wrong with them; then no key is used.
    pub fn ask(&mut self, requests: &[u8]) -> Result<Round, InputFault> {
        let asked = members(requests)?;
        if asked.is_empty() {
            return Err(InputFault::Empty);
        }
        let mut round = Round { payload: String::new(), waiting: Vec::new(), answers: Vec::new() };
        let mut named = Vec::new();
        for (own, request) in asked {
            let (mut wire, mut number) = (own.clone(), 1_u32);
            while !self.used.insert(wire.clone()) {
                number += 1;
                wire = format!("{own}#{number}");
            }
            round.waiting.push((wire.clone(), own));
            named.push((wire, request));
        }
        round.payload = object(named.iter().map(|(wire, request)| (wire.as_str(), *request)));
        Ok(round)
    }
}

/// Questions that were asked together, and their answers so far.
#[derive(Debug)]
pub struct Round {
    payload: String,
    waiting: Vec<(String, String)>,
    answers: Vec<(String, Box<RawValue>)>,
}

impl Round {
    /// The payload of the event that asks them.
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// The keys on the wire of those that are not answered, as a JSON array.
    pub fn keys(&self) -> String {
        let mut out = String::new();
        json::push_strings(&mut out, self.waiting.iter().map(|(wire, _)| wire));
        out
    }

    /// Takes what an event of the stream answers.
    pub fn apply(&mut self, kind: &str, payload: &[u8]) {
        if kind != ANSWERED {
            return;
        }
        for (key, response) in members(payload).unwrap_or_default() {
            if let Some(place) = self.waiting.iter().position(|(wire, _)| *wire == key) {
                let (_, own) = self.waiting.remove(place);
                self.answers.push((own, response.to_owned()));
            }
        }
    }

    /// The answers under the tool's own keys, as the JSON text of an object, once each question has one.
    pub fn answers(&self) -> Option<String> {
        self.waiting.is_empty().then(|| object(self.answers.iter().map(|(own, raw)| (own.as_str(), &**raw))))
    }
}

fn object<'a>(members: impl Iterator<Item = (&'a str, &'a RawValue)>) -> String {
    let mut out = String::from("{");
    for (key, raw) in members {
        json::push_name(&mut out, key);
        out.push_str(raw.get());
    }
    out.push('}');
    out
}

/// The members of an object, by keys that are text and stand there once.
fn members(text: &[u8]) -> Result<Vec<(String, &RawValue)>, InputFault> {
    let text = core::str::from_utf8(text).map_err(|_| InputFault::NoObject)?;
    let (mut found, mut fault) = (Vec::<(String, &RawValue)>::new(), None);
    json::each_member(text, |name, value| match core::str::from_utf8(name) {
        Err(_) => fault = Some(InputFault::NoText),
        Ok(name) if found.iter().any(|(known, _)| known == name) => fault = Some(InputFault::Twice),
        Ok(name) => found.push((name.to_owned(), value)),
    })
    .map_err(|_| InputFault::NoObject)?;
    fault.map_or(Ok(found), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(events: &[(&str, &str)]) -> Input {
        let mut input = Input::default();
        for (time, (kind, payload)) in (1..).zip(events) {
            input.apply(kind, payload.as_bytes(), time);
        }
        input
    }

    #[test]
    fn what_is_outstanding_is_what_was_asked_and_not_answered() {
        for (events, outstanding, updated) in [
            (&[][..], "{}", None),
            (&[(ASKED, r#"{"b":{"x": 1.0},"a":[]}"#)], r#"{"b":{"x": 1.0},"a":[]}"#, Some(1)),
            (&[(ASKED, r#"{"b":1,"a":2}"#), (ANSWERED, r#"{"b":0,"c":0}"#)], r#"{"a":2}"#, Some(2)),
            (&[(ASKED, r#"{"a":1}"#), (ANSWERED, r#"{"a":0}"#)], "{}", Some(2)),
            (&[(ASKED, r#"{"a":1}"#), (ANSWERED, r#"{"a":0}"#), (ASKED, r#"{"a#2":3}"#)], r#"{"a#2":3}"#, Some(3)),
            // An escape is the same key.
            (&[(ASKED, r#"{"\u0061":1}"#), (ANSWERED, r#"{"a":0}"#)], "{}", Some(2)),
            // Its question was evicted.
            (&[(ANSWERED, r#"{"a":0}"#)], "{}", Some(1)),
            (&[(ASKED, r#"{"a":1}"#), ("other", r#"{"a":0}"#), (ANSWERED, "null")], r#"{"a":1}"#, Some(1)),
        ] {
            let input = input(events);
            assert_eq!((&*input.requests(), input.updated()), (outstanding, updated), "{events:?}");
            assert_eq!(input.is_empty(), outstanding == "{}");
        }
    }

    /// SEP-2663 `tasks/update`: answers to what was not asked, or has an answer, are ignored.
    #[test]
    fn only_answers_to_what_is_outstanding_count() {
        let input = input(&[(ASKED, r#"{"a":1,"b":1,"c":1}"#), (ANSWERED, r#"{"b":0}"#)]);
        for (given, known) in [
            (r#"{"a":{"v": 1.0},"b":2,"d":3,"c":4}"#, Ok(Some(r#"{"a":{"v": 1.0},"c":4}"#))),
            (r#"{"b":2}"#, Ok(None)),
            ("{}", Ok(None)),
            ("[]", Err(InputFault::NoObject)),
            (r#"{"a":1,"a":2}"#, Err(InputFault::Twice)),
            (r#"{"\ud800":1}"#, Err(InputFault::NoText)),
            ("", Err(InputFault::NoObject)),
        ] {
            assert_eq!(input.known(given.as_bytes()), known.map(|known| known.map(str::to_owned)), "{given}");
        }
        assert_eq!(input.known(b"\xff"), Err(InputFault::NoObject));
    }

    #[test]
    fn a_key_is_used_once_in_a_tasks_life() {
        let mut keys = Keys::default();
        for (requests, payload) in [
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#),
            (r#"{"a":3,"c":4}"#, r##"{"a#2":3,"c":4}"##),
            (r##"{"a#2":5,"a":6}"##, r##"{"a#2#2":5,"a#3":6}"##),
        ] {
            assert_eq!(keys.ask(requests.as_bytes()).unwrap().payload(), payload);
        }
        for (bad, fault) in
            [("{}", InputFault::Empty), ("1", InputFault::NoObject), (r#"{"z":1,"z":2}"#, InputFault::Twice)]
        {
            assert_eq!(keys.ask(bad.as_bytes()).unwrap_err(), fault);
        }
        assert_eq!(keys.ask(br#"{"z":1}"#).unwrap().payload(), r#"{"z":1}"#, "what was refused used no key");
    }

    #[test]
    fn a_round_ends_with_its_last_answer_and_tells_it_by_the_tools_own_keys() {
        let mut keys = Keys::default();
        keys.ask(br#"{"a":0}"#).unwrap();
        let mut round = keys.ask(br#"{"a":1,"b":2}"#).unwrap();
        assert_eq!(round.keys(), r##"["a#2","b"]"##);
        // Neither the question itself nor an answer to an earlier one.
        round.apply(ASKED, round.payload().to_owned().as_bytes());
        round.apply(ANSWERED, br#"{"a":"old"}"#);
        assert_eq!(round.answers(), None);
        round.apply(ANSWERED, br#"{"b": {"v": 1.0}, "x": 1}"#);
        assert_eq!((round.answers(), &*round.keys()), (None, r##"["a#2"]"##));
        round.apply(ANSWERED, br##"{"b":"late","a#2":null}"##);
        assert_eq!(round.answers().as_deref(), Some(r#"{"b":{"v": 1.0},"a":null}"#));
    }
}
