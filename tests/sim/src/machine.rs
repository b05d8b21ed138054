//! The machine: two processes on one disk, clients, endpoints, and what befalls them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidings::Verify;
use tidings::store::StoreErrorKind;
use tokio::time::sleep;

use crate::chance::Chance;
use crate::clock::MachineClock;
use crate::disk::{Disk, Doom, Planted};
use crate::net::Network;
use crate::peers::Published;
use crate::process::{Process, Setting};
use crate::promises::Promises;
use crate::record::{Record, lock};

/// Processes on the machine.
const PROCESSES: usize = 2;

/// What a run has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Of these, in the middle of a commit.
    pub in_commit: u64,
    /// Losses of power.
    pub power: u64,
    /// Processes that were stopped in order.
    pub stops: u64,
    /// What hubs have acknowledged.
    pub promises: u64,
    /// Deliveries enqueued.
    pub deliveries: u64,
    /// Requests at endpoints.
    pub posts: u64,
}

impl Counts {
    /// Kills and losses of power.
    pub fn crashes(&self) -> u64 {
        self.kills + self.power
    }

    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.kills += other.kills;
        self.in_commit += other.in_commit;
        self.power += other.power;
        self.stops += other.stops;
        self.promises += other.promises;
        self.deliveries += other.deliveries;
        self.posts += other.posts;
    }
}

/// The machine.
pub(crate) struct Machine {
    pub(crate) chance: Chance,
    pub(crate) setting: Setting,
    pub(crate) promises: Arc<Mutex<Promises>>,
    pub(crate) published: Published,
    pub(crate) processes: Vec<Option<Process>>,
    pub(crate) counts: Counts,
    /// Nobody calls anything in this run.
    pub(crate) streams_only: bool,
    /// Makes every payload another.
    pub(crate) serial: u64,
}

impl Machine {
    /// A machine that was just switched on.
    pub(crate) fn new(seed: u64, record: &Arc<Record>, clock: Arc<MachineClock>, planted: Option<Planted>) -> Self {
        let chance = Chance::new(seed);
        let streams_only = chance.percent(40);
        let disk = Arc::new(Disk::new(Arc::clone(record), planted));
        let net = Arc::new(Network::new(chance.number(), Arc::clone(record)));
        let promises: Arc<Mutex<Promises>> = Arc::default();
        let (heard, read, noted) = (Arc::clone(&promises), Arc::clone(&disk), Arc::clone(record));
        net.set_heard(Box::new(move |hit| read.look(|model, _| lock(&heard).heard(&hit, model, &noted))));
        let verify = if chance.percent(70) { Verify::Address } else { Verify::Challenge };
        let setting = Setting { clock, disk, net, record: Arc::clone(record), verify };
        let processes = (0..PROCESSES).map(|_| None).collect();
        let (published, counts) = (Published::default(), Counts::default());
        Self { chance, setting, promises, published, processes, counts, streams_only, serial: 0 }
    }

    pub(crate) fn note(&self, what: impl AsRef<str>) {
        self.setting.record.note(what);
    }

    /// A process that runs, and its number.
    pub(crate) fn running(&self) -> Option<usize> {
        let running: Vec<_> = (0..PROCESSES).filter(|at| self.processes[*at].is_some()).collect();
        self.chance.one_of(&running).copied()
    }

    pub(crate) fn start(&mut self, at: usize) {
        if self.processes[at].is_some() {
            return;
        }
        match Process::start(&self.setting, self.chance.number()) {
            Ok(process) => {
                self.note(format!("process {at} starts"));
                self.processes[at] = Some(process);
            }
            Err(error) => self.setting.record.violated("I1", format!("a hub does not open: {error}")),
        }
    }

    /// Every promise and every stream, against the model.
    pub(crate) fn check(&self, power_lost: bool) {
        let record = &self.setting.record;
        self.setting.disk.look(|model, store| {
            model.compare(store);
            lock(&self.promises).check(model, record, power_lost);
        });
    }

    /// After each step: what changed is as the model says, and memory is bounded.
    pub(crate) fn glance(&self) {
        self.setting.disk.look(|model, store| model.compare(store));
        for process in self.processes.iter().flatten() {
            let buffered = process.hub.stats().buffered;
            self.setting.record.hold("I10", buffered <= 64 << 20, || format!("{buffered} bytes are buffered"));
        }
    }

    /// One process is killed.
    pub(crate) async fn kill(&mut self, at: usize) {
        let Some(process) = self.processes[at].take() else { return };
        self.note(format!("process {at} is killed"));
        self.counts.kills += 1;
        process.kill().await;
        self.check(false);
    }

    /// The next commit of one process kills it, before or after it is written.
    pub(crate) async fn kill_in_commit(&mut self, at: usize) {
        let Some(process) = &self.processes[at] else { return };
        process.medium.doom(if self.chance.percent(50) { Doom::Before } else { Doom::After });
        // At the latest its heartbeat is one.
        for _ in 0..200 {
            if self.processes[at].as_ref().is_none_or(|process| process.medium.is_dead()) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        self.counts.in_commit += 1;
        self.kill(at).await;
    }

    /// One process is stopped in order.
    pub(crate) async fn stop(&mut self, at: usize) {
        let Some(process) = self.processes[at].take() else { return };
        self.note(format!("process {at} is stopped"));
        self.counts.stops += 1;
        process.medium.fail(None);
        process.close().await;
        self.check(false);
    }

    /// The power goes: every process, and what was not synced.
    pub(crate) async fn lose_power(&mut self) {
        self.note("power is lost");
        self.counts.power += 1;
        for at in 0..PROCESSES {
            if let Some(process) = self.processes[at].take() {
                process.kill().await;
            }
        }
        self.setting.disk.lose_power(&self.chance);
        self.setting.clock.reboot();
        self.check(true);
    }

    /// A process's writes fail for a while, or no longer.
    pub(crate) fn toggle_fault(&mut self, at: usize) {
        let Some(process) = &self.processes[at] else { return };
        let faults = [StoreErrorKind::Io, StoreErrorKind::Full, StoreErrorKind::ReadOnly];
        let fault = self.chance.one_of(&faults).copied().filter(|_| self.chance.percent(30));
        process.medium.fail(fault);
        if let Some(fault) = fault {
            self.note(format!("the writes of process {at} fail: {fault:?}"));
        }
    }

    /// Time goes by: mostly little, sometimes much.
    pub(crate) async fn wait(&self) {
        let ms = match self.chance.below(100) {
            0..60 => self.chance.below(40),
            60..90 => self.chance.below(2_000),
            90..98 => self.chance.below(20_000),
            _ => self.chance.below(180_000),
        };
        sleep(Duration::from_millis(ms)).await;
    }

    /// Everything that was begun comes to its end, and is checked.
    pub(crate) async fn settle(&mut self) {
        self.note("settles");
        self.setting.net.calm();
        for at in 0..PROCESSES {
            if let Some(process) = &self.processes[at] {
                process.medium.fail(None);
            }
            self.start(at);
        }
        sleep(Duration::from_secs(5)).await;
        for at in 0..PROCESSES {
            let Some(mut process) = self.processes[at].take() else { continue };
            for (_, reader) in process.readers.drain(..) {
                reader.abort();
            }
            for _ in 0..4 {
                if process.peers.write(&process.hub, &self.published).is_err() {
                    self.setting.record.violated("I9", "an outbox of a hub that runs is closed");
                }
            }
            process.peers.all_told();
            process.calls.clear(); // whoever drops a call ends it
            process.pens.clear();
            self.processes[at] = Some(process);
        }
        // Longer than any route's deadline, and as long as a verification may be put off.
        let mut left = 30 * 60;
        while left > 0 && self.setting.disk.look(|model, _| model.has_unfinished()) {
            sleep(Duration::from_secs(10)).await;
            left -= 10;
        }
        self.check(false);
        let record = &self.setting.record;
        self.setting.disk.look(|model, _| {
            model.all_finished();
            lock(&self.promises).all_taken(model, record);
            self.counts.deliveries += model.deliveries.len() as u64;
        });
        for at in 0..PROCESSES {
            if let Some(process) = self.processes[at].take() {
                process.close().await;
            }
        }
        self.counts.promises += lock(&self.promises).count() as u64;
        self.counts.posts += lock(&self.promises).posts;
    }
}
