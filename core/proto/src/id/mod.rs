//! Ids: those that clients give to requests, and our own.

pub(crate) mod base32;
mod own;
mod request;

pub use own::{BatchId, CallId, EventId, IdError};
pub use request::{RequestId, RequestIdError};
