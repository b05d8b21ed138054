//! Fan-out: who is told, in which words, how often, and what a slow, a dead or a late one costs the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::support::{self, FaultStore, TestClock, local, memory, over_with, wait};
use tidings::proto::fanout::mcp::{MCP, TASKS};
use tidings::proto::fanout::{Filter, Profile};
use tidings::proto::id::RequestId;
use tidings::store::{Commit, Durability, Op, PUBLISHES_KEPT, Publish as Logged, Store, StoreErrorKind, WorkerId};
use tidings::{
    BeginCall, Call, ErrorCode, Fanout, Hub, ListenerId, Options, Outbox, Parcel, Publish, SinkId, SinkOptions,
    TaskTerms,
};

const SERVER: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},
    "resources":{"listChanged":true,"subscribe":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
const PROMPTS: &str = r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#;
const RESOURCES: &str = r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#;

fn profile(version: &str) -> Profile {
    let client = format!(r#"{{"extensions":{{"{TASKS}":{{}}}}}}"#);
    Profile::new(&MCP, version, SERVER, &client).expect("a profile")
}

fn legacy(outbox: &Outbox) -> (SinkId, ListenerId) {
    legacy_of(outbox, SinkOptions::default())
}

fn legacy_of(outbox: &Outbox, options: SinkOptions<'_>) -> (SinkId, ListenerId) {
    let sink = outbox.add_sink(options).expect("a sink");
    let listener = outbox.attend(sink, &profile("2025-11-25")).expect("a listener");
    outbox.open(listener);
    (sink, listener)
}

fn listen(outbox: &Outbox, sink: SinkId, id: &str, filter: &str) -> ListenerId {
    let (profile, id) = (profile("2026-07-28"), RequestId::parse(id.as_bytes()).expect("an id"));
    let filter = Filter::parse(&MCP, filter).expect("a filter").honoured(&profile).expect("declared");
    outbox.listen(sink, &profile, &id, filter).expect("a listener")
}

/// A listener that has its acknowledgement.
fn modern(outbox: &Outbox, id: &str, filter: &str) -> (SinkId, ListenerId) {
    let sink = outbox.add_sink(SinkOptions::default()).expect("a sink");
    let listener = listen(outbox, sink, id, filter);
    write_all(outbox);
    (sink, listener)
}

/// Takes everything and says it is written: each frame's sink and text.
fn write_all(outbox: &Outbox) -> Vec<(SinkId, String)> {
    let mut written = Vec::new();
    loop {
        let parcels = outbox.take(usize::MAX);
        if parcels.is_empty() {
            return written;
        }
        for parcel in parcels {
            match parcel {
                Parcel::Frame { sink, frame, tag, .. } => {
                    written.push((sink, frame.tagged(tag.as_ref())));
                    outbox.written(sink, 1);
                }
                Parcel::Finish { sink, .. } => written.push((sink, "finish".to_owned())),
            }
        }
    }
}

fn frames(outbox: &Outbox, sink: SinkId) -> Vec<String> {
    write_all(outbox).into_iter().filter(|(at, _)| *at == sink).map(|(_, frame)| frame).collect()
}

fn kinds<'a>(kinds: &'a [&'a str]) -> Publish<'a> {
    Publish { kinds, ..Publish::default() }
}

fn uri(name: &str) -> Publish<'_> {
    Publish { kinds: &["resource"], name: Some(name), audience: None }
}

fn notify(hub: &Hub, publish: Publish<'_>) -> (u64, u64, u64) {
    let Fanout { told, skipped, failed, .. } = hub.notify(publish).expect("published");
    (told, skipped, failed)
}

fn tagged(method: &str, id: &str, rest: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}{rest}}}}}"#
    )
}

#[test]
fn each_is_told_in_the_words_of_its_version_and_nobody_else() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let (old, _) = legacy(&outbox);
    let (one, _) = modern(&outbox, "7", r#"{"toolsListChanged":true}"#);
    let (two, _) = modern(&outbox, "\"7\"", r#"{"promptsListChanged":true}"#);
    assert_eq!(notify(&hub, kinds(&["tools"])), (2, 1, 0));
    let mut told = write_all(&outbox);
    told.sort();
    assert_eq!(told, [(old, TOOLS.to_owned()), (one, tagged("tools/list_changed", "7", ""))]);
    assert_eq!(notify(&hub, kinds(&["prompts"])), (2, 1, 0));
    assert_eq!(frames(&outbox, two), [tagged("prompts/list_changed", "\"7\"", "")]);
}

/// Field case B42.
#[test]
fn what_the_server_did_not_declare_is_told_to_nobody() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let sink = outbox.add_sink(SinkOptions::default()).expect("a sink");
    let server = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":false}}"#;
    let profile = Profile::new(&MCP, "2025-06-18", server, "{}").expect("a profile");
    let listener = outbox.attend(sink, &profile).expect("a listener");
    outbox.open(listener);
    assert_eq!(notify(&hub, kinds(&["prompts"])), (0, 1, 0));
    assert_eq!(write_all(&outbox), []);
    assert_eq!(notify(&hub, kinds(&["tools"])), (1, 0, 0));
    assert_eq!(frames(&outbox, sink), [TOOLS]);
    assert_eq!(outbox.subscribe(listener, &profile, "a:b").unwrap_err().code(), ErrorCode::InvalidArgument);
}

/// Field case B41: a burst is one frame, and a change after the frame was written is another.
#[test]
fn a_burst_coalesces_and_loses_nothing() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let live: Vec<_> = (0..3).map(|_| legacy(&outbox).0).collect();
    let closed: Vec<_> = (0..2).map(|_| legacy(&outbox).0).collect();
    assert_eq!(closed.iter().map(|sink| outbox.drop_sink(*sink)).sum::<usize>(), 2);
    for _ in 0..80 {
        assert_eq!(notify(&hub, kinds(&["tools"])), (3, 0, 0));
    }
    let told = write_all(&outbox);
    assert_eq!(told, live.iter().map(|sink| (*sink, TOOLS.to_owned())).collect::<Vec<_>>());
    notify(&hub, kinds(&["tools"]));
    let in_hand = outbox.take(usize::MAX);
    assert_eq!(in_hand.len(), 3);
    notify(&hub, kinds(&["tools"]));
    assert_eq!(outbox.take(usize::MAX), [], "what is being written holds the next one back");
    outbox.all_written(live.iter().copied());
    assert_eq!(write_all(&outbox).len(), 3, "a change after the frame was handed out is another frame");
    assert_eq!(notify(&hub, kinds(&["tools", "resources"])), (3, 0, 0), "each listener is counted once");
    assert_eq!(frames(&outbox, live[0]), [TOOLS, RESOURCES], "one of each");
}

#[test]
fn a_method_that_names_two_kinds_is_sent_once() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let (sink, _) = legacy(&outbox);
    assert_eq!(notify(&hub, kinds(&["resources", "resource_templates"])), (1, 0, 0));
    assert_eq!(frames(&outbox, sink), [RESOURCES]);
}

/// Field case B43.
#[test]
fn nothing_comes_before_the_acknowledgement_and_nothing_that_was_not_asked_for() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let sink = outbox.add_sink(SinkOptions::default()).expect("a sink");
    listen(&outbox, sink, "0", r#"{"toolsListChanged":true,"eventsListChanged":true}"#);
    assert_eq!(notify(&hub, kinds(&["tools"])), (1, 0, 0), "before the acknowledgement is taken");
    let first = outbox.take(usize::MAX);
    let [Parcel::Frame { frame, tag, .. }] = &first[..] else { panic!("not one frame: {first:?}") };
    let ack = tagged("subscriptions/acknowledged", "0", r#","notifications":{"toolsListChanged":true}"#);
    assert_eq!(frame.tagged(tag.as_ref()), ack);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(notify(&hub, kinds(&["tools", "prompts"])), (1, 0, 0)));
    });
    assert_eq!(outbox.take(usize::MAX), [], "while it is being written");
    outbox.written(sink, 1);
    assert_eq!(frames(&outbox, sink), [tagged("tools/list_changed", "0", "")]);
    let (empty, _) = modern(&outbox, "\"\"", "{}");
    assert_eq!(notify(&hub, kinds(&["prompts", "tools", "resources"])), (1, 1, 0));
    assert_eq!(frames(&outbox, empty), [""; 0]);
}

#[test]
fn a_legacy_peer_hears_nothing_before_it_is_initialized() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let sink = outbox.add_sink(SinkOptions::default()).expect("a sink");
    let listener = outbox.attend(sink, &profile("2024-11-05")).expect("a listener");
    assert_eq!(notify(&hub, kinds(&["tools"])), (1, 0, 0), "held");
    assert_eq!(write_all(&outbox), []);
    outbox.open(listener);
    assert_eq!(frames(&outbox, sink), [TOOLS]);
}

/// Field case B45: who has gone is nobody's fault and told nothing.
#[test]
fn nothing_follows_a_close_and_the_others_get_theirs() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let (gone, _) = legacy(&outbox);
    let others: Vec<_> = (0..3).map(|_| legacy(&outbox).0).collect();
    notify(&hub, kinds(&["tools"]));
    assert_eq!(outbox.drop_sink(gone), 1);
    assert_eq!(outbox.drop_sink(gone), 0);
    assert_eq!(notify(&hub, kinds(&["tools"])), (3, 0, 0));
    outbox.written(gone, 1);
    assert_eq!(outbox.broke(gone), 0);
    let told: Vec<_> = write_all(&outbox).into_iter().map(|(sink, _)| sink).collect();
    assert_eq!(told, others);
    assert_eq!(hub.failed_sinks().expect("open"), [], "it went in order");
    let error = outbox.attend(gone, &profile("2025-11-25")).unwrap_err();
    assert_eq!(error.to_string(), "sink: is gone or has failed");
}

#[test]
fn a_sink_that_breaks_takes_its_listeners_along_and_is_told_of_once() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let sink = outbox.add_sink(SinkOptions::default()).expect("a sink");
    for id in ["1", "2", "3"] {
        listen(&outbox, sink, id, r#"{"toolsListChanged":true}"#);
    }
    write_all(&outbox);
    assert_eq!(notify(&hub, kinds(&["tools"])), (3, 0, 0));
    assert_eq!(outbox.take(usize::MAX).len(), 3, "several listeners of one sink are handed out together");
    assert_eq!(outbox.broke(sink), 3);
    assert_eq!(outbox.broke(sink), 0);
    assert_eq!(notify(&hub, kinds(&["tools"])), (0, 0, 0));
    assert_eq!(hub.failed_sinks().expect("open"), [sink]);
    assert_eq!(hub.failed_sinks().expect("open"), []);
}

/// A host that waits hears of a failure although there is nothing to take, and then waits again whether or not it has asked
/// which sink it was.
#[test]
fn who_waits_is_told_once_that_a_sink_has_failed() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let [(one, _), (two, _)] = [legacy(&outbox), legacy(&outbox)];
    let mut cx = Context::from_waker(Waker::noop());
    assert!(outbox.poll_ready(&mut cx).is_pending());
    outbox.broke(one);
    assert!(outbox.poll_ready(&mut cx).is_ready());
    assert!(outbox.poll_ready(&mut cx).is_pending());
    assert_eq!(hub.failed_sinks().expect("open"), [one]);
    assert!(outbox.poll_ready(&mut cx).is_pending());
    // One that failed before anybody waited is not missed either.
    outbox.broke(two);
    wait(outbox.ready()).expect("open");
    assert_eq!(hub.failed_sinks().expect("open"), [two]);
}

/// Field case B44, for what we send: nothing that is not read holds up anything else.
#[test]
fn who_does_not_write_in_time_has_failed_and_holds_up_nobody() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let mut options = Options::default();
    options.sink_deadline = Duration::from_secs(5);
    let hub = over_with(&store, options, &clock);
    let outbox = hub.outbox().expect("an outbox");
    let (stuck, _) = legacy(&outbox);
    let (fine, _) = legacy(&outbox);
    let patient = SinkOptions { deadline: Some(Duration::from_secs(60)), ..SinkOptions::default() };
    let (patient, _) = legacy_of(&outbox, patient);
    assert_eq!(notify(&hub, kinds(&["tools"])), (3, 0, 0));
    assert_eq!(outbox.take(usize::MAX).len(), 3);
    outbox.written(fine, 1);
    clock.advance(Duration::from_millis(4_999));
    assert_eq!(notify(&hub, kinds(&["tools"])), (3, 0, 0), "coalesced for those who are written to");
    assert_eq!(frames(&outbox, fine), [TOOLS]);
    clock.advance(Duration::from_millis(1));
    let told = hub.notify(kinds(&["tools"])).expect("published");
    // The background may have found it first.
    assert_eq!(told.told, 2);
    assert!(told.failed <= 1 && told.skipped == 0);
    let failed = || hub.failed_sinks().expect("open");
    let mut all = failed();
    while all.is_empty() {
        std::thread::yield_now();
        all = failed();
    }
    assert_eq!(all, [stuck]);
    outbox.written(stuck, 1);
    assert_eq!(frames(&outbox, stuck), [""; 0]);
    outbox.written(patient, 1);
    assert_eq!(frames(&outbox, patient), [TOOLS]);
}

#[test]
fn an_audience_is_one_principal() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let of = |principal| legacy_of(&outbox, SinkOptions { principal, deadline: None }).0;
    let (alice, _bob, _nobody) = (of(Some("alice")), of(Some("bob")), of(None));
    let to = |audience| Publish { kinds: &["tools"], name: None, audience: Some(audience) };
    assert_eq!(notify(&hub, to("alice")), (1, 2, 0));
    assert_eq!(write_all(&outbox), [(alice, TOOLS.to_owned())]);
    assert_eq!(notify(&hub, to("")), (0, 3, 0));
}

#[test]
fn who_cannot_be_reached_is_skipped() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let (sink, _) = legacy(&outbox);
    outbox.set_reachable(sink, false);
    assert_eq!(notify(&hub, kinds(&["tools"])), (0, 1, 0));
    outbox.set_reachable(sink, true);
    assert_eq!(write_all(&outbox), []);
    assert_eq!(notify(&hub, kinds(&["tools"])), (1, 0, 0));
}

fn updated(uri: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#)
}

#[test]
fn a_resource_is_told_to_who_subscribed_to_it_or_to_what_it_lies_below() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let (sink, listener) = legacy(&outbox);
    let subscribe = |uri| outbox.subscribe(listener, &profile("2025-11-25"), uri).expect("subscribed");
    subscribe("file:///a");
    subscribe("file:///a");
    let (new, _) = modern(&outbox, "1", r#"{"resourceSubscriptions":["file:///a","x:y"]}"#);
    assert_eq!(notify(&hub, uri("file:///a")), (2, 0, 0));
    let mut told = write_all(&outbox);
    told.sort();
    let theirs = tagged("resources/updated", "1", r#","uri":"file:///a""#);
    assert_eq!(told, [(sink, updated("file:///a")), (new, theirs)]);
    assert_eq!(notify(&hub, uri("file:///a/b")), (1, 1, 0), "a sub-resource, for a legacy peer only");
    assert_eq!(frames(&outbox, sink), [updated("file:///a/b")]);
    assert_eq!(notify(&hub, uri("file:///ab")), (0, 2, 0));
    notify(&hub, uri("file:///a/b"));
    notify(&hub, uri("file:///a/c"));
    notify(&hub, uri("file:///a/b"));
    assert_eq!(frames(&outbox, sink), [updated("file:///a/b"), updated("file:///a/c")], "each coalesces by itself");
    outbox.unsubscribe(listener, &profile("2025-11-25"), "file:///a");
    assert_eq!(notify(&hub, uri("file:///a/b")), (0, 2, 0));
}

#[test]
fn what_waits_for_one_listener_is_bounded() {
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let mut options = Options::default();
    options.sink_lag = 3;
    let hub = over_with(&store, options, &clock);
    let outbox = hub.outbox().expect("an outbox");
    let (sink, listener) = legacy(&outbox);
    outbox.subscribe(listener, &profile("2025-11-25"), "file:///a").expect("subscribed");
    for n in 0..100 {
        assert_eq!(notify(&hub, uri(&format!("file:///a/{n}"))), (1, 0, 0));
    }
    let told = frames(&outbox, sink);
    assert!(told.contains(&updated("file:///a")), "all of it has changed: {told:?}");
    assert!(told.len() <= 4, "{told:?}");
}

#[test]
fn a_listener_ends_in_order_after_what_was_promised() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let (old, _) = legacy(&outbox);
    let (new, listener) = modern(&outbox, "1", r#"{"toolsListChanged":true}"#);
    notify(&hub, kinds(&["tools"]));
    outbox.end_all();
    assert_eq!(notify(&hub, kinds(&["tools"])), (1, 1, 0));
    assert_eq!(frames(&outbox, new), [tagged("tools/list_changed", "1", ""), "finish".to_owned()]);
    assert!(!outbox.cancel(listener));
    assert_eq!(notify(&hub, kinds(&["prompts"])), (1, 0, 0), "peers without filters stay");
    assert_eq!(frames(&outbox, old), [PROMPTS]);
    // Ended before its acknowledgement is out: that still comes first.
    let sink = outbox.add_sink(SinkOptions::default()).expect("a sink");
    let listener = listen(&outbox, sink, "2", "{}");
    outbox.end(listener);
    let ack = tagged("subscriptions/acknowledged", "2", r#","notifications":{}"#);
    assert_eq!(frames(&outbox, sink), [ack, "finish".to_owned()]);
    let (sink, listener) = modern(&outbox, "3", r#"{"toolsListChanged":true}"#);
    notify(&hub, kinds(&["tools"]));
    assert!(outbox.cancel(listener));
    assert_eq!(frames(&outbox, sink), [""; 0], "a cancelled one is told nothing more");
}

#[test]
fn bad_publishes_name_the_field() {
    let hub = memory();
    let refused = |publish: Publish<'_>| hub.notify(publish).unwrap_err().to_string();
    assert!(refused(kinds(&["tool"])).starts_with("kinds: \"tool\" is none; there are tools, prompts,"));
    assert_eq!(refused(kinds(&[])), "kinds: must name one at least");
    assert_eq!(refused(kinds(&["resource"])), "name: the kind resource is about one thing, which must be named");
    let named = Publish { kinds: &["tools"], name: Some("x:y"), audience: None };
    assert_eq!(refused(named), "name: none of the kinds is about one thing");
    let task = Publish { kinds: &["task"], name: Some("t"), audience: None };
    assert_eq!(refused(task), "kinds: task is told by the hub itself when it changes");
    let outbox = hub.outbox().expect("an outbox");
    let sink = outbox.add_sink(SinkOptions::default()).expect("a sink");
    assert!(outbox.attend(sink, &profile("2026-07-28")).is_err());
    assert!(outbox.listen(sink, &profile("2025-11-25"), &RequestId::from(1_i64), Filter::default()).is_err());
}

/// Two processes on one store.
fn two(options: Options) -> (Arc<FaultStore>, Hub, Arc<FaultStore>, Hub) {
    let (store, clock) = (FaultStore::shared(), TestClock::new());
    let other = store.other();
    let (one, two) = (over_with(&store, options.clone(), &clock), over_with(&other, options, &clock));
    (store, one, other, two)
}

/// Waits until there are so many frames.
fn wait_frames(outbox: &Outbox, sink: SinkId, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < count {
        wait(outbox.ready()).expect("open");
        told.extend(frames(outbox, sink));
    }
    told
}

#[test]
fn other_processes_tell_theirs() {
    let (_, one, _, two) = two(Options::default());
    let (here, there) = (one.outbox().expect("an outbox"), two.outbox().expect("an outbox"));
    let ((mine, _), (theirs, _)) =
        (legacy(&here), legacy_of(&there, SinkOptions { principal: Some("p"), deadline: None }));
    assert_eq!(notify(&one, kinds(&["tools"])), (1, 0, 0), "counts are of this process");
    assert_eq!(wait_frames(&there, theirs, 1), [TOOLS]);
    assert_eq!(frames(&here, mine), [TOOLS], "and not told again by the log");
    let to = |audience| Publish { kinds: &["prompts"], name: None, audience: Some(audience) };
    assert_eq!(notify(&one, to("q")), (0, 1, 0));
    assert_eq!(notify(&one, to("p")), (0, 1, 0));
    assert_eq!(wait_frames(&there, theirs, 1), [PROMPTS]);
    let (new, _) = modern(&there, "1", r#"{"resourceSubscriptions":["x:y"]}"#);
    assert_eq!(notify(&one, uri("x:y")), (0, 1, 0));
    assert_eq!(wait_frames(&there, new, 1), [tagged("resources/updated", "1", r#","uri":"x:y""#)]);
}

#[test]
fn what_the_store_did_not_take_is_told_when_it_does() {
    let (store, one, _, two) = two(Options::default());
    let there = two.outbox().expect("an outbox");
    let (theirs, _) = legacy(&there);
    store.fail(Some(StoreErrorKind::Io));
    assert_eq!(notify(&one, kinds(&["tools"])), (0, 0, 0));
    store.wait_failed(1);
    assert_eq!(notify(&one, kinds(&["tools"])), (0, 0, 0));
    store.fail(None);
    assert_eq!(wait_frames(&there, theirs, 1), [TOOLS]);
}

#[test]
fn who_fell_behind_the_log_is_told_of_everything_once() {
    let (_, _one, other, two) = two(Options::default());
    let there = two.outbox().expect("an outbox");
    let (theirs, listener) = legacy(&there);
    there.subscribe(listener, &profile("2025-11-25"), "x:y").expect("subscribed");
    let logged = || {
        let worker = WorkerId([7; 16]);
        Op::Publish(Logged { worker, kinds: "no_such_kind".to_owned(), name: None, audience: None })
    };
    let many = (0..=PUBLISHES_KEPT).map(|_| logged()).collect();
    // One commit, so that this process sees the log before it or after it.
    let done = other.other().commit(&[Commit::new(Durability::Process, many)]);
    assert!(done.iter().all(Result::is_ok));
    let mut told = wait_frames(&there, theirs, 4);
    told.sort();
    let mut all = [TOOLS.to_owned(), PROMPTS.to_owned(), RESOURCES.to_owned(), updated("x:y")];
    all.sort();
    assert_eq!(told, all);
}

fn alices_task(hub: &Hub) -> Call {
    wait(hub.begin_call(BeginCall {
        config: None,
        route_types: &[],
        principal: "alice",
        session: None,
        request_id: &RequestId::from(7_i64),
        tool: "tool",
        timeout: None,
        task: Some(TaskTerms { ttl_ms: 60_000, bound: true }),
        open: &[],
        peer: None,
    }))
    .expect("begun")
}

/// SEP-2663: `notifications/tasks` carries the whole `DetailedTask`, as `tasks/get` would give it. It is told when the task
/// asks, when it is answered in part and in whole, and when it ends, in the process that runs it and in the one that does not.
#[test]
fn a_task_that_asks_is_told_wherever_it_runs_and_whoever_answers() {
    let (_, one, _, two) = two(local());
    let call = alices_task(&one);
    let id = call.id().to_string();
    let (here, there) = (one.outbox().expect("an outbox"), two.outbox().expect("an outbox"));
    let filter = format!(r#"{{"taskIds":["{id}"]}}"#);
    let ((mine, _), (theirs, _)) = (modern(&here, "1", &filter), modern(&there, "2", &filter));
    let all_told = |status: &str, inside: &str| {
        for (outbox, sink, tag) in [(&here, mine, "1"), (&there, theirs, "2")] {
            let told = wait_frames(outbox, sink, 1);
            let json = one.task(&id, "alice").expect("an answer").expect("there").json;
            assert_eq!(told, [tagged("tasks", tag, &format!(",{}", &json[1..json.len() - 1]))]);
            assert!(json.contains(&format!(r#""status":"{status}""#)) && json.contains(inside), "{json}");
        }
    };
    let answer = |hub: &Hub, text: &str| assert!(wait(hub.answer_task(&id, "alice", text.as_bytes())).expect("taken"));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| wait(call.ask(br#"{"a":{"x": 1.0},"b":{}}"#)).expect("answered"));
        all_told("input_required", r#""inputRequests":{"a":{"x": 1.0},"b":{}}"#);
        // Who comes now is told at once, because what became of it before is not told again.
        let sink = there.add_sink(SinkOptions::default()).expect("a sink");
        listen(&there, sink, "3", &filter);
        let late = frames(&there, sink);
        assert!(late.len() == 2 && late[1].contains(r#""status":"input_required""#), "{late:?}");
        there.drop_sink(sink);
        answer(&two, r#"{"b":{"v":2}}"#);
        all_told("input_required", r#""inputRequests":{"a":{"x": 1.0}}"#);
        answer(&one, r#"{"a":{"v": 1.0}}"#);
        all_told("working", "");
        assert_eq!(asking.join().expect("a thread"), r#"{"b":{"v":2},"a":{"v": 1.0}}"#);
        let asking = scope.spawn(|| wait(call.ask(br#"{"a":{}}"#)).map_err(|error| error.code()));
        all_told("input_required", r##""inputRequests":{"a#2":{}}"##);
        assert!(wait(two.cancel_task(&id, "alice")).expect("cancelled"));
        all_told("cancelled", "");
        assert_eq!(asking.join().expect("a thread"), Err(ErrorCode::Ended));
    });
    // What has ended is told no more.
    answer(&two, r##"{"a#2":{}}"##);
    assert_eq!((frames(&here, mine), frames(&there, theirs)), (vec![], vec![]));
}

#[test]
fn a_task_that_ends_is_told_to_who_named_it_wherever_it_runs() {
    let (_, one, _, two) = two(local());
    let call = alices_task(&one);
    let id = call.id().to_string();
    let (here, there) = (one.outbox().expect("an outbox"), two.outbox().expect("an outbox"));
    let filter = format!(r#"{{"taskIds":["{id}"]}}"#);
    let ((mine, _), (theirs, _)) = (modern(&here, "1", &filter), modern(&there, "2", &filter));
    let (other, _) = modern(&here, "3", r#"{"taskIds":["another"]}"#);
    wait(call.complete(br#"{"content":[1.0]}"#)).expect("ended");
    for (outbox, sink, tag) in [(&here, mine, "1"), (&there, theirs, "2")] {
        let told = wait_frames(outbox, sink, 1);
        let json = one.task(&id, "alice").expect("an answer").expect("there").json;
        assert_eq!(told, [tagged("tasks", tag, &format!(",{}", &json[1..json.len() - 1]))]);
        assert!(json.contains(r#""status":"completed""#) && json.contains(r#""result":{"content":[1.0]}"#));
    }
    assert_eq!(frames(&here, other), [""; 0]);
    // Who comes later is told at once.
    let sink = here.add_sink(SinkOptions::default()).expect("a sink");
    listen(&here, sink, "4", &filter);
    let told = frames(&here, sink);
    assert!(
        told[0].contains("acknowledged") && told[1].contains(r#""status":"completed""#) && told.len() == 2,
        "{told:?}"
    );
}

/// Whoever is told of a task may ask for another at once, in the waker itself.
#[test]
fn a_waker_may_listen_at_once() {
    struct Listens(Arc<Outbox>, String, AtomicBool);
    impl Wake for Listens {
        fn wake(self: Arc<Self>) {
            let sink = self.0.add_sink(SinkOptions::default()).expect("a sink");
            listen(&self.0, sink, "9", &self.1);
            self.2.store(true, Ordering::SeqCst);
        }
    }
    let hub = memory();
    let call = alices_task(&hub);
    let outbox = Arc::new(hub.outbox().expect("an outbox"));
    let filter = format!(r#"{{"taskIds":["{}"]}}"#, call.id());
    let (sink, _) = modern(&outbox, "1", &filter);
    let listens = Arc::new(Listens(Arc::clone(&outbox), filter, AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&listens));
    assert!(outbox.poll_ready(&mut Context::from_waker(&waker)).is_pending());
    wait(call.complete(b"{}")).expect("ended");
    assert!(listens.2.load(Ordering::SeqCst), "told before the end is");
    let told = write_all(&outbox);
    assert!(told.iter().any(|(at, frame)| *at == sink && frame.contains(r#""status":"completed""#)), "{told:?}");
    assert!(told.iter().any(|(at, frame)| *at != sink && frame.contains(r#""status":"completed""#)), "{told:?}");
}

#[test]
fn a_closed_hub_ends_the_waiting() {
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let (sink, _) = legacy(&outbox);
    hub.close(support::HANG);
    assert_eq!(wait(outbox.ready()).unwrap_err().code(), ErrorCode::Closed);
    assert_eq!(hub.notify(kinds(&["tools"])).unwrap_err().code(), ErrorCode::Closed);
    assert_eq!(outbox.drop_sink(sink), 1);
}
