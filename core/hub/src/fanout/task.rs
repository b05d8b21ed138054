//! `notifications/tasks`: a task's listeners hear its whole state when it has ended, in whichever process it ran.

use tidings_proto::fanout::{About, Frame, MethodSet, mcp};
use tidings_store::{CallId, CallRecord, Op, Publish};

use super::{Named, Ready};
use crate::core::Core;
use crate::task::Task;

/// The kind's name.
const KIND: &str = "task";

/// For the commit that ends a call which is a task: the other processes learn of it.
pub(crate) fn ended_op(core: &Core, record: &CallRecord) -> Option<Op> {
    (core.store.is_shared() && record.task.is_some()).then(|| {
        let name = Some(record.id.to_string());
        Op::Publish(Publish { worker: core.worker, kinds: KIND.to_owned(), name, audience: None })
    })
}

/// A task has ended, and that is committed: tells its listeners in this process.
pub(crate) fn task_ended(core: &Core, id: CallId) {
    if !core.fanouts.any() {
        return;
    }
    let name = id.to_string();
    let method = mcp::TASK;
    if core.fanouts.names(method).binary_search(&name).is_err() {
        return;
    }
    if let Some(frame) = frame(core, method, &name) {
        let named = Some(Named { method, name: &name, frame });
        core.fanouts.local(&Ready { lists: MethodSet::EMPTY, named, audience: None }, core.timeline.now());
    }
}

/// The frame with a task's state as it is now. Who may hear it was asked when the listener named the task.
pub(super) fn frame(core: &Core, method: usize, id: &str) -> Option<Frame> {
    let row = core.fanouts.protocol.methods.get(method)?;
    let task = Task::peek(core, id).ok().flatten()?;
    Frame::state(row.name, &task.json).ok()
}

/// The same, of a task that has ended.
pub(super) fn ended_frame(core: &Core, method: usize, id: &str) -> Option<Frame> {
    let row = core.fanouts.protocol.methods.get(method).filter(|row| row.about == About::State)?;
    let task = Task::peek(core, id).ok().flatten().filter(|task| task.status != "working")?;
    Frame::state(row.name, &task.json).ok()
}
