//! The proxy through which webhooks leave, where the operator has one.
//!
//! The rules of this module stay in force behind it: the hub looks the endpoint's name up, checks every answer, and asks
//! the proxy to connect to one checked *address* (RFC 9110 9.3.6 `CONNECT`), never to a name that the proxy would look up
//! for itself. What the proxy refuses on top of that is its own business.

use core::fmt;
use core::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use super::endpoint::Host;
use super::policy::is_host_name;
use crate::config::Sensitive;
use crate::delivery::Category;

/// The longest head of an answer to `CONNECT` that is read, in bytes.
pub const MAX_PROXY_ANSWER_BYTES: usize = 8 << 10;

/// An HTTP proxy that the operator named. `Debug` and `Display` show host and port, never a user or a password.
#[derive(Clone, PartialEq, Eq)]
pub struct EgressProxy {
    host: Host,
    port: u16,
    /// The whole value of `Proxy-Authorization`.
    authorization: Option<Sensitive>,
}

/// Why a text names no proxy. Never holds any of the text, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyFault {
    /// Not a URL, or one whose host is no host.
    BadUrl,
    /// Does not begin with `http://`. The tunnel inside is encrypted from end to end all the same.
    Scheme,
    /// Port 0.
    Port,
    /// Has a path, a query or a fragment.
    Path,
    /// User name or password are no UTF-8, or the user name holds a colon, which RFC 7617 cannot express.
    Credentials,
}

impl ProxyFault {
    /// A stable machine-readable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadUrl => "proxy_url",
            Self::Scheme => "proxy_scheme",
            Self::Port => "proxy_port",
            Self::Path => "proxy_path",
            Self::Credentials => "proxy_credentials",
        }
    }
}

impl fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadUrl => "must be a URL: http://[user:password@]host:port",
            Self::Scheme => "must begin with http://",
            Self::Port => "port 0 is no port",
            Self::Path => "must have no path, query or fragment",
            Self::Credentials => "user and password must be UTF-8, the user without a colon",
        })
    }
}

impl core::error::Error for ProxyFault {}

impl EgressProxy {
    /// Reads `http://[user[:password]@]host[:port]`; the port is 80 without one, as in every URL. User and password may be
    /// percent-encoded.
    ///
    /// # Errors
    /// [`ProxyFault`] with the first rule that is broken.
    pub fn parse(text: &str) -> Result<Self, ProxyFault> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return Err(ProxyFault::BadUrl);
        }
        match text.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => {}
            Some(_) => return Err(ProxyFault::Scheme),
            None => return Err(ProxyFault::BadUrl),
        }
        let url = Url::parse(text).map_err(|_| ProxyFault::BadUrl)?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(ProxyFault::Path);
        }
        let host = match url.host() {
            Some(url::Host::Domain(name)) if is_host_name(name) => Host::Name(name.to_owned()),
            Some(url::Host::Ipv4(ip)) => Host::Ip(ip.into()),
            Some(url::Host::Ipv6(ip)) => Host::Ip(ip.into()),
            Some(url::Host::Domain(_)) | None => return Err(ProxyFault::BadUrl),
        };
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or(ProxyFault::Port)?;
        let authorization = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some(basic(user, password.unwrap_or_default())?),
        };
        Ok(Self { host, port, authorization })
    }

    /// Where the proxy listens.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// And on which port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The request that asks for a tunnel to an address that has been checked.
    pub fn connect_request(&self, target: SocketAddr) -> Vec<u8> {
        let mut out = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(authorization) = &self.authorization {
            out.push_str("Proxy-Authorization: ");
            out.push_str(authorization.expose());
            out.push_str("\r\n");
        }
        out.push_str("\r\n");
        out.into_bytes()
    }
}

/// What the proxy's answer to a `CONNECT` comes to: `head` is all that was read, up to and including the empty line.
///
/// Any 2xx opens the tunnel (RFC 9110 9.3.6). That the *receiver* cannot be reached is what 502 and 503 say, and 504 that it
/// took too long (RFC 9110 15.6; Squid and Envoy answer so): these count against the endpoint. Everything else, 407 above all,
/// is between the operator and the proxy.
///
/// # Errors
/// The category of the failure.
pub fn connect_answer(head: &[u8]) -> Result<(), Category> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let status = match line {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1', b' ', status @ ..] => status,
        _ => return Err(Category::ProxyError),
    };
    match status {
        [b'2', b'0'..=b'9', b'0'..=b'9'] | [b'2', b'0'..=b'9', b'0'..=b'9', b' ', ..] => Ok(()),
        [b'5', b'0', b'2' | b'3'] | [b'5', b'0', b'2' | b'3', b' ', ..] => Err(Category::ConnectionRefused),
        [b'5', b'0', b'4'] | [b'5', b'0', b'4', b' ', ..] => Err(Category::Timeout),
        _ => Err(Category::ProxyError),
    }
}

/// RFC 7617 section 2, in UTF-8.
fn basic(user: &str, password: &str) -> Result<Sensitive, ProxyFault> {
    let (user, password) = (decoded(user)?, decoded(password)?);
    if user.contains(':') {
        return Err(ProxyFault::Credentials);
    }
    Ok(Sensitive::new(format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))))
}

/// Takes percent escapes out; a `%` that begins none stands for itself, as in WHATWG URLs.
fn decoded(text: &str) -> Result<String, ProxyFault> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match escape.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                out.push(value);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).map_err(|_| ProxyFault::Credentials)
}

impl fmt::Display for EgressProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for EgressProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.authorization.is_some() { " with credentials" } else { "" };
        write!(f, "EgressProxy({self}{whose})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_proxy() {
        for (text, shown, authorization) in [
            ("http://proxy.corp:3128", "http://proxy.corp:3128", None),
            ("HTTP://Proxy.Corp", "http://proxy.corp:80", None),
            ("http://10.0.0.1:8080/", "http://10.0.0.1:8080", None),
            ("http://[::1]:3128", "http://[::1]:3128", None),
            // RFC 7617 section 2: "Aladdin" and "open sesame".
            ("http://Aladdin:open%20sesame@p:1", "http://p:1", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
            // RFC 7617 section 2.1: "test" and "123£", in UTF-8.
            ("http://test:123%C2%A3@p:1", "http://p:1", Some("Basic dGVzdDoxMjPCow==")),
            // "u:" in base64.
            ("http://u@p:1", "http://p:1", Some("Basic dTo=")),
        ] {
            let proxy = EgressProxy::parse(text).unwrap();
            assert_eq!(proxy.to_string(), shown, "{text}");
            assert_eq!(proxy.authorization.as_ref().map(Sensitive::expose), authorization, "{text}");
        }
    }

    #[test]
    fn what_names_none() {
        for (text, fault) in [
            ("", ProxyFault::BadUrl),
            ("proxy:3128", ProxyFault::BadUrl),
            ("http://", ProxyFault::BadUrl),
            ("http://a b:1", ProxyFault::BadUrl),
            ("http://a_b:99999", ProxyFault::BadUrl),
            ("https://proxy:3128", ProxyFault::Scheme),
            ("socks5://proxy:1080", ProxyFault::Scheme),
            ("http://proxy:0", ProxyFault::Port),
            ("http://proxy:1/x", ProxyFault::Path),
            ("http://proxy:1?x", ProxyFault::Path),
            ("http://proxy:1#x", ProxyFault::Path),
            ("http://a%3Ab:c@proxy:1", ProxyFault::Credentials),
            ("http://%ff:c@proxy:1", ProxyFault::Credentials),
        ] {
            assert_eq!(EgressProxy::parse(text).unwrap_err(), fault, "{text}");
        }
    }

    #[test]
    fn the_request_names_an_address_and_no_name() {
        let target = "[2001:db8::1]:443".parse().unwrap();
        let proxy = EgressProxy::parse("http://u:p@proxy:1").unwrap();
        let want =
            "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n";
        assert_eq!(proxy.connect_request(target), want.as_bytes());
    }

    #[test]
    fn credentials_are_not_shown() {
        let proxy = EgressProxy::parse("http://hunter:hunter2@proxy:1").unwrap();
        assert_eq!(format!("{proxy:?} {proxy}"), "EgressProxy(http://proxy:1 with credentials) http://proxy:1");
    }

    #[test]
    fn answers_fall_into_categories() {
        for (head, want) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", Ok(())),
            ("HTTP/1.0 200\r\n\r\n", Ok(())),
            ("HTTP/1.1 299 x\r\n\r\n", Ok(())),
            ("HTTP/1.1 100 Continue\r\n\r\n", Err(Category::ProxyError)),
            ("HTTP/1.1 302 Found\r\n\r\n", Err(Category::ProxyError)),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", Err(Category::ProxyError)),
            ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", Err(Category::ProxyError)),
            ("HTTP/1.1 500 x\r\n\r\n", Err(Category::ProxyError)),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", Err(Category::ConnectionRefused)),
            ("HTTP/1.1 503\r\n\r\n", Err(Category::ConnectionRefused)),
            ("HTTP/1.1 504 Gateway Timeout\r\n\r\n", Err(Category::Timeout)),
            ("HTTP/1.1 2000 x\r\n\r\n", Err(Category::ProxyError)),
            ("HTTP/2 200 x\r\n\r\n", Err(Category::ProxyError)),
            ("SSH-2.0-OpenSSH_9.9\r\n\r\n", Err(Category::ProxyError)),
            ("", Err(Category::ProxyError)),
        ] {
            assert_eq!(connect_answer(head.as_bytes()), want, "{head}");
        }
    }
}
