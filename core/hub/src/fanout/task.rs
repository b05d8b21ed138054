//! `notifications/tasks`: a task's listeners hear its whole state when it changes (it asks for something, is answered, or has
//! ended), in whichever process.

use tidings_proto::fanout::{About, Frame, MethodSet, mcp};
use tidings_proto::task::WORKING;
use tidings_store::{CallId, CallRecord, Op, Publish};

use super::outbox::Shared;
use super::{ListenerId, Named, Ready};
use crate::core::Core;
use crate::notify::lock;
use crate::task::Task;

/// The kind's name.
const KIND: &str = "task";

/// For the commit that changes a call's state, if the call is a task: the other processes learn of it.
pub(crate) fn task_op(core: &Core, record: &CallRecord) -> Option<Op> {
    (core.store.is_shared() && record.task.is_some()).then(|| {
        let name = Some(record.id.to_string());
        Op::Publish(Publish { worker: core.worker, kinds: KIND.to_owned(), name, audience: None })
    })
}

/// A task's state has changed, and that is committed: tells its listeners in this process.
pub(crate) fn task_changed(core: &Core, id: CallId) {
    if core.fanouts.any() {
        tell(core, mcp::TASK, &id.to_string(), None);
    }
}

/// Tells of a task's state as it is now. Who may hear it was asked when the listener named the task.
pub(super) fn tell(core: &Core, method: usize, id: &str, audience: Option<&str>) {
    // Held from the look to the telling, so that what was seen earlier is not told later.
    let telling = lock(&core.fanouts.telling);
    if core.fanouts.names(method).binary_search_by(|name| name.as_str().cmp(id)).is_err() {
        return;
    }
    let Some(frame) = frame(core, method, id, |_| true) else { return };
    let ready = Ready { lists: MethodSet::EMPTY, named: Some(Named { method, name: id, frame }), audience };
    let (_, wakes) = core.fanouts.local_quietly(&ready, core.timeline.now());
    drop(telling);
    for outbox in wakes {
        outbox.signal.raise();
    }
}

/// Tells a new listener of a task that is not just working: what became of it before will not be told again.
pub(super) fn tell_new(core: &Core, outbox: &Shared, listener: ListenerId, method: usize, id: &str) {
    let telling = lock(&core.fanouts.telling);
    let Some(frame) = frame(core, method, id, |task| task.status != WORKING) else { return };
    let ((), wakes) = outbox.change_quietly(|board| board.note(listener, method, id, &frame));
    drop(telling);
    if wakes {
        outbox.signal.raise();
    }
}

fn frame(core: &Core, method: usize, id: &str, wanted: impl Fn(&Task) -> bool) -> Option<Frame> {
    let row = core.fanouts.protocol.methods.get(method).filter(|row| row.about == About::State)?;
    let task = Task::peek(core, id).ok().flatten().filter(wanted)?;
    Frame::state(row.name, &task.json).ok()
}
