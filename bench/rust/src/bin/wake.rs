//! wake: from a commit in one process until a tail in another has the event, beside polling the file and a pipe.
#![allow(clippy::print_stdout, reason = "a bench's report goes to stdout, and the child talks on it")]
#![allow(clippy::disallowed_methods, reason = "a bench reads clocks")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tidings::{After, Durability, Hub, ReadLimits};
use tidings_bench::stats::{Short, Spread, quantile};
use tidings_bench::{Result, machine};

const USAGE: &str = "\
usage: wake [--quick] [--rounds N] [--events N] [--dir DIR]
  --quick     2 rounds of 200 events
  --rounds N  rounds (default 5)
  --events N  events in each (default 2000), one a millisecond
  --dir DIR   where the databases stand (default target/bench)";

/// Between two events.
const PAUSE: Duration = Duration::from_millis(1);
/// How often the peer looks.
const POLL: Duration = Duration::from_millis(1);

/// Nanoseconds of a clock that all processes share.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The other process: says when each of its events was committed, in the event after it, and the last on stdout.
fn child(db: &str, events: usize) -> Result<()> {
    let hub = Hub::open(&format!("sqlite:{db}"))?;
    let writer = block_on(hub.stream("s", "n")?.claim())?;
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line)? > 0 {
        for _ in 0..events {
            let asked = now();
            writer.append("message", asked.to_string().as_bytes(), None)?;
            block_on(writer.flush(Durability::Process))?;
            println!("{}", now()); // a pipe takes it without waiting
            std::io::stdout().flush()?;
            sleep(PAUSE);
        }
    }
    Ok(())
}

/// What the events of one round took, in µs: from the append, and from the commit.
#[derive(Default)]
struct Took {
    append: Vec<f64>,
    commit: Vec<f64>,
}

impl Took {
    fn add(&mut self, asked: u64, committed: u64, seen: u64) {
        self.append.push(seen.saturating_sub(asked) as f64 / 1e3);
        self.commit.push(seen.saturating_sub(committed) as f64 / 1e3);
    }
}

struct Other {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Other {
    fn start(db: &Path, events: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--child")
            .arg(db)
            .arg(events.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().ok_or("no stdin")?;
        let stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        Ok(Self { child, stdin, stdout })
    }

    fn go(&mut self) -> Result<()> {
        Ok(self.stdin.write_all(b"\n")?)
    }

    /// When the next event was committed.
    fn committed(&mut self) -> Result<u64> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }

    fn end(self) -> Result<()> {
        drop(self.stdin);
        let mut child = self.child;
        child.wait()?;
        Ok(())
    }
}

fn text_of(payload: &[u8]) -> Result<u64> {
    Ok(std::str::from_utf8(payload)?.parse()?)
}

fn tail(db: &Path, events: usize) -> Result<Took> {
    let hub = Hub::open(&format!("sqlite:{}", db.display()))?;
    let stream = hub.stream("s", "n")?;
    block_on(stream.append(vec![event()], Durability::Process))?;
    let mut other = Other::start(db, events)?;
    let mut tail = stream.tail(After::Seq(0))?;
    let mut seen = Vec::new();
    other.go()?;
    while seen.len() < events {
        let read = block_on(tail.next()).ok_or("the stream ended")??;
        let at = now();
        for event in &read.events {
            seen.push((text_of(&event.payload)?, at));
        }
    }
    let mut took = Took::default();
    for (asked, at) in seen {
        took.add(asked, other.committed()?, at);
    }
    other.end()?;
    hub.close(Duration::from_secs(5));
    Ok(took)
}

/// Asks for what is new, and sleeps.
fn poll(db: &Path, events: usize) -> Result<Took> {
    let hub = Hub::open(&format!("sqlite:{}", db.display()))?;
    let stream = hub.stream("s", "n")?;
    block_on(stream.append(vec![event()], Durability::Process))?;
    let mut other = Other::start(db, events)?;
    let mut seen = Vec::new();
    let mut after = After::Seq(0);
    other.go()?;
    while seen.len() < events {
        let read = stream.read(after, ReadLimits::default())?;
        let at = now();
        for event in &read.events {
            seen.push((text_of(&event.payload)?, at));
            after = After::Seq(event.seq);
        }
        sleep(POLL);
    }
    let mut took = Took::default();
    for (asked, at) in seen {
        took.add(asked, other.committed()?, at);
    }
    other.end()?;
    hub.close(Duration::from_secs(5));
    Ok(took)
}

/// The floor: the same, told through the child's pipe. What is counted begins when the child writes to it.
fn pipe(db: &Path, events: usize) -> Result<Took> {
    let mut other = Other::start(db, events)?;
    let mut took = Took::default();
    other.go()?;
    for _ in 0..events {
        let committed = other.committed()?;
        took.add(committed, committed, now());
    }
    other.end()?;
    Ok(took)
}

fn event() -> tidings::NewEvent {
    tidings::NewEvent { kind: "message".to_owned(), payload: b"0".to_vec().into(), time: 0, identity: None }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

type Side = fn(&Path, usize) -> Result<Took>;

fn main() -> Result<()> {
    let (mut rounds, mut events, mut dir) = (5, 2_000, "target/bench".to_owned());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--child" => {
                let db = value()?;
                return child(&db, value()?.parse()?);
            }
            "--quick" => (rounds, events) = (2, 200),
            "--rounds" => rounds = value()?.parse()?,
            "--events" => events = value()?.parse()?,
            "--dir" => dir = value()?,
            _ => return Err(format!("unknown argument {argument}\n{USAGE}").into()),
        }
    }
    std::fs::create_dir_all(&dir)?;
    println!(
        "One process commits an event a millisecond, another waits for it. Medians over {rounds} rounds of {events}"
    );
    println!("events, and their range.\n");
    for (name, value) in machine::describe(Path::new(&dir)) {
        println!("- {name}: {value}");
    }
    println!("- load at the start: {}\n", machine::load());
    println!("| µs | from the commit, p50 | p99 | from the append, p50 | p99 |\n|---|---|---|---|---|");
    let sides: [(&str, Side); 3] =
        [("a tail", tail), ("the file is read every millisecond", poll), ("floor: a pipe", pipe)];
    let mut all: Vec<Vec<[f64; 4]>> = sides.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((_, side), rounds) in sides.iter().zip(&mut all) {
            let place = tempfile::tempdir_in(&dir)?;
            let Took { mut append, mut commit } = side(&place.path().join("bench.db"), events)?;
            let of = |values: &mut Vec<f64>| [quantile(values, 0.5), quantile(values, 0.99)];
            let ([c50, c99], [a50, a99]) = (of(&mut commit), of(&mut append));
            rounds.push([c50, c99, a50, a99]);
        }
    }
    for ((name, _), rounds) in sides.iter().zip(&all) {
        let cell = |at: usize| Spread::of(rounds.iter().map(|round| round[at])).text(|v| Short(v).to_string());
        println!("| {name} | {} | {} | {} | {} |", cell(0), cell(1), cell(2), cell(3));
    }
    println!("\n- load at the end: {}", machine::load());
    println!("- the commit is when the writer of the other process has heard of it");
    Ok(())
}
