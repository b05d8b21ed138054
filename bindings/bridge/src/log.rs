//! The library's warnings and errors, kept until the host fetches them: no thread of ours calls a host's logger.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::fork::{generation, lock_global};
use crate::port::{Shared, WeakPort};

/// At most this many wait; then the oldest go.
const KEEP: usize = 256;
/// A message is cut after this many bytes.
const LINE: usize = 2_048;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something that the operator should know.
    Warning,
    /// Something was lost or is broken.
    Error,
}

/// One line for the host's log. Holds no payload, secret or address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// How bad it is.
    pub level: LogLevel,
    /// The module it comes from, with dots.
    pub target: String,
    /// The message and its fields.
    pub message: String,
}

#[derive(Debug)]
struct Queue {
    records: VecDeque<LogRecord>,
    dropped: u64,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { records: VecDeque::new(), dropped: 0 });
static WAITING: AtomicBool = AtomicBool::new(false);
/// Ports to wake, with the generation (fork) they belong to.
static PORTS: Mutex<Vec<(u32, WeakPort)>> = Mutex::new(Vec::new());

/// Starts to keep warnings and errors. Only for a library that carries its own copy of the Rust runtime, as a Python or
/// Node extension does; a Rust program has its own subscriber. Later calls do nothing.
pub fn install_log() {
    let _ = tracing::subscriber::set_global_default(Collector);
}

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

fn keep(record: LogRecord) {
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

/// The name of a host's logger for a module: `tidings_store_sqlite::writer` is `tidings.store_sqlite.writer`.
fn logger(target: &str) -> String {
    target.replacen("tidings_", "tidings.", 1).replace("::", ".")
}

struct Collector;

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= &Level::WARN && metadata.target().starts_with("tidings")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = if event.metadata().level() == &Level::ERROR { LogLevel::Error } else { LogLevel::Warning };
        let target = logger(event.metadata().target());
        keep(LogRecord { level, target, message: line.finish() });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn finish(mut self) -> String {
        self.message.push_str(&self.fields);
        if self.message.len() > LINE {
            let mut end = LINE;
            while !self.message.is_char_boundary(end) {
                end -= 1;
            }
            self.message.truncate(end);
            self.message.push('…');
        }
        self.message
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loggers_are_children_of_one() {
        assert_eq!(logger("tidings::hub"), "tidings.hub");
        assert_eq!(logger("tidings_store_sqlite::writer"), "tidings.store_sqlite.writer");
    }

    /// One test, for the queue is global.
    #[test]
    fn warnings_are_kept_until_they_are_taken() {
        tracing::subscriber::with_default(Collector, || {
            tracing::info!("not this");
            tracing::warn!(target: "tidings::hub", count = 3, "something");
            tracing::error!(target: "hyper", "not ours");
            assert!(log_waits());
            let (records, dropped) = take_log();
            let expected = LogRecord {
                level: LogLevel::Warning,
                target: "tidings.hub".into(),
                message: "something count=3".into(),
            };
            assert_eq!((records, dropped), (vec![expected], 0));
            assert!(!log_waits());

            for n in 0..KEEP + 5 {
                tracing::error!(target: "tidings", n, "x");
            }
            let (records, dropped) = take_log();
            assert_eq!((records.len(), dropped), (KEEP, 5));
            assert_eq!(records[0].message, "x n=5");
            assert_eq!(records[0].level, LogLevel::Error);

            let long = "ä".repeat(LINE);
            tracing::warn!(target: "tidings", "{long}");
            let message = take_log().0.remove(0).message;
            assert_eq!(message.len(), LINE + '…'.len_utf8());
        });
    }
}
