//! Notification frames: encoded once, and made one listener's by splicing its tag in.

use core::ops::Range;
use std::sync::Arc;

use super::filter::Filter;
use super::profile::NoFrame;
use super::protocol::{About, Method, Protocol};
use crate::id::RequestId;
use crate::json::{self, Kind};
use crate::redact::member_range;

/// A JSON-RPC notification, encoded. Clones share it: what is handed out for each of many listeners is one pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame(Arc<Encoded>);

#[derive(Debug, PartialEq, Eq)]
struct Encoded {
    method: &'static str,
    text: Box<str>,
    params: Params,
}

#[derive(Debug, PartialEq, Eq)]
enum Params {
    /// There are none.
    None,
    /// An object without members, at this range of the text.
    Empty(Range<usize>),
    /// An object with members.
    Some(Range<usize>),
    /// One that has a `_meta` of its own, whose closing bracket stands at `end`.
    Meta { all: Range<usize>, end: usize, empty: bool },
}

/// What makes a frame one listener's: `"_meta":{…: id}`, with the id in its own JSON type. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(Arc<str>);

impl Tag {
    /// The tag of the listener that the request of that id opened.
    pub fn new(protocol: &Protocol, id: &RequestId) -> Self {
        let mut out = String::from("{");
        json::push_name(&mut out, protocol.listener_id);
        out.push_str(&id.to_json());
        out.push('}');
        Self(format!("\"_meta\":{out}").into())
    }

    /// The tag as the value of `_meta`.
    pub fn meta(&self) -> &str {
        self.0.get("\"_meta\":".len()..).unwrap_or_default()
    }

    /// The one member of that object.
    fn member(&self) -> &str {
        let meta = self.meta();
        meta.get(1..meta.len().saturating_sub(1)).unwrap_or_default()
    }
}

impl Frame {
    /// A notification that a list has changed: it has no parameters.
    pub fn list(method: &Method) -> Self {
        Self::new(method.name, begin(method.name, "}"), Params::None)
    }

    /// A notification about the thing of that name.
    ///
    /// # Errors
    /// [`NoFrame::NotAsked`] for a method that is not about named things.
    pub fn named(method: &Method, name: &str) -> Result<Self, NoFrame> {
        let About::Named(member) = method.about else { return Err(NoFrame::NotAsked) };
        let mut params = String::from("{");
        json::push_name(&mut params, member);
        json::push_string(&mut params, name);
        params.push('}');
        Ok(Self::with_params(method.name, &params, Params::Some))
    }

    /// A notification whose parameters are that JSON object. It may have a `_meta`, an object, to which a tag is added.
    ///
    /// # Errors
    /// [`NoFrame::NoObject`] when either is none.
    pub fn state(method: &'static str, object: &str) -> Result<Self, NoFrame> {
        let raw = json::check(object).map_err(|_| NoFrame::NoObject)?.get();
        if Kind::of(raw) != Some(Kind::Object) {
            return Err(NoFrame::NoObject);
        }
        // A second `_meta` would hide the first from a reader, who takes the last of two: the tag has to go into it.
        let meta = member_range(raw, "_meta");
        let Some(meta) = meta else {
            return Ok(Self::with_params(method, raw, if is_empty(raw) { Params::Empty } else { Params::Some }));
        };
        let own = raw.get(meta.clone()).filter(|own| Kind::of(own) == Some(Kind::Object)).ok_or(NoFrame::NoObject)?;
        let empty = is_empty(own);
        let with_end = |all: Range<usize>| Params::Meta { end: all.start + meta.end - 1, all, empty };
        Ok(Self::with_params(method, raw, with_end))
    }

    /// The acknowledgement that repeats what of a filter is honoured.
    pub fn acknowledged(protocol: &Protocol, honoured: &Filter) -> Self {
        let mut params = String::from("{");
        json::push_name(&mut params, protocol.acknowledged_member);
        params.push_str(&honoured.to_json(protocol));
        params.push('}');
        Self::with_params(protocol.acknowledged, &params, Params::Some)
    }

    fn with_params(method: &'static str, params: &str, at: impl FnOnce(Range<usize>) -> Params) -> Self {
        let mut text = begin(method, ",\"params\":");
        let start = text.len();
        text.push_str(params);
        let range = start..text.len();
        text.push('}');
        Self::new(method, text, at(range))
    }

    fn new(method: &'static str, text: String, params: Params) -> Self {
        Self(Arc::new(Encoded { method, text: text.into(), params }))
    }

    /// The method.
    pub fn method(&self) -> &'static str {
        self.0.method
    }

    /// The frame for a peer that has no listener ids.
    pub fn plain(&self) -> &str {
        &self.0.text
    }

    /// The frame, with the tag of the listener it is for.
    pub fn tagged(&self, tag: Option<&Tag>) -> String {
        let Some(tag) = tag else { return self.plain().to_owned() };
        let mut out = String::with_capacity(self.plain().len() + tag.0.len() + 16);
        match self.split() {
            (head, None, tail) => {
                out.push_str(head);
                out.push_str(",\"params\":{");
                out.push_str(&tag.0);
                out.push('}');
                out.push_str(tail);
            }
            (head, Some(members), tail) => {
                out.push_str(head);
                self.splice(&mut out, tag, members);
                out.push_str(tail);
            }
        }
        out
    }

    /// The parameters alone, tagged alike; `None`: there are none.
    pub fn params(&self, tag: Option<&Tag>) -> Option<String> {
        match (&self.0.params, tag) {
            (Params::None, None) => None,
            (Params::None, Some(tag)) => Some(format!("{{{}}}", tag.0)),
            (Params::Empty(range) | Params::Some(range) | Params::Meta { all: range, .. }, None) => {
                self.plain().get(range.clone()).map(str::to_owned)
            }
            (_, Some(tag)) => {
                let mut out = String::with_capacity(self.plain().len() + tag.0.len());
                self.splice(&mut out, tag, self.split().1.unwrap_or_default());
                Some(out)
            }
        }
    }

    /// What stands before the parameters, their text from after `{` up to and with `}`, what stands after them.
    fn split(&self) -> (&str, Option<&str>, &str) {
        let all = self.plain();
        match &self.0.params {
            Params::None => (all.get(..all.len() - 1).unwrap_or_default(), None, "}"),
            Params::Empty(range) => (all.get(..range.start).unwrap_or_default(), Some("}"), "}"),
            Params::Some(range) | Params::Meta { all: range, .. } => {
                let inner = all.get(range.start + 1..range.end);
                (all.get(..range.start).unwrap_or_default(), Some(inner.unwrap_or_default()), "}")
            }
        }
    }

    /// Writes the parameters with the tag: `members` is their text from after `{` on.
    fn splice(&self, out: &mut String, tag: &Tag, members: &str) {
        out.push('{');
        if let Params::Meta { all, end, empty } = &self.0.params {
            let (before, after) = members.split_at_checked(end - all.start - 1).unwrap_or((members, ""));
            out.push_str(before);
            // Last, so that it holds against a member of the same name.
            out.push_str(if *empty { "" } else { "," });
            out.push_str(tag.member());
            out.push_str(after);
            return;
        }
        out.push_str(&tag.0);
        if members != "}" {
            out.push(',');
        }
        out.push_str(members);
    }
}

fn is_empty(object: &str) -> bool {
    object.bytes().filter(|byte| !json::is_whitespace(*byte)).count() == 2
}

fn begin(method: &str, rest: &str) -> String {
    let mut out = String::from(r#"{"jsonrpc":"2.0","method":"#);
    json::push_string(&mut out, method);
    out.push_str(rest);
    out
}
