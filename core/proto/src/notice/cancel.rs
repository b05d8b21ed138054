//! Cancellation: whose request it may be, and what a race with the answer comes to.

use std::collections::BTreeMap;

use crate::fanout::{Frame, NoFrame, Profile};
use crate::id::RequestId;
use crate::json::{self, Kind};

/// MCP's notification.
pub const CANCELLED: &str = "notifications/cancelled";
/// LSP's, which is in no version of MCP.
pub const LSP_CANCEL: &str = "$/cancelRequest";

/// A cancellation that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The request.
    pub request: RequestId,
    /// Why, for people.
    pub reason: Option<String>,
    /// It came in LSP's words, so that LSP's rule holds: every request gets a response.
    pub lsp: bool,
}

impl Cancel {
    /// Reads a notification. `alias`: the operator's setting that LSP's name is accepted.
    ///
    /// `None`: it is no cancellation or a malformed one, and is to be ignored (SHOULD); over HTTP it is answered with 400.
    pub fn parse(method: &str, params: Option<&str>, alias: bool) -> Option<Self> {
        let lsp = match method {
            CANCELLED => false,
            LSP_CANCEL if alias => true,
            _ => return None,
        };
        let params = params?;
        if Kind::of(params) != Some(Kind::Object) {
            return None;
        }
        let (mut request, mut reason) = (None, None);
        json::each_member(params, |name, value| match name {
            b"requestId" if !lsp => request = Some(value.get()),
            b"id" if lsp => request = Some(value.get()),
            b"reason" => reason = Some(value.get()),
            _ => {}
        })
        .ok()?;
        let request = RequestId::parse(request?.as_bytes()).ok()?;
        let reason = reason.and_then(|raw| serde_json::from_str(raw).ok());
        Some(Self { request, reason, lsp })
    }
}

/// The notification that cancels a request of ours.
///
/// `transport_cancels`: the transport ends a request by itself when its stream is closed (HTTP of 2026-07-28), and has no
/// notification for it.
///
/// # Errors
/// [`NoFrame::NotCancellable`] for `initialize`, which a client must not cancel, and [`NoFrame::NotInVersion`].
pub fn cancelled(
    profile: &Profile,
    method: &str,
    request: &RequestId,
    reason: Option<&str>,
    transport_cancels: bool,
) -> Result<Frame, NoFrame> {
    if method == "initialize" {
        return Err(NoFrame::NotCancellable);
    }
    if profile.listens() && transport_cancels {
        return Err(NoFrame::NotInVersion);
    }
    let mut params = String::from("{");
    json::push_name(&mut params, "requestId");
    params.push_str(&request.to_json());
    if let Some(reason) = reason {
        json::push_name(&mut params, "reason");
        json::push_string(&mut params, reason);
    }
    params.push('}');
    Frame::state(CANCELLED, &params)
}

/// What a cancellation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelEffect {
    /// The request's work is to be stopped.
    Stop,
    /// Nothing: the request is unknown, has its answer, was cancelled before, or is `initialize`.
    Ignore,
}

/// What the end of a request's work comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Its result or error is sent.
    Send,
    /// Nothing is sent: it was cancelled, or it has its answer.
    Nothing,
    /// It was cancelled in LSP's words and gets an error: -32800.
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Running { cancellable: bool },
    Cancelled { lsp: bool },
}

/// The running requests of one direction of one session: a cancellation from anywhere else cannot match. Whichever comes
/// first, the cancellation or the end of the work, decides; the other one does nothing.
#[derive(Clone, Debug, Default)]
pub struct InFlight(BTreeMap<RequestId, State>);

impl InFlight {
    /// A request begins; `false`: its id is in flight already, which its sender must not do.
    pub fn begin(&mut self, request: &RequestId, method: &str) -> bool {
        let new = !self.0.contains_key(request);
        if new {
            self.0.insert(request.clone(), State::Running { cancellable: method != "initialize" });
        }
        new
    }

    /// A cancellation came in.
    pub fn cancel(&mut self, cancel: &Cancel) -> CancelEffect {
        match self.0.get_mut(&cancel.request) {
            Some(state @ State::Running { cancellable: true }) => {
                *state = State::Cancelled { lsp: cancel.lsp };
                CancelEffect::Stop
            }
            Some(State::Running { cancellable: false } | State::Cancelled { .. }) | None => CancelEffect::Ignore,
        }
    }

    /// The request's work has ended, with a result, an error or because it was stopped.
    pub fn finish(&mut self, request: &RequestId) -> Reply {
        match self.0.remove(request) {
            Some(State::Running { .. }) => Reply::Send,
            Some(State::Cancelled { lsp: true }) => Reply::Cancelled,
            Some(State::Cancelled { lsp: false }) | None => Reply::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fanout::mcp::MCP;

    fn id(raw: &str) -> RequestId {
        RequestId::parse(raw.as_bytes()).unwrap()
    }

    fn cancel(params: &str) -> Option<Cancel> {
        Cancel::parse(CANCELLED, Some(params), false)
    }

    /// Field case B51.
    #[test]
    fn a_cancel_hits_its_own_type_and_value_only() {
        let mut running = InFlight::default();
        for raw in ["7", "\"7\"", "\"req-9\"", "9007199254740993", "3"] {
            assert!(running.begin(&id(raw), "tools/call"));
        }
        assert!(!running.begin(&id("7"), "tools/call"));
        assert_eq!(running.finish(&id("3")), Reply::Send);
        let mut hit = |raw: &str| match cancel(&format!(r#"{{"requestId":{raw}}}"#)) {
            Some(cancel) => format!("{:?}", running.cancel(&cancel)),
            None => "malformed".to_owned(),
        };
        assert_eq!(hit("\"7\""), "Stop");
        assert_eq!(hit("7"), "Stop");
        assert_eq!(hit("\"req-9\""), "Stop");
        assert_eq!(hit("9007199254740993"), "Stop");
        for raw in ["99", "3", "7", "9007199254740992"] {
            assert_eq!(hit(raw), "Ignore", "{raw}");
        }
        for raw in ["14204.5", "{}", "true", "[]", "null"] {
            assert_eq!(hit(raw), "malformed", "{raw}");
        }
        assert_eq!(cancel("{}"), None);
        assert_eq!(cancel("[7]"), None);
        assert_eq!(Cancel::parse(CANCELLED, None, true), None);
        assert_eq!(InFlight::default().cancel(&cancel(r#"{"requestId":7}"#).unwrap()), CancelEffect::Ignore);
    }

    /// Field case B52.
    #[test]
    fn the_first_one_wins_the_race() {
        let seven = cancel(r#"{"requestId":7,"reason":"why"}"#).unwrap();
        assert_eq!(seven.reason.as_deref(), Some("why"));
        let mut running = InFlight::default();
        running.begin(&id("7"), "tools/call");
        assert_eq!(running.finish(&id("7")), Reply::Send);
        assert_eq!(running.cancel(&seven), CancelEffect::Ignore);
        running.begin(&id("7"), "tools/call");
        assert_eq!(running.cancel(&seven), CancelEffect::Stop);
        assert_eq!(running.cancel(&seven), CancelEffect::Ignore);
        assert_eq!(running.finish(&id("7")), Reply::Nothing);
        assert_eq!(running.finish(&id("7")), Reply::Nothing);
        running.begin(&id("7"), "tools/call");
        let lsp = Cancel::parse(LSP_CANCEL, Some(r#"{"id":7}"#), true).unwrap();
        assert_eq!(Cancel::parse(LSP_CANCEL, Some(r#"{"id":7}"#), false), None, "only behind a setting");
        assert_eq!(running.cancel(&lsp), CancelEffect::Stop);
        assert_eq!(running.finish(&id("7")), Reply::Cancelled, "every request of LSP gets a response");
    }

    /// Field case B54.
    #[test]
    fn initialize_is_never_cancelled() {
        let profile = |version| Profile::new(&MCP, version, "{}", "{}").unwrap();
        let legacy = profile("2025-11-25");
        assert_eq!(cancelled(&legacy, "initialize", &id("0"), None, false), Err(NoFrame::NotCancellable));
        assert_eq!(
            cancelled(&legacy, "tools/call", &id("0"), Some("late"), false).unwrap().plain(),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,"reason":"late"}}"#
        );
        let modern = profile("2026-07-28");
        assert_eq!(cancelled(&modern, "tools/call", &id("1"), None, true), Err(NoFrame::NotInVersion));
        assert!(cancelled(&modern, "tools/call", &id("1"), None, false).is_ok());
        let mut running = InFlight::default();
        running.begin(&id("0"), "initialize");
        assert_eq!(running.cancel(&cancel(r#"{"requestId":0}"#).unwrap()), CancelEffect::Ignore);
        assert_eq!(running.finish(&id("0")), Reply::Send);
    }
}
