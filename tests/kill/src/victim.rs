//! A server that is made to be killed: it runs watched calls on a SQLite file and says on stdout what it was told.
//!
//! ```text
//! victim DATABASE ENDPOINT run COUNT    runs COUNT calls one after the other, then waits for stdin to end
//! victim DATABASE ENDPOINT hold         accepts one call and then never ends it
//! victim DATABASE ENDPOINT encrypted KEY  runs one call whose bodies only the owner of the key (a JWK) reads
//! victim DATABASE ENDPOINT group COUNT  begins COUNT calls of one group, with a time each, then ends them
//! victim DATABASE ENDPOINT recover      only opens the hub
//! ```
//!
//! Lines on stdout: `accepted CALL`, `ended CALL OUTCOME`, and for each line read from stdin `open`, with the states
//! of deliveries that are not finished, such as `leased=1`.
#![allow(clippy::print_stdout, reason = "stdout is how it talks to the test")]

use std::io::{BufRead, Write};

use tidings::proto::address::{Network, Policy};
use tidings::proto::delivery::DeliveryState;
use tidings::proto::id::RequestId;
use tidings::store::TaskTerms;
use tidings::{BeginCall, Call, Hub, Options};

#[path = "waiting.rs"]
mod waiting;

use waiting::wait;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [database, endpoint, mode, rest @ ..] = args.as_slice() else { return Err("see the source".into()) };
    let mut options = Options::default();
    options.address =
        Policy { allow_networks: vec![Network::parse("127.0.0.0/8")?], allow_http: true, ..Policy::default() };
    // What it says of an end is to be on disk, however long the disk takes.
    options.outcome_wait = std::time::Duration::from_secs(300);
    if mode == "storm" || mode == "storm-over" {
        // Nothing but the endpoints' own failures is to slow it down.
        options.endpoint_rate = None;
        options.host_rate = None;
        options.max_pending = u32::MAX;
        options.endpoints.breaker.open_ms = 100;
        options.endpoints.breaker.cap_ms = 400;
    }
    let hub = Hub::with(&format!("sqlite:{database}"), options)?;
    hub.ensure_open()?;
    match (mode.as_str(), rest) {
        ("run", [count]) => {
            for number in 0..count.parse::<i64>()? {
                let call = begin(&hub, &config(endpoint, ENDS, ""), number)?;
                for step in 0..3 {
                    call.emit("com.example.step", step.to_string().as_bytes())?;
                }
                let result =
                    format!(r#"{{"content":[{{"type":"text","text":"{number}"}}],"structuredContent":{{"n":1.0}}}}"#);
                let ended = wait(call.complete(result.as_bytes()))?;
                say(&format!("ended {} {}", call.id(), ended.outcome.as_str()));
            }
        }
        ("hold", []) => {
            let call = begin(&hub, &config(endpoint, ENDS, ""), 0)?;
            call.emit("com.example.step", b"0")?;
            answer(&hub, true)?;
            drop(call);
            return Ok(());
        }
        ("encrypted", [key]) => {
            let route = route("main", endpoint, &format!(r#""publicKey":{key},"#));
            let call = begin(&hub, &format!(r#"{{"routes":[{route}]}}"#), 0)?;
            wait(call.complete(br#"{"n":1.0}"#))?;
        }
        ("group", [count]) => {
            let triggers = format!(r#"{{"elapsedMs":1}},{{"group":"batch","all":{count}}}"#);
            let config = config(endpoint, &triggers, r#""group":"batch","#);
            let begun: Result<Vec<Call>, Failure> =
                (0..count.parse::<i64>()?).map(|number| begin(&hub, &config, number)).collect();
            for call in begun? {
                let ended = wait(call.complete(b"{}"))?;
                say(&format!("ended {} {}", call.id(), ended.outcome.as_str()));
            }
        }
        ("storm", [first, count, endpoints]) => {
            let (first, count, endpoints): (i64, i64, i64) = (first.parse()?, count.parse()?, endpoints.parse()?);
            let numbers: Vec<i64> = (first..first + count).collect();
            // As many at once as there are endpoints, so that the calls of one endpoint end in order.
            for together in numbers.chunks(usize::try_from(endpoints)?.min(AT_ONCE)) {
                std::thread::scope(|scope| {
                    let one = |number| {
                        scope.spawn({
                            let hub = &hub;
                            move || {
                                one_of_the_storm(hub, endpoint, endpoints, number).map_err(|error| error.to_string())
                            }
                        })
                    };
                    let all: Vec<_> = together.iter().copied().map(one).collect();
                    all.into_iter().try_for_each(|one| one.join().map_err(|_| "a call panicked".to_owned())?)
                })?;
            }
        }
        ("recover" | "storm-over", []) => {}
        _ => return Err("see the source".into()),
    }
    answer(&hub, mode != "storm-over")
}

/// Calls of a storm that are under way together.
const AT_ONCE: usize = 32;

fn one_of_the_storm(hub: &Hub, endpoint: &str, endpoints: i64, number: i64) -> Result<(), Failure> {
    // Of each endpoint three keys, and its own principal.
    let (to, key) = (number % endpoints, number / endpoints % 3);
    let url = format!("{endpoint}/{to}");
    let routes = match number % 20 {
        3 => route("short", &format!("{url}?short"), ""),
        7 => route("dead", &format!("{url}?dead"), ""),
        13 => [route("first", &format!("{url}?dead"), ""), route("second", &format!("{url}?second"), "")].join(","),
        _ => route("main", &url, &format!(r#""fifoKey":"{key}","#)),
    };
    // One that has no time may end before it is tried.
    let task = (number % 20 == 3).then_some(TaskTerms { ttl_ms: 1, bound: true });
    let call = begin_as(hub, &format!(r#"{{"routes":[{routes}]}}"#), number, &format!("p{to}"), task)?;
    wait(call.complete(format!(r#"{{"n":{number}}}"#).as_bytes()))?;
    say(&format!("ended {number}"));
    Ok(())
}

/// Every outcome.
const ENDS: &str = r#""completed","failed","timeout","cancelled""#;

fn config(endpoint: &str, triggers: &str, more: &str) -> String {
    let route = route("main", endpoint, "").replace(ENDS, triggers);
    format!(r#"{{{more}"routes":[{route}]}}"#)
}

/// One route for every outcome.
fn route(id: &str, endpoint: &str, more: &str) -> String {
    format!(
        r#"{{"id":"{id}","type":"webhook","endpoint":"{endpoint}",{more}"secret":"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","triggers":[{ENDS}]}}"#
    )
}

fn begin(hub: &Hub, config: &str, number: i64) -> Result<Call, Failure> {
    begin_as(hub, config, number, "tester", None)
}

fn begin_as(hub: &Hub, config: &str, number: i64, principal: &str, task: Option<TaskTerms>) -> Result<Call, Failure> {
    let call = wait(hub.begin_call(BeginCall {
        config: Some(config.as_bytes()),
        route_types: &["webhook"],
        principal,
        session: None,
        peer: None,
        open: &[],
        request_id: &RequestId::from(number),
        tool: "kill_me",
        timeout: None,
        task,
    }))?;
    say(&format!("accepted {}", call.id()));
    Ok(call)
}

/// Answers the test's questions until it closes stdin. Where nothing is to die, dead ones count as open.
fn answer(hub: &Hub, and_dead: bool) -> Result<(), Failure> {
    say("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        let mut open = String::from("open");
        for state in DeliveryState::ALL {
            if !state.is_final() || (and_dead && state == DeliveryState::Dead) {
                let count = hub.deliveries(None, None, Some(state), u32::MAX)?.len();
                if count > 0 {
                    open.push_str(&format!(" {}={count}", state.as_str()));
                }
            }
        }
        say(&open);
    }
    Ok(())
}

fn say(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}
