//! What is said about a running request.

use std::sync::{Mutex, PoisonError};

use napi_derive::napi;
use tidings_bridge as bridge;

use crate::call::request_id;
use crate::convert::{Result, entry};

/// The progress of one request.
#[napi]
pub struct Progress {
    inner: Mutex<bridge::Progress>,
}

/// What becomes of a report.
#[napi(object, object_from_js = false)]
pub struct Report {
    /// The parameters to send, as JSON text.
    pub params: Option<String>,
    /// Why there are none.
    pub why: Option<&'static str>,
}

#[napi]
impl Progress {
    /// For a request that brought that token (JSON text), or none.
    #[napi(constructor)]
    pub fn new(token: Option<String>, min_interval_ms: f64) -> Result<Self> {
        entry("Progress", || {
            let token = token.as_deref().map(request_id).transpose()?;
            let interval = bridge::milliseconds("minIntervalMs", min_interval_ms)?;
            Ok(Self { inner: Mutex::new(bridge::Progress::new(token, interval)) })
        })
    }

    /// The parameters of the notification, or why there is none. `now_ms` only grows.
    #[napi]
    pub fn report(&self, progress: f64, total: Option<f64>, message: Option<String>, now_ms: f64) -> Result<Report> {
        entry("Progress.report", || {
            let now = bridge::milliseconds("nowMs", now_ms)?;
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(match inner.report(progress, total, message.as_deref(), now) {
                Ok(params) => Report { params: Some(params), why: None },
                Err(why) => Report { params: None, why: Some(why) },
            })
        })
    }

    /// The request has its answer.
    #[napi]
    pub fn end(&self) -> Result<()> {
        entry("Progress.end", || {
            self.inner.lock().unwrap_or_else(PoisonError::into_inner).end();
            Ok(())
        })
    }
}

/// Whether a log message of that level is sent.
#[napi]
pub fn log_passes(per_request: bool, asked: Option<String>, level: String) -> Result<bool> {
    entry("logPasses", || bridge::log_passes(per_request, asked.as_deref(), &level))
}
