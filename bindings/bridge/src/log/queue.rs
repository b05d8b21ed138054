//! What is logged, kept until the host fetches it: for hosts whose logger no thread of ours may call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::LogRecord;
use crate::fork::{generation, lock, lock_global};
use crate::port::{Shared, WeakPort};

/// At most this many wait; then the oldest go.
pub(super) const KEEP: usize = 256;

#[derive(Debug)]
pub(crate) struct Queue {
    records: VecDeque<LogRecord>,
    dropped: u64,
}

/// Ports to wake, with the generation (fork) they belong to.
pub(crate) type Watching = Vec<(u32, WeakPort)>;

static QUEUE: Mutex<Queue> = Mutex::new(Queue { records: VecDeque::new(), dropped: 0 });
static WAITING: AtomicBool = AtomicBool::new(false);
static PORTS: Mutex<Watching> = Mutex::new(Vec::new());

/// Whether [`take_log`] has something. Costs next to nothing.
#[inline]
pub fn log_waits() -> bool {
    WAITING.load(Ordering::Relaxed)
}

/// Takes what is kept, oldest first, and how many records had to go.
pub fn take_log() -> (Vec<LogRecord>, u64) {
    let Some(mut queue) = lock_global(&QUEUE) else { return (Vec::new(), 0) };
    WAITING.store(false, Ordering::Relaxed);
    (queue.records.drain(..).collect(), std::mem::take(&mut queue.dropped))
}

/// A port that is to be woken when there is something to take.
pub(crate) fn watch(port: &Arc<Shared>) {
    if let Some(mut ports) = lock_global(&PORTS) {
        ports.retain(|(made, port)| *made == generation() && port.strong_count() > 0);
        ports.push((generation(), Arc::downgrade(port)));
    }
}

pub(super) fn keep(record: LogRecord) {
    let Some(mut queue) = lock_global(&QUEUE) else { return };
    if queue.records.len() >= KEEP {
        queue.records.pop_front();
        queue.dropped += 1;
    }
    queue.records.push_back(record);
    let first = !WAITING.swap(true, Ordering::Relaxed);
    drop(queue);
    if first && let Some(ports) = lock_global(&PORTS) {
        let ours: Vec<_> =
            ports.iter().filter(|(made, _)| *made == generation()).filter_map(|(_, port)| port.upgrade()).collect();
        drop(ports);
        for port in ours {
            port.look_at_log();
        }
    }
}

/// Keeps everybody out, over a fork.
pub(super) fn hold() -> (MutexGuard<'static, Queue>, MutexGuard<'static, Watching>) {
    (lock(&QUEUE), lock(&PORTS))
}
