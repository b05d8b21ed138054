//! Calls that can be asked for by their id.

use tidings_bridge as bridge;

use crate::entry::{answer, complete, entry};
use crate::error::TidingsError;
use crate::hub::Hub;

/// On which terms a call is a task (SEP-2663).
pub type TaskTerms = bridge::TaskTerms;

/// On which terms a call is a task (SEP-2663).
#[uniffi::remote(Record)]
pub struct TaskTerms {
    /// How long it can be asked for after its end, in milliseconds.
    pub ttl_ms: u64,
    /// Only the call's principal may ask. Otherwise whoever knows the id may.
    pub bound: bool,
}

/// A task as it was when it was asked for.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Task {
    /// `working`, `input_required`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// SEP-2663's `DetailedTask` as JSON text.
    pub json: String,
    /// The scope of the stream of its events.
    pub scope: String,
    /// The stream's name there.
    pub name: String,
}

impl From<bridge::Task> for Task {
    fn from(task: bridge::Task) -> Self {
        let bridge::Task { status, json, scope, name } = task;
        Self { status: status.to_owned(), json, scope, name }
    }
}

#[uniffi::export]
impl Hub {
    /// The task of that id, for the principal who asks. Blocks for a read.
    pub fn task(&self, id: &str, asker: &str) -> Result<Option<Task>, TidingsError> {
        entry("Hub.task", || Ok(self.inner.task(id, asker)?.map(Task::from)))
    }

    /// Cancels the task of that id, unless it has ended; false if there is none.
    pub async fn cancel_task(&self, id: String, asker: String) -> Result<bool, TidingsError> {
        answer("Hub.cancelTask", || Ok(self.inner.cancel_task(id, asker)), complete).await
    }

    /// Gives a running task its client's answers, the JSON text of an object; false if there is none.
    pub async fn answer_task(&self, id: String, asker: String, responses: Vec<u8>) -> Result<bool, TidingsError> {
        answer("Hub.answerTask", || Ok(self.inner.answer_task(id, asker, responses)), complete).await
    }
}
