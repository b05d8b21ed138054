//! append: from the append of an event until it is committed, a hub on a SQLite file beside raw group commit.
#![allow(clippy::print_stdout, reason = "a bench's report goes to stdout")]

use std::path::Path;
use std::time::Duration;

use tidings::Durability;
use tidings_bench::ours::Ours;
use tidings_bench::producers::{self, PAYLOAD, Producers, Run, Window};
use tidings_bench::raw::Raw;
use tidings_bench::report::{self, Measured, Round};
use tidings_bench::{Result, floor, machine};

const USAGE: &str = "\
usage: append [--quick] [--rounds N] [--seconds S] [--dir DIR] [--only TEXT] [--side ours|raw]
  --quick     2 rounds of 0.4 s, to see that it runs
  --rounds N  rounds of each case (default 5)
  --seconds S measured in each run (default 1.0), after 0.3 s of warm-up
  --dir DIR   where the databases stand (default target/bench): the disk that is measured
  --only TEXT the cases whose name contains TEXT
  --side SIDE runs one side only, for a profiler; nothing is compared";

/// Events of one burst: what a hub's default buffer (64 MiB) holds, twice over.
const BURST: usize = 100_000;

enum Shape {
    Loop { producers: Producers, streams: usize },
    Burst,
}

struct Case {
    name: &'static str,
    shape: Shape,
    durability: Durability,
}

fn cases() -> Vec<Case> {
    use Durability::{Disk, Process};
    use Producers::{Tasks, Threads};
    let closed = |producers, streams| Shape::Loop { producers, streams };
    let case = |name, shape, durability| Case { name, shape, durability };
    vec![
        case("1 producer, process", closed(Tasks(1), 1), Process),
        case("1 producer, disk", closed(Tasks(1), 1), Disk),
        case("64 producers, a stream each, process", closed(Tasks(64), 64), Process),
        case("64 producers, a stream each, disk", closed(Tasks(64), 64), Disk),
        case("64 producers on 4 streams, process", closed(Tasks(64), 4), Process),
        case("64 producers on 4 streams, disk", closed(Tasks(64), 4), Disk),
        case("64 producers as threads, a stream each, process", closed(Threads(64), 64), Process),
        case("64 producers as threads, a stream each, disk", closed(Threads(64), 64), Disk),
        case("burst of 100,000 then one flush, process", Shape::Burst, Process),
        case("burst of 100,000 then one flush, disk", Shape::Burst, Disk),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    Raw,
}

struct Options {
    rounds: usize,
    window: Window,
    dir: String,
    only: String,
    side: Option<Side>,
}

fn options() -> Result<Options> {
    let window = Window { warm_up: Duration::from_millis(300), measured: Duration::from_secs(1) };
    let mut options = Options { rounds: 5, window, dir: "target/bench".to_owned(), only: String::new(), side: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--quick" => {
                options.rounds = 2;
                options.window.measured = Duration::from_millis(400);
            }
            "--rounds" => options.rounds = value()?.parse()?,
            "--seconds" => options.window.measured = Duration::try_from_secs_f64(value()?.parse()?)?,
            "--dir" => options.dir = value()?,
            "--only" => options.only = value()?,
            "--side" => {
                options.side = Some(match value()?.as_str() {
                    "ours" => Side::Ours,
                    "raw" => Side::Raw,
                    other => return Err(format!("--side is ours or raw, not {other}").into()),
                });
            }
            _ => return Err(format!("unknown argument {argument}\n{USAGE}").into()),
        }
    }
    Ok(options)
}

fn measure(case: &Case, side: Side, options: &Options) -> Result<Measured> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let db = dir.path().join("bench.db");
    let streams = match case.shape {
        Shape::Loop { streams, .. } => streams,
        Shape::Burst => 1,
    };
    let floor = floor::measure(dir.path())?;
    let run = match side {
        Side::Ours => {
            let ours = Ours::open(&db, streams, case.durability)?;
            let run = go(&ours, case, options.window)?;
            ours.close()?;
            run
        }
        Side::Raw => {
            let (raw, thread) = Raw::open(&db, streams, case.durability)?;
            let run = go(&raw, case, options.window)?;
            drop(raw);
            thread.join()?;
            run
        }
    };
    Ok(Measured { run, floor })
}

fn go<T: producers::Target>(target: &T, case: &Case, window: Window) -> Result<Run> {
    match case.shape {
        Shape::Loop { producers, streams } => producers::run(target, producers, streams, window),
        Shape::Burst => producers::burst(target, BURST),
    }
}

fn main() -> Result<()> {
    let options = options()?;
    std::fs::create_dir_all(&options.dir)?;
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.name.contains(&options.only)).collect();
    if let Some(side) = options.side {
        for case in &cases {
            for _ in 0..options.rounds {
                println!("{}: {:?}", case.name, measure(case, side, &options)?);
            }
        }
        return Ok(());
    }

    println!(
        "From append to committed, events of {PAYLOAD} bytes: a hub on a SQLite file beside raw rusqlite group commit"
    );
    println!("with the same tables, pragmas and payload. Medians over {} rounds and their range.\n", options.rounds);
    for (name, value) in machine::describe(Path::new(&options.dir)) {
        println!("- {name}: {value}");
    }
    println!("- load at the start: {}\n", machine::load());

    let mut rounds: Vec<Vec<Round>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        for (case, rounds) in cases.iter().zip(&mut rounds) {
            // Who goes first changes, so that neither always meets what the other left behind.
            let (ours, peer) = if round % 2 == 0 {
                let ours = measure(case, Side::Ours, &options)?;
                (ours, measure(case, Side::Raw, &options)?)
            } else {
                let peer = measure(case, Side::Raw, &options)?;
                (measure(case, Side::Ours, &options)?, peer)
            };
            rounds.push(Round { ours, peer });
        }
    }
    print!("{}", report::HEAD);
    for (case, rounds) in cases.iter().zip(&rounds) {
        print!("{}", report::rows(case.name, rounds));
    }
    println!("\n- load at the end: {}", machine::load());
    println!(
        "- p50 and p99 of a loop: from before the append until it is committed; p50 of a burst: handing over one event"
    );
    Ok(())
}
