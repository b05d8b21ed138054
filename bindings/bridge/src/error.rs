//! The one error table: names, numbers and retryability for every language.

use std::fmt;

pub use tidings::ErrorCode;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRow {
    /// The code.
    pub code: ErrorCode,
    /// Its name, the same in every language.
    pub name: &'static str,
    /// Its number in C; 0 is success.
    pub number: u32,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// The table, in the order of the numbers.
pub fn error_table() -> impl Iterator<Item = ErrorRow> {
    (1..).zip(ErrorCode::ALL).map(|(number, code)| ErrorRow {
        code,
        name: code.as_str(),
        number,
        retryable: code.retryable(),
    })
}

/// One broken rule of a notificationConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// JSON Pointer into the config.
    pub path: String,
    /// The rule's stable name.
    pub rule: String,
    /// What is wrong, for people.
    pub message: String,
}

/// The broken rules of a notificationConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The first of them.
    pub listed: Vec<Fault>,
    /// How many there are.
    pub total: usize,
    /// The `data` of the JSON-RPC error (-32602), as JSON text.
    pub data_json: String,
}

/// An error on its way to a host: plain data, so that it may cross threads; the host makes its own exception of it.
#[derive(Clone, Debug)]
pub struct Error {
    code: ErrorCode,
    message: String,
    faults: Option<Box<Faults>>,
}

/// Results of the bridge.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of that code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), faults: None }
    }

    /// An argument breaks a rule.
    pub fn argument(name: &str, rule: impl fmt::Display) -> Self {
        Self::new(ErrorCode::InvalidArgument, format!("{name}: {rule}"))
    }

    /// The object belongs to the process that was forked.
    pub fn forked() -> Self {
        Self::new(ErrorCode::Forked, "this object belongs to the parent process; make a new one after the fork")
    }

    /// What went wrong.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The broken rules, for [`ErrorCode::InvalidConfig`].
    pub fn faults(&self) -> Option<&Faults> {
        self.faults.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<tidings::Error> for Error {
    fn from(error: tidings::Error) -> Self {
        let faults = error.faults().map(|faults| {
            let listed = faults.listed().iter().map(|fault| Fault {
                path: fault.path.to_string(),
                rule: fault.rule.to_string(),
                message: fault.message.to_string(),
            });
            Box::new(Faults { listed: listed.collect(), total: faults.total(), data_json: faults.to_json() })
        });
        Self { code: error.code(), message: error.to_string(), faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_after_success_and_names_differ() {
        let rows: Vec<_> = error_table().collect();
        assert_eq!(rows.len(), ErrorCode::ALL.len());
        assert_eq!((rows[0].number, rows[0].name), (1, "invalid_argument"));
        let names: std::collections::BTreeSet<_> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), rows.len());
        let retryable: Vec<_> = rows.iter().filter(|row| row.retryable).map(|row| row.name).collect();
        assert_eq!(retryable, ["congested", "unavailable", "timeout"]);
    }
}
