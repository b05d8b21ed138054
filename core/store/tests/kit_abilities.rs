//! The cases for shared and durable stores can be passed: several handles on one memory store behave as processes on one
//! file do, as long as the harness lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidings_proto::delivery::EndpointKey;
use tidings_proto::stream::StreamId;
use tidings_proto::time::StoreMillis;
use tidings_store::testkit::Harness;
use tidings_store::{
    AttemptRecord, Boot, CallId, CallRecord, Changes, Commit, CommitError, DeliveryId, DeliveryState, DeliverySummary,
    Done, DueAggregate, DueTimer, EndpointRecord, MemoryStore, NewDelivery, OriginProof, Page, Publishes, ReadLimits,
    Store, StoreError, StoreErrorKind, StreamInfo, StreamKey, Subject,
};

/// What all handles share.
#[derive(Default)]
struct Place {
    store: MemoryStore,
    commits: AtomicU64,
}

/// One handle.
struct Handle {
    place: Arc<Place>,
    /// How many commits it has told of.
    told: AtomicU64,
    closed: AtomicBool,
}

struct Places(Arc<Place>);

impl Harness for Places {
    fn open(&self) -> Box<dyn Store> {
        let place = Arc::clone(&self.0);
        Box::new(Handle { place, told: AtomicU64::new(0), closed: AtomicBool::new(false) })
    }

    fn is_durable(&self) -> bool {
        true
    }
}

impl Handle {
    fn store(&self) -> Result<&MemoryStore, StoreError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Closed, "this handle was closed"));
        }
        Ok(&self.place.store)
    }
}

impl Store for Handle {
    fn commit(&self, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>> {
        match self.store() {
            Ok(store) => {
                let answers = store.commit(group);
                self.place.commits.fetch_add(1, Ordering::SeqCst);
                answers
            }
            Err(error) => group.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }

    fn timeline(&self, boot: &Boot, wall: i64) -> Result<i64, StoreError> {
        self.store()?.timeline(boot, wall)
    }

    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>, StoreError> {
        self.store()?.stream(key)
    }

    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>, StoreError> {
        self.store()?.stream_by_id(id)
    }

    fn next_claim_first(&self, id: StreamId, claim: u32) -> Result<Option<u64>, StoreError> {
        self.store()?.next_claim_first(id, claim)
    }

    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        self.store()?.read(id, from, limits)
    }

    fn call(&self, id: CallId) -> Result<Option<CallRecord>, StoreError> {
        self.store()?.call(id)
    }

    fn lost_calls(&self, now: i64, limit: u32) -> Result<Vec<CallRecord>, StoreError> {
        self.store()?.lost_calls(now, limit)
    }

    fn due_timers(&self, now: i64, limit: u32) -> Result<Vec<DueTimer>, StoreError> {
        self.store()?.due_timers(now, limit)
    }

    fn due_aggregates(&self, now: i64, limit: u32) -> Result<Vec<DueAggregate>, StoreError> {
        self.store()?.due_aggregates(now, limit)
    }

    fn next_due(&self) -> Result<Option<i64>, StoreError> {
        self.store()?.next_due()
    }

    fn offered(&self, outlet: &str, now: i64) -> Result<bool, StoreError> {
        self.store()?.offered(outlet, now)
    }

    fn waiting_outlets(&self) -> Result<Vec<(String, i64)>, StoreError> {
        self.store()?.waiting_outlets()
    }

    fn stored_delivery(&self, id: DeliveryId) -> Result<Option<NewDelivery>, StoreError> {
        self.store()?.stored_delivery(id)
    }

    fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.store()?.attempts(id)
    }

    fn endpoint(&self, key: EndpointKey) -> Result<Option<EndpointRecord>, StoreError> {
        self.store()?.endpoint(key)
    }

    fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<EndpointRecord>, StoreError> {
        self.store()?.endpoints(principal, limit)
    }

    fn origin_proof(&self, principal: &str, origin: &str) -> Result<Option<OriginProof>, StoreError> {
        self.store()?.origin_proof(principal, origin)
    }

    fn next_verification(&self) -> Result<Option<StoreMillis>, StoreError> {
        self.store()?.next_verification()
    }

    fn pending(&self, principal: &str, most: u32) -> Result<u32, StoreError> {
        self.store()?.pending(principal, most)
    }

    fn deliveries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, StoreError> {
        self.store()?.deliveries(principal, subject, state, limit)
    }

    fn publishes(&self, after: u64, limit: u32) -> Result<Publishes, StoreError> {
        self.store()?.publishes(after, limit)
    }

    fn changes(&self) -> Result<Changes, StoreError> {
        self.store()?;
        let commits = self.place.commits.load(Ordering::SeqCst);
        let told = self.told.swap(commits, Ordering::SeqCst);
        Ok(if told == commits { Changes::Nothing } else { Changes::Anything })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn close(&self) -> Result<(), StoreError> {
        self.closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}

tidings_store::store_tests!(Places(Arc::default()), shared, durable);
