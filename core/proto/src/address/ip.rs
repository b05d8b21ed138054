//! The verdict on an address.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use super::deny::{DENY_TABLE, DenyRow, GLOBAL_UNICAST_V6, METADATA_TABLE, MetadataRow};
use super::embed;
use super::policy::Policy;
use crate::delivery::Category;

/// Why an address is not connected to.
///
/// The message is the operator's: it names address and rule. The client that named the endpoint learns only
/// [`Denied::public_category`], else a refusal would tell what the network looks like from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denied {
    /// A cloud metadata service, or an address that carries one inside. No setting allows it.
    Metadata {
        /// The address as it was given.
        ip: IpAddr,
        /// The row of [`METADATA_TABLE`].
        row: &'static MetadataRow,
    },
    /// In a block of [`DENY_TABLE`] that the operator does not allow.
    Special {
        /// The address as it was given.
        ip: IpAddr,
        /// The row of [`DENY_TABLE`].
        row: &'static DenyRow,
    },
    /// The operator allows the IPv6 block, but the IPv4 address carried inside it is in a block of [`DENY_TABLE`].
    Embedded {
        /// The address as it was given.
        ip: IpAddr,
        /// The row of [`DENY_TABLE`] that the inner address is in.
        row: &'static DenyRow,
    },
    /// An IPv6 address outside `2000::/3`, the only space handed out as global unicast.
    NotGlobalUnicast {
        /// The address as it was given.
        ip: IpAddr,
    },
    /// There is no address at all: the check fails closed.
    NoAddress,
}

impl Denied {
    /// A stable machine-readable code: `metadata_address`, `special_address`, `embedded_address`,
    /// `not_global_unicast` or `no_address`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Metadata { .. } => "metadata_address",
            Self::Special { .. } => "special_address",
            Self::Embedded { .. } => "embedded_address",
            Self::NotGlobalUnicast { .. } => "not_global_unicast",
            Self::NoAddress => "no_address",
        }
    }

    /// What the client that named the endpoint may be told: the same as if the endpoint had refused the connection.
    pub const fn public_category(&self) -> Category {
        Category::ConnectionRefused
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata { ip, row } => {
                write!(f, "{ip} is or carries {}: {}; this is denied whatever is allowed", row.address, row.why)
            }
            Self::Special { ip, row } => {
                write!(f, "{ip} is in {}: {} ({})", row.network, row.why, row.source)
            }
            Self::Embedded { ip, row } => {
                write!(f, "{ip} carries an IPv4 address in {}: {} ({})", row.network, row.why, row.source)
            }
            Self::NotGlobalUnicast { ip } => write!(f, "{ip} is outside 2000::/3, the global unicast space of IPv6"),
            Self::NoAddress => f.write_str("the name has no address"),
        }
    }
}

impl core::error::Error for Denied {}

/// Judges one address by the tables and the operator's networks. Metadata first, then what the operator allows, then
/// the deny table, then the shape.
///
/// An IPv4-mapped address is judged as the IPv4 address it is. An IPv6 block that carries IPv4 addresses (NAT64, 6to4,
/// Teredo, IPv4-compatible) is denied; if the operator allows the block, as a host behind NAT64 must, the address
/// inside has to pass as well. A zone id cannot occur in an [`IpAddr`].
///
/// `policy.allow_hosts` plays no part here, as an address has no name: see [`super::Endpoint::check_answers`].
///
/// # Errors
/// [`Denied`] with the rule that matched.
pub fn check(ip: IpAddr, policy: &Policy) -> Result<(), Denied> {
    check_not_metadata(ip)?;
    let canonical = ip.to_canonical();
    let IpAddr::V6(v6) = canonical else {
        return check_table(ip, canonical, policy);
    };
    if !policy.allows_network_of(canonical) {
        return check_table(ip, canonical, policy);
    }
    match embed::translated(v6) {
        // `::1` and `::` fall into the IPv4-compatible block by their number but carry nothing.
        Some(inner) if !matches!(v6, Ipv6Addr::LOCALHOST | Ipv6Addr::UNSPECIFIED) => {
            check_table(ip, IpAddr::V4(inner), policy).map_err(|denied| match denied {
                Denied::Special { ip, row } => Denied::Embedded { ip, row },
                other => other,
            })
        }
        _ => Ok(()),
    }
}

/// Judges every answer of a lookup: all must pass, as the socket may go to any of them and a mixed answer is how
/// rebinding starts (field report B57). No answer fails closed.
///
/// # Errors
/// [`Denied`] for the first answer that fails, or [`Denied::NoAddress`].
pub fn check_all(answers: &[IpAddr], policy: &Policy) -> Result<(), Denied> {
    if answers.is_empty() {
        return Err(Denied::NoAddress);
    }
    answers.iter().try_for_each(|ip| check(*ip, policy))
}

/// The part of the rules that nothing lifts.
pub(super) fn check_not_metadata(ip: IpAddr) -> Result<(), Denied> {
    let canonical = ip.to_canonical();
    let carried = match canonical {
        IpAddr::V4(_) => [None; 6],
        IpAddr::V6(v6) => embed::candidates(v6),
    };
    let is_or_carries =
        |address: IpAddr| address == canonical || carried.iter().flatten().any(|inner| IpAddr::V4(*inner) == address);
    match METADATA_TABLE.iter().find(|row| is_or_carries(row.address)) {
        Some(row) => Err(Denied::Metadata { ip, row }),
        None => Ok(()),
    }
}

/// `judged` against the operator's networks and the deny table; `shown` is what the message names.
fn check_table(shown: IpAddr, judged: IpAddr, policy: &Policy) -> Result<(), Denied> {
    if policy.allows_network_of(judged) {
        return Ok(());
    }
    if let Some(row) = DENY_TABLE.iter().find(|row| row.network.contains(judged)) {
        return Err(Denied::Special { ip: shown, row });
    }
    if judged.is_ipv6() && !GLOBAL_UNICAST_V6.contains(judged) {
        return Err(Denied::NotGlobalUnicast { ip: shown });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::super::network::Network;
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn allowing(networks: &[&str]) -> Policy {
        let allow_networks = networks.iter().map(|n| Network::parse(n).unwrap()).collect();
        Policy { allow_networks, ..Policy::default() }
    }

    fn rows() -> Vec<DenyRow> {
        DENY_TABLE.to_vec()
    }

    /// Every way to write an IPv4 address as an IPv6 one.
    fn embeddings(v4: Ipv4Addr) -> Vec<Ipv6Addr> {
        let bits = u128::from(v4.to_bits());
        let [a, b, c, d] = v4.octets();
        let (hi, lo) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        vec![
            v4.to_ipv6_mapped(),
            Ipv6Addr::from_bits(bits),
            Ipv6Addr::from_bits(0xffff_0000_0000_0000 | bits),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, hi, lo),
            Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, hi, lo),
            Ipv6Addr::new(0x64, 0xff9b, 1, 7, 0, 0, hi, lo),
            Ipv6Addr::new(0x2002, hi, lo, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, 0x4136, 0xe378, 0x8000, 0x63bf, !hi, !lo),
        ]
    }

    fn last(network: Network) -> IpAddr {
        let ones = |bits: u32| u128::MAX.checked_shr(128 - bits).unwrap_or(0);
        match network.base() {
            IpAddr::V4(base) => {
                let host = ones(32 - u32::from(network.prefix())) as u32;
                IpAddr::V4(Ipv4Addr::from_bits(base.to_bits() | host))
            }
            IpAddr::V6(base) => {
                IpAddr::V6(Ipv6Addr::from_bits(base.to_bits() | ones(128 - u32::from(network.prefix()))))
            }
        }
    }

    #[test]
    fn every_row_denies_its_first_and_last_address_in_every_encoding() {
        for row in rows() {
            for address in [row.network.base(), last(row.network)] {
                assert!(check(address, &Policy::default()).is_err(), "{address} of {}", row.network);
                if let IpAddr::V4(v4) = address {
                    for inner in embeddings(v4) {
                        assert!(check(IpAddr::V6(inner), &Policy::default()).is_err(), "{inner} of {}", row.network);
                    }
                }
            }
        }
    }

    /// The rows that the reference page (section 6.2) lists, written down apart from the table.
    #[test]
    fn no_listed_block_is_missing() {
        for block in "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 \
             192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 \
             198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32 168.63.129.16/32 ::/128 \
             ::1/128 ::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:2::/48 \
             2001:10::/28 2001:20::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 \
             fe80::/10 fec0::/10 ff00::/8"
            .split_ascii_whitespace()
        {
            let network = Network::parse(block).unwrap();
            assert!(rows().iter().any(|row| row.network == network), "{block}");
        }
    }

    #[test]
    fn neighbours_of_the_blocks_are_reachable() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "93.184.216.34",
            "::ffff:93.184.216.34",
            "2000::",
            "2001:200::",
            "2001:db7:ffff::1",
            "2001:db9::",
            "2003::",
            "2606:4700:4700::1111",
            "2620:4f:8001::",
            "3ffe::1",
            "3fff:1000::",
        ] {
            assert_eq!(check(ip(address), &Policy::default()), Ok(()), "{address}");
        }
    }

    #[test]
    fn ipv6_outside_global_unicast_is_denied_without_a_row() {
        for address in ["1fff::1", "4000::1", "8000::1", "64:ff9b:2::1", "fbff::1", "fe00::1", "101::1"] {
            let denied = check(ip(address), &Policy::default()).unwrap_err();
            assert_eq!(denied, Denied::NotGlobalUnicast { ip: ip(address) });
        }
    }

    #[test]
    fn metadata_stays_denied_when_everything_is_allowed() {
        let everything = allowing(&["0.0.0.0/0", "::/0"]);
        assert_eq!(check(ip("10.0.0.1"), &everything), Ok(()), "the policy does allow");
        for row in METADATA_TABLE {
            let mut addresses = vec![row.address];
            if let IpAddr::V4(v4) = row.address {
                addresses.extend(embeddings(v4).into_iter().map(IpAddr::V6));
                let [a, b, c, d] = v4.octets();
                let (hi, lo) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                // An operator's own NAT64 prefix, and IPv6 metadata by OpenStack's custom (fe80::a9fe:a9fe).
                addresses.push(IpAddr::V6(Ipv6Addr::new(0xfd64, 1, 2, 3, 0, 0, hi, lo)));
                addresses.push(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, hi, lo)));
            }
            for address in addresses {
                let denied = check(address, &everything).unwrap_err();
                assert_eq!(denied.code(), "metadata_address", "{address}");
                assert_eq!(denied, check(address, &Policy::default()).unwrap_err(), "{address}");
            }
        }
    }

    #[test]
    fn every_metadata_address_of_the_design_is_listed() {
        for address in
            ["169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"]
        {
            assert!(METADATA_TABLE.iter().any(|row| row.address == ip(address)), "{address}");
        }
    }

    #[test]
    fn the_operator_opens_networks_and_only_those() {
        let policy = allowing(&["10.1.0.0/16", "::1", "fd12::/16"]);
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "::1", "fd12::5"] {
            assert_eq!(check(ip(address), &policy), Ok(()), "{address}");
        }
        for address in ["10.2.0.1", "127.0.0.1", "fd13::5", "64:ff9b::10.1.2.3", "::10.1.2.3", "2002:a01:203::1"] {
            assert!(check(ip(address), &policy).is_err(), "{address}");
        }
    }

    #[test]
    fn an_allowed_translation_block_still_checks_the_address_inside() {
        let nat64 = allowing(&["64:ff9b::/96"]);
        assert_eq!(check(ip("64:ff9b::93.184.216.34"), &nat64), Ok(()));
        let denied = check(ip("64:ff9b::10.0.0.5"), &nat64).unwrap_err();
        assert_eq!(denied.code(), "embedded_address");
        assert_eq!(denied.to_string(), "64:ff9b::a00:5 carries an IPv4 address in 10.0.0.0/8: private use (RFC 1918)");
        assert_eq!(check(ip("64:ff9b::10.0.0.5"), &allowing(&["64:ff9b::/96", "10.0.0.0/8"])), Ok(()));
        assert!(check(ip("2002:7f00:1::1"), &allowing(&["2002::/16"])).is_err());
        assert!(check(ip("2001:0:1:2:3:4:80ff:fffe"), &allowing(&["2001::/32"])).is_err(), "Teredo to 127.0.0.1");
    }

    #[test]
    fn every_answer_must_pass_and_none_fails_closed() {
        let policy = Policy::default();
        assert_eq!(check_all(&[], &policy), Err(Denied::NoAddress));
        assert_eq!(check_all(&[ip("93.184.216.34"), ip("2606:4700::1")], &policy), Ok(()));
        let mixed = check_all(&[ip("93.184.216.34"), ip("10.0.0.5")], &policy).unwrap_err();
        assert_eq!(mixed.code(), "special_address");
        assert_eq!(mixed.public_category(), Category::ConnectionRefused);
    }

    #[test]
    fn messages_name_address_and_rule() {
        let message = |text: &str| check(ip(text), &Policy::default()).unwrap_err().to_string();
        assert_eq!(message("127.0.0.1"), "127.0.0.1 is in 127.0.0.0/8: loopback (RFC 1122 3.2.1.3)");
        assert!(message("::ffff:169.254.169.254").contains("169.254.169.254: instance metadata"));
        assert_eq!(message("4000::"), "4000:: is outside 2000::/3, the global unicast space of IPv6");
    }

    #[test]
    fn the_first_matching_row_is_the_narrowest() {
        for (i, row) in rows().iter().enumerate() {
            for later in &rows()[i + 1..] {
                let hidden =
                    row.network.contains(later.network.base()) && row.network.prefix() < later.network.prefix();
                assert!(!hidden, "{} hides {}", row.network, later.network);
            }
        }
    }

    proptest! {
        #[test]
        fn no_embedding_of_any_ipv4_address_but_the_mapped_one_is_allowed(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            for inner in embeddings(v4) {
                let verdict = check(IpAddr::V6(inner), &Policy::default());
                if inner.to_ipv4_mapped().is_some() {
                    prop_assert_eq!(verdict.is_ok(), check(IpAddr::V4(v4), &Policy::default()).is_ok());
                } else {
                    prop_assert!(verdict.is_err(), "{}", inner);
                }
            }
        }

        #[test]
        fn what_passes_is_global_by_the_standard_library_too(bits: u128, v4: u32) {
            let v6 = Ipv6Addr::from_bits(bits);
            if check(IpAddr::V6(v6), &Policy::default()).is_ok() && v6.to_ipv4_mapped().is_none() {
                prop_assert!(!v6.is_loopback() && !v6.is_multicast() && !v6.is_unique_local());
                prop_assert!(!v6.is_unspecified() && !v6.is_unicast_link_local());
                prop_assert_eq!(v6.segments()[0] >> 13, 1);
            }
            let v4 = Ipv4Addr::from_bits(v4);
            if check(IpAddr::V4(v4), &Policy::default()).is_ok() {
                prop_assert!(!v4.is_loopback() && !v4.is_multicast() && !v4.is_private() && !v4.is_link_local());
                prop_assert!(!v4.is_unspecified() && !v4.is_broadcast() && !v4.is_documentation());
            }
        }
    }
}
