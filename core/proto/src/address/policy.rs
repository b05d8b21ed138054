//! What the operator allows beyond the defaults.

use core::fmt;
use core::net::IpAddr;

use super::network::Network;

/// The operator's settings for webhook addresses. The default is the safe one: `https`, port 443, public addresses.
///
/// Rules that hold together:
///
/// - **Ports.** 443 and `allow_ports` for everyone. Any port where the operator vouched for the host itself: a name in
///   `allow_hosts`, or a literal address inside `allow_networks` (so a development server on `http://127.0.0.1:5000`
///   needs `allow_http` and `127.0.0.0/8`). A *name* that merely resolves into an allowed network gets no extra port,
///   as names belong to whoever controls their DNS. Port 80 is no exception: list it.
/// - **Hosts.** A vouched name may be one that is denied by its form (`localhost`, `db.internal`) and may resolve to
///   private addresses.
/// - **Never.** Metadata names and addresses stay denied whatever stands here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Blocks that may be posted to although the deny table holds them.
    pub allow_networks: Vec<Network>,
    /// Exact host names that the operator vouches for, without scheme, port or final dot; case does not matter.
    pub allow_hosts: Vec<String>,
    /// Accepts `http` endpoints too: for development, as body and headers then travel in the clear.
    pub allow_http: bool,
    /// Ports open to every host, besides 443.
    pub allow_ports: Vec<u16>,
}

/// An entry of a [`Policy`] that cannot mean what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyFault {
    /// `allow_hosts` holds something that is no plain host name and so could never match.
    Host {
        /// The entry as written.
        entry: String,
    },
    /// `allow_hosts` holds a literal address: those belong to `allow_networks`.
    HostIsAddress {
        /// The entry as written.
        entry: String,
    },
    /// `allow_hosts` names a metadata service, which nothing allows.
    HostIsMetadata {
        /// The entry as written.
        entry: String,
    },
    /// `allow_ports` holds 0, which is no port to connect to.
    PortZero,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { entry } => {
                write!(
                    f,
                    "allow_hosts: {entry:?} is no host name (write it without scheme, port, wildcard or final dot)"
                )
            }
            Self::HostIsAddress { entry } => {
                write!(f, "allow_hosts: {entry:?} is an address: put it into allow_networks")
            }
            Self::HostIsMetadata { entry } => {
                write!(f, "allow_hosts: {entry:?} is a cloud metadata service, which no setting allows")
            }
            Self::PortZero => f.write_str("allow_ports: 0 is no port"),
        }
    }
}

impl core::error::Error for PolicyFault {}

impl Policy {
    /// Checks that every entry can take effect, so that a typing error shows at start and not as a refused webhook.
    ///
    /// # Errors
    /// The first entry that cannot mean what was written.
    pub fn validate(&self) -> Result<(), PolicyFault> {
        for entry in &self.allow_hosts {
            let entry = || entry.clone();
            match url::Host::parse(&entry()) {
                Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) => {
                    return Err(PolicyFault::HostIsAddress { entry: entry() });
                }
                Ok(url::Host::Domain(name)) if name.eq_ignore_ascii_case(&entry()) && is_host_name(&name) => {
                    if is_metadata_name(&name) {
                        return Err(PolicyFault::HostIsMetadata { entry: entry() });
                    }
                }
                _ if entry().parse::<IpAddr>().is_ok() => return Err(PolicyFault::HostIsAddress { entry: entry() }),
                _ => return Err(PolicyFault::Host { entry: entry() }),
            }
        }
        if self.allow_ports.contains(&0) { Err(PolicyFault::PortZero) } else { Ok(()) }
    }

    /// Whether the operator vouches for the host name `name` (lower case, no final dot). Metadata names never.
    pub(super) fn vouches_for(&self, name: &str) -> bool {
        !is_metadata_name(name) && self.allow_hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    /// Whether `ip` (already canonical) lies in an allowed network.
    pub(super) fn allows_network_of(&self, ip: IpAddr) -> bool {
        self.allow_networks.iter().any(|network| network.contains(ip))
    }

    /// Whether every host may be reached on `port`.
    pub(super) fn opens_port(&self, port: u16) -> bool {
        port == 443 || self.allow_ports.contains(&port)
    }
}

/// Names under which a cloud's metadata service answers. Denied whatever is allowed, as are their addresses.
pub(super) fn is_metadata_name(name: &str) -> bool {
    ["metadata.google.internal", "metadata.goog"].iter().any(|denied| name.eq_ignore_ascii_case(denied))
}

/// Names that mean this machine or this network by their form: RFC 6761 (`localhost`), RFC 6762 (`.local`), ICANN's
/// reservation of `.internal`.
pub(super) fn is_internal_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    ["localhost", "internal", "local"].iter().any(|denied| last.eq_ignore_ascii_case(denied))
}

/// A host name that DNS can carry: labels of 1 to 63 letters, digits, `-` and `_`, 253 bytes in all (RFC 1035 2.3.4),
/// without a final dot. `_` is no letter of host names but is in use; anything else never reaches a resolver.
pub(super) fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(hosts: &[&str]) -> Policy {
        Policy { allow_hosts: hosts.iter().map(ToString::to_string).collect(), ..Policy::default() }
    }

    #[test]
    fn entries_that_cannot_match_are_named() {
        for good in ["localhost", "Hooks.Internal", "a.example", "xn--bcher-kva.example", "my_host", "kubernetes"] {
            assert_eq!(hosts(&[good]).validate(), Ok(()), "{good}");
        }
        for bad in [
            "",
            "https://a.example",
            "a.example:8443",
            "*.example",
            "a.example.",
            "a..example",
            "a b",
            "bücher.example",
            "a.example/hook",
            "%61.example",
        ] {
            let entry = bad.to_string();
            assert_eq!(hosts(&["a.example", bad]).validate(), Err(PolicyFault::Host { entry }), "{bad}");
        }
        for address in ["10.0.0.5", "::1", "[::1]", "2130706433", "0x7f.1"] {
            let entry = address.to_string();
            assert_eq!(hosts(&[address]).validate(), Err(PolicyFault::HostIsAddress { entry }), "{address}");
        }
        for metadata in ["metadata.google.internal", "METADATA.GOOG"] {
            let entry = metadata.to_string();
            assert_eq!(hosts(&[metadata]).validate(), Err(PolicyFault::HostIsMetadata { entry }), "{metadata}");
        }
        let zero = Policy { allow_ports: vec![8443, 0], ..Policy::default() };
        assert_eq!(zero.validate(), Err(PolicyFault::PortZero));
    }

    #[test]
    fn a_metadata_name_cannot_be_vouched_for() {
        let policy = hosts(&["metadata.google.internal", "LOCALHOST"]);
        assert!(!policy.vouches_for("metadata.google.internal"));
        assert!(policy.vouches_for("localhost"));
        assert!(!policy.vouches_for("a.localhost"));
    }

    #[test]
    fn internal_names_are_told_by_their_last_label() {
        for name in ["localhost", "a.localhost", "db.internal", "internal", "printer.local", "local", "A.LOCAL"] {
            assert!(is_internal_name(name), "{name}");
        }
        for name in ["localhost.example", "internal.example", "mylocalhost", "local.example", "notlocal"] {
            assert!(!is_internal_name(name), "{name}");
        }
    }
}
