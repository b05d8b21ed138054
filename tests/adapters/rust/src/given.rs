//! Reading the members of a question.

use serde_json::Value;

/// What is given to an operation.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a>(pub(crate) &'a Value);

impl<'a> Given<'a> {
    pub(crate) fn has(self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    pub(crate) fn at(self, name: &str) -> Given<'a> {
        Given(&self.0[name])
    }

    fn want<T>(self, name: &str, what: &str, value: Option<T>) -> Result<T, String> {
        value.ok_or_else(|| format!("{name}: {what} is wanted, not {}", self.0[name]))
    }

    pub(crate) fn text(self, name: &str) -> Result<&'a str, String> {
        self.want(name, "a text", self.0[name].as_str())
    }

    pub(crate) fn maybe_text(self, name: &str) -> Result<Option<&'a str>, String> {
        if self.has(name) { self.text(name).map(Some) } else { Ok(None) }
    }

    pub(crate) fn int(self, name: &str) -> Result<i64, String> {
        self.want(name, "an integer", self.0[name].as_i64())
    }

    /// An integer of any narrower type.
    pub(crate) fn num<T: TryFrom<i64>>(self, name: &str) -> Result<T, String> {
        let value = self.int(name)?;
        self.want(name, "an integer in range", T::try_from(value).ok())
    }

    pub(crate) fn maybe_num<T: TryFrom<i64>>(self, name: &str) -> Result<Option<T>, String> {
        if self.has(name) { self.num(name).map(Some) } else { Ok(None) }
    }

    pub(crate) fn bool(self, name: &str) -> Result<bool, String> {
        self.want(name, "true or false", self.0[name].as_bool())
    }

    pub(crate) fn list(self, name: &str) -> Result<&'a [Value], String> {
        self.want(name, "a list", self.0[name].as_array().map(Vec::as_slice))
    }

    pub(crate) fn texts(self, name: &str) -> Result<Vec<&'a str>, String> {
        self.list(name)?.iter().map(|value| value.as_str().ok_or_else(|| format!("{name}: texts are wanted"))).collect()
    }

    /// Pairs of texts.
    pub(crate) fn pairs(self, name: &str) -> Result<Vec<(&'a str, &'a str)>, String> {
        let pair = |value: &'a Value| Some((value.get(0)?.as_str()?, value.get(1)?.as_str()?));
        self.list(name)?.iter().map(|value| pair(value).ok_or_else(|| format!("{name}: pairs are wanted"))).collect()
    }

    /// A text, or `{"hex"}` where the bytes are no UTF-8.
    pub(crate) fn bytes(self, name: &str) -> Result<Vec<u8>, String> {
        match self.0[name].as_str() {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => from_hex(self.at(name).text("hex")?),
        }
    }

    /// 16 bytes in hexadecimal.
    pub(crate) fn id(self, name: &str) -> Result<[u8; 16], String> {
        from_hex(self.text(name)?)?.try_into().map_err(|_| format!("{name}: 32 hexadecimal digits are wanted"))
    }

    /// 64 bits in hexadecimal.
    pub(crate) fn random(self, name: &str) -> Result<u64, String> {
        u64::from_str_radix(self.text(name)?, 16).map_err(|error| format!("{name}: {error}"))
    }
}

/// The bytes that [`to_hex`] wrote.
pub(crate) fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map(|at| digits(at).ok_or_else(|| format!("not hexadecimal: {text}"))).collect()
}

/// Bytes in hexadecimal.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The most that every language's JSON number holds exactly.
pub(crate) fn clip(value: u64) -> u64 {
    value.min((1 << 53) - 1)
}
