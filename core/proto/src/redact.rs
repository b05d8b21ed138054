//! Taking values out of JSON text, by splicing its bytes: what stays is what it was, byte for byte.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use crate::json;
use crate::json::scan::{Children, ROOT, Tree, space, string_end, unescape, value_end};
use crate::pointer::{Pointer, PointerFault};

/// What stands for a value that was taken out.
pub const REDACTED: &str = "\"[redacted]\"";

/// Which values to take out: places (JSON Pointers, which begin with `/`) and the values of members with a bare name, at
/// every depth.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redaction {
    tree: Tree,
    keys: BTreeSet<Vec<u8>>,
}

/// Why an entry of a list of what to redact is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedactFault {
    /// It names nothing.
    Empty,
    /// It begins with `/` and is no JSON Pointer.
    Pointer(PointerFault),
}

impl core::fmt::Display for RedactFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Empty => f.write_str("must be a JSON Pointer that begins with /, or the name of a member"),
            Self::Pointer(fault) => fault.fmt(f),
        }
    }
}

impl core::error::Error for RedactFault {}

impl Redaction {
    /// Reads a list of pointers and names.
    ///
    /// # Errors
    /// The place in the list of the first entry that is refused, and why.
    pub fn parse<S: AsRef<str>>(entries: impl IntoIterator<Item = S>) -> Result<Self, (usize, RedactFault)> {
        let mut redaction = Self::default();
        for (index, entry) in entries.into_iter().enumerate() {
            redaction.add(entry.as_ref()).map_err(|fault| (index, fault))?;
        }
        Ok(redaction)
    }

    fn add(&mut self, entry: &str) -> Result<(), RedactFault> {
        if entry.is_empty() {
            return Err(RedactFault::Empty);
        }
        if entry.starts_with('/') {
            let pointer = Pointer::parse(entry).map_err(RedactFault::Pointer)?;
            self.tree.add(pointer.tokens());
        } else {
            self.keys.insert(entry.as_bytes().to_vec());
        }
        Ok(())
    }

    /// Whether nothing is taken out.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tree.is_bare()
    }

    /// Takes the values out of a valid JSON text. All members of one name go, not only the one that a parser would keep.
    /// Members of the outermost object whose names are in `keep` stay.
    pub fn apply<'t>(&self, text: &'t str, keep: &[&str]) -> Cow<'t, str> {
        self.apply_below(&[], text, keep)
    }

    /// Takes the values out of bytes that ought to be a JSON text. What cannot be read is taken out whole.
    pub fn apply_bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let text = core::str::from_utf8(bytes).ok().filter(|text| json::check(text).is_ok());
        match text.map(|text| self.apply(text, &[])) {
            Some(Cow::Borrowed(_)) => Cow::Borrowed(bytes),
            Some(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
            None => Cow::Borrowed(REDACTED.as_bytes()),
        }
    }

    /// Like [`apply`](Self::apply), for a text that stands at `place` within the document that the pointers mean.
    pub fn apply_below<'t>(&self, place: &[&str], text: &'t str, keep: &[&str]) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut node = Some(ROOT);
        for name in place {
            let within = self.keys.contains(name.as_bytes());
            node = node.and_then(|node| self.tree.member(node, name.as_bytes()));
            if within || node.is_some_and(|node| self.tree.wants(node)) {
                return Cow::Borrowed(REDACTED);
            }
        }
        let mut search = Search { redaction: self, text, keep, found: Vec::new() };
        search.run(node);
        if search.found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for range in search.found {
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str(REDACTED);
            at = range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(out)
    }
}

/// One pass over a text.
struct Search<'a> {
    redaction: &'a Redaction,
    text: &'a str,
    keep: &'a [&'a str],
    /// What goes, in order; none within another.
    found: Vec<Range<usize>>,
}

/// A container that is being gone through. Below every place that is looked for there is no node, only names.
struct Level {
    node: Option<usize>,
    object: bool,
    index: u64,
}

impl Search<'_> {
    fn run(&mut self, root: Option<usize>) {
        let text = self.text.as_bytes();
        let mut open: Vec<Level> = Vec::new();
        let mut at = self.enter(space(text, 0), root, &mut open);
        while let Some(level) = open.last_mut() {
            at = space(text, at);
            let child = match text.get(at) {
                None => return,
                Some(b',') => {
                    at += 1;
                    continue;
                }
                Some(b'}' | b']') => {
                    at += 1;
                    open.pop();
                    continue;
                }
                Some(_) if !level.object => {
                    let index = level.index;
                    level.index += 1;
                    let child = level.node.and_then(|node| self.redaction.tree.element(node, index));
                    (child, child.is_some_and(|child| self.redaction.tree.wants(child)))
                }
                Some(_) => {
                    let node = level.node;
                    let end = string_end(text, at);
                    let name = unescape(self.text.get(at..end).unwrap_or_default());
                    at = space(text, end);
                    if text.get(at) == Some(&b':') {
                        at = space(text, at + 1);
                    }
                    let child = node.and_then(|node| self.redaction.tree.member(node, &name));
                    let kept = open.len() == 1 && self.keep.iter().any(|keep| keep.as_bytes() == &*name);
                    let wanted = child.is_some_and(|child| self.redaction.tree.wants(child));
                    (child, !kept && (wanted || self.redaction.keys.contains(&*name)))
                }
            };
            at = match child {
                (_, true) => {
                    let end = value_end(text, at);
                    self.found.push(at..end);
                    end.max(at + 1)
                }
                (child, false) => self.enter(at, child, &mut open),
            };
        }
    }

    /// Stands at a value that stays: goes into it where something may be in it, else past it.
    fn enter(&self, at: usize, node: Option<usize>, open: &mut Vec<Level>) -> usize {
        let text = self.text.as_bytes();
        let container = matches!(text.get(at), Some(b'{' | b'['));
        let inside = !self.redaction.keys.is_empty() || node.is_some_and(|node| self.redaction.tree.has_below(node));
        if container && inside {
            open.push(Level { node, object: text.get(at) == Some(&b'{'), index: 0 });
            return at + 1;
        }
        value_end(text, at).max(at + 1)
    }
}

/// Where the value of the outermost object's member of that name stands; the last of several.
pub fn member_range(object: &str, name: &str) -> Option<Range<usize>> {
    let mut children = Children::of(object);
    let mut found = None;
    while let Some((member, range)) = children.next_range() {
        if member.is_some_and(|member| &*unescape(member) == name.as_bytes()) {
            found = Some(range);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn redacted(entries: &[&str], text: &str) -> String {
        Redaction::parse(entries).unwrap().apply(text, &[]).into_owned()
    }

    #[test]
    fn places_and_names_go_and_all_else_stays_as_it_was() {
        for (entries, text, want) in [
            (&["/a"][..], r#"{ "a" : 1.0 , "b":2 }"#, r#"{ "a" : "[redacted]" , "b":2 }"#),
            (&["/a/1"], r#"{"a":[1,{"x":2},3]}"#, r#"{"a":[1,"[redacted]",3]}"#),
            (&["/a/b"], r#"{"a":{"b":1},"b":2}"#, r#"{"a":{"b":"[redacted]"},"b":2}"#),
            (
                &["b"],
                r#"{"a":{"b":1},"b":[2],"c":[{"b":{}}]}"#,
                r#"{"a":{"b":"[redacted]"},"b":"[redacted]","c":[{"b":"[redacted]"}]}"#,
            ),
            (&["/a", "/a/b", "b"], r#"{"a":{"b":1}}"#, r#"{"a":"[redacted]"}"#),
            // Not only the one that a parser keeps.
            (&["/a"], r#"{"a":1,"a":2}"#, r#"{"a":"[redacted]","a":"[redacted]"}"#),
            (&["/a/b"], r#"{"a":{"b":1},"a":{"b":2}}"#, r#"{"a":{"b":"[redacted]"},"a":{"b":"[redacted]"}}"#),
            (&["a/b"], r#"{"\u0061\/b":1,"a":2}"#, r#"{"\u0061\/b":"[redacted]","a":2}"#),
            (&["/a~1b"], r#"{"a/b":1}"#, r#"{"a/b":"[redacted]"}"#),
            (&["0"], r#"{"a":[1],"0":1}"#, r#"{"a":[1],"0":"[redacted]"}"#),
            (&["/x", "x"], r#"{"a":"x"}"#, r#"{"a":"x"}"#),
            (&["x"], "17", "17"),
            (&["/"], r#"{"":1}"#, r#"{"":"[redacted]"}"#),
        ] {
            assert_eq!(redacted(entries, text), want, "{entries:?} {text}");
        }
    }

    #[test]
    fn what_is_kept_is_kept_at_the_top_only() {
        let redaction = Redaction::parse(["route", "/callId"]).unwrap();
        let text = r#"{"callId":"c","route":"r","outcome":{"route":"secret"}}"#;
        let want = r#"{"callId":"c","route":"r","outcome":{"route":"[redacted]"}}"#;
        assert_eq!(redaction.apply(text, &["callId", "route"]), want);
    }

    #[test]
    fn a_text_within_the_document() {
        let redaction = Redaction::parse(["/result/a", "k"]).unwrap();
        assert_eq!(
            redaction.apply_below(&["result"], r#"{"a":1,"k":2}"#, &[]),
            r#"{"a":"[redacted]","k":"[redacted]"}"#
        );
        assert_eq!(redaction.apply_below(&["error"], r#"{"a":1,"k":2}"#, &[]), r#"{"a":1,"k":"[redacted]"}"#);
        assert_eq!(Redaction::parse(["/result"]).unwrap().apply_below(&["result"], "{}", &[]), REDACTED);
        assert_eq!(Redaction::parse(["result"]).unwrap().apply_below(&["result"], "{}", &[]), REDACTED);
    }

    #[test]
    fn bytes_that_cannot_be_read_go_whole() {
        let redaction = Redaction::parse(["k"]).unwrap();
        assert_eq!(&*redaction.apply_bytes(br#"{"k":1}"#), br#"{"k":"[redacted]"}"#);
        assert_eq!(&*redaction.apply_bytes(b"[1.0]"), b"[1.0]");
        for bad in [&b"{\"k\":hunter2"[..], b"\"\xff\"", b"", b"{} {}"] {
            assert_eq!(&*redaction.apply_bytes(bad), REDACTED.as_bytes());
            assert_eq!(&*Redaction::default().apply_bytes(bad), bad);
        }
    }

    #[test]
    fn entries_are_pointers_or_names() {
        assert_eq!(Redaction::parse(["a", ""]), Err((1, RedactFault::Empty)));
        assert_eq!(Redaction::parse(["/~"]), Err((0, RedactFault::Pointer(PointerFault::Tilde))));
        assert!(Redaction::parse::<&str>([]).unwrap().is_empty());
    }

    #[test]
    fn deep_documents_are_no_danger() {
        let deep = format!(r#"{{"a":{}{},"k":1}}"#, "[".repeat(300_000), "]".repeat(300_000));
        assert!(redacted(&["k"], &deep).ends_with(r#""k":"[redacted]"}"#));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(json!(null)), any::<i32>().prop_map(Value::from), "[a-c]{0,2}".prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-c0-1]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn naive(value: &mut Value, keys: &[String]) {
        match value {
            Value::Array(elements) => elements.iter_mut().for_each(|element| naive(element, keys)),
            Value::Object(members) => {
                for (name, value) in members {
                    if keys.contains(name) { *value = json!("[redacted]") } else { naive(value, keys) }
                }
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_walk_over_a_tree(
            value in any_json(),
            pointers in proptest::collection::vec("(/[a-c0-1]){1,3}", 0..3),
            keys in proptest::collection::vec("[a-c0-1]", 0..2),
        ) {
            let text = serde_json::to_string(&value).unwrap();
            let entries: Vec<&String> = pointers.iter().chain(&keys).collect();
            let found: Value = serde_json::from_str(&redacted(
                &entries.iter().map(|entry| entry.as_str()).collect::<Vec<_>>(), &text,
            )).unwrap();
            let mut want = value;
            for pointer in &pointers {
                if let Some(place) = want.pointer_mut(pointer) {
                    *place = json!("[redacted]");
                }
            }
            naive(&mut want, &keys);
            prop_assert_eq!(found, want);
        }

        #[test]
        fn never_panics_on_what_is_no_json(text in r#"[{}\[\]":,\\ \n0-9a-b]{0,60}"#) {
            let _ = redacted(&["/a/0", "b"], &text);
        }
    }
}
