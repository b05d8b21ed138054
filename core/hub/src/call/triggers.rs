//! Triggers that no event of the call fires: time, and groups of calls. Whoever sees first that one is due fires it; rows
//! in the store make that once.

use tidings_proto::config::{Faults, NotificationConfig, rule};
use tidings_proto::firing::Detail;
use tidings_proto::group::{Aggregate, Verdict};
use tidings_proto::time::StoreMillis;
use tidings_proto::trigger::{MAX_EVERY_FIRINGS, Trigger, next_every};
use tidings_store::{
    AggregateId, CallRecord, CommitError, DueAggregate, DueTimer, GroupKey, JoinGroup, NewAggregate, Op, TimerKind,
    Watch,
};

use super::CallInner;
use super::others::submit;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::plan::{self, Fired};

/// What a call's config begins: its timers, its place in its group, and the aggregates that it watches.
pub(super) fn begin_ops(
    core: &Core,
    record: &CallRecord,
    config: &NotificationConfig,
    now: StoreMillis,
) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let key = |name: &str| GroupKey { principal: record.principal.clone(), name: name.to_owned() };
    if let Some(name) = &config.group {
        ops.push(Op::JoinGroup(Box::new(JoinGroup {
            group: key(name),
            call: record.id,
            max_calls: core.options.config_limits.max_group_calls,
            until: now.saturating_add_unsigned(core.options.config_limits.max_group_ms),
            now,
        })));
    }
    let mut seen: Vec<&Trigger> = Vec::new();
    for trigger in config.triggers() {
        if seen.contains(&trigger) {
            continue;
        }
        seen.push(trigger);
        match trigger {
            Trigger::Elapsed(ms) | Trigger::Every(ms) => {
                let kind = match trigger {
                    Trigger::Every(_) => TimerKind::Every(*ms),
                    _ => TimerKind::Elapsed(*ms),
                };
                ops.push(Op::SetTimer { call: record.id, kind, due: now.saturating_add_unsigned(*ms) });
            }
            Trigger::Group(aggregate) => {
                ops.push(Op::Watch(Box::new(watch(core, record, key(&aggregate.group), aggregate, now)?)));
            }
            _ => {}
        }
    }
    Ok(ops)
}

fn watch(core: &Core, record: &CallRecord, group: GroupKey, aggregate: &Aggregate, now: StoreMillis) -> Result<Watch> {
    let wait = aggregate.deadline_ms.unwrap_or(core.options.config_limits.max_group_ms);
    let new = NewAggregate {
        id: AggregateId(core.random()?),
        group,
        call: record.id,
        aggregate: aggregate.clone(),
        deadline: now.saturating_add_unsigned(wait),
    };
    Ok(Watch { new, now })
}

/// Why a call whose group is full is refused.
pub(super) fn group_full(call: &CallInner) -> Error {
    let most = call.core.options.config_limits.max_group_calls;
    Error::config(Faults::at("/group", rule::GROUP_FULL, format!("the group has {most} calls, and may have no more")))
}

/// Fires the triggers of time that are due `now`. Says how many.
///
/// Comes before lost calls are ended: what became due while nobody was there fires all the same.
pub(crate) async fn fire_due_timers(core: &Core, now: StoreMillis, limit: u32) -> usize {
    let Ok(due) = core.store.due_timers(now, limit) else { return 0 };
    let mut fired = 0;
    for timer in due {
        let trigger = match timer.kind {
            TimerKind::Timeout => continue,
            TimerKind::Elapsed(ms) => Trigger::Elapsed(ms),
            TimerKind::Every(ms) => Trigger::Every(ms),
        };
        let Ok(Some(record)) = core.store.call(timer.call) else { continue };
        match submit(core, timer_ops(core, &record, &timer, &trigger, now)).await {
            Ok(_) => fired += 1,
            Err(CommitError::Store(_)) => break,
            Err(CommitError::Refused(_)) => {} // another process was faster, or the call ended
        }
    }
    fired
}

fn timer_ops(core: &Core, record: &CallRecord, timer: &DueTimer, trigger: &Trigger, now: StoreMillis) -> Vec<Op> {
    let elapsed = u64::try_from(now.saturating_sub(record.began_at)).unwrap_or(0);
    let (next, detail) = match timer.kind {
        TimerKind::Every(ms) => {
            let count = elapsed.checked_div(ms).unwrap_or(0).min(MAX_EVERY_FIRINGS);
            (next_every(ms, elapsed), Detail::Every(ms, count))
        }
        TimerKind::Elapsed(ms) => (None, Detail::Elapsed(ms)),
        TimerKind::Timeout => return Vec::new(),
    };
    let next = next.map(|at| record.began_at.saturating_add_unsigned(at));
    let mut ops = vec![Op::FireTimer { call: timer.call, kind: timer.kind, due: timer.due, next }];
    ops.extend(deliveries(core, record, &Fired { detail: Some(detail), ..Fired::bare(trigger) }));
    ops
}

/// Tells the aggregates that have come to their end by `now`. Says how many.
pub(crate) async fn tell_due_aggregates(core: &Core, now: StoreMillis, limit: u32) -> usize {
    let Ok(due) = core.store.due_aggregates(now, limit) else { return 0 };
    let mut told = 0;
    for aggregate in due {
        let record = match core.store.call(aggregate.new.call) {
            Ok(record) => record,
            Err(_) => break,
        };
        match submit(core, aggregate_ops(core, record.as_ref(), &aggregate)).await {
            Ok(_) => told += 1,
            Err(CommitError::Store(_)) => break,
            Err(CommitError::Refused(_)) => {} // another process was faster, or a call ended meanwhile
        }
    }
    told
}

fn aggregate_ops(core: &Core, record: Option<&CallRecord>, due: &DueAggregate) -> Vec<Op> {
    let mut ops = vec![Op::EndAggregate { id: due.new.id, verdict: due.verdict }];
    let Some(record) = record else {
        tracing::error!(call = %due.new.call, "the call over whose routes a group is to be told is not there");
        return ops;
    };
    let calls: Vec<_> = due.calls.iter().map(|(id, outcome)| (id.to_string(), *outcome)).collect();
    let report = due.new.aggregate.report_json(due.verdict, calls.iter().map(|(id, outcome)| (id.as_str(), *outcome)));
    let trigger = Trigger::Group(Box::new(due.new.aggregate.clone()));
    let detail = Detail::Group { report: &report, met: due.verdict == Verdict::Met };
    ops.extend(deliveries(core, record, &Fired { detail: Some(detail), ..Fired::bare(&trigger) }));
    ops
}

/// The deliveries of a firing about a call that need not run here. What cannot be planned is lost with a word in the log,
/// so that it is not tried for ever.
fn deliveries(core: &Core, record: &CallRecord, fired: &Fired<'_>) -> Vec<Op> {
    let planned = match plan::stored_config(record) {
        Ok(config) => plan::plan(core, record, &config, record.task.as_ref().map(|task| task.terms), fired),
        Err(faults) => Err(Error::config(faults)),
    };
    planned.map(|plan| plan.ops).unwrap_or_else(|error| {
        tracing::error!(call = %record.id, trigger = %fired.trigger, %error, "a firing is lost");
        Vec::new()
    })
}
