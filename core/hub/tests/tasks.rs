//! Calls as tasks: who may ask for one, for how long, and what is told of it whatever happens.

use std::time::Duration;

use crate::support::{ENDS, FaultStore, TestClock, begin, config, local, over_with, wait};
use tidings::proto::id::RequestId;
use tidings::proto::trigger::Outcome;
use tidings::store::{Op, Store, StoreErrorKind, StreamKey};
use tidings::{BeginCall, Call, ErrorCode, Hub, Options, TaskTerms};

/// Takes no connection: what is due to it stays undelivered.
const NOWHERE: &str = "http://127.0.0.1:1/hook";
const BOUND: TaskTerms = TaskTerms { ttl_ms: 60_000, bound: true };
const OPEN: TaskTerms = TaskTerms { ttl_ms: 60_000, bound: false };

fn task(hub: &Hub, terms: TaskTerms) -> Result<Call, ErrorCode> {
    wait(hub.begin_call(BeginCall {
        config: None,
        route_types: &[],
        principal: "alice",
        session: None,
        peer: None,
        open: &[],
        request_id: &RequestId::from(7_i64),
        tool: "tool",
        timeout: None,
        task: Some(terms),
    }))
    .map_err(|error| error.code())
}

fn status(hub: &Hub, call: &Call, asker: &str) -> Option<&'static str> {
    hub.task(&call.id().to_string(), asker).expect("an answer").map(|task| task.status)
}

#[test]
fn a_call_without_a_config_can_be_a_task() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let call = task(&hub, BOUND).expect("begun");
    assert_eq!(status(&hub, &call, "alice"), Some("working"));
    assert_eq!(call.accepted_routes(), Vec::<String>::new());
    wait(call.complete(br#"{"content":[1.0]}"#)).expect("ended");
    let task = hub.task(&call.id().to_string(), "alice").expect("an answer").expect("there");
    assert_eq!(task.status, "completed");
    assert!(task.json.ends_with(r#""result":{"content":[1.0]}}"#), "{}", task.json);
    assert_eq!(store.count(|op| matches!(op, Op::Enqueue(_))), 0);
}

#[test]
fn only_its_principal_finds_a_bound_task_and_anybody_with_the_id_an_open_one() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let (bound, open) = (task(&hub, BOUND).expect("begun"), task(&hub, OPEN).expect("begun"));
    assert_eq!((status(&hub, &bound, "alice"), status(&hub, &bound, "bob")), (Some("working"), None));
    assert_eq!((status(&hub, &open, "alice"), status(&hub, &open, "bob")), (Some("working"), Some("working")));
    assert_eq!(wait(hub.cancel_task(&bound.id().to_string(), "bob")).map_err(|e| e.code()), Ok(false));
    assert_eq!(status(&hub, &bound, "alice"), Some("working"));
    let plain = begin(&hub, &config(NOWHERE, &ENDS)).expect("accepted");
    assert_eq!(status(&hub, &plain, "tester"), None, "a call that is no task");
    for id in ["", "x", &bound.id().to_string().to_uppercase()] {
        assert_eq!(hub.task(id, "alice").map(|task| task.is_none()).map_err(|e| e.code()), Ok(true), "{id:?}");
    }
}

/// Field reports B37 and B38: the ttl counts from the end, and ends to the millisecond for every way to ask.
#[test]
fn a_task_can_be_asked_for_until_its_ttl_after_its_end() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let call = task(&hub, BOUND).expect("begun");
    let id = call.id().to_string();
    for _ in 0..120 {
        clock.advance(Duration::from_secs(1));
        store.wait_look(&clock);
    }
    assert_eq!(status(&hub, &call, "alice"), Some("working"), "however long it runs");
    assert!(wait(call.complete(b"{}")).expect("ended").committed);
    clock.advance(Duration::from_millis(59_999));
    let task = hub.task(&id, "alice").expect("an answer").expect("there");
    assert!(task.json.contains(r#""ttlMs":180000,"#), "60 s from the end, 120 s after the beginning: {}", task.json);
    assert_eq!(wait(hub.cancel_task(&id, "alice")).map_err(|e| e.code()), Ok(true), "it has ended, which is no error");
    clock.advance(Duration::from_millis(1));
    assert_eq!(status(&hub, &call, "alice"), None);
    assert_eq!(wait(hub.cancel_task(&id, "alice")).map_err(|e| e.code()), Ok(false));
}

#[test]
fn terms_that_could_not_be_kept_are_refused() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let mut options: Options = local();
    options.retention.after_close_ms = Some(10_000);
    let hub = over_with(&store, options, &clock);
    let terms = |ttl_ms| TaskTerms { ttl_ms, bound: true };
    assert_eq!(task(&hub, terms(10_001)).err(), Some(ErrorCode::InvalidArgument), "its events would go before it");
    let call = task(&hub, terms(10_000)).expect("begun");
    let refused = wait(call.become_task(terms(10_001))).expect_err("refused");
    assert_eq!(refused.code(), ErrorCode::InvalidArgument);
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let mut options: Options = local();
    options.retention.after_close_ms = None;
    options.keep_finished = Duration::from_secs(1);
    let hub = over_with(&store, options, &clock);
    assert_eq!(task(&hub, terms(1_001)).err(), Some(ErrorCode::InvalidArgument), "its row would go before it");
    assert!(task(&hub, terms(1_000)).is_ok());
}

#[test]
fn a_watched_call_becomes_a_task_unless_it_has_ended() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let call = begin(&hub, &config(NOWHERE, &ENDS)).expect("accepted");
    assert_eq!(status(&hub, &call, "tester"), None);
    assert!(wait(call.become_task(BOUND)).expect("became"));
    assert_eq!(status(&hub, &call, "tester"), Some("working"));
    wait(call.complete(br#"{"isError":true}"#)).expect("ended");
    // The webhook tells both: the call failed, its task is completed (SEP-2663).
    let bodies = std::cell::RefCell::new(Vec::new());
    store.count(|op| {
        if let Op::Enqueue(new) = op {
            bodies.borrow_mut().push(String::from_utf8_lossy(&new.body).into_owned());
        }
        false
    });
    let bodies = bodies.into_inner();
    let tail = format!(r#""taskId":"{}","taskStatus":"completed""#, call.id());
    assert!(bodies.len() == 1 && bodies[0].contains(&tail), "{bodies:?}");

    let ended = begin(&hub, &config(NOWHERE, &ENDS)).expect("accepted");
    wait(ended.cancel(None)).expect("ended");
    assert!(!wait(ended.become_task(BOUND)).expect("an answer"));
    assert_eq!(status(&hub, &ended, "tester"), None);
}

/// The record alone tells how a task ended, when retention has taken its events.
#[test]
fn a_task_is_told_without_its_events() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let mut options: Options = local();
    options.retention.max_events = Some(0);
    let hub = over_with(&store, options, &clock);
    let call = task(&hub, BOUND).expect("begun");
    wait(call.complete(br#"{"content":[]}"#)).expect("ended");
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        store.wait_look(&clock);
    }
    let found = hub.task(&call.id().to_string(), "alice").expect("an answer").expect("there");
    assert!(found.json.contains(r#""result":{"content":[]}"#), "{}", found.json);
}

/// Cancelled by another process: the row decides, and the owner hears of it. The loser of a race changes nothing.
#[test]
fn one_end_whoever_cancels() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let owner = over_with(&store, local(), &clock);
    let other = over_with(&store, local(), &clock);
    let call = task(&owner, OPEN).expect("begun");
    let id = call.id().to_string();
    assert_eq!(wait(other.cancel_task(&id, "")).map_err(|e| e.code()), Ok(true));
    assert_eq!(status(&owner, &call, ""), Some("cancelled"));
    let late = wait(call.complete(b"{}")).expect("ended");
    assert_eq!((late.outcome, late.ours), (Outcome::Cancelled, false));
    for _ in 0..50 {
        let call = task(&owner, OPEN).expect("begun");
        let id = call.id().to_string();
        let won = std::thread::scope(|scope| {
            let cancel = scope.spawn(|| wait(other.cancel_task(&id, "")).expect("an answer"));
            let won = wait(call.complete(b"{}")).expect("ended").ours;
            assert!(cancel.join().expect("a thread"), "an acknowledgement either way");
            won
        });
        let row = store.inner().call(call.id()).expect("an answer").expect("there");
        let outcome = row.outcome.expect("ended").status;
        assert_eq!(outcome, if won { "completed" } else { "cancelled" });
        assert_eq!(status(&owner, &call, ""), Some(if won { "completed" } else { "cancelled" }));
    }
}

fn answer(hub: &Hub, call: &Call, asker: &str, responses: &str) -> Result<bool, ErrorCode> {
    wait(hub.answer_task(&call.id().to_string(), asker, responses.as_bytes())).map_err(|error| error.code())
}

fn requests(hub: &Hub, call: &Call) -> Option<String> {
    let json = hub.task(&call.id().to_string(), "alice").expect("an answer").expect("there").json;
    json.split_once(r#""inputRequests":"#).map(|(_, rest)| rest[..rest.len() - 1].to_owned())
}

#[test]
fn what_a_task_asks_is_answered_by_its_principal_alone() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let call = task(&hub, BOUND).expect("begun");
    assert_eq!(answer(&hub, &call, "alice", r#"{"a":1}"#), Ok(true), "not asked for: ignored");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| wait(call.ask(br#"{"a":{}}"#)).expect("answered"));
        while requests(&hub, &call).is_none() {
            std::thread::yield_now();
        }
        assert_eq!(answer(&hub, &call, "bob", r#"{"a":"bob"}"#), Ok(false));
        assert_eq!(answer(&hub, &call, "alice", "[]"), Err(ErrorCode::InvalidArgument));
        assert_eq!(
            (status(&hub, &call, "alice"), requests(&hub, &call)),
            (Some("input_required"), Some(r#"{"a":{}}"#.into()))
        );
        assert_eq!(answer(&hub, &call, "alice", r#"{"a":"alice","z":0}"#), Ok(true));
        assert_eq!(asking.join().expect("a thread"), r#"{"a":"alice"}"#);
    });
    assert_eq!((status(&hub, &call, "alice"), requests(&hub, &call)), (Some("working"), None));
    for bad in ["", "[]", "{}", r#"{"a":1,"a":2}"#] {
        assert_eq!(wait(call.ask(bad.as_bytes())).map_err(|e| e.code()), Err(ErrorCode::InvalidArgument), "{bad:?}");
    }
    wait(call.complete(b"{}")).expect("ended");
    assert_eq!(wait(call.ask(br#"{"a":{}}"#)).map_err(|e| e.code()), Err(ErrorCode::Ended));
    assert_eq!(answer(&hub, &call, "alice", r#"{"a":1}"#), Ok(true));
    let plain = begin(&hub, &config(NOWHERE, &ENDS)).expect("accepted");
    assert_eq!(wait(plain.ask(br#"{"a":{}}"#)).map_err(|e| e.code()), Err(ErrorCode::InvalidArgument), "no task");
}

/// A task whose process died while it asked: whoever ends it closes what it asked as well, so that retention takes it.
#[test]
fn what_a_lost_task_asked_is_closed_with_it() {
    let (store, clock) = (FaultStore::shared(), TestClock::new());
    let there = store.other();
    let (owner, other) = (over_with(&store, local(), &clock), over_with(&there, local(), &clock));
    let call = task(&owner, OPEN).expect("begun");
    let input = StreamKey::new(format!("call:{}", call.id()), "input");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| wait(call.ask(br#"{"a":{}}"#)).map_err(|e| e.code()));
        while status(&other, &call, "") != Some("input_required") {
            std::thread::yield_now();
        }
        assert_eq!(wait(other.cancel_task(&call.id().to_string(), "")).map_err(|e| e.code()), Ok(true));
        assert_eq!(asking.join().expect("a thread"), Err(ErrorCode::Ended));
    });
    let info = store.inner().stream(&input).expect("an answer").expect("there");
    assert!(info.closed_at.is_some());
    // One that ends by itself closes it too; one that never asked has no such stream.
    let asked = task(&owner, OPEN).expect("begun");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| wait(asked.ask(br#"{"a":{}}"#)).map_err(|e| e.code()));
        while status(&owner, &asked, "") != Some("input_required") {
            std::thread::yield_now();
        }
        wait(asked.fail(None, None)).expect("ended");
        assert_eq!(asking.join().expect("a thread"), Err(ErrorCode::Ended));
    });
    let input = StreamKey::new(format!("call:{}", asked.id()), "input");
    let info = store.inner().stream(&input).expect("an answer").expect("there");
    assert!(info.closed_at.is_some());
    let silent = task(&owner, OPEN).expect("begun");
    wait(silent.complete(b"{}")).expect("ended");
    let input = StreamKey::new(format!("call:{}", silent.id()), "input");
    assert_eq!(store.inner().stream(&input).expect("an answer"), None);
}

/// While the store fails a question is kept, and the task neither asks nor fails.
#[test]
fn a_question_outlives_an_outage_of_the_store() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let call = task(&hub, BOUND).expect("begun");
    store.fail(Some(StoreErrorKind::Io));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| wait(call.ask(br#"{"a":{}}"#)).expect("answered"));
        store.wait_failed(1);
        assert_eq!(status(&hub, &call, "alice"), Some("working"));
        store.fail(None);
        while status(&hub, &call, "alice") != Some("input_required") {
            std::thread::yield_now();
        }
        assert_eq!(answer(&hub, &call, "alice", r#"{"a":1}"#), Ok(true));
        assert_eq!(asking.join().expect("a thread"), r#"{"a":1}"#);
    });
}
