//! What every exported function runs in.

use std::sync::Once;

use tidings_bridge::{self as bridge, Answer, Started};

use crate::error::TidingsError;

/// Runs an entry point called `name`: no panic leaves it, and an error becomes the one that hosts see.
pub(crate) fn entry<T>(name: &'static str, body: impl FnOnce() -> bridge::Result<T>) -> Result<T, TidingsError> {
    static ONCE: Once = Once::new();
    // uniffi has no hook for the loading of a library. This one has a copy of the Rust runtime of its own: nobody else's
    // panics and log lines pass here.
    ONCE.call_once(|| {
        bridge::install_panic_hook();
        bridge::install_log();
    });
    Ok(bridge::guard(name, body)?)
}

/// Begins an operation and waits for its answer, in the executor of the host. `read` takes the answer apart: `None` if it is of
/// another kind than the operation's.
pub(crate) async fn answer<T>(
    name: &'static str,
    begin: impl FnOnce() -> bridge::Result<Started>,
    read: impl FnOnce(Answer) -> Option<T>,
) -> Result<T, TidingsError> {
    let answer = entry(name, begin)?.await?;
    read(answer).ok_or_else(|| {
        bridge::Error::new(bridge::ErrorCode::Internal, format!("{name}: an answer of another kind")).into()
    })
}

/// The answer that says only that it is done.
pub(crate) fn done(answer: Answer) -> Option<()> {
    matches!(answer, Answer::Done).then_some(())
}

/// The answer that says whether it was done.
pub(crate) fn complete(answer: Answer) -> Option<bool> {
    match answer {
        Answer::Complete(complete) => Some(complete),
        _ => None,
    }
}
