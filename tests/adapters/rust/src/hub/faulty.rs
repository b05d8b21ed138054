//! A store whose medium fails when a scenario says so.

use std::sync::Mutex;

use tidings::store::{Commit, CommitError, Done, MemoryStore, Store, StoreError, StoreErrorKind};
use tidings_store::layer::Layer;

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

impl Layer for FaultyStore {
    fn below(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, group: &[Commit]) -> Vec<Result<Vec<Done>, CommitError>> {
        match self.fault() {
            None => self.inner.commit(group),
            Some(kind) => group.iter().map(|_| Err(StoreError::new(kind, "the scenario says so").into())).collect(),
        }
    }
}
