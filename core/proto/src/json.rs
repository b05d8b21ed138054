//! Reading raw JSON text one level at a time, and writing strings into it.
//!
//! Values stay [`RawValue`] text: nothing is turned into a tree, rounded or written anew.

mod equal;
mod number;
pub(crate) mod scan;

pub(crate) use equal::equal;
pub(crate) use number::compare;

use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The JSON type of a value, as RFC 8259 section 3 names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// The type by its first character; `None` where no JSON value begins so.
    pub(crate) fn of(text: &str) -> Option<Kind> {
        match text.bytes().find(|byte| !is_whitespace(*byte))? {
            b'n' => Some(Kind::Null),
            b't' | b'f' => Some(Kind::Boolean),
            b'-' | b'0'..=b'9' => Some(Kind::Number),
            b'"' => Some(Kind::String),
            b'[' => Some(Kind::Array),
            b'{' => Some(Kind::Object),
            _ => None,
        }
    }

    /// The type with its article, for messages.
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        }
    }
}

/// JSON whitespace, RFC 8259 section 2.
pub(crate) fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// One whole JSON value, checked and otherwise left as it is.
pub(crate) fn check(text: &str) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_str(text)
}

/// How deep arrays and objects nest; counts brackets outside strings, so it also answers for malformed text.
pub(crate) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// An object's members in their order. Names are bytes, because a JSON name may hold a lone surrogate.
pub(crate) fn members(object: &RawValue) -> Result<Vec<(Vec<u8>, &RawValue)>, serde_json::Error> {
    let mut found = Vec::new();
    each_member(object.get(), |name, value| found.push((name.to_vec(), value)))?;
    Ok(found)
}

/// Hands each member of the object in `text` to `visit`, in order, duplicates included.
pub(crate) fn each_member<'a>(text: &'a str, visit: impl FnMut(&[u8], &'a RawValue)) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    Members(visit).deserialize(&mut reader)?;
    reader.end()
}

/// An array's first `keep` elements, and how many it has.
pub(crate) fn elements(array: &RawValue, keep: usize) -> Result<(Vec<&RawValue>, usize), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(array.get());
    let found = Elements(keep).deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

struct Members<F>(F);

impl<'de, F: FnMut(&[u8], &'de RawValue)> DeserializeSeed<'de> for Members<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(&[u8], &'de RawValue)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            (self.0)(&name, map.next_value()?);
        }
        Ok(())
    }
}

struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Vec<u8>, E> {
        Ok(name.to_vec())
    }
}

struct Elements(usize);

impl<'de> DeserializeSeed<'de> for Elements {
    type Value = (Vec<&'de RawValue>, usize);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (mut kept, mut count) = (Vec::new(), 0);
        while kept.len() < self.0 {
            match seq.next_element()? {
                Some(element) => kept.push(element),
                None => return Ok((kept, count)),
            }
            count += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok((kept, count))
    }
}

/// Appends `value` as a JSON string.
pub(crate) fn push_string(out: &mut String, value: &str) {
    out.push_str(&serde_json::to_string(value).expect("a str has no value that JSON cannot write"));
}

/// Appends `"name":`, with a comma before it unless it is the first member of its object.
pub(crate) fn push_name(out: &mut String, name: &str) {
    if !out.ends_with(['{', '[']) {
        out.push(',');
    }
    push_string(out, name);
    out.push(':');
}

/// Appends an array of JSON strings.
pub(crate) fn push_strings<S: AsRef<str>>(out: &mut String, values: impl IntoIterator<Item = S>) {
    out.push('[');
    for (index, value) in values.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_string(out, value.as_ref());
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        for (text, want) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[{"b":1}],"c":[]}"#, 3),
            (r#"["[[[[\"[[["]"#, 1),
            (r#"["\\",[]]"#, 2),
            ("[[[", 3),
            ("]]][", 1),
        ] {
            assert_eq!(depth(text), want, "{text}");
        }
    }

    #[test]
    fn members_keep_order_duplicates_and_raw_values() {
        let object = check(r#"{"a":1.0,"b":9007199254740993,"a":"\ud800","\u0062":null,"\ud800":[]}"#).unwrap();
        let found = members(object).unwrap();
        let raw: Vec<_> = found.iter().map(|(_, value)| value.get()).collect();
        assert_eq!(raw, ["1.0", "9007199254740993", r#""\ud800""#, "null", "[]"]);
        assert_eq!(found[0].0, found[2].0);
        assert_eq!(found[1].0, found[3].0);
    }

    #[test]
    fn elements_count_beyond_what_they_keep() {
        let array = check("[1,[2],3,4]").unwrap();
        let (kept, count) = elements(array, 2).unwrap();
        assert_eq!((kept.len(), kept[1].get(), count), (2, "[2]", 4));
        let (kept, count) = elements(array, 9).unwrap();
        assert_eq!((kept.len(), count), (4, 4));
    }

    #[test]
    fn kinds_by_first_character() {
        for (text, want) in [
            (" null", Some(Kind::Null)),
            ("true", Some(Kind::Boolean)),
            ("-1", Some(Kind::Number)),
            ("\n\"x\"", Some(Kind::String)),
            ("[", Some(Kind::Array)),
            ("{", Some(Kind::Object)),
            ("", None),
            ("x", None),
            ("\u{a0}1", None),
        ] {
            assert_eq!(Kind::of(text), want, "{text:?}");
        }
    }
}
