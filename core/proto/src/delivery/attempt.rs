//! What one attempt came to.

use core::fmt;

/// The category of a failure: all that is recorded of an attempt besides its time.
///
/// The first five names are those of SEP-3415 `lastError`. Never an endpoint's own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Category {
    /// Nobody listens there, the way is closed, or the connection broke before an answer.
    ConnectionRefused,
    /// The attempt took longer than it may: lookup, connection, headers and body together.
    Timeout,
    /// The TLS handshake or the certificate failed.
    TlsError,
    /// A 4xx answer.
    Http4xx,
    /// A 5xx answer.
    Http5xx,
    /// A 3xx answer; never followed.
    Http3xx,
    /// An answer that is no HTTP, or has a status outside 200 to 599.
    ProtocolError,
    /// The head of the answer is longer than is read. A body that is too long is cut and no failure: the status decides.
    ResponseTooLarge,
    /// The name has no address.
    DnsError,
    /// The address rules refused where the name leads to.
    Denied,
    /// The receiver did not prove that it wants this webhook.
    ChallengeFailed,
    /// The endpoint said 410 before and takes nothing from this principal until it is verified again.
    EndpointDisabled,
    /// The worker died or was stopped during the attempt, so its outcome is unknown.
    Interrupted,
    /// Our own rate limit, concurrency cap or breaker: no attempt was made.
    RateLimited,
    /// The deadline passed before any attempt came to something.
    Deadline,
    /// Nobody in the host takes it: the session is gone, or there is no such handler any more.
    Unreachable,
    /// The host's handler refused it.
    Refused,
    /// The host's handler failed.
    HandlerFailed,
    /// The peer does not wait for the signal, which would end it.
    PeerNotReady,
    /// The operator's egress proxy cannot be reached, or refuses to connect. Says nothing of the endpoint.
    ProxyError,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 20] = [
        Self::ConnectionRefused,
        Self::Timeout,
        Self::TlsError,
        Self::Http4xx,
        Self::Http5xx,
        Self::Http3xx,
        Self::ProtocolError,
        Self::ResponseTooLarge,
        Self::DnsError,
        Self::Denied,
        Self::ChallengeFailed,
        Self::EndpointDisabled,
        Self::Interrupted,
        Self::RateLimited,
        Self::Deadline,
        Self::Unreachable,
        Self::Refused,
        Self::HandlerFailed,
        Self::PeerNotReady,
        Self::ProxyError,
    ];

    /// The stable text that is stored and shown to the operator.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConnectionRefused => "connection_refused",
            Self::Timeout => "timeout",
            Self::TlsError => "tls_error",
            Self::Http4xx => "http_4xx",
            Self::Http5xx => "http_5xx",
            Self::Http3xx => "http_3xx",
            Self::ProtocolError => "protocol_error",
            Self::ResponseTooLarge => "response_too_large",
            Self::DnsError => "dns_error",
            Self::Denied => "denied",
            Self::ChallengeFailed => "challenge_failed",
            Self::EndpointDisabled => "endpoint_disabled",
            Self::Interrupted => "interrupted",
            Self::RateLimited => "rate_limited",
            Self::Deadline => "deadline",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::HandlerFailed => "handler_failed",
            Self::PeerNotReady => "peer_not_ready",
            Self::ProxyError => "proxy_error",
        }
    }

    /// The category of a stored text, or none.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == text)
    }

    /// What the client that named the endpoint may be told. A denied address, a name without address and a proxy that lets
    /// nothing through look like a refused connection, else the answers would map the server's own network and its internal
    /// names.
    pub const fn public(self) -> Self {
        match self {
            Self::Denied | Self::DnsError | Self::ProxyError => Self::ConnectionRefused,
            other => other,
        }
    }

    /// Whether no further attempt on the same route can come to anything else.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::EndpointDisabled | Self::Unreachable | Self::Refused | Self::PeerNotReady)
    }

    /// The category of an answer, or none for 2xx.
    pub const fn of_status(status: u16) -> Option<Self> {
        match status {
            200..=299 => None,
            300..=399 => Some(Self::Http3xx),
            400..=499 => Some(Self::Http4xx),
            500..=599 => Some(Self::Http5xx),
            _ => Some(Self::ProtocolError),
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome<'a> {
    /// The endpoint answered.
    Response {
        /// The status of the answer.
        status: u16,
        /// The value of its `Retry-After` header, as it came.
        retry_after: Option<&'a str>,
    },
    /// The host's handler took it.
    Confirmed,
    /// There was no answer, or none that counts.
    Failed(Category),
}

impl AttemptOutcome<'_> {
    /// The category of the failure, or none for a delivery.
    pub const fn category(&self) -> Option<Category> {
        match self {
            Self::Response { status, .. } => Category::of_status(*status),
            Self::Confirmed => None,
            Self::Failed(category) => Some(*category),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_stable_and_read_back() {
        let texts = Category::ALL.map(Category::as_str);
        assert_eq!(
            texts.join(" "),
            "connection_refused timeout tls_error http_4xx http_5xx http_3xx protocol_error response_too_large \
             dns_error denied challenge_failed endpoint_disabled interrupted rate_limited deadline unreachable refused \
             handler_failed peer_not_ready proxy_error"
        );
        for category in Category::ALL {
            assert_eq!(Category::from_text(category.as_str()), Some(category));
        }
        assert_eq!(Category::from_text("http_404"), None);
    }

    #[test]
    fn clients_cannot_tell_a_denied_address_from_a_closed_port() {
        for category in [Category::Denied, Category::DnsError, Category::ProxyError, Category::ConnectionRefused] {
            assert_eq!(category.public(), Category::ConnectionRefused);
        }
        assert_eq!(Category::Timeout.public(), Category::Timeout);
        assert_eq!(Category::Http5xx.public(), Category::Http5xx);
    }

    #[test]
    fn statuses_fall_into_categories() {
        for (status, want) in [
            (0, Some(Category::ProtocolError)),
            (100, Some(Category::ProtocolError)),
            (199, Some(Category::ProtocolError)),
            (200, None),
            (299, None),
            (300, Some(Category::Http3xx)),
            (400, Some(Category::Http4xx)),
            (499, Some(Category::Http4xx)),
            (500, Some(Category::Http5xx)),
            (599, Some(Category::Http5xx)),
            (600, Some(Category::ProtocolError)),
            (u16::MAX, Some(Category::ProtocolError)),
        ] {
            assert_eq!(Category::of_status(status), want, "{status}");
        }
    }
}
