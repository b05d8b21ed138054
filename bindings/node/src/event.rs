//! Events, gaps and pages, packed: one array for each field, so that a batch costs few crossings.

use std::ptr;

use napi::bindgen_prelude::{Buffer, Either, Float64Array, ToNapiValue};
use napi::{check_status, sys};
use napi_derive::napi;
use tidings_bridge::{self as bridge, Bytes, CursorPrefix};

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
    #[napi(ts_type = "(string | Uint8Array)[]")]
    pub payloads: Vec<Payload>,
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
        let payloads = events.into_iter().map(|event| Payload(event.payload)).collect();
        Self { gap, seqs: seqs.into(), times: times.into(), types, payloads, identities, cursors: Cursors { prefix } }
    }
}

/// A payload on its way to JavaScript: a string, or bytes where it is not UTF-8. The string is made of the bytes as they lie in
/// the batch, since a copy for each event is what reading many would mostly cost.
pub struct Payload(Bytes);

impl ToNapiValue for Payload {
    #[allow(unsafe_code, reason = "the trait's method is unsafe, and so is what it calls")]
    unsafe fn to_napi_value(env: sys::napi_env, payload: Self) -> napi::Result<sys::napi_value> {
        let Self(bytes) = payload;
        let Ok(text) = std::str::from_utf8(&bytes) else {
            // SAFETY: `env` is the caller's, who vouches for it.
            return unsafe { Buffer::to_napi_value(env, bytes.to_vec().into()) };
        };
        if !text.is_ascii() {
            // SAFETY: as above.
            return unsafe { <&str>::to_napi_value(env, text) };
        }
        let mut value = ptr::null_mut();
        let length = isize::try_from(text.len()).unwrap_or(isize::MAX);
        // SAFETY: as above; `text` is alive, of that length (a slice has no more than `isize::MAX` bytes), and ASCII, which is
        // Latin-1. `value` is written before it is read.
        let status = unsafe { sys::napi_create_string_latin1(env, text.as_ptr().cast(), length, &raw mut value) };
        check_status!(status, "a payload could not be made a string")?;
        Ok(value)
    }
}
