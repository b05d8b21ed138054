//! Faults that others reported in public, of section "trigger", each under its own name. B35 is the adapter's to show
//! (`python/tests/mcp/test_mcp_field_trigger.py`), as it is about connections.

use std::sync::Barrier;
use std::time::Duration;

use crate::support::{ENDS, FaultStore, Receiver, TestClock, begin, begin_with, config, local, over, over_with, wait};
use tidings::proto::trigger::Outcome;
use tidings::store::{DeliveryState, Op, Store};
use tidings::{After, ErrorCode, ReadLimits, TaskTerms};

/// Takes no connection: what is due to it stays undelivered.
const NOWHERE: &str = "http://127.0.0.1:1/hook";

/// The end that was recorded first stays; the other is dropped, counted, and told of nobody.
#[test]
fn b34_a_cancelled_call_whose_tool_answers_is_cancelled() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    // (a) the handler answers from its abort path; (b) an answer 5 ms later is the same: late.
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    assert!(wait(call.cancel(None)).expect("ended").ours);
    let late = wait(call.complete(b"{}")).expect("ended");
    assert_eq!((late.outcome, late.ours), (Outcome::Cancelled, false));
    assert_eq!(hub.stats().late, 1);
    // The other way round the answer stays.
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    assert!(wait(call.complete(b"{}")).expect("ended").ours);
    assert_eq!(wait(call.cancel(None)).expect("ended").outcome, Outcome::Completed);
    // (c) a tool that stays silent: the call is over at once all the same.
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    wait(call.cancel(None)).expect("ended");
    assert_eq!(wait(call.ended()).expect("told").outcome, Outcome::Cancelled);
    store.wait_deliveries(&[DeliveryState::Delivered; 3]);
    let mut statuses: Vec<_> = receiver.requests().iter().map(|request| request.field("status")).collect();
    statuses.sort();
    assert_eq!(statuses, ["cancelled", "cancelled", "completed"]);
}

/// A thousand races of an answer with a cancel: one end, one event and one firing each, which agree.
#[test]
fn b36_a_terminal_state_is_final() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    for round in 0..1_000 {
        let call = begin(&hub, &config(NOWHERE, &ENDS)).expect("accepted");
        let both = Barrier::new(2);
        let (completed, cancelled) = std::thread::scope(|scope| {
            let complete = scope.spawn(|| {
                both.wait();
                wait(call.complete(b"{}")).expect("ended")
            });
            both.wait();
            (wait(call.cancel(None)).expect("ended"), complete.join().expect("a thread"))
        });
        assert!(completed.ours != cancelled.ours, "round {round}");
        assert_eq!(completed.outcome, cancelled.outcome);
        let row = store.inner().call(call.id()).expect("reads").expect("there");
        assert_eq!(row.outcome.expect("ended").status, completed.outcome.as_str());
        let fired: Vec<_> =
            store.inner().deliveries(None, Some(&tidings::store::Subject::Call(call.id())), None, 10).expect("reads");
        let mut events: Vec<_> = fired.iter().map(|delivery| delivery.event_id.as_str()).collect();
        events.dedup();
        assert_eq!(events.len(), 1, "round {round}");
        assert_eq!(fired[0].trigger, completed.outcome.as_str());
        // A late step of the tool's fires and appends nothing.
        assert_eq!(call.emit("step", b"{}").expect_err("ended").code(), ErrorCode::Ended);
        let stream = hub.stream(call.writer().key().scope.clone(), "events").expect("a stream");
        let read = stream.read(After::Earliest, ReadLimits::default()).expect("a read");
        assert_eq!((read.events.len(), read.ended), (1, true), "round {round}");
    }
    assert_eq!(store.count(|op| matches!(op, Op::EndCall { .. })), 1_000);
}

/// A ttl is of what has ended: nothing that runs is taken away by it, however long it runs.
#[test]
fn b37_a_task_that_runs_longer_than_its_ttl_lives() {
    for ttl_ms in [300, 0] {
        let (store, clock) = (FaultStore::new(), TestClock::new());
        let hub = over_with(&store, local(), &clock);
        let call = begin(&hub, &config(NOWHERE, &ENDS)).expect("accepted");
        assert!(wait(call.become_task(TaskTerms { ttl_ms, bound: true })).expect("a task"));
        let id = call.id().to_string();
        clock.advance(Duration::from_millis(900));
        store.wait_look(&clock);
        let task = hub.task(&id, "tester").expect("an answer").expect("it runs, so it is there");
        assert_eq!(task.status, "working");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(call.ended()));
            assert!(wait(call.complete(b"{}")).expect("ended").ours);
            assert_eq!(waiter.join().expect("a thread").expect("it wakes").outcome, Outcome::Completed);
        });
        assert_eq!(store.count(|op| matches!(op, Op::Enqueue(_))), 1, "one terminal trigger");
        assert_eq!(hub.task(&id, "tester").expect("an answer").is_some(), ttl_ms > 0, "the ttl begins with the end");
        clock.advance(Duration::from_millis(301));
        assert_eq!(hub.task(&id, "tester").expect("an answer"), None);
    }
    // A limit is a word of its own, and not a silence.
    let hub = over(&FaultStore::new(), local());
    let call = begin_with(&hub, &config(NOWHERE, &ENDS), Some(Duration::from_millis(1))).expect("accepted");
    assert_eq!(wait(call.ended()).expect("told").outcome, Outcome::Timeout);
}

/// Between its end and the sweep a task whose time is over is gone for whoever asks, by whatever way.
#[test]
fn b38_every_way_to_ask_agrees_once_the_time_is_over() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let call = begin(&hub, &config(NOWHERE, &["completed"])).expect("accepted");
    assert!(wait(call.become_task(TaskTerms { ttl_ms: 100, bound: true })).expect("a task"));
    wait(call.complete(b"{}")).expect("ended");
    let id = call.id().to_string();
    clock.advance(Duration::from_millis(99));
    assert!(
        hub.task(&id, "tester").expect("an answer").is_some()
            && wait(hub.cancel_task(&id, "tester")).expect("an answer")
    );
    clock.advance(Duration::from_millis(51));
    assert_eq!(hub.task(&id, "tester").expect("an answer"), None, "get, its result and its stream are one look-up");
    assert!(!wait(hub.cancel_task(&id, "tester")).expect("an answer"));
    assert!(store.inner().call(call.id()).expect("reads").is_some(), "no sweep has come by");
}
