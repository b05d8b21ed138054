//! Producers that each append one event, wait until it is committed, and go on.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::stats::quantile;
use crate::{Result, machine};

/// Bytes of one event's payload.
pub const PAYLOAD: usize = 256;

/// Something that events can be appended to.
pub trait Target: Clone + Send + Sync + 'static {
    /// Appends to the stream of that number; ready once the event is committed.
    fn append(&self, stream: usize, payload: &[u8]) -> impl Future<Output = Result<()>> + Send;
    /// Appends `count` events to stream 0 and answers how long the last of them took to be handed over; ready once all
    /// are committed.
    fn burst(&self, count: usize, payload: &[u8]) -> impl Future<Output = Result<Duration>> + Send;
}

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producers {
    /// So many tasks on one thread, as in a server with an event loop.
    Tasks(usize),
    /// So many threads.
    Threads(usize),
}

/// For how long.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Not measured.
    pub warm_up: Duration,
    /// Measured.
    pub measured: Duration,
}

/// What came out of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Events committed a second.
    pub rate: f64,
    /// Median time from before the append until it is committed, in microseconds.
    pub p50: f64,
    /// The 99th percentile of the same.
    pub p99: f64,
    /// Processor time of the whole process for one event, in microseconds.
    pub cpu: f64,
}

/// A JSON text of exactly [`PAYLOAD`] bytes.
pub fn payload() -> Vec<u8> {
    let (head, tail) = (br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":""#, br#""}}"#);
    let mut text = head.to_vec();
    text.resize(PAYLOAD - tail.len(), b'x');
    text.extend_from_slice(tail);
    text
}

/// Runs the producers in a closed loop; producer `n` appends to stream `n % streams`.
pub fn run<T: Target>(target: &T, producers: Producers, streams: usize, window: Window) -> Result<Run> {
    let begun = Instant::now();
    let times = Times { from: begun + window.warm_up, until: begun + window.warm_up + window.measured };
    let cpu = CpuWatch::start(times);
    let mut took = Vec::new();
    match producers {
        Producers::Tasks(n) => {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            let tasks: Vec<_> = (0..n).map(|n| runtime.spawn(produce(target.clone(), n % streams, times))).collect();
            for task in tasks {
                took.extend(runtime.block_on(task)??);
            }
        }
        Producers::Threads(n) => {
            let threads: Vec<_> = (0..n)
                .map(|n| {
                    let target = target.clone();
                    std::thread::spawn(move || -> Result<Vec<f64>> {
                        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
                        runtime.block_on(produce(target, n % streams, times))
                    })
                })
                .collect();
            for thread in threads {
                took.extend(thread.join().map_err(|_| "a producer panicked")??);
            }
        }
    }
    let used = cpu.stop()?;
    let events = took.len() as f64;
    Ok(Run {
        rate: events / window.measured.as_secs_f64(),
        cpu: used * 1e6 / events.max(1.0),
        p50: quantile(&mut took, 0.5),
        p99: quantile(&mut took, 0.99),
    })
}

/// One burst on one thread; `p50` is the time of handing over one event, `p99` is not known.
pub fn burst<T: Target>(target: &T, count: usize) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let payload = payload();
    let (begun, cpu) = (Instant::now(), machine::cpu_seconds());
    let handed_over = runtime.block_on(target.burst(count, &payload))?;
    let (took, cpu) = (begun.elapsed(), machine::cpu_seconds() - cpu);
    let events = count as f64;
    Ok(Run {
        rate: events / took.as_secs_f64(),
        p50: handed_over.as_secs_f64() * 1e6 / events,
        p99: 0.0,
        cpu: cpu * 1e6 / events,
    })
}

/// What is measured: events that were appended after `from` and committed before `until`.
#[derive(Clone, Copy)]
struct Times {
    from: Instant,
    until: Instant,
}

async fn produce<T: Target>(target: T, stream: usize, times: Times) -> Result<Vec<f64>> {
    let payload = payload();
    let mut took = Vec::with_capacity(16_384);
    loop {
        let begun = Instant::now();
        if begun >= times.until {
            return Ok(took);
        }
        target.append(stream, &payload).await?;
        let done = Instant::now();
        if begun >= times.from && done <= times.until {
            took.push((done - begun).as_secs_f64() * 1e6);
        }
    }
}

/// Processor time within the measured window.
struct CpuWatch(std::thread::JoinHandle<f64>);

impl CpuWatch {
    fn start(times: Times) -> Self {
        Self(std::thread::spawn(move || {
            std::thread::sleep(times.from.saturating_duration_since(Instant::now()));
            let before = machine::cpu_seconds();
            std::thread::sleep(times.until.saturating_duration_since(Instant::now()));
            machine::cpu_seconds() - before
        }))
    }

    fn stop(self) -> Result<f64> {
        self.0.join().map_err(|_| "the processor watch panicked".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_has_its_size() {
        assert_eq!(payload().len(), PAYLOAD);
    }
}
