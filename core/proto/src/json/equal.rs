//! Whether two JSON values are the same value.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::scan::{Children, unescape};
use super::{Kind, number};

/// Whether `value` is the same value as `want`: numbers by their exact value, strings by what they stand for, objects
/// without regard to order and with the last of several members of one name. Both are valid JSON.
///
/// Goes as deep as `want` does at most, and takes time linear in `value` at each of its levels.
pub(crate) fn equal(value: &str, want: &str) -> bool {
    let (value, want) = (value.trim(), want.trim());
    match (Kind::of(value), Kind::of(want)) {
        (Some(left), Some(right)) if left == right => match left {
            Kind::Null | Kind::Boolean => value == want,
            Kind::Number => number::compare(value, want) == Ordering::Equal,
            Kind::String => unescape(value) == unescape(want),
            Kind::Array => same_elements(value, want),
            Kind::Object => same_members(value, want),
        },
        _ => false,
    }
}

fn same_elements(value: &str, want: &str) -> bool {
    let (mut value, mut want) = (Children::of(value), Children::of(want));
    loop {
        match (value.next(), want.next()) {
            (None, None) => return true,
            (Some((_, value)), Some((_, want))) if equal(value, want) => {}
            _ => return false,
        }
    }
}

fn same_members(value: &str, want: &str) -> bool {
    let mut wanted: BTreeMap<_, (&str, Option<&str>)> = BTreeMap::new();
    for (name, want) in Children::of(want) {
        wanted.insert(unescape(name.unwrap_or_default()), (want, None));
    }
    for (name, value) in Children::of(value) {
        match wanted.get_mut(&*unescape(name.unwrap_or_default())) {
            Some((_, found)) => *found = Some(value),
            None => return false,
        }
    }
    wanted.values().all(|(want, found)| found.is_some_and(|value| equal(value, want)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_may_be_written_in_many_ways() {
        for (left, right, want) in [
            ("null", " null ", true),
            ("true", "false", false),
            ("1.0", "1", true),
            ("1", "\"1\"", false),
            (r#""\u0061\/""#, r#""a/""#, true),
            (r#""\ud83d\ude00""#, "\"😀\"", true),
            (r#""\ud800""#, r#""\uD800""#, true),
            (r#""\ud800""#, r#""\ud801""#, false),
            ("[1, 2]", "[1,2.0]", true),
            ("[1,2]", "[2,1]", false),
            ("[1]", "[1,2]", false),
            ("[]", "{}", false),
            (r#"{"a":1,"b":[]}"#, r#"{"b":[ ],"a":1e0}"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false),
            (r#"{"a":2,"a":1}"#, r#"{"a":1}"#, true),
            (r#"{"\u0061":1}"#, r#"{"a":1}"#, true),
            (r#"{"a":null}"#, "{}", false),
        ] {
            assert_eq!(equal(left, right), want, "{left} {right}");
            assert_eq!(equal(right, left), want, "{right} {left}");
        }
    }
}
