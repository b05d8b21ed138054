//! Finding places in text that is known to be valid JSON, without recursion and without a tree.
//!
//! Text that is not valid JSON gives ranges without meaning; nothing here panics or runs on for ever.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::DeserializeSeed;

use super::{Name, is_whitespace};

/// The first place at or after `at` that holds no whitespace.
pub(crate) fn space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|byte| is_whitespace(*byte)) {
        at += 1;
    }
    at
}

/// The place after the string whose opening quote stands at `at`.
pub(crate) fn string_end(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// The place after the value that begins at `at`.
pub(crate) fn value_end(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            byte if is_whitespace(*byte) || matches!(byte, b',' | b':') => {
                at += 1;
                continue;
            }
            _ => {
                let ends = |byte: &u8| is_whitespace(*byte) || matches!(byte, b',' | b'}' | b']');
                let rest = text.get(at..).unwrap_or_default();
                at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
        if depth == 0 {
            break;
        }
    }
    at.min(text.len())
}

/// What a string stands for, as bytes: a JSON string may hold lone surrogates, which no `str` can. `raw` has its quotes.
pub(crate) fn unescape(raw: &str) -> Cow<'_, [u8]> {
    let inner = raw.as_bytes().get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains(&b'\\') {
        return Cow::Borrowed(inner);
    }
    let mut reader = serde_json::Deserializer::from_str(raw);
    Cow::Owned(Name.deserialize(&mut reader).unwrap_or_default())
}

/// The members of an object or the elements of an array, one after the other; a name is `None` in an array.
pub(crate) struct Children<'a> {
    text: &'a str,
    at: usize,
    object: bool,
}

impl<'a> Children<'a> {
    /// Those of the value that is the whole of `text`; of a scalar there are none.
    pub(crate) fn of(text: &'a str) -> Self {
        let start = space(text.as_bytes(), 0);
        let object = text.as_bytes().get(start) == Some(&b'{');
        let container = object || text.as_bytes().get(start) == Some(&b'[');
        Self { text, at: if container { start + 1 } else { text.len() }, object }
    }

    /// The next one: its name with the quotes, and where its value stands.
    pub(crate) fn next_range(&mut self) -> Option<(Option<&'a str>, Range<usize>)> {
        let text = self.text.as_bytes();
        let mut at = space(text, self.at);
        if text.get(at) == Some(&b',') {
            at = space(text, at + 1);
        }
        if matches!(text.get(at)?, b'}' | b']') {
            self.at = text.len();
            return None;
        }
        let mut name = None;
        if self.object {
            let end = string_end(text, at);
            name = self.text.get(at..end);
            at = space(text, end);
            if text.get(at) == Some(&b':') {
                at = space(text, at + 1);
            }
        }
        let end = value_end(text, at);
        // Progress, whatever the text.
        self.at = end.max(at + 1);
        Some((name, at..end))
    }
}

impl<'a> Iterator for Children<'a> {
    type Item = (Option<&'a str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.text;
        let (name, range) = self.next_range()?;
        Some((name, text.get(range).unwrap_or_default()))
    }
}

/// Places in a document that are looked for all at once, in one pass over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    nodes: Vec<TreeNode>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TreeNode {
    parent: usize,
    members: BTreeMap<Vec<u8>, usize>,
    /// Those of the names that are an array's index too (RFC 6901 section 4: digits without a leading zero).
    elements: BTreeMap<u64, usize>,
    /// Somebody looks for this place itself.
    wanted: bool,
}

impl TreeNode {
    fn is_leaf(&self) -> bool {
        self.members.is_empty()
    }
}

/// The node of the whole document.
pub(crate) const ROOT: usize = 0;

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: vec![TreeNode::default()] }
    }
}

impl Tree {
    /// Adds a place and answers its node.
    pub(crate) fn add(&mut self, tokens: &[Vec<u8>]) -> usize {
        let mut node = ROOT;
        for token in tokens {
            node = match self.member(node, token) {
                Some(child) => child,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(TreeNode { parent: node, ..TreeNode::default() });
                    if let Some(parent) = self.nodes.get_mut(node) {
                        parent.members.insert(token.clone(), child);
                        if let Some(index) = array_index(token) {
                            parent.elements.insert(index, child);
                        }
                    }
                    child
                }
            };
        }
        if let Some(found) = self.nodes.get_mut(node) {
            found.wanted = true;
        }
        node
    }

    /// Whether somebody looks for this very place.
    pub(crate) fn wants(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| node.wanted)
    }

    /// The node of a member, if something at or below it is looked for.
    pub(crate) fn member(&self, node: usize, name: &[u8]) -> Option<usize> {
        self.nodes.get(node)?.members.get(name).copied()
    }

    /// The node of an element, if something at or below it is looked for.
    pub(crate) fn element(&self, node: usize, index: u64) -> Option<usize> {
        self.nodes.get(node)?.elements.get(&index).copied()
    }

    /// Whether something below the node is looked for.
    pub(crate) fn has_below(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| !node.is_leaf())
    }

    /// Whether nothing is looked for.
    pub(crate) fn is_bare(&self) -> bool {
        self.nodes.iter().all(|node| !node.wanted)
    }

    /// The node of a place, if it or something below it is looked for.
    pub(crate) fn find(&self, tokens: &[Vec<u8>]) -> Option<usize> {
        tokens.iter().try_fold(ROOT, |node, token| self.member(node, token))
    }

    /// Where each wanted place stands in `text`, by node. Of members of the same name the last one counts, as in the
    /// JSON parsers that clients use.
    pub(crate) fn locate(&self, text: &str) -> Located {
        let mut last: Vec<Option<Range<usize>>> = vec![None; self.nodes.len()];
        let mut open: Vec<Frame> = Vec::new();
        let bytes = text.as_bytes();
        let mut at = self.enter(bytes, space(bytes, 0), ROOT, &mut open, &mut last);
        while let Some(frame) = open.last_mut() {
            at = space(bytes, at);
            let child = match bytes.get(at) {
                None => break,
                Some(b',') => {
                    at += 1;
                    continue;
                }
                Some(b'}' | b']') => {
                    at += 1;
                    if let Some(frame) = open.pop() {
                        put(&mut last, frame.node, frame.start..at);
                    }
                    continue;
                }
                Some(_) => frame.child(self, text, &mut at),
            };
            at = match child {
                Some(child) => self.enter(bytes, at, child, &mut open, &mut last),
                None => value_end(bytes, at).max(at + 1),
            };
        }
        self.settle(last)
    }

    /// Stands at the value of `node`: goes into it where something below is looked for, else past it.
    fn enter(
        &self,
        text: &[u8],
        at: usize,
        node: usize,
        open: &mut Vec<Frame>,
        last: &mut [Option<Range<usize>>],
    ) -> usize {
        let container = matches!(text.get(at), Some(b'{' | b'['));
        if container && self.has_below(node) {
            open.push(Frame { node, start: at, object: text.get(at) == Some(&b'{'), index: 0 });
            return at + 1;
        }
        let end = value_end(text, at);
        put(last, node, at..end);
        end.max(at + 1)
    }

    /// Drops what was found below a member that another one of the same name came after.
    fn settle(&self, last: Vec<Option<Range<usize>>>) -> Located {
        let mut found: Vec<Option<Range<usize>>> = Vec::with_capacity(last.len());
        // A parent comes before its children.
        for (node, range) in last.into_iter().enumerate() {
            let parent = self.nodes.get(node).map_or(ROOT, |node| node.parent);
            let inside = |range: &Range<usize>| {
                node == ROOT
                    || found
                        .get(parent)
                        .and_then(Option::as_ref)
                        .is_some_and(|parent: &Range<usize>| parent.start <= range.start && range.end <= parent.end)
            };
            let range = range.filter(inside);
            found.push(range);
        }
        Located(found)
    }
}

fn put(last: &mut [Option<Range<usize>>], node: usize, range: Range<usize>) {
    if let Some(place) = last.get_mut(node) {
        *place = Some(range);
    }
}

/// An array's index as RFC 6901 section 4 writes it.
fn array_index(token: &[u8]) -> Option<u64> {
    let digits = !token.is_empty() && token.iter().all(u8::is_ascii_digit);
    if !digits || (token.len() > 1 && token.starts_with(b"0")) {
        return None;
    }
    core::str::from_utf8(token).ok()?.parse().ok()
}

/// A container that is being gone through.
struct Frame {
    node: usize,
    start: usize,
    object: bool,
    index: u64,
}

impl Frame {
    /// Reads up to the next value; answers its node if something at or below it is looked for.
    fn child(&mut self, tree: &Tree, text: &str, at: &mut usize) -> Option<usize> {
        let node = tree.nodes.get(self.node)?;
        if !self.object {
            let index = self.index;
            self.index += 1;
            return node.elements.get(&index).copied();
        }
        let bytes = text.as_bytes();
        let end = string_end(bytes, *at);
        let name = text.get(*at..end).unwrap_or_default();
        *at = space(bytes, end);
        if bytes.get(*at) == Some(&b':') {
            *at = space(bytes, *at + 1);
        }
        node.members.get(&*unescape(name)).copied()
    }
}

/// Where places stand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Located(Vec<Option<Range<usize>>>);

impl Located {
    /// Where the node's value stands, if it is there.
    pub(crate) fn at(&self, node: usize) -> Option<Range<usize>> {
        self.0.get(node).cloned().flatten()
    }
}
