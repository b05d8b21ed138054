//! Events, gaps and pages, packed: one array for each field, so that a batch costs few crossings.

use napi::bindgen_prelude::{Buffer, Either, Float64Array};
use napi_derive::napi;
use tidings_bridge::{self as bridge, CursorPrefix};

use crate::convert::number;

/// Why a read could not be complete.
#[napi(object, object_from_js = false)]
pub struct Gap {
    /// `evicted`, `regressed`, `lost` or `unknown`.
    pub reason: String,
    /// The first event that is there.
    pub earliest_seq: Option<f64>,
    /// The newest event.
    pub head_seq: Option<f64>,
    /// The cursor of a reader that was told this gap.
    pub cursor: String,
}

/// Events as they were read. The arrays have one element for each event.
#[napi(object, object_from_js = false)]
pub struct Batch {
    /// Tell this first.
    pub gap: Option<Gap>,
    /// Their numbers.
    pub seqs: Float64Array,
    /// When they were appended, in milliseconds since the epoch.
    pub times: Float64Array,
    /// What they are; one text for all if they are of one type.
    pub types: Either<String, Vec<String>>,
    /// JSON text as it was given; bytes where it is not UTF-8.
    pub payloads: Vec<Either<String, Buffer>>,
    /// Identities as JSON text, if any event has one.
    pub identities: Option<Vec<Option<String>>>,
    /// Writes the cursors of their places.
    pub cursors: Cursors,
}

/// What one read found.
#[napi(object, object_from_js = false)]
pub struct Page {
    /// The events and the gap.
    pub batch: Batch,
    /// Where the reader stands after these events.
    pub cursor: String,
    /// The newest event's number.
    pub head_seq: Option<f64>,
    /// The stream is closed and the events reach its end.
    pub ended: bool,
}

/// Writes cursors of one stream, epoch and claim.
#[napi]
pub struct Cursors {
    prefix: CursorPrefix,
}

#[napi]
impl Cursors {
    /// The cursor of a reader that has the event `seq` and all before it.
    #[napi]
    pub fn after(&self, seq: f64) -> crate::convert::Result<String> {
        crate::convert::entry("Cursors.after", || Ok(self.prefix.cursor(bridge::whole_number("seq", seq)? + 1)))
    }
}

impl From<bridge::Page> for Page {
    fn from(page: bridge::Page) -> Self {
        Self {
            cursor: page.cursors().cursor(page.cursor.next),
            head_seq: page.head_seq.map(number),
            ended: page.ended,
            batch: Batch::from(page),
        }
    }
}

impl From<bridge::Page> for Batch {
    #[allow(clippy::cast_precision_loss, reason = "a float has the milliseconds of every year that people write")]
    fn from(page: bridge::Page) -> Self {
        let prefix = page.cursors();
        let first = page.first();
        let gap = page.gap.as_ref().map(|gap| Gap {
            reason: gap.reason.as_str().to_owned(),
            earliest_seq: gap.earliest_seq.map(number),
            head_seq: gap.head_seq.map(number),
            cursor: prefix.cursor(first),
        });
        let events = page.events;
        let seqs: Vec<f64> = events.iter().map(|event| number(event.seq)).collect();
        let times: Vec<f64> = events.iter().map(|event| event.time as f64).collect();
        let one_type = events.windows(2).all(|pair| pair[0].kind == pair[1].kind);
        let types = match events.first() {
            Some(event) if one_type => Either::A(event.kind.clone()),
            _ => Either::B(events.iter().map(|event| event.kind.clone()).collect()),
        };
        let text = |identity: &[u8]| String::from_utf8_lossy(identity).into_owned();
        let identities = events
            .iter()
            .any(|event| event.identity.is_some())
            .then(|| events.iter().map(|event| event.identity.as_deref().map(text)).collect());
        let payloads = events.iter().map(|event| payload(&event.payload)).collect();
        Self { gap, seqs: seqs.into(), times: times.into(), types, payloads, identities, cursors: Cursors { prefix } }
    }
}

fn payload(bytes: &[u8]) -> Either<String, Buffer> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Either::A(text.to_owned()),
        Err(_) => Either::B(bytes.to_vec().into()),
    }
}
