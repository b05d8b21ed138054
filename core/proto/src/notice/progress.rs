//! Progress: only for a token that a running request brought, strictly increasing, over with the request.

use core::fmt;
use std::collections::BTreeSet;

use crate::fanout::Frame;
use crate::id::RequestId;
use crate::json;

const METHOD: &str = "notifications/progress";

/// What an operator may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressRules {
    /// At least so many milliseconds between two reports that are sent; 0 sets no limit. What comes sooner is left out,
    /// which the next report makes good, because each says everything.
    pub min_interval_ms: u64,
}

/// Why a report is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoProgress {
    /// The request brought no token, or one that another running request has.
    NoToken,
    /// `progress` or `total` is NaN or infinite: there is no JSON for it.
    NotFinite,
    /// It does not exceed what was sent before.
    NotIncreasing,
    /// The request has its answer.
    Ended,
    /// It came too soon after the last one.
    TooSoon,
}

impl NoProgress {
    /// The reason as a name that never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::NotFinite => "not_finite",
            Self::NotIncreasing => "not_increasing",
            Self::Ended => "ended",
            Self::TooSoon => "too_soon",
        }
    }
}

impl fmt::Display for NoProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoToken => "progress: the request brought no token of its own",
            Self::NotFinite => "progress: must be a finite number",
            Self::NotIncreasing => "progress: must be more than was reported before",
            Self::Ended => "progress: the request has ended",
            Self::TooSoon => "progress: came too soon after the last report",
        })
    }
}

impl core::error::Error for NoProgress {}

/// The progress of one request. There is no way to report under any token but the request's own.
#[derive(Clone, Debug)]
pub struct Progress {
    token: Option<RequestId>,
    rules: ProgressRules,
    last: Option<f64>,
    sent_at: Option<u64>,
    ended: bool,
}

impl Progress {
    /// For a request that brought that token (string or integer, kept in its type), or none.
    pub fn new(token: Option<RequestId>, rules: ProgressRules) -> Self {
        Self { token, rules, last: None, sent_at: None, ended: false }
    }

    /// The frame of a report at `now_ms` (any clock that does not go back). The one that reaches its total is never too
    /// soon.
    ///
    /// # Errors
    /// Why it must not be sent; nothing changes then.
    pub fn report(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
        now_ms: u64,
    ) -> Result<Frame, NoProgress> {
        if !progress.is_finite() || total.is_some_and(|total| !total.is_finite()) {
            return Err(NoProgress::NotFinite);
        }
        let token = self.token.as_ref().ok_or(NoProgress::NoToken)?;
        if self.ended {
            return Err(NoProgress::Ended);
        }
        if self.last.is_some_and(|last| progress <= last) {
            return Err(NoProgress::NotIncreasing);
        }
        let complete = total.is_some_and(|total| progress >= total);
        let soon = self.sent_at.is_some_and(|at| now_ms.saturating_sub(at) < self.rules.min_interval_ms);
        if soon && !complete {
            return Err(NoProgress::TooSoon);
        }
        let mut params = String::from("{");
        json::push_name(&mut params, "progressToken");
        params.push_str(&token.to_json());
        for (name, value) in [("progress", Some(progress)), ("total", total)] {
            if let Some(value) = value {
                json::push_name(&mut params, name);
                params.push_str(&number(value));
            }
        }
        if let Some(message) = message {
            json::push_name(&mut params, "message");
            json::push_string(&mut params, message);
        }
        params.push('}');
        let frame = Frame::state(METHOD, &params).map_err(|_| NoProgress::NotFinite)?;
        self.last = Some(progress);
        self.sent_at = Some(now_ms);
        Ok(frame)
    }

    /// The request has its answer: nothing more is reported.
    pub fn end(&mut self) {
        self.ended = true;
    }
}

/// A whole number as such, as most clients write it.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 9.0e15 { format!("{value:.0}") } else { format!("{value:?}") }
}

/// The tokens of one peer's running requests. A token is free again when its request has ended.
#[derive(Clone, Debug, Default)]
pub struct ActiveTokens(BTreeSet<RequestId>);

impl ActiveTokens {
    /// A request with that token begins; `false`: another one has it, and this one reports no progress, for its reports
    /// would be taken for the other's.
    pub fn begin(&mut self, token: &RequestId) -> bool {
        self.0.insert(token.clone())
    }

    /// The request that began with it has ended.
    pub fn end(&mut self, token: &RequestId) {
        self.0.remove(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(token: &str) -> Progress {
        Progress::new(Some(RequestId::parse(token.as_bytes()).unwrap()), ProgressRules::default())
    }

    fn said(progress: &mut Progress, value: f64, total: Option<f64>) -> String {
        match progress.report(value, total, None, 0) {
            Ok(frame) => frame.params(None).unwrap(),
            Err(why) => why.as_str().to_owned(),
        }
    }

    /// Field case B47.
    #[test]
    fn tokens_are_the_requests_own_in_their_own_type() {
        assert_eq!(said(&mut Progress::new(None, ProgressRules::default()), 1.0, None), "no_token");
        for token in ["\"abc\"", "6", "0", "\"\"", "\"6\"", "9007199254740993"] {
            let want = format!(r#"{{"progressToken":{token},"progress":1}}"#);
            assert_eq!(said(&mut progress(token), 1.0, None), want);
        }
        let mut active = ActiveTokens::default();
        let token = RequestId::from(6_i64);
        assert!(active.begin(&token));
        assert!(!active.begin(&token), "reuse of a live token is refused");
        assert!(active.begin(&RequestId::string("6").unwrap()));
        active.end(&token);
        assert!(active.begin(&token));
    }

    #[test]
    fn it_rises_and_stops() {
        let mut one = progress("1");
        assert_eq!(said(&mut one, 0.0, Some(100.0)), r#"{"progressToken":1,"progress":0,"total":100}"#);
        assert_eq!(said(&mut one, 0.0, Some(100.0)), "not_increasing");
        assert_eq!(said(&mut one, 0.5, None), r#"{"progressToken":1,"progress":0.5}"#);
        assert_eq!(said(&mut one, 0.25, None), "not_increasing");
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(said(&mut one, bad, None), "not_finite");
            assert_eq!(said(&mut one, 50.0, Some(bad)), "not_finite");
        }
        assert_eq!(said(&mut one, 50.0, None), r#"{"progressToken":1,"progress":50}"#, "a refused one changes nothing");
        one.end();
        assert_eq!(said(&mut one, 60.0, None), "ended");
        let mut below = progress("1");
        assert_eq!(said(&mut below, -5.0, None), r#"{"progressToken":1,"progress":-5}"#);
        assert_eq!(said(&mut below, 1e300, None), r#"{"progressToken":1,"progress":1e300}"#);
    }

    #[test]
    fn reports_may_be_spaced_and_the_last_one_is_not_lost() {
        let mut slow = Progress::new(Some(RequestId::from(1_i64)), ProgressRules { min_interval_ms: 100 });
        let mut at = |value, now| slow.report(value, Some(3.0), Some("x"), now).map(drop);
        assert_eq!(at(1.0, 1_000), Ok(()));
        assert_eq!(at(2.0, 1_099), Err(NoProgress::TooSoon));
        assert_eq!(at(2.0, 1_100), Ok(()));
        assert_eq!(at(3.0, 1_101), Ok(()), "complete");
    }
}
