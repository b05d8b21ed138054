//! A webhook's URL, read once.

use core::fmt;
use core::net::IpAddr;

use url::{Position, Url};

use super::fault::EndpointFault;
use super::ip::{Denied, check, check_all, check_not_metadata};
use super::policy::{Policy, is_host_name, is_internal_name, is_metadata_name};

/// The longest endpoint, in bytes (`notification-config.schema.json`).
pub const MAX_ENDPOINT_BYTES: usize = 2048;

/// Whom an [`Endpoint`] names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name in lower case, international parts as `xn--`, without a final dot.
    Name(String),
    /// A literal address in canonical form, whichever way it was written: `0x7f.1`, `2130706433`, `[::ffff:7f00:1]`.
    Ip(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(ip)) => write!(f, "{ip}"),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

/// A webhook endpoint that passed every rule that can be judged without looking its name up.
///
/// Path and query may hold tokens, so `Debug` and `Display` show `scheme://host:port` only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    url: Url,
    host: Host,
    port: u16,
    /// The operator vouches for this host name.
    vouched: bool,
}

impl Endpoint {
    /// Reads and judges an endpoint. Done when a config is validated and again, from the stored text, before each
    /// attempt, as the operator's settings may have changed in between.
    ///
    /// The raw text is refused where parsers are known to disagree (blanks, control characters, backslashes, `%` in
    /// the host, user names, missing slashes); the rest is read by the WHATWG parser, whose result is used from there
    /// on. Literal addresses are judged at once, names when they have been looked up: [`Endpoint::check_answers`].
    ///
    /// # Errors
    /// [`EndpointFault`] with the first rule that is broken.
    pub fn parse(text: &str, policy: &Policy) -> Result<Self, EndpointFault> {
        check_text(text)?;
        let mut url = Url::parse(text).map_err(|error| match error {
            url::ParseError::EmptyHost => EndpointFault::NoHost,
            url::ParseError::IdnaError
            | url::ParseError::InvalidIpv4Address
            | url::ParseError::InvalidIpv6Address
            | url::ParseError::InvalidDomainCharacter => EndpointFault::BadHost,
            _ => EndpointFault::BadUrl,
        })?;
        match url.scheme() {
            "https" => {}
            "http" if policy.allow_http => {}
            "http" => return Err(EndpointFault::PlainHttp),
            _ => return Err(EndpointFault::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointFault::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(EndpointFault::Fragment);
        }
        let host = match url.host() {
            None => return Err(EndpointFault::NoHost),
            Some(url::Host::Domain(name)) => Host::Name(name.to_owned()),
            Some(url::Host::Ipv4(ip)) => Host::Ip(IpAddr::V4(ip)),
            Some(url::Host::Ipv6(ip)) => Host::Ip(IpAddr::V6(ip).to_canonical()),
        };
        let vouched = match &host {
            Host::Name(name) => check_name(name, policy)?,
            Host::Ip(ip) => {
                check(*ip, policy)?;
                // A mapped literal is connected to as IPv4; text and `Host` then say the same.
                url.set_ip_host(*ip).map_err(|()| EndpointFault::BadUrl)?;
                policy.allows_network_of(*ip)
            }
        };
        let port = url.port_or_known_default().unwrap_or(0);
        if port == 0 || !(vouched || policy.opens_port(port)) {
            return Err(EndpointFault::Port { port });
        }
        if url.as_str().len() > MAX_ENDPOINT_BYTES {
            return Err(EndpointFault::TooLong);
        }
        Ok(Self { url, host, port, vouched })
    }

    /// Judges what the host's name resolved to, right before connecting to one of `answers`.
    ///
    /// For a name in the operator's `allow_hosts` everything passes but metadata addresses. For every other host all
    /// answers must pass [`check`](super::check).
    ///
    /// # Errors
    /// [`Denied`] for the first answer that fails; [`Denied::NoAddress`] if there is none.
    pub fn check_answers(&self, answers: &[IpAddr], policy: &Policy) -> Result<(), Denied> {
        match &self.host {
            Host::Name(name) if policy.vouches_for(name) && !answers.is_empty() => {
                answers.iter().try_for_each(|ip| check_not_metadata(*ip))
            }
            _ => check_all(answers, policy),
        }
    }

    /// `https` or, where the operator allows it, `http`.
    pub fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.scheme() == "https"
    }

    /// Whom to connect to. A name is also what SNI and the certificate check take.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The port to connect to, from 1 to 65535.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether the operator vouches for this host: a name in `allow_hosts` or a literal address in `allow_networks`.
    /// Such an endpoint needs no proof that the receiver wants the webhook (DESIGN section 6).
    pub const fn is_vouched(&self) -> bool {
        self.vouched
    }

    /// The request target in origin form (RFC 9112 3.2.1): path and query, visible ASCII only. May hold tokens.
    pub fn path_and_query(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// The value of the `Host` header (RFC 9110 7.2): host, and the port where it is not the scheme's own.
    pub fn host_header(&self) -> &str {
        &self.url[Position::BeforeHost..Position::BeforePath]
    }

    /// Scheme, host and port (RFC 6454): `https://a.example`, with the port where it is not the scheme's own.
    pub fn origin(&self) -> &str {
        &self.url[..Position::BeforePath]
    }

    /// The whole URL in canonical form: what is stored, and what makes two endpoints the same. May hold tokens: not
    /// for logs, which get `Display`.
    pub fn as_url(&self) -> &str {
        self.url.as_str()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme(), self.host, self.port)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

/// The rules on the raw text, before any parser reads it.
fn check_text(text: &str) -> Result<(), EndpointFault> {
    if text.len() > MAX_ENDPOINT_BYTES {
        return Err(EndpointFault::TooLong);
    }
    if let Some(at) = text.bytes().position(|b| !(0x21..=0x7e).contains(&b) || b == b'\\') {
        return Err(EndpointFault::Character { at });
    }
    // The WHATWG parser would also take "https:host", "https:/host" and "https:////host".
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(EndpointFault::Scheme);
    };
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return Err(EndpointFault::Scheme);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if authority.contains('@') {
        return Err(EndpointFault::UserInfo);
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(EndpointFault::NoHost);
    }
    if authority.contains('%') {
        return Err(EndpointFault::HostEscape);
    }
    Ok(())
}

/// The rules on a host name; whether the operator vouches for it.
fn check_name(name: &str, policy: &Policy) -> Result<bool, EndpointFault> {
    // Before the final dot, so that "metadata.goog." is named for what it is.
    let bare = name.strip_suffix('.').unwrap_or(name);
    if is_metadata_name(bare) {
        return Err(EndpointFault::MetadataName);
    }
    if bare.len() != name.len() {
        return Err(EndpointFault::FinalDot);
    }
    if !is_host_name(name) {
        return Err(EndpointFault::BadHost);
    }
    let vouched = policy.vouches_for(name);
    if is_internal_name(name) && !vouched {
        return Err(EndpointFault::InternalName);
    }
    Ok(vouched)
}

#[cfg(test)]
mod tests;
