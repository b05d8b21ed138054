//! Calls without their process: it stops, dies, hangs, or the whole host slept.

use std::time::Duration;

use crate::support::{
    ENDS, FaultStore, HANG, Receiver, TestClock, begin, begin_with, config, local, over, over_with, wait,
};
use tidings::proto::trigger::Outcome;
use tidings::store::{CallId, DeliveryState, Op, Store};
use tidings::{ErrorCode, Hub};

/// Takes no connection: what is due to it stays undelivered.
const NOWHERE: &str = "http://127.0.0.1:1/hook";
const LEASE: Duration = Duration::from_secs(15);

fn is_end(op: &Op) -> bool {
    matches!(op, Op::EndCall { .. })
}

fn is_enqueue(op: &Op) -> bool {
    matches!(op, Op::Enqueue(_))
}

fn row(store: &FaultStore, call: CallId) -> (String, Option<String>) {
    let outcome = store.inner().call(call).expect("an answer").expect("there").outcome.expect("ended");
    (outcome.status, outcome.reason)
}

fn failed(reason: &str) -> (String, Option<String>) {
    ("failed".to_owned(), Some(reason.to_owned()))
}

/// Lets time go by in steps that no process mistakes for a sleep of the host.
fn pass(clock: &TestClock, store: &FaultStore, time: Duration) {
    for _ in 0..time.as_secs() {
        clock.advance(Duration::from_secs(1));
        store.wait_look(clock);
    }
}

/// A server that stops in order ends its calls itself; the webhook goes out at the next start.
#[test]
fn a_stopped_server() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    call.emit("step", b"{}").expect("numbered");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(call.ended()));
        assert!(hub.close(HANG));
        let ended = waiter.join().expect("a thread").expect("ended");
        assert_eq!(
            (ended.outcome, ended.reason.as_deref(), ended.committed),
            (Outcome::Failed, Some("shutdown"), true)
        );
    });
    assert_eq!(row(&store, call.id()), failed("shutdown"));
    let deliveries = store.inner().deliveries(None, None, None, 10).expect("deliveries");
    assert_eq!(deliveries.len(), 1);
    assert!(!deliveries[0].state.is_final() && deliveries[0].attempts == 0, "{deliveries:?}");
    assert_eq!(receiver.connections(), 0);
    assert_eq!(wait(call.complete(b"{}")).expect_err("closed").code(), ErrorCode::Closed);
    drop(call);

    let _next = over(&store, local());
    store.wait_deliveries(&[DeliveryState::Delivered]);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (requests[0].field("status"), requests[0].field("reason")),
        ("failed".to_owned(), "shutdown".to_owned())
    );
    assert_eq!((store.count(is_end), store.count(is_enqueue)), (1, 1));
}

/// A server whose worker is gone, calls and all: the next start finds them lost, and tells.
#[test]
fn a_server_that_is_gone() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    let call = begin(&hub, &config(&receiver.endpoint, &ENDS)).expect("accepted");
    drop(hub); // without a word about its calls
    assert_eq!(wait(call.ended()).expect_err("nobody will say").code(), ErrorCode::Closed);
    assert_eq!(store.count(is_end), 0);

    let next = over(&store, local());
    store.wait_deliveries(&[DeliveryState::Delivered]);
    assert_eq!(row(&store, call.id()), failed("server_lost"));
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (requests[0].field("reason"), requests[0].field("callId")),
        ("server_lost".to_owned(), call.id().to_string())
    );
    let stream = next.stream(format!("call:{}", call.id()), "events").expect("a stream");
    let read = stream.read(tidings::After::Earliest, tidings::ReadLimits::default()).expect("a read");
    assert_eq!(&read.events[0].payload[..], br#"{"status":"failed","reason":"server_lost"}"#);
    assert!(read.ended);
    assert_eq!((store.count(is_end), store.count(is_enqueue)), (1, 1));
}

/// A process that hangs beyond its lease loses its calls to another, and hears of it when it comes back.
#[test]
fn a_server_that_hangs() {
    let (hangs, clock) = (FaultStore::shared(), TestClock::new());
    let lives = hangs.other();
    let (one, two) = (over_with(&hangs, local(), &clock), over_with(&lives, local(), &clock));
    let call = begin(&one, &config(NOWHERE, &ENDS)).expect("accepted");
    let mine = begin(&two, &config(NOWHERE, &ENDS)).expect("accepted");
    hangs.block(true);
    pass(&clock, &lives, LEASE - Duration::from_secs(1));
    assert_eq!(lives.count(is_end), 0, "its lease still runs");
    pass(&clock, &lives, Duration::from_secs(2));
    lives.wait_op(is_end);
    assert_eq!(row(&lives, call.id()), failed("server_lost"));

    hangs.block(false);
    let ended = wait(call.complete(b"{}")).expect("ended");
    assert_eq!((ended.outcome, ended.reason.as_deref(), ended.ours), (Outcome::Failed, Some("server_lost"), false));
    assert_eq!(call.emit("step", b"{}").expect_err("ended").code(), ErrorCode::Ended);
    assert!(wait(mine.complete(b"{}")).expect("ended").ours, "its own calls live on");
    assert_eq!((hangs.count(is_end), lives.count(is_end)), (0, 2));
}

/// The tool of a call that another process ended emits on, and its process learns of the end by that or by looking.
#[test]
fn a_call_ended_elsewhere_is_noticed() {
    let (owner, clock) = (FaultStore::shared(), TestClock::new());
    let other = owner.other();
    let (one, two) = (over_with(&owner, local(), &clock), over_with(&other, local(), &clock));
    for emits in [false, true] {
        let call = begin_with(&one, &config(NOWHERE, &ENDS), Some(Duration::from_secs(2))).expect("accepted");
        owner.block(true);
        // The owner is in the middle of something when the time is up; the other process is faster.
        pass(&clock, &other, Duration::from_secs(3));
        assert_eq!(row(&other, call.id()), ("timeout".to_owned(), None));
        if emits {
            call.emit("step", b"{}").expect("the owner does not know yet");
        }
        owner.block(false);
        let ended = wait(call.ended()).expect("ended");
        assert_eq!((ended.outcome, ended.ours, ended.committed), (Outcome::Timeout, false, true));
        assert_eq!(call.emit("step", b"{}").expect_err("ended").code(), ErrorCode::Ended);
        assert!(!wait(call.complete(b"{}")).expect("ended").ours);
    }
    assert_eq!((owner.count(is_end), other.count(is_end), other.count(is_enqueue)), (0, 2, 2));
    drop(two);
}

/// The clock of leases counts while the host sleeps. Whoever wakes up first must not take the others for dead.
#[test]
fn a_host_that_slept() {
    let (late, clock) = (FaultStore::shared(), TestClock::new());
    let early = late.other();
    let (one, two) = (over_with(&late, local(), &clock), over_with(&early, local(), &clock));
    let call = begin(&one, &config(NOWHERE, &ENDS)).expect("accepted");
    late.block(true); // it does not wake up yet
    clock.advance(Duration::from_secs(8 * 3_600));
    early.wait_look(&clock);
    assert_eq!(early.count(is_end), 0, "one that just slept as well may be alive");
    late.block(false);
    let now = clock.now();
    late.wait_op(|op| matches!(op, Op::Heartbeat { until, .. } if *until > now));
    pass(&clock, &early, Duration::from_secs(10));
    assert_eq!(early.count(is_end), 0);
    assert!(wait(call.complete(b"{}")).expect("ended").ours);

    // One that does not come back is given up after all.
    let lost = begin(&one, &config(NOWHERE, &ENDS)).expect("accepted");
    late.block(true);
    clock.advance(Duration::from_secs(8 * 3_600));
    early.wait_look(&clock);
    pass(&clock, &early, Duration::from_secs(6));
    early.wait_op(is_end);
    assert_eq!(row(&early, lost.id()), failed("server_lost"));
    late.block(false);
    drop(two);
}

/// A process never takes itself for dead, however late its heartbeat is.
#[test]
fn a_process_does_not_lose_its_own_calls() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let call = begin(&hub, &config(NOWHERE, &ENDS)).expect("accepted");
    store.block(true);
    for _ in 0..60 {
        clock.advance(Duration::from_secs(1));
    }
    store.block(false);
    store.wait_look(&clock);
    pass(&clock, &store, Duration::from_secs(30));
    assert_eq!(store.count(is_end), 0);
    assert!(wait(call.complete(b"{}")).expect("ended").ours);
}

/// Two processes see the same timer due at the same moment: one outcome, one firing.
#[test]
fn a_timer_that_several_processes_see() {
    let (a, clock) = (FaultStore::shared(), TestClock::new());
    let b = a.other();
    let (one, two) = (over_with(&a, local(), &clock), over_with(&b, local(), &clock));
    for _ in 0..20 {
        let calls: Vec<_> = (0..4)
            .map(|n| {
                let hub: &Hub = if n % 2 == 0 { &one } else { &two };
                begin_with(hub, &config(NOWHERE, &["timeout"]), Some(Duration::from_millis(500))).expect("accepted")
            })
            .collect();
        let before = (a.count(is_end) + b.count(is_end), a.count(is_enqueue) + b.count(is_enqueue));
        clock.advance(Duration::from_millis(500));
        for call in &calls {
            assert_eq!(wait(call.ended()).expect("ended").outcome, Outcome::Timeout);
        }
        let after = (a.count(is_end) + b.count(is_end), a.count(is_enqueue) + b.count(is_enqueue));
        assert_eq!((after.0 - before.0, after.1 - before.1), (4, 4));
    }
}
