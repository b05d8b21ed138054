//! Groups of calls, and the aggregates that watch them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidings_proto::group::Verdict;
use tidings_proto::time::StoreMillis;
use tidings_proto::trigger::Outcome;

use crate::commit::{CommitError, Done, JoinGroup, Refused, Watch};
use crate::record::{AggregateId, CallId, CallOutcome, DueAggregate, GroupKey, NewAggregate};

#[derive(Default)]
pub(super) struct Groups {
    groups: BTreeMap<GroupKey, Group>,
    /// The group of each call that runs in one.
    by_call: HashMap<CallId, GroupKey>,
    by_aggregate: HashMap<AggregateId, GroupKey>,
    /// Aggregates that have not ended, by when they are due.
    due: BTreeSet<(StoreMillis, AggregateId)>,
}

#[derive(Clone)]
struct Group {
    /// Forgotten after this if nobody ever watched it.
    until: StoreMillis,
    calls: Vec<(CallId, Option<Outcome>)>,
    aggregates: Vec<Row>,
}

#[derive(Clone)]
struct Row {
    new: NewAggregate,
    verdict: Verdict,
    due: StoreMillis,
    ended: bool,
}

impl Group {
    fn runs(&self) -> bool {
        self.calls.iter().any(|(_, outcome)| outcome.is_none())
    }

    fn is_watched(&self) -> bool {
        self.aggregates.iter().any(|row| !row.ended)
    }

    /// It ends when all that watched it have ended and none of its calls runs.
    fn is_over(&self) -> bool {
        !self.aggregates.is_empty() && !self.is_watched() && !self.runs()
    }

    fn is_stale(&self, now: StoreMillis) -> bool {
        self.until <= now && !self.is_watched() && !self.runs()
    }

    /// Brings the aggregates to where they stand by now.
    fn judge(&mut self, now: StoreMillis) {
        let ended: Vec<Outcome> = self.calls.iter().filter_map(|(_, outcome)| *outcome).collect();
        for row in self.aggregates.iter_mut().filter(|row| row.verdict == Verdict::Open) {
            row.verdict = row.new.aggregate.verdict(ended.iter().copied());
            if row.verdict != Verdict::Open {
                row.due = now;
            }
        }
    }
}

/// A group before the change.
pub(super) struct Undo(GroupKey, Option<Box<Group>>);

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Group(undo)
    }
}

impl Groups {
    /// Replaces a group and keeps every index true. Answers the group before.
    fn put(&mut self, key: &GroupKey, group: Option<Group>) -> Option<Group> {
        let before = self.groups.remove(key);
        if let Some(group) = &before {
            for (call, _) in &group.calls {
                self.by_call.remove(call);
            }
            for row in &group.aggregates {
                self.by_aggregate.remove(&row.new.id);
                self.due.remove(&(row.due, row.new.id));
            }
        }
        if let Some(group) = group {
            for (call, _) in group.calls.iter().filter(|(_, outcome)| outcome.is_none()) {
                self.by_call.insert(*call, key.clone());
            }
            for row in &group.aggregates {
                self.by_aggregate.insert(row.new.id, key.clone());
                if !row.ended {
                    self.due.insert((row.due, row.new.id));
                }
            }
            self.groups.insert(key.clone(), group);
        }
        before
    }

    fn change(&mut self, key: &GroupKey, group: Group, undo: &mut Vec<super::Undo>) {
        let group = (!group.is_over()).then_some(group);
        let before = self.put(key, group);
        undo.push(Undo(key.clone(), before.map(Box::new)).into());
    }

    pub(super) fn take_back(&mut self, Undo(key, before): Undo) {
        self.put(&key, before.map(|group| *group));
    }

    /// The group as it is, or a new one.
    fn current(&self, key: &GroupKey, now: StoreMillis, until: StoreMillis) -> Group {
        let found = self.groups.get(key).filter(|group| !group.is_stale(now));
        found.cloned().unwrap_or(Group { until, calls: Vec::new(), aggregates: Vec::new() })
    }

    pub(super) fn join(&mut self, join: &JoinGroup, undo: &mut Vec<super::Undo>) -> Result<Done, CommitError> {
        let mut group = self.current(&join.group, join.now, join.until);
        if group.calls.len() as u64 >= join.max_calls {
            return Err(Refused::Full.into());
        }
        group.calls.push((join.call, None));
        self.change(&join.group, group, undo);
        Ok(Done::Nothing)
    }

    pub(super) fn watch(&mut self, watch: &Watch, undo: &mut Vec<super::Undo>) -> Result<Done, CommitError> {
        let new = &watch.new;
        let mut group = self.current(&new.group, watch.now, new.deadline);
        if !group.aggregates.iter().any(|row| row.new.aggregate == new.aggregate) {
            group.aggregates.push(Row { new: new.clone(), verdict: Verdict::Open, due: new.deadline, ended: false });
            group.judge(watch.now);
            self.change(&new.group, group, undo);
        }
        Ok(Done::Nothing)
    }

    /// One of a group's calls has ended.
    pub(super) fn call_ended(
        &mut self,
        call: CallId,
        outcome: &CallOutcome,
        at: StoreMillis,
        undo: &mut Vec<super::Undo>,
    ) {
        let Some(key) = self.by_call.get(&call).cloned() else { return };
        let Some(mut group) = self.groups.get(&key).cloned() else { return };
        let outcome = Outcome::parse(&outcome.status).unwrap_or(Outcome::Failed);
        for (_, place) in group.calls.iter_mut().filter(|(id, _)| *id == call) {
            *place = Some(outcome);
        }
        group.judge(at);
        self.change(&key, group, undo);
    }

    pub(super) fn end(
        &mut self,
        id: AggregateId,
        verdict: Verdict,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        let key = self.by_aggregate.get(&id).cloned().ok_or(Refused::Unknown)?;
        let mut group = self.groups.get(&key).cloned().ok_or(Refused::Unknown)?;
        let stands = if verdict == Verdict::Deadline { Verdict::Open } else { verdict };
        let row = group.aggregates.iter_mut().find(|row| row.new.id == id && !row.ended && row.verdict == stands);
        row.ok_or(Refused::Unknown)?.ended = true;
        self.change(&key, group, undo);
        Ok(Done::Nothing)
    }

    pub(super) fn due(&self, now: StoreMillis, limit: u32) -> Vec<DueAggregate> {
        let due = self.due.iter().take_while(|(due, _)| *due <= now).take(limit as usize);
        due.filter_map(|(_, id)| {
            let group = self.groups.get(self.by_aggregate.get(id)?)?;
            let row = group.aggregates.iter().find(|row| row.new.id == *id)?;
            let verdict = if row.verdict == Verdict::Open { Verdict::Deadline } else { row.verdict };
            Some(DueAggregate { new: row.new.clone(), verdict, calls: group.calls.clone() })
        })
        .collect()
    }

    pub(super) fn next_due(&self) -> Option<StoreMillis> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Calls whose rows somebody still needs, to tell an aggregate over their routes.
    pub(super) fn needs(&self, call: CallId) -> bool {
        self.due.iter().any(|(_, id)| {
            let group = self.by_aggregate.get(id).and_then(|key| self.groups.get(key));
            group.is_some_and(|group| group.aggregates.iter().any(|row| row.new.id == *id && row.new.call == call))
        })
    }

    /// Forgets groups that nobody ever watched and whose time is over.
    pub(super) fn forget(&mut self, now: StoreMillis, undo: &mut Vec<super::Undo>) {
        let stale: Vec<_> =
            self.groups.iter().filter(|(_, group)| group.is_stale(now)).map(|(key, _)| key.clone()).collect();
        for key in stale {
            let before = self.put(&key, None);
            undo.push(Undo(key, before.map(Box::new)).into());
        }
    }
}
