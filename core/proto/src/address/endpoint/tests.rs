//! Endpoints in every spelling, good and bad.

use proptest::prelude::*;

use super::super::network::Network;
use super::*;

fn code(text: &str, policy: &Policy) -> &'static str {
    match Endpoint::parse(text, policy) {
        Ok(_) => "ok",
        Err(fault) => fault.code(),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn development() -> Policy {
    Policy {
        allow_networks: vec![Network::parse("127.0.0.0/8").unwrap(), Network::parse("::1").unwrap()],
        allow_hosts: vec!["localhost".into(), "hooks.internal".into()],
        allow_http: true,
        allow_ports: vec![],
    }
}

#[test]
fn takes_plain_endpoints_apart() {
    // (text, canonical, host, port, Host header, target)
    for (text, canonical, host, port, header, target) in [
        ("https://h.example", "https://h.example/", "h.example", 443, "h.example", "/"),
        ("HTTPS://H.Example:443/A?b=C", "https://h.example/A?b=C", "h.example", 443, "h.example", "/A?b=C"),
        ("https://h.example?x", "https://h.example/?x", "h.example", 443, "h.example", "/?x"),
        ("https://h.example/a/../b/./c", "https://h.example/b/c", "h.example", 443, "h.example", "/b/c"),
        (
            "https://h.example/%7Bid%7D?q=%20",
            "https://h.example/%7Bid%7D?q=%20",
            "h.example",
            443,
            "h.example",
            "/%7Bid%7D?q=%20",
        ),
        (
            "https://xn--bcher-kva.example/",
            "https://xn--bcher-kva.example/",
            "xn--bcher-kva.example",
            443,
            "xn--bcher-kva.example",
            "/",
        ),
        ("https://93.184.216.34/x", "https://93.184.216.34/x", "93.184.216.34", 443, "93.184.216.34", "/x"),
        (
            "https://[2606:4700:0::1111]/",
            "https://[2606:4700::1111]/",
            "[2606:4700::1111]",
            443,
            "[2606:4700::1111]",
            "/",
        ),
        // 0x5db8d822 = 1572395042 = 93.184.216.34
        ("https://1572395042/", "https://93.184.216.34/", "93.184.216.34", 443, "93.184.216.34", "/"),
        ("https://[::ffff:5db8:d822]/", "https://93.184.216.34/", "93.184.216.34", 443, "93.184.216.34", "/"),
        ("https://h.example/a@b:c/d", "https://h.example/a@b:c/d", "h.example", 443, "h.example", "/a@b:c/d"),
    ] {
        let endpoint = Endpoint::parse(text, &Policy::default()).unwrap();
        assert_eq!(endpoint.as_url(), canonical, "{text}");
        assert_eq!(endpoint.host().to_string(), host, "{text}");
        assert_eq!(endpoint.port(), port, "{text}");
        assert_eq!(endpoint.host_header(), header, "{text}");
        assert_eq!(endpoint.path_and_query(), target, "{text}");
        assert!(endpoint.is_tls() && endpoint.scheme() == "https" && !endpoint.is_vouched(), "{text}");
    }
}

#[test]
fn refuses_by_the_rule_that_is_broken() {
    let policy = Policy::default();
    for (text, want) in [
        ("", "scheme"),
        ("h.example", "scheme"),
        ("https:h.example", "scheme"),
        ("https:/h.example", "scheme"),
        ("//h.example/", "scheme"),
        ("ftp://h.example/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://h.example/", "scheme"),
        ("wss://h.example/", "scheme"),
        ("javascript://h.example/", "scheme"),
        ("http://h.example/", "plain_http"),
        ("https://", "no_host"),
        ("https:///h.example", "no_host"),
        ("https://?x", "no_host"),
        ("https://:443/", "no_host"),
        ("https://u@h.example/", "user_info"),
        ("https://u:p@h/", "user_info"),
        ("https://@h.example/", "user_info"),
        ("https://h.example@93.184.216.34/", "user_info"),
        ("https://h.example/#", "fragment"),
        ("https://h.example#@evil.example/", "fragment"),
        ("https://h.example/ ", "character"),
        (" https://h.example/", "character"),
        ("https://h.example/a b", "character"),
        ("https://h.example/\r\nX-Admin: 1", "character"),
        ("https://h.exa\tmple/", "character"),
        ("https://h.example/\0", "character"),
        ("https://h.example\\@evil.example/", "character"),
        ("https:\\\\h.example\\", "character"),
        ("https://bücher.example/", "character"),
        ("https://１２７.0.0.1/", "character"),
        ("https://127。0。0。1/", "character"),
        ("https://h.example/\u{7f}", "character"),
        ("https://%31%32%37.0.0.1/", "host_escape"),
        ("https://h%2eexample/", "host_escape"),
        ("https://[fe80::1%25eth0]/", "host_escape"),
        ("https://[fe80::1%eth0]/", "host_escape"),
        ("https://h.example:65536/", "bad_url"),
        ("https://h.example:port/", "bad_url"),
        ("https://[::1/", "bad_host"),
        ("https://[not-v6]/", "bad_host"),
        ("https://1.2.3.4.5/", "bad_host"),
        ("https://256.1.1.1/", "bad_host"),
        ("https://a..example/", "bad_host"),
        ("https://.example/", "bad_host"),
        ("https://*.example/", "bad_host"),
        ("https://a$b.example/", "bad_host"),
        ("https://a,b/", "bad_host"),
        ("https://h.example./", "final_dot"),
        ("https://localhost./", "final_dot"),
        ("https://h.example:0/", "port"),
        ("https://h.example:80/", "port"),
        ("https://h.example:8443/", "port"),
        ("https://h.example:22/", "port"),
        ("https://localhost/", "internal_name"),
        ("https://LOCALHOST/", "internal_name"),
        ("https://a.localhost/", "internal_name"),
        ("https://db.internal/", "internal_name"),
        ("https://printer.local/", "internal_name"),
        ("https://metadata.google.internal/", "metadata_name"),
        ("https://Metadata.Google.Internal./", "metadata_name"),
        ("https://metadata.goog/", "metadata_name"),
    ] {
        assert_eq!(code(text, &policy), want, "{text:?}");
    }
    let long = format!("https://h.example/{}", "a".repeat(MAX_ENDPOINT_BYTES - 18));
    assert_eq!((long.len(), code(&long, &policy)), (MAX_ENDPOINT_BYTES, "ok"));
    assert_eq!(code(&format!("{long}a"), &policy), "too_long");
    // `"` is visible ASCII and becomes %22 in canonical form.
    assert_eq!(code(&format!("https://h.example/{}", "\"".repeat(1000)), &policy), "too_long");
    let label = "a".repeat(64);
    assert_eq!(code(&format!("https://{label}.example/"), &policy), "bad_host");
    assert_eq!(code(&format!("https://{}example/", "abc.".repeat(62)), &policy), "bad_host");
}

#[test]
fn every_spelling_of_a_denied_address_is_denied() {
    let policy = Policy::default();
    for text in [
        "127.0.0.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "0",
        "0.0.0.0",
        "10.0.0.5",
        "192.168.1.1",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::10.0.0.1]",
        "[2002:7f00:1::]",
        "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
        "[fe80::1]",
        "[fd00::1]",
        "[::ffff:0:127.0.0.1]",
    ] {
        let got = code(&format!("https://{text}/"), &policy);
        assert!(matches!(got, "special_address" | "not_global_unicast"), "{text}: {got}");
    }
    for text in ["169.254.169.254", "[::ffff:169.254.169.254]", "0xa9fea9fe", "[fd00:ec2::254]", "168.63.129.16"] {
        assert_eq!(code(&format!("https://{text}/"), &policy), "metadata_address", "{text}");
        assert_eq!(code(&format!("http://{text}/"), &development()), "metadata_address", "{text}");
    }
}

#[test]
fn a_development_server_is_reachable_on_any_port_where_it_is_vouched_for() {
    let policy = development();
    for (text, port) in [
        ("http://127.0.0.1:5000/hook", 5000),
        ("http://127.0.0.1/hook", 80),
        ("https://127.0.0.1:9/", 9),
        ("http://[::1]:5000/", 5000),
        ("http://localhost:3000/", 3000),
        ("https://HOOKS.internal:8443/", 8443),
    ] {
        let endpoint = Endpoint::parse(text, &policy).unwrap();
        assert!(endpoint.is_vouched() && endpoint.port() == port, "{text}");
    }
    for (text, want) in [
        ("http://10.0.0.1:5000/", "special_address"),
        ("http://h.example:5000/", "port"),
        ("http://h.example/", "port"),
        ("http://a.localhost:3000/", "internal_name"),
        ("https://localhost.:3000/", "final_dot"),
        ("http://127.0.0.1:0/", "port"),
    ] {
        assert_eq!(code(text, &policy), want, "{text}");
    }
    let listed = Policy { allow_ports: vec![80, 8443], allow_http: true, ..Policy::default() };
    for text in ["http://h.example/", "https://h.example:8443/", "http://h.example:443/", "https://h.example:80/"] {
        assert_eq!(code(text, &listed), "ok", "{text}");
    }
    let endpoint = Endpoint::parse("https://h.example:8443/", &listed).unwrap();
    assert_eq!((endpoint.host_header(), endpoint.is_vouched()), ("h.example:8443", false));
    let clear = Endpoint::parse("http://h.example:443/", &listed).unwrap();
    assert_eq!((clear.host_header(), clear.is_tls()), ("h.example:443", false));
}

#[test]
fn answers_are_judged_by_who_vouches() {
    let policy = development();
    let parse = |text| Endpoint::parse(text, &policy).unwrap();
    let (public, vouched) = (parse("https://h.example/"), parse("https://hooks.internal/"));
    let (good, private, metadata) = (ip("93.184.216.34"), ip("10.0.0.5"), ip("169.254.169.254"));
    assert_eq!(public.check_answers(&[good], &policy), Ok(()));
    assert_eq!(public.check_answers(&[good, private], &policy).unwrap_err().code(), "special_address");
    assert_eq!(vouched.check_answers(&[private, good], &policy), Ok(()));
    assert_eq!(vouched.check_answers(&[private, metadata], &policy).unwrap_err().code(), "metadata_address");
    assert_eq!(vouched.check_answers(&[ip("64:ff9b::a9fe:a9fe")], &policy).unwrap_err().code(), "metadata_address");
    for endpoint in [public, vouched] {
        assert_eq!(endpoint.check_answers(&[], &policy), Err(Denied::NoAddress));
    }
    // The settings at send time decide, not those under which the endpoint was accepted.
    let vouched = parse("https://hooks.internal/");
    assert_eq!(vouched.check_answers(&[private], &Policy::default()).unwrap_err().code(), "special_address");
}

#[test]
fn never_shows_path_or_query() {
    let endpoint = Endpoint::parse("https://h.example/services/T0K3N?sig=T0K3N", &Policy::default()).unwrap();
    assert_eq!(endpoint.to_string(), "https://h.example:443");
    assert_eq!(format!("{endpoint:?}"), "Endpoint(https://h.example:443)");
    let endpoint = Endpoint::parse("https://[2606:4700::1]/T0K3N", &Policy::default()).unwrap();
    assert_eq!(endpoint.to_string(), "https://[2606:4700::1]:443");
    let fault = Endpoint::parse("https://user:T0K3N@h.example/T0K3N", &Policy::default()).unwrap_err();
    assert!(!format!("{fault} {fault:?}").contains("T0K3N"));
}

/// Text that gets far: pieces that real and hostile URLs are made of, in any order.
fn url_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "https",
        "http",
        "://",
        ":",
        "/",
        "//",
        "@",
        "?",
        "#",
        "%",
        "%25",
        ".",
        "..",
        "[",
        "]",
        "::",
        "::1",
        "ffff",
        "127.0.0.1",
        "0x7f",
        "0177",
        "2130706433",
        "169.254.169.254",
        "10.",
        "h.example",
        "localhost",
        "internal",
        "xn--",
        "xn--a",
        "443",
        "80",
        "a",
        "-",
        "_",
        "\\",
        "\r\n",
        "\t",
        " ",
        "é",
        "。",
        "\u{ad}",
        "\u{202e}",
        "|",
        "^",
        "{",
        "\"",
        "<",
        "`",
        "'",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn sound(text: &str, policy: &Policy) -> Result<(), TestCaseError> {
    let Ok(endpoint) = Endpoint::parse(text, policy) else { return Ok(()) };
    prop_assert!(endpoint.path_and_query().starts_with('/'));
    for part in [endpoint.path_and_query(), endpoint.host_header(), endpoint.as_url()] {
        prop_assert!(part.bytes().all(|b| (0x21..=0x7e).contains(&b)), "{}", part);
    }
    prop_assert!(!endpoint.path_and_query().contains('#'));
    prop_assert!(!endpoint.host_header().contains(['@', '/', '%']));
    let again = Endpoint::parse(endpoint.as_url(), policy);
    prop_assert_eq!(again.as_ref(), Ok(&endpoint));
    if let Host::Ip(ip) = endpoint.host() {
        prop_assert_eq!(check(*ip, policy), Ok(()));
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_gets_an_answer_and_a_good_one_is_stable(text: String) {
        sound(&text, &Policy::default())?;
    }

    #[test]
    fn url_like_text_gets_a_sound_answer(tail in url_like(), text in url_like()) {
        sound(&text, &development())?;
        sound(&format!("https://{tail}"), &Policy::default())?;
        sound(&format!("http://{tail}"), &development())?;
        sound(&format!("https://h.example/{tail}"), &Policy::default())?;
    }

    #[test]
    fn a_denied_ipv4_address_is_denied_in_every_spelling(bits: u32) {
        let [a, b, c, d] = bits.to_be_bytes();
        let denied = check(IpAddr::V4(core::net::Ipv4Addr::from_bits(bits)), &Policy::default()).is_err();
        for host in [
            format!("{a}.{b}.{c}.{d}"),
            format!("{bits}"),
            format!("{bits:#x}"),
            format!("0{bits:o}"),
            format!("0x{a:x}.0{b:o}.{}", u16::from_be_bytes([c, d])),
            format!("{a}.{}", bits & 0xff_ffff),
            format!("[::ffff:{a}.{b}.{c}.{d}]"),
            format!("[0:0:0:0:0:ffff:{:x}:{:x}]", bits >> 16, bits & 0xffff),
        ] {
            let verdict = Endpoint::parse(&format!("https://{host}/"), &Policy::default());
            prop_assert_eq!(verdict.is_err(), denied, "{}", host);
        }
    }
}
