//! Who asks.

use std::sync::Arc;

use http::request::Parts;
use rmcp::model::ProtocolVersion;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

/// The header that names a legacy session.
const SESSION_HEADER: &str = "mcp-session-id";

/// Under which name calls are counted whose principal lives no longer than one request.
const ANONYMOUS: &str = "anonymous";

/// Somebody a server has authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Who issued the token, where that is known.
    pub issuer: Option<String>,
    /// Whom it speaks of, where that is known.
    pub subject: Option<String>,
    /// The client that brought it.
    pub client_id: String,
}

impl Principal {
    /// The text that stands for it in a store; byte for byte the same in every language, so that servers can share one.
    pub fn name(&self) -> String {
        let parts = [self.issuer.as_deref(), self.subject.as_deref(), Some(&self.client_id)];
        let json = serde_json::json!(parts).to_string();
        let mut name = String::from("auth:");
        for character in json.chars() {
            if character.is_ascii() {
                name.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                name.push_str(&format!("\\u{unit:04x}"));
            }
        }
        name
    }
}

/// How a server tells who has sent a request.
pub(crate) type Authenticate = Arc<dyn Fn(&RequestContext<RoleServer>) -> Option<Principal> + Send + Sync>;

/// A request's principal.
pub(crate) struct Asker {
    /// Its name in the store.
    pub(crate) name: String,
    /// Under which name calls that go on without their request are counted.
    pub(crate) counted_as: String,
    /// It was authenticated, and is not only whoever holds a session or a connection.
    pub(crate) bound: bool,
    /// The legacy session of the request.
    pub(crate) session: Option<String>,
}

/// Tells who asks. `stand_in` is whom a request counts as that nobody is known to have sent.
pub(crate) fn asker(
    authenticate: Option<&Authenticate>,
    context: &RequestContext<RoleServer>,
    stand_in: impl FnOnce() -> Result<String, ErrorData>,
) -> Result<Asker, ErrorData> {
    let session = session_of(context);
    if let Some(principal) = authenticate.and_then(|authenticate| authenticate(context)) {
        let name = principal.name();
        return Ok(Asker { counted_as: name.clone(), name, bound: true, session });
    }
    Ok(match &session {
        Some(id) => {
            let name = format!("session:{id}");
            Asker { counted_as: name.clone(), name, bound: false, session }
        }
        None => Asker { name: stand_in()?, counted_as: ANONYMOUS.to_owned(), bound: false, session },
    })
}

/// The legacy session of a request over HTTP. A modern request has none, whatever header it brings.
pub(crate) fn session_of(context: &RequestContext<RoleServer>) -> Option<String> {
    if is_modern(context) {
        return None;
    }
    session_header(context.extensions.get::<Parts>()?)
}

pub(crate) fn session_header(parts: &Parts) -> Option<String> {
    parts.headers.get(SESSION_HEADER)?.to_str().ok().map(str::to_owned)
}

/// Whether a request is of 2026-07-28 or later, where there are no sessions and leaving is cancelling.
pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are those that Python's `json.dumps` and the npm package write for the same three.
    #[test]
    fn names_are_the_same_in_every_language() {
        let of = |issuer: Option<&str>, subject: Option<&str>, client: &str| {
            let own = |text: &str| text.to_owned();
            Principal { issuer: issuer.map(own), subject: subject.map(own), client_id: own(client) }.name()
        };
        assert_eq!(of(Some("https://a"), Some("u"), "c"), r#"auth:["https://a","u","c"]"#);
        assert_eq!(of(None, None, "c\"\n"), r#"auth:[null,null,"c\"\n"]"#);
        assert_eq!(of(None, Some("ü😀\u{7f}"), "c"), "auth:[null,\"\\u00fc\\ud83d\\ude00\u{7f}\",\"c\"]");
    }
}
