//! JSON Pointer (RFC 6901).

use core::fmt;

/// A place in a JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    text: String,
    tokens: Vec<Vec<u8>>,
}

/// Text that is no JSON Pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerFault {
    /// It is not empty and does not begin with `/`.
    NoSlash,
    /// `~` stands before something else than `0` or `1`.
    Tilde,
}

impl fmt::Display for PointerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlash => "must be a JSON Pointer (RFC 6901): empty, or beginning with /",
            Self::Tilde => "must be a JSON Pointer (RFC 6901): ~ is written ~0 and / within a name ~1",
        })
    }
}

impl core::error::Error for PointerFault {}

impl Pointer {
    /// Reads a pointer. The empty text points to the whole document.
    ///
    /// # Errors
    /// [`PointerFault`]
    pub fn parse(text: &str) -> Result<Self, PointerFault> {
        let mut tokens = Vec::new();
        if !text.is_empty() {
            let rest = text.strip_prefix('/').ok_or(PointerFault::NoSlash)?;
            for part in rest.split('/') {
                tokens.push(token(part)?);
            }
        }
        Ok(Self { text: text.to_owned(), tokens })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn tokens(&self) -> &[Vec<u8>] {
        &self.tokens
    }
}

/// What a reference token stands for (RFC 6901 section 4).
fn token(part: &str) -> Result<Vec<u8>, PointerFault> {
    let mut out = Vec::with_capacity(part.len());
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'~' => match bytes.next() {
                Some(b'0') => b'~',
                Some(b'1') => b'/',
                _ => return Err(PointerFault::Tilde),
            },
            byte => byte,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::scan::Tree;
    use proptest::prelude::*;
    use serde_json::Value;

    fn at<'a>(text: &'a str, pointer: &str) -> Option<&'a str> {
        let mut tree = Tree::default();
        let node = tree.add(Pointer::parse(pointer).unwrap().tokens());
        tree.locate(text).at(node).map(|range| &text[range])
    }

    /// RFC 6901 section 5, its own examples.
    #[test]
    fn the_examples_of_the_rfc() {
        let text = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}"#;
        for (pointer, want) in [
            ("", text),
            ("/foo", r#"["bar", "baz"]"#),
            ("/foo/0", r#""bar""#),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ] {
            assert_eq!(at(text, pointer), Some(want), "{pointer}");
        }
        assert_eq!(Pointer::parse("a"), Err(PointerFault::NoSlash));
        for bad in ["/~", "/~2", "/a~/b", "/~~"] {
            assert_eq!(Pointer::parse(bad), Err(PointerFault::Tilde), "{bad}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for (text, pointer, want) in [
            (r#"{"a":[10,[20]]}"#, "/a/1/0", Some("20")),
            (r#"{"a":[10]}"#, "/a/1", None),
            (r#"{"a":[10]}"#, "/a/00", None),
            (r#"{"a":[10]}"#, "/a/-", None),
            (r#"{"a":{"00":1,"0":2}}"#, "/a/00", Some("1")),
            (r#"{"a":1}"#, "/a/b", None),
            (r#"{"a":1}"#, "/b", None),
            ("1", "/a", None),
            ("  [ 1 , { \"x\" : \"]\" } ]  ", "/1/x", Some("\"]\"")),
            // The last of several counts, with all below it.
            (r#"{"a":{"b":1},"a":{"c":2}}"#, "/a/b", None),
            (r#"{"a":{"b":1},"a":3}"#, "/a/b", None),
            (r#"{"a":3,"a":{"b":1}}"#, "/a/b", Some("1")),
            (r#"{"a":{"b":1,"b":2}}"#, "/a/b", Some("2")),
            (r#"{"\u0061\u002fb":1}"#, "/a~1b", Some("1")),
            ("{}", "/", None),
            ("[]", "/0", None),
        ] {
            assert_eq!(at(text, pointer), want, "{text} {pointer}");
        }
    }

    #[test]
    fn many_places_are_found_in_one_pass() {
        let text = r#"{"a":{"b":[1,{"c":2}],"d":3},"e":4}"#;
        let mut tree = Tree::default();
        let nodes = ["/a/b/1/c", "/a/b", "/a", "", "/e", "/a/x"].map(|p| tree.add(Pointer::parse(p).unwrap().tokens()));
        let located = tree.locate(text);
        let found = nodes.map(|node| located.at(node).map(|range| &text[range]));
        let all = r#"{"b":[1,{"c":2}],"d":3}"#;
        assert_eq!(found, [Some("2"), Some(r#"[1,{"c":2}]"#), Some(all), Some(text), Some("4"), None]);
    }

    #[test]
    fn deep_documents_are_no_danger() {
        let deep = format!(r#"{{"a":{}{},"b":1}}"#, "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(at(&deep, "/b"), Some("1"));
        assert_eq!(at(&deep, "/a/0/0/0/0/1"), None);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c/~ \"\\\\é]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-b0-2/~é]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// serde_json's own pointer walks a tree.
        #[test]
        fn agrees_with_a_walk_over_a_tree(
            value in any_json(), pointer in "(/([a-b0-2é]|~0|~1){0,2}){0,4}", pretty in any::<bool>(),
        ) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let found = at(&text, &pointer).map(|raw| serde_json::from_str::<Value>(raw).unwrap());
            prop_assert_eq!(found.as_ref(), value.pointer(&pointer));
        }

        #[test]
        fn never_panics_on_what_is_no_json(text in r#"[{}\[\]":,\\ \n0-9a-b]{0,60}"#, pointer in "(/[a-b0-2]{0,2}){0,4}") {
            let _ = at(&text, &pointer);
        }
    }
}
