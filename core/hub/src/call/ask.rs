//! A task asks its client for something and waits for the answer, whichever process takes it (SEP-2663).

use std::sync::Arc;

use tidings_proto::task::Round;
use tidings_store::Durability;

use super::inner::AGAIN;
use super::{Call, CallInner};
use crate::error::{Error, ErrorCode, Result};
use crate::stream::After;
use crate::{fanout, input};

impl Call {
    /// Asks the task's client for input: `requests` is the JSON text of an object, `{key: request}`, as in
    /// `inputRequests`. Answers, once there is a response to each, with them as `{key: response}`.
    ///
    /// The questions are on disk before anybody hears of them, with an event `io.tidings.input_required` of the call's
    /// stream; from then on the task is `input_required`, and its listeners are told. A key may be used again: on the wire
    /// it then gets another name. Whoever stops waiting leaves the questions outstanding.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] for what is no such object and for a call that is no task; [`ErrorCode::Ended`] once
    /// the call has ended.
    pub async fn ask(&self, requests: &[u8]) -> Result<String> {
        let inner = &self.inner;
        let mut round = inner.start_ask(requests)?;
        tokio::select! {
            biased;
            answered = answered(inner, &mut round) => answered,
            ended = inner.wait_ended() => {
                ended?;
                Err(has_ended())
            }
        }
    }
}

async fn answered(inner: &Arc<CallInner>, round: &mut Round) -> Result<String> {
    let asking = Arc::clone(inner);
    match inner.core.spawn(async move { asked(&asking).await }) {
        Some(asked) => asked.await.unwrap_or_else(|_| Err(Error::closed("hub")))?,
        None => return Err(Error::closed("hub")),
    }
    let mut tail = input::stream(&inner.core, &inner.record).tail(After::Earliest)?;
    while let Some(read) = tail.next().await {
        for event in read?.events {
            round.apply(&event.kind, &event.payload);
        }
        if let Some(answers) = round.answers() {
            return Ok(answers);
        }
    }
    Err(has_ended()) // which closes the stream
}

/// Waits until the question is on disk, and tells of it. Goes on when nobody waits.
async fn asked(inner: &CallInner) -> Result<()> {
    loop {
        match inner.writer.flush(Durability::Disk).await {
            Ok(()) => break,
            // It is kept and tried again.
            Err(error) if error.code() == ErrorCode::Unavailable => tokio::time::sleep(AGAIN).await,
            Err(error) if error.code() == ErrorCode::Closed && !inner.core.is_closed() => return Err(has_ended()),
            Err(error) => return Err(error),
        }
    }
    fanout::task_changed(&inner.core, inner.record.id);
    Ok(())
}

fn has_ended() -> Error {
    Error::new(ErrorCode::Ended, "the call has ended")
}
