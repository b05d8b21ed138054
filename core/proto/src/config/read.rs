//! Typed reading of raw JSON that notes every fault with its place and goes on.

use core::fmt::Write;
use std::collections::BTreeSet;

use serde_json::value::RawValue;

use super::fault::{Faults, rule};
use crate::json::{self, Kind};

/// The greatest integer that every JSON reader keeps exact, 2^53 - 1.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// A value, the JSON Pointer to it, and what messages call it.
#[derive(Clone)]
pub(super) struct Node<'a> {
    pub(super) path: String,
    pub(super) name: &'static str,
    pub(super) value: &'a RawValue,
}

impl Node<'_> {
    fn kind(&self) -> Option<Kind> {
        Kind::of(self.value.get())
    }
}

/// An object's members, each name once.
pub(super) struct Object<'a> {
    pub(super) path: String,
    pub(super) members: Vec<(Vec<u8>, &'a RawValue)>,
}

impl<'a> Object<'a> {
    pub(super) fn get(&self, name: &'static str) -> Option<Node<'a>> {
        let (_, value) = self.members.iter().find(|(member, _)| member == name.as_bytes())?;
        Some(Node { path: format!("{}/{name}", self.path), name, value })
    }
}

/// Collects the faults found while reading.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) faults: Faults,
}

impl Reader {
    pub(super) fn fault(&mut self, node: &Node<'_>, rule: &'static str, message: impl Into<String>) {
        self.faults.push(node.path.as_str(), rule, message);
    }

    /// The member, or a fault that it is missing.
    pub(super) fn required<'a>(&mut self, object: &Object<'a>, name: &'static str) -> Option<Node<'a>> {
        let found = object.get(name);
        if found.is_none() {
            self.faults.push(object.path.as_str(), rule::MISSING, format!("{name} is required"));
        }
        found
    }

    fn expect(&mut self, node: &Node<'_>, want: Kind) -> Option<()> {
        match node.kind() {
            Some(got) if got == want => Some(()),
            got => {
                let (want, got) = (want.with_article(), got.map_or("no JSON value", Kind::with_article));
                self.fault(node, rule::WRONG_TYPE, format!("{} must be {want}, not {got}", node.name));
                None
            }
        }
    }

    pub(super) fn object<'a>(&mut self, node: &Node<'a>) -> Option<Object<'a>> {
        self.expect(node, Kind::Object)?;
        let Ok(all) = json::members(node.value) else {
            self.malformed(node);
            return None;
        };
        let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
        let mut members = Vec::with_capacity(all.len());
        for (name, value) in all {
            if seen.insert(name.clone()) {
                members.push((name, value));
            } else if twice.insert(name.clone()) {
                let path = member_path(&node.path, &name);
                self.faults.push(path, rule::DUPLICATE_KEY, format!("{} names a member twice", node.name));
            }
        }
        Some(Object { path: node.path.clone(), members })
    }

    /// A list of 1 to `max` elements, each called `element` in messages. A longer list is one fault.
    pub(super) fn list<'a>(&mut self, node: &Node<'a>, element: &'static str, max: usize) -> Option<Vec<Node<'a>>> {
        self.list_from(node, element, 1, max)
    }

    /// A list of `min` (none or one) to `max` elements.
    pub(super) fn list_from<'a>(
        &mut self,
        node: &Node<'a>,
        element: &'static str,
        min: usize,
        max: usize,
    ) -> Option<Vec<Node<'a>>> {
        self.expect(node, Kind::Array)?;
        let Ok((kept, count)) = json::elements(node.value, max) else {
            self.malformed(node);
            return None;
        };
        if count < min {
            self.fault(node, rule::EMPTY, format!("{} must have at least one element", node.name));
            return None;
        }
        if count > max {
            self.fault(node, rule::TOO_MANY, format!("{} has {count} elements, at most {max} are allowed", node.name));
            return None;
        }
        let place = |(index, value)| Node { path: format!("{}/{index}", node.path), name: element, value };
        Some(kept.into_iter().enumerate().map(place).collect())
    }

    pub(super) fn text(&mut self, node: &Node<'_>) -> Option<String> {
        self.expect(node, Kind::String)?;
        let text = serde_json::from_str(node.value.get()).ok();
        if text.is_none() {
            // The whole text was checked to be JSON, so a string can only fail by what its escapes stand for.
            self.fault(node, rule::NOT_UNICODE, format!("{} must not contain a lone surrogate", node.name));
        }
        text
    }

    /// A text of at most `max` characters.
    pub(super) fn short_text(&mut self, node: &Node<'_>, max: usize) -> Option<String> {
        let text = self.text(node)?;
        let count = text.chars().count();
        if count > max {
            let message = format!("{} has {count} characters, at most {max} are allowed", node.name);
            self.fault(node, rule::TOO_LONG, message);
            return None;
        }
        Some(text)
    }

    /// An integer of at least `min`. As in JSON Schema, `1000.0` and `1e3` are integers.
    pub(super) fn integer(&mut self, node: &Node<'_>, min: u64) -> Option<u64> {
        self.integer_within(node, min, MAX_INTEGER)
    }

    /// An integer from `min` to `max`.
    pub(super) fn integer_within(&mut self, node: &Node<'_>, min: u64, max: u64) -> Option<u64> {
        self.expect(node, Kind::Number)?;
        match integer(node.value.get()) {
            Integer::Value(value) if value < min => self.too_small(node, min),
            Integer::Value(value) if value > max => self.too_big(node, max),
            Integer::Value(value) => return Some(value),
            Integer::Negative => self.too_small(node, min),
            Integer::Fraction => {
                self.fault(node, rule::WRONG_TYPE, format!("{} must be an integer", node.name));
            }
            Integer::TooBig => self.too_big(node, max),
        }
        None
    }

    fn too_small(&mut self, node: &Node<'_>, min: u64) {
        self.fault(node, rule::TOO_SMALL, format!("{} must be at least {min}", node.name));
    }

    fn too_big(&mut self, node: &Node<'_>, max: u64) {
        self.fault(node, rule::TOO_BIG, format!("{} must be at most {max}", node.name));
    }

    fn malformed(&mut self, node: &Node<'_>) {
        self.fault(node, rule::MALFORMED_JSON, format!("{} is not valid JSON", node.name));
    }
}

/// The pointer to a member, or to its object when the name is not fit to be shown.
pub(super) fn member_path(object: &str, name: &[u8]) -> String {
    let mut path = String::from(object);
    if name.len() <= 64 && name.iter().all(u8::is_ascii_graphic) {
        path.push('/');
        for byte in name {
            match byte {
                b'~' => path.push_str("~0"),
                b'/' => path.push_str("~1"),
                byte => path.push(char::from(*byte)),
            }
        }
    }
    path
}

/// A client's text for a message: quoted, escaped and not too long.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for (count, character) in text.chars().enumerate() {
        if count == 64 {
            out.push('…');
            break;
        }
        let _ = write!(out, "{}", character.escape_debug());
    }
    out.push('"');
    out
}

#[derive(Debug, PartialEq, Eq)]
enum Integer {
    Value(u64),
    Negative,
    Fraction,
    TooBig,
}

/// The exact value of a valid JSON number, without going through floating point.
fn integer(text: &str) -> Integer {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: String = [whole, fraction].concat();
    let digits = all.trim_start_matches('0').trim_end_matches('0');
    if digits.is_empty() {
        return Integer::Value(0);
    }
    let zeros = (all.len() - all.trim_end_matches('0').len()) as i64;
    // Only an exponent beyond i64 fails to parse here; its sign then decides alone.
    let exponent = exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
    let shift = exponent.saturating_sub(fraction.len() as i64).saturating_add(zeros);
    if shift < 0 {
        return Integer::Fraction;
    }
    if negative {
        return Integer::Negative;
    }
    let value = digits.parse::<u64>().ok().zip(u32::try_from(shift).ok()).and_then(|(digits, shift)| {
        digits.checked_mul(10_u64.checked_pow(shift)?).filter(|value| *value <= MAX_INTEGER)
    });
    value.map_or(Integer::TooBig, Integer::Value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_exact_whatever_their_form() {
        use Integer::*;
        for (text, want) in [
            ("0", Value(0)),
            ("-0", Value(0)),
            ("0.000e5", Value(0)),
            ("0e99999999999999999999", Value(0)),
            ("1000", Value(1000)),
            ("1000.0", Value(1000)),
            ("1e3", Value(1000)),
            ("1E+3", Value(1000)),
            ("1.5e1", Value(15)),
            ("12000e-3", Value(12)),
            ("0.001e3", Value(1)),
            ("9007199254740991", Value(9_007_199_254_740_991)),
            ("9007199254740991.0", Value(9_007_199_254_740_991)),
            ("9007199254740992", TooBig),
            ("18446744073709551616", TooBig),
            ("1e400", TooBig),
            ("1e99999999999999999999", TooBig),
            ("1.5", Fraction),
            ("-1.5", Fraction),
            ("1e-1", Fraction),
            ("1e-99999999999999999999", Fraction),
            ("-1", Negative),
            ("-1e400", Negative),
        ] {
            assert_eq!(integer(text), want, "{text}");
        }
    }

    #[test]
    fn pointers_are_escaped_and_end_before_names_unfit_to_show() {
        assert_eq!(member_path("/a", b"X-Foo"), "/a/X-Foo");
        assert_eq!(member_path("", b"a/b~c"), "/a~1b~0c");
        assert_eq!(member_path("/a", b"x\r\nEvil: 1"), "/a");
        assert_eq!(member_path("/a", &[b'x'; 65]), "/a");
        assert_eq!(member_path("/a", "é".as_bytes()), "/a");
    }

    #[test]
    fn quoted_text_is_escaped_and_bounded() {
        assert_eq!(quoted("a\"\r\n"), r#""a\"\r\n""#);
        assert_eq!(quoted(&"x".repeat(1000)).chars().count(), 64 + 3);
    }

    proptest! {
        #[test]
        fn integer_never_panics(text in "-?(0|[1-9][0-9]{0,30})([.][0-9]{1,30})?([eE][+-]?[0-9]{1,25})?") {
            let _ = integer(&text);
        }

        #[test]
        fn integer_agrees_with_plain_decimal(value in 0..=MAX_INTEGER) {
            prop_assert_eq!(integer(&value.to_string()), Integer::Value(value));
        }
    }
}
