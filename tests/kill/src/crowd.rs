//! One of many processes on one SQLite file.
//!
//! ```text
//! crowd DATABASE write STREAM UNTIL   claims the stream and appends until it has UNTIL events, then closes it
//! crowd DATABASE read STREAM          tails the stream from its first event to its end
//! ```
//!
//! The payload of event `n` is `n`. A writer waits for the commit of every 500 events; after that it also appends once, by key,
//! to the stream `shared`, and says `acked N`: all before `N` are committed. A reader says `read COUNT SUM GAPS` at the
//! end: [`sum`] is of what it read, in its order.
#![allow(clippy::print_stdout, reason = "stdout is how it talks to the test")]

use std::io::Write;

use tidings::proto::stream::Retention;
use tidings::{After, Durability, ErrorCode, Hub, NewEvent, Options};

#[path = "common.rs"]
mod common;
#[path = "waiting.rs"]
mod waiting;

use common::{SCOPE, SHARED, STEP, Sum};
use waiting::wait;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [database, mode, stream, rest @ ..] = args.as_slice() else { return Err("see the source".into()) };
    let mut options = Options::default();
    options.retention = Retention::UNLIMITED;
    let hub = Hub::with(&format!("sqlite:{database}"), options)?;
    match (mode.as_str(), rest) {
        ("write", [until]) => write(&hub, stream, until.parse()?),
        ("read", []) => read(&hub, stream),
        _ => Err("see the source".into()),
    }
}

fn write(hub: &Hub, name: &str, until: u64) -> Result<(), Failure> {
    let writer = wait(hub.stream(SCOPE, name)?.claim())?;
    let shared = hub.stream(SCOPE, SHARED)?;
    let mut next = hub.stream(SCOPE, name)?.info()?.map_or(0, |info| info.next_seq);
    say(&format!("claimed {next}"));
    while next < until {
        let to = (next / STEP + 1) * STEP;
        for n in next..to.min(until) {
            let seq = writer.append("n", n.to_string().as_bytes(), None)?;
            assert_eq!(seq, n, "a claim goes on at the head");
        }
        next = to.min(until);
        wait(writer.flush(Durability::Process))?;
        // Whoever comes after one that was killed may do it again.
        let key = format!("{name} {next}");
        let event =
            NewEvent { kind: "n".to_owned(), payload: key.clone().into_bytes().into(), time: 0, identity: None };
        wait(shared.append_once(&key, vec![event], false, Durability::Process))?;
        say(&format!("acked {next}"));
    }
    writer.close()?;
    wait(writer.flush(Durability::Process))?;
    say("closed");
    Ok(())
}

fn read(hub: &Hub, name: &str) -> Result<(), Failure> {
    let stream = hub.stream(SCOPE, name)?;
    let mut tail = loop {
        match stream.tail(After::Earliest) {
            Ok(tail) => break tail,
            Err(error) if error.code() == ErrorCode::UnknownCursor => std::thread::yield_now(), // it comes to be
            Err(error) => return Err(error.into()),
        }
    };
    say("reading");
    let (mut sum, mut gaps) = (Sum::default(), 0);
    while let Some(read) = wait(tail.next()) {
        let read = read?;
        gaps += u64::from(read.gap.is_some());
        for event in &read.events {
            sum.add(event.seq, &event.payload);
        }
    }
    say(&format!("read {} {} {gaps}", sum.count, sum.sum));
    Ok(())
}

fn say(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}
