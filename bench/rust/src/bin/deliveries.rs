//! deliveries: durable deliveries from end to end (lease, sign, POST, settle, receipt, on SQLite), beside loops that post and keep
//! nothing: raw hyper in this process, Python's httpx and aiohttp and Node's fetch and undici as processes of their own. All
//! sign each body and post to the same sink, a process on loopback, with as many posts under way. And ours alone: many
//! endpoints, with dead ones among them, and endpoints beside others that hang.
#![allow(clippy::print_stdout, reason = "a bench's report goes to stdout")]
#![allow(clippy::disallowed_methods, reason = "a bench reads clocks, sleeps and starts threads")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tidings::proto::address::{Network, Policy};
use tidings::proto::id::RequestId;
use tidings::{BeginCall, Hub, Options};
use tidings_bench::sink::{self, Sink};
use tidings_bench::stats::{Short, Spread};
use tidings_bench::{Result, machine, posts};

const USAGE: &str = "\
usage: deliveries [--quick] [--only NAME] [--rounds N] [--count N] [--dir DIR]
  --quick     1 round of 1,000 deliveries
  --only NAME the one case of ours with that name, and no peers
  --rounds N  rounds (default 3)
  --count N   deliveries in each (default 20000); the slower peers post a part of it
  --dir DIR   where the databases stand (default target/bench)";

/// Posts under way at a time, on every side.
const IN_FLIGHT: u32 = 64;
/// Endpoints that never answer, in the cases that have them, and what each of them is sent.
const HANGING: usize = 10;
const SENT_TO_HANGING: usize = 20;
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// The result of each call.
const RESULT: &str = r#"{"content":[{"type":"text","text":"The forecast for Lisbon: 21 °C at noon, light wind from the north-west, no rain before Thursday."}]}"#;
/// A run that takes longer has come to nothing.
const HANG: Duration = Duration::from_secs(600);

/// Posts a second, and microseconds of processor time for each.
#[derive(Clone, Copy)]
struct Run {
    rate: f64,
    cpu: f64,
}

impl Run {
    fn of(count: usize, seconds: f64, cpu: f64) -> Self {
        Self { rate: count as f64 / seconds, cpu: cpu * 1e6 / count as f64 }
    }
}

/// Where one of our runs leads.
struct Case {
    name: &'static str,
    endpoints: usize,
    /// So many of them refuse connections.
    dead: usize,
    /// Beside them others hang, at this host.
    hanging_at: Option<&'static str>,
}

const ONE: Case = Case { name: "ours, 1 endpoint", endpoints: 1, dead: 0, hanging_at: None };
const CASES: [Case; 6] = [
    ONE,
    Case { name: "ours, 1,000 endpoints", endpoints: 1_000, ..ONE },
    Case { name: "ours, 1,000 endpoints, 100 of them dead", endpoints: 1_000, dead: 100, ..ONE },
    Case { name: "ours, 10 endpoints", endpoints: 10, ..ONE },
    Case { name: "ours, 10 endpoints, 10 more hang at their host", endpoints: 10, hanging_at: Some(sink::HOST), ..ONE },
    Case {
        name: "ours, 10 endpoints, 10 more hang elsewhere",
        endpoints: 10,
        hanging_at: Some(sink::OTHER_HOST),
        ..ONE
    },
];
/// In [`CASES`]: the ten alone, and those that are compared with them.
const ALONE: usize = 3;
const BESIDE: [usize; 2] = [4, 5];

fn options() -> Result<Options> {
    let network = Network::parse("127.0.0.0/8").map_err(|fault| fault.to_string())?;
    let mut options = Options::default();
    options.address = Policy { allow_networks: vec![network], allow_http: true, ..Policy::default() };
    (options.concurrency, options.endpoint_concurrency) = (IN_FLIGHT, IN_FLIGHT);
    options.outcome_wait = HANG; // a machine that stalls for seconds is measured all the same
    // The peers have no limits either.
    (options.endpoint_rate, options.host_rate, options.max_pending) = (None, None, u32::MAX);
    Ok(options)
}

/// One call that completes, and fires one delivery.
async fn call(hub: &Hub, url: &str, n: usize) -> Result<()> {
    let config = format!(
        r#"{{"routes":[{{"id":"main","type":"webhook","endpoint":"{url}","secret":"{SECRET}","triggers":["completed"]}}]}}"#
    );
    let request_id = RequestId::from(i64::try_from(n)?);
    let call = hub.begin_call(BeginCall {
        config: Some(config.as_bytes()),
        route_types: &["webhook"],
        principal: "bench",
        session: None,
        peer: None,
        open: &[],
        request_id: &request_id,
        tool: "forecast",
        timeout: None,
        task: None,
    });
    if !call.await?.complete(RESULT.as_bytes()).await?.committed {
        return Err("an outcome is not on disk".into());
    }
    Ok(())
}

/// Fires `count` deliveries while the hub is paused, then lets them go and waits for those that can be taken. Answers that
/// run, and the body of the first delivery.
fn ours(dir: &Path, sink: &Sink, count: usize, case: &Case) -> Result<(Run, String)> {
    let Case { endpoints, dead, hanging_at, .. } = *case;
    let place = tempfile::tempdir_in(dir)?;
    let hub = Hub::with(&format!("sqlite:{}", place.path().join("bench.db").display()), options()?)?;
    hub.pause()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let url = |n: usize| {
        let port = if n < dead { sink.dead } else { sink.port };
        format!("http://{}:{port}/hook/{n}", sink::HOST)
    };
    let hanging = hanging_at
        .into_iter()
        .flat_map(|host| (0..HANGING).map(move |n| format!("http://{host}:{}{}{n}", sink.port, sink::HANGS)));
    let hanging: Vec<String> = hanging.collect();
    let first = hanging.len() * SENT_TO_HANGING;
    let next = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..IN_FLIGHT)
            .map(|_| {
                let (hub, next) = (hub.clone(), std::sync::Arc::clone(&next));
                let (urls, hanging): (Vec<String>, _) = ((0..endpoints).map(url).collect(), hanging.clone());
                tokio::spawn(async move {
                    loop {
                        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let url = match n.checked_sub(first) {
                            None => &hanging[n % HANGING],
                            Some(n) if n < count => &urls[n % endpoints],
                            Some(_) => return Ok(()),
                        };
                        call(&hub, url, n).await?;
                    }
                })
            })
            .collect();
        for task in tasks {
            let done: Result<()> = task.await?;
            done?;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    })?;
    let first = hub.deliveries(None, None, None, 1)?.pop().ok_or("nothing fired")?;
    let stored = hub.stored_delivery(first.id)?.ok_or("nothing is stored")?;
    let body = String::from_utf8(stored.body.to_vec())?;

    let good = u64::try_from((0..count).filter(|n| n % endpoints >= dead).count())?;
    let (begun, cpu) = (Instant::now(), machine::cpu_seconds());
    hub.unpause()?;
    while hub.stats().delivered < good {
        if begun.elapsed() > HANG {
            return Err(format!("{} of {good} were delivered: {:?}", hub.stats().delivered, hub.stats()).into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let run = Run::of(usize::try_from(good)?, begun.elapsed().as_secs_f64(), machine::cpu_seconds() - cpu);
    hub.close(Duration::from_secs(5));
    Ok((run, body))
}

/// One case by itself, a line for each round: for a profile, or to compare two builds by turns.
fn alone(dir: &Path, case: &Case, rounds: usize, count: usize) -> Result<()> {
    let sink = Sink::start()?;
    for _ in 0..rounds {
        let (run, _) = ours(dir, &sink, count, case)?;
        println!("{}: {:.0} posts/s, {:.1} µs of processor time a post", case.name, run.rate, run.cpu);
    }
    Ok(())
}

fn raw_hyper(sink: &Sink, body: &str, count: usize) -> Result<Run> {
    let (begun, cpu) = (Instant::now(), machine::cpu_seconds());
    posts::hyper(sink.port, SECRET, body, count, usize::try_from(IN_FLIGHT)?)?;
    Ok(Run::of(count, begun.elapsed().as_secs_f64(), machine::cpu_seconds() - cpu))
}

/// A peer in another language: prints how long it took and how much processor time it used, in seconds.
fn peer(program: &str, arguments: &[&str], sink: &Sink, body: &str, count: usize) -> Result<Run> {
    let numbers = [sink.port.to_string(), count.to_string(), IN_FLIGHT.to_string()];
    let out = Command::new(program).args(arguments).args(&numbers).args([SECRET, body]).output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    match text.trim().split_once(' ') {
        Some((seconds, cpu)) if out.status.success() => Ok(Run::of(count, seconds.parse()?, cpu.parse()?)),
        _ => Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&out.stderr)).into()),
    }
}

/// What the peers are called, how they are started, and the part of the posts that they make.
const PEERS: [(&str, &str, &[&str], usize); 4] = [
    ("aiohttp", ".cache/venv-bench/bin/python", &["bench/python/_post.py", "aiohttp"], 2),
    ("httpx", ".cache/venv-bench/bin/python", &["bench/python/_post.py", "httpx"], 8),
    ("Node fetch", "node", &["bench/node/_post.mjs", "fetch"], 2),
    ("Node undici.request", "node", &["bench/node/_post.mjs", "undici"], 1),
];

fn main() -> Result<()> {
    let (mut rounds, mut count, mut dir, mut only) = (3, 20_000, "target/bench".to_owned(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--sink" => return sink::serve(),
            "--quick" => (rounds, count) = (1, 1_000),
            "--only" => only = Some(value()?),
            "--rounds" => rounds = value()?.parse()?,
            "--count" => count = value()?.parse()?,
            "--dir" => dir = value()?,
            _ => return Err(format!("unknown argument {argument}\n{USAGE}").into()),
        }
    }
    std::fs::create_dir_all(&dir)?;
    let dir = Path::new(&dir);
    if let Some(name) = only {
        let case = CASES.iter().find(|case| case.name == name);
        return alone(dir, case.ok_or_else(|| format!("no case is called {name:?}"))?, rounds, count);
    }
    println!(
        "Deliveries on a SQLite file, {count} a run, {IN_FLIGHT} under way at a time, to a sink on loopback; loops that keep"
    );
    println!("nothing beside them. Medians over {rounds} rounds and their range.\n");
    for (name, value) in machine::describe(dir) {
        println!("- {name}: {value}");
    }
    println!("- load at the start: {}", machine::load());

    let names: Vec<&str> =
        CASES.iter().map(|case| case.name).chain(["raw hyper"]).chain(PEERS.map(|(name, ..)| name)).collect();
    let mut runs: Vec<Vec<Run>> = names.iter().map(|_| Vec::new()).collect();
    let mut missing = Vec::new();
    let sink = Sink::start()?;
    let mut bytes = 0;
    for _ in 0..rounds {
        let (mut results, mut body) = (Vec::new(), String::new());
        for case in &CASES {
            let (run, sent) = ours(dir, &sink, count, case)?;
            body = sent; // of much the same length in each
            results.push(Some(run));
        }
        bytes = body.len();
        results.push(Some(raw_hyper(&sink, &body, count)?));
        for (name, program, arguments, part) in PEERS {
            match peer(program, arguments, &sink, &body, count / part) {
                Ok(run) => results.push(Some(run)),
                Err(error) => {
                    missing.push(format!("{name} did not run: {error}"));
                    results.push(None);
                }
            }
        }
        for (all, result) in runs.iter_mut().zip(results) {
            all.extend(result);
        }
    }
    println!("- load at the end: {}\n- body: {bytes} bytes\n", machine::load());
    println!("| | posts/s | CPU µs/post | ours, 1 endpoint, is so many times as fast |\n|---|---|---|---|");
    let short = |v: f64| Short(v).to_string();
    let ours: Vec<f64> = runs[0].iter().map(|run| run.rate).collect();
    for (name, all) in names.iter().zip(&runs).filter(|(_, all)| !all.is_empty()) {
        let (rate, cpu) = (Spread::of(all.iter().map(|run| run.rate)), Spread::of(all.iter().map(|run| run.cpu)));
        let ratio = Spread::of(all.iter().zip(&ours).map(|(run, ours)| ours / run.rate));
        println!("| {name} | {} | {} | {} |", rate.text(short), cpu.text(short), ratio.text(short));
    }
    println!();
    for at in BESIDE {
        let kept = Spread::of(runs[at].iter().zip(&runs[ALONE]).map(|(beside, alone)| beside.rate / alone.rate));
        println!("{} keep {} of their rate", CASES[at].name, kept.text(|v| format!("{:.0} %", v * 100.0)));
    }
    missing.dedup();
    for line in missing {
        println!("\n{}", line.trim());
    }
    Ok(())
}
