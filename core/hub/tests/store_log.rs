//! What the log says of a store that fails. Alone in its process, because the log is the process's.

mod support;

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use support::{FaultStore, drain, keep_all, over, wait};
use tidings::Durability;
use tidings::store::StoreErrorKind;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Keeps the lines of the hub at `info` and above.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl Lines {
    fn take(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut *self.0.lock().expect("lines"))
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).expect("text");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tidings") && *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().expect("lines").push((*event.metadata().level(), text.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// One error line when it begins, one when events are given up, one line when it is over; and again the next time.
#[test]
fn one_line_at_each_change() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).expect("the only subscriber");
    let store = FaultStore::new();
    let mut options = keep_all();
    options.buffer_bytes = 16 << 10;
    let hub = over(&store, options);
    let writer = hub.new_writer("s", "n").expect("a writer");
    for _ in 0..2 {
        store.fail(Some(StoreErrorKind::Full));
        writer.append("message", b"\"secret\"", None).expect("numbered");
        store.wait_failed(3);
        let said = lines.take();
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].0, Level::ERROR);
        assert!(said[0].1.contains("the store fails") && said[0].1.contains("injected"), "{said:?}");

        for _ in 0..500 {
            writer.append("message", &[b'x'; 100], None).expect("numbered");
        }
        store.wait_failed(2);
        let said = lines.take();
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].0, Level::ERROR);
        assert!(said[0].1.contains("the oldest events are given up"), "{said:?}");

        store.fail(None);
        store.wait_for(|_| (!hub.stats().failing).then_some(()));
        wait(writer.flush(Durability::Process)).expect("committed");
        let said = lines.take();
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].0, Level::WARN);
        assert!(said[0].1.contains("the store is back"), "{said:?}");
    }
    writer.close().expect("open until now");
    assert_eq!(
        drain(&mut hub.resume("s", &writer.cursor_after(0)).expect("a tail"))
            .iter()
            .filter(|r| r.gap.is_some())
            .count(),
        2
    );
    assert_eq!(lines.take(), []);
}
