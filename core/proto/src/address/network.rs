//! A block of addresses in CIDR notation.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// A block of IP addresses, `10.0.0.0/8` or `fd00::/8` (RFC 4632, RFC 4291 2.3).
///
/// The host bits are always zero, so two networks are equal if and only if they hold the same addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

/// Why a text is not a [`Network`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkFault {
    /// The part before the slash is no IPv4 or IPv6 address.
    Address,
    /// The part after the slash is no plain decimal number within the family's length.
    Prefix {
        /// The longest prefix of this address family: 32 or 128.
        max: u8,
    },
    /// The address has bits set beyond the prefix, so it is unclear which block is meant.
    HostBits {
        /// The block that the prefix alone would give.
        meant: Network,
    },
    /// An IPv4-mapped IPv6 block: rules for IPv4 are written, and looked up, as IPv4.
    Mapped,
}

impl fmt::Display for NetworkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("not an IP address or CIDR block such as 10.0.0.0/8"),
            Self::Prefix { max } => write!(f, "the prefix length must be a number from 0 to {max}"),
            Self::HostBits { meant } => write!(f, "the address has bits beyond the prefix; did you mean {meant}?"),
            Self::Mapped => f.write_str("an IPv4-mapped block: write it as an IPv4 block"),
        }
    }
}

impl core::error::Error for NetworkFault {}

impl Network {
    /// An IPv4 block; bits beyond `prefix` are cleared and a `prefix` over 32 counts as 32.
    pub const fn v4(base: Ipv4Addr, prefix: u8) -> Self {
        let prefix = if prefix > 32 { 32 } else { prefix };
        let mask = match u32::MAX.checked_shl(32 - prefix as u32) {
            Some(mask) => mask,
            None => 0,
        };
        Self { base: IpAddr::V4(Ipv4Addr::from_bits(base.to_bits() & mask)), prefix }
    }

    /// An IPv6 block; bits beyond `prefix` are cleared and a `prefix` over 128 counts as 128.
    pub const fn v6(base: Ipv6Addr, prefix: u8) -> Self {
        let prefix = if prefix > 128 { 128 } else { prefix };
        let mask = match u128::MAX.checked_shl(128 - prefix as u32) {
            Some(mask) => mask,
            None => 0,
        };
        Self { base: IpAddr::V6(Ipv6Addr::from_bits(base.to_bits() & mask)), prefix }
    }

    /// The block of the one address `ip`.
    pub const fn single(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::v4(ip, 32),
            IpAddr::V6(ip) => Self::v6(ip, 128),
        }
    }

    /// Reads `address/prefix`, or a bare address as the block of that one address.
    ///
    /// # Errors
    /// A [`NetworkFault`] that says what is wrong; nothing is guessed or rounded.
    pub fn parse(text: &str) -> Result<Self, NetworkFault> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let ip: IpAddr = address.parse().map_err(|_| NetworkFault::Address)?;
        if matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
            return Err(NetworkFault::Mapped);
        }
        let max = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => max,
            Some(digits) => prefix_length(digits, max).ok_or(NetworkFault::Prefix { max })?,
        };
        let network = match ip {
            IpAddr::V4(ip) => Self::v4(ip, prefix),
            IpAddr::V6(ip) => Self::v6(ip, prefix),
        };
        if network.base != ip {
            return Err(NetworkFault::HostBits { meant: network });
        }
        Ok(network)
    }

    /// Whether `ip` lies in the block. Families never match each other: unwrap a mapped address first.
    pub const fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, ip) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                Self::same_prefix(base.to_bits() as u128, ip.to_bits() as u128, 32 - self.prefix as u32)
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                Self::same_prefix(base.to_bits(), ip.to_bits(), 128 - self.prefix as u32)
            }
            _ => false,
        }
    }

    const fn same_prefix(a: u128, b: u128, host_bits: u32) -> bool {
        match (a ^ b).checked_shr(host_bits) {
            Some(differing) => differing == 0,
            None => true,
        }
    }

    /// The first address of the block.
    pub const fn base(&self) -> IpAddr {
        self.base
    }

    /// The prefix length in bits.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }
}

fn prefix_length(digits: &str, max: u8) -> Option<u8> {
    // `parse` alone would take "+8" and "008".
    let plain = (1..=3).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    let length: u8 = if plain { digits.parse().ok()? } else { return None };
    (length <= max).then_some(length)
}

impl FromStr for Network {
    type Err = NetworkFault;

    fn from_str(text: &str) -> Result<Self, NetworkFault> {
        Self::parse(text)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn holds_exactly_its_block() {
        // (block, inside, outside)
        for (block, inside, outside) in [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            ("172.16.0.0/12", ["172.16.0.0", "172.31.255.255"], ["172.15.255.255", "172.32.0.0"]),
            ("192.0.2.7", ["192.0.2.7", "192.0.2.7"], ["192.0.2.6", "192.0.2.8"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "::ffff:1.2.3.4"]),
            ("::/0", ["::", "ffff::"], ["0.0.0.0", "10.0.0.1"]),
            ("fc00::/7", ["fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], ["fbff::", "fe00::"]),
            ("2001:db8::/33", ["2001:db8::", "2001:db8:7fff::"], ["2001:db8:8000::", "2001:db7:ffff::"]),
            ("::1/128", ["::1", "::1"], ["::", "::2"]),
        ] {
            let network = Network::parse(block).unwrap();
            for address in inside {
                assert!(network.contains(ip(address)), "{block} holds {address}");
            }
            for address in outside {
                assert!(!network.contains(ip(address)), "{block} does not hold {address}");
            }
        }
    }

    #[test]
    fn refuses_what_is_unclear() {
        let host_bits = |meant| NetworkFault::HostBits { meant: Network::parse(meant).unwrap() };
        for (text, want) in [
            ("", NetworkFault::Address),
            ("localhost", NetworkFault::Address),
            ("10.0.0", NetworkFault::Address),
            ("010.0.0.0/8", NetworkFault::Address),
            (" 10.0.0.0/8", NetworkFault::Address),
            ("[::1]", NetworkFault::Address),
            ("fe80::1%eth0", NetworkFault::Address),
            ("10.0.0.0/", NetworkFault::Prefix { max: 32 }),
            ("10.0.0.0/33", NetworkFault::Prefix { max: 32 }),
            ("10.0.0.0/+8", NetworkFault::Prefix { max: 32 }),
            ("10.0.0.0/08", NetworkFault::Prefix { max: 32 }),
            ("10.0.0.0/8/8", NetworkFault::Prefix { max: 32 }),
            ("10.0.0.0/255.0.0.0", NetworkFault::Prefix { max: 32 }),
            ("fd00::/129", NetworkFault::Prefix { max: 128 }),
            ("fd00::/99999999999", NetworkFault::Prefix { max: 128 }),
            ("10.1.2.3/8", host_bits("10.0.0.0/8")),
            ("fd00::1/8", host_bits("fd00::/8")),
            ("::ffff:10.0.0.0/104", NetworkFault::Mapped),
            ("::ffff:10.0.0.1", NetworkFault::Mapped),
        ] {
            assert_eq!(Network::parse(text), Err(want), "{text}");
        }
        assert_eq!(
            Network::parse("10.1.2.3/8").unwrap_err().to_string(),
            "the address has bits beyond the prefix; did you mean 10.0.0.0/8?"
        );
    }

    #[test]
    fn shows_itself_as_it_is_read() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "fd00::/8", "127.0.0.1/32", "::1/128"] {
            assert_eq!(Network::parse(text).unwrap().to_string(), text);
        }
    }
}
