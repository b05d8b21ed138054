"""What an egress proxy is asked."""

from __future__ import annotations

import base64

from _files import TEXT, RuleFile, error, obj, one_of

SELF = "derive/proxies.py"


def proxies() -> RuleFile:
    file = RuleFile(
        "proxy.connect",
        "rules",
        "What an egress proxy is asked for an address that was checked, or why the text names no proxy.",
        obj({"proxy": TEXT, "target": TEXT}),
        one_of(
            obj({"request": TEXT}), error("proxy_url", "proxy_scheme", "proxy_port", "proxy_path", "proxy_credentials")
        ),
        SELF,
    )
    connect = "RFC 9110 9.3.6, CONNECT; DESIGN section 6: every resolved address checked, the connection pinned to it"

    def asked(name: str, proxy: str, target: str, credentials: str | None = None, source: str = connect) -> None:
        head = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if credentials is not None:
            head.append("Proxy-Authorization: Basic " + base64.b64encode(credentials.encode()).decode())
        request = "".join(f"{line}\r\n" for line in [*head, ""])
        file.add(name, source, {"proxy": proxy, "target": target}, {"request": request})

    asked("an IPv4 address", "http://proxy.example:3128", "93.184.215.14:443")
    asked("an IPv6 address", "http://proxy.example:3128/", "[2606:2800:21f:cb07::1]:8443")
    asked("the RFC's user", "http://Aladdin:open%20sesame@p:1", "1.1.1.1:443", "Aladdin:open sesame", "RFC 7617 2")
    asked("a password beyond ASCII", "http://test:123%C2%A3@p:1", "1.1.1.1:443", "test:123£", "RFC 7617 2.1")
    asked("a user without a password", "http://u@p:1", "1.1.1.1:443", "u:", "RFC 7617 2")
    own = "own decision: an HTTP proxy, named by scheme, host and port"
    for name, proxy, code in [
        ("no scheme", "proxy:3128", "proxy_url"),
        ("nothing", "", "proxy_url"),
        ("no host", "http://", "proxy_url"),
        ("a blank", "http://a b:1", "proxy_url"),
        ("TLS to the proxy", "https://proxy:3128", "proxy_scheme"),
        ("SOCKS", "socks5://proxy:1080", "proxy_scheme"),
        ("port 0", "http://proxy:0", "proxy_port"),
        ("a path", "http://proxy:1/x", "proxy_path"),
        ("a query", "http://proxy:1?x", "proxy_path"),
        ("a colon in the user's name", "http://a%3Ab:c@proxy:1", "proxy_credentials"),
        ("a user that is no UTF-8", "http://%ff:c@proxy:1", "proxy_credentials"),
    ]:
        file.add(name, own, {"proxy": proxy, "target": "1.1.1.1:443"}, {"error": code})
    return file


def files() -> list[RuleFile]:
    return [proxies()]
