//! The machine's disk: what was committed, in order, and how much of it a loss of power leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidings::proto::stream::StreamId;
use tidings::store::{
    Boot, Changes, Claimed, Commit, CommitError, Done, Durability, MemoryStore, Op, Store, StoreError, StoreErrorKind,
    WorkerId,
};
use tidings_store::layer::Layer;

use crate::chance::Chance;
use crate::model::{Model, StreamModel};
use crate::record::{Record, lock};

/// One thing that was written.
enum Entry {
    Timeline(Boot, i64),
    Group(Vec<Commit>),
}

struct Inside {
    /// Streams on which somebody has claimed, or appended as everybody may, since the machine came up.
    met: BTreeSet<StreamId>,
    store: Arc<MemoryStore>,
    model: Model,
    journal: Vec<Entry>,
    /// So many entries survive a loss of power, whatever happens.
    synced: usize,
}

/// The disk. Everything that processes write to it passes the model.
pub(crate) struct Disk {
    inside: Mutex<Inside>,
    version: AtomicU64,
    record: Arc<Record>,
    planted: Option<Planted>,
}

/// A fault of the disk, to see that the simulation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// It forgets some of what it said was synced.
    LosesWhatWasSynced,
    /// The first shared append after a boot starts no claim.
    NoClaimAtBoot,
    /// Claims are not synced.
    ForgetsClaims,
}

type Answers = Vec<Result<Vec<Done>, CommitError>>;

impl Inside {
    /// What a store that survives a loss of power has to do and one in memory need not (`tidings_store_sqlite`, "a new boot is
    /// a new claim"): readers may have seen numbers that the loss took back. Answers the places of the claims that were put
    /// into the commit.
    fn with_claims(&self, commit: &Commit, planted: Option<Planted>) -> (Commit, Vec<usize>) {
        let (mut ops, mut added) = (Vec::new(), Vec::new());
        for op in &commit.ops {
            if let Op::AppendShared(append) | Op::AppendOnce { append, .. } = op
                && let Some(id) = self.model.by_key.get(&append.key)
                && !self.model.streams.get(id).is_some_and(StreamModel::is_closed)
                && !self.met.contains(id)
                && planted != Some(Planted::NoClaimAtBoot)
            {
                added.push(ops.len());
                ops.push(Op::Claim { new_id: *id, key: append.key.clone(), worker: WorkerId([0; 16]) });
            }
            ops.push(op.clone());
        }
        (Commit::new(commit.durability, ops), added)
    }

    fn met(&mut self, done: &[Done]) {
        for done in done {
            if let Done::Claimed(Claimed { stream, .. }) | Done::Appended { stream, .. } = done {
                self.met.insert(*stream);
            }
        }
    }
}

impl Disk {
    /// An empty disk.
    pub(crate) fn new(record: Arc<Record>, planted: Option<Planted>) -> Self {
        let model = Model::new(Arc::clone(&record));
        let (store, met) = (Arc::new(MemoryStore::new()), BTreeSet::new());
        let inside = Inside { met, store, model, journal: Vec::new(), synced: 0 };
        Self { inside: Mutex::new(inside), version: AtomicU64::new(0), record, planted }
    }

    /// Looks at the model and at the store it speaks of.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Model, &MemoryStore) -> T) -> T {
        let mut inside = lock(&self.inside);
        let store = Arc::clone(&inside.store);
        look(&mut inside.model, &store)
    }

    fn commit(&self, group: &[Commit]) -> Answers {
        let mut inside = lock(&self.inside);
        let mut sync = false;
        let mut written = Vec::with_capacity(group.len());
        let mut answers = Vec::with_capacity(group.len());
        for commit in group {
            let (commit, added) = inside.with_claims(commit, self.planted);
            let claims: BTreeMap<_, _> =
                inside.model.streams.iter().map(|(id, stream)| (*id, stream.claim())).collect();
            let mut answer = inside.store.commit(std::slice::from_ref(&commit)).pop().unwrap_or_else(|| Ok(Vec::new()));
            let store = Arc::clone(&inside.store);
            inside.model.committed(&commit, &answer, &store);
            if let Ok(done) = &mut answer {
                inside.met(done);
                let newer = |done: &Done| match done {
                    Done::Claimed(Claimed { stream, claim, .. }) | Done::Appended { stream, claim, .. } => {
                        claims.get(stream).is_some_and(|before| before < claim)
                    }
                    _ => false,
                };
                let claimed = self.planted != Some(Planted::ForgetsClaims) && done.iter().any(newer);
                sync |= commit.durability == Durability::Disk || claimed;
                for at in added.into_iter().rev() {
                    done.remove(at);
                }
            }
            written.push(commit);
            answers.push(answer);
        }
        inside.journal.push(Entry::Group(written));
        if sync {
            inside.synced = inside.journal.len();
        }
        self.version.fetch_add(1, Ordering::SeqCst);
        answers
    }

    fn timeline(&self, boot: &Boot, wall: i64) -> Result<i64, StoreError> {
        let mut inside = lock(&self.inside);
        inside.journal.push(Entry::Timeline(boot.clone(), wall));
        inside.store.timeline(boot, wall)
    }

    /// Power is lost: of what was not synced, any beginning stays. Every process is dead by now.
    pub(crate) fn lose_power(&self, chance: &Chance) {
        let mut inside = lock(&self.inside);
        let lies = self.planted == Some(Planted::LosesWhatWasSynced);
        let synced = if lies { inside.synced / 2 } else { inside.synced };
        let lucky = chance.percent(50);
        let kept = synced + if lucky { chance.place(inside.journal.len() - synced + 1) } else { 0 };
        self.record.note(format!("of {} writes, {synced} synced, {kept} are left", inside.journal.len()));
        inside.journal.truncate(kept);
        inside.synced = kept;
        let store = Arc::new(MemoryStore::new());
        let mut model = inside.model.reborn();
        for entry in &inside.journal {
            match entry {
                Entry::Timeline(boot, wall) => _ = store.timeline(boot, *wall),
                Entry::Group(group) => {
                    let answers = store.commit(group);
                    for (commit, answer) in group.iter().zip(&answers) {
                        model.committed(commit, answer, &store);
                    }
                }
            }
        }
        (inside.store, inside.model) = (store, model);
        inside.met.clear();
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

/// When a process dies by a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doom {
    /// Before anything of it was written.
    Before,
    /// After all of it was written, and before anybody hears of it.
    After,
}

/// The disk as one process sees it.
pub(crate) struct Medium {
    disk: Arc<Disk>,
    store: Arc<MemoryStore>,
    dead: AtomicBool,
    doom: Mutex<Option<Doom>>,
    fault: Mutex<Option<StoreErrorKind>>,
    told: AtomicU64,
}

impl Medium {
    /// A process's.
    pub(crate) fn new(disk: &Arc<Disk>) -> Self {
        Self {
            disk: Arc::clone(disk),
            store: Arc::clone(&lock(&disk.inside).store),
            dead: AtomicBool::new(false),
            doom: Mutex::default(),
            fault: Mutex::default(),
            told: AtomicU64::new(0),
        }
    }

    /// The process is dead: nothing it does reaches the disk.
    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Whether it is.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The next commit kills the process.
    pub(crate) fn doom(&self, doom: Doom) {
        *lock(&self.doom) = Some(doom);
    }

    /// Every commit fails so, or none.
    pub(crate) fn fail(&self, fault: Option<StoreErrorKind>) {
        *lock(&self.fault) = fault;
    }
}

fn all_fail(group: &[Commit], kind: StoreErrorKind) -> Answers {
    group.iter().map(|_| Err(StoreError::new(kind, "the simulation says so").into())).collect()
}

impl Layer for Medium {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    fn commit(&self, group: &[Commit]) -> Answers {
        if self.is_dead() {
            return all_fail(group, StoreErrorKind::Closed);
        }
        if let Some(doom) = lock(&self.doom).take() {
            self.disk.record.note(format!("dies {doom:?} a commit"));
            if doom == Doom::After {
                self.disk.commit(group);
            }
            self.die();
            return all_fail(group, StoreErrorKind::Closed);
        }
        if let Some(kind) = *lock(&self.fault) {
            return all_fail(group, kind);
        }
        self.disk.commit(group)
    }

    fn timeline(&self, boot: &Boot, wall: i64) -> Result<i64, StoreError> {
        self.disk.timeline(boot, wall)
    }

    fn changes(&self) -> Result<Changes, StoreError> {
        let version = self.disk.version.load(Ordering::SeqCst);
        let told = self.told.swap(version, Ordering::SeqCst);
        Ok(if told == version { Changes::Nothing } else { Changes::Anything })
    }

    fn is_shared(&self) -> bool {
        true
    }

    /// The process lets go; the disk stays.
    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
