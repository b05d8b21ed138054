//! The deny table and the metadata table, as data.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::network::Network;

/// One block of addresses that no webhook goes to unless the operator allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenyRow {
    /// The block.
    pub network: Network,
    /// What the block is for, in a few words.
    pub why: &'static str,
    /// The document that says so.
    pub source: &'static str,
}

/// One address where a cloud hands instance credentials to whoever asks: denied whatever the operator allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataRow {
    /// The address.
    pub address: IpAddr,
    /// Whose service answers there.
    pub why: &'static str,
}

const fn v4(octets: [u8; 4], prefix: u8, why: &'static str, source: &'static str) -> DenyRow {
    let [a, b, c, d] = octets;
    DenyRow { network: Network::v4(Ipv4Addr::new(a, b, c, d), prefix), why, source }
}

const fn v6(segments: [u16; 8], prefix: u8, why: &'static str, source: &'static str) -> DenyRow {
    let [a, b, c, d, e, f, g, h] = segments;
    DenyRow { network: Network::v6(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix), why, source }
}

/// Every block that is denied by default, IPv4 first.
///
/// The IANA IPv4 and IPv6 special-purpose address registries, the multicast and reserved space, deprecated blocks
/// that a host may still route, and all prefixes that carry an IPv4 address inside. Some rows are globally reachable
/// by the registry (AS112, AMT): nobody receives webhooks there, and denying them costs nothing. Where rows overlap,
/// the first match names the reason, so the narrower row stands first.
///
/// An IPv4-mapped address (`::ffff:0:0/96`) has no row: it is unwrapped and judged as the IPv4 address it is.
pub const DENY_TABLE: &[DenyRow] = &[
    v4([0, 0, 0, 0], 8, "this host on this network", "RFC 791 3.2"),
    v4([10, 0, 0, 0], 8, "private use", "RFC 1918"),
    v4([100, 64, 0, 0], 10, "shared address space of carriers", "RFC 6598"),
    v4([127, 0, 0, 0], 8, "loopback", "RFC 1122 3.2.1.3"),
    v4([169, 254, 0, 0], 16, "link-local", "RFC 3927"),
    v4([172, 16, 0, 0], 12, "private use", "RFC 1918"),
    v4([192, 0, 0, 0], 24, "IETF protocol assignments", "RFC 6890 2.1"),
    v4([192, 0, 2, 0], 24, "documentation (TEST-NET-1)", "RFC 5737"),
    v4([192, 31, 196, 0], 24, "AS112", "RFC 7535"),
    v4([192, 52, 193, 0], 24, "automatic multicast tunnelling", "RFC 7450"),
    v4([192, 88, 99, 0], 24, "6to4 relay anycast, deprecated", "RFC 7526"),
    v4([192, 168, 0, 0], 16, "private use", "RFC 1918"),
    v4([192, 175, 48, 0], 24, "AS112 direct delegation", "RFC 7534"),
    v4([198, 18, 0, 0], 15, "benchmarking", "RFC 2544"),
    v4([198, 51, 100, 0], 24, "documentation (TEST-NET-2)", "RFC 5737"),
    v4([203, 0, 113, 0], 24, "documentation (TEST-NET-3)", "RFC 5737"),
    v4([224, 0, 0, 0], 4, "multicast", "RFC 5771"),
    v4([255, 255, 255, 255], 32, "limited broadcast", "RFC 919"),
    v4([240, 0, 0, 0], 4, "reserved", "RFC 1112 4"),
    // Globally routable by its number, yet answered by the host the virtual machine runs on.
    v4([168, 63, 129, 16], 32, "Azure's host node", "Azure: What is IP address 168.63.129.16?"),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, "unspecified address", "RFC 4291 2.5.2"),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback", "RFC 4291 2.5.3"),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, "IPv4-compatible, deprecated", "RFC 4291 2.5.5.1"),
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "IPv4-translated", "RFC 7915"),
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, "NAT64, carries an IPv4 address", "RFC 6052"),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "local-use NAT64, carries an IPv4 address", "RFC 8215"),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard only", "RFC 6666"),
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, "dummy prefix", "RFC 9780"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "Teredo, carries an IPv4 address", "RFC 4380"),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, "benchmarking", "RFC 5180"),
    v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28, "ORCHID, deprecated", "RFC 4843"),
    v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, "ORCHIDv2", "RFC 7343"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "IETF protocol assignments", "RFC 2928"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation", "RFC 3849"),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "6to4, carries an IPv4 address", "RFC 3056"),
    v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, "AS112 direct delegation", "RFC 7534"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation", "RFC 9637"),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment routing SIDs", "RFC 9602"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "unique local", "RFC 4193"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local", "RFC 4291 2.5.6"),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local, deprecated", "RFC 3879"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast", "RFC 4291 2.7"),
];

/// The only IPv6 space handed out as global unicast (IANA IPv6 address space registry); the rest is denied.
pub(super) const GLOBAL_UNICAST_V6: Network = Network::v6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const fn m4(octets: [u8; 4], why: &'static str) -> MetadataRow {
    let [a, b, c, d] = octets;
    MetadataRow { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), why }
}

const fn m6(segments: [u16; 8], why: &'static str) -> MetadataRow {
    let [a, b, c, d, e, f, g, h] = segments;
    MetadataRow { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), why }
}

/// Every address that stays denied whatever the operator allows. Each is named by its vendor's documentation.
pub const METADATA_TABLE: &[MetadataRow] = &[
    m4([169, 254, 169, 254], "instance metadata of AWS, Google Cloud, Azure, Oracle, OpenStack and others"),
    m4([169, 254, 170, 2], "AWS ECS task credentials"),
    m4([169, 254, 170, 23], "AWS EKS Pod Identity credentials"),
    m4([169, 254, 42, 42], "Scaleway instance metadata"),
    m4([169, 254, 0, 23], "Tencent Cloud instance metadata"),
    m4([100, 100, 100, 200], "Alibaba Cloud instance metadata"),
    m4([192, 0, 0, 192], "Oracle Cloud Classic instance metadata"),
    m4([168, 63, 129, 16], "Azure host node"),
    m6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], "AWS instance metadata"),
    m6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], "AWS EKS Pod Identity credentials"),
    m6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], "Google Cloud instance metadata"),
    m6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], "Scaleway instance metadata"),
    m6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], "Linode instance metadata"),
];
