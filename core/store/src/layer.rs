//! A store laid over another, for tests: a medium that fails, that forgets, that lies.

use tidings_proto::delivery::EndpointKey;
use tidings_proto::stream::StreamId;
use tidings_proto::time::{StoreMillis, UnixMillis};

use crate::commit::{Commit, CommitError, Done};
use crate::error::StoreError;
use crate::publish::Publishes;
use crate::record::{
    AttemptRecord, CallId, CallRecord, DeliveryId, DeliveryState, DeliverySummary, DueAggregate, EndpointRecord,
    NewDelivery, OriginProof, StreamInfo, StreamKey, Subject,
};
use crate::store::{Boot, Changes, DueTimer, Page, ReadLimits, Store};

/// Says which store lies below and what is different about this one; all else goes through. Whoever implements it is a
/// [`Store`]. Each method is the store's of that name; none of it is offered to hosts.
#[allow(missing_docs, reason = "each method is documented at the store's of that name")]
pub trait Layer: Send + Sync + 'static {
    /// The store below.
    fn below(&self) -> &dyn Store;

    fn commit(&self, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>> {
        self.below().commit(group)
    }

    fn timeline(&self, boot: &Boot, wall: UnixMillis) -> Result<i64, StoreError> {
        self.below().timeline(boot, wall)
    }

    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>, StoreError> {
        self.below().stream(key)
    }

    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>, StoreError> {
        self.below().stream_by_id(id)
    }

    fn next_claim_first(&self, id: StreamId, claim: u32) -> Result<Option<u64>, StoreError> {
        self.below().next_claim_first(id, claim)
    }

    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        self.below().read(id, from, limits)
    }

    fn call(&self, id: CallId) -> Result<Option<CallRecord>, StoreError> {
        self.below().call(id)
    }

    fn lost_calls(&self, now: StoreMillis, limit: u32) -> Result<Vec<CallRecord>, StoreError> {
        self.below().lost_calls(now, limit)
    }

    fn due_timers(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueTimer>, StoreError> {
        self.below().due_timers(now, limit)
    }

    fn due_aggregates(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueAggregate>, StoreError> {
        self.below().due_aggregates(now, limit)
    }

    fn next_due(&self) -> Result<Option<StoreMillis>, StoreError> {
        self.below().next_due()
    }

    fn offered(&self, outlet: &str, now: StoreMillis) -> Result<bool, StoreError> {
        self.below().offered(outlet, now)
    }

    fn waiting_outlets(&self) -> Result<Vec<(String, StoreMillis)>, StoreError> {
        self.below().waiting_outlets()
    }

    fn deliveries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, StoreError> {
        self.below().deliveries(principal, subject, state, limit)
    }

    fn stored_delivery(&self, id: DeliveryId) -> Result<Option<NewDelivery>, StoreError> {
        self.below().stored_delivery(id)
    }

    fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.below().attempts(id)
    }

    fn publishes(&self, after: u64, limit: u32) -> Result<Publishes, StoreError> {
        self.below().publishes(after, limit)
    }

    fn endpoint(&self, key: EndpointKey) -> Result<Option<EndpointRecord>, StoreError> {
        self.below().endpoint(key)
    }

    fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<EndpointRecord>, StoreError> {
        self.below().endpoints(principal, limit)
    }

    fn origin_proof(&self, principal: &str, origin: &str) -> Result<Option<OriginProof>, StoreError> {
        self.below().origin_proof(principal, origin)
    }

    fn next_verification(&self) -> Result<Option<StoreMillis>, StoreError> {
        self.below().next_verification()
    }

    fn pending(&self, principal: &str, most: u32) -> Result<u32, StoreError> {
        self.below().pending(principal, most)
    }

    fn changes(&self) -> Result<Changes, StoreError> {
        self.below().changes()
    }

    fn is_shared(&self) -> bool {
        self.below().is_shared()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.below().close()
    }
}

impl<L: Layer> Store for L {
    fn commit(&self, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>> {
        Layer::commit(self, group)
    }

    fn timeline(&self, boot: &Boot, wall: UnixMillis) -> Result<i64, StoreError> {
        Layer::timeline(self, boot, wall)
    }

    fn stream(&self, key: &StreamKey) -> Result<Option<StreamInfo>, StoreError> {
        Layer::stream(self, key)
    }

    fn stream_by_id(&self, id: StreamId) -> Result<Option<StreamInfo>, StoreError> {
        Layer::stream_by_id(self, id)
    }

    fn next_claim_first(&self, id: StreamId, claim: u32) -> Result<Option<u64>, StoreError> {
        Layer::next_claim_first(self, id, claim)
    }

    fn read(&self, id: StreamId, from: u64, limits: ReadLimits) -> Result<Option<Page>, StoreError> {
        Layer::read(self, id, from, limits)
    }

    fn call(&self, id: CallId) -> Result<Option<CallRecord>, StoreError> {
        Layer::call(self, id)
    }

    fn lost_calls(&self, now: StoreMillis, limit: u32) -> Result<Vec<CallRecord>, StoreError> {
        Layer::lost_calls(self, now, limit)
    }

    fn due_timers(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueTimer>, StoreError> {
        Layer::due_timers(self, now, limit)
    }

    fn due_aggregates(&self, now: StoreMillis, limit: u32) -> Result<Vec<DueAggregate>, StoreError> {
        Layer::due_aggregates(self, now, limit)
    }

    fn next_due(&self) -> Result<Option<StoreMillis>, StoreError> {
        Layer::next_due(self)
    }

    fn offered(&self, outlet: &str, now: StoreMillis) -> Result<bool, StoreError> {
        Layer::offered(self, outlet, now)
    }

    fn waiting_outlets(&self) -> Result<Vec<(String, StoreMillis)>, StoreError> {
        Layer::waiting_outlets(self)
    }

    fn deliveries(
        &self,
        principal: Option<&str>,
        subject: Option<&Subject>,
        state: Option<DeliveryState>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, StoreError> {
        Layer::deliveries(self, principal, subject, state, limit)
    }

    fn stored_delivery(&self, id: DeliveryId) -> Result<Option<NewDelivery>, StoreError> {
        Layer::stored_delivery(self, id)
    }

    fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>, StoreError> {
        Layer::attempts(self, id)
    }

    fn publishes(&self, after: u64, limit: u32) -> Result<Publishes, StoreError> {
        Layer::publishes(self, after, limit)
    }

    fn endpoint(&self, key: EndpointKey) -> Result<Option<EndpointRecord>, StoreError> {
        Layer::endpoint(self, key)
    }

    fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<EndpointRecord>, StoreError> {
        Layer::endpoints(self, principal, limit)
    }

    fn origin_proof(&self, principal: &str, origin: &str) -> Result<Option<OriginProof>, StoreError> {
        Layer::origin_proof(self, principal, origin)
    }

    fn next_verification(&self) -> Result<Option<StoreMillis>, StoreError> {
        Layer::next_verification(self)
    }

    fn pending(&self, principal: &str, most: u32) -> Result<u32, StoreError> {
        Layer::pending(self, principal, most)
    }

    fn changes(&self) -> Result<Changes, StoreError> {
        Layer::changes(self)
    }

    fn is_shared(&self) -> bool {
        Layer::is_shared(self)
    }

    fn close(&self) -> Result<(), StoreError> {
        Layer::close(self)
    }
}
