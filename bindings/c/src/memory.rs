//! What C gives and takes by pointer. All that follows a pointer of the caller's is in this file.

use std::ffi::c_char;

use tidings_bridge::Error;

use crate::entry::Result;

/// The longest text or bytes that a call takes; what is longer is refused without being looked at.
pub(crate) const MAX_LEN: usize = 0x7fff_ffff;

/// Bytes of the caller's, or of an object of ours that the call names.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_bytes {
    /// May be NULL if `len` is 0.
    pub data: *const u8,
    /// How many there are.
    pub len: usize,
}

/// A name and its value, such as those of a header: UTF-8 texts without a NUL at the end.
#[repr(C)]
#[allow(non_camel_case_types, reason = "C's names")]
#[derive(Clone, Copy, Debug)]
pub struct tidings_pair {
    /// The name.
    pub name: *const c_char,
    /// The name's bytes.
    pub name_len: usize,
    /// The value.
    pub value: *const c_char,
    /// The value's bytes.
    pub value_len: usize,
}

impl tidings_bytes {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() }
    }

    pub(crate) fn of_optional(text: Option<&str>) -> Self {
        text.map_or(Self::NONE, |text| Self::of(text.as_bytes()))
    }

    pub(crate) const NONE: Self = Self { data: std::ptr::null(), len: 0 };
}

/// The caller's bytes.
///
/// # Safety
/// `data` points to `len` bytes that nobody writes during the call, unless it is NULL or `len` is 0.
pub(crate) unsafe fn bytes<'a>(name: &str, data: *const u8, len: usize) -> Result<&'a [u8]> {
    check(name, data.is_null(), len)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: not NULL, shorter than isize::MAX, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// The caller's text.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text<'a>(name: &str, data: *const c_char, len: usize) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    utf8(name, unsafe { bytes(name, data.cast(), len) }?)
}

/// Bytes as the text that they have to be.
pub(crate) fn utf8<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Error::argument(name, format!("must be UTF-8 text, and is not at byte {}", error.valid_up_to()))
    })
}

/// The caller's text, where NULL is none.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn optional_text<'a>(name: &str, data: *const c_char, len: usize) -> Result<Option<&'a str>> {
    if data.is_null() && len == 0 {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { text(name, data, len) }.map(Some)
}

/// The caller's bytes, several.
///
/// # Safety
/// `list` points to `count` elements, and each of them is as [`bytes`] asks.
pub(crate) unsafe fn several<'a>(name: &str, list: *const tidings_bytes, count: usize) -> Result<Vec<&'a [u8]>> {
    // SAFETY: the caller's promise.
    let list = unsafe { array(name, list, count) }?;
    // SAFETY: the caller's promise.
    list.iter().map(|one| unsafe { bytes(name, one.data, one.len) }).collect()
}

/// The caller's texts, several.
///
/// # Safety
/// As [`several`].
pub(crate) unsafe fn texts(name: &str, list: *const tidings_bytes, count: usize) -> Result<Vec<String>> {
    // SAFETY: the caller's promise.
    let list = unsafe { several(name, list, count) }?;
    let text =
        |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Error::argument(name, "must be UTF-8 texts"));
    list.into_iter().map(text).collect()
}

/// What C calls a truth value.
pub(crate) fn flag(name: &str, value: i32) -> Result<bool> {
    flag_of(name, u64::try_from(value).unwrap_or(u64::MAX))
}

/// The same, where all numbers cross as one type.
pub(crate) fn flag_of(name: &str, value: u64) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::argument(name, "must be 1 or 0")),
    }
}

/// The caller's names and values.
///
/// # Safety
/// `list` points to `count` elements, and each of them is as [`text`] asks.
pub(crate) unsafe fn pairs(name: &str, list: *const tidings_pair, count: usize) -> Result<Vec<(String, String)>> {
    // SAFETY: the caller's promise.
    let list = unsafe { array(name, list, count) }?;
    list.iter()
        .map(|pair| {
            // SAFETY: the caller's promise.
            let (key, value) =
                unsafe { (text(name, pair.name, pair.name_len)?, text(name, pair.value, pair.value_len)?) };
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}

/// # Safety
/// `list` points to `count` elements that nobody writes during the call, unless it is NULL or `count` is 0.
unsafe fn array<'a, T>(name: &str, list: *const T, count: usize) -> Result<&'a [T]> {
    check(name, list.is_null(), count.saturating_mul(size_of::<T>()))?;
    if count == 0 {
        return Ok(&[]);
    }
    if !list.is_aligned() {
        return Err(Error::argument(name, "must be aligned as its type is"));
    }
    // SAFETY: not NULL, aligned, shorter than isize::MAX, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

fn check(name: &str, null: bool, len: usize) -> Result<()> {
    if len > MAX_LEN {
        return Err(Error::argument(name, "must be shorter than 2^31 bytes"));
    }
    if null && len > 0 {
        return Err(Error::argument(name, "must not be NULL with a length"));
    }
    Ok(())
}

/// A place of the caller's for a result. It is checked before anything is done, and written once everything is.
pub(crate) struct Out<T> {
    place: *mut T,
}

impl<T> Out<T> {
    /// # Safety
    /// `place` is NULL or points to a `T` that nobody else touches during the call.
    pub(crate) unsafe fn new(name: &str, place: *mut T) -> Result<Self> {
        if place.is_null() {
            return Err(Error::argument(name, "must not be NULL"));
        }
        if !place.is_aligned() {
            return Err(Error::argument(name, "must be aligned as its type is"));
        }
        Ok(Self { place })
    }

    pub(crate) fn set(self, value: T) {
        // SAFETY: it was checked, and the rest was promised, when this was made.
        unsafe { self.place.write(value) }
    }
}

/// Whether a structure can be written there: asked first, where the call does something.
pub(crate) fn check_sized<T>(name: &str, place: *mut T, size: usize) -> Result<()> {
    if place.is_null() {
        return Err(Error::argument(name, "must not be NULL"));
    }
    if size == 0 || size > MAX_LEN {
        return Err(Error::argument("size", "must be the structure's sizeof"));
    }
    Ok(())
}

/// Writes as much of a structure as the caller's version of it has.
///
/// # Safety
/// `place` points to `size` bytes that nobody else touches during the call.
pub(crate) unsafe fn write_sized<T: Copy>(name: &str, place: *mut T, size: usize, value: T) -> Result<()> {
    check_sized(name, place, size)?;
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes are within both, as the caller promises for its own; what the caller's newer structure has
    // beyond ours is zeroed.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place.cast::<u8>(), known);
        std::ptr::write_bytes(place.cast::<u8>().add(known), 0, size - known);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_null() {
        // SAFETY: nothing is followed that is not there.
        unsafe {
            assert_eq!(bytes("x", std::ptr::null(), 0).unwrap(), b"");
            assert!(bytes("x", std::ptr::null(), 1).unwrap_err().to_string().starts_with("x: must not be NULL"));
            for len in [1 << 31, usize::MAX / 2, usize::MAX] {
                let error = bytes("x", std::ptr::dangling(), len).unwrap_err();
                assert!(error.to_string().starts_with("x: must be shorter"), "{error}");
                assert!(several("x", std::ptr::dangling(), len).is_err());
                assert!(pairs("x", std::ptr::dangling(), len).is_err());
            }
            assert_eq!(text("x", c"abc".as_ptr(), 2).unwrap(), "ab");
            let error = text("x", c"a\xff".as_ptr(), 2).unwrap_err();
            assert_eq!(error.to_string(), "x: must be UTF-8 text, and is not at byte 1");
            assert!(optional_text("x", std::ptr::null(), 0).unwrap().is_none());
            assert!(optional_text("x", std::ptr::null(), 3).is_err());
        }
    }

    #[test]
    fn a_structure_of_another_version() {
        let mut old = [7_u32; 4];
        // SAFETY: the array has as many bytes as is said.
        unsafe {
            write_sized("x", old.as_mut_ptr().cast::<[u32; 2]>(), 4, [1, 2]).unwrap();
            assert_eq!(old, [1, 7, 7, 7], "an older one is not written beyond");
            write_sized("x", old.as_mut_ptr().cast::<[u32; 2]>(), 12, [1, 2]).unwrap();
            assert_eq!(old, [1, 2, 0, 7], "a newer one's rest is zero");
            assert!(write_sized("x", std::ptr::null_mut::<u32>(), 4, 1).is_err());
            assert!(write_sized("x", old.as_mut_ptr(), 0, 1).is_err());
        }
    }
}
