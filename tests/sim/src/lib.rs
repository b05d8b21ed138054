//! Hubs on one simulated machine.
//!
//! A run is a function of its seed: two processes (the real hub, all of it, see `tidings::simulation`) share a disk, clients read,
//! endpoints answer as they like, and at any moment a process is killed, the power goes, or the disk fails. Time is virtual.
//! After each step what must always hold is checked, against a model that was written from the documentation and not from
//! the code: I1 acknowledged events are there, once; I2 numbers are dense and bytes never change; I3 a reader sees no hole
//! without a gap, and nothing twice; I4 a close is final; I5 a trigger's effect is there exactly if its event is; I6 a
//! delivery ends once, after no more attempts than allowed; I7 no lease is settled by an old token; I8 a body's cursor passes
//! nothing that is still undelivered; I9 a peer is told what it asked for, once a publish; I10 memory and storage stay bounded;
//! I11 nothing connects to a forbidden address; I12 no secret is logged or told.
#![forbid(unsafe_code)]

mod acts;
mod chance;
mod client;
mod clock;
mod disk;
mod log;
mod machine;
mod model;
mod net;
mod peers;
mod process;
mod promises;
mod record;

use std::sync::Arc;

pub use disk::Planted;
pub use machine::Counts;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What it has seen.
    pub counts: Counts,
    /// What did not hold.
    pub violations: Vec<String>,
    /// Everything that happened.
    pub trace: Vec<String>,
}

impl Report {
    /// The violations with the end of the trace before the first of them, and how to see it again.
    pub fn told(&self) -> String {
        let first = self.trace.iter().position(|line| line.contains(" violated: ")).unwrap_or(0);
        let trace = &self.trace[first.saturating_sub(60)..(first + 1).min(self.trace.len())];
        let seed = self.seed;
        format!(
            "seed {seed}: {} violations\n{}\n\nrun it again: make sim SEED={seed} (writes the whole trace)",
            self.violations.len(),
            trace.join("\n")
        )
    }
}

/// One run of so many steps, on a disk with a fault or without one.
///
/// # Panics
/// When the runtime cannot be made.
pub fn run(seed: u64, steps: u64, planted: Option<Planted>) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without IO needs nothing of the system");
    let report = runtime.block_on(async {
        let clock = Arc::new(clock::MachineClock::new());
        let record = Arc::new(record::Record::new(Arc::clone(&clock)));
        let _log = tracing::subscriber::set_default(log::Log(Arc::clone(&record)));
        let mut machine = machine::Machine::new(seed, &record, clock, planted);
        for _ in 0..steps {
            machine.act().await;
            machine.wait().await;
            machine.glance();
            if !record.is_clean() {
                break;
            }
        }
        if record.is_clean() {
            machine.settle().await;
        }
        Report { seed, counts: machine.counts, violations: record.violations(), trace: record.lines() }
    });
    runtime.shutdown_background();
    report
}
