//! The library's warnings and errors: kept until the host fetches them (`queue`), or told at once (`teller`).

use std::any::Any;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::error::{Error, ErrorCode, Result};

mod queue;
mod teller;

pub(crate) use queue::watch;
pub use queue::{log_waits, take_log};
pub use teller::{LogTeller, tell_log};

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

/// The host fetches what is logged.
static FETCHED: AtomicBool = AtomicBool::new(false);

/// Starts to keep warnings and errors. Only for a library that carries its own copy of the Rust runtime, as a Python or
/// Node extension does; a Rust program has its own subscriber. Later calls do nothing.
pub fn install_log() {
    FETCHED.store(true, Ordering::Relaxed);
    let _ = install();
}

/// Has everything that is logged come here.
fn install() -> Result<()> {
    if tracing::subscriber::set_global_default(Collector).is_ok()
        || tracing::dispatcher::get_default(|found| found.is::<Collector>())
    {
        return Ok(());
    }
    Err(Error::new(ErrorCode::Unsupported, "log: this program has a tracing subscriber of its own"))
}

/// Keeps everybody out of the log, over a fork.
pub(crate) fn hold() -> Box<dyn Any> {
    Box::new((queue::hold(), teller::hold()))
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
        let record = LogRecord { level, target, message: line.finish() };
        teller::tell(&record);
        if FETCHED.load(Ordering::Relaxed) {
            queue::keep(record);
        }
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
    use std::sync::{Arc, Mutex};

    use super::queue::KEEP;
    use super::*;
    use crate::fork::lock;

    #[test]
    fn loggers_are_children_of_one() {
        assert_eq!(logger("tidings::hub"), "tidings.hub");
        assert_eq!(logger("tidings_store_sqlite::writer"), "tidings.store_sqlite.writer");
    }

    /// One test, for what is global.
    #[test]
    fn warnings_are_told_or_kept_until_they_are_taken() {
        // In this process nobody else logs: it has this subscriber from here on.
        let (first, second) = (Told::default(), Told::default());
        let (told, _again) = (first.teller(), second.teller());
        tracing::warn!(target: "tidings_store::x", count = 3, "something");
        drop(told);
        tracing::error!(target: "tidings", "more");
        tracing::info!(target: "tidings", "not this");
        assert_eq!(first.lines(), ["Warning tidings.store.x something count=3"]);
        assert_eq!(second.lines(), ["Warning tidings.store.x something count=3", "Error tidings more"]);
        assert!(!log_waits(), "nobody fetches");

        install_log();
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
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl Told {
        fn teller(&self) -> LogTeller {
            let Self(lines) = self.clone();
            tell_log(move |record| {
                lock(&lines).push(format!("{:?} {} {}", record.level, record.target, record.message));
                tracing::error!(target: "tidings", "not told: this thread is telling");
            })
            .unwrap()
        }

        fn lines(&self) -> Vec<String> {
            lock(&self.0).clone()
        }
    }
}
