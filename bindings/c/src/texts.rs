//! Lists of texts that a call answers.

use tidings_bridge::Error;

use crate::entry::{entry, tidings_result};
use crate::handle::Table;
use crate::memory::{Out, tidings_bytes, write_sized};

/// Texts, in order.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_texts {
    _private: [u8; 0],
}

/// `None` is a text that is not there, and has its place all the same.
pub(crate) static LISTS: Table<Vec<Option<String>>> = Table::new(20);

pub(crate) fn give(out: Out<*mut tidings_texts>, texts: impl IntoIterator<Item = String>) {
    out.set(LISTS.insert(texts.into_iter().map(Some).collect()));
}

/// How many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_texts_count(texts: *const tidings_texts, count: *mut usize) -> tidings_result {
    entry("tidings_texts_count", || {
        // SAFETY: the header's conventions.
        let out = unsafe { Out::new("count", count) }?;
        out.set(LISTS.get("texts", texts)?.len());
        Ok(())
    })
}

/// The text at `index`, from 0; its `data` is NULL where there is none. It stays where it is until the list is freed. `size`
/// is the `sizeof` of the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_texts_get(
    texts: *const tidings_texts,
    index: usize,
    text: *mut tidings_bytes,
    size: usize,
) -> tidings_result {
    entry("tidings_texts_get", || {
        let list = LISTS.get("texts", texts)?;
        let found = list.get(index).ok_or_else(|| Error::argument("index", "must be less than the count"))?;
        // SAFETY: the header's conventions.
        unsafe { write_sized("text", text, size, tidings_bytes::of_optional(found.as_deref())) }
    })
}

/// Frees a list of texts. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_texts_free(texts: *mut tidings_texts) -> tidings_result {
    entry("tidings_texts_free", || LISTS.free("texts", texts))
}
