//! The [`Store`] trait of Tidings, a memory store, and the test kit that every store must pass (module `testkit`, behind
//! the feature of that name).
//!
//! A store keeps streams, calls, deliveries and timers. Every change is a [`Commit`]: a list of operations that become
//! visible together or not at all. Several commits are handed over as a group, so that a store can make them durable
//! with one sync; each still succeeds or fails on its own.
#![forbid(unsafe_code)]

mod chunk;
mod commit;
mod error;
pub mod flow;
#[cfg(feature = "layer")]
pub mod layer;
mod memory;
mod publish;
mod record;
mod store;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use chunk::{Chunk, ChunkBuilder, ChunkEvents, Event, Identity, NewEvent};
pub use commit::{
    AppendShared, Claimed, Commit, CommitError, Done, Durability, EndpointNews, JoinGroup, Lease, Op, Purge, Refused,
    Settle, Watch,
};
pub use error::{StoreError, StoreErrorKind};
pub use flow::Flow;
pub use memory::MemoryStore;
pub use publish::{PUBLISHES_KEPT, Publish, Publishes};
pub use record::{
    AggregateId, AttemptRecord, Batch, CallId, CallOutcome, CallRecord, Delivery, DeliveryId, DeliveryState,
    DeliverySummary, DueAggregate, EndpointOwner, EndpointRecord, GroupKey, NewAggregate, NewDelivery, OriginProof,
    Outlet, Sealed, StreamInfo, StreamKey, Subject, Taken, TaskRecord, TaskTerms, TimerKind, WorkerId,
};
#[cfg(unix)]
pub use store::Wake;
pub use store::{Boot, Changes, DueTimer, Page, ReadLimits, Store};
