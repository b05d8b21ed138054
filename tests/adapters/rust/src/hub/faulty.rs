//! A store whose medium fails when a scenario says so.

use std::sync::Mutex;

use tidings::proto::delivery::EndpointKey;
use tidings::proto::stream::StreamId;
use tidings::store::{
    AttemptRecord, Boot, CallId, CallRecord, Changes, Commit, CommitError, DeliveryId, DeliveryState, DeliverySummary,
    Done, DueAggregate, DueTimer, EndpointRecord, MemoryStore, NewDelivery, OriginProof, Page, Publishes, ReadLimits,
    Store, StoreError, StoreErrorKind, StreamInfo, StreamKey, Subject,
};

/// A memory store behind a medium that may fail.
#[derive(Default)]
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    fault: Mutex<Option<StoreErrorKind>>,
}

impl FaultyStore {
    /// Every commit fails so from now on, or works again.
    pub(crate) fn set(&self, fault: Option<StoreErrorKind>) {
        if let Ok(mut current) = self.fault.lock() {
            *current = fault;
        }
    }

    fn fault(&self) -> Option<StoreErrorKind> {
        self.fault.lock().ok().and_then(|fault| *fault)
    }
}

impl Store for FaultyStore {
    fn commit(&self, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>> {
        match self.fault() {
            None => self.inner.commit(group),
            Some(kind) => group.iter().map(|_| Err(StoreError::new(kind, "the scenario says so").into())).collect(),
        }
    }

    fn timeline(&self, boot: &Boot, wall: i64) -> Result<i64, StoreError> {
        self.inner.timeline(boot, wall)
    }

    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>, StoreError> {
        self.inner.stream(key)
    }

    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>, StoreError> {
        self.inner.stream_by_id(id)
    }

    fn next_claim_first(&self, id: StreamId, claim: u32) -> Result<Option<u64>, StoreError> {
        self.inner.next_claim_first(id, claim)
    }

    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        self.inner.read(id, from, limits)
    }

    fn call(&self, id: CallId) -> Result<Option<CallRecord>, StoreError> {
        self.inner.call(id)
    }

    fn lost_calls(&self, now: i64, limit: u32) -> Result<Vec<CallRecord>, StoreError> {
        self.inner.lost_calls(now, limit)
    }

    fn due_timers(&self, now: i64, limit: u32) -> Result<Vec<DueTimer>, StoreError> {
        self.inner.due_timers(now, limit)
    }

    fn due_aggregates(&self, now: i64, limit: u32) -> Result<Vec<DueAggregate>, StoreError> {
        self.inner.due_aggregates(now, limit)
    }

    fn next_due(&self) -> Result<Option<i64>, StoreError> {
        self.inner.next_due()
    }

    fn offered(&self, outlet: &str, now: i64) -> Result<bool, StoreError> {
        self.inner.offered(outlet, now)
    }

    fn waiting_outlets(&self) -> Result<Vec<(String, i64)>, StoreError> {
        self.inner.waiting_outlets()
    }

    fn deliveries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, StoreError> {
        self.inner.deliveries(principal, subject, state, limit)
    }

    fn publishes(&self, after: u64, limit: u32) -> Result<Publishes, StoreError> {
        self.inner.publishes(after, limit)
    }

    fn stored_delivery(&self, id: DeliveryId) -> Result<Option<NewDelivery>, StoreError> {
        self.inner.stored_delivery(id)
    }

    fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.inner.attempts(id)
    }

    fn endpoint(&self, key: EndpointKey) -> Result<Option<EndpointRecord>, StoreError> {
        self.inner.endpoint(key)
    }

    fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<EndpointRecord>, StoreError> {
        self.inner.endpoints(principal, limit)
    }

    fn origin_proof(&self, principal: &str, origin: &str) -> Result<Option<OriginProof>, StoreError> {
        self.inner.origin_proof(principal, origin)
    }

    fn next_verification(&self) -> Result<Option<i64>, StoreError> {
        self.inner.next_verification()
    }

    fn pending(&self, principal: &str, most: u32) -> Result<u32, StoreError> {
        self.inner.pending(principal, most)
    }

    fn changes(&self) -> Result<Changes, StoreError> {
        self.inner.changes()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}
