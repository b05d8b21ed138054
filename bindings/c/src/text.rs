//! Texts and bytes that a call answers.

use std::ffi::c_char;

use crate::entry::{Result, entry_anywhere, tidings_result};
use crate::handle::Table;
use crate::memory::Out;

/// A text, or bytes, of ours.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_text {
    _private: [u8; 0],
}

/// What it holds: with a NUL behind it, for those who want one.
pub(crate) struct Text(Box<[u8]>);

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<Vec<u8>> for Text {
    fn from(mut bytes: Vec<u8>) -> Self {
        bytes.push(0);
        Self(bytes.into())
    }
}

pub(crate) static TEXTS: Table<Text> = Table::new(1);

pub(crate) fn give(out: Out<*mut tidings_text>, text: impl Into<Text>) -> Result<()> {
    out.set(TEXTS.insert(text.into()));
    Ok(())
}

/// A text's bytes: `*len` of them, and a NUL behind the last, which does not count. They stay where they are until the
/// text is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_text_get(
    text: *const tidings_text,
    data: *mut *const c_char,
    len: *mut usize,
) -> tidings_result {
    entry_anywhere("tidings_text_get", || {
        // SAFETY: the header's conventions.
        let (data, len) = unsafe { (Out::new("data", data)?, Out::new("len", len)?) };
        let text = TEXTS.get("text", text)?;
        data.set(text.0.as_ptr().cast());
        len.set(text.0.len() - 1);
        Ok(())
    })
}

/// Frees a text. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_text_free(text: *mut tidings_text) -> tidings_result {
    entry_anywhere("tidings_text_free", || TEXTS.free("text", text))
}
