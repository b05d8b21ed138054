use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;

/// RFC 7518 appendix C.
const ALICE: &str = r#"{"kty":"EC","crv":"P-256","x":"gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0","y":"SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps","d":"0_NxaRPUMQoAJt50Gz8YiTr8gRTwyEaCumd-MToTmIo"}"#;
const BOB: &str = r#"{"kty":"EC","crv":"P-256","x":"weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ","y":"e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck","d":"VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw","kid":"bob"}"#;
/// RFC 7748 section 6.1, which RFC 8037 appendix A.6 uses.
const ALICE_X: &str = r#"{"kty":"OKP","crv":"X25519","x":"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo","d":"dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo"}"#;
const BOB_X: &str = r#"{"kty":"OKP","crv":"X25519","x":"3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08","d":"XasIfmJKikt54X-Lg4AO5m87sSkmGLb9HC-LJ_-I4Os"}"#;
const PLAIN: &[u8] = br#"{"eventId":"evt_1","data":{"n":1.0}}"#;

fn key(text: &str) -> PrivateKey {
    PrivateKey::parse(text).unwrap()
}

fn seed(byte: u8) -> Seed {
    Seed::from_bytes([byte; 32])
}

fn to(owner: &str, by: u8, plain: &[u8]) -> String {
    encrypt(key(owner).public_key(), &seed(by), plain).unwrap()
}

#[test]
fn both_sides_come_to_the_published_secrets() {
    let z = |own: &str, other: &str| key(own).scalar.shared(&key(other).public_key().point).unwrap();
    let p256 = [
        158, 86, 217, 29, 129, 113, 53, 211, 114, 131, 66, 131, 191, 132, 38, 156, 251, 49, 110, 163, 218, 128, 106,
        72, 246, 218, 167, 121, 140, 254, 144, 196,
    ];
    assert_eq!(z(ALICE, BOB), p256);
    assert_eq!(z(BOB, ALICE), p256);
    let x25519 = [
        0x4a, 0x5d, 0x9d, 0x5b, 0xa4, 0xce, 0x2d, 0xe1, 0x72, 0x8e, 0x3b, 0xf4, 0x80, 0x35, 0x0f, 0x25, 0xe0, 0x7e,
        0x21, 0xc9, 0x47, 0xd1, 0x9e, 0x33, 0x76, 0xf0, 0x9b, 0x3c, 0x1e, 0x16, 0x17, 0x42,
    ];
    assert_eq!(z(ALICE_X, BOB_X), x25519);
    assert!(key(ALICE).scalar.shared(&key(BOB_X).public_key().point).is_none(), "another curve");
}

#[test]
fn only_the_receiver_reads_it() {
    for owner in [ALICE, BOB, ALICE_X, BOB_X] {
        let text = to(owner, 1, PLAIN);
        assert_eq!(decrypt(&[key(owner)], text.as_bytes()).as_deref(), Ok(PLAIN));
        assert!(!text.contains("evt_1"));
        let others: Vec<_> =
            [ALICE, BOB, ALICE_X, BOB_X].into_iter().filter(|other| *other != owner).map(key).collect();
        assert_eq!(decrypt(&others, text.as_bytes()), Err(DecryptError::NoKey));
        assert_eq!(
            decrypt(&[&others[..], &[key(owner)]].concat(), text.as_bytes()).as_deref(),
            Ok(PLAIN),
            "a rotation"
        );
    }
}

#[test]
fn the_header_says_what_it_is() {
    let header = |text: &str| {
        let header = text.split('.').next().unwrap();
        String::from_utf8(URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap()
    };
    let named = header(&to(BOB, 1, PLAIN));
    let head = r#"{"alg":"ECDH-ES","enc":"A256GCM","cty":"json","kid":"bob","epk":{"crv":"P-256","kty":"EC","x":""#;
    assert!(named.starts_with(head), "{named}");
    let unnamed = header(&to(BOB_X, 1, PLAIN));
    let head = r#"{"alg":"ECDH-ES","enc":"A256GCM","cty":"json","epk":{"crv":"X25519","kty":"OKP","x":""#;
    assert!(unnamed.starts_with(head), "{unnamed}");
}

/// The same message comes out the same, and whatever is another one has another ephemeral key and nonce.
#[test]
fn a_seed_gives_each_message_its_own_key() {
    let renamed = BOB.replace("\"kid\":\"bob\"", "\"kid\":\"bob2\"");
    for (owner, other) in [(BOB, ALICE), (BOB_X, ALICE_X)] {
        let one = to(owner, 1, PLAIN);
        assert_eq!(to(owner, 1, PLAIN), one);
        let others = [to(owner, 2, PLAIN), to(owner, 1, b"{}"), to(other, 1, PLAIN), to(&renamed, 1, PLAIN)];
        for another in others {
            let (one, another): (Vec<_>, Vec<_>) = (one.split('.').collect(), another.split('.').collect());
            assert_ne!(one[0], another[0], "the ephemeral key");
            assert_ne!(one[2], another[2], "the nonce");
            assert_ne!(one[3], another[3], "what is encrypted");
        }
    }
}

#[test]
fn a_message_that_was_changed_is_refused() {
    let text = to(BOB, 1, PLAIN);
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        assert!(decrypt(&[key(BOB)], &changed).is_err(), "byte {at}");
        assert!(decrypt(&[key(BOB)], &text.as_bytes()[..at]).is_err(), "cut at {at}");
    }
    assert_eq!(decrypt(&[], text.as_bytes()), Err(DecryptError::NoKey));
    for body in ["", "....", "{}", "a.b.c", "\u{e9}....", &format!("{text}.")] {
        assert_eq!(decrypt(&[key(BOB)], body.as_bytes()), Err(DecryptError::Malformed), "{body}");
    }
}

#[test]
fn other_ways_to_encrypt_are_named() {
    let text = to(BOB, 1, PLAIN);
    let rest = text.split_once('.').unwrap().1;
    let epk = r#""epk":{"crv":"X25519","kty":"OKP","x":"hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo"}"#;
    for (header, want) in [
        (format!(r#"{{"alg":"ECDH-ES+A256KW","enc":"A256GCM",{epk}}}"#), DecryptError::Unsupported),
        (format!(r#"{{"alg":"ECDH-ES","enc":"A128GCM",{epk}}}"#), DecryptError::Unsupported),
        (format!(r#"{{"alg":"ECDH-ES","enc":"A256GCM","zip":"DEF",{epk}}}"#), DecryptError::Unsupported),
        (format!(r#"{{"alg":"ECDH-ES","enc":"A256GCM","crit":["exp"],{epk}}}"#), DecryptError::Unsupported),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM"}"#.to_owned(), DecryptError::Malformed),
        // A point of small order, by which a sender could choose the key.
        (
            format!(
                r#"{{"alg":"ECDH-ES","enc":"A256GCM",{}}}"#,
                epk.replace("hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo", &"A".repeat(43))
            ),
            DecryptError::Malformed,
        ),
    ] {
        let header_text = URL_SAFE_NO_PAD.encode(&header);
        let body = format!("{header_text}.{rest}");
        assert_eq!(decrypt(&[key(BOB), key(BOB_X)], body.as_bytes()), Err(want), "{header}");
    }
}

#[test]
fn a_private_key_is_whole_and_not_shown() {
    assert_eq!(PrivateKey::parse("7").err(), Some(KeyFault::Missing("kty")));
    let public = key(BOB).public_key().to_json();
    assert_eq!(PrivateKey::parse(&public).err(), Some(KeyFault::Missing("d")));
    let of_another =
        BOB.replace("VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw", "0_NxaRPUMQoAJt50Gz8YiTr8gRTwyEaCumd-MToTmIo");
    assert_eq!(PrivateKey::parse(&of_another).err(), Some(KeyFault::Point));
    let beyond = BOB.replace("VEmDZpDXXK8p8N0Cndsxs924q6nS1RXFASRl6BfUqdw", &"_".repeat(42));
    assert_eq!(PrivateKey::parse(&beyond).err(), Some(KeyFault::Coordinate("d")));
    for shown in [format!("{:?}", key(BOB)), format!("{:?}", seed(7))] {
        assert!(!shown.contains("VEmDZ") && !shown.contains("7, 7"), "{shown}");
    }
}

#[test]
fn a_request_stays_within_its_limit() {
    for owner in [BOB, ALICE, BOB_X] {
        for most in [400, 401, 402, 403, 1_000, 4_096] {
            let longest = key(owner).public_key().longest_plain(most);
            let length = to(owner, 1, &vec![b' '; longest]).len();
            assert!(length <= most && length + 6 > most, "{length} of {most}");
        }
        assert_eq!(key(owner).public_key().longest_plain(20), 0);
    }
}

proptest! {
    #[test]
    fn any_body_comes_back(plain in proptest::collection::vec(any::<u8>(), 0..200), by in any::<u8>()) {
        prop_assert_eq!(decrypt(&[key(BOB_X)], to(BOB_X, by, &plain).as_bytes()), Ok(plain));
    }

    #[test]
    fn never_panics_on_any_bytes(body in "[A-Za-z0-9_.-]{0,80}") {
        prop_assert!(decrypt(&[key(BOB_X)], body.as_bytes()).is_err());
    }
}
