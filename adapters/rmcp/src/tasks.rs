//! Which tool calls become tasks, and on which terms.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tidings::proto::wire::sep2694;
use tidings::{Task, TaskTerms};

/// What becomes of the calls of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskMode {
    /// A plain call, and a task once it has run for a while.
    #[default]
    Auto,
    /// A task, at once.
    Always,
    /// A plain call.
    Never,
    /// As `Auto`; a request of 2026-07-28 that does not declare the extension is refused with -32021.
    Required,
}

/// How tool calls become tasks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tasks {
    /// How long a call runs as a plain call before it becomes a task. Default: 2 s.
    pub inline: Duration,
    /// How long a task can be asked for after its end. At most what the hub's retention keeps of a closed stream. Default: 1 h.
    pub ttl: Duration,
    /// How often a client should ask. Default: 1 s.
    pub poll: Duration,
    /// By tool name; all others are `Auto`.
    pub tools: HashMap<String, TaskMode>,
    /// The code of `events_gone` from `tasks/stream`.
    pub events_gone_code: i64,
    /// How many streams of tasks a principal, or else a session, may read at once in this process; where there is neither, so
    /// many of one task. Default: 16.
    pub streams: u32,
    /// How many times a minute each of them may ask for the stream of one task. Default: 60.
    pub resumes: u32,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            inline: Duration::from_secs(2),
            ttl: Duration::from_secs(3_600),
            poll: Duration::from_secs(1),
            tools: HashMap::new(),
            events_gone_code: sep2694::EVENTS_GONE,
            streams: 16,
            resumes: 60,
        }
    }
}

impl Tasks {
    /// That tool's calls.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, mode: TaskMode) -> Self {
        self.tools.insert(name.into(), mode);
        self
    }

    /// What becomes of calls of this tool.
    pub(crate) fn mode(&self, tool: &str) -> TaskMode {
        self.tools.get(tool).copied().unwrap_or_default()
    }

    pub(crate) fn terms(&self, bound: bool) -> TaskTerms {
        TaskTerms { ttl_ms: millis(self.ttl), bound }
    }

    /// The members of a task on the wire.
    pub(crate) fn shown(&self, task: &Task) -> Result<Value, serde_json::Error> {
        let mut shown: Value = serde_json::from_str(&task.json)?;
        shown["pollIntervalMs"] = millis(self.poll).into();
        Ok(shown)
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
