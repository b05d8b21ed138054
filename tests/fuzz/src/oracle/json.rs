//! JSON (RFC 8259) as a tree, with numbers as they are written and texts as code points, lone surrogates among them.

use super::number;

/// How deep a text may nest to be read here.
const DEEPEST: usize = 64;

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// As it is written.
    Number(String),
    /// Code points; a lone surrogate stands for itself.
    Text(Vec<u32>),
    /// Elements.
    Array(Vec<Value>),
    /// Members in their order, those of one name included.
    Object(Vec<(Vec<u32>, Value)>),
}

/// Code points of a text.
pub fn points(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

impl Value {
    /// Reads a whole text. `None`: it is no JSON, or nests too deep for this reader.
    pub fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        let value = reader.value(0)?;
        reader.space();
        (reader.at == reader.text.len()).then_some(value)
    }

    /// The member of an object: the last of that name, as in the parsers that clients use.
    pub fn member(&self, name: &[u32]) -> Option<&Value> {
        match self {
            Self::Object(members) => members.iter().rev().find(|(member, _)| member == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The value at a JSON Pointer (RFC 6901 section 4).
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |value, token| {
            let token = token.replace("~1", "/").replace("~0", "~");
            match value {
                Value::Array(elements) => {
                    let canonical = token == "0" || !token.starts_with('0');
                    let index = token.bytes().all(|byte| byte.is_ascii_digit()) && canonical;
                    if index { elements.get(token.parse::<usize>().ok()?) } else { None }
                }
                other => other.member(&points(&token)),
            }
        })
    }

    /// Whether both are the same value; `None` where two numbers cannot be compared here.
    pub fn same(&self, other: &Value) -> Option<bool> {
        Some(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Number(left), Self::Number(right)) => number::compare(left, right)?.is_eq(),
            (Self::Text(left), Self::Text(right)) => left == right,
            (Self::Array(left), Self::Array(right)) => {
                if left.len() != right.len() {
                    return Some(false);
                }
                for (left, right) in left.iter().zip(right) {
                    if !left.same(right)? {
                        return Some(false);
                    }
                }
                true
            }
            (Self::Object(left), Self::Object(right)) => {
                if left.iter().any(|(name, _)| other.member(name).is_none()) {
                    return Some(false);
                }
                for (name, _) in right {
                    let (Some(left), Some(right)) = (self.member(name), other.member(name)) else {
                        return Some(false);
                    };
                    if !left.same(right)? {
                        return Some(false);
                    }
                }
                true
            }
            _ => false,
        })
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: &[u8]) -> Option<()> {
        self.text.get(self.at..)?.starts_with(wanted).then(|| self.at += wanted.len())
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        self.space();
        match self.text.get(self.at)? {
            b'n' => self.take(b"null").map(|()| Value::Null),
            b't' => self.take(b"true").map(|()| Value::Bool(true)),
            b'f' => self.take(b"false").map(|()| Value::Bool(false)),
            b'"' => self.string().map(Value::Text),
            b'[' => {
                self.at += 1;
                let mut elements = Vec::new();
                while self.more(b']', elements.is_empty())? {
                    elements.push(self.value(depth + 1)?);
                }
                Some(Value::Array(elements))
            }
            b'{' => {
                self.at += 1;
                let mut members = Vec::new();
                while self.more(b'}', members.is_empty())? {
                    self.space();
                    let name = self.string()?;
                    self.space();
                    self.take(b":")?;
                    members.push((name, self.value(depth + 1)?));
                }
                Some(Value::Object(members))
            }
            _ => self.number(),
        }
    }

    /// Whether another element comes; takes the comma before it, or the end.
    fn more(&mut self, end: u8, first: bool) -> Option<bool> {
        self.space();
        if self.take(&[end]).is_some() {
            return Some(false);
        }
        if !first {
            self.take(b",")?;
        }
        Some(true)
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<Value> {
        let start = self.at;
        let _ = self.take(b"-");
        if self.take(b"0").is_none() {
            self.digits()?;
        }
        if self.take(b".").is_some() {
            self.digits()?;
        }
        if self.take(b"e").or_else(|| self.take(b"E")).is_some() {
            let _ = self.take(b"+").or_else(|| self.take(b"-"));
            self.digits()?;
        }
        let text = self.text.get(start..self.at)?.to_vec();
        String::from_utf8(text).ok().map(Value::Number)
    }

    fn string(&mut self) -> Option<Vec<u32>> {
        self.take(b"\"")?;
        let mut units: Vec<u32> = Vec::new();
        loop {
            let rest = std::str::from_utf8(self.text.get(self.at..)?).ok()?;
            let next = rest.chars().next()?;
            self.at += next.len_utf8();
            match next {
                '"' => return Some(joined(&units)),
                '\\' => {
                    let escape = *self.text.get(self.at)?;
                    self.at += 1;
                    units.push(match escape {
                        b'"' | b'\\' | b'/' => escape.into(),
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => 10,
                        b'r' => 13,
                        b't' => 9,
                        b'u' => {
                            let hex = std::str::from_utf8(self.text.get(self.at..self.at + 4)?).ok()?;
                            self.at += 4;
                            let plain = hex.bytes().all(|digit| digit.is_ascii_hexdigit());
                            plain.then(|| u32::from_str_radix(hex, 16).ok()).flatten()?
                        }
                        _ => return None,
                    });
                }
                next if u32::from(next) < 0x20 => return None,
                next => units.push(next.into()),
            }
        }
    }
}

/// Surrogate pairs as what they stand for.
fn joined(units: &[u32]) -> Vec<u32> {
    let mut points = Vec::with_capacity(units.len());
    let mut at = 0;
    while let Some(unit) = units.get(at) {
        match (unit, units.get(at + 1)) {
            (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                points.push(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
                at += 2;
            }
            _ => {
                points.push(*unit);
                at += 1;
            }
        }
    }
    points
}
