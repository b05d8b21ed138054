//! A process that serves handlers of deliveries and whose time stands still: none of its timers ever comes due, so that all it
//! does after it has begun is done because something told it to. Says `offered` once it offers the handler named in its
//! arguments, and `told TEXT` for the id of each firing that it was handed, once that is recorded. Ends with its stdin.
#![allow(clippy::print_stdout, reason = "a program that a test reads the output of")]

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tidings::proto::route::OutletName;
use tidings::simulation::{self, Net, Stream, World};
use tidings::store::{Boot, Store};
use tidings::{Clock, Options, OutletOptions, SystemClock};
use tidings_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::time::Instant;

/// How far ahead of the machine's clock ours stands: what others make due while the test runs is due here.
const AHEAD_MS: i64 = 600_000;
/// What is left to do when a delivery is recorded is done in fewer turns than this.
const TURNS: usize = 1_000;

struct Still(Boot);

impl Clock for Still {
    fn boot(&self) -> Boot {
        self.0.clone()
    }

    fn wall(&self) -> i64 {
        self.0.now_ms
    }
}

struct Nobody;

impl Net for Nobody {
    fn lookup(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn connect(&self, _to: SocketAddr) -> io::Result<Box<dyn Stream>> {
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Until nothing here has anything left to do.
async fn settle() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

async fn serve(path: &str, handler: &str) -> Result<(), Box<dyn Error>> {
    // While this runs, the runtime does not move its clock on.
    let mut end = tokio::task::spawn_blocking(|| io::stdin().lock().read_to_end(&mut Vec::new()));
    let begun = Instant::now();
    let boot = SystemClock.boot();
    let clock = Arc::new(Still(Boot { now_ms: boot.now_ms + AHEAD_MS, ..boot }));
    let mut options = Options::default();
    options.worker_lease = Duration::from_secs(3_600);
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(path))?);
    let world = World { clock, net: Arc::new(Nobody), seed: 1, late: Box::new(|| Duration::ZERO) };
    let (hub, threads) = simulation::over(Arc::clone(&store) as Arc<dyn Store>, options, world)?;
    let name = OutletName::callback(handler);
    let outlet = hub.outlet(name.clone(), OutletOptions::default())?;
    while !store.offered(name.as_str(), 0)? {
        tokio::task::yield_now().await;
    }
    settle().await;
    say("offered")?;
    let mut count = 0;
    loop {
        let delivery = tokio::select! {
            delivery = outlet.next() => delivery.ok_or("the outlet is closed")?,
            _ = &mut end => break,
        };
        let event = delivery.event_id.clone();
        delivery.confirm();
        count += 1;
        while hub.stats().delivered < count {
            tokio::task::yield_now().await;
        }
        settle().await;
        say(&format!("told {event}"))?;
    }
    if !begun.elapsed().is_zero() {
        return Err("its time went on".into());
    }
    threads.kill().await;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (path, handler) = (arguments.next().ok_or("a file")?, arguments.next().ok_or("a handler's name")?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(serve(&path, &handler))
}
