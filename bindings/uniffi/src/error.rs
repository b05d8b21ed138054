//! One error, with the codes that every binding has.

use std::fmt;

/// What went wrong.
#[derive(Clone, Debug, uniffi::Error)]
pub enum TidingsError {
    /// The one kind: branch on `code`.
    Failed {
        /// A stable name: `invalid_argument`, `unknown_cursor` …; of a webhook `mismatch` and the like.
        code: String,
        /// For people. Never a payload, a secret or an address.
        detail: String,
        /// The same call may succeed later.
        retryable: bool,
        /// The faults of a `notificationConfig` as JSON text, for `invalid_config`.
        faults: Option<String>,
    },
}

impl TidingsError {
    pub(crate) fn new(code: &str, detail: impl fmt::Display) -> Self {
        Self::Failed { code: code.to_owned(), detail: detail.to_string(), retryable: false, faults: None }
    }

    pub(crate) fn argument(name: &str, rule: impl fmt::Display) -> Self {
        Self::new(tidings::ErrorCode::InvalidArgument.as_str(), format_args!("{name}: {rule}"))
    }
}

impl fmt::Display for TidingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Failed { code, detail, .. } = self;
        write!(f, "{code}: {detail}")
    }
}

impl std::error::Error for TidingsError {}

impl From<tidings::Error> for TidingsError {
    fn from(error: tidings::Error) -> Self {
        Self::Failed {
            code: error.code().as_str().to_owned(),
            detail: error.to_string(),
            retryable: error.retryable(),
            faults: error.faults().map(tidings::proto::config::Faults::to_json),
        }
    }
}
