//! Stores that break one promise each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tidings_proto::stream::StreamId;
use tidings_store::layer::Layer;
use tidings_store::testkit::Harness;
use tidings_store::{
    Boot, CallRecord, ChunkBuilder, Commit, CommitError, DeliveryId, Done, DueTimer, MemoryStore, Op, Page, Publishes,
    ReadLimits, Refused, Store, StoreError, StreamInfo, StreamKey,
};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Appends whatever claim and numbers a writer names.
    IgnoresFences,
    /// Leaves what the operations before the refused one did.
    ForgetsToRollBack,
    /// One refused commit refuses its whole group.
    RefusesTheGroup,
    /// Commits after a refused one are not done.
    StopsAtARefusedCommit,
    /// The last outcome wins.
    LastOutcomeWins,
    /// Every lease has the same token.
    ReusesTokens,
    /// Leases what is not due.
    LeasesEarly,
    /// Leases more than was asked for.
    IgnoresTheLimit,
    /// Every attempt counts.
    CountsEverything,
    /// Joins scope and name with an underscore.
    JoinsKeys,
    /// Writes numbers anew.
    NormalisesPayloads,
    /// Says that nothing was ever evicted.
    ForgetsTheEarliest,
    /// Reads everything, whatever the limits.
    IgnoresPages,
    /// Follows the wall clock.
    FollowsTheWallClock,
    /// Never finds a lost call.
    LosesNobody,
    /// Timers outlive their call.
    KeepsTimers,
    /// Forgets where claims began.
    ForgetsClaims,
    /// Appends with a key as without.
    ForgetsKeys,
    /// Works on after it was closed.
    IgnoresClose,
    /// Says it is shared, and is not.
    ClaimsToBeShared,
    /// Says it remembers, and does not.
    ClaimsToBeDurable,
    /// What was read of the log comes again.
    ReadsPublishesTwice,
}

/// How often each answer was given.
pub(crate) type Tally = Arc<Mutex<BTreeMap<String, usize>>>;

/// A memory store with a fault.
pub(crate) struct Broken {
    fault: Fault,
    inner: MemoryStore,
    /// The true token of each lease, for the fault that hides them.
    tokens: Mutex<BTreeMap<DeliveryId, u64>>,
    /// Timers that were ever set, for the fault that keeps them.
    timers: Mutex<Vec<DueTimer>>,
    tally: Tally,
}

/// Makes handles with a fault; every handle is a store of its own, which is right for none that is shared or durable.
pub(crate) struct BrokenHarness(pub(crate) Fault, pub(crate) Tally);

impl Harness for BrokenHarness {
    fn open(&self) -> Box<dyn Store> {
        Box::new(Broken {
            fault: self.0,
            inner: MemoryStore::new(),
            tokens: Mutex::default(),
            timers: Mutex::default(),
            tally: Arc::clone(&self.1),
        })
    }

    fn is_durable(&self) -> bool {
        self.0 == Fault::ClaimsToBeDurable
    }
}

type Answer = Result<Vec<Done>, CommitError>;

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first word of the operation or the answer.
fn kind(text: &impl std::fmt::Debug) -> String {
    format!("{text:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

impl Broken {
    fn one(&self, commit: &Commit) -> Answer {
        self.inner.commit(std::slice::from_ref(commit)).remove(0)
    }

    /// The operations as the fault would have them.
    fn twist(&self, op: &Op) -> Op {
        let mut op = op.clone();
        match (self.fault, &mut op) {
            (Fault::IgnoresFences, Op::Append { stream, claim, chunks, .. }) => {
                if let Ok(Some(info)) = self.inner.stream_by_id(*stream) {
                    *claim = info.claim;
                    let mut next = info.next_seq;
                    for chunk in chunks {
                        chunk.first_seq = next;
                        next = chunk.end();
                    }
                }
            }
            (Fault::LeasesEarly, Op::Lease(lease)) => lease.now += 10_000,
            (Fault::IgnoresTheLimit, Op::Lease(lease)) => lease.limit = u32::MAX,
            (Fault::CountsEverything, Op::Settle(settle)) => settle.counts = true,
            (Fault::ReusesTokens, Op::Settle(settle)) if settle.token == 7 => {
                settle.token = locked(&self.tokens).get(&settle.id).copied().unwrap_or_default();
            }
            (Fault::JoinsKeys, Op::Create { key, .. } | Op::Claim { key, .. }) => *key = joined(key),
            (Fault::ForgetsKeys, Op::AppendOnce { append, .. }) => return Op::AppendShared(append.clone()),
            (Fault::JoinsKeys, Op::AppendShared(append)) => append.key = joined(&append.key),
            (Fault::NormalisesPayloads, Op::AppendShared(append)) => {
                for event in &mut append.events {
                    event.payload = normalised(&event.payload);
                }
            }
            (Fault::NormalisesPayloads, Op::Append { chunks, .. }) => {
                for chunk in chunks.iter_mut().filter(|chunk| chunk.data.is_some()) {
                    let mut builder = ChunkBuilder::default();
                    for event in chunk.events() {
                        let payload = normalised(&event.payload);
                        assert!(builder.push(&event.kind, &payload, event.time, event.identity.as_ref()));
                    }
                    *chunk = builder.take(chunk.first_seq);
                }
            }
            _ => {}
        }
        op
    }

    fn apply(&self, commit: &Commit) -> Answer {
        let ops: Vec<_> = commit.ops.iter().map(|op| self.twist(op)).collect();
        let mut answer = match self.fault {
            Fault::ForgetsToRollBack => {
                let each = |op| self.one(&Commit::new(commit.durability, vec![op])).map(|mut done| done.remove(0));
                ops.into_iter().map(each).collect()
            }
            Fault::LastOutcomeWins => {
                let lost = |op: &Op| match op {
                    Op::EndCall { id, .. } => {
                        matches!(self.inner.call(*id), Ok(Some(call)) if call.outcome.is_some())
                    }
                    _ => false,
                };
                let (skipped, ops): (Vec<_>, Vec<_>) = ops.into_iter().partition(lost);
                let answer = self.one(&Commit::new(commit.durability, ops));
                answer.map(|done| done.into_iter().chain(skipped.iter().map(|_| Done::Nothing)).collect())
            }
            _ => self.one(&Commit::new(commit.durability, ops)),
        };
        if let (Fault::ReusesTokens, Ok(done)) = (self.fault, &mut answer) {
            for one in done {
                if let Done::Leased(leased) = one {
                    for delivery in leased {
                        locked(&self.tokens).insert(delivery.new.id, std::mem::replace(&mut delivery.token, 7));
                    }
                }
            }
        }
        if answer.is_ok() {
            for op in &commit.ops {
                if let Op::SetTimer { call, kind, due } = op {
                    let mut timers = locked(&self.timers);
                    timers.retain(|timer| timer.call != *call);
                    timers.push(DueTimer { call: *call, kind: *kind, due: *due });
                }
            }
        }
        answer
    }

    fn count(&self, group: &[Commit], answers: &[Answer]) {
        let mut tally = locked(&self.tally);
        for (commit, answer) in group.iter().zip(answers) {
            match answer {
                Ok(_) => {
                    for op in &commit.ops {
                        *tally.entry(kind(op)).or_default() += 1;
                    }
                }
                Err(CommitError::Refused(refused)) => {
                    *tally.entry(format!("refused {}", kind(refused))).or_default() += 1
                }
                Err(CommitError::Store(_)) => {}
            }
        }
    }

    fn key(&self, key: &StreamKey) -> StreamKey {
        if self.fault == Fault::JoinsKeys { joined(key) } else { key.clone() }
    }

    fn info(&self, info: StreamInfo) -> StreamInfo {
        if self.fault == Fault::ForgetsTheEarliest { StreamInfo { earliest: 0, ..info } } else { info }
    }
}

fn joined(key: &StreamKey) -> StreamKey {
    StreamKey::new("", format!("{}_{}", key.scope, key.name))
}

fn normalised(payload: &Bytes) -> Bytes {
    if payload == "1.0" { Bytes::from_static(b"1") } else { payload.clone() }
}

impl Layer for Broken {
    fn below(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, group: &[Commit]) -> Vec<Answer> {
        let mut answers: Vec<Answer> = Vec::new();
        for commit in group {
            let stopped = self.fault == Fault::StopsAtARefusedCommit && answers.iter().any(Result::is_err);
            answers.push(if stopped { Err(Refused::Unknown.into()) } else { self.apply(commit) });
        }
        if self.fault == Fault::RefusesTheGroup && answers.iter().any(Result::is_err) {
            answers.iter_mut().for_each(|answer| *answer = Err(Refused::Unknown.into()));
        }
        self.count(group, &answers);
        answers
    }

    fn timeline(&self, boot: &Boot, wall: i64) -> Result<i64, StoreError> {
        let offset = self.inner.timeline(boot, wall)?;
        Ok(if self.fault == Fault::FollowsTheWallClock { wall - boot.now_ms } else { offset })
    }

    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>, StoreError> {
        let found = self.inner.stream(&self.key(key))?;
        // It is told under the key it was asked for by, as a store would that keeps the joined text as an index.
        let asked = |info| StreamInfo { key: key.clone(), ..info };
        Ok(found.map(|info| self.info(if self.fault == Fault::JoinsKeys { asked(info) } else { info })))
    }

    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>, StoreError> {
        Ok(self.inner.stream_by_id(id)?.map(|info| self.info(info)))
    }

    fn next_claim_first(&self, id: StreamId, claim: u32) -> Result<Option<u64>, StoreError> {
        let first = self.inner.next_claim_first(id, claim)?;
        Ok(first.filter(|_| self.fault != Fault::ForgetsClaims))
    }

    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        let all = ReadLimits { events: u32::MAX, bytes: u64::MAX };
        let limits = if self.fault == Fault::IgnoresPages { all } else { limits };
        let page = self.inner.read(id, from, limits)?;
        Ok(page.map(|page| Page { info: self.info(page.info), ..page }))
    }

    fn lost_calls(&self, now: i64, limit: u32) -> Result<Vec<CallRecord>, StoreError> {
        let limit = if self.fault == Fault::LosesNobody { 0 } else { limit };
        self.inner.lost_calls(now, limit)
    }

    fn due_timers(&self, now: i64, limit: u32) -> Result<Vec<DueTimer>, StoreError> {
        if self.fault != Fault::KeepsTimers {
            return self.inner.due_timers(now, limit);
        }
        let mut kept: Vec<_> = locked(&self.timers).iter().filter(|timer| timer.due <= now).copied().collect();
        kept.sort_by_key(|timer| timer.due);
        kept.truncate(limit as usize);
        Ok(kept)
    }

    fn publishes(&self, after: u64, limit: u32) -> Result<Publishes, StoreError> {
        let after = if self.fault == Fault::ReadsPublishesTwice { after.saturating_sub(1) } else { after };
        self.inner.publishes(after, limit)
    }

    fn is_shared(&self) -> bool {
        self.fault == Fault::ClaimsToBeShared
    }

    fn close(&self) -> Result<(), StoreError> {
        if self.fault == Fault::IgnoresClose { Ok(()) } else { self.inner.close() }
    }
}
