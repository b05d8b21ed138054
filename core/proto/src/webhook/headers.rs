//! Static headers that a client adds to its webhook requests.

use core::fmt;

/// How many static headers a route may have (`notification-config.schema.json`).
pub const MAX_HEADERS: usize = 16;

/// The longest header value, in bytes.
pub const MAX_HEADER_VALUE_BYTES: usize = 4096;

/// The longest header name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Names that nobody may set, whatever the operator allows: they belong to the transport, to the signature, to us, or
/// speak for a proxy or a cloud.
const RESERVED: &[&str] = &[
    // Connection and framing: RFC 9110 7.6.1, RFC 9112 6.
    "host",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "http2-settings",
    // Ours, or set by the HTTP client.
    "user-agent",
    "accept-encoding",
    "date",
    "x-mcp-subscription-id",
    // State of another conversation.
    "cookie",
    "cookie2",
    "set-cookie",
    "set-cookie2",
    // Who the request came from and where it goes, as a proxy states it: believed by servers behind one.
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-http-host-override",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    // Proof that a request to a metadata service is meant.
    "metadata",
    "metadata-flavor",
    "x-google-metadata-request",
];

/// Prefixes of names that nobody may set. `content-` covers type, length and encoding of the body we sign.
const RESERVED_PREFIXES: &[&str] =
    &["webhook-", "content-", "proxy-", "sec-", "x-forwarded-", "x-original-", "x-tidings-", "x-aws-ec2-metadata-"];

/// The operator's list of headers that clients may set.
///
/// By default that is `authorization` and every name that begins with `x-`; reserved names are refused in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderPolicy {
    /// More names to allow; case does not matter. A reserved name in it has no effect: see [`HeaderPolicy::validate`].
    pub allow: Vec<String>,
}

/// What is wrong with a static header. Never holds the value, which may be a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderFault {
    /// More than [`MAX_HEADERS`] headers.
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A name that is empty, longer than 128 bytes, or holds something other than token characters (RFC 9110 5.6.2).
    Name {
        /// The name, cut to 64 characters and escaped.
        name: String,
    },
    /// A name that nobody may set.
    Reserved {
        /// The name in lower case.
        name: String,
    },
    /// A name that the operator does not allow.
    NotAllowed {
        /// The name in lower case.
        name: String,
    },
    /// The same name twice, as names do not depend on case.
    Repeated {
        /// The name in lower case.
        name: String,
    },
    /// A value that holds something other than visible ASCII, blanks and tabs, or begins or ends with a blank (RFC 9110
    /// 5.5; field report B59).
    Value {
        /// The name in lower case.
        name: String,
    },
    /// A value longer than [`MAX_HEADER_VALUE_BYTES`].
    ValueTooLong {
        /// The name in lower case.
        name: String,
    },
}

impl HeaderFault {
    /// A stable machine-readable code, such as `header_reserved`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooMany { .. } => "headers_too_many",
            Self::Name { .. } => "header_name",
            Self::Reserved { .. } => "header_reserved",
            Self::NotAllowed { .. } => "header_not_allowed",
            Self::Repeated { .. } => "header_repeated",
            Self::Value { .. } => "header_value",
            Self::ValueTooLong { .. } => "header_value_too_long",
        }
    }

    /// The header it is about, where it is about one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::TooMany { .. } => None,
            Self::Name { name }
            | Self::Reserved { name }
            | Self::NotAllowed { name }
            | Self::Repeated { name }
            | Self::Value { name }
            | Self::ValueTooLong { name } => Some(name),
        }
    }
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { count } => write!(f, "{count} headers; at most {MAX_HEADERS} are allowed"),
            Self::Name { name } => write!(f, "{name}: not a header name of 1 to {MAX_NAME_BYTES} token characters"),
            Self::Reserved { name } => write!(f, "{name}: reserved"),
            Self::NotAllowed { name } => {
                write!(f, "{name}: not allowed (authorization and x-… are, and what the operator lists)")
            }
            Self::Repeated { name } => write!(f, "{name}: given more than once"),
            Self::Value { name } => {
                write!(f, "{name}: the value must be visible ASCII with blanks or tabs only inside")
            }
            Self::ValueTooLong { name } => write!(f, "{name}: the value is longer than {MAX_HEADER_VALUE_BYTES} bytes"),
        }
    }
}

impl core::error::Error for HeaderFault {}

impl HeaderPolicy {
    /// Checks that every entry can take effect.
    ///
    /// # Errors
    /// The first entry that is no header name or is reserved.
    pub fn validate(&self) -> Result<(), HeaderFault> {
        self.allow.iter().try_for_each(|name| checked_name(name).map(drop))
    }

    fn allows(&self, name: &str) -> bool {
        name == "authorization"
            || name.starts_with("x-")
            || self.allow.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

/// Headers that passed every rule: names in lower case, in the order given.
///
/// `Debug` shows the names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StaticHeaders {
    headers: Vec<(String, String)>,
}

impl StaticHeaders {
    /// Checks headers as a config holds them.
    ///
    /// # Errors
    /// All faults, one for each header that has one, or [`HeaderFault::TooMany`] alone.
    pub fn check<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        policy: &HeaderPolicy,
    ) -> Result<Self, Vec<HeaderFault>> {
        let (mut checked, mut faults, mut count) = (Self::default(), Vec::new(), 0_usize);
        for (name, value) in headers {
            count += 1;
            // Only counted from here on, so that a list of any length costs no memory.
            if count > MAX_HEADERS {
                continue;
            }
            match checked.check_one(name, value, policy) {
                Ok(header) => checked.headers.push(header),
                Err(fault) => faults.push(fault),
            }
        }
        if count > MAX_HEADERS {
            return Err(vec![HeaderFault::TooMany { count }]);
        }
        if faults.is_empty() { Ok(checked) } else { Err(faults) }
    }

    fn check_one(&self, name: &str, value: &str, policy: &HeaderPolicy) -> Result<(String, String), HeaderFault> {
        let name = checked_name(name)?;
        if !policy.allows(&name) {
            return Err(HeaderFault::NotAllowed { name });
        }
        if self.headers.iter().any(|(earlier, _)| *earlier == name) {
            return Err(HeaderFault::Repeated { name });
        }
        if value.len() > MAX_HEADER_VALUE_BYTES {
            return Err(HeaderFault::ValueTooLong { name });
        }
        let blank = |b: u8| b == b' ' || b == b'\t';
        let inside = value.bytes().all(|b| b.is_ascii_graphic() || blank(b));
        let ends = value.bytes().next().is_some_and(blank) || value.bytes().last().is_some_and(blank);
        if !inside || ends {
            return Err(HeaderFault::Value { name });
        }
        Ok((name, value.to_owned()))
    }

    /// The headers, names in lower case. Values may be credentials: not for logs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }
}

impl fmt::Debug for StaticHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticHeaders")?;
        f.debug_list().entries(self.headers.iter().map(|(name, _)| name)).finish()
    }
}

/// `name` in lower case, if it is a header name and not reserved.
fn checked_name(name: &str) -> Result<String, HeaderFault> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(token) {
        let name = name.chars().take(64).flat_map(char::escape_default).collect();
        return Err(HeaderFault::Name { name });
    }
    let name = name.to_ascii_lowercase();
    if RESERVED.contains(&&*name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(HeaderFault::Reserved { name });
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(headers: &[(&str, &str)]) -> Result<StaticHeaders, Vec<HeaderFault>> {
        StaticHeaders::check(headers.iter().copied(), &HeaderPolicy::default())
    }

    fn only_code(name: &str, value: &str, policy: &HeaderPolicy) -> &'static str {
        match StaticHeaders::check([(name, value)], policy) {
            Ok(_) => "ok",
            Err(faults) => {
                assert_eq!(faults.len(), 1, "{name}");
                faults[0].code()
            }
        }
    }

    #[test]
    fn takes_allowed_headers_in_lower_case() {
        let headers = check(&[("Authorization", "Bearer a b\tc"), ("X-Api-Key", ""), ("x-a", "!~")]).unwrap();
        let got: Vec<_> = headers.iter().collect();
        assert_eq!(got, [("authorization", "Bearer a b\tc"), ("x-api-key", ""), ("x-a", "!~")]);
        assert!(check(&[]).unwrap().is_empty());
    }

    #[test]
    fn reserved_names_are_refused_even_if_the_operator_lists_them() {
        for name in [
            "webhook-id",
            "Webhook-Signature",
            "webhook-timestamp",
            "webhook-anything",
            "Host",
            "Content-Type",
            "content-length",
            "content-encoding",
            "Transfer-Encoding",
            "connection",
            "keep-alive",
            "TE",
            "trailer",
            "upgrade",
            "expect",
            "cookie",
            "set-cookie",
            "proxy-authorization",
            "proxy-connection",
            "user-agent",
            "x-mcp-subscription-id",
            "forwarded",
            "x-forwarded-for",
            "X-Forwarded-Host",
            "x-real-ip",
            "x-http-method-override",
            "x-original-url",
            "x-aws-ec2-metadata-token",
            "metadata-flavor",
            "date",
        ] {
            let policy = HeaderPolicy { allow: vec![name.to_owned()] };
            assert_eq!(only_code(name, "v", &policy), "header_reserved", "{name}");
            assert_eq!(policy.validate().unwrap_err().code(), "header_reserved", "{name}");
        }
    }

    #[test]
    fn the_operators_list_extends_the_default() {
        let policy = HeaderPolicy { allow: vec!["Api-Key".into(), "traceparent".into()] };
        assert_eq!(policy.validate(), Ok(()));
        for (name, extended) in [("api-key", "ok"), ("TraceParent", "ok"), ("accept", "header_not_allowed")] {
            assert_eq!(only_code(name, "v", &policy), extended, "{name}");
            assert_eq!(only_code(name, "v", &HeaderPolicy::default()), "header_not_allowed", "{name}");
        }
        let bad = HeaderPolicy { allow: vec!["api key".into()] };
        assert_eq!(bad.validate().unwrap_err().code(), "header_name");
    }

    #[test]
    fn bad_names_and_values_are_named() {
        let policy = HeaderPolicy::default();
        let long = "x-".to_owned() + &"a".repeat(127);
        for name in ["", " ", "x-a b", "x-a:", "x-a\r\nx-b", "x-\u{e9}", "x-a\0", "x-(a)", "x-a\t", "\"x\"", &long] {
            assert_eq!(only_code(name, "v", &policy), "header_name", "{name:?}");
        }
        for value in
            ["abc\r\nX-Admin: 1", "abc\n", "abc\0", "\u{e9}", "a\u{7f}", " a", "a ", "\ta", "a\t", " ", "a\x0bb"]
        {
            assert_eq!(only_code("authorization", value, &policy), "header_value", "{value:?}");
        }
        assert_eq!(only_code("x-a", &"v".repeat(MAX_HEADER_VALUE_BYTES), &policy), "ok");
        assert_eq!(only_code("x-a", &"v".repeat(MAX_HEADER_VALUE_BYTES + 1), &policy), "header_value_too_long");
    }

    #[test]
    fn faults_are_listed_for_each_header() {
        let faults = check(&[("x-a", "1"), ("X-A", "2"), ("host", "h"), ("x-b", "\n"), ("b c", "")]).unwrap_err();
        let codes: Vec<_> = faults.iter().map(HeaderFault::code).collect();
        assert_eq!(codes, ["header_repeated", "header_reserved", "header_value", "header_name"]);
        assert_eq!(faults[1].name(), Some("host"));
    }

    #[test]
    fn the_count_is_bounded() {
        let names: Vec<String> = (0..10_000).map(|i| format!("x-{i}")).collect();
        let list =
            |n: usize| StaticHeaders::check(names[..n].iter().map(|name| (&**name, "v")), &HeaderPolicy::default());
        assert_eq!(list(16).unwrap().iter().len(), 16);
        assert_eq!(list(17), Err(vec![HeaderFault::TooMany { count: 17 }]));
        assert_eq!(list(10_000), Err(vec![HeaderFault::TooMany { count: 10_000 }]));
    }

    #[test]
    fn values_are_not_shown() {
        let headers = check(&[("authorization", "Bearer T0K3N")]).unwrap();
        assert_eq!(format!("{headers:?}"), r#"StaticHeaders["authorization"]"#);
        let faults = check(&[("authorization", "Bearer T0K3N\n"), ("host", "T0K3N")]).unwrap_err();
        assert!(!format!("{faults:?}").contains("T0K3N"));
        assert!(faults.iter().all(|fault| !fault.to_string().contains("T0K3N")));
    }

    proptest! {
        #[test]
        fn what_passes_cannot_add_a_line(name: String, tail in "[a-zA-Z-]{0,12}", value: String, ascii in "[ -~\r\n\t]{0,20}") {
            for (name, value) in [(&name, &value), (&format!("x-{tail}"), &ascii), (&format!("x-{name}"), &ascii)] {
                if let Ok(headers) = check(&[(name, value)]) {
                    for (name, value) in headers.iter() {
                        prop_assert!(name.bytes().all(|b| b.is_ascii_graphic() && b != b':' && !b.is_ascii_uppercase()));
                        prop_assert!(value.bytes().all(|b| b == b'\t' || (0x20..=0x7e).contains(&b)));
                        prop_assert_eq!(value.trim(), value);
                    }
                }
            }
        }
    }
}
