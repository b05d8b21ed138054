//! Retention and forgetting, a bounded step at a time.

use tidings_proto::stream::{Retention, StreamId};
use tidings_proto::time::{StoreMillis, UnixMillis};

use super::{State, Undo};
use crate::commit::Done;

/// Streams looked at in one step.
const STREAMS: usize = 256;
/// Streams that retention in total takes from in one step.
const TAKEN: usize = 4_096;
/// Calls and deliveries, each, forgotten in one step.
const FORGOTTEN: usize = 1_024;

/// Where the walk over all streams stands.
#[derive(Default)]
pub(super) struct Sweep {
    after: Option<StreamId>,
}

impl State {
    pub(super) fn trim(
        &mut self,
        now: StoreMillis,
        wall: UnixMillis,
        retention: &Retention,
        keep_finished_ms: i64,
        undo: &mut Vec<Undo>,
    ) -> Done {
        let ids = self.streams.ids_after(self.sweep.after, STREAMS);
        let mut events = 0;
        for id in &ids {
            events += self.streams.trim(*id, now, wall, retention, undo);
        }
        // A full step may have more behind it; a short one has reached the end, and the next walk starts over. The place
        // is not taken back with a refused commit: the walk comes round again.
        self.sweep.after = if ids.len() == STREAMS { ids.last().copied() } else { None };

        // In total once all streams have been looked at, so that their own limits cut first.
        let mut all_more = false;
        if self.sweep.after.is_none() {
            let (gone, more) = self.streams.trim_all(retention, TAKEN, undo);
            events += gone;
            all_more = more;
        }

        let by = now.saturating_sub(keep_finished_ms);
        self.groups.forget(now, undo);
        let groups = &self.groups;
        let calls = self.calls.forget(by, FORGOTTEN, |call| groups.needs(call), undo);
        let deliveries = self.deliveries.forget(by, FORGOTTEN, undo);
        self.deliveries.lines.forget_proofs(now, FORGOTTEN, undo);
        self.workers.forget(by, undo);
        let more = self.sweep.after.is_some() || all_more || calls == FORGOTTEN || deliveries == FORGOTTEN;
        Done::Trimmed { events, more }
    }
}
