//! Standard Webhooks for receivers.

use std::ffi::c_char;

use tidings_bridge::{DecryptionKeys, Error, Webhook, WebhookError};

use crate::entry::{Result, entry, tidings_result, unverified};
use crate::handle::Table;
use crate::memory::{self, Out, tidings_bytes, tidings_pair};
use crate::text::{TEXTS, give, tidings_text};

/// The secrets of a sender: a webhook is to have a signature of one of them.
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_webhook {
    _private: [u8; 0],
}

/// The private keys of a receiver, for bodies that are encrypted to it (`publicKey` of a route).
#[allow(non_camel_case_types, reason = "C's names")]
pub struct tidings_webhook_keys {
    _private: [u8; 0],
}

/// The tolerance that Standard Webhooks recommends, in seconds.
pub const TIDINGS_WEBHOOK_TOLERANCE: u64 = 300;

pub(crate) static WEBHOOKS: Table<Webhook> = Table::new(12);
pub(crate) static KEYS: Table<DecryptionKeys> = Table::new(27);

/// Runs the body of an export that tells whether a webhook is to be trusted: its own error, or that of the webhook.
fn judge(name: &'static str, body: impl FnOnce() -> Result<std::result::Result<(), WebhookError>>) -> tidings_result {
    let mut refused = None;
    let result = entry(name, || {
        refused = body()?.err();
        Ok(())
    });
    match refused {
        Some(error) => unverified(format!("{}: {}", error.code, error.message)),
        None => result,
    }
}

/// A receiver with these secrets: `whsec_…`, which may be missing; two of them during rotation. Free it with
/// `tidings_webhook_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_new(
    secrets: *const tidings_bytes,
    count: usize,
    webhook: *mut *mut tidings_webhook,
) -> tidings_result {
    entry("tidings_webhook_new", || {
        // SAFETY: the header's conventions.
        let (out, secrets) = unsafe { (Out::new("webhook", webhook)?, memory::texts("secrets", secrets, count)?) };
        out.set(WEBHOOKS.insert(Webhook::new(&secrets)?));
        Ok(())
    })
}

/// Checks a webhook: its body as it was received, byte for byte, and its headers. `now` is the time in seconds since 1970,
/// `tolerance` how many seconds the webhook's may be away from it, such as `TIDINGS_WEBHOOK_TOLERANCE`. `TIDINGS_OK`: it is the sender's.
/// `TIDINGS_UNVERIFIED`: it is not to be trusted; the message begins with a stable name and a colon, such as `mismatch:`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_verify(
    webhook: *const tidings_webhook,
    body: *const u8,
    body_len: usize,
    headers: *const tidings_pair,
    headers_count: usize,
    now: i64,
    tolerance: u64,
) -> tidings_result {
    judge("tidings_webhook_verify", || {
        // SAFETY: the header's conventions.
        let (body, headers) =
            unsafe { (memory::bytes("body", body, body_len)?, memory::pairs("headers", headers, headers_count)?) };
        Ok(WEBHOOKS.get("webhook", webhook)?.verify(body, &headers, now, tolerance))
    })
}

/// The value of the `webhook-signature` header for this id, time (in seconds since 1970) and body.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_sign(
    webhook: *const tidings_webhook,
    id: *const c_char,
    id_len: usize,
    time: i64,
    body: *const u8,
    body_len: usize,
    signature: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_webhook_sign", || {
        // SAFETY: the header's conventions.
        let (out, id, body) = unsafe {
            (Out::new("signature", signature)?, memory::text("id", id, id_len)?, memory::bytes("body", body, body_len)?)
        };
        let signed = WEBHOOKS.get("webhook", webhook)?.sign(id, time, body);
        let [_, _, (_, signature)] = signed.map_err(|error| Error::argument("id", error.message))?;
        give(out, signature)
    })
}

/// The answer to a sender's challenge, as JSON text: answer it with status 200. Sets NULL for a body that is none. Verify
/// it first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_challenge_answer(
    body: *const u8,
    body_len: usize,
    answer: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_webhook_challenge_answer", || {
        // SAFETY: the header's conventions.
        let (out, body) = unsafe { (Out::new("answer", answer)?, memory::bytes("body", body, body_len)?) };
        let found = tidings_bridge::challenge_answer(body);
        out.set(found.map_or(std::ptr::null_mut(), |json| TEXTS.insert(json.into())));
        Ok(())
    })
}

/// The document that says which paths of a host receive webhooks, as JSON text: to be served as
/// `/.well-known/mcp-webhook-receiver.json`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_receiver_document(
    paths: *const tidings_bytes,
    count: usize,
    document: *mut *mut tidings_text,
) -> tidings_result {
    entry("tidings_webhook_receiver_document", || {
        // SAFETY: the header's conventions.
        let (out, paths) = unsafe { (Out::new("document", document)?, memory::texts("paths", paths, count)?) };
        give(out, tidings_bridge::receiver_document(&paths))
    })
}

/// Frees a receiver. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_free(webhook: *mut tidings_webhook) -> tidings_result {
    entry("tidings_webhook_free", || WEBHOOKS.free("webhook", webhook))
}

/// A receiver's private keys, each the JSON text of a JWK with its `d`, on P-256 or X25519; several while one replaces the
/// other. The message of an error holds nothing of a key. Free them with `tidings_webhook_keys_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_keys_new(
    jwks: *const tidings_bytes,
    count: usize,
    keys: *mut *mut tidings_webhook_keys,
) -> tidings_result {
    entry("tidings_webhook_keys_new", || {
        // SAFETY: the header's conventions.
        let (out, jwks) = unsafe { (Out::new("keys", keys)?, memory::texts("jwks", jwks, count)?) };
        out.set(KEYS.insert(DecryptionKeys::new(&jwks)?));
        Ok(())
    })
}

/// Reads a body that was encrypted to one of the keys: a JWE in its compact form (RFC 7516), ECDH-ES with A256GCM. Verify it
/// first: the signature is over the body as it came. A body that is not encrypted begins with `{`, which no JWE does.
/// `TIDINGS_UNVERIFIED`: it cannot be read; the message begins with `jwe_malformed:`, `jwe_unsupported:` or `jwe_no_key:`. Free the
/// text with `tidings_text_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_decrypt(
    keys: *const tidings_webhook_keys,
    body: *const u8,
    body_len: usize,
    plain: *mut *mut tidings_text,
) -> tidings_result {
    judge("tidings_webhook_decrypt", || {
        // SAFETY: the header's conventions.
        let (out, body) = unsafe { (Out::new("plain", plain)?, memory::bytes("body", body, body_len)?) };
        Ok(KEYS.get("keys", keys)?.decrypt(body).map(|plain| out.set(TEXTS.insert(plain.into()))))
    })
}

/// Frees keys. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidings_webhook_keys_free(keys: *mut tidings_webhook_keys) -> tidings_result {
    entry("tidings_webhook_keys_free", || KEYS.free("keys", keys))
}
