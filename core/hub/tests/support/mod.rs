//! What the tests of the hub share. Each test file uses a part of it.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "the tests that are alone in their process use a part")]

mod clock;
mod fault;
mod receiver;

pub use clock::TestClock;
pub use fault::FaultStore;
pub use receiver::{Gate, Receiver, Reply, Request, SOON};

use std::sync::Arc;
use std::time::Duration;

use tidings::proto::address::{Network, Policy};
use tidings::proto::id::RequestId;
use tidings::proto::stream::Retention;
use tidings::store::{MemoryStore, Store};
use tidings::{BeginCall, Call, Clock, Hub, Options, Read, Result, SystemClock, Tail, Verify};

/// Only ends a test that hangs; no test depends on how long anything takes.
pub const HANG: Duration = Duration::from_secs(60);

/// A secret of the right form: the bytes 0 to 31.
pub const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Runs a future to its end; panics if that does not come.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(HANG, future).await.expect("this hangs") })
}

/// Options with which webhooks may go to this machine.
pub fn local() -> Options {
    let mut options = Options::default();
    options.address = Policy {
        allow_networks: vec![Network::parse("127.0.0.0/8").expect("a network")],
        allow_http: true,
        ..Policy::default()
    };
    // However busy the machine is: a test that is about this wait says how long it is.
    options.outcome_wait = HANG;
    options
}

/// The same, where endpoints have to prove that they want what they are sent.
pub fn proving() -> Options {
    let mut options = local();
    options.verify = Verify::Always;
    options
}

/// Options that keep every event.
pub fn keep_all() -> Options {
    let mut options = Options::default();
    options.retention = Retention::UNLIMITED;
    options
}

/// A hub of its own in memory.
pub fn memory() -> Hub {
    Hub::open("memory:").expect("a hub")
}

pub fn over(store: &Arc<FaultStore>, options: Options) -> Hub {
    Hub::over(Arc::clone(store) as Arc<dyn Store>, options, Arc::new(SystemClock)).expect("a hub")
}

pub fn over_with(store: &Arc<FaultStore>, options: Options, clock: &Arc<TestClock>) -> Hub {
    Hub::over(Arc::clone(store) as Arc<dyn Store>, options, Arc::clone(clock) as Arc<dyn Clock>).expect("a hub")
}

/// A config with one webhook route.
pub fn config(endpoint: &str, triggers: &[&str]) -> String {
    format!(r#"{{"routes":[{}]}}"#, route("main", endpoint, triggers))
}

/// One signed webhook route.
pub fn route(id: &str, endpoint: &str, triggers: &[&str]) -> String {
    let triggers: Vec<String> = triggers.iter().map(|trigger| format!("{trigger:?}")).collect();
    let triggers = triggers.join(",");
    format!(r#"{{"id":"{id}","type":"webhook","endpoint":"{endpoint}","secret":"{SECRET}","triggers":[{triggers}]}}"#)
}

pub const ENDS: [&str; 4] = ["completed", "failed", "timeout", "cancelled"];

/// Begins a call.
pub fn begin(hub: &Hub, config: &str) -> Result<Call> {
    begin_with(hub, config, None)
}

/// Begins a call that the server limits in time.
pub fn begin_with(hub: &Hub, config: &str, timeout: Option<Duration>) -> Result<Call> {
    begin_of(hub, "tester", Some("session-1"), config, timeout)
}

/// Begins a call of that principal's.
pub fn begin_as(hub: &Hub, principal: &str, config: &str) -> Result<Call> {
    begin_of(hub, principal, None, config, None)
}

fn begin_of(
    hub: &Hub,
    principal: &str,
    session: Option<&str>,
    config: &str,
    timeout: Option<Duration>,
) -> Result<Call> {
    wait(hub.begin_call(BeginCall {
        config: Some(config.as_bytes()),
        route_types: &["webhook"],
        principal,
        session,
        peer: None,
        open: &[],
        request_id: &RequestId::from(7_i64),
        tool: "tool",
        timeout,
        task: None,
    }))
}

/// A call of that principal's that has completed.
pub fn fire_as(hub: &Hub, principal: &str, config: &str) {
    let call = begin_as(hub, principal, config).expect("accepted");
    assert!(wait(call.complete(br#"{"content":[1.0]}"#)).expect("ended").committed);
}

/// Reads a tail to the end of its stream: each event as (number, payload), and the gaps with the place they came at.
pub fn drain(tail: &mut Tail) -> Vec<Read> {
    wait(async {
        let mut reads = Vec::new();
        while let Some(read) = tail.next().await {
            reads.push(read.expect("a read"));
        }
        reads
    })
}

/// The numbers of all events of these reads.
pub fn seqs(reads: &[Read]) -> Vec<u64> {
    reads.iter().flat_map(|read| &read.events).map(|event| event.seq).collect()
}
