//! Calls, their timers, and the workers that run them.

use rusqlite::params;
use tidings_proto::time::StoreMillis;
use tidings_store::{
    CallId, CallOutcome, CallRecord, Done, Refused, StoreError, StoreErrorKind, TaskTerms, TimerKind, WorkerId,
};

use crate::error::Fail;
use crate::rows;
use crate::seal::Field;
use crate::sum;
use crate::writer::Tx;

impl Tx<'_> {
    pub(crate) fn begin_call(&mut self, record: &CallRecord) -> Result<Done, Fail> {
        self.saw(record.began_at);
        let terms = record.task.as_ref().map(|task| task.terms);
        let config = self.core.sealer.seal(&record.config.0, Field::CallConfig, &record.id.to_bytes())?;
        let made = self
            .conn
            .prepare_cached(
                "INSERT INTO calls (uid, worker, began_at, began_time, principal, session, request_id, tool, scope, name, config, task_ttl, task_bound)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                record.id.to_bytes(),
                record.worker.0,
                record.began_at,
                record.began_time,
                record.principal,
                record.session,
                record.request_id,
                record.tool,
                record.stream.scope,
                record.stream.name,
                config,
                terms.map(|terms| rows::int(terms.ttl_ms)),
                terms.map(|terms| terms.bound),
            ])?;
        if made == 0 { Err(Refused::Exists.into()) } else { Ok(Done::Nothing) }
    }

    /// The row number of a call that runs.
    pub(crate) fn running(&self, id: CallId) -> Result<i64, Fail> {
        match rows::call_state(self.conn, id)? {
            None => Err(Refused::Unknown.into()),
            Some((_, Some(outcome))) => Err(Refused::Ended(outcome).into()),
            Some((n, None)) => Ok(n),
        }
    }

    pub(crate) fn end_call(
        &mut self,
        id: CallId,
        outcome: &CallOutcome,
        at: StoreMillis,
        payload: Option<&[u8]>,
    ) -> Result<Done, Fail> {
        self.saw(at);
        let n = self.running(id)?;
        let sum = payload.map(|payload| sum::of_task_end(id, payload));
        let group = self
            .conn
            .prepare_cached(
                "UPDATE calls SET status = ?2, reason = ?3, ended_at = ?4,
                 task_end = CASE WHEN task_ttl IS NULL THEN NULL ELSE ?5 END,
                 task_end_crc = CASE WHEN task_ttl IS NULL THEN NULL ELSE ?6 END WHERE n = ?1 RETURNING grp",
            )?
            .query_row((n, &outcome.status, &outcome.reason, at, payload, sum), |row| row.get::<_, Option<i64>>(0))?;
        self.conn.prepare_cached("DELETE FROM timers WHERE call = ?1")?.execute([n])?;
        if let Some(group) = group {
            self.group_call_ended(group, id, &outcome.status, at)?;
        }
        Ok(Done::Nothing)
    }

    pub(crate) fn become_task(&mut self, call: CallId, terms: TaskTerms) -> Result<Done, Fail> {
        let n = self.running(call)?;
        self.conn.prepare_cached("UPDATE calls SET task_ttl = ?2, task_bound = ?3 WHERE n = ?1")?.execute((
            n,
            rows::int(terms.ttl_ms),
            terms.bound,
        ))?;
        Ok(Done::Nothing)
    }

    pub(crate) fn set_timer(&mut self, call: CallId, kind: TimerKind, due: StoreMillis) -> Result<Done, Fail> {
        let n = self.running(call)?;
        self.conn
            .prepare_cached(
                "INSERT INTO timers (call, kind, due) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET due = excluded.due",
            )?
            .execute((n, kind.to_string(), due))?;
        Ok(Done::Nothing)
    }

    pub(crate) fn fire_timer(
        &mut self,
        call: CallId,
        kind: TimerKind,
        due: StoreMillis,
        next: Option<StoreMillis>,
    ) -> Result<Done, Fail> {
        let n = self.running(call)?;
        let kind = kind.to_string();
        let fired = match next {
            Some(next) => self
                .conn
                .prepare_cached("UPDATE timers SET due = ?4 WHERE call = ?1 AND kind = ?2 AND due = ?3")?
                .execute((n, kind, due, next))?,
            None => self
                .conn
                .prepare_cached("DELETE FROM timers WHERE call = ?1 AND kind = ?2 AND due = ?3")?
                .execute((n, kind, due))?,
        };
        if fired == 0 { Err(Refused::Unknown.into()) } else { Ok(Done::Nothing) }
    }

    pub(crate) fn heartbeat(&mut self, worker: WorkerId, until: StoreMillis) -> Result<Done, Fail> {
        self.check_file()?;
        if let Err(error) = self.core.workers.hold(worker) {
            // Its lease alone then says that it lives.
            tracing::warn!(%worker, %error, "cannot lock the file that tells other processes of this worker's death");
        }
        self.conn
            .prepare_cached(
                "INSERT INTO workers (uid, until, boot) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET until = excluded.until, boot = excluded.boot",
            )?
            .execute((worker.0, until, self.core.boot()))?;
        Ok(Done::Nothing)
    }

    /// A database file that was deleted or replaced takes commits without a word, and nobody will ever see them.
    fn check_file(&self) -> Result<(), StoreError> {
        match self.core.place.identity() {
            Ok(now) if now == self.core.identity => Ok(()),
            _ => {
                let why = format!("{} was removed or replaced while the store was open", self.core.place.db.display());
                Err(StoreError::new(StoreErrorKind::Io, why))
            }
        }
    }

    pub(crate) fn leave(&mut self, worker: WorkerId) -> Result<Done, Fail> {
        self.give_back(worker)?;
        self.conn.prepare_cached("DELETE FROM workers WHERE uid = ?1")?.execute([worker.0])?;
        self.conn.prepare_cached("DELETE FROM offers WHERE worker = ?1")?.execute([worker.0])?;
        self.after.left.push(worker);
        Ok(Done::Nothing)
    }
}
