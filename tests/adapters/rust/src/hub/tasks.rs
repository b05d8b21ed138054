//! Tasks: how they stand, what they ask for, what they are answered.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::json;
use tidings::TaskTerms;

use super::{Done, Stage, Trouble};
use crate::given::Given;
use crate::wait;

/// Tools that wait for answers, each in a thread of its own, by the names the scenario gave them.
pub(super) type Asks = HashMap<String, JoinHandle<tidings::Result<String>>>;

/// Of a call that is a task from the start.
pub(super) fn terms(given: Given<'_>) -> Result<Option<TaskTerms>, String> {
    Ok(given.maybe_num("taskTtlMs")?.map(|ttl_ms| TaskTerms { ttl_ms, bound: true }))
}

fn asker(given: Given<'_>) -> Result<&str, String> {
    Ok(given.maybe_text("principal")?.unwrap_or("anyone"))
}

impl Stage {
    pub(super) fn ask(&mut self, given: Given<'_>) -> Done {
        let (call, requests) = (Arc::clone(self.call(given)?), given.bytes("requests")?);
        let asking = std::thread::spawn(move || wait(call.ask(&requests)));
        self.asks.insert(given.text("as")?.to_owned(), asking);
        Ok(json!({}))
    }

    /// Waits until the tool has its answers.
    pub(super) fn answers(&mut self, given: Given<'_>) -> Done {
        let name = given.text("ask")?;
        let asking = self.asks.remove(name).ok_or_else(|| format!("nothing is asked as {name}"))?;
        let answers = asking.join().map_err(|_| Trouble::Adapter("asking panicked".to_owned()))??;
        Ok(json!({"answers": answers}))
    }

    pub(super) fn task(&mut self, given: Given<'_>) -> Done {
        let task = self.hub()?.task(given.text("id")?, asker(given)?)?;
        Ok(json!({"task": task.map(|task| task.json)}))
    }

    pub(super) fn answer_task(&mut self, given: Given<'_>) -> Done {
        let responses = given.bytes("responses")?;
        Ok(json!({"found": wait(self.hub()?.answer_task(given.text("id")?, asker(given)?, &responses))?}))
    }

    pub(super) fn cancel_task(&mut self, given: Given<'_>) -> Done {
        Ok(json!({"found": wait(self.hub()?.cancel_task(given.text("id")?, asker(given)?))?}))
    }
}
