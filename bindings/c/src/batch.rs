//! Events that were read.

use tidings_bridge::{Error, GapReason, Page};

use crate::entry::{Result, entry, tidings_result};
use crate::handle::Table;
use crate::memory::{Out, tidings_bytes, write_sized};
use crate::text::{give, tidings_text};

/// Events in order, and what is known of the place behind them.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_batch {
    _private: [u8; 0],
}

/// One event. What it points to stays where it is until its batch is freed.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_event {
    /// Its number in the stream.
    pub seq: u64,
    /// When it was appended, in milliseconds since 1970.
    pub time_ms: i64,
    /// What it is: UTF-8 text.
    pub kind: tidings_bytes,
    /// JSON text, as it was appended.
    pub payload: tidings_bytes,
    /// Whom and what it belongs to, as JSON text; `data` is NULL if nothing is said.
    pub identity: tidings_bytes,
}

/// Nothing is missing.
pub const TIDINGS_GAP_NONE: i32 = 0;
/// Retention has removed events.
pub const TIDINGS_GAP_EVICTED: i32 = 1;
/// The reader has seen events that were lost: the stream's history is another now.
pub const TIDINGS_GAP_REGRESSED: i32 = 2;
/// Events could not be stored.
pub const TIDINGS_GAP_LOST: i32 = 3;
/// The cursor is of no stream that is here.
pub const TIDINGS_GAP_UNKNOWN: i32 = 4;

/// Why a read could not be complete.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_gap {
    /// One of `TIDINGS_GAP_…`.
    pub reason: i32,
    /// Whether `earliest_seq` says something: 1 or 0.
    pub has_earliest: i32,
    /// Whether `head_seq` says something: 1 or 0.
    pub has_head: i32,
    /// The first event that is there.
    pub earliest_seq: u64,
    /// The newest event.
    pub head_seq: u64,
}

pub(crate) static BATCHES: Table<Page> = Table::new(4);

/// How many events there are: 0 or more, for a batch may hold a gap alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_batch_count(batch: *const tidings_batch, count: *mut usize) -> tidings_result {
    entry("tidings_batch_count", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("count", count) }?;
        out.set(BATCHES.get("batch", batch)?.events.len());
        Ok(())
    })
}

/// The event at `index`, from 0. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_batch_event(
    batch: *const tidings_batch,
    index: usize,
    event: *mut tidings_event,
    size: usize,
) -> tidings_result {
    entry("tidings_batch_event", || {
        let page = BATCHES.get("batch", batch)?;
        let found = page.events.get(index);
        let found = found.ok_or_else(|| Error::argument("index", "must be less than the count of events"))?;
        let value = tidings_event {
            seq: found.seq,
            time_ms: found.time,
            kind: tidings_bytes::of(found.kind.as_bytes()),
            payload: tidings_bytes::of(&found.payload),
            identity: found.identity.as_deref().map_or(tidings_bytes::NONE, tidings_bytes::of),
        };
        // SAFETY: the header's conventions.
        unsafe { write_sized("event", event, size, value) }
    })
}

/// What is missing before the first event: tell it first. `size` is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_batch_gap(
    batch: *const tidings_batch,
    gap: *mut tidings_gap,
    size: usize,
) -> tidings_result {
    entry("tidings_batch_gap", || {
        let page = BATCHES.get("batch", batch)?;
        let value = page.gap.as_ref().map_or(
            tidings_gap { reason: TIDINGS_GAP_NONE, has_earliest: 0, has_head: 0, earliest_seq: 0, head_seq: 0 },
            |gap| tidings_gap {
                reason: match gap.reason {
                    GapReason::Evicted => TIDINGS_GAP_EVICTED,
                    GapReason::Regressed => TIDINGS_GAP_REGRESSED,
                    GapReason::Lost => TIDINGS_GAP_LOST,
                    GapReason::Unknown => TIDINGS_GAP_UNKNOWN,
                },
                has_earliest: i32::from(gap.earliest_seq.is_some()),
                has_head: i32::from(gap.head_seq.is_some()),
                earliest_seq: gap.earliest_seq.unwrap_or(0),
                head_seq: gap.head_seq.unwrap_or(0),
            },
        );
        // SAFETY: the header's conventions.
        unsafe { write_sized("gap", gap, size, value) }
    })
}

/// The cursor of a reader that has the first `events` of the batch's events; all of them, if there are fewer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_batch_cursor(
    batch: *const tidings_batch,
    events: usize,
    cursor: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_batch_cursor", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("cursor", cursor) }?;
        let page = BATCHES.get("batch", batch)?;
        give(out, page.cursors().cursor(place_after(&page, events)))
    })
}

fn place_after(page: &Page, events: usize) -> u64 {
    match events.checked_sub(1) {
        None => page.first(),
        Some(_) if events >= page.events.len() => page.cursor.next,
        Some(last) => page.events.get(last).map_or(page.cursor.next, |event| event.seq + 1),
    }
}

/// The newest event's number when the batch was read: sets `*has_head` to 1 and `*head_seq`, or both to 0 if there never was
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_batch_head(
    batch: *const tidings_batch,
    has_head: *mut i32,
    head_seq: *mut u64,
) -> tidings_result {
    entry("tidings_batch_head", || {
        // SAFETY: the header's conventions.
        let (has_head, head_seq) = unsafe { (Out::new("has_head", has_head)?, Out::new("head_seq", head_seq)?) };
        let head = BATCHES.get("batch", batch)?.head_seq;
        has_head.set(i32::from(head.is_some()));
        head_seq.set(head.unwrap_or(0));
        Ok(())
    })
}

/// Whether the stream is closed and the events reach its end: sets 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_batch_ended(batch: *const tidings_batch, ended: *mut i32) -> tidings_result {
    entry("tidings_batch_ended", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("ended", ended) }?;
        out.set(i32::from(BATCHES.get("batch", batch)?.ended));
        Ok(())
    })
}

/// Frees a batch, and with it what its events point to. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_batch_free(batch: *mut tidings_batch) -> tidings_result {
    entry("tidings_batch_free", || -> Result<()> { BATCHES.free("batch", batch) })
}
