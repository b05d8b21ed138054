//! fanout: one publish to many listeners, beside raw bounded channels and tokio's broadcast.
#![allow(clippy::print_stdout, reason = "a bench's report goes to stdout")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings::proto::fanout::Profile;
use tidings::proto::fanout::mcp::MCP;
use tidings::{Hub, Outbox, Parcel, Publish, SinkId, SinkOptions};
use tidings_bench::stats::{Short, Spread, quantile};
use tidings_bench::{Result, machine};
use tokio::sync::{broadcast, mpsc};

const USAGE: &str = "\
usage: fanout [--quick] [--rounds N]
  --quick     3 rounds of few publishes, to see that it runs
  --rounds N  rounds of each case (default 9)";

const LISTENERS: [usize; 3] = [10, 1_000, 10_000];
/// What every side sends: 100 bytes.
const FRAME: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"padding":"….."}}}"#;
const SERVER: &str = r#"{"tools":{"listChanged":true}}"#;

struct Options {
    rounds: usize,
    /// Listeners told in one round and case, over all its publishes.
    told: usize,
}

fn options() -> Result<Options> {
    let mut options = Options { rounds: 9, told: 2_000_000 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options = Options { rounds: 3, told: 200_000 },
            "--rounds" => {
                let value = arguments.next().ok_or_else(|| format!("--rounds needs a value\n{USAGE}"))?;
                options.rounds = value.parse()?;
            }
            _ => return Err(format!("unknown argument {argument}\n{USAGE}").into()),
        }
    }
    Ok(options)
}

/// Nanoseconds for each listener: until the publish returned, and until the last one had its frame.
#[derive(Clone, Copy)]
struct Run {
    call: f64,
    drained: f64,
}

fn timed(listeners: usize, publishes: usize, mut call: impl FnMut(), mut drain: impl FnMut()) -> Run {
    let (mut in_call, mut in_all) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..publishes {
        let begun = Instant::now();
        call();
        in_call += begun.elapsed();
        drain();
        in_all += begun.elapsed();
    }
    let each = |spent: Duration| spent.as_nanos() as f64 / (listeners * publishes) as f64;
    Run { call: each(in_call), drained: each(in_all) }
}

/// A hub with so many sessions.
struct Ours {
    hub: Hub,
    outbox: Outbox,
    sinks: Vec<SinkId>,
}

impl Ours {
    fn new(listeners: usize) -> Result<Self> {
        let hub = Hub::open("memory:")?;
        let outbox = hub.outbox()?;
        let profile = Profile::new(&MCP, "2025-11-25", SERVER, "{}")?;
        let mut sinks = Vec::new();
        for _ in 0..listeners {
            let sink = outbox.add_sink(SinkOptions::default())?;
            let listener = outbox.attend(sink, &profile)?;
            outbox.open(listener);
            sinks.push(sink);
        }
        Ok(Self { hub, outbox, sinks })
    }

    fn publish(&self) {
        let told = self.hub.notify(Publish { kinds: &["tools"], ..Publish::default() });
        assert!(told.is_ok());
    }

    /// Takes everything, reads each frame as a host that writes it would, and says it was written.
    fn drain(&self) -> usize {
        let mut bytes = 0;
        loop {
            let parcels = self.outbox.take(1_024);
            if parcels.is_empty() {
                return bytes;
            }
            let written = parcels.iter().filter_map(|parcel| match parcel {
                Parcel::Frame { sink, frame, .. } => {
                    bytes += frame.plain().len();
                    Some(*sink)
                }
                Parcel::Finish { .. } => None,
            });
            let written: Vec<_> = written.collect();
            self.outbox.all_written(written);
        }
    }
}

fn ours(listeners: usize, publishes: usize) -> Result<Run> {
    let ours = Ours::new(listeners)?;
    Ok(timed(listeners, publishes, || ours.publish(), || assert!(ours.drain() > 0)))
}

/// A bounded channel for each listener, into which the publisher puts a shared frame; then each is emptied.
fn channels(listeners: usize, publishes: usize) -> Run {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..listeners).map(|_| mpsc::channel::<Arc<str>>(128)).unzip();
    let frame: Arc<str> = FRAME.into();
    timed(
        listeners,
        publishes,
        || senders.iter().for_each(|sender| assert!(sender.try_send(Arc::clone(&frame)).is_ok())),
        || receivers.iter_mut().for_each(|receiver| assert!(receiver.try_recv().is_ok())),
    )
}

/// tokio's broadcast to a task for each listener, on one worker: the publish returns, then the tasks run.
fn broadcasts(listeners: usize, publishes: usize) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (sender, _) = broadcast::channel::<Arc<str>>(128);
    let (done, mut all_done) = mpsc::unbounded_channel::<()>();
    for _ in 0..listeners {
        let (mut receiver, done) = (sender.subscribe(), done.clone());
        runtime.spawn(async move {
            while receiver.recv().await.is_ok() {
                let _ = done.send(());
            }
        });
    }
    let frame: Arc<str> = FRAME.into();
    runtime.block_on(tokio::task::yield_now());
    Ok(timed(
        listeners,
        publishes,
        || assert!(sender.send(Arc::clone(&frame)).is_ok()),
        || {
            runtime.block_on(async {
                for _ in 0..listeners {
                    all_done.recv().await;
                }
            });
        },
    ))
}

/// Microseconds until the last of 10,000 had its frame, while one in a hundred never takes it: median and p99 over the
/// publishes.
fn with_stuck(publishes: usize) -> Result<(f64, f64)> {
    let ours = Ours::new(10_000)?;
    // These are in the host's hands for ever.
    ours.publish();
    let stuck: Vec<_> = ours.sinks.iter().step_by(100).copied().collect();
    let parcels = ours.outbox.take(usize::MAX);
    let fine = parcels.iter().filter_map(|parcel| match parcel {
        Parcel::Frame { sink, .. } if !stuck.contains(sink) => Some(*sink),
        _ => None,
    });
    ours.outbox.all_written(fine.collect::<Vec<_>>());
    let mut took: Vec<f64> = (0..publishes)
        .map(|_| {
            let begun = Instant::now();
            ours.publish();
            assert!(ours.drain() > 0);
            begun.elapsed().as_nanos() as f64 / 1_000.0
        })
        .collect();
    Ok((quantile(&mut took, 0.5), quantile(&mut took, 0.99)))
}

/// Bytes of memory for each idle session, by what the process grew.
fn bytes_each(listeners: usize) -> Result<f64> {
    let before = resident()?;
    let ours = Ours::new(listeners)?;
    let after = resident()?;
    drop(ours);
    Ok((after - before) / listeners as f64)
}

fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = status.split(' ').nth(1).ok_or("statm")?.parse()?;
    Ok(pages * 4_096.0)
}

fn main() -> Result<()> {
    let options = options()?;
    println!(
        "One publish of a 100-byte notification, in nanoseconds for each listener: `call` until the publish returned,"
    );
    println!("`drained` until each listener had its frame. Medians over {} rounds and their range.\n", options.rounds);
    for (name, value) in machine::describe(std::path::Path::new(".")) {
        println!("- {name}: {value}");
    }
    println!("- load at the start: {}\n", machine::load());
    // Before anything else has made the heap grow.
    let memory = bytes_each(50_000)?;

    println!("| listeners | | call | drained |\n|---|---|---|---|");
    for listeners in LISTENERS {
        let publishes = (options.told / listeners).max(1);
        let mut runs: [Vec<Run>; 3] = Default::default();
        for _ in 0..options.rounds {
            runs[0].push(ours(listeners, publishes)?);
            runs[1].push(channels(listeners, publishes));
            runs[2].push(broadcasts(listeners, publishes)?);
        }
        for (name, runs) in ["ours", "bounded channels", "tokio broadcast"].iter().zip(&runs) {
            let spread = |of: fn(&Run) -> f64| Spread::of(runs.iter().map(of)).text(|v| Short(v).to_string());
            println!("| {listeners} | {name} | {} | {} |", spread(|run| run.call), spread(|run| run.drained));
        }
        for (name, peer) in [("bounded channels", &runs[1]), ("tokio broadcast", &runs[2])] {
            let ratio = Spread::of(peer.iter().zip(&runs[0]).map(|(peer, ours)| peer.drained / ours.drained));
            println!("| | **{name}/ours** | | **{}** |", ratio.text(|v| format!("{v:.1}")));
        }
    }
    let (median, p99) = with_stuck((options.told / 10_000).max(10))?;
    println!(
        "\n- 10,000 listeners of which 100 never take a frame: the last of the others has its after {median:.0} µs (p99 {p99:.0})"
    );
    println!("- memory of one idle session: {memory:.0} bytes");
    println!("- load at the end: {}", machine::load());
    Ok(())
}
