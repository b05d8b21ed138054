//! The long simulation: `make sim`, or `make sim SEED=n` for one run with its trace.
#![allow(clippy::print_stdout, reason = "a program that people and CI read the output of")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tidings_sim::{Counts, run};

/// Steps of one run.
const STEPS: u64 = 120;

fn number(name: &str) -> Option<u64> {
    let text = std::env::args().skip_while(|arg| arg != name).nth(1)?;
    Some(text.parse().unwrap_or_else(|_| {
        println!("{name}: a number");
        std::process::exit(2)
    }))
}

fn main() -> ExitCode {
    if let Some(seed) = number("--seed") {
        let report = run(seed, STEPS, None);
        println!("{}\n{:?}\n{}", report.trace.join("\n"), report.counts, report.violations.join("\n"));
        return if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let crashes = number("--crashes").unwrap_or(10_000);
    let first = number("--first").unwrap_or(1);
    let (started, next) = (Instant::now(), AtomicU64::new(first));
    let all: Mutex<(Counts, u64, Vec<u64>)> = Mutex::default();
    let locked = || all.lock().unwrap_or_else(PoisonError::into_inner);
    // Runs share nothing: each thread takes the next seed.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while locked().0.crashes() < crashes && locked().2.len() < 10 {
                    let report = run(next.fetch_add(1, Ordering::Relaxed), STEPS, None);
                    let (counts, seeds, bad) = &mut *locked();
                    counts.add(&report.counts);
                    *seeds += 1;
                    if !report.violations.is_empty() {
                        println!("{}\n", report.told());
                        bad.push(report.seed);
                    }
                    if *seeds % 200 == 0 {
                        println!("… {seeds} seeds, {} crashes", counts.crashes());
                    }
                }
            });
        }
    });
    let (all, seeds, bad) = &*locked();
    println!(
        "sim: {} crashes ({} kills, {} of them inside a commit, {} losses of power), {} orderly stops, {} steps, {seeds} seeds from \
         {first}, {} promises, {} deliveries, {} requests, {} seeds with violations, {:.0} s",
        all.crashes(),
        all.kills,
        all.in_commit,
        all.power,
        all.stops,
        all.steps,
        all.promises,
        all.deliveries,
        all.posts,
        bad.len(),
        started.elapsed().as_secs_f64(),
    );
    if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
