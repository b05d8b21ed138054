//! Calls and their timers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use tidings_proto::time::StoreMillis;

use crate::commit::{CommitError, Done, Refused};
use crate::record::{CallId, CallOutcome, CallRecord, TaskRecord, TaskTerms, TimerKind, WorkerId};
use crate::store::DueTimer;

#[derive(Default)]
pub(super) struct Calls {
    rows: HashMap<CallId, Row>,
    /// Calls that have not ended.
    running: BTreeSet<(WorkerId, CallId)>,
    /// Calls that have, by when.
    ended: BTreeSet<(StoreMillis, CallId)>,
    timers: BTreeSet<(StoreMillis, CallId, TimerKind)>,
}

#[derive(Clone)]
struct Row {
    record: CallRecord,
    timers: BTreeMap<TimerKind, StoreMillis>,
}

/// A call's row before the change.
pub(super) struct Undo(CallId, Option<Box<Row>>);

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Call(undo)
    }
}

impl Calls {
    /// Replaces a call's row and keeps every index true. Answers the row before.
    fn put(&mut self, id: CallId, row: Option<Row>) -> Option<Row> {
        let before = self.rows.remove(&id);
        if let Some(row) = &before {
            self.running.remove(&(row.record.worker, id));
            self.ended.remove(&(row.record.ended_at.unwrap_or_default(), id));
            for (kind, due) in &row.timers {
                self.timers.remove(&(*due, id, *kind));
            }
        }
        if let Some(row) = row {
            if row.record.outcome.is_none() {
                self.running.insert((row.record.worker, id));
            } else {
                self.ended.insert((row.record.ended_at.unwrap_or_default(), id));
            }
            self.timers.extend(row.timers.iter().map(|(kind, due)| (*due, id, *kind)));
            self.rows.insert(id, row);
        }
        before
    }

    fn change(&mut self, id: CallId, row: Option<Row>, undo: &mut Vec<super::Undo>) {
        let before = self.put(id, row);
        undo.push(Undo(id, before.map(Box::new)).into());
    }

    pub(super) fn take_back(&mut self, Undo(id, before): Undo) {
        self.put(id, before.map(|row| *row));
    }

    fn running(&self, id: CallId) -> Result<Row, Refused> {
        let row = self.rows.get(&id).ok_or(Refused::Unknown)?;
        match &row.record.outcome {
            Some(outcome) => Err(Refused::Ended(outcome.clone())),
            None => Ok(row.clone()),
        }
    }

    pub(super) fn begin(&mut self, record: &CallRecord, undo: &mut Vec<super::Undo>) -> Result<Done, CommitError> {
        if self.rows.contains_key(&record.id) {
            return Err(Refused::Exists.into());
        }
        let task = record.task.as_ref().map(|task| task.terms.into());
        let record = CallRecord { outcome: None, ended_at: None, task, ..record.clone() };
        self.change(record.id, Some(Row { record, timers: BTreeMap::new() }), undo);
        Ok(Done::Nothing)
    }

    pub(super) fn end(
        &mut self,
        id: CallId,
        outcome: &CallOutcome,
        at: StoreMillis,
        payload: Option<&Bytes>,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        let mut row = self.running(id)?;
        row.record.outcome = Some(outcome.clone());
        row.record.ended_at = Some(at);
        if let Some(task) = &mut row.record.task {
            task.end = payload.cloned();
        }
        row.timers.clear();
        self.change(id, Some(row), undo);
        Ok(Done::Nothing)
    }

    pub(super) fn become_task(
        &mut self,
        id: CallId,
        terms: TaskTerms,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        let mut row = self.running(id)?;
        row.record.task = Some(TaskRecord::from(terms));
        self.change(id, Some(row), undo);
        Ok(Done::Nothing)
    }

    pub(super) fn set_timer(
        &mut self,
        id: CallId,
        kind: TimerKind,
        due: StoreMillis,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        let mut row = self.running(id)?;
        row.timers.insert(kind, due);
        self.change(id, Some(row), undo);
        Ok(Done::Nothing)
    }

    pub(super) fn fire_timer(
        &mut self,
        id: CallId,
        kind: TimerKind,
        due: StoreMillis,
        next: Option<StoreMillis>,
        undo: &mut Vec<super::Undo>,
    ) -> Result<Done, CommitError> {
        let mut row = self.running(id)?;
        if row.timers.get(&kind) != Some(&due) {
            return Err(Refused::Unknown.into());
        }
        match next {
            Some(next) => row.timers.insert(kind, next),
            None => row.timers.remove(&kind),
        };
        self.change(id, Some(row), undo);
        Ok(Done::Nothing)
    }

    /// Whether the call runs.
    pub(super) fn check_running(&self, id: CallId) -> Result<(), Refused> {
        self.running(id).map(drop)
    }

    /// Forgets up to `limit` calls that ended at or before `by` and that nobody `needs`. Answers how many.
    pub(super) fn forget(
        &mut self,
        by: StoreMillis,
        limit: usize,
        needs: impl Fn(CallId) -> bool,
        undo: &mut Vec<super::Undo>,
    ) -> usize {
        let old = self.ended.iter().take_while(|(at, _)| *at <= by).map(|(_, id)| *id);
        let old: Vec<_> = old.filter(|id| !needs(*id)).take(limit).collect();
        for id in &old {
            self.change(*id, None, undo);
        }
        old.len()
    }

    pub(super) fn get(&self, id: CallId) -> Option<&CallRecord> {
        self.rows.get(&id).map(|row| &row.record)
    }

    /// Running calls of workers that are gone.
    pub(super) fn running_of(&self, gone: impl Fn(WorkerId) -> bool, limit: u32) -> Vec<CallRecord> {
        let lost = self.running.iter().filter(|(worker, _)| gone(*worker)).take(limit as usize);
        lost.filter_map(|(_, id)| self.get(*id).cloned()).collect()
    }

    pub(super) fn due_timers(&self, now: StoreMillis, limit: u32) -> Vec<DueTimer> {
        let due = self.timers.iter().take_while(|(due, ..)| *due <= now).take(limit as usize);
        due.map(|(due, call, kind)| DueTimer { call: *call, kind: *kind, due: *due }).collect()
    }

    pub(super) fn next_timer(&self) -> Option<StoreMillis> {
        self.timers.first().map(|(due, ..)| *due)
    }
}
