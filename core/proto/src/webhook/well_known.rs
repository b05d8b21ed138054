//! What an origin publishes about where it takes webhooks (SEP-3415 "Endpoint verification"):
//! `/.well-known/mcp-webhook-receiver.json`, `{"receivers":["/hooks/"]}`, a list of path prefixes. One document speaks for
//! every URL of its origin (scheme, host and port) at or below one of them.

use serde_json::value::RawValue;

use crate::json;
use crate::wire::sep3415::{RECEIVERS, WELL_KNOWN_RECEIVER};

/// More bytes of a well-known document are not read.
pub const MAX_RECEIVER_DOCUMENT_BYTES: usize = 64 << 10;
/// More prefixes of a well-known document are not looked at.
const MAX_RECEIVERS: usize = 256;

/// Where the document of an endpoint's origin is: `scheme://authority`, with the port if it is not the scheme's.
pub fn receiver_document_url(scheme: &str, authority: &str) -> String {
    format!("{scheme}://{authority}{WELL_KNOWN_RECEIVER}")
}

/// The document that a receiver publishes, for paths (`/hooks/`) of its own.
pub fn receiver_document_json<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> String {
    let mut out = String::from("{");
    json::push_name(&mut out, RECEIVERS);
    json::push_strings(&mut out, paths);
    out.push('}');
    out
}

/// The path prefixes of a document.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Receivers(Vec<String>);

impl Receivers {
    /// Reads a document. One that is not as it should be names nothing; entries that are no text beginning with `/` are
    /// passed over.
    pub fn parse(document: &[u8]) -> Self {
        Self(read(document).unwrap_or_default())
    }

    /// Whether it names no path at all.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the path of an endpoint (with its query) lies at or below one of the prefixes, see [`is_below`].
    pub fn name(&self, path_and_query: &str) -> bool {
        self.0.iter().any(|prefix| is_below(path_and_query, prefix))
    }

    /// The document that names these and nothing else: what is kept of one.
    pub fn to_json(&self) -> String {
        receiver_document_json(&self.0)
    }
}

fn read(document: &[u8]) -> Option<Vec<String>> {
    let raw: &RawValue = serde_json::from_slice(document).ok()?;
    let (_, list) = json::members(raw).ok()?.into_iter().find(|(name, _)| name == RECEIVERS.as_bytes())?;
    let (paths, _) = json::elements(list, MAX_RECEIVERS).ok()?;
    let texts = paths.into_iter().filter_map(|path| serde_json::from_str::<String>(path.get()).ok());
    Some(texts.filter(|path| path.starts_with('/')).collect())
}

/// Whether a well-known document names the path of an endpoint (with its query).
pub fn is_receiver(document: &[u8], path_and_query: &str) -> bool {
    Receivers::parse(document).name(path_and_query)
}

/// Whether a path (with its query) lies at or below a prefix. Compared byte for byte, case and escapes included; a prefix
/// ends at a segment: `/hook` is no prefix of `/hooks`.
///
/// The path is that of a parsed URL, in which `..` and `%2e%2e` are resolved. What a receiver might still take for a way
/// out is below nothing: a segment that is `.` or `..`, or holds a slash or a backslash, once its escapes are undone
/// (`..%2fadmin`, `%252e%252e`) or its parameters are cut off (`..;x`).
pub fn is_below(path_and_query: &str, prefix: &str) -> bool {
    let path = path_and_query.split_once('?').map_or(path_and_query, |(path, _)| path);
    let Some(rest) = path.strip_prefix(prefix).filter(|_| prefix.starts_with('/')) else { return false };
    (prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/')) && rest.split('/').all(stays)
}

/// Whether a segment leads nowhere else than below, however a receiver reads it.
fn stays(segment: &str) -> bool {
    let mut bytes = segment.as_bytes().to_vec();
    loop {
        let name = bytes.split(|byte| *byte == b';').next().unwrap_or_default();
        if matches!(name, b"." | b"..") || bytes.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
            return false;
        }
        // Each round is shorter than the one before.
        match unescaped(&bytes) {
            Some(next) => bytes = next,
            None => return true,
        }
    }
}

/// With its escapes undone once; `None`: it has none.
fn unescaped(bytes: &[u8]) -> Option<Vec<u8>> {
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (digit(at + 1), digit(at + 2)) {
            (Some(high), Some(low)) if *byte == b'%' => {
                out.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    (out.len() < bytes.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_prefixes_of_whole_segments() {
        let document = receiver_document_json(["/hooks/", "/exact"]);
        assert_eq!(document, r#"{"receivers":["/hooks/","/exact"]}"#);
        for (path, named) in [
            ("/hooks/", true),
            ("/hooks/a/b?x=1", true),
            ("/hooks", false),
            ("/hooks?x=/hooks/", false),
            ("/exact", true),
            ("/exact?a=b", true),
            ("/exact/below", true),
            ("/exactly", false),
            ("/exact;v=1", false),
            ("/", false),
            ("/Hooks/", false),
        ] {
            assert_eq!(is_receiver(document.as_bytes(), path), named, "{path}");
        }
        for document in
            ["", "[]", "{}", r#"{"receivers":"/"}"#, r#"{"receivers":[1,null,"",["/"]]}"#, "{\"receivers\":[\"/\"]"]
        {
            assert!(!is_receiver(document.as_bytes(), "/hooks/"), "{document}");
            assert!(Receivers::parse(document.as_bytes()).is_empty(), "{document}");
        }
        assert!(is_receiver(br#"{"receivers":["/"]}"#, "/anything"));
        assert_eq!(
            receiver_document_url("https", "a.example:8443"),
            "https://a.example:8443/.well-known/mcp-webhook-receiver.json"
        );
    }

    #[test]
    fn what_may_lead_out_is_below_nothing() {
        for (path, below) in [
            ("/hooks/a.b/..c/c..", true),
            ("/hooks/%41%2e%2eb", true),
            ("/hooks/100%", true),
            ("/hooks/%zz%2", true),
            ("/hooks/a;v=1/b", true),
            ("/hooks/..%2fadmin", false),
            ("/hooks/..%2Fadmin", false),
            ("/hooks/%2e%2e%5cadmin", false),
            ("/hooks/%252e%252e/admin", false),
            ("/hooks/%25252e%25252e/admin", false),
            ("/hooks/a%2fb", false),
            ("/hooks/..;/admin", false),
            ("/hooks/.;x=1", false),
            ("/hooks/..%3bx/admin", false),
            ("/hooks/./a", false),
            ("/hooks/../a", false),
        ] {
            assert_eq!(is_below(path, "/hooks/"), below, "{path}");
        }
    }

    #[test]
    fn what_is_kept_of_a_document_names_the_same() {
        let kept = Receivers::parse(br#"{"v":1,"receivers":["/h\u00f6ks/","no","/a\"b"],"x":[]}"#);
        assert_eq!(kept.to_json(), "{\"receivers\":[\"/h\u{f6}ks/\",\"/a\\\"b\"]}");
        assert_eq!(Receivers::parse(kept.to_json().as_bytes()), kept);
    }
}
