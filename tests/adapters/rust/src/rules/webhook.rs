//! Signatures, secrets, static headers.

use serde_json::{Value, json};
use tidings::proto::webhook::{
    DEFAULT_TOLERANCE_SECS, HeaderFault, HeaderPolicy, MessageIdFault, PrivateKey, Received, Secret, StaticHeaders,
    check_message_id, concat_kdf, decrypt, sign, verify,
};

use crate::Answer;
use crate::given::{Given, from_hex, to_hex};

pub(super) fn signed(given: Given<'_>) -> Answer {
    let secrets: Result<Vec<_>, _> = given.texts("secrets")?.into_iter().map(Secret::parse).collect();
    let secrets = secrets.map_err(|fault| fault.to_string())?;
    let signature = sign(&secrets, given.text("id")?, given.int("timestamp")?, &given.bytes("body")?);
    Ok(json!({"signature": signature}))
}

pub(super) fn verified(given: Given<'_>) -> Answer {
    let secrets: Result<Vec<_>, _> = given.texts("secrets")?.into_iter().map(Secret::parse_lenient).collect();
    let secrets = secrets.map_err(|fault| fault.to_string())?;
    let tolerance = given.maybe_num("tolerance")?.unwrap_or(DEFAULT_TOLERANCE_SECS);
    let (body, now) = (given.bytes("body")?, given.int("now")?);
    let verdict = Received::from_headers(given.pairs("headers")?)
        .and_then(|received| verify(&secrets, &received, &body, now, tolerance));
    Ok(match verdict {
        Ok(()) => json!({"ok": true}),
        Err(error) => json!({"error": error.code()}),
    })
}

pub(super) fn no_secret(given: Given<'_>) -> Answer {
    if given.text("side")? == "sender" {
        return Ok(json!({"signature": sign(&[], "evt_1", 1, b"{}")}));
    }
    let received = Received { id: "evt_1", timestamp: "1", signature: "v1,AAAA" };
    Ok(match verify(&[], &received, b"{}", 1, DEFAULT_TOLERANCE_SECS) {
        Ok(()) => json!({"ok": true}),
        Err(error) => json!({"error": error.code()}),
    })
}

pub(super) fn decrypted(given: Given<'_>) -> Answer {
    let keys = given.texts("keys")?.into_iter().map(PrivateKey::parse).collect::<Result<Vec<_>, _>>();
    let Some(keys) = keys.ok().filter(|keys| !keys.is_empty()) else { return Ok(json!({"error": "invalid_argument"})) };
    Ok(match decrypt(&keys, given.text("body")?.as_bytes()) {
        Ok(plain) => json!({"text": String::from_utf8(plain).map_err(|error| error.to_string())?}),
        Err(error) => json!({"error": error.code()}),
    })
}

pub(super) fn derived(given: Given<'_>) -> Answer {
    let shared = from_hex(given.text("shared")?)?;
    let mut key = vec![0; given.num("bytes")?];
    let (apu, apv) = (given.text("apu")?.as_bytes(), given.text("apv")?.as_bytes());
    concat_kdf(&shared, given.text("algorithm")?, apu, apv, &mut key);
    Ok(json!({"hex": to_hex(&key)}))
}

pub(super) fn secret(given: Given<'_>) -> Answer {
    let text = given.text("text")?;
    let read = if given.bool("lenient")? { Secret::parse_lenient(text) } else { Secret::parse(text) };
    Ok(match read {
        Ok(secret) => json!({"hex": to_hex(secret.as_bytes())}),
        Err(fault) => json!({"error": fault.code()}),
    })
}

pub(super) fn message_id(given: Given<'_>) -> Answer {
    Ok(match check_message_id(given.text("text")?) {
        Ok(()) => json!({"ok": true}),
        Err(fault) => json!({"error": match fault {
            MessageIdFault::Empty => "empty",
            MessageIdFault::TooLong => "too_long",
            MessageIdFault::Dot { .. } => "dot",
            MessageIdFault::Character { .. } => "character",
            _ => "another one",
        }}),
    })
}

fn fault_told(fault: &HeaderFault) -> Value {
    match fault {
        // What is no name is only shown escaped, for people.
        HeaderFault::Name { .. } => json!([fault.code(), null]),
        _ => json!([fault.code(), fault.name()]),
    }
}

pub(super) fn headers(given: Given<'_>) -> Answer {
    let policy = HeaderPolicy { allow: given.texts("allow")?.into_iter().map(str::to_owned).collect() };
    Ok(match StaticHeaders::check(given.pairs("headers")?, &policy) {
        Ok(headers) => json!({"headers": headers.iter().map(|(name, value)| [name, value]).collect::<Vec<_>>()}),
        Err(faults) => json!({"faults": faults.iter().map(fault_told).collect::<Vec<_>>()}),
    })
}
