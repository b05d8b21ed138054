//! A stream as JSON Lines.

use std::ffi::c_char;

use tidings_bridge::Export;

use crate::entry::{entry, tidings_result};
use crate::handle::Table;
use crate::memory::Out;
use crate::stream::{STREAMS, place, tidings_stream};
use crate::text::{TEXTS, tidings_text};

/// A stream on its way out, from a place to the end it has when it gets there.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_export {
    _private: [u8; 0],
}

pub(crate) static EXPORTS: Table<Export> = Table::of_process(21);

/// The events behind a place as JSON Lines, one object each, as SEP-2694 has them. The place is as for
/// `tidings_stream_read`. Free it with `tidings_export_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_stream_export(
    stream: *const tidings_stream,
    cursor: *const c_char,
    cursor_len: usize,
    after: i64,
    exported: *mut *mut tidings_export,
) -> tidings_result {
    entry("tidings_stream_export", || {
        // SAFETY: the header's conventions.
        let (out, place) = unsafe { (Out::new("exported", exported)?, place(cursor, cursor_len, after)?) };
        out.set(EXPORTS.insert(STREAMS.get("stream", stream)?.export(&place)?));
        Ok(())
    })
}

/// The next lines, each with its newline; sets NULL at the end. Blocks for a read. Free them with `tidings_text_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_export_next(
    exported: *const tidings_export,
    lines: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_export_next", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("lines", lines) }?;
        let found = EXPORTS.get("exported", exported)?.lines()?;
        out.set(found.map_or(std::ptr::null_mut(), |lines| TEXTS.insert(lines.concat().into())));
        Ok(())
    })
}

/// Frees an export. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_export_free(exported: *mut tidings_export) -> tidings_result {
    entry("tidings_export_free", || EXPORTS.free("exported", exported))
}
