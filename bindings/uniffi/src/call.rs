//! Watched calls.

use std::sync::Arc;

use crate::error::TidingsError;

/// A tool call that asks to be watched.
#[derive(Clone, Debug, uniffi::Record)]
pub struct CallRequest {
    /// Who asks.
    pub principal: String,
    /// The tool's name.
    pub tool: String,
    /// The JSON-RPC id of the request, as JSON text: `7` or `"7"`.
    pub request_id: String,
    /// The raw JSON text of `notificationConfig`, if it has one.
    #[uniffi(default = None)]
    pub config: Option<String>,
    /// The route types that this server offers.
    #[uniffi(default = [])]
    pub route_types: Vec<String>,
    /// The MCP session, where there is one.
    #[uniffi(default = None)]
    pub session: Option<String>,
    /// The server's time limit; the config may only lower it.
    #[uniffi(default = None)]
    pub timeout_ms: Option<u64>,
}

/// How a call ended.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Ended {
    /// `completed`, `failed`, `cancelled` or `timeout`.
    pub outcome: String,
    /// Why, where the outcome alone does not say.
    pub reason: Option<String>,
    /// It was this very request to end the call that won.
    pub ours: bool,
    /// The outcome is on disk.
    pub committed: bool,
    /// The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered.
    pub undelivered: Option<String>,
}

impl From<tidings::Ended> for Ended {
    fn from(ended: tidings::Ended) -> Self {
        let tidings::Ended { outcome, reason, ours, committed, undelivered } = ended;
        Self { outcome: outcome.as_str().to_owned(), reason, ours, committed, undelivered }
    }
}

/// One watched call. When the last handle goes and nothing has ended it, it ends as `failed`.
#[derive(uniffi::Object)]
pub struct Call {
    call: tidings::Call,
}

impl Call {
    pub(crate) fn new(call: tidings::Call) -> Arc<Self> {
        Arc::new(Self { call })
    }
}

#[uniffi::export]
impl Call {
    /// Our id of the call.
    pub fn id(&self) -> String {
        self.call.id().to_string()
    }

    /// The params of `notifications/config/acknowledged`, as JSON text.
    pub fn acknowledgement(&self) -> String {
        self.call.acknowledgement()
    }

    /// An event of the tool, with JSON text; answers its number at once.
    pub fn emit(&self, kind: &str, payload: Vec<u8>) -> Result<u64, TidingsError> {
        Ok(self.call.emit(kind, &payload)?)
    }

    /// A vendor's trigger, `com.example/done`, with the JSON text of an object.
    pub fn fire(&self, name: &str, payload: Vec<u8>) -> Result<u64, TidingsError> {
        Ok(self.call.fire(name, &payload)?)
    }

    /// The tool returned this result, as JSON text: `completed`, or `failed` where it says `isError`.
    pub async fn complete(&self, result: Vec<u8>) -> Result<Ended, TidingsError> {
        Ok(self.call.complete(&result).await?.into())
    }

    /// The call failed, with a JSON-RPC error as JSON text where there is one.
    pub async fn fail(&self, error: Option<Vec<u8>>) -> Result<Ended, TidingsError> {
        Ok(self.call.fail(error.as_deref(), None).await?.into())
    }

    /// Somebody cancelled the call.
    pub async fn cancel(&self) -> Result<Ended, TidingsError> {
        Ok(self.call.cancel(None).await?.into())
    }

    /// Waits until the call has ended, whoever ends it.
    pub async fn ended(&self) -> Result<Ended, TidingsError> {
        Ok(self.call.ended().await?.into())
    }
}
