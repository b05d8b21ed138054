//! A store that fails, blocks or forgets on demand, and lets a test wait for what is committed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tidings::proto::stream::StreamId;
use tidings::store::{
    Changes, Commit, CommitError, DeliveryState, DeliverySummary, Done, Durability, MemoryStore, Op, Page, ReadLimits,
    Store, StoreError, StoreErrorKind, StreamInfo, StreamKey,
};
use tidings_store::layer::Layer;

use super::{HANG, TestClock};

type Result<T> = std::result::Result<T, StoreError>;

/// What one process sees of a store that others may use as well.
pub struct FaultStore {
    inner: Arc<MemoryStore>,
    shared: Arc<Shared>,
    faults: Mutex<Faults>,
    changed: Condvar,
    /// Says that other processes use the store.
    is_shared: bool,
    /// The version that was told last.
    told: AtomicU64,
    fail_reads: AtomicBool,
    /// The chunk that begins with this number is read without its last byte.
    damaged: AtomicU64,
}

/// What all that see the same store share.
#[derive(Default)]
struct Shared {
    version: AtomicU64,
}

#[derive(Default)]
struct Faults {
    fail: Option<StoreErrorKind>,
    blocked: bool,
    /// Groups of nothing but heartbeats get through.
    spare: bool,
    /// Commits that are being held.
    held: u64,
    /// Calls of `commit` that came through, and that failed.
    done: u64,
    failed: u64,
    /// Groups that were to survive a loss of power.
    disk: u64,
    /// Every operation that was committed without being refused, and where the groups of them end.
    ops: Vec<Op>,
    ends: Vec<usize>,
}

impl FaultStore {
    /// A store of one process.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::seen(Arc::new(MemoryStore::new()), Arc::default(), false))
    }

    /// A store of several processes, as one of them sees it; [`other`](Self::other) is how another does.
    pub fn shared() -> Arc<Self> {
        Arc::new(Self::seen(Arc::new(MemoryStore::new()), Arc::default(), true))
    }

    /// The same store, as another process sees it: with faults of its own.
    pub fn other(&self) -> Arc<Self> {
        Arc::new(Self::seen(Arc::clone(&self.inner), Arc::clone(&self.shared), true))
    }

    fn seen(inner: Arc<MemoryStore>, shared: Arc<Shared>, is_shared: bool) -> Self {
        Self {
            inner,
            shared,
            faults: Mutex::default(),
            changed: Condvar::new(),
            is_shared,
            told: AtomicU64::new(0),
            fail_reads: AtomicBool::new(false),
            damaged: AtomicU64::new(u64::MAX),
        }
    }

    /// From now on the chunk that begins with this number is read without its last byte.
    pub fn damage(&self, first_seq: u64) {
        self.damaged.store(first_seq, Ordering::SeqCst);
    }

    /// From now on every commit fails like this, or none does.
    pub fn fail(&self, kind: Option<StoreErrorKind>) {
        self.faults.lock().expect("faults").fail = kind;
        self.changed.notify_all();
    }

    /// From now on every commit hangs, or all go on.
    pub fn block(&self, blocked: bool) {
        self.faults.lock().expect("faults").blocked = blocked;
        self.changed.notify_all();
    }

    /// From now on groups of nothing but heartbeats are neither failed nor held.
    pub fn spare_heartbeats(&self) {
        self.faults.lock().expect("faults").spare = true;
    }

    /// From now on reads fail, or they do not.
    pub fn fail_reads(&self, fail: bool) {
        self.fail_reads.store(fail, Ordering::SeqCst);
    }

    /// Groups that failed.
    pub fn failed(&self) -> u64 {
        self.faults.lock().expect("faults").failed
    }

    /// Groups that were committed to survive a loss of power.
    pub fn disk(&self) -> u64 {
        self.faults.lock().expect("faults").disk
    }

    /// Waits until a commit hangs.
    pub fn wait_held(&self) {
        self.wait_faults(|faults| faults.held > 0);
    }

    /// Waits until so many more groups have failed.
    pub fn wait_failed(&self, more: u64) {
        let before = self.failed();
        self.wait_faults(|faults| faults.failed >= before + more);
    }

    fn wait_faults(&self, what: impl Fn(&Faults) -> bool) {
        let faults = self.faults.lock().expect("faults");
        let result = self.changed.wait_timeout_while(faults, HANG, |faults| !what(faults)).expect("faults");
        assert!(!result.1.timed_out(), "what was waited for does not come");
    }

    /// Looks after each commit of this process until `what` finds something.
    pub fn wait_for<T>(&self, what: impl Fn(&MemoryStore) -> Option<T>) -> T {
        let mut faults = self.faults.lock().expect("faults");
        loop {
            if let Some(found) = what(&self.inner) {
                return found;
            }
            let (next, timeout) = self.changed.wait_timeout(faults, HANG).expect("faults");
            assert!(!timeout.timed_out(), "what was waited for is not committed");
            faults = next;
        }
    }

    /// Waits until this process has committed such an operation.
    pub fn wait_op(&self, what: impl Fn(&Op) -> bool) {
        self.wait_faults(|faults| faults.ops.iter().any(&what));
    }

    /// Waits until the background thread has looked for everything that is due at this moment.
    pub fn wait_look(&self, clock: &TestClock) {
        let now = clock.now();
        self.wait_op(|op| matches!(op, Op::Lease(lease) if lease.now == now));
    }

    /// How many such operations this process has committed.
    pub fn count(&self, what: impl Fn(&Op) -> bool) -> usize {
        self.faults.lock().expect("faults").ops.iter().filter(|op| what(op)).count()
    }

    /// In how many groups this process has committed such operations.
    pub fn count_groups(&self, what: impl Fn(&Op) -> bool) -> usize {
        let faults = self.faults.lock().expect("faults");
        let starts = std::iter::once(0).chain(faults.ends.iter().copied());
        starts.zip(&faults.ends).filter(|(start, end)| faults.ops[*start..**end].iter().any(&what)).count()
    }

    /// Waits until there are deliveries, and all of them are in these states, in order of their enqueueing.
    pub fn wait_deliveries(&self, states: &[DeliveryState]) -> Vec<DeliverySummary> {
        self.wait_for(|store| {
            let deliveries = store.deliveries(None, None, None, 1_000).expect("deliveries");
            let found: Vec<_> = deliveries.iter().map(|delivery| delivery.state).collect();
            (found == states).then_some(deliveries)
        })
    }

    /// The operations that this process committed.
    pub fn ops(&self) -> Vec<Op> {
        self.faults.lock().expect("faults").ops.clone()
    }

    /// The store without faults.
    pub fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    fn check_read(&self) -> Result<()> {
        if self.fail_reads.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Io, "injected: reading fails"));
        }
        Ok(())
    }
}

impl Layer for FaultStore {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    fn commit(&self, group: &[Commit]) -> Vec<std::result::Result<Vec<Done>, CommitError>> {
        let mut faults = self.faults.lock().expect("faults");
        let heartbeat = |op: &Op| matches!(op, Op::Heartbeat { .. });
        let spared = faults.spare && group.iter().flat_map(|commit| &commit.ops).all(heartbeat);
        if faults.blocked && !spared {
            faults.held += 1;
            self.changed.notify_all();
            faults = self.changed.wait_while(faults, |faults| faults.blocked).expect("faults");
            faults.held -= 1;
        }
        let results = match faults.fail.filter(|_| !spared) {
            Some(kind) => {
                faults.failed += 1;
                let error = StoreError::new(kind, "injected: the medium fails");
                group.iter().map(|_| Err(CommitError::Store(error.clone()))).collect()
            }
            None => {
                faults.done += 1;
                faults.disk += u64::from(group.iter().any(|commit| commit.durability == Durability::Disk));
                let results = self.inner.commit(group);
                for (commit, result) in group.iter().zip(&results) {
                    if result.is_ok() {
                        faults.ops.extend(commit.ops.iter().cloned());
                    }
                }
                let end = faults.ops.len();
                faults.ends.push(end);
                self.shared.version.fetch_add(1, Ordering::SeqCst);
                results
            }
        };
        drop(faults);
        self.changed.notify_all();
        results
    }

    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>> {
        self.check_read()?;
        self.inner.stream(key)
    }

    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>> {
        self.check_read()?;
        self.inner.stream_by_id(id)
    }

    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>> {
        self.check_read()?;
        let mut page = self.inner.read(id, from, limits)?;
        for chunk in page.iter_mut().flat_map(|page| &mut page.chunks) {
            if chunk.first_seq == self.damaged.load(Ordering::SeqCst) {
                chunk.data = chunk.data.take().map(|data| data.slice(..data.len() - 1));
            }
        }
        Ok(page)
    }

    fn changes(&self) -> Result<Changes> {
        let version = self.shared.version.load(Ordering::SeqCst);
        let told = self.told.swap(version, Ordering::SeqCst);
        Ok(if told == version { Changes::Nothing } else { Changes::Anything })
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The process lets go; the store stays for the others and for the next start.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}
