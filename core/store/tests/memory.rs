//! The memory store does what every store must do.

use std::sync::{Mutex, PoisonError};

use tidings_store::testkit::Harness;
use tidings_store::{MemoryStore, Store};

/// Holds the one handle there is.
struct InMemory(Mutex<Option<MemoryStore>>);

impl InMemory {
    fn new() -> Self {
        Self(Mutex::new(Some(MemoryStore::new())))
    }
}

impl Harness for InMemory {
    fn open(&self) -> Box<dyn Store> {
        let store = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::new(store.expect("neither shared nor durable: opened once"))
    }
}

tidings_store::store_tests!(InMemory::new());
