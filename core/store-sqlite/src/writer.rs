//! The one connection that commits, and the group it commits in one transaction.

use std::collections::BTreeSet;

use rusqlite::{CachedStatement, Connection};
use tidings_store::{Commit, CommitError, Done, Durability, Op, StoreError, StoreErrorKind, WorkerId};

use crate::connection::Role;
use crate::error::{self, Fail};
use crate::gate::Gate;
use crate::streams::Streams;
use crate::timeline::Newest;
use crate::trim::Sweep;
use crate::{Core, schema};

/// The connection that commits, and what it remembers between groups.
pub(crate) struct Writer {
    conn: Option<Connection>,
    gate: Gate,
    /// What `PRAGMA synchronous` stands at; it can only be set between transactions.
    synced: Option<Durability>,
    /// `PRAGMA data_version` at the last group: another value means that somebody else has committed.
    data_version: i64,
    /// A group failed in a way that may have left its pages in the log; see [`Writer::connected`].
    scrub: bool,
    streams: Streams,
    sweep: Sweep,
    newest: Newest,
    closed: bool,
}

/// How a try at a group ended.
enum Tried {
    Committed(Vec<Result<Vec<Done>, CommitError>>),
    /// It takes a claim and so must be on disk; nothing was done yet.
    MustSync,
    /// A commit was refused after it had written; nothing was done yet.
    MustBeCareful,
}

/// How a group is tried.
#[derive(Clone, Copy)]
struct Manner {
    durability: Durability,
    /// Each commit that may be refused half-way is one that can be taken back alone. That makes SQLite keep the pages it
    /// changes, so it is only done once a group has shown that it needs it: refusals are rare.
    careful: bool,
}

impl Writer {
    pub(crate) fn open(core: &Core) -> Result<Self, StoreError> {
        let mut writer = Self {
            conn: None,
            gate: Gate::new(&core.place.db),
            synced: None,
            data_version: 0,
            scrub: false,
            streams: Streams::default(),
            sweep: Sweep::default(),
            newest: Newest::default(),
            closed: false,
        };
        writer.connected(core)?;
        Ok(writer)
    }

    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.conn.as_ref()
    }

    /// What the last group was committed with.
    #[cfg(test)]
    pub(crate) fn durability(&self) -> Option<Durability> {
        self.synced
    }

    /// Does a group; the contract is [`Store::commit`](tidings_store::Store::commit)'s.
    pub(crate) fn commit(&mut self, core: &Core, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>> {
        if group.is_empty() {
            return Vec::new();
        }
        let asked = group.iter().map(|commit| commit.durability).max().unwrap_or_default();
        let mut manner = Manner { durability: asked, careful: false };
        loop {
            match self.attempt(core, group, manner) {
                Ok(Tried::Committed(results)) => return results,
                // Each is asked for once, by an attempt without it.
                Ok(Tried::MustSync) => manner.durability = Durability::Disk,
                Ok(Tried::MustBeCareful) => manner.careful = true,
                Err(error) => return group.iter().map(|_| Err(error.clone().into())).collect(),
            }
        }
    }

    fn attempt(&mut self, core: &Core, group: &[Commit], manner: Manner) -> Result<Tried, StoreError> {
        self.connected(core)?;
        self.set_durability(core, manner.durability)?;
        let (tried, after) = {
            let Some(conn) = &self.conn else { return Err(error::closed()) };
            let _turn = self.gate.enter(core.busy_timeout).map_err(|_| error::busy())?;
            let mut tx = Tx {
                conn,
                core,
                streams: &mut self.streams,
                sweep: &mut self.sweep,
                newest: &mut self.newest,
                hot: Hot::default(),
                woken: BTreeSet::new(),
                took_claim: false,
                after: After::default(),
            };
            let tried = tx.run(group, manner, &mut self.data_version);
            (tried, std::mem::take(&mut tx.after))
        };
        match tried {
            Ok(Tried::Committed(results)) => {
                self.streams.committed();
                after.happen(core);
                Ok(Tried::Committed(results))
            }
            Ok(again @ (Tried::MustSync | Tried::MustBeCareful)) => {
                self.roll_back(false);
                Ok(again)
            }
            Err(fail) => {
                let poisoned = matches!(&fail, Fail::Sql(error) if error::poisons(error));
                self.roll_back(poisoned);
                Err(fail.of_the_group(&core.place.db))
            }
        }
    }

    /// Leaves no transaction open, and no connection whose state is in doubt.
    fn roll_back(&mut self, poisoned: bool) {
        self.streams.forget();
        let open = self.conn.as_ref().is_some_and(|conn| !conn.is_autocommit());
        let failed = open && self.conn.as_ref().is_some_and(|conn| conn.execute_batch("ROLLBACK").is_err());
        if poisoned || failed {
            self.scrub = true;
            self.disconnect();
        }
    }

    pub(crate) fn disconnect(&mut self) {
        self.conn = None;
        self.synced = None;
        self.data_version = 0;
        self.streams.forget();
    }

    /// Connects anew where the last failure cost the connection.
    ///
    /// A commit whose sync failed was told to have failed, but its pages may stand whole at the end of the log, where the
    /// recovery after a crash would find them and make them true. One small commit of ours in their place ends that.
    fn connected(&mut self, core: &Core) -> Result<(), StoreError> {
        if self.closed {
            return Err(error::closed());
        }
        if self.conn.is_none() {
            let conn = core.connect(Role::Write)?;
            schema::look(&conn).map_err(|fail| fail.of_the_group(&core.place.db))?;
            self.conn = Some(conn);
        }
        if self.scrub {
            self.set_durability(core, Durability::Disk)?;
            if let Some(conn) = &self.conn
                && let Err(error) = conn.execute_batch(
                    "BEGIN IMMEDIATE;
                     INSERT INTO meta (name, value) VALUES ('scrubs', 1) ON CONFLICT DO UPDATE SET value = value + 1;
                     COMMIT;",
                )
            {
                let told = error::sql(&error, "recover from a failed commit", &core.place.db);
                self.roll_back(error::poisons(&error));
                return Err(told);
            }
            self.scrub = false;
        }
        Ok(())
    }

    fn set_durability(&mut self, core: &Core, durability: Durability) -> Result<(), StoreError> {
        if self.synced == Some(durability) {
            return Ok(());
        }
        let Some(conn) = &self.conn else { return Err(error::closed()) };
        let pragma = match durability {
            Durability::Process => "PRAGMA synchronous = NORMAL",
            Durability::Disk => "PRAGMA synchronous = FULL",
        };
        conn.execute_batch(pragma).map_err(core.sql("set the durability"))?;
        self.synced = Some(durability);
        Ok(())
    }

    /// Runs `change` in a synced transaction of its own.
    pub(crate) fn change<T>(
        &mut self,
        core: &Core,
        what: &str,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.connected(core)?;
        self.set_durability(core, Durability::Disk)?;
        let Some(conn) = &self.conn else { return Err(error::closed()) };
        let turn = self.gate.enter(core.busy_timeout).map_err(|_| error::busy())?;
        let done = (|| {
            begin(conn)?;
            let done = change(conn)?;
            conn.execute_batch("COMMIT")?;
            Ok(done)
        })();
        drop(turn);
        done.map_err(|error| {
            self.roll_back(error::poisons(&error));
            error::sql(&error, what, &core.place.db)
        })
    }

    /// Makes everything durable and lets go of the connection.
    pub(crate) fn close(&mut self, core: &Core) -> Result<(), StoreError> {
        self.closed = true;
        let Some(conn) = self.conn.take() else { return Ok(()) };
        self.streams.forget();
        // A checkpoint syncs the log before anything else. What readers of other processes hold back stays in the log.
        let flushed = conn
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(core.sql("flush the store while closing it"));
        let closed = conn.close().map_err(|(_, error)| error::sql(&error, "close the store", &core.place.db));
        flushed.and(closed)
    }
}

/// Takes the right to write. Others have it for a moment only, unless they went around the [`Gate`].
fn begin(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)
}

/// Statements of the hot path, looked up once a group.
#[derive(Default)]
pub(crate) struct Hot<'c> {
    pub(crate) insert_chunk: Option<CachedStatement<'c>>,
    pub(crate) move_head: Option<CachedStatement<'c>>,
}

/// What happens outside the database once a group is committed.
#[derive(Default)]
pub(crate) struct After {
    /// Workers that left.
    pub(crate) left: Vec<WorkerId>,
    /// Workers that are forgotten.
    pub(crate) forgotten: Vec<WorkerId>,
}

impl After {
    fn happen(self, core: &Core) {
        for worker in self.left {
            core.workers.release(worker);
        }
        core.workers.remove_dead(&self.forgotten);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        core.workers.ring();
    }
}

/// One transaction: a group on its way.
pub(crate) struct Tx<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) core: &'c Core,
    pub(crate) streams: &'c mut Streams,
    pub(crate) sweep: &'c mut Sweep,
    pub(crate) newest: &'c mut Newest,
    pub(crate) hot: Hot<'c>,
    /// Lines (`endpoints.n`) from which a delivery has gone since they were looked at.
    pub(crate) woken: BTreeSet<i64>,
    /// A claim was taken on a stream that existed: it must be on disk before anybody numbers under it.
    pub(crate) took_claim: bool,
    pub(crate) after: After,
}

impl Tx<'_> {
    fn run(&mut self, group: &[Commit], manner: Manner, data_version: &mut i64) -> Result<Tried, Fail> {
        begin(self.conn)?;
        let now: i64 = self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if now != *data_version {
            self.streams.forget();
            let version = self.conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
            schema::check_version(version)?;
            *data_version = now;
        }
        let mut results = Vec::with_capacity(group.len());
        for commit in group {
            let Some(result) = self.one(commit, manner.careful)? else { return Ok(Tried::MustBeCareful) };
            results.push(result);
            if self.took_claim && manner.durability < Durability::Disk {
                return Ok(Tried::MustSync);
            }
        }
        self.wake_woken()?;
        self.flush_streams()?;
        let written = self.write_newest()?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        self.newest.written(written);
        Ok(Tried::Committed(results))
    }

    /// One commit. An operation checks everything before it writes anything, so only a commit in which a refusal can
    /// follow on a write needs a savepoint. `None`: it would have needed the one that it was not given.
    fn one(&mut self, commit: &Commit, careful: bool) -> Result<Option<Result<Vec<Done>, CommitError>>, Fail> {
        let careful = careful && commit.ops.iter().skip(1).any(can_be_refused);
        if careful {
            self.flush_streams()?;
            self.conn.prepare_cached("SAVEPOINT one")?.execute([])?;
        }
        let (left, forgotten) = (self.after.left.len(), self.after.forgotten.len());
        let mut answers = Vec::with_capacity(commit.ops.len());
        for op in &commit.ops {
            match self.op(op) {
                Ok(done) => answers.push(done),
                Err(fail) => {
                    let refused = fail.of_one_commit()?;
                    if !careful && !answers.is_empty() {
                        return Ok(None);
                    }
                    if careful {
                        self.streams.forget();
                        self.after.left.truncate(left);
                        self.after.forgotten.truncate(forgotten);
                        self.conn.prepare_cached("ROLLBACK TO one")?.execute([])?;
                        self.conn.prepare_cached("RELEASE one")?.execute([])?;
                    }
                    return Ok(Some(Err(refused)));
                }
            }
        }
        if careful {
            self.conn.prepare_cached("RELEASE one")?.execute([])?;
        }
        Ok(Some(Ok(answers)))
    }

    fn op(&mut self, op: &Op) -> Result<Done, Fail> {
        match op {
            Op::Create { id, key, worker } => self.create(*id, key, *worker),
            Op::Claim { new_id, key, worker } => self.claim(*new_id, key, *worker),
            Op::Append { stream, claim, chunks, close, now } => self.append(*stream, *claim, chunks, *close, *now),
            Op::AppendShared(append) => self.append_shared(append),
            Op::AppendOnce { once, append } => self.append_once(once, append),
            Op::BeginCall(record) => self.begin_call(record),
            Op::EndCall { id, outcome, at, payload } => self.end_call(*id, outcome, *at, payload.as_deref()),
            Op::BecomeTask { call, terms } => self.become_task(*call, *terms),
            Op::Enqueue(delivery) => self.enqueue(delivery),
            Op::Lease(lease) => self.lease(lease),
            Op::LeaseOutlet { lease, outlet } => self.lease_outlet(lease, outlet),
            Op::Offer { worker, outlet, offered } => self.offer(*worker, outlet, *offered),
            Op::Settle(settle) => self.settle(settle),
            Op::Purge(purge) => self.purge(purge),
            Op::Endpoint(news) => self.endpoint(news).map(|()| Done::Nothing),
            Op::ProveOrigin(proof) => self.prove_origin(proof),
            Op::TakeUnverified { now, until, limit } => self.take_unverified(*now, *until, *limit).map(Done::Verify),
            Op::SetTimer { call, kind, due } => self.set_timer(*call, *kind, *due),
            Op::FireTimer { call, kind, due, next } => self.fire_timer(*call, *kind, *due, *next),
            Op::JoinGroup(join) => self.join_group(join),
            Op::Watch(watch) => self.watch(watch),
            Op::EndAggregate { id, verdict } => self.end_aggregate(*id, *verdict),
            Op::Heartbeat { worker, until } => self.heartbeat(*worker, *until),
            Op::Leave { worker } => self.leave(*worker),
            Op::Publish(publish) => self.publish(publish),
            Op::Trim { now, wall, retention, keep_finished_ms } => self.trim(*now, *wall, retention, *keep_finished_ms),
        }
    }
}

fn can_be_refused(op: &Op) -> bool {
    !matches!(
        op,
        Op::Lease(_)
            | Op::LeaseOutlet { .. }
            | Op::Endpoint(_)
            | Op::ProveOrigin(_)
            | Op::Purge(_)
            | Op::TakeUnverified { .. }
            | Op::Offer { .. }
            | Op::Heartbeat { .. }
            | Op::Leave { .. }
            | Op::Publish(_)
            | Op::Trim { .. }
    )
}

/// What an operation holds cannot be stored by any try.
pub(crate) fn cannot_hold(why: impl Into<String>) -> Fail {
    Fail::Own(StoreError::new(StoreErrorKind::Unsupported, why))
}
