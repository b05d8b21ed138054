//! Groups of calls, and the aggregates that watch them.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tidings_proto::group::{Aggregate, Rule, Verdict};
use tidings_proto::time::StoreMillis;
use tidings_proto::trigger::Outcome;
use tidings_store::{AggregateId, CallId, Done, DueAggregate, GroupKey, JoinGroup, NewAggregate, Refused, Watch};

use crate::error::{Fail, corrupt};
use crate::rows::{self, Id};
use crate::writer::Tx;

impl Tx<'_> {
    pub(crate) fn join_group(&mut self, join: &JoinGroup) -> Result<Done, Fail> {
        self.saw(join.now);
        let call = self.running(join.call)?;
        let group = self.group(&join.group, join.now, join.until)?;
        let calls: i64 = self
            .conn
            .prepare_cached("SELECT count(*) FROM group_calls WHERE grp = ?1")?
            .query_row([group], |row| row.get(0))?;
        if calls >= rows::int(join.max_calls) {
            return Err(Refused::Full.into());
        }
        self.conn
            .prepare_cached("INSERT INTO group_calls (grp, call) VALUES (?1, ?2)")?
            .execute((group, join.call.to_bytes()))?;
        self.conn.prepare_cached("UPDATE calls SET grp = ?2 WHERE n = ?1")?.execute((call, group))?;
        Ok(Done::Nothing)
    }

    pub(crate) fn watch(&mut self, watch: &Watch) -> Result<Done, Fail> {
        self.saw(watch.now);
        let new = &watch.new;
        if rows::call_state(self.conn, new.call)?.is_none() {
            return Err(Refused::Unknown.into());
        }
        let group = self.group(&new.group, watch.now, new.deadline)?;
        let (rule, wanted) = new.aggregate.rule.parts();
        self.conn
            .prepare_cached(
                "INSERT INTO aggregates (uid, grp, call, asked, rule, wanted, outcome, deadline_ms, deadline, verdict, due, ended)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'open', ?9, 0) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                new.id.0,
                group,
                new.call.to_bytes(),
                new.aggregate.to_json(),
                rule,
                rows::int(wanted),
                new.aggregate.on.map(Outcome::as_str),
                new.aggregate.deadline_ms.map(rows::int),
                new.deadline,
            ])?;
        self.judge(group, watch.now)?;
        Ok(Done::Nothing)
    }

    /// The group of that name. One that nobody watches and whose time is over is another one than the next.
    fn group(&mut self, key: &GroupKey, now: StoreMillis, until: StoreMillis) -> Result<i64, Fail> {
        let found: Option<(i64, StoreMillis)> = self
            .conn
            .prepare_cached("SELECT n, until FROM groups WHERE principal = ?1 AND name = ?2")?
            .query_row((&key.principal, &key.name), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((group, its)) = found {
            if its > now || self.is_in_use(group)? {
                return Ok(group);
            }
            self.forget_group(group)?;
        }
        let made = self
            .conn
            .prepare_cached("INSERT INTO groups (principal, name, until) VALUES (?1, ?2, ?3) RETURNING n")?
            .query_row((&key.principal, &key.name, until), |row| row.get(0))?;
        Ok(made)
    }

    /// Whether somebody watches it or one of its calls runs.
    fn is_in_use(&self, group: i64) -> Result<bool, Fail> {
        let used = self
            .conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM aggregates WHERE grp = ?1 AND ended = 0)
                     OR EXISTS (SELECT 1 FROM group_calls WHERE grp = ?1 AND status IS NULL)",
            )?
            .query_row([group], |row| row.get(0))?;
        Ok(used)
    }

    fn forget_group(&self, group: i64) -> Result<(), Fail> {
        for sql in [
            "DELETE FROM aggregates WHERE grp = ?1",
            "DELETE FROM group_calls WHERE grp = ?1",
            "DELETE FROM groups WHERE n = ?1",
        ] {
            self.conn.prepare_cached(sql)?.execute([group])?;
        }
        Ok(())
    }

    /// A group ends when all that watched it have ended and none of its calls runs.
    fn end_if_over(&self, group: i64) -> Result<(), Fail> {
        let watched: bool = self
            .conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM aggregates WHERE grp = ?1)")?
            .query_row([group], |row| row.get(0))?;
        if watched && !self.is_in_use(group)? {
            self.forget_group(group)?;
        }
        Ok(())
    }

    /// One of a group's calls has ended.
    pub(crate) fn group_call_ended(
        &mut self,
        group: i64,
        call: CallId,
        status: &str,
        at: StoreMillis,
    ) -> Result<(), Fail> {
        self.conn.prepare_cached("UPDATE group_calls SET status = ?3 WHERE grp = ?1 AND call = ?2")?.execute((
            group,
            call.to_bytes(),
            status,
        ))?;
        self.judge(group, at)?;
        self.end_if_over(group)
    }

    /// Brings the aggregates of a group to where they stand by now.
    fn judge(&mut self, group: i64, now: StoreMillis) -> Result<(), Fail> {
        let open: Vec<(i64, Aggregate)> = {
            let mut select = self.conn.prepare_cached(
                "SELECT aggregates.n, name, outcome, rule, wanted, deadline_ms
                 FROM aggregates JOIN groups ON groups.n = grp WHERE grp = ?1 AND verdict = 'open' AND ended = 0",
            )?;
            let found = select.query_map([group], |row| Ok((row.get(0)?, aggregate(row, 1)?)))?;
            found.collect::<Result<_, _>>()?
        };
        if open.is_empty() {
            return Ok(());
        }
        let ended: Vec<Outcome> = calls(self.conn, group)?.into_iter().filter_map(|(_, outcome)| outcome).collect();
        for (n, aggregate) in open {
            let verdict = aggregate.verdict(ended.iter().copied());
            if verdict != Verdict::Open {
                self.conn.prepare_cached("UPDATE aggregates SET verdict = ?2, due = ?3 WHERE n = ?1")?.execute((
                    n,
                    verdict.as_str(),
                    now,
                ))?;
            }
        }
        Ok(())
    }

    pub(crate) fn end_aggregate(&mut self, id: AggregateId, verdict: Verdict) -> Result<Done, Fail> {
        let stands = if verdict == Verdict::Deadline { Verdict::Open } else { verdict };
        let group: Option<i64> = self
            .conn
            .prepare_cached(
                "UPDATE aggregates SET ended = 1 WHERE uid = ?1 AND ended = 0 AND verdict = ?2 RETURNING grp",
            )?
            .query_row((id.0, stands.as_str()), |row| row.get(0))
            .optional()?;
        let group = group.ok_or(Refused::Unknown)?;
        self.end_if_over(group)?;
        Ok(Done::Nothing)
    }

    /// Forgets groups that nobody ever watched and whose time is over; at most `limit`. Says how many.
    pub(crate) fn forget_groups(&mut self, now: StoreMillis, limit: usize) -> Result<usize, Fail> {
        let stale: Vec<i64> = {
            let mut select = self.conn.prepare_cached(
                "SELECT n FROM groups WHERE until <= ?1
                   AND NOT EXISTS (SELECT 1 FROM aggregates WHERE grp = groups.n AND ended = 0)
                   AND NOT EXISTS (SELECT 1 FROM group_calls WHERE grp = groups.n AND status IS NULL)
                 ORDER BY until LIMIT ?2",
            )?;
            let found = select.query_map((now, rows::int(limit as u64)), |row| row.get(0))?;
            found.collect::<Result<_, _>>()?
        };
        for group in &stale {
            self.forget_group(*group)?;
        }
        Ok(stale.len())
    }
}

/// An aggregate from `name, outcome, rule, wanted, deadline_ms`.
fn aggregate(row: &Row<'_>, at: usize) -> rusqlite::Result<Aggregate> {
    let (outcome, rule): (Option<String>, String) = (row.get(at + 1)?, row.get(at + 2)?);
    let wanted = rows::count(row, at + 3)?;
    let deadline_ms = match row.get::<_, Option<i64>>(at + 4)? {
        Some(_) => Some(rows::count(row, at + 4)?),
        None => None,
    };
    Ok(Aggregate {
        group: row.get(at)?,
        on: outcome.and_then(|outcome| Outcome::parse(&outcome)),
        rule: Rule::of_parts(&rule, wanted).ok_or(rusqlite::Error::IntegralValueOutOfRange(at + 2, 0))?,
        deadline_ms,
    })
}

/// The calls of a group in the order in which they joined.
fn calls(conn: &Connection, group: i64) -> rusqlite::Result<Vec<(CallId, Option<Outcome>)>> {
    let mut select = conn.prepare_cached("SELECT call, status FROM group_calls WHERE grp = ?1 ORDER BY n")?;
    let found = select.query_map([group], |row| {
        let status: Option<String> = row.get(1)?;
        let outcome = status.map(|status| Outcome::parse(&status).unwrap_or(Outcome::Failed));
        Ok((CallId::from_bytes(row.get::<_, Id>(0)?.0), outcome))
    })?;
    found.collect()
}

pub(crate) fn due_aggregates(conn: &Connection, now: StoreMillis, limit: u32) -> Result<Vec<DueAggregate>, Fail> {
    let mut select = conn.prepare_cached(
        "SELECT name, outcome, rule, wanted, deadline_ms, uid, call, deadline, verdict, principal, grp
         FROM aggregates JOIN groups ON groups.n = grp WHERE ended = 0 AND due <= ?1 ORDER BY due, aggregates.n LIMIT ?2",
    )?;
    let mut found = select.query((now, limit))?;
    let mut due = Vec::new();
    while let Some(row) = found.next()? {
        let verdict: String = row.get(8)?;
        let verdict = match Verdict::parse(&verdict) {
            Some(Verdict::Open) => Verdict::Deadline,
            Some(verdict) => verdict,
            None => return Err(corrupt(format!("an aggregate stands at {verdict:?}")).into()),
        };
        let new = NewAggregate {
            id: AggregateId(row.get::<_, Id>(5)?.0),
            group: GroupKey { principal: row.get(9)?, name: row.get(0)? },
            call: CallId::from_bytes(row.get::<_, Id>(6)?.0),
            aggregate: aggregate(row, 0)?,
            deadline: row.get(7)?,
        };
        due.push(DueAggregate { new, verdict, calls: calls(conn, row.get(10)?)? });
    }
    Ok(due)
}
