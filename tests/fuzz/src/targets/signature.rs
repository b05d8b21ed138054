use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tidings_proto::webhook::{
    MAX_SIGNATURE_HEADER_BYTES, Received, Secret, VerifyError, check_message_id, sign, verify,
};

use super::line;

const KEYS: [[u8; 32]; 2] = [[1; 32], [2; 32]];
const NOW: i64 = 1_767_225_600;
const TOLERANCE: u64 = 300;

/// The three headers of a webhook, a line each, and its body after them. `@0` and `@1` in the line of signatures stand for
/// the right one by the first and the second of the receiver's secrets, which no mutation would ever find.
pub fn signature(data: &[u8]) {
    let (id, rest) = line(data);
    let (timestamp, rest) = line(rest);
    let (header, body) = line(rest);
    let [Ok(id), Ok(timestamp), Ok(header)] = [id, timestamp, header].map(std::str::from_utf8) else { return };
    let right = KEYS.map(|key| mac(&key, id.trim_matches([' ', '\t']), timestamp.trim_matches([' ', '\t']), body));
    let header = header.replace("@0", &right[0]).replace("@1", &right[1]);

    let secrets = KEYS.map(|key| Secret::from_bytes(&key).expect("32 bytes are a secret"));
    let headers = [("Webhook-Id", id), ("webhook-timestamp", timestamp), ("WEBHOOK-SIGNATURE", &header)];
    let received = Received::from_headers(headers).expect("each once");
    let answer = verify(&secrets, &received, body, NOW, TOLERANCE);
    assert_eq!(answer.is_ok(), is_right(&right, id, timestamp, &header), "{answer:?}");
    if let Err(error) = answer {
        assert!(!error.to_string().is_empty() && !error.code().is_empty());
        let told = error.to_string();
        assert!(right.iter().all(|right| !told.contains(right.as_str())), "an error tells the right signature");
    }
    // Who has one of the secrets only, and who has none.
    assert_eq!(verify(&[], &received, body, NOW, TOLERANCE), Err(VerifyError::NoSecret));
    for (secret, right) in secrets.iter().zip(&right) {
        let one = verify(std::slice::from_ref(secret), &received, body, NOW, TOLERANCE).is_ok();
        assert_eq!(one, is_right(std::slice::from_ref(right), id, timestamp, &header));
    }
    // What we send ourselves is taken.
    if let (Ok(()), Ok(at)) = (check_message_id(id), timestamp.parse::<i64>()) {
        let header = sign(&secrets, id, at, body);
        let at_text = at.to_string();
        let sent = Received { id, timestamp: &at_text, signature: &header };
        assert!(at < 0 || verify(&secrets, &sent, body, at, 0).is_ok(), "our own is refused");
    }
}

fn mac(key: &[u8], id: &str, timestamp: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    STANDARD.encode(mac.finalize().into_bytes())
}

/// The rule in Standard Webhooks' words: some `v1` entry is the right one, and nothing about the rest is wrong.
fn is_right(right: &[String], id: &str, timestamp: &str, header: &str) -> bool {
    let blank = |c: char| c == ' ' || c == '\t';
    let (id, timestamp, header) = (id.trim_matches(blank), timestamp.trim_matches(blank), header.trim_matches(blank));
    let signed_at = timestamp.parse::<i64>().ok().filter(|at| *at >= 0 && at.to_string() == timestamp);
    let in_time = signed_at.is_some_and(|at| at.abs_diff(NOW) <= TOLERANCE);
    let listed = header.split(blank).any(|entry| right.iter().any(|right| *entry == format!("v1,{right}")));
    in_time && listed && check_message_id(id).is_ok() && header.len() <= MAX_SIGNATURE_HEADER_BYTES
}
