//! One module a target.

mod condition;
mod config;
mod cursor;
mod event;
mod signature;
mod sse;
mod store;

pub use condition::condition;
pub use config::config;
pub use cursor::cursor;
pub use event::event;
pub use signature::signature;
pub use sse::sse;
pub use store::store;

/// Splits off what stands before the first line break: inputs of several parts stay readable that way.
fn line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}
