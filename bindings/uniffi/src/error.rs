//! Errors, by the bridge's table.

use std::fmt;

use tidings_bridge::{self as bridge, WebhookError};

/// What went wrong.
#[derive(Clone, Debug, uniffi::Error)]
pub enum TidingsError {
    /// An operation failed.
    Failed {
        /// A name of the error table: `invalid_argument`, `unknown_cursor` …
        code: String,
        /// For people. Never a payload, a secret or an address.
        detail: String,
        /// The same call may succeed later.
        retryable: bool,
    },
    /// A `notificationConfig` is refused, by the table `invalid_config`.
    InvalidConfig {
        /// For people.
        detail: String,
        /// The first broken rules.
        faults: Vec<Fault>,
        /// How many there are.
        total: u64,
        /// The `data` of the JSON-RPC error (-32602), as JSON text.
        data_json: String,
    },
    /// A webhook is not to be trusted, cannot be read, or cannot be signed.
    InvalidWebhook {
        /// A stable name, such as `mismatch`.
        code: String,
        /// For people. Never a secret or part of the body.
        detail: String,
    },
}

/// One broken rule of a `notificationConfig`.
pub type Fault = bridge::Fault;

/// One broken rule of a `notificationConfig`.
#[uniffi::remote(Record)]
pub struct Fault {
    /// JSON Pointer into the config.
    pub path: String,
    /// The rule's stable name.
    pub rule: String,
    /// What is wrong, for people.
    pub message: String,
}

/// A row of the error table.
#[derive(Clone, Debug, PartialEq, Eq, uniffi::Record)]
pub struct ErrorKind {
    /// Its name, the same in every language.
    pub code: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// Every code that an operation can fail with.
#[uniffi::export]
pub fn error_table() -> Vec<ErrorKind> {
    bridge::error_table().map(|row| ErrorKind { code: row.name.to_owned(), retryable: row.retryable }).collect()
}

impl fmt::Display for TidingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { code, detail, .. } | Self::InvalidWebhook { code, detail } => write!(f, "{code}: {detail}"),
            Self::InvalidConfig { detail, .. } => f.write_str(detail),
        }
    }
}

impl std::error::Error for TidingsError {}

impl From<bridge::Error> for TidingsError {
    fn from(error: bridge::Error) -> Self {
        let detail = error.to_string();
        match error.faults() {
            Some(bridge::Faults { listed, total, data_json }) => Self::InvalidConfig {
                detail,
                faults: listed.clone(),
                total: *total as u64,
                data_json: data_json.clone(),
            },
            None => {
                let code = error.code();
                Self::Failed { code: code.as_str().to_owned(), detail, retryable: code.retryable() }
            }
        }
    }
}

impl From<WebhookError> for TidingsError {
    fn from(error: WebhookError) -> Self {
        Self::InvalidWebhook { code: error.code.to_owned(), detail: error.message }
    }
}
