//! Calls that go on although their request is gone, and how they are stopped.

use std::time::Duration;

use crate::support::{ENDS, FaultStore, Receiver, begin, config, local, memory, over, wait};
use tidings::proto::trigger::{Outcome, Reason};
use tidings::store::CallId;
use tidings::{DetachLimits, ErrorCode};

const NOWHERE: &str = "http://127.0.0.1:9/hook";

#[test]
fn one_principal_has_room_for_so_many() {
    let hub = over(&FaultStore::new(), local());
    let limits = DetachLimits { calls: 2, ..DetachLimits::default() };
    let calls: Vec<_> = (0..4).map(|_| begin(&hub, &config(NOWHERE, &["streaming"])).expect("accepted")).collect();
    assert!(calls[0].detach("a", limits).expect("runs"));
    assert!(calls[0].detach("a", limits).expect("runs"), "counted once");
    assert!(calls[1].detach("a", limits).expect("runs"));
    assert!(!calls[2].detach("a", limits).expect("runs"));
    let ended = wait(calls[2].ended()).expect("ended");
    assert_eq!((ended.outcome, ended.reason.as_deref()), (Outcome::Cancelled, Some(Reason::DetachLimit.as_str())));
    assert!(calls[3].detach("b", limits).expect("runs"), "another's room is its own");
    assert_eq!(calls[2].detach("a", limits).expect_err("ended").code(), ErrorCode::Ended);
    // An end makes room, once it is known.
    wait(calls[0].complete(b"{}")).expect("ended");
    let next = begin(&hub, &config(NOWHERE, &["streaming"])).expect("accepted");
    let mut last = next;
    while !last.detach("a", limits).expect("runs") {
        last = begin(&hub, &config(NOWHERE, &["streaming"])).expect("accepted");
    }
    let none = DetachLimits { calls: 0, ..limits };
    assert!(!begin(&hub, &config(NOWHERE, &["streaming"])).expect("accepted").detach("c", none).expect("runs"));
}

/// What an adapter lets go on, such as a task, takes the same room.
#[test]
fn all_that_goes_on_is_counted_together() {
    let hub = over(&FaultStore::new(), local());
    let limits = DetachLimits { calls: 2, ..DetachLimits::default() };
    let begin = || begin(&hub, &config(NOWHERE, &["streaming"])).expect("accepted");
    let (first, second) = (begin(), begin());
    let room = hub.room("a", 2).expect("room");
    assert!(first.detach("a", limits).expect("runs"));
    assert_eq!(hub.detached(), 2);
    assert!(hub.room("a", 2).is_none());
    assert!(hub.room("b", 2).is_some(), "another's room is its own, and is given back at once");
    assert!(!second.detach("a", limits).expect("runs"));
    drop(room);
    assert!(hub.room("a", 2).is_some());
    assert_eq!(hub.detached(), 1);
}

#[test]
fn its_time_is_limited() {
    let (hub, receiver) = (over(&FaultStore::new(), local()), Receiver::ok());
    let call = begin(&hub, &config(&receiver.endpoint, &["cancelled", "io.tidings/disconnected"])).expect("accepted");
    let limits = DetachLimits { time: Duration::from_millis(1), ..DetachLimits::default() };
    assert!(call.detach("a", limits).expect("runs"));
    let ended = wait(call.ended()).expect("ended");
    assert_eq!((ended.outcome, ended.reason.as_deref()), (Outcome::Cancelled, Some(Reason::DetachExpired.as_str())));
    let mut triggers: Vec<_> = receiver.wait_for(2).iter().map(|request| request.field("trigger")).collect();
    triggers.sort();
    assert_eq!(triggers, ["cancelled", "io.tidings/disconnected"]);
}

#[test]
fn only_its_principal_cancels_a_call() {
    let hub = memory();
    let text = config("https://example.com/hook", &ENDS);
    let call = begin(&hub, &text).expect("accepted");
    let id = call.id().to_string();
    for (id, asker) in
        [(&*id, "somebody"), (&*id, ""), (&*CallId::from_bytes([7; 16]).to_string(), "tester"), ("?", "tester")]
    {
        assert!(!wait(hub.cancel_call(id, asker)).expect("asked"), "{id} {asker}");
    }
    assert!(wait(hub.cancel_call(&id, "tester")).expect("asked"));
    assert_eq!(wait(call.ended()).expect("ended").outcome, Outcome::Cancelled);
    assert!(wait(hub.cancel_call(&id, "tester")).expect("asked"), "it has ended; nothing changes");
    let done = begin(&hub, &text).expect("accepted");
    wait(done.complete(b"{}")).expect("ended");
    assert!(wait(hub.cancel_call(&done.id().to_string(), "tester")).expect("asked"));
    assert_eq!(wait(done.ended()).expect("ended").outcome, Outcome::Completed);
}

/// A hub judges a config without opening anything.
#[test]
fn a_config_is_checked_without_a_call() {
    let hub = tidings::Hub::open("sqlite:/nowhere/at/all.db").expect("lazy");
    let request_id = tidings::proto::id::RequestId::from(1_i64);
    let check = |text: &str| {
        hub.check_config(&tidings::BeginCall {
            config: Some(text.as_bytes()),
            route_types: &["webhook", "signal"],
            principal: "",
            session: None,
            peer: Some(""),
            open: &[],
            request_id: &request_id,
            tool: "",
            timeout: None,
            task: None,
        })
    };
    assert_eq!(check(&config("https://example.com", &["completed", "later"])).expect("good"), ["later"]);
    let signal = |more: &str| format!(r#"{{"routes":[{{"id":"a","type":"signal","triggers":["completed"]{more}}}]}}"#);
    assert!(check(&signal(r#","signal":"SIGUSR2""#)).is_ok());
    assert!(check(&signal(r#","signal":"SIGRTMIN+3","target":"peer""#)).is_ok());
    // Field case B28: what may ring is a short list, and the client has to name it.
    for bad in [
        "",
        r#","signal":"SIGTERM""#,
        r#","signal":"SIGKILL""#,
        r#","signal":"SIGSTOP""#,
        r#","signal":0"#,
        r#","signal":64"#,
        r#","signal":"SIGFOO""#,
        r#","signal":"SIGUSR1","target":"1234""#,
        r#","signal":"SIGUSR1","endpoint":"1234""#,
    ] {
        assert_eq!(check(&signal(bad)).expect_err("refused").code(), ErrorCode::InvalidConfig, "{bad}");
    }
}
