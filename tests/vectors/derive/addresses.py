"""Verdicts on addresses: membership by Python's ipaddress, with every IPv4 address wrapped in every way IPv6 knows."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from _files import OK, TEXT, RuleFile, array, error, obj, one_of

SELF = "derive/addresses.py"

# (block, what it is, source): the IANA special-purpose address registries and reserved space.
BLOCKS_V4 = [
    ("0.0.0.0/8", "this network", "RFC 791 3.2"),
    ("10.0.0.0/8", "private", "RFC 1918"),
    ("100.64.0.0/10", "carriers' shared space", "RFC 6598"),
    ("127.0.0.0/8", "loopback", "RFC 1122 3.2.1.3"),
    ("169.254.0.0/16", "link-local", "RFC 3927"),
    ("172.16.0.0/12", "private", "RFC 1918"),
    ("192.0.0.0/24", "IETF protocol assignments", "RFC 6890 2.1"),
    ("192.0.2.0/24", "documentation 1", "RFC 5737"),
    ("192.31.196.0/24", "AS112", "RFC 7535"),
    ("192.52.193.0/24", "AMT", "RFC 7450"),
    ("192.88.99.0/24", "6to4 relay", "RFC 7526"),
    ("192.168.0.0/16", "private", "RFC 1918"),
    ("192.175.48.0/24", "AS112 delegation", "RFC 7534"),
    ("198.18.0.0/15", "benchmarking", "RFC 2544"),
    ("198.51.100.0/24", "documentation 2", "RFC 5737"),
    ("203.0.113.0/24", "documentation 3", "RFC 5737"),
    ("224.0.0.0/4", "multicast", "RFC 5771"),
    ("240.0.0.0/4", "reserved and broadcast", "RFC 1112 4, RFC 919"),
]
BLOCKS_V6 = [
    ("::/96", "IPv4-compatible", "RFC 4291 2.5.5.1"),
    ("::ffff:0:0:0/96", "IPv4-translated", "RFC 7915"),
    ("64:ff9b::/96", "NAT64", "RFC 6052"),
    ("64:ff9b:1::/48", "local-use NAT64", "RFC 8215"),
    ("100::/64", "discard only", "RFC 6666"),
    ("100:0:0:1::/64", "dummy prefix", "RFC 9780"),
    ("2001::/23", "IETF protocol assignments, with Teredo, benchmarking, ORCHID", "RFC 2928"),
    ("2001:db8::/32", "documentation", "RFC 3849"),
    ("2002::/16", "6to4", "RFC 3056"),
    ("2620:4f:8000::/48", "AS112 delegation", "RFC 7534"),
    ("3fff::/20", "documentation", "RFC 9637"),
    ("5f00::/16", "segment routing", "RFC 9602"),
    ("fc00::/7", "unique local", "RFC 4193"),
    ("fe80::/10", "link-local", "RFC 4291 2.5.6"),
    ("fec0::/10", "site-local", "RFC 3879"),
    ("ff00::/8", "multicast", "RFC 4291 2.7"),
]
METADATA = {
    "169.254.169.254": "AWS, Google Cloud, Azure and others",
    "169.254.170.2": "AWS ECS",
    "100.100.100.200": "Alibaba Cloud",
    "192.0.0.192": "Oracle Cloud Classic",
    "168.63.129.16": "Azure host node, globally routable by its number",
    "fd00:ec2::254": "AWS over IPv6",
}
BY_HAND = "DESIGN section 6 and the vendors' documentation: metadata stays denied whatever is allowed"


def in_blocks(address: Any) -> bool:
    return any(
        address in ip_network(block)
        for block, _, _ in BLOCKS_V4 + BLOCKS_V6
        if ip_network(block).version == address.version
    )


def v6(number: int) -> IPv6Address:
    return IPv6Address(number)


def prefix(text: str) -> int:
    return int(IPv6Address(text))


# Every way an IPv4 address travels inside an IPv6 address.
WRAPPINGS = {
    "mapped, RFC 4291 2.5.5.2": lambda ip: v6(prefix("::ffff:0:0") | int(ip)),
    "IPv4-compatible, RFC 4291 2.5.5.1": lambda ip: v6(int(ip)),
    "IPv4-translated, RFC 7915": lambda ip: v6(prefix("::ffff:0:0:0") | int(ip)),
    "NAT64, RFC 6052 2.1": lambda ip: v6(prefix("64:ff9b::") | int(ip)),
    "local NAT64 of /96, RFC 8215": lambda ip: v6(prefix("64:ff9b:1::") | int(ip)),
    "6to4, RFC 3056 2": lambda ip: v6(prefix("2002::") | int(ip) << 80),
    "Teredo client, RFC 4380 4": lambda ip: v6(prefix("2001:0:cb00:7101::") | int(ip) ^ 0xFFFFFFFF),
}


def outermost(network: Any) -> list[Any]:
    """The block's first and last address, and its neighbours outside."""
    first, last = int(network.network_address), int(network.broadcast_address)
    kind = IPv4Address if network.version == 4 else IPv6Address
    inside = [kind(first), kind(last)]
    outside = [kind(number) for number in (first - 1, last + 1) if 0 <= number < 2**network.max_prefixlen]
    return inside + outside


def verdict(address: Any) -> str | None:
    """By the default policy. The code says which rule denies, `None` that nothing does."""
    if str(address) in METADATA:
        return "metadata_address"
    if address.version == 6 and address.ipv4_mapped is not None:
        return verdict(address.ipv4_mapped)
    if in_blocks(address):
        return "special_address"
    if address.version == 6 and address not in ip_network("2000::/3"):
        return "not_global_unicast"
    return None


def out(code: str | None) -> dict[str, Any]:
    return {"ok": True} if code is None else {"error": code}


def check() -> RuleFile:
    file = RuleFile(
        "address.check",
        "rules",
        "Whether a webhook may be sent to an address. `allow`: the operator's networks.",
        obj({"address": TEXT}, {"allow": array(TEXT)}),
        one_of(OK, error("metadata_address", "special_address", "embedded_address", "not_global_unicast")),
        SELF,
    )
    seen: set[tuple[str, ...]] = set()

    def add(name: str, source: str, address: Any, code: str | None, *allow: str) -> None:
        key = (str(address), *allow)
        if key in seen:
            return
        seen.add(key)
        file.add(name, source, {"address": str(address), **({"allow": list(allow)} if allow else {})}, out(code))

    for block, what, source in BLOCKS_V4 + BLOCKS_V6:
        for place, address in zip(("first", "last", "before", "behind"), outermost(ip_network(block)), strict=False):
            add(f"{block} {what}: {place}", source, address, verdict(address))
    # A block that is one bit too narrow loses its upper half, whose end another block may hold.
    for block, what, source in BLOCKS_V4 + BLOCKS_V6:
        network = ip_network(block)
        add(f"{block} {what}: middle", source, network[network.num_addresses // 2], "special_address")
    assert all(verdict(ip_network(block)[1]) for block, _, _ in BLOCKS_V4 + BLOCKS_V6)

    for address, whose in METADATA.items():
        add(f"metadata: {whose}", BY_HAND, ip_address(address), "metadata_address")
        add(
            f"metadata: {whose}, with everything allowed",
            BY_HAND,
            ip_address(address),
            "metadata_address",
            "0.0.0.0/0",
            "::/0",
        )

    # What a client would try: a private, a loopback and a metadata address, and a public one, in every wrapping.
    for inner in ("127.0.0.1", "10.0.0.5", "192.168.1.1", "169.254.169.254", "93.184.216.34"):
        for how, wrap in WRAPPINGS.items():
            address = wrap(IPv4Address(inner))
            if inner in METADATA:
                code: str | None = "metadata_address"
            elif how.startswith("mapped"):
                code = verdict(IPv4Address(inner))
            else:
                code = "special_address"  # the whole block that carries it
            add(f"{inner} {how}", how.split(", ")[1], address, code)
    server = v6(prefix("2001::") | int(IPv4Address("169.254.169.254")) << 64)
    add("metadata as a Teredo server", "RFC 4380 4: the server stands in the open", server, "metadata_address")
    rfc6052 = "RFC 6052 2.2: bits 64 to 71 are left out"
    number = int(IPv4Address("169.254.169.254"))
    add(
        "metadata in local NAT64 of /48",
        rfc6052,
        v6(prefix("64:ff9b:1::") | (number >> 16) << 64 | (number & 0xFFFF) << 40),
        "metadata_address",
    )
    add(
        "metadata in local NAT64 of /56",
        rfc6052,
        v6(prefix("64:ff9b:1::") | (number >> 24) << 64 | (number & 0xFFFFFF) << 32),
        "metadata_address",
    )
    add("metadata in local NAT64 of /64", rfc6052, v6(prefix("64:ff9b:1::") | number << 24), "metadata_address")
    own_nat64 = "RFC 6052 2.2: an operator's own NAT64 prefix of /96; ISATAP, RFC 5214 6.1, ends in the address too"
    add(
        "metadata behind an operator's own NAT64 prefix",
        own_nat64,
        ip_address("2a00:1450:4001:64::a9fe:a9fe"),
        "metadata_address",
    )
    add("metadata in ISATAP", own_nat64, ip_address("2a00:1450:4001:81b:0:5efe:a9fe:a9fe"), "metadata_address")

    public = "IANA address space: global unicast"
    for text in (
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "172.32.0.1",
        "100.128.0.1",
        "168.63.129.17",
        "2606:4700:4700::1111",
        "2a00:1450:4001:81b::200e",
        "2000::1",
    ):
        address = ip_address(text)
        assert verdict(address) is None
        assert address.is_global
        add(f"public: {text}", public, address, None)
    for text in ("4000::1", "8000::1", "200::1", "1::1", "fe00::1"):
        add(
            f"outside 2000::/3: {text}",
            "IANA IPv6 address space: reserved by IETF",
            ip_address(text),
            "not_global_unicast",
        )
    for text in ("fec0::1", "5f00::1", "2002:c000:204::", "64:ff9b::101:101", "224.0.0.251"):
        add(
            f"what Python 3.11.7 calls global: {text}",
            "reference events-and-webhooks 6.3 (is_global is True)",
            ip_address(text),
            "special_address",
        )

    allowed = "DESIGN section 6: the operator's allow-list for private networks"
    add("an allowed private network", allowed, ip_address("10.1.2.3"), None, "10.0.0.0/8")
    add("its neighbour stays denied", allowed, ip_address("10.1.2.3"), "special_address", "10.2.0.0/16")
    add("an allowed single address", allowed, ip_address("10.1.2.3"), None, "10.1.2.3")
    add("its neighbour", allowed, ip_address("10.1.2.4"), "special_address", "10.1.2.3")
    add(
        "a mapped address in an allowed network",
        allowed + "; judged as the IPv4 address it is",
        ip_address("::ffff:10.1.2.3"),
        None,
        "10.0.0.0/8",
    )
    add("allowed loopback", allowed, ip_address("127.0.0.1"), None, "127.0.0.0/8")
    add("IPv6 loopback is not in it", allowed, ip_address("::1"), "special_address", "127.0.0.0/8")
    add("allowed IPv6 loopback", allowed, ip_address("::1"), None, "::1")
    add("allowed unspecified address", allowed, ip_address("::"), None, "::")
    add("an allowed unique local network", allowed, ip_address("fd12::1"), None, "fd00::/8")
    add("allowed space outside 2000::/3", allowed, ip_address("4000::1"), None, "4000::/16")
    inside = "DESIGN section 6; RFC 6052 5.1: the address inside has to pass as well"
    add("NAT64 allowed, public inside", inside, ip_address("64:ff9b::5db8:d822"), None, "64:ff9b::/96")
    add("NAT64 allowed, private inside", inside, ip_address("64:ff9b::a00:5"), "embedded_address", "64:ff9b::/96")
    add(
        "NAT64 and the private network inside allowed",
        inside,
        ip_address("64:ff9b::a00:5"),
        None,
        "64:ff9b::/96",
        "10.0.0.0/8",
    )
    add("6to4 allowed, loopback inside", inside, ip_address("2002:7f00:1::"), "embedded_address", "2002::/16")
    add("6to4 allowed, public inside", inside, ip_address("2002:5db8:d822::"), None, "2002::/16")
    add(
        "Teredo allowed, private client inside",
        inside,
        WRAPPINGS["Teredo client, RFC 4380 4"](IPv4Address("10.0.0.5")),
        "embedded_address",
        "2001::/32",
    )
    add(
        "Teredo allowed, public client inside",
        inside,
        WRAPPINGS["Teredo client, RFC 4380 4"](IPv4Address("93.184.216.34")),
        None,
        "2001::/32",
    )
    add(
        "local NAT64 allowed, link-local inside",
        inside,
        ip_address("64:ff9b:1::a9fe:1"),
        "embedded_address",
        "64:ff9b:1::/48",
    )
    add("IPv4-compatible allowed, private inside", inside, ip_address("::a00:5"), "embedded_address", "::/96")
    add(
        "the private network alone does not open NAT64",
        allowed,
        ip_address("64:ff9b::a00:5"),
        "special_address",
        "10.0.0.0/8",
    )
    return file


def network() -> RuleFile:
    file = RuleFile(
        "address.network",
        "rules",
        "Reading a block of addresses, as the operator writes it; `text` is its canonical form.",
        obj({"text": TEXT}),
        one_of(obj({"text": TEXT}), error("address", "prefix", "host_bits", "mapped")),
        SELF,
    )
    cidr = "RFC 4632 3.1, RFC 4291 2.3; Python ipaddress.ip_network, strict"
    for text in (
        "10.0.0.0/8",
        "0.0.0.0/0",
        "192.168.1.0/24",
        "127.0.0.1/32",
        "127.0.0.1",
        "fd00::/8",
        "::/0",
        "::1",
        "2001:db8::/32",
        "FD00:0:0::/8",
    ):
        file.add(text, cidr, {"text": text}, {"text": str(ip_network(text))})
    for text, code in {
        "10.0.0.1/8": "host_bits",
        "fd00::1/8": "host_bits",
        "127.0.0.1/31": "host_bits",
        "10.0.0.0/33": "prefix",
        "fd00::/129": "prefix",
        "10.0.0.0/": "prefix",
        "10.0.0.0/-1": "prefix",
        "10.0.0.0/a": "prefix",
        "10.0.0.0/1000": "prefix",
        "10.0.0.0/8/8": "prefix",
        "": "address",
        "/8": "address",
        "example.com": "address",
        "10.0.0/8": "address",
        "10.0.0.0.0/8": "address",
        "010.0.0.0/8": "address",
        "0x0a.0.0.0/8": "address",
        "fe80::1%eth0/128": "address",
        " 10.0.0.0/8": "address",
    }.items():
        try:
            ip_network(text)
        except ValueError:
            pass
        else:
            assert text == "fe80::1%eth0/128", text  # Python takes zones
        file.add(f"not a block: {text!r}", cidr, {"text": text}, {"error": code})
    strict = "own decision: one spelling (ipaddress would take it)"
    for text in ("10.0.0.0/08", "10.0.0.0/+8", "10.0.0.0/255.0.0.0"):
        file.add(f"not a block: {text!r}", strict, {"text": text}, {"error": "prefix"})
    mapped = "own decision: rules for IPv4 are written, and looked up, as IPv4"
    for text in ("::ffff:10.0.0.0/104", "::ffff:127.0.0.1"):
        file.add(f"mapped: {text}", mapped, {"text": text}, {"error": "mapped"})
    return file


def files() -> list[RuleFile]:
    assert ipaddress.ip_address("::ffff:1.2.3.4").ipv4_mapped == IPv4Address("1.2.3.4")
    return [check(), network()]
