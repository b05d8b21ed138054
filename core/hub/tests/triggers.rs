//! Triggers beyond outcomes: conditions, time, groups of calls, and what a vendor's tool fires itself.

use std::time::Duration;

use crate::support::{FaultStore, Receiver, SECRET, TestClock, begin, local, over, over_with, wait};
use tidings::proto::id::RequestId;
use tidings::proto::trigger::Outcome;
use tidings::store::{DeliveryState, NewDelivery, Op, Store};
use tidings::{BeginCall, Call, Durability, ErrorCode, Hub, Options, Result};

/// Takes no connection: what is due to it stays undelivered.
const NOWHERE: &str = "http://127.0.0.1:1/hook";

/// A config of webhook routes (id, triggers as JSON text), and its other members.
fn config(more: &str, routes: &[(&str, &str)]) -> String {
    config_to(NOWHERE, more, routes)
}

fn config_to(endpoint: &str, more: &str, routes: &[(&str, &str)]) -> String {
    let route = |(id, triggers): &(&str, &str)| {
        format!(
            r#"{{"id":"{id}","type":"webhook","endpoint":"{endpoint}","secret":"{SECRET}","triggers":[{triggers}]}}"#
        )
    };
    let routes: Vec<_> = routes.iter().map(route).collect();
    format!(r#"{{{more}"routes":[{}]}}"#, routes.join(","))
}

/// The first delivery of each firing: where a route is given up, another follows.
fn enqueued(store: &FaultStore) -> Vec<NewDelivery> {
    let mut first: Vec<NewDelivery> = Vec::new();
    for op in store.ops() {
        if let Op::Enqueue(new) = op
            && first.iter().all(|before| before.event_id != new.event_id)
        {
            first.push(*new);
        }
    }
    first
}

/// The routes that were told, in order.
fn told(store: &FaultStore) -> Vec<String> {
    enqueued(store).into_iter().map(|new| new.route_id).collect()
}

fn body(new: &NewDelivery) -> String {
    String::from_utf8(new.body.to_vec()).expect("JSON text")
}

fn complete(call: &Call, result: &str) {
    assert!(wait(call.complete(result.as_bytes())).expect("ended").ours);
}

fn begin_as(hub: &Hub, principal: &str, config: &str) -> Result<Call> {
    wait(hub.begin_call(BeginCall {
        config: Some(config.as_bytes()),
        route_types: &["webhook"],
        principal,
        session: None,
        request_id: &RequestId::from(7_i64),
        tool: "tool",
        timeout: None,
        task: None,
        open: &[],
        peer: None,
    }))
}

/// The first route whose conditions hold gets the outcome; one without conditions takes what they leave.
#[test]
fn conditions_choose_the_route() {
    let routes = [
        ("big", r#"{"on":"completed","when":[{"path":"/result/structuredContent/total","gt":9007199254740992}]}"#),
        ("bad", r#"{"on":"failed","when":[{"path":"/error/code","eq":-32603},{"path":"/reason","exists":false}]}"#),
        ("rest", r#""completed","failed""#),
    ];
    for (result, error, want) in [
        (Some(r#"{"structuredContent":{"total":9007199254740993}}"#), None, "big"),
        (Some(r#"{"structuredContent":{"total":9007199254740992}}"#), None, "rest"),
        (Some(r#"{"structuredContent":{"total":"9007199254740993"}}"#), None, "rest"),
        (None, Some(r#"{"code":-32603,"message":"m"}"#), "bad"),
        (None, Some(r#"{"code":-32602,"message":"m"}"#), "rest"),
    ] {
        let store = FaultStore::new();
        let hub = over(&store, local());
        let call = begin(&hub, &config("", &routes)).expect("accepted");
        match (result, error) {
            (Some(result), _) => complete(&call, result),
            (_, error) => drop(wait(call.fail(error.map(str::as_bytes), None)).expect("ended")),
        }
        assert_eq!(told(&store), [want], "{result:?} {error:?}");
    }
}

/// Nobody asked for it, so nothing is missing, whatever the policy.
#[test]
fn a_condition_that_does_not_hold_is_not_undeliverable() {
    let store = FaultStore::new();
    let mut options = local();
    options.undeliverable = tidings::proto::route::UndeliverablePolicy::Annotate;
    let hub = over(&store, options);
    let triggers = r#"{"on":"completed","when":[{"path":"/result/n","ge":10}]}"#;
    let call = begin(&hub, &config("", &[("a", triggers)])).expect("accepted");
    let ended = wait(call.complete(br#"{"n":9.5}"#)).expect("ended");
    assert_eq!((ended.undelivered, told(&store)), (None, Vec::new()));
}

/// An event that no condition wants does not use up the second in which `streaming` fires once.
#[test]
fn streaming_may_have_conditions() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let triggers = r#"{"on":"streaming","when":[{"path":"/type","prefix":"com.example."},{"path":"/payload/level","in":["warn","error"]}]}"#;
    let call = begin(&hub, &config("", &[("a", triggers)])).expect("accepted");
    for (kind, payload) in [
        ("com.example.log", r#"{"level":"info"}"#),
        ("other", r#"{"level":"error"}"#),
        ("com.example.log", "no JSON"),
        ("com.example.log", r#"{"level":"warn"}"#),
        ("com.example.log", r#"{"level":"error"}"#),
    ] {
        call.emit(kind, payload.as_bytes()).expect("numbered");
    }
    wait(call.writer().flush(Durability::Process)).expect("committed");
    let fired = enqueued(&store);
    assert_eq!(fired.len(), 1);
    assert!(body(&fired[0]).contains(r#""seq":3}"#), "{}", body(&fired[0]));
}

#[test]
fn a_vendors_trigger_is_fired_with_its_payload() {
    let store = FaultStore::new();
    let hub = over(&store, local());
    let triggers = r#""com.example/half",{"on":"com.example.step","when":[{"path":"/n","ge":2}]}"#;
    let call = begin(&hub, &config("", &[("a", triggers)])).expect("accepted");
    assert_eq!(call.ignored_triggers(), Vec::<String>::new());
    assert_eq!(call.fire("com.example/half", br#"{"n":1.0}"#).expect("fired"), 0);
    assert_eq!(call.fire("com.example.step", br#"{"n":1}"#).expect("fired"), 1);
    assert_eq!(call.fire("com.example.step", br#"{"n":2}"#).expect("fired"), 2);
    assert_eq!(call.fire("com.example/nobody-asked", b"{}").expect("fired"), 3);
    for (name, payload) in
        [("completed", "{}"), ("io.tidings/x", "{}"), ("com.example/x", "[]"), ("com.example/x", "{")]
    {
        let refused = call.fire(name, payload.as_bytes()).expect_err("refused");
        assert_eq!(refused.code(), ErrorCode::InvalidArgument, "{name} {payload}");
    }
    complete(&call, "{}");
    let fired = enqueued(&store);
    assert_eq!(
        fired.iter().map(|new| new.trigger.as_str()).collect::<Vec<_>>(),
        ["com.example/half", "com.example.step"]
    );
    let first = body(&fired[0]);
    assert!(
        first.contains(r#""name":"com.example/half""#) && first.contains(r#""payload":{"n":1.0},"seq":0}"#),
        "{first}"
    );
    assert!(body(&fired[1]).contains(r#""payload":{"n":2},"seq":2}"#));
    assert_eq!(call.fire("com.example/half", b"{}").expect_err("ended").code(), ErrorCode::Ended);
    let stream = hub.stream(call.writer().key().scope.clone(), "events").expect("a stream");
    let read = stream.read(tidings::After::Earliest, tidings::ReadLimits::default()).expect("a read");
    let kinds: Vec<_> = read.events.iter().map(|event| event.kind.to_string()).collect();
    assert_eq!(kinds[..3], ["com.example/half", "com.example.step", "com.example.step"]);
}

/// By a clock that stands still nothing is ever looked for: whatever fires tells the dispatcher itself.
#[test]
fn what_fires_while_a_call_runs_goes_out_at_once() {
    let (store, clock, receiver) = (FaultStore::new(), TestClock::new(), Receiver::ok());
    let hub = over_with(&store, local(), &clock);
    let triggers = ["com.example/half", "streaming", "io.tidings/disconnected"];
    let call = begin(&hub, &crate::support::config(&receiver.endpoint, &triggers)).expect("accepted");
    call.fire("com.example/half", b"{}").expect("fired");
    receiver.wait_for(1);
    store.wait_deliveries(&[DeliveryState::Delivered]);
    call.emit("com.example.step", b"{}").expect("numbered");
    receiver.wait_for(2);
    store.wait_deliveries(&[DeliveryState::Delivered; 2]);
    call.disconnected().expect("it runs");
    receiver.wait_for(3);
    store.wait_deliveries(&[DeliveryState::Delivered; 3]);
}

fn fired_timers(store: &FaultStore) -> usize {
    store.count(|op| matches!(op, Op::FireTimer { .. }))
}

/// Lets time go by in steps that no process mistakes for a sleep of the host.
fn pass(clock: &TestClock, store: &FaultStore, seconds: u64) {
    for _ in 0..seconds {
        clock.advance(Duration::from_secs(1));
        store.wait_look(clock);
    }
}

#[test]
fn a_time_fires_once_and_an_interval_again_and_again() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    // On two routes it is one trigger, which the first of them is told of.
    let routes = [("a", r#"{"elapsedMs":5000},{"everyMs":10000}"#), ("b", r#"{"elapsedMs":5000},{"elapsedMs":15000}"#)];
    let call = begin(&hub, &config("", &routes)).expect("accepted");
    let quick = begin(&hub, &config("", &routes)).expect("accepted");
    pass(&clock, &store, 4);
    assert_eq!(told(&store), [""; 0]);
    complete(&quick, "{}");
    pass(&clock, &store, 27);
    let about: Vec<_> = enqueued(&store).iter().map(|new| (new.route_id.clone(), data(&body(new)))).collect();
    let want = [
        ("a", r#""trigger":"elapsedMs","elapsedMs":5000"#),
        ("a", r#""trigger":"everyMs","everyMs":10000,"count":1"#),
        ("b", r#""trigger":"elapsedMs","elapsedMs":15000"#),
        ("a", r#""trigger":"everyMs","everyMs":10000,"count":2"#),
        ("a", r#""trigger":"everyMs","everyMs":10000,"count":3"#),
    ];
    assert_eq!(about, want.map(|(route, data)| (route.to_owned(), data.to_owned())));
    complete(&call, "{}");
    pass(&clock, &store, 15);
    assert_eq!(fired_timers(&store), 5, "an ended call has no more time");
}

/// What stands between the route and the end of `data`.
fn data(body: &str) -> String {
    let start = body.find(r#""trigger":"#).expect("the member");
    body[start..].trim_end_matches('}').to_owned()
}

/// The wall clock is set back and forward by an hour: time is the boot clock's, so nothing fires twice, early or late, and
/// no call dies of it.
#[test]
fn the_wall_clock_is_not_asked() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let triggers = r#"{"elapsedMs":5000},{"everyMs":10000},{"group":"g","all":2,"deadlineMs":12000}"#;
    let call = begin(&hub, &config(r#""group":"g","timeoutMs":20000,"#, &[("a", triggers)])).expect("accepted");
    let hour = 3_600_000;
    for (turn, wall) in [-hour, 2 * hour, -hour, 0].into_iter().enumerate() {
        clock.set_wall_by(wall);
        pass(&clock, &store, if turn == 0 { 4 } else { 5 });
        let names: Vec<_> = enqueued(&store).into_iter().map(|new| new.trigger).collect();
        // After 4, 9, 14 and 19 seconds.
        let want = [&[][..], &["elapsedMs"], &["elapsedMs", "everyMs", "group"], &["elapsedMs", "everyMs", "group"]];
        assert_eq!(names, want[turn], "after {wall}");
        assert_eq!(store.inner().call(call.id()).expect("reads").expect("there").outcome, None);
    }
    pass(&clock, &store, 1);
    assert_eq!(wait(call.ended()).expect("ended").outcome, Outcome::Timeout);
}

/// Due while nobody was there: fires once at the next start, and then the call is found lost.
#[test]
fn what_became_due_while_nobody_was_there_fires_once_at_the_next_start() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let receiver = Receiver::ok();
    let hub = over_with(&store, local(), &clock);
    let triggers = r#""failed",{"elapsedMs":5000},{"everyMs":10000},{"group":"g","count":2,"deadlineMs":7000}"#;
    let call = begin(&hub, &config_to(&receiver.endpoint, r#""group":"g","#, &[("a", triggers)])).expect("accepted");
    drop(hub); // without a word about its calls
    drop(call);
    clock.advance(Duration::from_secs(45));
    let next = over_with(&store, local(), &clock);
    store.wait_deliveries(&[DeliveryState::Delivered; 4]);
    let names: Vec<_> = enqueued(&store).into_iter().map(|new| new.trigger).collect();
    assert_eq!(names, ["elapsedMs", "everyMs", "failed", "group"]);
    assert!(body(&enqueued(&store)[1]).contains(r#""everyMs":10000,"count":4}"#), "those that were missed are one");
    assert!(body(&enqueued(&store)[3]).contains(r#""met":false,"reason":"deadline""#));
    pass(&clock, &store, 15);
    assert_eq!((enqueued(&store).len(), receiver.requests().len()), (4, 4));
    drop(next);
}

fn verdicts(store: &FaultStore) -> Vec<String> {
    let groups = enqueued(store).into_iter().filter(|new| new.trigger == "group");
    groups.map(|new| data(&body(&new))).collect()
}

/// Each call of a batch brings the same config; the group is told of once, over the routes of the first.
#[test]
fn the_last_call_of_a_group_fires_its_aggregates() {
    let (store, receiver) = (FaultStore::new(), Receiver::ok());
    let hub = over(&store, local());
    let triggers = r#"{"group":"batch","all":3},{"group":"batch","on":"failed","any":true}"#;
    let config = config_to(&receiver.endpoint, r#""group":"batch","#, &[("a", triggers)]);
    let calls: Vec<Call> = (0..3).map(|_| begin(&hub, &config).expect("accepted")).collect();
    let other = begin_as(&hub, "somebody else", &config).expect("accepted");
    complete(&other, "{}");
    complete(&calls[0], "{}");
    complete(&calls[1], r#"{"isError":true}"#);
    receiver.wait_for(1);
    complete(&calls[2], "{}");
    let requests = receiver.wait_for(2);
    let ids: Vec<_> = calls.iter().map(Call::id).collect();
    assert_eq!(
        verdicts(&store),
        [
            format!(
                r#""trigger":"group","group":{{"name":"batch","on":"failed","any":true,"met":true,"calls":[{{"callId":"{}","status":"completed"}},{{"callId":"{}","status":"failed"}},{{"callId":"{}"}}]"#,
                ids[0], ids[1], ids[2]
            ),
            format!(
                r#""trigger":"group","group":{{"name":"batch","all":3,"met":true,"calls":[{{"callId":"{}","status":"completed"}},{{"callId":"{}","status":"failed"}},{{"callId":"{}","status":"completed"}}]"#,
                ids[0], ids[1], ids[2]
            ),
        ]
    );
    for request in requests {
        assert_eq!(
            (request.field("name"), request.field("callId")),
            ("tool_call.group".to_owned(), ids[0].to_string())
        );
    }
    // The group is over; the next batch of that name is another one, and the other principal's still waits.
    let again = begin(&hub, &config).expect("accepted");
    complete(&again, "{}");
    store.wait_deliveries(&[DeliveryState::Delivered; 2]);
}

#[test]
fn a_group_that_cannot_come_to_it_says_so_at_once_or_at_its_deadline() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let hub = over_with(&store, local(), &clock);
    let triggers =
        r#"{"group":"g","on":"completed","all":2,"deadlineMs":3000},{"group":"g","count":2,"deadlineMs":3000}"#;
    let call = begin(&hub, &config(r#""group":"g","#, &[("a", triggers)])).expect("accepted");
    wait(call.cancel(None)).expect("ended");
    store.wait_op(|op| matches!(op, Op::EndAggregate { .. }));
    assert!(verdicts(&store)[0].contains(r#""all":2,"met":false,"reason":"impossible""#), "{:?}", verdicts(&store));
    pass(&clock, &store, 2);
    assert_eq!(verdicts(&store).len(), 1);
    pass(&clock, &store, 1);
    let all = verdicts(&store);
    assert!(all.len() == 2 && all[1].contains(r#""count":2,"met":false,"reason":"deadline""#), "{all:?}");
    assert!(enqueued(&store).iter().all(|new| body(new).contains(r#""name":"tool_call.group_unmet""#)));
    pass(&clock, &store, 5);
    assert_eq!(verdicts(&store).len(), 2);
}

#[test]
fn a_group_takes_so_many_calls_and_the_next_one_is_refused_whole() {
    let store = FaultStore::new();
    let mut options: Options = local();
    options.config_limits.max_group_calls = 2;
    let hub = over(&store, options);
    let config = config(r#""group":"g","#, &[("a", r#""completed""#)]);
    let _calls = [begin(&hub, &config).expect("accepted"), begin(&hub, &config).expect("accepted")];
    let refused = begin(&hub, &config).err().expect("full");
    assert_eq!(refused.code(), ErrorCode::InvalidConfig);
    let fault = &refused.faults().expect("faults").listed()[0];
    assert_eq!((fault.path.as_str(), fault.rule), ("/group", "group_full"));
    assert!(begin_as(&hub, "somebody else", &config).is_ok());
}

/// Two processes end the calls of one group; whichever ends the last one, the group is told of once.
#[test]
fn a_group_may_be_spread_over_processes() {
    let (one, receiver) = (FaultStore::shared(), Receiver::ok());
    let two = one.other();
    let (first, second) = (over(&one, local()), over(&two, local()));
    let triggers = r#"{"group":"g","all":8}"#;
    let config = config_to(&receiver.endpoint, r#""group":"g","#, &[("a", triggers)]);
    let calls: Vec<Call> =
        (0..8).map(|n| begin(if n % 2 == 0 { &first } else { &second }, &config).expect("accepted")).collect();
    std::thread::scope(|scope| {
        for call in &calls {
            scope.spawn(|| complete(call, "{}"));
        }
    });
    receiver.wait_for(1);
    one.wait_deliveries(&[DeliveryState::Delivered]);
    let told =
        one.count(|op| matches!(op, Op::EndAggregate { .. })) + two.count(|op| matches!(op, Op::EndAggregate { .. }));
    assert_eq!((told, receiver.requests().len()), (1, 1));
}
