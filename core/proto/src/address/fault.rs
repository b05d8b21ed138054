//! Why an endpoint is not accepted.

use core::fmt;

use super::endpoint::MAX_ENDPOINT_BYTES;
use super::ip::Denied;
use crate::delivery::Category;

/// Why a text is not accepted as a webhook endpoint.
///
/// The message names the rule and never repeats path, query or user name, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointFault {
    /// Longer than [`MAX_ENDPOINT_BYTES`], as written or in canonical form.
    TooLong,
    /// Holds a byte that no URL holds: a control character, a blank, a backslash, or anything outside ASCII. Parsers
    /// disagree on these, and CR or LF would end up in the request.
    Character {
        /// Where it stands, in bytes from the front.
        at: usize,
    },
    /// Does not begin with `https://` (or `http://`).
    Scheme,
    /// `http`, and the operator does not allow it.
    PlainHttp,
    /// Holds a user name or password before the host.
    UserInfo,
    /// Holds a fragment, which is never sent.
    Fragment,
    /// The host has a `%`: an escape that hides its name, or an IPv6 zone id, which only means something on one host.
    HostEscape,
    /// There is no host.
    NoHost,
    /// The host is neither an address nor a name that DNS can carry.
    BadHost,
    /// The host name ends in a dot: one receiver must not have two names.
    FinalDot,
    /// Not a URL for another reason, such as a port over 65535.
    BadUrl,
    /// The port is not open to this host.
    Port {
        /// The port that the endpoint names or implies.
        port: u16,
    },
    /// The name means this machine or this network: `localhost`, `*.localhost`, `*.internal`, `*.local`.
    InternalName,
    /// The name is a cloud metadata service. No setting allows it.
    MetadataName,
    /// The host is an address that is denied.
    Denied(Denied),
}

impl EndpointFault {
    /// A stable machine-readable code, such as `port` or, for a denied address, the code of [`Denied`].
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Character { .. } => "character",
            Self::Scheme => "scheme",
            Self::PlainHttp => "plain_http",
            Self::UserInfo => "user_info",
            Self::Fragment => "fragment",
            Self::HostEscape => "host_escape",
            Self::NoHost => "no_host",
            Self::BadHost => "bad_host",
            Self::FinalDot => "final_dot",
            Self::BadUrl => "bad_url",
            Self::Port { .. } => "port",
            Self::InternalName => "internal_name",
            Self::MetadataName => "metadata_name",
            Self::Denied(denied) => denied.code(),
        }
    }

    /// What a client may be told of an endpoint that was accepted once and is refused when an attempt is made (the
    /// operator's settings changed since): the same as if the endpoint had refused the connection.
    pub const fn public_category(&self) -> Category {
        Category::ConnectionRefused
    }
}

impl fmt::Display for EndpointFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "longer than {MAX_ENDPOINT_BYTES} bytes"),
            Self::Character { at } => write!(
                f,
                "byte {at} is a control character, a blank, a backslash or not ASCII (percent-encode paths, write \
                 international names as xn--)"
            ),
            Self::Scheme => f.write_str("must begin with https://"),
            Self::PlainHttp => f.write_str("http is not allowed here: use https"),
            Self::UserInfo => f.write_str("must not hold a user name or password: use a header"),
            Self::Fragment => f.write_str("must not hold a fragment (#)"),
            Self::HostEscape => f.write_str("the host must not hold a % (an escape or a zone id)"),
            Self::NoHost => f.write_str("has no host"),
            Self::BadHost => f.write_str("the host is neither an address nor a host name"),
            Self::FinalDot => f.write_str("the host name must not end in a dot"),
            Self::BadUrl => f.write_str("not a URL"),
            Self::Port { port } => write!(f, "port {port} is not allowed for this host"),
            Self::InternalName => {
                f.write_str("names under localhost, internal and local are not allowed unless the operator lists them")
            }
            Self::MetadataName => f.write_str("this name is a cloud metadata service and is never allowed"),
            Self::Denied(denied) => write!(f, "the address is not allowed: {denied}"),
        }
    }
}

impl core::error::Error for EndpointFault {}

impl From<Denied> for EndpointFault {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}
