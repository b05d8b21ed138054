//! Conditions over what a firing is about: an AND-list of comparisons, without loops and without a language.
//!
//! All the places that a config's conditions look at are found in one pass over the document, whose size thereby counts
//! once, however many conditions there are. Nothing is turned into a tree, and numbers are compared by their exact value.

use std::cmp::Ordering;

use crate::json::scan::{Children, Located, Tree, unescape};
use crate::json::{self, Kind};
use crate::pointer::Pointer;

/// One comparison of the value at a place.
///
/// A place that is not in the document has no value: then only `exists: false` and `ne` hold, as in RFC 9535 (JSONPath),
/// where nothing differs from every value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Where.
    pub path: Pointer,
    /// What has to hold there.
    pub test: Test,
}

/// What has to hold of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Test {
    /// There is a value, or there is none.
    Exists(bool),
    /// A comparison with the JSON text of a value.
    Compare(Operator, String),
}

/// How a value is compared with the operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// They are the same JSON value.
    Eq,
    /// They are not, or there is no value.
    Ne,
    /// It is the same as one of the operand's elements.
    In,
    /// Less: both are numbers, or both are texts (then by code points).
    Lt,
    /// Less or the same.
    Le,
    /// Greater.
    Gt,
    /// Greater or the same.
    Ge,
    /// A text that begins with the operand, a text.
    Prefix,
    /// A text that holds the operand, a text; or an array with an element that is the same as the operand.
    Contains,
}

impl Operator {
    /// Every operator with an operand.
    pub const ALL: [Operator; 9] = [
        Operator::Eq,
        Operator::Ne,
        Operator::In,
        Operator::Lt,
        Operator::Le,
        Operator::Gt,
        Operator::Ge,
        Operator::Prefix,
        Operator::Contains,
    ];

    /// The operator's name in a config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Operator::Eq => "eq",
            Operator::Ne => "ne",
            Operator::In => "in",
            Operator::Lt => "lt",
            Operator::Le => "le",
            Operator::Gt => "gt",
            Operator::Ge => "ge",
            Operator::Prefix => "prefix",
            Operator::Contains => "contains",
        }
    }

    /// The JSON types that an operand may have, with a word for them; `None` where any value will do.
    pub(crate) const fn operand_kinds(self) -> Option<(&'static str, &'static [Kind])> {
        match self {
            Operator::Eq | Operator::Ne | Operator::Contains => None,
            Operator::In => Some(("an array", &[Kind::Array])),
            Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge => {
                Some(("a number or a string", &[Kind::Number, Kind::String]))
            }
            Operator::Prefix => Some(("a string", &[Kind::String])),
        }
    }

    fn holds(self, value: &str, operand: &str) -> bool {
        let kind = Kind::of(value);
        match self {
            Operator::Eq => json::equal(value, operand),
            Operator::Ne => !json::equal(value, operand),
            Operator::In => Children::of(operand).any(|(_, one)| json::equal(value, one)),
            Operator::Lt => order(value, operand).is_some_and(Ordering::is_lt),
            Operator::Le => order(value, operand).is_some_and(Ordering::is_le),
            Operator::Gt => order(value, operand).is_some_and(Ordering::is_gt),
            Operator::Ge => order(value, operand).is_some_and(Ordering::is_ge),
            Operator::Prefix => kind == Some(Kind::String) && unescape(value).starts_with(&unescape(operand)),
            Operator::Contains => match (kind, Kind::of(operand)) {
                (Some(Kind::String), Some(Kind::String)) => holds_text(&unescape(value), &unescape(operand)),
                (Some(Kind::Array), _) => Children::of(value).any(|(_, element)| json::equal(element, operand)),
                _ => false,
            },
        }
    }
}

/// The order of two numbers, or of two texts; there is none of anything else.
fn order(value: &str, operand: &str) -> Option<Ordering> {
    match (Kind::of(value)?, Kind::of(operand)?) {
        (Kind::Number, Kind::Number) => Some(json::compare(value, operand)),
        // UTF-8 sorts by code points.
        (Kind::String, Kind::String) => Some(unescape(value).cmp(&unescape(operand))),
        _ => None,
    }
}

/// Whether `text` holds `part`, in linear time.
fn holds_text(text: &[u8], part: &[u8]) -> bool {
    match (core::str::from_utf8(text), core::str::from_utf8(part)) {
        (Ok(text), Ok(part)) => text.contains(part),
        // Lone surrogates: each byte stands for itself, so that the search of the standard library can be had.
        _ => {
            let letters = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
            letters(text).contains(&letters(part))
        }
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        match (&self.test, value) {
            (Test::Exists(want), value) => value.is_some() == *want,
            (Test::Compare(operator, operand), Some(value)) => operator.holds(value, operand),
            (Test::Compare(operator, _), None) => *operator == Operator::Ne,
        }
    }

    pub(crate) fn push_json(&self, out: &mut String) {
        out.push('{');
        json::push_name(out, "path");
        json::push_string(out, self.path.as_str());
        match &self.test {
            Test::Exists(want) => {
                json::push_name(out, "exists");
                out.push_str(if *want { "true" } else { "false" });
            }
            Test::Compare(operator, operand) => {
                json::push_name(out, operator.as_str());
                out.push_str(operand);
            }
        }
        out.push('}');
    }
}

/// A document on which conditions are tried, read once for all of them.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    text: &'a str,
    tree: Tree,
    located: Located,
}

impl<'a> Facts<'a> {
    /// Looks for the places of all `conditions` in a valid JSON text.
    pub(crate) fn of<'c>(text: &'a str, conditions: impl Iterator<Item = &'c Condition>) -> Self {
        let mut tree = Tree::default();
        for condition in conditions {
            tree.add(condition.path.tokens());
        }
        // Nothing is looked for, so the document need not be gone through.
        let located = if tree.is_bare() { Located::default() } else { tree.locate(text) };
        Self { text, tree, located }
    }

    /// Whether all of `when` hold. Only for conditions that [`Facts::of`] was told of.
    pub(crate) fn hold(&self, when: &[Condition]) -> bool {
        when.iter().all(|condition| condition.holds(self.value(&condition.path)))
    }

    fn value(&self, path: &Pointer) -> Option<&'a str> {
        let node = self.tree.find(path.tokens())?;
        self.text.get(self.located.at(node)?)
    }
}

/// Whether all conditions hold over one valid JSON text.
pub fn hold(when: &[Condition], document: &str) -> bool {
    Facts::of(document, when.iter()).hold(when)
}

#[cfg(test)]
mod tests;
