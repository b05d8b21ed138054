//! IPv4 addresses carried inside IPv6 addresses.
//!
//! A translator or a tunnel on the way unwraps them, so the packet ends at the IPv4 address whatever the IPv6 address
//! looked like. IPv4-mapped addresses (RFC 4291 2.5.5.2) are not here: the operating system itself speaks IPv4 for them, so
//! they are unwrapped with `to_canonical` before anything else is asked.

use core::net::{Ipv4Addr, Ipv6Addr};

/// The IPv4 address that `ip` leads to by a transition mechanism whose prefix is well known, or none.
///
/// For a prefix where the position depends on local setup (RFC 8215), the `/96` position is meant.
pub(super) fn translated(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = ip.to_bits();
    let [o0, o1, o2, ..] = ip.segments();
    match (o0, o1, o2) {
        // 6to4, RFC 3056 2: 2002:V4ADDR::/48.
        (0x2002, _, _) => Some(v4_at(bits, 16)),
        // Teredo, RFC 4380 4: the client's address stands at the end with every bit flipped.
        (0x2001, 0, _) => Some(Ipv4Addr::from_bits(!v4_at(bits, 96).to_bits())),
        // Local-use NAT64, RFC 8215.
        (0x64, 0xff9b, 1) => Some(v4_at(bits, 96)),
        // NAT64, RFC 6052 2.1; IPv4-compatible, RFC 4291 2.5.5.1; IPv4-translated, RFC 7915.
        _ if matches!(bits >> 32, 0x0064_ff9b_0000_0000_0000_0000 | 0 | 0xffff_0000) => Some(v4_at(bits, 96)),
        _ => None,
    }
}

/// Every IPv4 address that any known mechanism, set up in any way, could read out of `ip`.
///
/// Broader than [`translated`]: an operator may run NAT64 under a prefix of its own (RFC 6052 2.2) and ISATAP ends in
/// the IPv4 address too, so the last 32 bits always count. Only good for a short list of addresses that have no
/// business anywhere, as any global address ends in some IPv4 address.
pub(super) fn candidates(ip: Ipv6Addr) -> [Option<Ipv4Addr>; 6] {
    let bits = ip.to_bits();
    let [o0, o1, o2, ..] = ip.segments();
    let teredo = (o0, o1) == (0x2001, 0);
    let local_nat64 = (o0, o1, o2) == (0x64, 0xff9b, 1);
    [
        Some(v4_at(bits, 96)),
        translated(ip),
        // The Teredo server stands in the open, RFC 4380 4.
        teredo.then(|| v4_at(bits, 32)),
        // RFC 6052 2.2 puts the address around the reserved bits 64 to 71 for the prefix lengths 48, 56 and 64.
        local_nat64.then(|| around_the_reserved_byte(bits, 48)),
        local_nat64.then(|| around_the_reserved_byte(bits, 56)),
        local_nat64.then(|| around_the_reserved_byte(bits, 64)),
    ]
}

/// The 32 bits that start `from` bits behind the front.
fn v4_at(bits: u128, from: u32) -> Ipv4Addr {
    // `from` is 96 at most, so the shifts stay in range and the truncation keeps exactly the 32 bits meant.
    Ipv4Addr::from_bits((bits << from >> 96) as u32)
}

/// The 32 bits that start `from` bits behind the front when the byte at 64 is left out.
fn around_the_reserved_byte(bits: u128, from: u32) -> Ipv4Addr {
    let front = bits >> 64 << 64;
    let back = bits << 72 >> 64;
    v4_at(front | back, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    /// Positions by the documents named; RFC 6052 2.4 has the text representations of 192.0.2.33.
    #[test]
    fn finds_the_address_where_the_rfc_puts_it() {
        let want = Some(Ipv4Addr::new(192, 0, 2, 33));
        for text in [
            "64:ff9b::192.0.2.33",
            "64:ff9b:1::192.0.2.33",
            "64:ff9b:1:fffe:12:34:192.0.2.33",
            "::192.0.2.33",
            "::ffff:0:192.0.2.33",
            "2002:c000:221::1",
            // RFC 4380 4: obfuscated, 192.0.2.33 xor ffffffff = 3fff:fdde.
            "2001:0:4136:e378:8000:63bf:3fff:fdde",
        ] {
            assert_eq!(translated(v6(text)), want, "{text}");
        }
        for text in ["2606:4700::1111", "::ffff:192.0.2.33", "64:ff9b:2::192.0.2.33", "fd00::192.0.2.33"] {
            assert_eq!(translated(v6(text)), None, "{text}");
        }
    }

    #[test]
    fn candidates_cover_every_prefix_length() {
        let want = Some(Ipv4Addr::new(192, 0, 2, 33));
        for text in [
            // RFC 6052 2.2 table, prefix 64:ff9b:1::/48 and longer.
            "64:ff9b:1:c000:2:2100::",
            "64:ff9b:1:aac0:0:221::",
            "64:ff9b:1:aabb:c0:2:2100::",
            "64:ff9b:1:aabb::192.0.2.33",
            // An operator's own /96, and ISATAP (RFC 5214 6.1).
            "2001:db8:64::192.0.2.33",
            "fe80::5efe:192.0.2.33",
            // A Teredo server.
            "2001:0:c000:221:8000:63bf:ffff:ffff",
        ] {
            assert!(candidates(v6(text)).contains(&want), "{text}: {:?}", candidates(v6(text)));
        }
    }
}
