//! What a webhook request looks like: Standard Webhooks 1.0 signatures over raw bytes, and the static headers a client
//! may add.
//!
//! A request carries `webhook-id` (the same on every attempt, the receiver's key against doubles), `webhook-timestamp`
//! (Unix seconds of this attempt) and `webhook-signature`: a list of `v1,` and base64 of
//! HMAC-SHA256(secret, id `.` timestamp `.` body), one entry for each secret, so that a receiver accepts the old and
//! the new one during a rotation. [`sign`] makes the header, [`verify`] is the receiving side. Both work on the bytes
//! that travel: nothing is parsed or re-serialised in between.
//!
//! A route may have a body that tells of several firings, see [`events()`], and one that only its receiver can read, see
//! [`encrypt`] and [`decrypt`].
//!
//! Sources: Standard Webhooks 1.0.0 (`spec/standard-webhooks.md`), SEP-3415 "Webhook security" (a secret is 24 to 64
//! bytes and made by the client), RFC 2104, RFC 9110 section 5 for headers.

mod challenge;
mod events;
mod headers;
mod jwe;
mod message_id;
mod receiver;
mod secret;
mod sign;
mod trace;
mod verify;
mod well_known;

pub use challenge::{MAX_CHALLENGE_ANSWER_BYTES, challenge_answer, challenge_json, is_challenge_answer};
pub use events::{NoJson, events};
pub use headers::{HeaderFault, HeaderPolicy, MAX_HEADER_VALUE_BYTES, MAX_HEADERS, StaticHeaders};
pub use jwe::{
    DecryptError, JWE_MEDIA_TYPE, Jwk, KeyFault, MAX_KEY_ID_CHARS, PrivateKey, PublicKey, Seed, TooLong, concat_kdf,
    decrypt, encrypt,
};
pub use message_id::{MAX_MESSAGE_ID_BYTES, MessageIdFault, check_message_id};
pub use receiver::{Incoming, Receiver, Seen};
pub use secret::{SECRET_BYTES, SECRET_PREFIX, Secret, SecretFault};
pub use sign::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign};
pub use trace::{TRACEPARENT_HEADER, is_traceparent};
pub use verify::{DEFAULT_TOLERANCE_SECS, MAX_SIGNATURE_HEADER_BYTES, Received, VerifyError, verify};
pub use well_known::{
    MAX_RECEIVER_DOCUMENT_BYTES, Receivers, is_below, is_receiver, receiver_document_json, receiver_document_url,
};
